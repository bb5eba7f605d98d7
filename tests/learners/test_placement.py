"""Where models lie, which of them learn and how fast, in which precision, and when they are let go."""

import gc
import threading
import weakref

import pytest
import torch
from torch import nn

from comlrl_learners import (
    ConfigError,
    IACTrainer,
    LLMPolicy,
    MAACTrainer,
    MADPOTrainer,
    MAGRPOConfig,
    MAGRPOTrainer,
    PolicyError,
    SamplingParams,
)
from comlrl_learners.optimisation import WeightOptimizer
from comlrl_learners.placement import place
from comlrl_learners.samples import Completion, Prompt

from .small import policy
from .small_policies import rows_of, trainer, weights
from .toy_models import flat_weights, toy_policy

AGENTS = ("summarizer", "elaborator")
KINDS = {
    "magrpo": (MAGRPOTrainer, {}),
    "magrpo with a reference": (MAGRPOTrainer, {"kl_coef": 0.1}),
    "iac": (IACTrainer, {}),
    "iac with critics": (IACTrainer, {"use_separate_critic": True}),
    "maac": (MAACTrainer, {}),
    "madpo": (MADPOTrainer, {}),
    "madpo with a reference": (MADPOTrainer, {"reference_free": False}),
}


def made(kind="magrpo", **settings):
    cls, chosen = KINDS[kind]
    return trainer(cls=cls, **{"max_steps": 2, "output_dir": None, **chosen, **settings})


def test_devices_are_given_once_for_all_in_order_or_by_name():
    assert place(None, AGENTS, "devices") == {"summarizer": None, "elaborator": None}
    assert place("cpu", AGENTS, "devices") == {"summarizer": "cpu", "elaborator": "cpu"}
    assert place(["cpu:0", "cpu:1"], AGENTS, "devices") == {"summarizer": "cpu:0", "elaborator": "cpu:1"}
    assert place({"elaborator": "cpu:1"}, AGENTS, "devices") == {"summarizer": None, "elaborator": "cpu:1"}
    with pytest.raises(ConfigError, match="devices lists 3 devices for 2 models"):
        place(("cpu",) * 3, AGENTS, "devices")
    with pytest.raises(ConfigError, match="Did you mean"):
        place({"elaboratr": "cpu"}, AGENTS, "devices")


def test_a_device_that_is_not_there_is_refused_for_policies_critics_and_references():
    for kind, setting in (
        ("magrpo", "devices"),
        ("maac", "critic_devices"),
        ("magrpo with a reference", "reference_devices"),
    ):
        with pytest.raises(PolicyError, match="cuda:99"):
            made(kind, **{setting: "cuda:99"})


def test_agents_that_share_a_policy_share_its_device():
    shared = policy(max_new_tokens=8)
    with pytest.raises(ConfigError, match="share one model"):
        made(policies=shared, devices=("cpu:0", "meta"))
    made(policies=shared, devices={"elaborator": "cpu:0"})


def test_models_are_moved_where_they_are_placed():
    """The meta device holds shapes and no numbers: enough to see where a model was put."""
    one = made(devices=("cpu", "meta"))
    assert [one.team[agent].backbone.device.type for agent in AGENTS] == ["cpu", "meta"]
    one = made("iac with critics", critic_devices=("meta", "cpu"))
    assert [one.algorithm.critics[agent].policy.backbone.device.type for agent in AGENTS] == ["meta", "cpu"]
    other = made("magrpo with a reference", reference_devices={"summarizer": "meta"})
    assert [other.references[agent].backbone.device.type for agent in AGENTS] == ["meta", "cpu"]


def test_policies_on_two_devices_meet_inside_generate():
    barrier = threading.Barrier(2, timeout=20)

    class Meeting(LLMPolicy):
        def generate(self, requests):
            barrier.wait()
            return super().generate(requests)

    ready = [toy_policy(seed) for seed in (0, 1)]
    team = [Meeting(one.model, one.tokenizer, one.sampling) for one in ready]
    result = made(policies=team, devices=("cpu:0", "cpu:1"), eval_every=0).train()
    assert result.rounds == 2
    assert barrier.broken is False


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_partner_plays_and_stays_as_it_is(kind, tmp_path):
    one = made(kind, frozen=("elaborator",), output_dir=str(tmp_path))
    before = weights(one)
    result = one.train()
    after = weights(one)
    assert not torch.equal(before["summarizer"], after["summarizer"])
    assert torch.equal(before["elaborator"], after["elaborator"])
    assert not any("elaborator" in name for name in one.algorithm.holdings().modules)
    assert sorted(place.name for place in (result.folder / "checkpoints" / "final").glob("*r")) == sorted(AGENTS)


def test_a_frozen_partner_that_changed_is_no_partner_to_resume_with(tmp_path):
    one = made(policies=[toy_policy(0), toy_policy(1)], frozen=("elaborator",), output_dir=str(tmp_path), run_name="a")
    folder = one.train().folder
    other = made(policies=[toy_policy(0), toy_policy(2)], frozen=("elaborator",), output_dir=str(tmp_path), max_steps=3)
    with pytest.raises(ConfigError, match="partners was"):
        other.train(folder)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"frozen": ("summariser",)}, "Did you mean"),
        ({"frozen": AGENTS}, "nobody would learn"),
        ({"learning_rates": {"summariser": 1e-3}}, "Did you mean"),
        ({"learning_rates": {"elaborator": 1e-3}, "frozen": ("elaborator",)}, "Take it out of one"),
        ({"learning_rates": {"elaborator": -1.0}}, "must be positive"),
        ({"dtype": "float16"}, "bfloat16"),
    ],
)
def test_what_cannot_be_is_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        made(**settings)


def test_a_shared_policy_is_frozen_and_moved_as_one():
    shared = policy(max_new_tokens=8)
    with pytest.raises(ConfigError, match="only some of them are frozen"):
        made(policies=shared, frozen=("summarizer",))
    with pytest.raises(ConfigError, match="one learning rate"):
        made(policies=shared, learning_rates={"summarizer": 1e-3, "elaborator": 2e-3})


@pytest.mark.parametrize("kind", KINDS)
def test_each_agent_has_its_own_learning_rate(kind):
    """AdamW's first step moves every weight by its learning rate, whatever the size of the gradient."""
    one = made(kind, max_steps=1, learning_rates={"elaborator": 4e-3}, learning_rate=1e-3, eval_every=0)
    before = weights(one)
    one.train()
    moved = {agent: (weights(one)[agent] - before[agent]).abs().max().item() for agent in AGENTS}
    assert moved["summarizer"] == pytest.approx(1e-3, rel=0.01)
    assert moved["elaborator"] == pytest.approx(4e-3, rel=0.01)


def low(seed):
    one = toy_policy(seed)
    return LLMPolicy(one.model.to(torch.bfloat16), one.tokenizer, one.sampling)


def test_steps_below_the_precision_of_bfloat16_add_up():
    """Near 0.2 bfloat16 knows steps of 1e-3. Four hundred of 1e-5 go 4e-3 far, though each would round to nothing."""
    member = low(0)
    optimizer = WeightOptimizer(member, ["someone"], MAGRPOConfig(learning_rate=1e-5))
    weight = member.model.model.embed_tokens.weight
    before = weight.detach().float().clone()
    for _ in range(400):
        optimizer.backward(weight.float().sum())
        optimizer.step()
    assert weight.dtype == torch.bfloat16
    assert (before - weight.float()).mean().item() == pytest.approx(4e-3, rel=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_algorithm_trains_bfloat16(kind):
    one = made(kind, policies=[low(0), low(1)], learning_rate=0.01, eval_every=0)
    before = weights(one)
    one.train()
    for agent, member in one.team.items():
        assert member.model.dtype == torch.bfloat16
        assert not torch.equal(before[agent], weights(one)[agent])


def test_bfloat16_resumes_bit_for_bit(tmp_path):
    def run(name, rounds, resume=None):
        one = made(
            policies=[low(0), low(1)],
            max_steps=rounds,
            num_epochs=9,
            learning_rate=1e-5,
            output_dir=str(tmp_path / name),
        )
        return one, one.train(resume)

    whole, _ = run("whole", 4)
    _, first = run("halves", 2)
    second, _ = run("halves", 4, first.folder)
    for agent in AGENTS:
        assert torch.equal(flat_weights(whole.team[agent]), flat_weights(second.team[agent]))
    ours, theirs = (one.algorithm.holdings().optimizers["policy-summarizer"].masters for one in (whole, second))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def completions(one, count=3):
    prompts = [Prompt(one.encode(text).ids) for text in ("a bee", "an owl sings")]
    return [
        Completion(prompts[k % 2], tuple(5 + (k * 7 + j) % 20 for j in range(3 + k)), (0.0,) * (3 + k), "", True)
        for k in range(count)
    ]


@pytest.mark.parametrize("kind", ["qwen2", "gpt2", "gemma3", "mistral-window"])
def test_layers_computed_again_give_the_same_gradients_and_keep_less(kind):
    def gradients(recompute):
        one = policy(kind)
        head = nn.Linear(one.backbone.output_layer.weight.shape[-1], 1)
        nn.init.constant_(head.weight, 0.1)
        if recompute:
            one.backbone.recompute_layers()
        kept = 0

        def count(tensor):
            nonlocal kept
            kept += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            now = one.logprobs(completions(one), head=lambda hidden: head(hidden)[:, 0])
        (now.logprobs[now.mask].sum() + now.values.sum()).backward()
        return now.logprobs[now.mask].detach(), [p.grad for p in one.model.parameters() if p.grad is not None], kept

    plain, again = gradients(False), gradients(True)
    assert torch.allclose(plain[0], again[0], atol=1e-5)
    assert len(plain[1]) == len(again[1])
    for one, other in zip(plain[1], again[1], strict=True):
        assert torch.allclose(one, other, atol=1e-4)
    assert again[2] < 0.6 * plain[2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_with_layers_computed_again_is_the_round_without(kind):
    def after(recompute):
        one = made(kind, gradient_checkpointing=recompute, max_steps=1, eval_every=0)
        one.train()
        return weights(one)

    plain, again = after(False), after(True)
    for agent in AGENTS:
        assert torch.allclose(plain[agent], again[agent], atol=1e-5)


def test_references_are_let_go_when_nothing_is_scored_any_more():
    one = made("magrpo with a reference")
    seen = [weakref.ref(reference.model) for reference in one.references.values()]
    assert all(ref() is not None for ref in seen)
    one.train()
    assert [ref() for ref in seen] == [None, None]


def test_references_of_given_pairs_are_let_go_once_they_are_scored(tmp_path):
    first = made("madpo", output_dir=str(tmp_path))
    pairs = next((first.train().folder / "preferences").glob("round-*.json"))
    one = made("madpo with a reference", pairs_file=str(pairs), output_dir=str(tmp_path))
    seen = [weakref.ref(reference.model) for reference in one.references.values()]
    alive = []
    update = one.algorithm.update

    def watched(*arguments):
        metrics = update(*arguments)
        alive.append([ref() is not None for ref in seen])
        return metrics

    one.algorithm.update = watched
    rows = rows_of(one.train().folder)
    assert alive == [[False, False]] * 2
    assert any(row.get("train/margin", 0.0) != 0 for row in rows)


def test_a_trainer_that_is_gone_leaves_no_model():
    one = made("iac with critics")
    one.train()
    seen = [weakref.ref(policy.model) for policy in one.team.values()]
    seen += [weakref.ref(critic.policy.model) for critic in one.algorithm.critics.values()]
    del one
    gc.collect()
    assert [ref() for ref in seen] == [None] * 4


def test_float16_weights_are_not_trained():
    one = toy_policy(0)
    half = LLMPolicy(one.model.half(), one.tokenizer, SamplingParams(max_new_tokens=8))
    with pytest.raises(PolicyError, match="bfloat16"):
        made(policies=[half, toy_policy(1)])
