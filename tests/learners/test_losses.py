"""Losses on tiny arrays against numbers worked out by hand, and their gradients by autograd."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from comlrl_learners.losses import clipped_ratio, kl_k3, over_tokens, policy_gradient

NORMS = ("mean", "sum", "constant")
CONSTANT = 10
MASK = torch.tensor([[True, True, True], [True, False, False]])
LOGPROBS = [[-1.0, -2.0, -3.0], [-0.5, -9.0, -9.0]]
RATIOS = [[1.5, 1.0, 0.5], [0.9, 7.0, 7.0]]
"""Of a policy to the one that sampled; what padding holds must not matter."""


def tensor(values, **options):
    return torch.tensor(values, dtype=torch.float64, **options)


def logprobs_with_gradient():
    return tensor(LOGPROBS, requires_grad=True)


def old_for(ratios):
    return tensor(LOGPROBS) - tensor(ratios).log()


@pytest.mark.parametrize(
    ("norm", "expected"), [("mean", [-2.0, -0.5]), ("sum", [-6.0, -0.5]), ("constant", [-0.6, -0.05])]
)
def test_each_norm_weighs_the_sampled_tokens_alone(norm, expected):
    assert over_tokens(tensor(LOGPROBS), MASK, norm, CONSTANT).tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("norm", "expected"), [("mean", [4.0, -2.0]), ("sum", [12.0, -2.0]), ("constant", [1.2, -0.2])]
)
def test_policy_gradient_is_minus_advantage_times_reduced_logprob(norm, expected):
    loss = policy_gradient(tensor(LOGPROBS), MASK, tensor([2.0, -4.0]), norm, CONSTANT)
    assert loss.tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("norm", "weights"), [("mean", [1 / 3, 1.0]), ("sum", [1.0, 1.0]), ("constant", [0.1, 0.1])])
def test_each_sampled_token_has_gradient_minus_advantage_times_its_weight(norm, weights):
    here = logprobs_with_gradient()
    policy_gradient(here, MASK, tensor([2.0, -4.0]), norm, CONSTANT).sum().backward()
    expected = tensor([[-2.0 * weights[0]] * 3, [4.0 * weights[1], 0.0, 0.0]])
    torch.testing.assert_close(here.grad, expected, atol=1e-15, rtol=0)


@pytest.mark.parametrize("bad", [math.nan, -math.inf, math.inf])
@pytest.mark.parametrize("level", ["plain", "token", "sequence"])
def test_padding_that_is_not_finite_reaches_neither_loss_nor_gradient(bad, level):
    here = tensor([[-1.0, -2.0, -3.0], [-0.5, bad, bad]], requires_grad=True)
    advantages = tensor([1.0, 2.0])
    if level == "plain":
        losses = policy_gradient(here, MASK, advantages, "mean", CONSTANT)
    else:
        losses = clipped_ratio(here, old_for(RATIOS), MASK, advantages, 0.2, level, "mean", CONSTANT)
    losses.sum().backward()
    assert torch.isfinite(losses).all()
    assert torch.isfinite(here.grad).all()
    assert (here.grad[1, 1:] == 0).all()


@pytest.mark.parametrize(
    ("advantage", "surrogate"),
    [(1.0, [1.2, 1.0, 0.5]), (-1.0, [-1.5, -1.0, -0.8]), (2.0, [2.4, 2.0, 1.0]), (0.0, [0.0, 0.0, 0.0])],
)
@pytest.mark.parametrize(("norm", "divisor"), [("mean", 3), ("sum", 1), ("constant", 10)])
def test_token_ratios_take_the_worse_of_clipped_and_unclipped(advantage, surrogate, norm, divisor):
    advantages = tensor([advantage, advantage])
    loss = clipped_ratio(tensor(LOGPROBS), old_for(RATIOS), MASK, advantages, 0.2, "token", norm, CONSTANT)
    short = {"mean": 1, "sum": 1, "constant": 10}[norm]
    assert loss.tolist() == pytest.approx([-sum(surrogate) / divisor, -0.9 * advantage / short], abs=1e-14)


@pytest.mark.parametrize(("advantage", "gradient"), [(1.0, [0.0, -1.0, -0.5]), (-1.0, [1.5, 1.0, 0.0])])
def test_a_token_clipped_on_the_side_it_is_pushed_to_has_no_gradient(advantage, gradient):
    here = logprobs_with_gradient()
    advantages = tensor([advantage, advantage])
    clipped_ratio(here, old_for(RATIOS), MASK, advantages, 0.2, "token", "sum", CONSTANT)[0].backward()
    assert here.grad[0].tolist() == pytest.approx(gradient, abs=1e-14)


@pytest.mark.parametrize(
    ("norm", "exponents"), [("sum", [0.06, 0.05]), ("mean", [0.02, 0.05]), ("constant", [0.006, 0.005])]
)
def test_a_sequence_ratio_is_the_exponential_of_the_reduced_log_ratio(norm, exponents):
    old = tensor(LOGPROBS) - tensor([[0.01, 0.02, 0.03], [0.05, 5.0, 5.0]])
    loss = clipped_ratio(tensor(LOGPROBS), old, MASK, tensor([1.0, -3.0]), 0.2, "sequence", norm, CONSTANT)
    assert loss.tolist() == pytest.approx([-math.exp(exponents[0]), 3 * math.exp(exponents[1])], abs=1e-14)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "moves"),
    [
        (1.5, 1.0, -1.2, False), (1.5, -1.0, 1.5, True), (0.5, 1.0, -0.5, True), (0.5, -1.0, 0.8, False),
        (1.1, 1.0, -1.1, True), (0.9, -1.0, 0.9, True),
    ],
)  # fmt: skip
def test_sequence_ratios_are_clipped_for_both_signs_of_the_advantage(ratio, advantage, loss, moves):
    here = logprobs_with_gradient()
    old = tensor(LOGPROBS) - math.log(ratio) / 3
    found = clipped_ratio(here, old, MASK, tensor([advantage, 0.0]), 0.2, "sequence", "sum", CONSTANT)
    found[0].backward()
    assert found[0].item() == pytest.approx(loss, abs=1e-14)
    expected = [-advantage * ratio if moves else 0.0] * 3
    assert here.grad[0].tolist() == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_on_fresh_samples_the_ratio_has_the_plain_gradient(level, norm):
    gradients = []
    for kind in ("plain", "ratio"):
        here, advantages = logprobs_with_gradient(), tensor([2.0, -4.0])
        if kind == "plain":
            losses = policy_gradient(here, MASK, advantages, norm, CONSTANT)
        else:
            losses = clipped_ratio(here, tensor(LOGPROBS), MASK, advantages, 0.2, level, norm, CONSTANT)
        losses.sum().backward()
        gradients.append(here.grad)
    torch.testing.assert_close(*gradients, atol=1e-15, rtol=0)


def test_kl_estimate_has_its_closed_form_and_nothing_at_padding():
    there = tensor(LOGPROBS) + tensor([[math.log(2), 0.0, -math.log(2)], [1.0, 50.0, math.nan]])
    expected = [[1 - math.log(2), 0.0, math.log(2) - 0.5], [math.e - 2, 0.0, 0.0]]
    found = kl_k3(tensor(LOGPROBS), there, MASK)
    torch.testing.assert_close(found, tensor(expected), atol=1e-14, rtol=0)


def test_kl_estimate_has_gradient_one_minus_the_ratio_to_the_reference():
    here = logprobs_with_gradient()
    kl_k3(here, tensor(LOGPROBS) + math.log(2), MASK).sum().backward()
    assert here.grad.tolist() == [pytest.approx([-1.0] * 3), pytest.approx([-1.0, 0.0, 0.0])]


FINITE = st.floats(-30, 0, allow_nan=False)
NEAR = st.floats(-1e-3, 1e-3, allow_nan=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(here=FINITE, shift=st.one_of(NEAR, st.floats(-30, 30, allow_nan=False)))
def test_kl_estimate_is_never_negative(here, shift, dtype):
    one, other = torch.tensor([[here]], dtype=dtype), torch.tensor([[here + shift]], dtype=dtype)
    assert kl_k3(one, other, torch.ones(1, 1, dtype=torch.bool)).item() >= 0


@given(st.lists(FINITE, min_size=1, max_size=6))
def test_kl_estimate_is_exactly_zero_where_both_agree(values):
    row = tensor([values])
    assert (kl_k3(row, row.clone(), torch.ones_like(row, dtype=torch.bool)) == 0).all()


def test_the_expected_kl_estimate_is_the_kl():
    logits, reference = torch.randn(2, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    here, there = logits.log_softmax(-1), reference.log_softmax(-1)
    estimates = kl_k3(here[:, None], there[:, None], torch.ones(50, 1, dtype=torch.bool))[:, 0]
    expected = (here.exp() * (here - there)).sum()
    assert (here.exp() * estimates).sum().item() == pytest.approx(expected.item(), abs=1e-12)
