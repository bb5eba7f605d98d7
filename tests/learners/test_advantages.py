"""Advantages of one group and of a batch, in closed form; what carries no information gives exactly 0."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_learners.advantages import EPSILON, batch_normalised, group_advantages, has_spread

RETURNS = [1.0, 2.0, 5.0, 0.0]
DEVIATION = math.sqrt((1 + 0 + 9 + 4) / 3)
BASELINES = ("none", "mean", "leave_one_out", "max")
GROUPS = st.lists(st.floats(-1e3, 1e3, allow_nan=False, width=32), min_size=2, max_size=9)


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ("none", [1.0, 2.0, 5.0, 0.0]),
        ("mean", [-1.0, 0.0, 3.0, -2.0]),
        ("max", [-4.0, -3.0, 0.0, -5.0]),
        ("leave_one_out", [1 - 7 / 3, 2 - 6 / 3, 5 - 3 / 3, 0 - 8 / 3]),
    ],
)
def test_each_baseline_subtracts_what_it_says(baseline, expected):
    assert group_advantages(RETURNS, baseline, "none").tolist() == pytest.approx(expected, abs=1e-14)
    scaled = [value / (DEVIATION + 1e-4) for value in expected]
    assert group_advantages(RETURNS, baseline, "group").tolist() == pytest.approx(scaled, abs=1e-14)


def test_the_deviation_is_that_of_a_sample_with_one_ten_thousandth_added():
    assert EPSILON == 1e-4
    found = group_advantages([0.0, 2.0], "mean", "group")
    assert found.tolist() == pytest.approx([-1 / (math.sqrt(2) + 1e-4), 1 / (math.sqrt(2) + 1e-4)], abs=1e-15)


def test_batch_norm_leaves_the_groups_scale_to_the_batch():
    assert group_advantages(RETURNS, "mean", "batch").tolist() == group_advantages(RETURNS, "mean", "none").tolist()


CONSTANTS = [0.1, 1 / 3, -0.7, 1e-17, 123456.789, 0.0]


@pytest.mark.parametrize("value", CONSTANTS)
@pytest.mark.parametrize("count", [2, 3, 7, 8])
def test_a_group_of_equal_returns_has_exactly_zero_advantages(value, count):
    """Although the mean of equal numbers need not equal them: that of eight or ten times 0.1 rounds."""
    for baseline in BASELINES:
        for norm in ("none", "group", "batch"):
            if (baseline, norm) not in {("none", "none"), ("none", "batch")}:
                assert group_advantages([value] * count, baseline, norm).tolist() == [0.0] * count


def test_rounding_means_are_among_the_cases():
    assert any(np.mean([value] * count) != value for value in CONSTANTS for count in (3, 7, 8))


def test_without_baseline_and_norm_equal_returns_stay_as_they_are():
    assert group_advantages([0.1] * 8, "none", "none").tolist() == [0.1] * 8


@given(GROUPS)
def test_mean_and_leave_one_out_differ_by_the_factor_of_the_group_size(returns):
    count = len(returns)
    mean, others = (group_advantages(returns, baseline, "none") for baseline in ("mean", "leave_one_out"))
    np.testing.assert_allclose(others, mean * count / (count - 1), atol=1e-9)


@given(GROUPS)
def test_signs_and_sums_follow_the_baseline(returns):
    assert abs(group_advantages(returns, "mean", "none").sum()) < 1e-9
    best = group_advantages(returns, "max", "none")
    assert (best <= 0).all()
    assert best.max() == 0


@given(GROUPS, st.floats(-100, 100), st.sampled_from(["mean", "leave_one_out", "max"]))
def test_a_shift_of_all_returns_changes_no_advantage(returns, shift, baseline):
    shifted = [value + shift for value in returns]
    if has_spread(returns) and has_spread(shifted):
        expected = group_advantages(returns, baseline, "none")
        np.testing.assert_allclose(group_advantages(shifted, baseline, "none"), expected, atol=1e-9)


@pytest.mark.parametrize("norm", ["none", "group", "batch"])
def test_advantages_are_double_precision_and_leave_the_returns_alone(norm):
    returns = np.array(RETURNS)
    assert group_advantages(returns, "mean", norm).dtype == np.float64
    assert returns.tolist() == RETURNS


def test_batch_norm_has_mean_zero_and_deviation_one_across_groups():
    groups = [group_advantages(returns, "mean", "batch") for returns in ([0.0, 1.0], [0.0, 10.0])]
    together = np.concatenate(groups)
    found = batch_normalised(together)
    deviation = math.sqrt((0.25 + 0.25 + 25 + 25) / 3)
    assert found.tolist() == pytest.approx([v / (deviation + 1e-4) for v in (-0.5, 0.5, -5.0, 5.0)], abs=1e-14)


def test_batch_norm_shifts_what_has_no_baseline():
    found = batch_normalised(np.array([1.0, 3.0, 8.0]))
    deviation = math.sqrt((9 + 1 + 16) / 2)
    assert found.tolist() == pytest.approx([v / (deviation + 1e-4) for v in (-3.0, -1.0, 4.0)], abs=1e-14)


@pytest.mark.parametrize("values", [[0.1] * 8, [0.3] * 7, [4.0]])
def test_a_batch_without_spread_has_exactly_zero_advantages(values):
    assert batch_normalised(np.array(values)).tolist() == [0.0] * len(values)


@pytest.mark.parametrize(("returns", "expected"), [([0.1] * 8, False), ([0.1, 0.1 + 1e-16, 0.2], True), ([5.0], False)])
def test_spread_means_that_two_returns_differ(returns, expected):
    assert has_spread(returns) is expected
