import numpy as np
import pytest
import torch

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
