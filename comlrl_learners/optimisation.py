"""One optimizer per distinct policy, the learning-rate schedule, and gradients that must be finite."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from comlrl_learners.config import TrainerConfig
from comlrl_learners.errors import NonFiniteError, PolicyError
from comlrl_learners.policy import LLMPolicy


def learning_rate_factor(config: TrainerConfig, round_index: int, horizon: int) -> float:
    """Share of the peak learning rate in a round, in (0, 1] during warm-up and [0, 1] after.

    Args:
        config: Names the schedule, its warm-up and, optionally, its own horizon.
        round_index: Rounds done before this one.
        horizon: Planned rounds of the run.
    """
    if round_index < config.warmup_steps:
        return (round_index + 1) / (config.warmup_steps + 1)
    if config.schedule == "constant":
        return 1.0
    end = config.schedule_steps or horizon
    progress = min(1.0, (round_index - config.warmup_steps) / max(1, end - config.warmup_steps))
    return 1 - progress if config.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * progress))


class PolicyOptimizer:
    """AdamW over one policy's trainable weights, whoever shares them."""

    def __init__(self, policy: LLMPolicy, agents: Sequence[str], config: TrainerConfig) -> None:
        """Take the trainable weights.

        Raises:
            PolicyError: Nothing is trainable.
        """
        self.agents = tuple(agents)
        self.parameters = [parameter for parameter in policy.model.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise PolicyError(
                f"The policy of {', '.join(agents)} has no weight that requires a gradient, so nothing would be "
                "learnt. Call `policy.model.requires_grad_(True)`, or leave that agent out of training."
            )
        self.max_grad_norm, self.peak = config.max_grad_norm, config.learning_rate
        self.adam = torch.optim.AdamW(
            self.parameters, lr=config.learning_rate, betas=config.adam_betas, weight_decay=config.weight_decay
        )

    def set_rate(self, factor: float) -> None:
        """Use this share of the peak learning rate."""
        for group in self.adam.param_groups:
            group["lr"] = self.peak * factor

    def step(self) -> float:
        """Clip the gradient, take one step and clear it; returns the norm before clipping.

        Raises:
            NonFiniteError: The gradient is not finite; the weights stay as they were.
        """
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self.max_grad_norm))
        if not math.isfinite(norm):
            self.adam.zero_grad()
            raise NonFiniteError(
                f"The gradient of the policy of {', '.join(self.agents)} has norm {norm}. Lower learning_rate or the "
                "advantages' scale, or use dtype='float32'."
            )
        self.adam.step()
        self.adam.zero_grad()
        return norm
