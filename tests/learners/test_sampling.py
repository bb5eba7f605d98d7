import itertools

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from comlrl_learners import ConfigError, SamplingParams
from comlrl_learners.sampling import draw, shape_logits, truncate_logits, uniforms


def test_draws_follow_the_distribution():
    logits = torch.tensor([[0.0, 1.0, -1.0, 2.0, float("-inf")]])
    numbers = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    tokens, logprobs = draw(logits.expand(20_000, -1), SamplingParams(), numbers)
    shares = torch.bincount(tokens, minlength=5) / 20_000
    torch.testing.assert_close(shares, logits[0].softmax(-1), atol=1e-4, rtol=0)
    torch.testing.assert_close(logprobs, logits[0].log_softmax(-1)[tokens])


@pytest.mark.parametrize("u", [0.0, 1 - 2**-53])
@pytest.mark.parametrize("params", [SamplingParams(top_k=2), SamplingParams(top_p=0.5), SamplingParams()])
def test_a_token_of_probability_zero_is_never_drawn(u, params):
    logits = torch.tensor([[float("-inf"), 3.0, 0.0, 2.5, float("-inf"), float("-inf")]])
    token, logprob = draw(logits, params, torch.tensor([u], dtype=torch.float64))
    assert torch.isfinite(logprob).all()
    assert torch.isfinite(truncate_logits(logits, params)[0, token]).all()


def test_truncated_draws_record_the_renormalised_logprob():
    logits = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    token, logprob = draw(logits, SamplingParams(top_k=2), torch.tensor([0.99], dtype=torch.float64))
    kept = torch.tensor([3.0, 4.0]).log_softmax(-1)
    assert token.item() == 3
    assert logprob.item() == pytest.approx(kept[1].item())


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    kept = torch.isfinite(truncate_logits(logits, SamplingParams(top_p=0.6)))
    assert kept.tolist() == [[True, True, False]]


def test_temperature_zero_takes_the_most_likely():
    token, logprob = draw(torch.tensor([[1.0, 5.0]]), SamplingParams(temperature=0.0), torch.tensor([0.0]))
    assert (token.item(), logprob.item()) == (1, 0.0)


def test_no_end_token_before_min_new_tokens():
    shaped = shape_logits(torch.zeros(1, 4, 3), SamplingParams(min_new_tokens=2), [1], 0)
    assert torch.isinf(shaped[0, :, 1]).tolist() == [True, True, False, False]


def test_a_row_of_uniforms_depends_on_its_key_alone():
    np.testing.assert_array_equal(uniforms([5, 9, 2], 7)[1], uniforms([9], 7)[0])


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"temperature": -1}, "temperature"), ({"top_p": 0}, "top_p"), ({"top_k": -1}, "top_k"),
     ({"max_new_tokens": 0}, "max_new_tokens"), ({"min_new_tokens": 9, "max_new_tokens": 8}, "min_new_tokens")],
)  # fmt: skip
def test_values_out_of_range_are_named(settings, named):
    with pytest.raises(ConfigError, match=named):
        SamplingParams(**settings)


def stratified(logits, params, count=20_000):
    """`count` draws from evenly spread uniforms."""
    numbers = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    return draw(logits.expand(count, -1), params, numbers)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_frequencies_of_random_draws_pass_a_chi_square_bound(temperature):
    params = SamplingParams(temperature=temperature)
    logits = torch.tensor([[0.3, -0.2, 1.1, 0.0, -1.5, 0.8]])
    expected = (logits[0].double() / temperature).softmax(-1) * 30_000
    shaped = shape_logits(logits[:, None], params, [1], 0)[:, -1]
    numbers = torch.from_numpy(uniforms(range(3_000), 10)).flatten()
    tokens, _ = draw(shaped.expand(30_000, -1), params, numbers)
    counts = torch.bincount(tokens, minlength=6)
    # 0.9999 quantile of chi-square with 5 degrees of freedom.
    assert float(((counts - expected) ** 2 / expected).sum()) < 25.74


@pytest.mark.parametrize(
    "params", [SamplingParams(top_k=3), SamplingParams(top_p=0.8), SamplingParams(top_k=4, top_p=0.7)]
)
@settings(deadline=None)
@given(st.lists(st.floats(-6, 6, width=32), min_size=5, max_size=12, unique=True))
def test_truncated_draws_follow_the_renormalised_distribution(params, values):
    logits = torch.tensor([values])
    kept = torch.isfinite(truncate_logits(logits, params)[0])
    expected = torch.where(kept, logits[0].double().softmax(-1), 0.0)
    expected = expected / expected.sum()
    tokens, logprobs = stratified(logits, params, 4_000)
    shares = torch.bincount(tokens, minlength=len(values)) / 4_000
    torch.testing.assert_close(shares.double(), expected, atol=1e-3, rtol=0)
    torch.testing.assert_close(logprobs.double(), expected[tokens].log(), atol=1e-5, rtol=0)


@settings(deadline=None)
@given(st.lists(st.floats(-6, 6, width=32), min_size=3, max_size=12, unique=True), st.floats(0.05, 0.95))
def test_top_p_is_the_smallest_set_of_most_likely_tokens_that_reaches_it(values, top_p):
    logits = torch.tensor([values], dtype=torch.float64)
    ordered = sorted(logits[0].softmax(-1).tolist(), reverse=True)
    sums = list(itertools.accumulate(ordered))
    assume(min(abs(total - top_p) for total in sums) > 1e-9)
    count = 1 + next(i for i, total in enumerate(sums) if total > top_p)
    kept = torch.isfinite(truncate_logits(logits, SamplingParams(top_p=top_p)))[0]
    assert set(kept.nonzero()[:, 0].tolist()) == set(logits[0].topk(count).indices.tolist())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("u", [0.0, 1 - 2**-53])
@settings(deadline=None)
@example([-21.5, 81.5, 81.5])
@given(st.lists(st.one_of(st.just(float("-inf")), st.floats(-90, 90, width=32)), min_size=2, max_size=12))
def test_the_extreme_uniforms_draw_tokens_of_positive_probability(dtype, u, values):
    assume(any(value > float("-inf") for value in values))
    logits = torch.tensor([values], dtype=dtype)
    for params in (SamplingParams(), SamplingParams(top_k=2), SamplingParams(top_p=0.9)):
        token, logprob = draw(logits, params, torch.tensor([u], dtype=torch.float64))
        assert torch.isfinite(logprob).all()
        # In double precision: float32 rounds its smallest numbers to 0 in one kernel and not in another.
        chance = float(truncate_logits(logits, params).double().softmax(-1)[0, token])
        assert chance > (2**-151 if dtype == torch.float32 else 0)


def test_a_large_vocabulary_with_a_dead_tail_draws_no_dead_token_at_the_last_uniform():
    torch.manual_seed(0)
    logits = torch.cat([torch.randn(1, 150_000), torch.full((1, 1_000), float("-inf"))], dim=-1)
    token, logprob = draw(logits, SamplingParams(), torch.tensor([1 - 2**-53], dtype=torch.float64))
    assert int(token) < 150_000 and torch.isfinite(logprob).all()


def test_greedy_ignores_the_uniforms_and_breaks_no_rule_of_min_new_tokens():
    logits = torch.tensor([[[1.0, 5.0, 4.0]]])
    params = SamplingParams(temperature=0.0, min_new_tokens=1)
    shaped = shape_logits(logits, params, [1], 0)[:, -1]
    for u in (0.0, 0.5, 1 - 2**-53):
        assert draw(shaped, params, torch.tensor([u], dtype=torch.float64))[0].item() == 2
    assert draw(shape_logits(logits, params, [1], 1)[:, -1], params, torch.zeros(1))[0].item() == 1


def test_a_draw_does_not_depend_on_the_other_rows():
    torch.manual_seed(1)
    logits, numbers = torch.randn(8, 50), torch.rand(8, dtype=torch.float64)
    for params in (SamplingParams(), SamplingParams(top_k=5), SamplingParams(top_p=0.7)):
        tokens, logprobs = draw(logits, params, numbers)
        for row in range(8):
            token, logprob = draw(logits[row : row + 1], params, numbers[row : row + 1])
            assert int(token) == int(tokens[row])
            assert float(logprob) == pytest.approx(float(logprobs[row]), abs=1e-6)


def test_min_new_tokens_bans_every_end_id_by_place_in_the_completion():
    params = SamplingParams(min_new_tokens=3)
    for first, banned in ((0, [True, True, True, False]), (2, [True, False, False, False]), (3, [False] * 4)):
        shaped = shape_logits(torch.zeros(2, 4, 6), params, [1, 4], first)
        assert torch.isinf(shaped[..., 1]).tolist() == torch.isinf(shaped[..., 4]).tolist() == [banned] * 2
        assert int(torch.isinf(shaped).sum()) == 2 * 2 * sum(banned)


def test_shaping_leaves_the_given_logits_alone_and_widens_half_precision():
    logits = torch.ones(1, 2, 4, dtype=torch.bfloat16)
    shaped = shape_logits(logits, SamplingParams(temperature=0.5, min_new_tokens=2), [1], 0)
    assert shaped.dtype == torch.float32 and shaped[0, 0, 0] == 2.0
    assert (logits == 1).all()
    assert shape_logits(logits.double(), SamplingParams(), [1], 0).dtype == torch.float64
    plain = torch.ones(1, 2, 4)
    shape_logits(plain, SamplingParams(min_new_tokens=2), [1], 0)
    assert (plain == 1).all()


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=5, unique=True), st.integers(1, 20))
def test_uniforms_are_rows_of_their_keys_whatever_the_company_and_the_count(keys, count):
    rows = uniforms(keys, count)
    assert rows.shape == (len(keys), count) and (rows >= 0).all() and (rows < 1).all()
    for key, row in zip(keys, rows, strict=True):
        np.testing.assert_array_equal(uniforms([key], count + 5)[0, :count], row)
    np.testing.assert_array_equal(uniforms(keys[::-1], count)[::-1], rows)
    assert len({row.tobytes() for row in rows}) == len(keys)


def test_no_keys_give_no_rows_of_uniforms():
    assert uniforms([], 7).shape == (0, 7)


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": -0.1}, {"top_p": 0.0}, {"top_p": 1.01}, {"top_p": -1.0}, {"top_k": -1},
        {"max_new_tokens": 0}, {"min_new_tokens": -1},
        {"temperature": float("nan")}, {"temperature": float("inf")}, {"top_p": float("nan")},
    ],
)  # fmt: skip
def test_each_value_out_of_range_is_named_with_what_was_given(settings):
    ((name, value),) = settings.items()
    with pytest.raises(ConfigError, match=f"{name}={value}"):
        SamplingParams(**settings)


def test_the_ends_of_the_ranges_are_accepted_and_truncation_is_told():
    assert not SamplingParams(temperature=0.0, top_p=1.0, top_k=0, max_new_tokens=1, min_new_tokens=1).truncates
    assert SamplingParams(top_p=0.99).truncates and SamplingParams(top_k=1).truncates
