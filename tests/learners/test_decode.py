import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, MistralConfig, Qwen2Config, Qwen3Config

import comlrl_learners.policy as policy_module
from comlrl_learners.generation import hf
from comlrl_learners.generation.cache import growing_cache
from comlrl_learners.generation.fused import FusedDecoder, can_fuse
from comlrl_learners.policy import Request

from .small import CONFIGS, FUSED, LLAMA_LIKE, policy

TEXTS = ("a", "some words", "a", "three more words", "zz", "some words", "b", "longest of all prompts")


def requests(one):
    return [Request(one.encode(text), key) for key, text in enumerate(TEXTS)]


@pytest.mark.parametrize("kind", CONFIGS)
def test_eight_at_once_equal_one_at_a_time_in_any_order(kind, monkeypatch):
    one = policy(kind)
    given = requests(one)
    together = one.generate(given)
    alone = [one.generate([request])[0] for request in given]
    backwards = one.generate(given[::-1])[::-1]
    monkeypatch.setattr(policy_module, "GENERATION_TOKENS", 80)
    chunked = one.generate(given)
    for other in (alone, backwards, chunked):
        assert [c.ids for c in other] == [c.ids for c in together]


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("minimum", [0, 12])
def test_logprobs_at_sampling_equal_those_at_update(kind, minimum):
    one = policy(kind, min_new_tokens=minimum)
    written = one.generate(requests(one))
    assert minimum == 0 or all(len(c.ids) == 12 for c in written)
    found = one.logprobs(written)
    for row, completion in zip(found.logprobs, written, strict=True):
        assert torch.tensor(completion.logprobs) == pytest.approx(row[: len(completion.ids)].detach(), abs=1e-5)


def test_rows_that_end_leave_the_batch_and_change_nothing():
    one = policy()
    with torch.no_grad():
        one.model.lm_head.weight[1] *= 6
    written = one.generate(requests(one) * 4)
    assert len({len(c.ids) for c in written}) > 2
    assert all(c.ids[-1] == 1 and 1 not in c.ids[:-1] for c in written if c.finished)
    assert [c.ids for c in written[:8]] == [one.generate([request])[0].ids for request in requests(one)]


def test_every_end_id_ends_a_completion():
    one = policy()
    one.model.generation_config.eos_token_id = [1, 50]
    several = policy_module.LLMPolicy(one.model, one.tokenizer, one.sampling)
    assert several.backbone.eos_ids == (1, 50)
    with torch.no_grad():
        one.model.lm_head.weight[50] = one.model.lm_head.weight.abs().max() * 5
    ends = {c.ids[-1] for c in several.generate(requests(several)) if c.finished}
    assert 50 in ends


def test_an_end_token_inside_the_prompt_ends_nothing():
    one = policy(min_new_tokens=4, pad="<eos>")
    completion = one.generate([Request(one.encode("a<eos>b"), 0)])[0]
    assert 1 in completion.prompt.ids
    assert len(completion.ids) >= 4
    assert completion.text


def test_changed_weights_are_seen_by_the_next_decode():
    one = policy()
    before = one.generate(requests(one))
    with torch.no_grad():
        one.model.model.layers[0].self_attn.q_proj.weight.mul_(-3)
    after = one.generate(requests(one))
    assert before[0].ids != after[0].ids
    row = one.logprobs(after[:1]).logprobs[0]
    assert torch.tensor(after[0].logprobs) == pytest.approx(row.detach(), abs=1e-5)


@pytest.mark.parametrize("kind", FUSED)
def test_a_fused_step_equals_the_models_own(kind):
    one = policy(kind)
    assert can_fuse(one.model)
    with torch.inference_mode():
        results = []
        for advance in (one.backbone.forward, FusedDecoder(one.model).step):
            cache = growing_cache(2, 12)
            _, mask = one.backbone.read_prompts([[3, 4, 5], [6, 7, 8, 9, 10]], cache)
            mask = torch.nn.functional.pad(mask, (0, 4), value=1)
            positions = torch.tensor([[3], [5]])
            steps = [
                advance(torch.tensor([[11 + t], [20 + t]]), mask[:, : 6 + t], positions + t, cache) for t in range(4)
            ]
            results.append(torch.cat(steps, 1))
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-4)


def test_what_is_not_the_plain_layer_decodes_through_its_own_forward():
    for kind in set(CONFIGS) - set(FUSED):
        assert not can_fuse(policy(kind).model)
    for change in ({"attention_bias": True}, {"mlp_bias": True}, {"hidden_act": "gelu"}):
        assert not can_fuse(LlamaForCausalLM(LlamaConfig(**LLAMA_LIKE, **change)))
    peft = pytest.importorskip("peft")
    wrapped = peft.get_peft_model(policy().model, peft.LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
    assert not can_fuse(wrapped.get_base_model())


def test_the_growing_cache_equals_the_dynamic_one():
    torch.manual_seed(0)
    ours, theirs = growing_cache(1, 6), DynamicCache()
    for length in (3, 1, 2):
        keys, values = torch.randn(4, 2, length, 8), torch.randn(4, 2, length, 8)
        for one, other in zip(ours.update(keys, values, 0), theirs.update(keys, values, 0), strict=True):
            assert torch.equal(one, other)
        for cache in (ours, theirs):
            cache.batch_select_indices(torch.tensor([1, 0, 3, 3]))
    assert ours.get_seq_length() == theirs.get_seq_length() == 6


def test_a_lora_team_member_trains_and_decodes():
    peft = pytest.importorskip("peft")
    base = policy()
    model = peft.get_peft_model(base.model, peft.LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
    one = policy_module.LLMPolicy(model, base.tokenizer, dataclasses.replace(base.sampling))
    written = one.generate(requests(one))
    one.logprobs(written).logprobs.sum().backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters() if p.requires_grad)


def known_ends(one, factor=6):
    """Make the end token likely, so that rows end at different places."""
    with torch.no_grad():
        one.model.get_output_embeddings().weight[1] *= factor
    return one


def same_tokens(first, second):
    assert [c.ids for c in first] == [c.ids for c in second]
    assert [c.finished for c in first] == [c.finished for c in second]
    assert [c.text for c in first] == [c.text for c in second]
    for one, other in zip(first, second, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


@pytest.mark.parametrize("pad", ["<pad>", "<eos>"])
def test_eight_equal_eight_of_one_while_rows_end_early(make_policy, architecture, monkeypatch, pad):
    one = known_ends(make_policy(architecture, max_new_tokens=16, pad=pad))
    given = requests(one)
    together = one.generate(given)
    assert len({len(c.ids) for c in together}) > 2 and min(len(c.ids) for c in together) < 13
    same_tokens([one.generate([request])[0] for request in given], together)
    same_tokens(one.generate(given[::-1])[::-1], together)
    for budget in (1, 80, 120):
        monkeypatch.setattr(policy_module, "GENERATION_TOKENS", budget)
        same_tokens(one.generate(given), together)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.01])
def test_when_rows_are_dropped_changes_nothing(make_policy, architecture, monkeypatch, share):
    one = known_ends(make_policy(architecture, max_new_tokens=16))
    together = one.generate(requests(one))
    monkeypatch.setattr(hf, "COMPACT_BELOW", share)
    same_tokens(one.generate(requests(one)), together)


@pytest.mark.parametrize(
    "sampling",
    [{"top_k": 5}, {"top_p": 0.7}, {"temperature": 0.0}, {"temperature": 1.3, "min_new_tokens": 5}],
    ids=lambda s: "-".join(s),
)
def test_a_batch_equals_its_rows_under_every_distribution(make_policy, sampling):
    one = known_ends(make_policy(**sampling))
    given = requests(one)
    same_tokens([one.generate([request])[0] for request in given], one.generate(given))


@pytest.mark.parametrize("minimum", [0, 3, 16])
def test_recorded_logprobs_equal_those_of_training(make_policy, architecture, plain_logprobs, minimum):
    one = known_ends(make_policy(architecture, max_new_tokens=16, min_new_tokens=minimum, eos_ids=[1, 50]))
    written = one.generate(requests(one))
    assert all(len(c.ids) >= minimum for c in written)
    found = one.logprobs(written)
    for row, completion in zip(found.logprobs.tolist(), written, strict=True):
        assert row[: len(completion.ids)] == pytest.approx(completion.logprobs, abs=1e-5)
        if minimum == 0:
            assert plain_logprobs(one, completion).tolist() == pytest.approx(completion.logprobs, abs=1e-5)


def test_truncated_logprobs_are_those_of_the_kept_tokens(make_policy):
    one = make_policy(top_k=3, max_new_tokens=6)
    for completion in one.generate(requests(one)):
        ids = torch.tensor([[*completion.prompt.ids, *completion.ids]])
        logits = one.model(input_ids=ids).logits[0, len(completion.prompt.ids) - 1 : -1].detach() / 0.7
        best = logits.topk(3)
        for values, kept, token, logprob in zip(
            best.values.log_softmax(-1), best.indices.tolist(), completion.ids, completion.logprobs, strict=True
        ):
            assert logprob == pytest.approx(float(values[kept.index(token)]), abs=1e-5)


def test_greedy_tokens_are_those_of_transformers_own_generation(make_policy, architecture):
    one = make_policy(architecture, temperature=0.0, max_new_tokens=10)
    for request in requests(one)[:4]:
        ids = torch.tensor([request.prompt.ids])
        theirs = one.model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=10, do_sample=False, pad_token_id=0
        )[0, ids.shape[1] :]
        assert list(one.generate([request])[0].ids) == theirs.tolist()


def test_finished_tells_whether_the_last_token_is_an_end_and_none_is_inside(make_policy):
    one = known_ends(make_policy(eos_ids=[1, 50], max_new_tokens=5))
    written = one.generate([Request(one.encode(text), key) for key, text in enumerate(TEXTS * 4)])
    assert {c.finished for c in written} == {True, False}
    for completion in written:
        assert completion.finished == (completion.ids[-1] in (1, 50))
        assert not {1, 50} & set(completion.ids[:-1])
        assert completion.finished or len(completion.ids) == 5


def test_one_new_token_is_written_where_one_is_allowed(make_policy, architecture):
    one = make_policy(architecture, max_new_tokens=1)
    written = one.generate(requests(one))
    assert [len(c.ids) for c in written] == [1] * 8
    same_tokens([one.generate([request])[0] for request in requests(one)], written)


def test_equal_keys_and_prompts_give_equal_completions_and_other_keys_others(make_policy):
    one = make_policy()
    prompt = one.encode("a")
    first, again, other = one.generate([Request(prompt, 5), Request(prompt, 5), Request(prompt, 6)])
    assert first == again and first.ids != other.ids


def test_sampled_first_tokens_have_the_models_frequencies(make_policy):
    one = make_policy(max_new_tokens=1)
    prompt = one.encode("ab")
    written = one.generate([Request(prompt, key) for key in range(4_000)])
    logits = one.model(input_ids=torch.tensor([prompt.ids])).logits[0, -1].detach().double() / 0.7
    expected = logits.softmax(-1) * 4_000
    counts = torch.bincount(torch.tensor([c.ids[0] for c in written]), minlength=len(expected)).double()
    common = expected >= 20
    statistic = float(((counts - expected) ** 2 / expected)[common].sum())
    degrees = int(common.sum())
    assert degrees > 20 and statistic < degrees + 4 * (2 * degrees) ** 0.5


def fused_and_own(one, steps=5):
    """Logits of the same forced tokens by both steps, over prompts of different lengths, rows dropped half way."""
    results = []
    prompts = [[3, 4, 5], [6, 7, 8, 9, 10], [11]]
    with torch.inference_mode():
        for advance in (one.backbone.forward, FusedDecoder(one.model).step):
            cache = growing_cache(one.backbone.num_layers, 5 + steps)
            _, mask = one.backbone.read_prompts(prompts, cache)
            mask = torch.nn.functional.pad(mask, (0, steps), value=1)
            positions, rows = torch.tensor([[3], [5], [1]]), torch.arange(3)
            for step in range(steps):
                if step == 2:
                    cache.batch_select_indices(torch.tensor([0, 2]))
                    mask, positions, rows = mask[[0, 2]], positions[[0, 2]], rows[[0, 2]]
                tokens = (20 + 7 * step + rows)[:, None]
                results.append(advance(tokens, mask[:, : 6 + step], positions + step, cache))
    return results[:steps], results[steps:]


FUSABLE = {
    "qwen2-tied": Qwen2Config(**LLAMA_LIKE, tie_word_embeddings=True),
    "llama-one-kv-head": LlamaConfig(**{**LLAMA_LIKE, "num_key_value_heads": 1}),
    "llama-all-kv-heads": LlamaConfig(**{**LLAMA_LIKE, "num_key_value_heads": 4}, head_dim=6),
    "llama3-rope": LlamaConfig(
        **LLAMA_LIKE,
        rope_parameters={
            "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    ),
    "qwen3-wide-heads": Qwen3Config(**LLAMA_LIKE, head_dim=16, rms_norm_eps=1e-3),
    "yarn-rope": Qwen3Config(
        **LLAMA_LIKE, head_dim=8,
        rope_parameters={
            "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("kind", [*FUSED, *FUSABLE])
def test_fused_steps_equal_the_models_own_behind_padding_and_after_rows_left(make_policy, kind, double):
    one = make_policy(FUSABLE.get(kind, kind), double=double)
    assert can_fuse(one.model) is not double  # the exact norms of double precision are the tests' own
    for own, fused in zip(*fused_and_own(one), strict=True):
        # The own forward rounds its norms to single precision, whatever the dtype.
        torch.testing.assert_close(fused, own, atol=1e-6 if double else 1e-5, rtol=1e-5)


UNFUSABLE = {
    "sliding-window": MistralConfig(**LLAMA_LIKE, sliding_window=4),
    "qwen2-window": Qwen2Config(**LLAMA_LIKE, use_sliding_window=True, sliding_window=4, max_window_layers=1),
    "qwen3-window": Qwen3Config(**LLAMA_LIKE, use_sliding_window=True, sliding_window=4, max_window_layers=0),
    "attention-bias": LlamaConfig(**LLAMA_LIKE, attention_bias=True),
    "qwen3-attention-bias": Qwen3Config(**LLAMA_LIKE, head_dim=8, attention_bias=True),
    "mlp-bias": LlamaConfig(**LLAMA_LIKE, mlp_bias=True),
    "gelu": LlamaConfig(**LLAMA_LIKE, hidden_act="gelu"),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNFUSABLE)
def test_what_cannot_be_fused_still_decodes_by_its_own_forward(make_policy, kind):
    one = make_policy(UNFUSABLE[kind])
    assert not can_fuse(one.model)
    written = one.generate(requests(one))
    for row, completion in zip(one.logprobs(written).logprobs.tolist(), written, strict=True):
        assert row[: len(completion.ids)] == pytest.approx(completion.logprobs, abs=1e-5)


@pytest.mark.parametrize("kind", ["gpt2", "gpt_neox", "gemma3", "mistral-window"])
def test_other_families_are_not_fused(make_policy, kind):
    assert not can_fuse(make_policy(kind).model)


@pytest.mark.parametrize(
    "target", ["q_proj", "o_proj", "down_proj", "lm_head", "embed_tokens", "input_layernorm", "q_norm", "norm"]
)
def test_an_adapter_on_any_part_is_not_lost_in_decoding(make_policy, target):
    """An adapter that lies inside the model, as transformers loads it: the class keeps its name."""
    peft = pytest.importorskip("peft")
    one = make_policy("qwen3")
    if "norm" in target:
        config = peft.LNTuningConfig(target_modules=[target], task_type="CAUSAL_LM")
    else:
        config = peft.LoraConfig(target_modules=[target], task_type="CAUSAL_LM", init_lora_weights=False, r=4)
    peft.inject_adapter_in_model(config, one.model)
    with torch.no_grad():
        for name, parameter in one.model.named_parameters():
            if "ln_tuning_layers" in name:
                parameter.add_(torch.linspace(-1, 1, parameter.numel()))
    written = one.generate(requests(one))
    for row, completion in zip(one.logprobs(written).logprobs.tolist(), written, strict=True):
        assert row[: len(completion.ids)] == pytest.approx(completion.logprobs, abs=1e-5)
    assert not can_fuse(one.model)


@pytest.mark.parametrize(
    "name", ["q_proj", "v_proj", "o_proj", "up_proj", "input_layernorm", "embed_tokens", "lm_head"]
)
def test_weights_changed_in_place_are_seen_by_the_next_decode(make_policy, name):
    one = make_policy("llama")
    before = one.generate(requests(one))
    with torch.no_grad():
        for module_name, module in one.model.named_modules():
            if module_name.endswith(name):
                module.weight.add_(torch.linspace(-0.5, 0.5, module.weight.numel()).view_as(module.weight))
    after = one.generate(requests(one))
    assert [c.logprobs for c in before] != [c.logprobs for c in after]
    for row, completion in zip(one.logprobs(after).logprobs.tolist(), after, strict=True):
        assert row[: len(completion.ids)] == pytest.approx(completion.logprobs, abs=1e-5)


def test_an_optimizer_step_between_two_decodes_is_seen(make_policy):
    one = make_policy()
    optimizer = torch.optim.AdamW(one.model.parameters(), lr=0.05)
    for _ in range(2):
        written = one.generate(requests(one))
        found = one.logprobs(written)
        for row, completion in zip(found.logprobs.tolist(), written, strict=True):
            assert row[: len(completion.ids)] == pytest.approx(completion.logprobs, abs=1e-5)
        torch.where(found.mask, found.logprobs, 0.0).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.lists(st.integers(0, 2), min_size=1, max_size=5)), max_size=5))
def test_the_growing_cache_follows_the_dynamic_one_through_any_history(history):
    generator = torch.Generator().manual_seed(0)
    ours, theirs, rows = growing_cache(2, 24), DynamicCache(), 3
    for length, indices in [(2, [0, 1, 2]), *history]:
        for layer in range(2):
            keys, values = (torch.randn(rows, 2, length, 4, generator=generator) for _ in range(2))
            grown, copied = ours.update(keys, values, layer), theirs.update(keys, values, layer)
            assert torch.equal(grown[0], copied[0]) and torch.equal(grown[1], copied[1])
        chosen = torch.tensor([index % rows for index in indices])
        for cache in (ours, theirs):
            cache.batch_select_indices(chosen)
        rows = len(indices)
        for layer in range(2):
            assert torch.equal(ours.layers[layer].keys, theirs.layers[layer].keys)
            assert torch.equal(ours.layers[layer].values, theirs.layers[layer].values)
        assert ours.get_seq_length() == theirs.get_seq_length()


def test_a_model_wrapped_by_peft_decodes_as_its_rows_alone_and_as_it_trains(make_policy, architecture, lora):
    one = lora(make_policy(architecture))
    given = requests(one)
    together = one.generate(given)
    same_tokens([one.generate([request])[0] for request in given], together)
    for row, completion in zip(one.logprobs(together).logprobs.tolist(), together, strict=True):
        assert row[: len(completion.ids)] == pytest.approx(completion.logprobs, abs=1e-5)
