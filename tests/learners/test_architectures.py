"""Teams of any architectures and tokenizers, of any size: each member does what it would do alone."""

import copy

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPTNeoXConfig, LlamaConfig, PreTrainedTokenizerFast, Qwen2Config

from comlrl_envs import from_reward
from comlrl_learners import (
    IACTrainer,
    LLMPolicy,
    MAACTrainer,
    MADPOTrainer,
    MAGRPOTrainer,
    SamplingParams,
)
from comlrl_learners.policy import Request, distinct_policies
from comlrl_learners.rollout import Visit

from .conftest import build
from .toy_models import flat_gradient, flat_weights

TEXT = ["the bees fly over the red house", "who writes the long story of the bees", "a short reply, then the next one"]
ROWS = [{"id": f"row-{i}", "prompt": text} for i, text in enumerate(TEXT)]
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
KINDS = {
    "magrpo": (MAGRPOTrainer, {}),
    "iac": (IACTrainer, {}),
    "iac with critics": (IACTrainer, {"use_separate_critic": True}),
    "maac": (MAACTrainer, {}),
    "madpo": (MADPOTrainer, {}),
}
TEAMS = {
    "three": ("llama", "gpt2", "llama"),
    "five": ("gpt2", "llama", "gpt_neox", "qwen2", "gpt2"),
}


def chat_tokenizer():
    """Byte-level BPE with a chat template and a token for padding."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    specials = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=290, special_tokens=specials, initial_alphabet=alphabet)
    )
    wrapped = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<|pad|>", eos_token="<|end|>")
    wrapped.chat_template = TEMPLATE
    return wrapped


def plain_tokenizer():
    """Unigram pieces, no template, and nothing to pad with."""
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=60, special_tokens=["<unk>", "</s>"], unk_token="<unk>")
    made.train_from_iterator(TEXT, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>", unk_token="<unk>")


TOKENIZERS = {"chat": chat_tokenizer(), "plain": plain_tokenizer()}


def config_of(kind, tokenizer):
    common = {
        "vocab_size": len(tokenizer),
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": None,
        "bos_token_id": None,
    }
    deep = {
        **common, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "max_position_embeddings": 256,
    }  # fmt: skip
    return {
        "llama": lambda: LlamaConfig(**deep, num_key_value_heads=1),
        "qwen2": lambda: Qwen2Config(**deep, num_key_value_heads=2),
        "gpt_neox": lambda: GPTNeoXConfig(**deep),
        "gpt2": lambda: GPT2Config(**common, n_embd=16, n_layer=2, n_head=2, n_positions=256),
    }[kind]()


def member(kind, seed=0, tokens=None, double=True, **sampling):
    """A random policy; Llama and Qwen2 speak chat."""
    tokenizer = TOKENIZERS[tokens or ("chat" if kind in ("llama", "qwen2") else "plain")]
    chosen = {"max_new_tokens": 6, "temperature": 0.7, **sampling}
    return LLMPolicy(build(config_of(kind, tokenizer), seed, double), tokenizer, SamplingParams(**chosen))


def team(size, double=True):
    """Members of different temperatures too."""
    return [member(kind, seed, double=double, temperature=0.6 + 0.1 * seed) for seed, kind in enumerate(TEAMS[size])]


def letters(texts):
    return sum((place + 2) * sum(map(ord, text)) for place, text in enumerate(texts)) % 101 / 101


def game(count, turns=1):
    def again(prompt, agent_completions, num_agents):
        return [f"{prompt} {text[:5]}" for text in agent_completions]

    return from_reward(
        ROWS,
        lambda *texts: [letters(joint) for joint in zip(*texts, strict=True)],
        feedback=again if turns > 1 else None,
        max_turns=turns,
        num_agents=count,
    )


def trainer(kind, policies, count, turns=1, critics=None, **settings):
    cls, chosen = KINDS[kind]
    given = {"output_dir": None, "num_generations": 3, "items_per_rollout": 3, "learning_rate": 1e-3, "max_steps": 1,
             "eval_every": 0, **chosen, **settings}  # fmt: skip
    return cls(env=game(count, turns), policies=policies, config=cls.config_class(**given), critics=critics)


def collect(one):
    return one.algorithm.collect([Visit(one.playground.tasks[i], 0, one.config.seed, "train") for i in range(3)])


def samples_of(batch):
    """By agent, all completions of a batch."""
    nodes = [node for root in batch.roots for node in root.subtree()]
    return {agent: [c for node in nodes for c in node.completions[agent]] for agent in nodes[0].acting}


def weights(one):
    return {agent: flat_weights(policy) for agent, policy in one.team.items()}


def test_the_two_tokenizers_have_nothing_in_common():
    ids = [tokenizer("the bees")["input_ids"] for tokenizer in TOKENIZERS.values()]
    assert ids[0] != ids[1] and len(TOKENIZERS["chat"]) != len(TOKENIZERS["plain"])
    assert TOKENIZERS["chat"].eos_token_id == TOKENIZERS["plain"].eos_token_id == 1
    assert TOKENIZERS["plain"].pad_token_id is None and TOKENIZERS["plain"].chat_template is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "turns"), [("three", 2), ("five", 1)])
def test_in_a_mixed_team_everyone_writes_as_alone_and_learns(kind, size, turns, plain_logprobs):
    one = trainer(kind, team(size), len(TEAMS[size]), turns)
    batch = collect(one)
    for agent, written in samples_of(batch).items():
        policy = one.team[agent]
        assert len(written) == (9 if turns == 1 else 9 + 27)
        assert all(policy.tokenizer.decode(c.ids, skip_special_tokens=True) == c.text for c in written)
        with torch.no_grad():
            for completion in written:
                alone = plain_logprobs(policy, completion, policy.sampling.temperature)
                torch.testing.assert_close(
                    alone, torch.tensor(completion.logprobs, dtype=torch.float64), atol=1e-9, rtol=0
                )
    before = weights(one)
    one.algorithm.update(batch, 0, 1.0)
    for agent, now in weights(one).items():
        assert torch.isfinite(now).all() and not torch.equal(now, before[agent])


@pytest.mark.parametrize("kind", KINDS)
def test_in_single_precision_too(kind, plain_logprobs):
    one = trainer(kind, team("three", double=False), 3)
    for agent, written in samples_of(collect(one)).items():
        policy = one.team[agent]
        with torch.no_grad():
            for completion in written:
                alone = plain_logprobs(policy, completion, policy.sampling.temperature)
                torch.testing.assert_close(alone, torch.tensor(completion.logprobs), atol=1e-5, rtol=0)
    assert one.train().rounds == 1


@pytest.mark.parametrize("kind", KINDS)
def test_threads_of_a_mixed_team_change_nothing(kind):
    one, other = (trainer(kind, team("three"), 3, agent_threads=threads) for threads in (True, False))
    for made in (one, other):
        made.algorithm.update(collect(made), 0, 1.0)
    for agent, now in weights(one).items():
        assert torch.equal(now, weights(other)[agent])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_one_agent_trains_by_the_same_code(kind, architecture):
    one = trainer(kind, member(architecture), 1)
    before = weights(one)["agent_0"]
    result = one.train()
    assert result.env_steps == 9 and not torch.equal(weights(one)["agent_0"], before)


@pytest.mark.parametrize("kind", KINDS)
def test_one_folder_gives_copies_that_part(kind, tmp_path):
    member("gpt_neox").save(tmp_path)
    one = trainer(kind, str(tmp_path), 3, dtype="float32", sampling=SamplingParams(max_new_tokens=6))
    first, second, third = weights(one).values()
    assert torch.equal(first, second) and torch.equal(second, third)
    one.train()
    first, second, third = weights(one).values()
    assert not torch.equal(first, second) and not torch.equal(second, third)


@pytest.mark.parametrize("kind", ["magrpo", "iac with critics", "maac"])
def test_a_shared_policy_takes_the_step_of_one_optimizer_over_everyones_samples(kind, plain_logprobs):
    shared, own = member("llama", 1), member("gpt2", 2)
    one = trainer(kind, [shared, own, shared], 3, microbatch_tokens=64)
    twin = LLMPolicy(copy.deepcopy(shared.model), shared.tokenizer, shared.sampling)
    batch = collect(one)
    joined = [sample for agent in ("agent_0", "agent_2") for sample in batch.samples[agent]]
    assert len(joined) == 18 and len({sample.agent for sample in joined}) == 2
    losses = [-sample.advantage * plain_logprobs(twin, sample.completion).mean() for sample in joined]
    torch.stack(losses).mean().backward()
    assert flat_gradient(twin).abs().max() > 1e-4
    torch.nn.utils.clip_grad_norm_(twin.model.parameters(), one.config.max_grad_norm)
    adam = torch.optim.AdamW(twin.model.parameters(), 1e-3, betas=one.config.adam_betas, weight_decay=0.0)
    adam.step()
    one.algorithm.update(batch, 0, 1.0)
    assert [agents for _, agents in distinct_policies(one.team)] == [("agent_0", "agent_2"), ("agent_1",)]
    assert sum(name.startswith("policy-") for name in one.algorithm.holdings().optimizers) == 2
    torch.testing.assert_close(flat_weights(shared), flat_weights(twin), atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mixed_team_is_saved_and_named_again(kind, tmp_path):
    policies = [
        member("llama", 1, double=False), member("gpt2", 2, double=False), member("llama", 3, "plain", double=False),
    ]  # fmt: skip
    one = trainer(kind, policies, 3, output_dir=str(tmp_path), transcripts_every=0)
    folder = one.train().folder
    again = trainer(kind, folder, 3, sampling=policies[0].sampling)
    for agent, policy in one.team.items():
        loaded = again.team[agent]
        assert type(loaded.model) is type(policy.model) and torch.equal(flat_weights(loaded), flat_weights(policy))
        assert loaded.uses_chat == policy.uses_chat
        requests = [Request(other.encode("who writes the story"), key=5) for other in (policy, loaded)]
        assert policy.generate(requests[:1]) == loaded.generate(requests[1:])


@pytest.mark.parametrize("critic", ["gpt2", "llama"])
def test_a_central_critic_may_be_of_another_kind_than_the_actors(critic):
    judge = member(critic, 7)
    policies = [member("llama" if critic == "gpt2" else "gpt_neox", seed) for seed in (1, 2)]
    one = trainer("maac", policies, 2, critics=judge)
    (kept,) = {id(c): c for c in one.algorithm.critics.values()}.values()
    with torch.no_grad():
        for parameter in kept.head.parameters():
            parameter.normal_(0, 0.5)
    batch = collect(one)
    for sample in batch.values["agent_0"]:
        assert sample.prompt.ids == judge.encode(sample_state(batch, sample)).ids
        trunk = judge.model.base_model(input_ids=torch.tensor([sample.prompt.ids])).last_hidden_state[:, -1]
        assert sample.old_value == pytest.approx(kept.head(trunk).item(), abs=1e-9)
    before = flat_weights(judge)
    one.algorithm.update(batch, 0, 1.0)
    assert not torch.equal(flat_weights(judge), before)


def sample_state(batch, sample):
    """The joint state that a critic's sample is about."""
    (node,) = [root for root in batch.roots if root.visit.task.id == sample.task_id]
    return "\n\n".join(f"[{name}]\n{text}" for name, text in node.prompts.items())
