"""Closed forms of the pure functions: losses, advantages, returns, schedules."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from comlrl_learners import MAGRPOConfig
from comlrl_learners.advantages import batch_normalised, group_advantages
from comlrl_learners.losses import clipped_ratio, kl_k3, over_tokens, policy_gradient
from comlrl_learners.optimisation import learning_rate_factor
from comlrl_learners.returns import completion_returns, edge_returns

LOGPROBS = torch.tensor([[-1.0, -2.0, -3.0], [-0.5, -9.0, -9.0]], dtype=torch.float64)
MASK = torch.tensor([[True, True, True], [True, False, False]])


@pytest.mark.parametrize(
    ("norm", "expected"), [("mean", [-2.0, -0.5]), ("sum", [-6.0, -0.5]), ("constant", [-0.6, -0.05])]
)
def test_tokens_are_reduced_over_the_mask_alone(norm, expected):
    assert over_tokens(LOGPROBS, MASK, norm, 10).tolist() == pytest.approx(expected)


def test_policy_gradient_is_minus_advantage_times_logprob():
    advantages = torch.tensor([2.0, -4.0], dtype=torch.float64)
    assert policy_gradient(LOGPROBS, MASK, advantages, "sum", 1).tolist() == [12.0, -2.0]


def test_token_ratios_are_clipped_pessimistically():
    old = LOGPROBS - torch.tensor([[0.0, math.log(1.5), math.log(0.5)], [math.log(1.5), 0.0, 0.0]])
    loss = clipped_ratio(LOGPROBS, old, MASK, torch.tensor([1.0, -1.0]), 0.2, "token", "sum", 1)
    assert loss.tolist() == pytest.approx([-(1 + 1.2 + 0.5), 1.5])


def test_sequence_ratios_come_from_summed_or_averaged_logs():
    old = LOGPROBS - torch.tensor([[0.01, 0.02, 0.03], [0.05, 0.0, 0.0]])
    one = torch.tensor([1.0, 1.0])
    summed = clipped_ratio(LOGPROBS, old, MASK, one, 0.2, "sequence", "sum", 1)
    averaged = clipped_ratio(LOGPROBS, old, MASK, one, 0.2, "sequence", "mean", 1)
    assert summed.tolist() == pytest.approx([-math.exp(0.06), -math.exp(0.05)])
    assert averaged.tolist() == pytest.approx([-math.exp(0.02), -math.exp(0.05)])


@given(st.lists(st.tuples(st.floats(-8, 0), st.floats(-8, 0)), min_size=1, max_size=6))
def test_kl_is_never_negative_and_zero_where_equal(pairs):
    here, there = torch.tensor(pairs, dtype=torch.float64).T.unsqueeze(1)
    mask = torch.ones_like(here, dtype=torch.bool)
    assert (kl_k3(here, there, mask) >= 0).all()
    assert (kl_k3(here, here, mask) == 0).all()


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [("none", [1, 2, 5, 0]), ("mean", [-1, 0, 3, -2]), ("max", [-4, -3, 0, -5]),
     ("leave_one_out", [1 - 7 / 3, 2 - 2, 5 - 1, 0 - 8 / 3])],
)  # fmt: skip
def test_baselines(baseline, expected):
    assert group_advantages([1, 2, 5, 0], baseline, "none").tolist() == pytest.approx(expected)


def test_group_norm_divides_by_the_sample_deviation():
    values = np.array([1.0, 2.0, 5.0, 0.0])
    expected = (values - 2) / (values.std(ddof=1) + 1e-4)
    assert group_advantages(values, "mean", "group").tolist() == pytest.approx(expected.tolist())


@given(st.floats(-1e3, 1e3), st.integers(2, 9), st.sampled_from(["mean", "max", "leave_one_out"]))
def test_a_group_without_spread_has_advantage_exactly_zero(value, count, baseline):
    for norm in ("none", "group"):
        assert (group_advantages([value] * count, baseline, norm) == 0).all()


def test_batch_norm_has_mean_zero_and_deviation_one():
    normalised = batch_normalised(np.array([1.0, 3.0, 8.0]))
    assert normalised.mean() == pytest.approx(0)
    assert normalised.std(ddof=1) == pytest.approx(1, abs=1e-3)
    assert (batch_normalised(np.full(4, 0.3)) == 0).all()


def test_returns_discount_the_mean_below():
    assert edge_returns([1.0, 2.0], [None, 10.0], 0.9) == [1.0, 11.0]
    assert completion_returns([0, 1, 0, 1], [1.0, 2.0, 3.0, 6.0], 2) == [2.0, 4.0]
    assert completion_returns([0, 1, 0, 1], [1.0, 2.0, 3.0, 6.0], 2, "sum") == [4.0, 8.0]


@pytest.mark.parametrize(
    ("schedule", "expected"), [("constant", [1, 1, 1]), ("linear", [1, 0.5, 0]), ("cosine", [1, 0.5, 0])]
)
def test_schedules_after_warm_up(schedule, expected):
    config = MAGRPOConfig(schedule=schedule, warmup_steps=4)
    assert [learning_rate_factor(config, i, 14) for i in (4, 9, 14)] == pytest.approx(expected)
    assert [learning_rate_factor(config, i, 14) for i in range(4)] == pytest.approx([0.2, 0.4, 0.6, 0.8])
