"""KL terms and the entropy bonus of the REINFORCE family."""

import math

import pytest
import torch

from comlrl_learners.losses import kl_k3

from .reinforce_games import AGENTS, RAW, advantages, collect, constant, game, gradient, trainer
from .toy_models import flat_gradient, flat_weights, toy_policy, toy_team


def kl(one, agent, completion):
    there = one.references[agent].logprobs([completion]).logprobs[0].tolist()
    differences = [b - a for a, b in zip(completion.logprobs, there, strict=True)]
    return sum(math.exp(d) - d - 1 for d in differences)


@pytest.mark.parametrize("joint_mode", ["aligned", "cross"])
def test_the_kl_penalty_enters_an_agents_own_returns_before_the_tree_is_aggregated(joint_mode):
    one = trainer(turns=2, references=[toy_policy(7), toy_policy(8)], kl_coef=0.3, discount=0.9, num_generations=2,
                  joint_mode=joint_mode, **RAW)  # fmt: skip
    batch = collect(one, 2)

    def value(node, edge, place, agent):
        own = edge.reward - 0.3 * kl(one, agent, node.completions[agent][edge.index[place]])
        if edge.child is None:
            return own
        below = [value(edge.child, e, place, agent) for e in edge.child.edges]
        return own + 0.9 * sum(below) / len(below)

    for place, agent in enumerate(AGENTS):
        expected = []
        for root in batch.roots:
            for node in root.subtree():
                for k in range(2):
                    values = [value(node, e, place, agent) for e in node.edges if e.index[place] == k]
                    expected.append(sum(values) / len(values))
        assert advantages(batch, agent) == pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert batch.metrics[f"{agent}/reference_kl"] > 0.01


def test_the_kl_penalty_reaches_no_other_agents_returns():
    near = toy_team()
    far = [toy_policy(1), toy_policy(9)]
    batches = [
        collect(trainer(turns=2, references=refs, kl_coef=0.5, policies=toy_team(), **RAW)) for refs in (near, far)
    ]
    assert advantages(batches[0], "agent_0") == advantages(batches[1], "agent_0")
    assert max(abs(a - b) for a, b in zip(*(advantages(b, "agent_1") for b in batches), strict=True)) > 0.01


@pytest.mark.parametrize("kl_mode", ["penalty", "loss"])
def test_kl_to_frozen_copies_is_zero_at_the_start(kl_mode):
    one = trainer(kl_coef=0.1, kl_mode=kl_mode, policies=toy_team(double=True))
    batch = collect(one)
    for agent in AGENTS:
        assert batch.metrics[f"{agent}/reference_kl"] == 0.0
        assert not any(p.requires_grad for p in one.references[agent].model.parameters())


def test_kl_in_the_loss_is_exactly_zero_at_the_start_and_has_no_gradient():
    one = trainer(kl_coef=1.0, kl_mode="loss")
    for agent, member in one.team.items():
        for sample in collect(one).samples[agent]:
            now = member.logprobs([sample.completion])
            there = one.references[agent].logprobs([sample.completion]).logprobs
            estimate = kl_k3(now.logprobs, there, now.mask)
            estimate.sum().backward()
            assert (estimate == 0).all()
        assert (flat_gradient(member) == 0).all()


@pytest.mark.parametrize("kl_mode", ["penalty", "loss"])
def test_references_stay_as_they_are_while_policies_learn(kl_mode):
    one = trainer(kl_coef=0.1, kl_mode=kl_mode, learning_rate=1e-2)
    before = {agent: flat_weights(reference) for agent, reference in one.references.items()}
    one.algorithm.update(collect(one), 0, 1.0)
    batch = collect(one)
    for agent, reference in one.references.items():
        assert torch.equal(flat_weights(reference), before[agent])
        assert batch.metrics[f"{agent}/reference_kl"] > 1e-6


def test_kl_in_the_loss_pulls_towards_the_reference_where_rewards_say_nothing():
    one = trainer(env=game(reward=constant), references=toy_policy(9), kl_coef=0.5, kl_mode="loss", learning_rate=1e-3)
    batch = collect(one)

    def distance(agent):
        samples = batch.samples[agent]
        now = one.team[agent].logprobs([s.completion for s in samples])
        there = one.references[agent].logprobs([s.completion for s in samples])
        return kl_k3(now.logprobs, there.logprobs, now.mask).sum().item()

    before = {agent: distance(agent) for agent in AGENTS}
    assert set(advantages(batch, "agent_0")) == {0.0}
    one.algorithm.update(batch, 0, 1.0)
    assert all(distance(agent) < before[agent] for agent in AGENTS)


@pytest.mark.parametrize("norm", ["mean", "sum", "constant"])
def test_kl_in_the_loss_adds_its_weighed_reduction(norm):
    one = trainer(references=toy_policy(9), kl_coef=0.5, kl_mode="loss", loss_norm=norm, policies=toy_team(double=True))
    batch, plain = collect(one), trainer(loss_norm=norm)
    member = one.team["agent_0"]
    for sample in batch.samples["agent_0"]:
        extra = one.algorithm.actors.sample_losses(member, [sample]) - plain.algorithm.actors.sample_losses(
            member, [sample]
        )
        expected = kl(one, "agent_0", sample.completion)
        divisor = {"mean": len(sample.completion.ids), "sum": 1, "constant": 6}[norm]
        assert extra.item() == pytest.approx(0.5 * expected / divisor, rel=1e-5)


def test_the_entropy_bonus_lowers_the_loss_and_raises_the_entropy():
    one = trainer(env=game(reward=constant), entropy_coef=0.5, learning_rate=1e-3, policies=toy_team(scale=0.5))
    batch = collect(one)

    def entropy(agent):
        found = one.team[agent].logprobs([s.completion for s in batch.samples[agent]], entropy=True)
        return ((found.entropy * found.mask).sum(1) / found.mask.sum(1)).detach()

    before = {agent: entropy(agent) for agent in AGENTS}
    losses = one.algorithm.actors.sample_losses(one.team["agent_0"], batch.samples["agent_0"])
    torch.testing.assert_close(losses.detach(), -0.5 * before["agent_0"])
    one.algorithm.update(batch, 0, 1.0)
    assert all(entropy(agent).mean() > before[agent].mean() for agent in AGENTS)


@pytest.mark.parametrize(
    "settings", [{"kl_coef": 0.5, "kl_mode": "loss", "references": None}, {"entropy_coef": 0.5}], ids=["kl", "entropy"]
)
def test_kl_in_the_loss_and_entropy_have_gradients_of_their_own(settings):
    if "references" in settings:
        settings = {**settings, "references": toy_policy(9)}
    plain, changed = trainer(), trainer(**settings)
    left, right = (gradient(one, collect(one), "agent_0") for one in (plain, changed))
    assert (left - right).abs().max() > 1e-5


# Cost.
