"""Temporal-difference targets and advantages over a tree of turns (pure functions).

Sutton and Barto 2018, chapter 6 (TD) and 12 (lambda); Schulman et al. 2016, eq. 16 (GAE); Foerster et al. 2018,
section 3 (counterfactual baseline).
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def edge_advantages(
    rewards: Sequence[float],
    value: float,
    child_values: Sequence[float | None],
    child_advantages: Sequence[float | None],
    discount: float,
    gae_lambda: float,
) -> list[float]:
    """Generalised advantage of each joint action of a node.

    A_j = r_j + discount * V(child_j) - V + discount * gae_lambda * (mean advantage at child_j); both child terms are
    missing at a leaf. With gae_lambda 0 this is the TD(0) residual, with 1 the return minus the value.

    Args:
        rewards: Reward of each joint action.
        value: V of the node.
        child_values: V of each child, None at a leaf.
        child_advantages: Mean advantage of each child's joint actions, None at a leaf.
        discount: In [0, 1].
        gae_lambda: In [0, 1].
    """
    return [
        reward - value + discount * ((after or 0.0) + gae_lambda * (further or 0.0))
        for reward, after, further in zip(rewards, child_values, child_advantages, strict=True)
    ]


def idle_value(rewards: Sequence[float], child_values: Sequence[float | None], discount: float) -> float:
    """What is to be expected where an agent only watches: the mean of reward and discounted value of each child."""
    return math.fsum(
        reward + discount * (after or 0.0) for reward, after in zip(rewards, child_values, strict=True)
    ) / len(rewards)


def action_targets(rewards: Sequence[float], child_means: Sequence[float | None], discount: float) -> list[float]:
    """Targets of Q for each joint action: r_j + discount * (mean Q over the child's joint actions), r_j at a leaf."""
    return [reward + discount * (after or 0.0) for reward, after in zip(rewards, child_means, strict=True)]


def counterfactual(values: Sequence[float], chosen: int) -> float:
    """Q of the chosen completion minus the mean over the agent's K completions, the others' texts held fixed."""
    return values[chosen] - math.fsum(values) / len(values)
