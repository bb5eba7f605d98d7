"""How a token is drawn: one distribution, one uniform number per position, no dependence on the batch.

The uniform of a position comes from a counter-based generator keyed by what is being written (run, task, agent,
branch, turn), so neither the other rows of a batch nor their order, padding or removal can change a draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from comlrl_learners.errors import ConfigError


@dataclass(frozen=True)
class SamplingParams:
    """The distribution that completions are sampled from."""

    temperature: float = 1.0
    """Divides the logits; 0 takes the most likely token (evaluation only)."""
    top_p: float = 1.0
    """Keep the smallest set of tokens whose probability reaches this share, in (0, 1]; 1 keeps all."""
    top_k: int = 0
    """Keep the k most likely tokens; 0 keeps all."""
    max_new_tokens: int = 256
    """A completion is cut after this many tokens."""
    min_new_tokens: int = 0
    """No end-of-sequence token before this many tokens."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ConfigError: A value lies outside its range.
        """
        problems = [
            (not 0 <= self.temperature < float("inf"), f"temperature={self.temperature} must be finite, 0 or more"),
            (not 0 < self.top_p <= 1, f"top_p={self.top_p} must lie in (0, 1]"),
            (self.top_k < 0, f"top_k={self.top_k} must be 0 (off) or more"),
            (self.max_new_tokens < 1, f"max_new_tokens={self.max_new_tokens} must be 1 or more"),
            (
                not 0 <= self.min_new_tokens <= self.max_new_tokens,
                f"min_new_tokens={self.min_new_tokens} must lie in [0, max_new_tokens={self.max_new_tokens}]",
            ),
        ]
        for wrong, message in problems:
            if wrong:
                raise ConfigError(f"SamplingParams: {message}.")

    @property
    def truncates(self) -> bool:
        """Whether some tokens are cut from the distribution, so that its log-probs are not the model's."""
        return self.top_p < 1 or self.top_k > 0


def uniforms(keys: Sequence[int], count: int) -> np.ndarray:
    """Numbers in [0, 1), shape (len(keys), count); a row depends on its key alone."""
    rows = [np.random.Generator(np.random.Philox(key=key)).random(count) for key in keys]
    return np.stack(rows) if rows else np.empty((0, count))


def wide(logits: Tensor) -> torch.dtype:
    """The dtype that probabilities are computed in: float32, or float64 if the model is."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def shape_logits(logits: Tensor, params: SamplingParams, eos_ids: Sequence[int], first_position: int) -> Tensor:
    """Apply temperature and the ban on early ends: what sampling and training agree on.

    Args:
        logits: (..., positions, vocabulary).
        params: The sampling distribution; its truncation is not applied here.
        eos_ids: End-of-sequence ids.
        first_position: Index of the first of these positions within the completion.

    Returns:
        A tensor of the same shape, in float32 or wider.
    """
    logits = logits.to(wide(logits))
    if params.temperature not in (0.0, 1.0):
        logits = logits / params.temperature
    banned = min(logits.shape[-2], params.min_new_tokens - first_position)
    if banned > 0:
        logits = logits.clone()
        logits[..., :banned, list(eos_ids)] = float("-inf")
    return logits


def truncate_logits(logits: Tensor, params: SamplingParams) -> Tensor:
    """Set to minus infinity what `top_k` and `top_p` leave out; shape (rows, vocabulary)."""
    if 0 < params.top_k < logits.shape[-1]:
        threshold = logits.topk(params.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < threshold, float("-inf"))
    if params.top_p < 1:
        ordered, order = logits.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(-1)
        outside = probabilities.cumsum(-1) - probabilities >= params.top_p
        logits = logits.masked_fill(torch.zeros_like(outside).scatter(-1, order, outside), float("-inf"))
    return logits


def draw(logits: Tensor, params: SamplingParams, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token per row by inverse transform sampling.

    Args:
        logits: (rows, vocabulary), already through `shape_logits`.
        params: Gives truncation, and greedy choice at temperature 0.
        uniform: (rows,) numbers in [0, 1), float64.

    Returns:
        Tokens (rows,) and their log-probs (rows,) under the distribution that was sampled; 0 where greedy. Logits that
        are NaN give some token with log-prob NaN.
    """
    if params.temperature == 0:
        best, tokens = logits.max(-1)
        return tokens, best * 0
    logits = truncate_logits(logits, params)
    logprobs = logits.log_softmax(-1)
    cumulative = logprobs.exp().cumsum(-1, dtype=torch.float64)
    total = cumulative[:, -1]
    # The clamp keeps u * total below total when rounding would reach it: a token of probability 0 is never drawn.
    threshold = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    # Nothing is above a threshold of NaN: the clamp keeps the index inside, and the log-prob tells.
    tokens = torch.searchsorted(cumulative, threshold[:, None], right=True).clamp(max=logits.shape[-1] - 1)
    return tokens[:, 0], logprobs.gather(-1, tokens)[:, 0]
