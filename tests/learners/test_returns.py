"""Returns over trees of turns: closed forms, and whole trees against the enumeration of all plays."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_learners.returns import completion_returns, edge_returns

REWARDS = st.floats(-10, 10, allow_nan=False)


def test_a_leaf_returns_its_reward_and_an_inner_edge_adds_the_discounted_mean_below():
    assert edge_returns([1.0, 2.0, 3.0], [None, 10.0, 0.0], 0.9) == [1.0, 11.0, 3.0]


@pytest.mark.parametrize(("discount", "expected"), [(0.0, [1.0, 2.0]), (0.5, [3.0, 1.0]), (1.0, [5.0, 0.0])])
def test_the_discount_weighs_what_lies_below(discount, expected):
    assert edge_returns([1.0, 2.0], [4.0, -2.0], discount) == expected


def test_rewards_and_children_of_different_number_are_refused():
    with pytest.raises(ValueError, match="zip"):
        edge_returns([1.0, 2.0], [None], 0.9)
    with pytest.raises(ValueError, match="zip"):
        completion_returns([0, 1], [1.0], 2)


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
def test_aligned_joint_actions_give_each_completion_its_own_return(aggregate):
    assert completion_returns([0, 1, 2], [0.1, 0.2, 0.7], 3, aggregate) == [0.1, 0.2, 0.7]


def test_crossed_joint_actions_are_averaged_or_summed():
    first, second = [0, 0, 1, 1], [0, 1, 0, 1]
    returns = [1.0, 2.0, 3.0, 6.0]
    assert completion_returns(first, returns, 2) == [1.5, 4.5]
    assert completion_returns(second, returns, 2) == [2.0, 4.0]
    assert completion_returns(first, returns, 2, "sum") == [3.0, 9.0]
    assert completion_returns(second, returns, 2, "sum") == [4.0, 8.0]


def test_equal_rewards_give_exactly_equal_returns_in_cross_mode():
    indices = [i for i, _ in itertools.product(range(3), repeat=2)]
    assert len(set(completion_returns(indices, [0.1] * 9, 3))) == 1


def crossed(first, later, discount, aggregate):
    """Returns of a two-turn tree of two agents, by the package: per turn and agent."""
    k = first.shape[0]
    joint = list(itertools.product(range(k), repeat=2))
    below = {
        index: edge_returns([later[(*index, *j)] for j in joint], [None] * len(joint), discount) for index in joint
    }
    means = [sum(below[index]) / len(joint) for index in joint]
    top = edge_returns([first[index] for index in joint], means, discount)
    root = [completion_returns([j[a] for j in joint], top, k, aggregate) for a in (0, 1)]
    deep = [[completion_returns([j[a] for j in joint], below[index], k, aggregate) for index in joint] for a in (0, 1)]
    return root, deep


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
@pytest.mark.parametrize("count", [2, 3])
def test_two_turns_of_cross_mode_equal_the_enumeration_of_all_plays(count, aggregate):
    draws = np.random.default_rng(count)
    first, later = draws.normal(size=(count,) * 2), draws.normal(size=(count,) * 4)
    root, deep = crossed(first, later, 0.9, aggregate)
    plays = list(itertools.product(range(count), repeat=4))
    for agent in (0, 1):
        for k in range(count):
            values = [first[p[:2]] + 0.9 * later[p] for p in plays if p[agent] == k]
            # Every joint action of the root that contains the completion continues in count ** 2 plays.
            weight = len(values) if aggregate == "mean" else count**2
            assert root[agent][k] == pytest.approx(sum(values) / weight, abs=1e-12)
            for place, index in enumerate(itertools.product(range(count), repeat=2)):
                there = [later[p] for p in plays if p[:2] == index and p[2 + agent] == k]
                expected = sum(there) / (len(there) if aggregate == "mean" else 1)
                assert deep[agent][place][k] == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.lists(REWARDS, min_size=4, max_size=4), min_size=5, max_size=5), st.floats(0, 1))
def test_the_mean_return_of_a_node_is_the_mean_over_its_plays(rewards, discount):
    top, *below = rewards
    found = edge_returns(top, [sum(r) / 4 for r in below], discount)
    plays = [one + discount * two for one, later in zip(top, below, strict=True) for two in later]
    assert sum(found) / 4 == pytest.approx(sum(plays) / 16, abs=1e-9)
    for aggregate, factor in (("mean", 1), ("sum", 2)):
        parts = completion_returns([0, 0, 1, 1], found, 2, aggregate)
        assert sum(parts) / 2 == pytest.approx(factor * sum(plays) / 16, abs=1e-9)
