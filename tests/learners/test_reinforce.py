import dataclasses
import itertools
import math

import pytest
import torch

from comlrl_envs import from_reward
from comlrl_envs.errors import RewardError
from comlrl_learners import (
    ConfigError,
    LLMPolicy,
    MAGRPOConfig,
    MAGRPOTrainer,
    MAREINFORCEConfig,
    MAREINFORCETrainer,
    MAReMaxConfig,
    MAReMaxTrainer,
    MARLOOConfig,
    MARLOOTrainer,
    NonFiniteError,
    PolicyError,
)
from comlrl_learners.rollout import RolloutPlan, Visit, rollout
from comlrl_learners.samples import TokenSample

from .small import policy

ROWS = [{"id": f"row-{i}", "prompt": text} for i, text in enumerate(("one", "two", "three", "four"))]
FAMILY = {
    MAGRPOTrainer: MAGRPOConfig, MAREINFORCETrainer: MAREINFORCEConfig,
    MARLOOTrainer: MARLOOConfig, MAReMaxTrainer: MAReMaxConfig,
}  # fmt: skip


def spread(first, second):
    """A reward that differs between almost all joint actions."""
    return [
        (sum(map(ord, one)) % 101) / 101 + (sum(map(ord, two)) % 97) / 50
        for one, two in zip(first, second, strict=True)
    ]


def again(prompt, agent_completions, num_agents, **histories):
    return [f"{prompt} {text[:4]}" for text in agent_completions]


def game(turns=1, reward=spread, rows=ROWS):
    return from_reward(rows, reward, feedback=again if turns > 1 else None, max_turns=turns)


def trainer(cls=MAGRPOTrainer, turns=1, policies=None, env=None, references=None, **settings):
    config = FAMILY[cls](**{"output_dir": None, "num_generations": 3, "items_per_rollout": 4, **settings})
    team = policies if policies is not None else [policy(seed=1), policy(seed=2)]
    return cls(env=env or game(turns), policies=team, config=config, references=references)


def visits(one, count=4):
    return [Visit(one.playground.tasks[i], 0, one.config.seed, "train") for i in range(count)]


def weights(one: LLMPolicy):
    return torch.cat([p.detach().flatten().clone() for p in one.model.parameters()])


def gradient(one, batch, agent):
    """The gradient of the agent's mean loss over a batch."""
    member = one.team[agent]
    member.model.zero_grad()
    one.algorithm.sample_losses(member, batch.samples[agent]).mean().backward()
    return torch.cat([p.grad.flatten() for p in member.model.parameters() if p.grad is not None])


def test_four_algorithms_take_four_directions():
    gradients = []
    for cls in FAMILY:
        one = trainer(cls)
        gradients.append(gradient(one, one.algorithm.collect(visits(one)), "agent_0"))
    for left, right in itertools.combinations(gradients, 2):
        assert abs(torch.nn.functional.cosine_similarity(left, right, dim=0)) < 0.999


@pytest.mark.parametrize("cls", FAMILY)
def test_every_agents_weights_move(cls):
    one = trainer(cls, learning_rate=1e-3)
    before = {agent: weights(member) for agent, member in one.team.items()}
    one.algorithm.update(one.algorithm.collect(visits(one)), 0, 1.0)
    for agent, member in one.team.items():
        assert not torch.equal(before[agent], weights(member))


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
def test_cross_mode_returns_equal_enumeration(aggregate):
    one = trainer(turns=2, joint_mode="cross", completion_return=aggregate, discount=0.9, baseline="none",
                  advantage_norm="none", reward_scale=2.0, reward_shift=-0.5)  # fmt: skip
    batch = one.algorithm.collect(visits(one, 2))

    def value(edge):
        below = [] if edge.child is None else [value(e) for e in edge.child.edges]
        return 2 * edge.reward - 0.5 + (0.9 * math.fsum(below) / len(below) if below else 0.0)

    for place, agent in enumerate(("agent_0", "agent_1")):
        expected = []
        for root in batch.roots:
            for node in root.subtree():
                assert len(node.edges) == 9
                for k in range(3):
                    values = [value(edge) for edge in node.edges if edge.index[place] == k]
                    expected.append(math.fsum(values) / (3 if aggregate == "mean" else 1))
        found = [sample.advantage for sample in batch.samples[agent]]
        assert found == pytest.approx(expected, abs=1e-12)


def test_the_kl_penalty_enters_an_agents_own_returns_before_the_tree_is_aggregated():
    references = [policy(seed=7), policy(seed=8)]
    one = trainer(turns=2, references=references, kl_coef=0.3, baseline="none", advantage_norm="none", discount=0.9)
    batch = one.algorithm.collect(visits(one, 2))

    def kl(agent, completion):
        there = one.references[agent].logprobs([completion]).logprobs[0].tolist()
        differences = [b - a for a, b in zip(completion.logprobs, there, strict=True)]
        return sum(math.exp(d) - d - 1 for d in differences)

    def value(node, edge, agent):
        own = edge.reward - 0.3 * kl(agent, node.completions[agent][edge.index[0]])
        if edge.child is None:
            return own
        return own + 0.9 * sum(value(edge.child, e, agent) for e in edge.child.edges) / len(edge.child.edges)

    for agent in one.team:
        expected = [value(node, e, agent) for root in batch.roots for node in root.subtree() for e in node.edges]
        assert [s.advantage for s in batch.samples[agent]] == pytest.approx(expected, rel=1e-4)
        assert batch.metrics[f"{agent}/reference_kl"] > 0


def test_kl_to_a_frozen_copy_is_zero_at_the_start():
    one = trainer(kl_coef=0.1, policies=[policy(seed=1, double=True), policy(seed=2, double=True)])
    batch = one.algorithm.collect(visits(one))
    assert [batch.metrics[f"{agent}/reference_kl"] for agent in one.team] == pytest.approx([0, 0], abs=1e-9)


def test_kl_in_the_loss_and_entropy_have_gradients_of_their_own():
    for settings in ({"kl_coef": 0.5, "kl_mode": "loss", "references": policy(seed=9)}, {"entropy_coef": 0.5}):
        plain, changed = trainer(), trainer(**settings)
        batches = [one.algorithm.collect(visits(one)) for one in (plain, changed)]
        left, right = (gradient(one, batch, "agent_0") for one, batch in zip((plain, changed), batches, strict=True))
        assert (left - right).abs().max() > 1e-5


@pytest.mark.parametrize("generations", [2, 4])
@pytest.mark.parametrize("shared", [False, True])
def test_two_turns_of_a_tree_cost_two_scorings_and_two_generations_per_model(generations, shared, monkeypatch):
    calls = {"reward": 0, "generate": 0}

    def reward(first, second):
        calls["reward"] += 1
        return spread(first, second)

    generate = LLMPolicy.generate

    def counted(self, requests):
        calls["generate"] += 1
        return generate(self, requests)

    monkeypatch.setattr(LLMPolicy, "generate", counted)
    rows = [{"prompt": f"item {i}"} for i in range(10)]
    team = policy() if shared else [policy(seed=1), policy(seed=2)]
    one = trainer(policies=team, env=game(2, reward, rows), num_generations=generations, items_per_rollout=10)
    batch = one.algorithm.collect(visits(one, 10))
    assert batch.stats.joint_actions == 10 * (generations + generations**2)
    assert calls == {"reward": 2, "generate": 2 if shared else 4}


def test_draws_of_a_task_do_not_depend_on_the_other_tasks():
    one = trainer(turns=2)
    plan = RolloutPlan(num_generations=2)
    together, _ = rollout(one.playground.game, one.team, visits(one), plan)
    alone, _ = rollout(one.playground.game, one.team, visits(one)[2:3], plan)
    for left, right in zip(together[2].subtree(), alone[0].subtree(), strict=True):
        assert left.completions.keys() == right.completions.keys()
        for agent, completions in left.completions.items():
            assert [c.ids for c in completions] == [c.ids for c in right.completions[agent]]


def test_a_node_above_the_bound_is_not_continued():
    one = trainer(turns=2, prune_above=-1.0)
    batch = one.algorithm.collect(visits(one))
    assert all(edge.child is None for root in batch.roots for edge in root.edges)


def test_groups_without_spread_are_counted_and_move_nothing():
    one = trainer(env=game(reward=lambda first, second: [0.1] * len(first)), learning_rate=1e-2)
    before = weights(one.team["agent_0"])
    batch = one.algorithm.collect(visits(one))
    one.algorithm.update(batch, 0, 1.0)
    assert all(sample.advantage == 0 for sample in batch.samples["agent_0"])
    assert batch.metrics["agent_0/zero_variance_groups"] == 1.0
    assert torch.equal(before, weights(one.team["agent_0"]))


def test_a_shared_policy_has_one_optimizer_and_learns_from_both_agents():
    one = trainer(policies=policy())
    assert len(one.algorithm.optimizers) == 1
    batch = one.algorithm.collect(visits(one))
    metrics = one.algorithm.update(batch, 0, 1.0)
    assert metrics["agent_0/loss"] == metrics["agent_1/loss"]


def test_nothing_trainable_is_refused():
    frozen = policy()
    frozen.model.requires_grad_(False)
    with pytest.raises(PolicyError, match=r"agent_0, agent_1.*requires_grad_"):
        trainer(policies=frozen)


def test_a_reward_that_is_no_number_stops_the_run_and_names_the_task():
    one = trainer(env=game(reward=lambda first, second: [float("nan")] * len(first)))
    with pytest.raises(RewardError, match="row-"):
        one.train()


def test_a_loss_that_is_no_number_names_agent_turn_and_task():
    one = trainer()
    batch = one.algorithm.collect(visits(one))
    sample = batch.samples["agent_1"][4]
    batch.samples["agent_1"][4] = dataclasses.replace(sample, advantage=float("nan"))
    before = weights(one.team["agent_1"])
    with pytest.raises(NonFiniteError, match=rf"'agent_1' at turn 0 of task '{sample.task_id}'"):
        one.algorithm.update(batch, 0, 1.0)
    assert torch.equal(before, weights(one.team["agent_1"]))


def test_a_gradient_that_is_no_number_leaves_the_weights():
    one = trainer(policies=policy())
    member = one.team["agent_0"]
    before = weights(member)
    next(member.model.parameters()).register_hook(lambda grad: grad * float("inf"))
    with pytest.raises(NonFiniteError, match="agent_0, agent_1"):
        one.algorithm.update(one.algorithm.collect(visits(one)), 0, 1.0)
    assert torch.equal(before, weights(member))


def test_reference_logprobs_of_another_length_are_refused():
    one = trainer()
    completion = one.algorithm.collect(visits(one)).samples["agent_0"][0].completion
    with pytest.raises(ValueError, match="reference log-probs"):
        TokenSample("a", "t", 0, completion, 0.0, (0.0,) * (len(completion.ids) + 1))


def test_several_passes_with_a_ratio_take_that_many_steps():
    one = trainer(clip_range=0.2, num_updates=2, minibatch_size=5, learning_rate=1e-3)
    before = weights(one.team["agent_0"])
    metrics = one.algorithm.update(one.algorithm.collect(visits(one)), 0, 1.0)
    assert math.isfinite(metrics["agent_0/loss"])
    state = one.algorithm.optimizers[id(one.team["agent_0"])].adam.state
    assert {int(entry["step"]) for entry in state.values()} == {6}
    assert not torch.equal(before, weights(one.team["agent_0"]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_generations": 1}, "num_generations=1 .* baseline='none'"),
        ({"minibatch_size": 4}, "clip_range"),
        ({"num_updates": 2}, "clip_range"),
        ({"clip_range": 1.5}, "clip_range=1.5"),
        ({"discount": 1.5}, "discount=1.5"),
        ({"items_per_rollout": 0}, "items_per_rollout=0"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"kl_coef": -1.0}, "kl_coef"),
    ],
)
def test_settings_that_cannot_work_are_named(settings, words):
    with pytest.raises(ConfigError, match=words):
        MAGRPOConfig(**settings)


def test_a_truncating_sampler_is_refused_with_a_ratio_and_warned_of_without(caplog):
    cut = policy(top_p=0.9)
    with pytest.raises(ConfigError, match=r"agent_0 truncates.*clip_range=None"):
        trainer(policies=cut, clip_range=0.2)
    with pytest.raises(ConfigError, match="top_p=1"):
        MAGRPOConfig(sampling=cut.sampling, clip_range=0.2)
    trainer(policies=cut)
    assert "truncates" in caplog.text
