"""Losses on padded batches of log-probs (pure functions).

Shapes: B completions, C token positions; `mask` is True where a token was sampled. Each function returns one value per
completion, (B,), so that the caller weighs them by whatever the whole batch holds, however it is cut up.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

LossNorm = Literal["mean", "sum", "constant"]
RatioLevel = Literal["token", "sequence"]


def over_tokens(values: Tensor, mask: Tensor, norm: LossNorm, constant: int) -> Tensor:
    """Reduce (B, C) to (B,): the mean over sampled tokens, their sum, or their sum over a constant length."""
    total = torch.where(mask, values, torch.zeros_like(values)).sum(-1)
    if norm == "mean":
        return total / mask.sum(-1)
    return total if norm == "sum" else total / constant


def policy_gradient(logprobs: Tensor, mask: Tensor, advantages: Tensor, norm: LossNorm, constant: int) -> Tensor:
    """REINFORCE surrogate, -A * log pi (Williams 1992): right for one pass over fresh samples.

    Args:
        logprobs: (B, C) log-probs with gradient.
        mask: (B, C) sampled positions.
        advantages: (B,).
        norm: How tokens are weighed within a completion.
        constant: Length used by norm "constant".
    """
    return -advantages * over_tokens(logprobs, mask, norm, constant)


def clipped_ratio(
    logprobs: Tensor,
    old_logprobs: Tensor,
    mask: Tensor,
    advantages: Tensor,
    clip_range: float,
    level: RatioLevel,
    norm: LossNorm,
    constant: int,
) -> Tensor:
    """PPO's clipped surrogate (Schulman et al. 2017, eq. 7) over tokens or over whole completions.

    With level "token" and norm "mean" this is GRPO's objective (Shao et al. 2024); with norm "constant" that of
    Dr. GRPO (Liu et al. 2025). With level "sequence" the log-ratio is first reduced over the tokens: norm "sum" gives
    RLOO's ratio of sequence probabilities (Ahmadian et al. 2024), norm "mean" GSPO's (Zheng et al. 2025).

    Args:
        logprobs: (B, C) log-probs with gradient.
        old_logprobs: (B, C) log-probs at sampling.
        mask: (B, C) sampled positions.
        advantages: (B,).
        clip_range: The ratio is clipped to [1 - clip_range, 1 + clip_range].
        level: Where the ratio is formed.
        norm: How tokens are weighed within a completion.
        constant: Length used by norm "constant".
    """
    log_ratio = torch.where(mask, logprobs - old_logprobs, torch.zeros_like(logprobs))
    if level == "sequence":
        ratio = over_tokens(log_ratio, mask, norm, constant).exp()
        return -_pessimistic(ratio, advantages, clip_range)
    surrogate = _pessimistic(log_ratio.exp(), advantages[:, None], clip_range)
    return -over_tokens(surrogate, mask, norm, constant)


def _pessimistic(ratio: Tensor, advantages: Tensor, clip_range: float) -> Tensor:
    return torch.minimum(ratio * advantages, ratio.clamp(1 - clip_range, 1 + clip_range) * advantages)


def kl_k3(logprobs: Tensor, reference_logprobs: Tensor, mask: Tensor) -> Tensor:
    """Per-token estimate of KL(policy, reference): exp(d) - d - 1 with d = log reference - log policy, (B, C).

    Unbiased and never negative (Schulman 2020, "Approximating KL Divergence", estimator k3).
    """
    difference = torch.where(mask, reference_logprobs - logprobs, torch.zeros_like(logprobs))
    # exp(d) - 1 - d would round to less than 0 near d = 0.
    return difference.expm1() - difference


def value_loss(values: Tensor, targets: Tensor, old_values: Tensor, clip_range: float | None) -> Tensor:
    """Squared error of values, (B,); with a clip range PPO's pessimistic form (Schulman et al. 2017; Huang 2022).

    The clipped form is the larger of the error and that of the value held within `clip_range` of its old one.
    """
    errors = (values - targets) ** 2
    if clip_range is None:
        return errors
    held = old_values + (values - old_values).clamp(-clip_range, clip_range)
    return torch.maximum(errors, (held - targets) ** 2)


def preference_loss(margins: Tensor, beta: float) -> Tensor:
    """-log sigmoid(beta * margin), (pairs,): Bradley-Terry's likelihood (Rafailov et al. 2023, eq. 7).

    Args:
        margins: Log-prob (or log-ratio to a reference) of the chosen half less the rejected's, summed over agents.
        beta: How sharply a margin counts, > 0.
    """
    return -torch.nn.functional.logsigmoid(beta * margins)
