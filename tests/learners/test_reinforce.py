"""The REINFORCE family: returns, advantages and steps on policies whose rounds take hundredths of a second."""

import itertools
import math

import pytest
import torch
from envs.toys import TurnTaking

from comlrl_envs import TaskSet, TextEnv, TextGame
from comlrl_learners import (
    LLMPolicy,
    MAGRPOTrainer,
    MAREINFORCETrainer,
    MAReMaxTrainer,
    MARLOOTrainer,
)

from .reinforce_games import (
    AGENTS,
    FAMILY,
    RAW,
    ROWS,
    advantages,
    collect,
    constant,
    game,
    gradient,
    gradient_sums,
    spread,
    trainer,
)
from .toy_models import flat_weights, toy_policy, toy_team


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
