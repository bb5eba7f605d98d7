"""Critics that are models of their own: their samples and their optimizer steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from comlrl_learners.algorithms.actor import minibatches
from comlrl_learners.checkpoint import Holdings
from comlrl_learners.config import TrainerConfig
from comlrl_learners.critic import Critic, in_microbatches
from comlrl_learners.errors import NonFiniteError
from comlrl_learners.losses import value_loss
from comlrl_learners.optimisation import WeightOptimizer
from comlrl_learners.rollout import run_each
from comlrl_learners.samples import Prompt
from comlrl_learners.team import folder_name


@dataclass(frozen=True, slots=True)
class ValueSample:
    """What a critic is to say about a situation, or about one joint action in it."""

    agent: str
    task_id: str
    turn: int
    prompt: Prompt
    target: float
    old_value: float


class CriticSteps:
    """Optimizer steps of separate critics: one per minibatch, whoever shares the critic.

    Args:
        config: Minibatches, AdamW, schedule.
        critics: One critic per agent, or none at all.
        executor: Works on distinct critics side by side.
        rate: Peak learning rate; None takes the configuration's.
        clip_range: See `losses.value_loss`.
    """

    def __init__(
        self,
        config: TrainerConfig,
        critics: Mapping[str, Critic],
        executor: Executor | None,
        rate: float | None,
        clip_range: float | None,
    ) -> None:
        self.config, self.executor, self.clip_range = config, executor, clip_range
        owners: dict[int, list[str]] = {}
        for agent, critic in critics.items():
            owners.setdefault(id(critic), []).append(agent)
        self.critics = [(critics[agents[0]], tuple(agents)) for agents in owners.values()]
        self.optimizers = {
            id(critic): WeightOptimizer(
                critic.policy,
                agents,
                config,
                critic.head,
                rate=config.learning_rate if rate is None else rate,
                role="critic",
            )
            for critic, agents in self.critics
        }

    def update(self, samples: Mapping[str, Sequence[ValueSample]], round_index: int, rate: float) -> dict[str, float]:
        """Take the critics' optimizer steps of one round; returns their losses by agent."""

        def work(critic: Critic, agents: tuple[str, ...]) -> float:
            own = [sample for agent in agents for sample in samples.get(agent, ())]
            self.optimizers[id(critic)].set_rate(rate)
            return self._update_critic(critic, agents, own, round_index)

        results = run_each(self.critics, work, self.executor)
        return {
            f"{agent}/value_loss": loss
            for (_, agents), loss in zip(self.critics, results, strict=True)
            for agent in agents
        }

    def holdings(self) -> Holdings:
        """Critics' models, heads and optimizers, by the first agent of each."""
        modules: dict[str, nn.Module] = {}
        optimizers: dict[str, WeightOptimizer] = {}
        for critic, agents in self.critics:
            name = folder_name(agents[0])
            modules[f"critic-{name}"], modules[f"critic_head-{name}"] = critic.policy.model, critic.head
            optimizers[f"critic-{name}"] = self.optimizers[id(critic)]
        return Holdings(modules, optimizers)

    def _update_critic(
        self, critic: Critic, agents: tuple[str, ...], samples: Sequence[ValueSample], round_index: int
    ) -> float:
        optimizer = self.optimizers[id(critic)]
        losses: list[float] = []
        for epoch in range(self.config.num_updates):
            for minibatch in minibatches(samples, self.config, ("critic minibatches", agents[0], round_index, epoch)):
                optimizer.clear()
                losses.append(self._backward(critic, minibatch))
                optimizer.step()
        return float(np.mean(losses)) if losses else 0.0

    def _backward(self, critic: Critic, minibatch: Sequence[ValueSample]) -> float:
        """Accumulate the gradient of the mean squared error over a minibatch; returns that error."""
        by_prompt: dict[tuple[int, ...], list[ValueSample]] = {}
        for sample in minibatch:
            by_prompt.setdefault(sample.prompt.ids, []).append(sample)
        total = 0.0
        for part in in_microbatches([group[0].prompt for group in by_prompt.values()], self.config.microbatch_tokens):
            rows = [(row, sample) for row, prompt in enumerate(part) for sample in by_prompt[prompt.ids]]
            losses = self.sample_losses(critic, part, rows)
            loss = losses.sum() / len(minibatch)
            self.optimizers[id(critic)].backward(loss)
            total += loss.item()
        return total

    def sample_losses(
        self, critic: Critic, prompts: Sequence[Prompt], rows: Sequence[tuple[int, ValueSample]]
    ) -> Tensor:
        """The loss of each sample, with gradient; each prompt is read once.

        Args:
            critic: The critic.
            prompts: Distinct prompts.
            rows: Samples, each with the place of its prompt.
        """
        values = critic.values(prompts)[torch.tensor([row for row, _ in rows], device=critic.policy.backbone.device)]
        targets = values.new_tensor([sample.target for _, sample in rows])
        before = values.new_tensor([sample.old_value for _, sample in rows])
        losses = value_loss(values, targets, before, self.clip_range)
        for (_, sample), finite in zip(rows, torch.isfinite(losses).tolist(), strict=True):
            if not finite:
                raise NonFiniteError(
                    f"The value loss of agent {sample.agent!r} at turn {sample.turn} of task {sample.task_id!r} is not "
                    "finite. Lower critic_learning_rate, or look at that task's rewards."
                )
        return losses
