import dataclasses
import itertools
import math

import pytest
import torch
from envs.toys import TurnTaking

from comlrl_envs import TaskSet, TextEnv, TextGame, from_reward
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
from comlrl_learners.losses import kl_k3
from comlrl_learners.rollout import Visit
from comlrl_learners.samples import Reference, TokenSample

from .toy_models import flat_gradient, flat_weights, toy_policy, toy_team

WORDS = ("one", "two", "three", "four")
ROWS = [{"id": f"row-{i}", "prompt": text} for i, text in enumerate(WORDS)]
AGENTS = ("agent_0", "agent_1")
FAMILY = {
    MAGRPOTrainer: MAGRPOConfig, MAREINFORCETrainer: MAREINFORCEConfig,
    MARLOOTrainer: MARLOOConfig, MAReMaxTrainer: MAReMaxConfig,
}  # fmt: skip
RAW = {"baseline": "none", "advantage_norm": "none"}
"""With these, advantages are returns."""


def spread(first, second):
    """A reward that differs between almost all joint actions."""
    return [
        (sum(map(ord, one)) % 101) / 101 + (sum(map(ord, two)) % 97) / 50
        for one, two in zip(first, second, strict=True)
    ]


def constant(first, second):
    return [0.1] * len(first)


def again(prompt, agent_completions, num_agents, **histories):
    return [f"{prompt} {text[:4]}" for text in agent_completions]


def game(turns=1, reward=spread, rows=ROWS):
    return from_reward(rows, reward, feedback=again if turns > 1 else None, max_turns=turns)


def trainer(cls=MAGRPOTrainer, turns=1, policies=None, env=None, references=None, **settings):
    config = FAMILY[cls](**{"output_dir": None, "num_generations": 3, "items_per_rollout": 4, **settings})
    team = policies if policies is not None else toy_team()
    return cls(env=env or game(turns), policies=team, config=config, references=references)


def visits(one, count=4):
    return [Visit(one.playground.tasks[i], 0, one.config.seed, "train") for i in range(count)]


def collect(one, count=4):
    return one.algorithm.collect(visits(one, count))


def gradient(one, batch, agent):
    """The gradient of the agent's mean loss over a batch."""
    member = one.team[agent]
    member.model.zero_grad()
    one.algorithm.actors.sample_losses(member, batch.samples[agent]).mean().backward()
    found = flat_gradient(member)
    member.model.zero_grad()
    return found


def gradient_sums(one):
    """The sum of all gradients that reach each policy's weights from here on, by agent."""
    totals = {}
    for agent, member in one.team.items():
        totals[agent] = {name: torch.zeros_like(p) for name, p in member.model.named_parameters()}
        for name, parameter in member.model.named_parameters():
            parameter.register_hook(totals[agent][name].add_)
    return lambda agent: torch.cat([total.flatten() for total in totals[agent].values()])


def advantages(batch, agent):
    return [sample.advantage for sample in batch.samples[agent]]


def poison(member):
    with torch.no_grad():
        next(iter(member.model.parameters())).fill_(float("nan"))


# Directions of the four algorithms.


def test_four_algorithms_take_four_directions_on_two_groups_of_different_spread():
    def uneven(first, second, batch_items):
        """The second task's rewards spread a tenth as far, around another level."""
        scales = [(1.0, 0.0) if item["id"] == "row-0" else (0.1, 2.0) for item in batch_items]
        return [scale * value + level for value, (scale, level) in zip(spread(first, second), scales, strict=True)]

    gradients = {}
    for cls in FAMILY:
        one = trainer(cls, env=game(reward=uneven, rows=ROWS[:2]), num_generations=4)
        batch = collect(one, 2)
        gradients[cls] = gradient(one, batch, "agent_0")
        widths = [max(e.reward for e in root.edges) - min(e.reward for e in root.edges) for root in batch.roots]
        assert widths[0] > 2 * widths[1] > 0
    for left, right in itertools.combinations(gradients.values(), 2):
        assert abs(torch.nn.functional.cosine_similarity(left, right, dim=0)) < 0.999


ADVANTAGES = {
    MAGRPOTrainer: lambda r: (r - r.mean()) / (r.std() + 1e-4),
    MAREINFORCETrainer: lambda r: r,
    MARLOOTrainer: lambda r: r - (r.sum() - r) / (len(r) - 1),
    MAReMaxTrainer: lambda r: r - r.max(),
}


@pytest.mark.parametrize("cls", FAMILY)
def test_each_algorithm_forms_its_own_advantages_from_the_rewards_of_a_group(cls):
    batch = collect(trainer(cls))
    groups = [torch.tensor([edge.reward for edge in root.edges], dtype=torch.float64) for root in batch.roots]
    assert all(rewards.std() > 0 for rewards in groups)
    expected = torch.cat([ADVANTAGES[cls](rewards) for rewards in groups]).tolist()
    for agent in AGENTS:
        assert advantages(batch, agent) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("cls", FAMILY)
def test_every_agents_weights_move(cls):
    one = trainer(cls, learning_rate=1e-3)
    before = {agent: flat_weights(member) for agent, member in one.team.items()}
    batch = collect(one)
    one.algorithm.update(batch, 0, 1.0)
    for agent, member in one.team.items():
        assert any(advantages(batch, agent))
        assert not torch.equal(before[agent], flat_weights(member))


def test_an_update_makes_the_better_completions_likelier():
    one = trainer(learning_rate=1e-3)
    batch = collect(one)

    def surrogate(agent):
        member, samples = one.team[agent], batch.samples[agent]
        with torch.no_grad():
            return sum(s.advantage * member.logprobs([s.completion]).logprobs.mean().item() for s in samples)

    before = {agent: surrogate(agent) for agent in AGENTS}
    one.algorithm.update(batch, 0, 1.0)
    for agent in AGENTS:
        assert surrogate(agent) > before[agent]


# Returns of trees.


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
def test_cross_mode_returns_equal_enumeration(aggregate):
    one = trainer(turns=2, joint_mode="cross", completion_return=aggregate, discount=0.9, reward_scale=2.0,
                  reward_shift=-0.5, **RAW)  # fmt: skip
    batch = collect(one, 2)

    def value(edge):
        below = [] if edge.child is None else [value(e) for e in edge.child.edges]
        return 2 * edge.reward - 0.5 + (0.9 * math.fsum(below) / len(below) if below else 0.0)

    for place, agent in enumerate(AGENTS):
        expected = []
        for root in batch.roots:
            for node in root.subtree():
                assert len(node.edges) == 9
                for k in range(3):
                    values = [value(edge) for edge in node.edges if edge.index[place] == k]
                    expected.append(math.fsum(values) / (3 if aggregate == "mean" else 1))
        assert advantages(batch, agent) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("discount", [0.0, 0.5, 1.0])
def test_the_discount_weighs_the_mean_of_the_second_turn(discount):
    batch = collect(trainer(turns=2, discount=discount, **RAW), 2)
    expected = []
    for root in batch.roots:
        for edge in root.edges:
            later = [e.reward for e in edge.child.edges]
            expected.append(edge.reward + discount * sum(later) / 3)
    found = [s.advantage for s in batch.samples["agent_0"] if s.turn == 0]
    assert found == pytest.approx(expected, abs=1e-12)


def test_scale_and_shift_change_returns_and_not_what_the_game_gave():
    plain, changed = (collect(trainer(**RAW, **more)) for more in ({}, {"reward_scale": -3.0, "reward_shift": 7.0}))
    for left, right in zip(plain.roots, changed.roots, strict=True):
        assert [edge.reward for edge in left.edges] == [edge.reward for edge in right.edges]
    expected = [7 - 3 * value for value in advantages(plain, "agent_0")]
    assert advantages(changed, "agent_0") == pytest.approx(expected, abs=1e-12)


def test_a_scale_of_rewards_leaves_group_normalised_advantages_nearly_alone():
    plain, scaled = (collect(trainer(reward_scale=scale)) for scale in (1.0, 10.0))
    assert advantages(scaled, "agent_1") == pytest.approx(advantages(plain, "agent_1"), rel=1e-2)


def test_batch_norm_spans_all_nodes_of_an_agent():
    one = trainer(turns=2, baseline="none", advantage_norm="batch", discount=0.9)
    raw = torch.tensor(advantages(collect(trainer(turns=2, discount=0.9, **RAW)), "agent_0"), dtype=torch.float64)
    expected = (raw - raw.mean()) / (raw.std() + 1e-4)
    assert advantages(collect(one), "agent_0") == pytest.approx(expected.tolist(), abs=1e-12)


@pytest.mark.parametrize(("limit", "turns"), [(1, {0}), (2, {0, 1}), (3, {0, 1, 2}), (None, {0, 1, 2})])
def test_max_turns_bounds_the_tree(limit, turns):
    batch = collect(trainer(turns=3, max_turns=limit, num_generations=2), 1)
    assert {sample.turn for sample in batch.samples["agent_0"]} == turns
    assert batch.stats.joint_actions == sum(2 ** (turn + 1) for turn in turns)


def test_a_node_above_the_bound_is_not_continued():
    batch = collect(trainer(turns=2, prune_above=-1.0))
    assert all(edge.child is None for root in batch.roots for edge in root.edges)


def test_a_bound_no_mean_exceeds_continues_every_node():
    batch = collect(trainer(turns=2, prune_above=100.0))
    assert all(edge.child is not None for root in batch.roots for edge in root.edges)


@pytest.mark.parametrize("cls", [MAGRPOTrainer, MARLOOTrainer, MAReMaxTrainer])
def test_groups_without_spread_are_counted_and_move_nothing(cls):
    one = trainer(cls, env=game(reward=constant), learning_rate=1e-2, num_generations=8)
    before = flat_weights(one.team["agent_0"])
    batch = collect(one)
    one.algorithm.update(batch, 0, 1.0)
    assert set(advantages(batch, "agent_0")) == {0.0}
    assert batch.metrics["agent_0/zero_variance_groups"] == 1.0
    assert torch.equal(before, flat_weights(one.team["agent_0"]))


# KL and entropy.


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


class CountingPolicy(LLMPolicy):
    """Counts its calls of `generate`."""

    calls = 0

    def generate(self, requests):
        self.calls += 1
        return super().generate(requests)


def counting_policy(seed):
    plain = toy_policy(seed)
    return CountingPolicy(plain.model, plain.tokenizer, plain.sampling)


@pytest.mark.parametrize("generations", [2, 4])
@pytest.mark.parametrize("shared", [False, True])
def test_two_turns_of_a_tree_cost_two_scorings_and_two_generations_per_model(generations, shared):
    scorings = []

    def reward(first, second):
        scorings.append(len(first))
        return spread(first, second)

    rows = [{"prompt": f"item {i}"} for i in range(10)]
    models = [counting_policy(1)] if shared else [counting_policy(1), counting_policy(2)]
    one = trainer(policies=models[0] if shared else models, env=game(2, reward, rows), num_generations=generations,
                  items_per_rollout=10)  # fmt: skip
    batch = collect(one, 10)
    assert batch.stats.joint_actions == 10 * (generations + generations**2)
    assert len(scorings) == 2
    assert [model.calls for model in models] == [2] * len(models)
    assert len(batch.samples["agent_0"]) == 10 * (generations + generations**2)


# Sharing and turn taking.


def test_a_shared_policy_has_one_optimizer_and_learns_from_both_agents():
    one = trainer(policies=toy_policy(1), learning_rate=1e-3)
    assert len(one.algorithm.actors.optimizers) == 1
    batch = collect(one)
    both = [gradient(one, batch, agent) for agent in AGENTS]
    total = gradient_sums(one)
    metrics = one.algorithm.update(batch, 0, 1.0)
    torch.testing.assert_close(total("agent_0"), (both[0] + both[1]) / 2, atol=1e-6, rtol=1e-4)
    assert metrics["agent_0/loss"] == metrics["agent_1/loss"]
    (optimizer,) = one.algorithm.actors.optimizers.values()
    assert {int(state["step"]) for state in optimizer.adam.state.values()} == {1}


def turn_taking(max_turns):
    return TextEnv(TextGame(TurnTaking(max_turns=max_turns), reward=spread), TaskSet(ROWS), "turn_taking")


def test_who_does_not_act_gets_no_sample_and_every_actor_learns():
    one = trainer(env=turn_taking(3), num_generations=2, learning_rate=1e-3, baseline="mean", advantage_norm="none")
    before = {agent: flat_weights(member) for agent, member in one.team.items()}
    batch = collect(one)
    assert {s.turn for s in batch.samples["asker"]} == {0, 2}
    assert {s.turn for s in batch.samples["answerer"]} == {1}
    assert [len(batch.samples[a]) for a in ("asker", "answerer")] == [4 * (2 + 8), 4 * 4]
    one.algorithm.update(batch, 0, 1.0)
    for agent, member in one.team.items():
        assert any(advantages(batch, agent))
        assert not torch.equal(before[agent], flat_weights(member))


def test_an_actors_return_counts_the_turns_of_the_others_too():
    one = trainer(env=turn_taking(2), num_generations=2, discount=0.9, **RAW)
    batch = collect(one)
    asked = [e.reward + 0.9 * sum(b.reward for b in e.child.edges) / 2 for root in batch.roots for e in root.edges]
    answered = [b.reward for root in batch.roots for e in root.edges for b in e.child.edges]
    assert advantages(batch, "asker") == pytest.approx(asked, abs=1e-12)
    assert advantages(batch, "answerer") == pytest.approx(answered, abs=1e-12)


@pytest.mark.parametrize("settings", [{}, {"kl_coef": 0.1, "references": None}, {"clip_range": 0.2}])
def test_who_never_acts_is_left_alone(settings):
    one = trainer(env=turn_taking(1), learning_rate=1e-2, **settings)
    before = flat_weights(one.team["answerer"])
    batch = collect(one)
    metrics = one.algorithm.update(batch, 0, 1.0)
    assert batch.samples["answerer"] == []
    assert (metrics["answerer/loss"], metrics["answerer/grad_norm"]) == (0.0, 0.0)
    assert torch.equal(before, flat_weights(one.team["answerer"]))
    assert metrics["asker/grad_norm"] > 0


def test_a_shared_policy_plays_all_the_turns_of_a_sequential_game():
    one = trainer(env=turn_taking(2), policies=toy_policy(1), num_generations=2, learning_rate=1e-3, max_steps=2)
    before = flat_weights(one.team["asker"])
    result = one.train()
    assert result.rounds == 2
    assert not torch.equal(before, flat_weights(one.team["asker"]))


# Several steps on one rollout.


@pytest.mark.parametrize("cls", [MAGRPOTrainer, MARLOOTrainer])
def test_minibatches_without_a_step_between_them_sum_to_the_gradient_of_the_whole(cls):
    one = trainer(cls, clip_range=0.2, minibatch_size=4, policies=toy_team(double=True))
    batch = collect(one)
    assert len(batch.samples["agent_0"]) == 12
    whole = {agent: gradient(one, batch, agent) for agent in AGENTS}
    before = {agent: flat_weights(member) for agent, member in one.team.items()}
    total = gradient_sums(one)
    one.algorithm.update(batch, 0, 0.0)
    for agent, member in one.team.items():
        assert torch.equal(before[agent], flat_weights(member))
        torch.testing.assert_close(total(agent) / 3, whole[agent], atol=1e-12, rtol=1e-8)


@pytest.mark.parametrize("cls", FAMILY)
def test_the_first_step_with_a_ratio_has_the_plain_gradient(cls):
    """Where the ratio is formed as tokens are weighed; all defaults do so."""
    plain, ratio = (trainer(cls, policies=toy_team(double=True), clip_range=clip) for clip in (None, 0.2))
    for agent in AGENTS:
        left, right = (gradient(one, collect(one), agent) for one in (plain, ratio))
        torch.testing.assert_close(left, right, atol=1e-12, rtol=1e-8)


def test_a_minibatch_that_holds_everything_is_the_whole_batch_bit_for_bit():
    ends = []
    for size in (None, 12, 100):
        one = trainer(clip_range=0.2, minibatch_size=size, learning_rate=1e-3)
        one.algorithm.update(collect(one), 0, 1.0)
        ends.append(flat_weights(one.team["agent_1"]))
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])


def test_several_passes_with_a_ratio_take_that_many_steps():
    one = trainer(clip_range=0.2, num_updates=2, minibatch_size=5, learning_rate=1e-3)
    before = flat_weights(one.team["agent_0"])
    metrics = one.algorithm.update(collect(one), 0, 1.0)
    assert math.isfinite(metrics["agent_0/loss"])
    state = one.algorithm.actors.optimizers[id(one.team["agent_0"])].adam.state
    assert {int(entry["step"]) for entry in state.values()} == {6}
    assert not torch.equal(before, flat_weights(one.team["agent_0"]))


def test_later_passes_meet_a_clipped_ratio():
    """With steps this large the ratio leaves its range, and a narrower range then allows less movement."""
    ends = []
    for clip in (0.01, 0.9):
        one = trainer(clip_range=clip, num_updates=4, learning_rate=1e-2)
        one.algorithm.update(collect(one), 0, 1.0)
        ends.append(flat_weights(one.team["agent_0"]))
    assert not torch.equal(*ends)


@pytest.mark.parametrize("settings", [{}, {"clip_range": 0.2, "minibatch_size": 5, "num_updates": 2}])
def test_two_runs_with_one_seed_and_with_or_without_threads_are_equal_bit_for_bit(settings):
    ends = []
    for threads in (True, True, False):
        one = trainer(turns=2, num_generations=2, learning_rate=1e-3, max_steps=2, agent_threads=threads, **settings)
        one.train()
        ends.append(torch.cat([flat_weights(member) for member in one.team.values()]))
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])
    start = torch.cat([flat_weights(member) for member in toy_team()])
    assert not torch.equal(ends[0], start)


def test_the_size_of_microbatches_changes_no_gradient():
    sums = []
    for tokens in (1, 64, 100_000):
        one = trainer(turns=2, microbatch_tokens=tokens, policies=toy_team(double=True), clip_range=0.2)
        batch, total = collect(one), gradient_sums(one)
        one.algorithm.update(batch, 0, 0.0)
        sums.append(total("agent_0"))
    for other in sums[1:]:
        torch.testing.assert_close(other, sums[0], atol=1e-12, rtol=1e-8)


# Refusals and numbers that are not finite.


def test_nothing_trainable_is_refused():
    frozen = toy_policy()
    frozen.model.requires_grad_(False)
    with pytest.raises(PolicyError, match=r"agent_0, agent_1.*requires_grad_"):
        trainer(policies=frozen)
    with pytest.raises(PolicyError, match=r"policy of agent_1 has"):
        trainer(policies=[toy_policy(1), frozen])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_names_task_and_turn(value):
    for bad_turn in (0, 1):
        calls = itertools.count()

        def reward(first, second, batch_items, calls=calls, bad_turn=bad_turn):
            bad = next(calls) == bad_turn
            return [value if bad and item["id"] == "row-2" else 0.5 for item in batch_items]

        one = trainer(env=game(2, reward))
        with pytest.raises(RewardError, match=rf"Task 'row-2', turn {bad_turn}"):
            one.train()


def test_weights_that_are_no_number_name_agent_turn_and_task_when_they_write():
    one = trainer()
    poison(one.team["agent_1"])
    with pytest.raises(NonFiniteError, match=r"'agent_1' at turn 0 of task 'row-0'"):
        collect(one)


def test_weights_that_turn_bad_in_a_later_turn_name_it():
    team = toy_team()

    def reward(first, second):
        poison(team[0])
        return spread(first, second)

    one = trainer(env=game(2, reward), policies=team)
    with pytest.raises(NonFiniteError, match=r"'agent_0' at turn 1 of task 'row-0'"):
        collect(one)


def test_weights_that_are_no_number_name_agent_turn_and_task_when_they_learn():
    one = trainer()
    batch = collect(one)
    poison(one.team["agent_0"])
    with pytest.raises(NonFiniteError, match=r"'agent_0' at turn 0 of task 'row-\d'"):
        one.algorithm.update(batch, 0, 1.0)


def test_a_loss_that_is_no_number_names_agent_turn_and_task():
    one = trainer()
    batch = collect(one)
    sample = batch.samples["agent_1"][4]
    batch.samples["agent_1"][4] = dataclasses.replace(sample, advantage=float("nan"))
    before = flat_weights(one.team["agent_1"])
    with pytest.raises(NonFiniteError, match=rf"'agent_1' at turn 0 of task '{sample.task_id}'"):
        one.algorithm.update(batch, 0, 1.0)
    assert torch.equal(before, flat_weights(one.team["agent_1"]))


def test_a_gradient_that_is_no_number_leaves_the_weights():
    one = trainer(policies=toy_policy(1))
    member = one.team["agent_0"]
    before = flat_weights(member)
    handle = next(member.model.parameters()).register_hook(lambda grad: grad * float("inf"))
    batch = collect(one)
    with pytest.raises(NonFiniteError, match="agent_0, agent_1"):
        one.algorithm.update(batch, 0, 1.0)
    assert torch.equal(before, flat_weights(member))
    handle.remove()
    one.algorithm.update(batch, 0, 1.0)
    assert torch.isfinite(flat_weights(member)).all()
    assert not torch.equal(before, flat_weights(member))


def test_what_a_failed_update_left_behind_does_not_enter_the_next():
    """The loss fails in the second micro-batch, when the first has left its gradient."""
    ends = []
    for fails in (False, True):
        one = trainer(microbatch_tokens=1, learning_rate=1e-3)
        batch = collect(one)
        if fails:
            last = max(range(12), key=lambda i: len(batch.samples["agent_0"][i].completion.ids))
            samples = list(batch.samples["agent_0"])
            samples[last] = dataclasses.replace(samples[last], advantage=float("nan"))
            broken = dataclasses.replace(batch, samples={**batch.samples, "agent_0": samples})
            with pytest.raises(NonFiniteError, match="agent_0"):
                one.algorithm.update(broken, 0, 1.0)
        one.algorithm.update(batch, 0, 1.0)
        ends.append(flat_weights(one.team["agent_0"]))
    assert torch.equal(*ends)


def test_reference_logprobs_of_another_length_are_refused():
    completion = collect(trainer()).samples["agent_0"][0].completion
    with pytest.raises(ValueError, match="reference log-probs"):
        TokenSample("a", "t", 0, completion, 0.0, Reference((0.0,) * (len(completion.ids) + 1), 0.0))


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
    cut = toy_policy(top_p=0.9)
    with pytest.raises(ConfigError, match=r"agent_0 truncates.*clip_range=None"):
        trainer(policies=cut, clip_range=0.2)
    with pytest.raises(ConfigError, match="top_p=1"):
        MAGRPOConfig(sampling=cut.sampling, clip_range=0.2)
    trainer(policies=cut)
    assert "truncates" in caplog.text
