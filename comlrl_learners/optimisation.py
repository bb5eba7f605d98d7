"""One optimizer per distinct policy, the learning-rate schedule, and gradients that must be finite."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

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


class WeightOptimizer:
    """AdamW over one policy's trainable weights, whoever shares them, and the value head on it, if any.

    Weights of less than float32 are moved by way of a float32 copy each, which also collects their gradients: a step
    smaller than their own precision is kept, not lost.

    Attributes:
        agents: Whose policy.
        parameters: The trainable weights.
        masters: What AdamW moves: the weights, or their float32 copies.
        adam: The optimizer.
    """

    def __init__(
        self,
        policy: LLMPolicy,
        agents: Sequence[str],
        config: TrainerConfig,
        head: nn.Module | None = None,
        *,
        rate: float | None = None,
        head_rate: float | None = None,
        role: str = "policy",
    ) -> None:
        """Take the trainable weights.

        Args:
            policy: Whose weights.
            agents: Whose policy, for messages.
            config: AdamW's settings.
            head: A value head that is trained with it.
            rate: Peak learning rate; None takes the configuration's.
            head_rate: That of the head; None takes the same.
            role: What the model is, for messages.

        Raises:
            PolicyError: Nothing is trainable, or weights are float16, whose gradients vanish.
        """
        self.agents = tuple(agents)
        trunk = [parameter for parameter in policy.model.parameters() if parameter.requires_grad]
        if not trunk:
            raise PolicyError(
                f"The {role} of {', '.join(agents)} has no weight that requires a gradient, so nothing would be "
                f"learnt. Call `{role}.model.requires_grad_(True)`"
                + (", or name the agent in frozen=." if role == "policy" else ", or leave critics= out.")
            )
        peak = config.rate_of(agents) if rate is None else rate
        groups = [(trunk, peak)]
        if head is not None:
            groups.append((list(head.parameters()), peak if head_rate is None else head_rate))
        self.parameters = [parameter for group, _ in groups for parameter in group]
        copies = {id(parameter): _master(parameter) for parameter in self.parameters}
        self.masters = list(copies.values())
        self.max_grad_norm = config.max_grad_norm
        self._peaks = [peak for _, peak in groups]
        self.adam = torch.optim.AdamW(
            [{"params": [copies[id(parameter)] for parameter in group], "lr": peak} for group, peak in groups],
            betas=config.adam_betas,
            weight_decay=config.weight_decay,
        )

    def set_rate(self, factor: float) -> None:
        """Use this share of the peak learning rate."""
        for group, peak in zip(self.adam.param_groups, self._peaks, strict=True):
            group["lr"] = peak * factor

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradient of a loss to what was gathered since the last step."""
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if master is not parameter and parameter.grad is not None:
                master.grad = parameter.grad.float() if master.grad is None else master.grad + parameter.grad
                parameter.grad = None

    @property
    def has_gradient(self) -> bool:
        """Whether any weight has a gradient since the last step."""
        return any(master.grad is not None for master in self.masters)

    def clear(self) -> None:
        """Forget the gradient."""
        for weight in (*self.masters, *self.parameters):
            weight.grad = None

    def step(self) -> float:
        """Clip the gradient, take one step and clear it; returns the norm before clipping.

        Raises:
            NonFiniteError: The gradient is not finite; the weights stay as they were.
        """
        norm = float(torch.nn.utils.clip_grad_norm_(self.masters, self.max_grad_norm))
        if not math.isfinite(norm):
            self.clear()
            raise NonFiniteError(
                f"The gradient of the policy of {', '.join(self.agents)} has norm {norm}. Lower learning_rate or the "
                "advantages' scale, or use dtype='float32'."
            )
        self.adam.step()
        self.clear()
        self.write_back()
        return norm

    @torch.no_grad()
    def write_back(self) -> None:
        """Round the copies to the weights that they stand for."""
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if master is not parameter:
                parameter.copy_(master)


def _master(parameter: nn.Parameter) -> nn.Parameter:
    """The weight itself, or a float32 copy that gathers its gradients."""
    if parameter.dtype in (torch.float32, torch.float64):
        return parameter
    if parameter.dtype == torch.float16:
        raise PolicyError(
            "The weights are float16, in which small gradients are 0. Load them with dtype='bfloat16' or 'float32'."
        )
    return nn.Parameter(parameter.detach().float())
