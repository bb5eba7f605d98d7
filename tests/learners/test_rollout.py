from concurrent.futures import ThreadPoolExecutor

import pytest
from envs.toys import ROWS, TurnTaking

from comlrl_envs import Task, TextGame
from comlrl_learners.rollout import RolloutPlan, Visit, joint_indices, rollout

from .small import policy


@pytest.fixture(scope="module")
def team():
    return {"asker": policy(seed=1), "answerer": policy(seed=2)}


def visits(count=2, number=0, seed=0, purpose="train"):
    return [Visit(Task(f"row{i}", ROWS[i]), number, seed, purpose) for i in range(count)]


def played(team, given, plan, executor=None, game=None):
    roots, stats = rollout(game or TextGame(TurnTaking(max_turns=3)), team, given, plan, executor)
    return [node for root in roots for node in root.subtree()], stats


def spread(first, second):
    return sum(map(ord, first + second)) % 101 / 101


def texts(nodes):
    return [[c.ids for c in group] for node in nodes for group in node.completions.values()]


def test_joint_actions_pair_or_combine_completions():
    assert joint_indices(2, RolloutPlan(3)) == [(0, 0), (1, 1), (2, 2)]
    assert joint_indices(2, RolloutPlan(2, "cross")) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert joint_indices(1, RolloutPlan(2, "cross")) == joint_indices(1, RolloutPlan(2)) == [(0,), (1,)]


def test_only_those_whose_turn_it_is_write(team):
    nodes, stats = played(team, visits(), RolloutPlan(2))
    assert {(node.episode.turn, node.acting) for node in nodes} == {
        (0, ("asker",)),
        (1, ("answerer",)),
        (2, ("asker",)),
    }
    assert all(set(node.completions) == set(node.acting) for node in nodes)
    assert stats.joint_actions == 2 * (2 + 4 + 8) == sum(len(node.edges) for node in nodes)
    assert stats.tokens == sum(map(len, (ids for group in texts(nodes) for ids in group)))


def test_a_branch_is_the_path_of_edge_numbers(team):
    nodes, _ = played(team, visits(1), RolloutPlan(2))
    assert [node.branch for node in nodes] == [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    root = nodes[0]
    assert root.edges[1].child is nodes[2]
    assert nodes[2].episode.past[0][0].reply == root.completions["asker"][1].text


def test_the_first_of_many_completions_equal_the_first_of_few(team):
    few, _ = played(team, visits(1), RolloutPlan(2, max_turns=1))
    many, _ = played(team, visits(1), RolloutPlan(5, max_turns=1))
    assert texts(many)[0][:2] == texts(few)[0]


@pytest.mark.parametrize("other", [{"number": 1}, {"seed": 1}, {"purpose": "eval"}])
def test_visit_seed_and_purpose_decide_the_draws(team, other):
    plan = RolloutPlan(4, max_turns=1)
    base, _ = played(team, visits(), plan)
    same, _ = played(team, visits(), plan)
    changed, _ = played(team, visits(**other), plan)
    assert texts(base) == texts(same)
    assert all(a != b for a, b in zip(texts(base), texts(changed), strict=True))


def test_an_agents_draws_depend_on_its_name_not_on_who_shares_its_weights():
    one = policy(seed=1)
    plan = RolloutPlan(3, max_turns=2)
    shared, _ = played({"asker": one, "answerer": one}, visits(), plan)
    apart, _ = played({"asker": one, "answerer": policy(seed=1)}, visits(), plan)
    assert texts(shared) == texts(apart)


def test_threads_change_nothing(team):
    alone, _ = played(team, visits(), RolloutPlan(2))
    with ThreadPoolExecutor(2) as executor:
        side_by_side, _ = played(team, visits(), RolloutPlan(2), executor)
    assert texts(alone) == texts(side_by_side)


def test_a_bound_on_the_mean_reward_ends_only_the_nodes_above_it(team):
    game = TextGame(TurnTaking(max_turns=3)).with_reward(lambda asker, answerer: list(map(spread, asker, answerer)))
    everything, _ = played(team, visits(), RolloutPlan(2), game=game)
    means = sorted(sum(e.reward for e in node.edges) / 2 for node in everything if node.episode.turn < 2)
    bound = means[len(means) // 2]
    pruned, _ = played(team, visits(), RolloutPlan(2, prune_above=bound), game=game)
    assert 2 < len(pruned) < len(everything)
    for node in pruned:
        over = sum(edge.reward for edge in node.edges) / 2 > bound
        assert all((edge.child is None) == (over or node.episode.turn == 2) for edge in node.edges)


def test_nothing_to_visit_is_nothing(team):
    assert played(team, [], RolloutPlan(2))[0] == []
