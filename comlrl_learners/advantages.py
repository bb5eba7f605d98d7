"""Advantages over groups of completions (pure functions).

A group holds the completions of one agent at one node. Which combination is which paper:

| algorithm | baseline | advantage_norm | source |
|---|---|---|---|
| MAGRPO | mean | group | GRPO: Shao et al. 2024, DeepSeekMath, eq. (outcome supervision) |
| MARLOO | leave_one_out | none | Kool et al. 2019; Ahmadian et al. 2024, Back to Basics |
| MAReMax | max | none | ReMax: Li et al. 2024, with the group's best return as baseline |
| MAREINFORCE | none | none | Williams 1992 |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

Baseline = Literal["none", "mean", "leave_one_out", "max"]
AdvantageNorm = Literal["none", "group", "batch"]

EPSILON = 1e-4
"""Added to a standard deviation before dividing by it."""


def has_spread(returns: Sequence[float]) -> bool:
    """Whether a group's returns differ at all."""
    return max(returns) != min(returns)


def group_advantages(returns: Sequence[float], baseline: Baseline, norm: AdvantageNorm) -> np.ndarray:
    """Advantages of one group.

    Args:
        returns: The K returns of the group.
        baseline: What is subtracted: nothing, the group mean, the mean of the others (leave one out), the maximum.
        norm: "group" divides by the group's sample standard deviation; "none" and "batch" leave the scale.

    Returns:
        K advantages, float64. A group without spread gives exactly 0 wherever a baseline is subtracted or the
        group is normalised.
    """
    values = np.asarray(returns, dtype=np.float64)
    if not has_spread(returns) and (baseline != "none" or norm == "group"):
        return np.zeros_like(values)
    advantages = values - _baseline(values, baseline)
    if norm == "group":
        advantages = advantages / (values.std(ddof=1) + EPSILON)
    return advantages


def batch_normalised(advantages: np.ndarray) -> np.ndarray:
    """Shift and scale one agent's advantages of a whole batch to mean 0 and standard deviation 1."""
    if advantages.size < 2 or advantages.max() == advantages.min():
        return np.zeros_like(advantages)
    return np.asarray((advantages - advantages.mean()) / (advantages.std(ddof=1) + EPSILON))


def _baseline(values: np.ndarray, kind: Baseline) -> np.ndarray | float:
    if kind == "none":
        return 0.0
    if kind == "mean":
        return float(values.mean())
    if kind == "max":
        return float(values.max())
    return np.asarray((values.sum() - values) / (values.size - 1))
