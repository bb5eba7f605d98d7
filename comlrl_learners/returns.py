"""Returns over a tree of turns (pure functions)."""

from __future__ import annotations

import math
from collections.abc import Sequence


def edge_returns(rewards: Sequence[float], child_means: Sequence[float | None], discount: float) -> list[float]:
    """Return of each joint action of a node.

    R_j = r_j + discount * (mean return of the child's joint actions), or r_j at a leaf.

    Args:
        rewards: Reward of each joint action.
        child_means: Mean return of each child, None at a leaf.
        discount: In [0, 1].
    """
    return [
        reward if child is None else reward + discount * child
        for reward, child in zip(rewards, child_means, strict=True)
    ]


def completion_returns(
    indices: Sequence[int], returns: Sequence[float], count: int, aggregate: str = "mean"
) -> list[float]:
    """Return of each completion of one agent at a node.

    Args:
        indices: For each joint action, which of the agent's completions it contains.
        returns: For each joint action, its return.
        count: Number of completions K.
        aggregate: "mean" over the joint actions that contain the completion, or "sum" (the published form of the
            cross mode). With aligned joint actions both are the single return.
    """
    contained: list[list[float]] = [[] for _ in range(count)]
    for index, value in zip(indices, returns, strict=True):
        contained[index].append(value)
    totals = [math.fsum(values) for values in contained]
    if aggregate == "sum":
        return totals
    return [total / len(values) for total, values in zip(totals, contained, strict=True)]
