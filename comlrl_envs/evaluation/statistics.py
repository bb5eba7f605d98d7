"""Means, rates and pass@k with intervals that know that episodes of one task are not independent.

The unit of every interval is the task: tasks are a sample of those that might have been asked, episodes of one task
share its difficulty. Intervals are two-sided with ``LEVEL`` coverage.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
_EXACT_UP_TO = 200
"""Degrees of freedom up to which the t distribution is summed exactly."""
_TRACE = 1e-12
"""What rounding may leave of a spread of zero, as a share of the largest value."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and how far it may be off.

    Attributes:
        mean: The estimate.
        low: Lower end of the interval; None if the data do not tell (fewer than two tasks).
        high: Upper end.
    """

    mean: float
    low: float | None = None
    high: float | None = None


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that of ``k`` episodes drawn from ``n``, ``c`` of them successes, one at least succeeds.

    The unbiased estimate ``1 - C(n - c, k) / C(n, k)`` of Chen et al., "Evaluating Large Language Models Trained on
    Code" (2021), section 2.1.

    Raises:
        ValueError: Not ``0 <= c <= n`` and ``1 <= k <= n``: fewer than ``k`` episodes do not tell.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass_at_k(n={n}, c={c}, k={k}); expected 0 <= c <= n and 1 <= k <= n.")
    missed = 1.0
    for tried in range(k):
        missed *= max(n - c - tried, 0) / (n - tried)
    return 1.0 - missed


def clustered_mean(
    clusters: Sequence[Sequence[float]], bounds: tuple[float, float] = (-math.inf, math.inf)
) -> Estimate:
    """Mean over all values, with a t interval over clusters.

    The standard error is the cluster-robust one, with ``tasks / (tasks - 1)`` as its correction and ``tasks - 1``
    degrees of freedom. The interval is cut to ``bounds``.

    If all tasks are alike, up to rounding, their spread says nothing. With finite bounds the interval then allows for
    a share of tasks that turned out otherwise and was not met: Wilson's upper limit at 0 of as many tasks. Without, it
    is unknown.

    Args:
        clusters: The values of each task; empty ones are left out.
        bounds: Lowest and highest value possible.
    """
    used = [values for values in clusters if values]
    mean, error = _mean_and_error(used)
    if len(used) < 2:
        return Estimate(mean)
    low, high = bounds
    if _alike(used, error):
        if not (math.isfinite(low) and math.isfinite(high)):
            return Estimate(mean)
        unseen = _unseen_share(len(used))
        return Estimate(mean, mean - (mean - low) * unseen, mean + (high - mean) * unseen)
    reach = t_quantile(0.5 + LEVEL / 2, len(used) - 1) * error
    return Estimate(mean, max(low, mean - reach), min(high, mean + reach))


def clustered_rate(clusters: Sequence[Sequence[float]]) -> Estimate:
    """Mean over all values in [0, 1], with Wilson's interval at the effective number of values.

    That is the number of independent values that would have the cluster-robust standard error. Where all tasks are
    alike it is unknown; the number of tasks then stands in, as if each task always went alike: 30 tasks without a
    failure tell that less than 13 % fail, not that none does.

    Args:
        clusters: The values of each task, such as 1.0 for a success; empty ones are left out.
    """
    used = [values for values in clusters if values]
    mean, error = _mean_and_error(used)
    if len(used) < 2:
        return Estimate(mean)
    # Equal tasks, even of unequal episodes, show no spread to measure; rounding may leave a trace of one.
    effective = len(used) if error < _TRACE else mean * (1.0 - mean) / error**2
    return _wilson(mean, effective, t_quantile(0.5 + LEVEL / 2, len(used) - 1))


def t_quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's t distribution, ``0.5 <= probability < 1``, for whole degrees of freedom >= 1."""
    if not 0.5 <= probability < 1.0 or freedom < 1:
        raise ValueError(f"t_quantile({probability}, {freedom}); expected 0.5 <= probability < 1 and freedom >= 1.")
    return _t_quantile(probability, freedom)


@functools.lru_cache(maxsize=256)
def _t_quantile(probability: float, freedom: int) -> float:
    if freedom > _EXACT_UP_TO:
        return _expanded(statistics.NormalDist().inv_cdf(probability), freedom)
    low, high = 0.0, 1.0
    while _t_cdf(high, freedom) < probability:
        high *= 2.0
    for _ in range(100):
        middle = (low + high) / 2.0
        if _t_cdf(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return high


def _t_cdf(t: float, freedom: int) -> float:
    """Distribution function for t >= 0 by its finite series (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2 == 1
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for i in range(2 if odd else 1, freedom - 1, 2):
        term *= cosine**2 * i / (i + 1)
        total += term
    inside = (2.0 / math.pi) * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
    return 0.5 + inside / 2.0


def _expanded(z: float, freedom: int) -> float:
    """Cornish and Fisher's expansion around the normal quantile ``z`` (Abramowitz and Stegun, 26.7.5)."""
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def _mean_and_error(clusters: Sequence[Sequence[float]]) -> tuple[float, float]:
    count = sum(len(values) for values in clusters)
    if count == 0:
        raise ValueError("There are no values to take a mean of.")
    mean = math.fsum(value for values in clusters for value in values) / count
    if len(clusters) < 2:
        return mean, math.nan
    squares = math.fsum(math.fsum(value - mean for value in values) ** 2 for values in clusters)
    return mean, math.sqrt(squares * len(clusters) / (len(clusters) - 1)) / count


def _alike(clusters: Sequence[Sequence[float]], error: float) -> bool:
    """Whether no more than rounding tells the clusters apart."""
    return error <= _TRACE * max(abs(value) for values in clusters for value in values)


def _unseen_share(tasks: int) -> float:
    square = t_quantile(0.5 + LEVEL / 2, tasks - 1) ** 2
    return square / (tasks + square)


def _wilson(mean: float, size: float, z: float) -> Estimate:
    spread = z**2 / size
    center = (mean + spread / 2.0) / (1.0 + spread)
    reach = math.sqrt(max(mean * (1.0 - mean), 0.0) * spread + spread**2 / 4.0) / (1.0 + spread)
    return Estimate(mean, max(0.0, min(mean, center - reach)), min(1.0, max(mean, center + reach)))
