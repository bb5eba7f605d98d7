"""Optimizer steps on preference pairs: every distinct completion is scored once, however many pairs share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import torch

from comlrl_learners.annotate import same_weights
from comlrl_learners.checkpoint import Holdings
from comlrl_learners.config import TrainerConfig
from comlrl_learners.errors import NonFiniteError
from comlrl_learners.losses import preference_loss
from comlrl_learners.microbatches import plan
from comlrl_learners.optimisation import WeightOptimizer
from comlrl_learners.policy import LLMPolicy, distinct_policies
from comlrl_learners.preferences import Pair
from comlrl_learners.rollout import run_each
from comlrl_learners.samples import Completion
from comlrl_learners.team import folder_name, refuse_shared_weights

Key = tuple[int, tuple[int, ...], tuple[int, ...]]
"""A completion: its policy, its prompt's ids and its own."""


@dataclass(frozen=True)
class Reading:
    """What one model says about completions.

    Attributes:
        sums: The summed log-prob of each.
        graph: The same as a tensor with its graph, in the order of `sums`; None where it was not kept.
    """

    sums: dict[Key, float]
    graph: torch.Tensor | None


class PreferenceSteps:
    """The team's policies, each with its optimizer, moved by pairs.

    Args:
        config: AdamW, micro-batches.
        beta: How sharply a margin counts.
        team: The policies of the agents that learn; the margin is theirs.
        references: Frozen policies whose log-probs are subtracted, or None.
        executor: Works on distinct policies side by side.
    """

    def __init__(
        self,
        config: TrainerConfig,
        beta: float,
        team: Mapping[str, LLMPolicy],
        references: Mapping[str, LLMPolicy] | None,
        executor: Executor | None,
    ) -> None:
        refuse_shared_weights(team)
        self.config, self.beta, self.team, self.references, self.executor = config, beta, team, references, executor
        self.policies = distinct_policies(team)
        self.optimizers = {id(policy): WeightOptimizer(policy, agents, config) for policy, agents in self.policies}
        self._reference_sums: dict[Key, float] = {}

    def set_rate(self, factor: float) -> None:
        """Use this share of the peak learning rate."""
        for optimizer in self.optimizers.values():
            optimizer.set_rate(factor)

    def holdings(self) -> Holdings:
        """Policies and their optimizers, by the first agent of each."""
        names = {id(policy): f"policy-{folder_name(agents[0])}" for policy, agents in self.policies}
        return Holdings(
            {names[id(policy)]: policy.model for policy, _ in self.policies},
            {names[key]: optimizer for key, optimizer in self.optimizers.items()},
        )

    def refer(self, pairs: Sequence[Pair]) -> None:
        """Have the references score what they have not yet."""
        if self.references is None:
            return
        fresh = {key: one for key, one in self._keyed(pairs).items() if key not in self._reference_sums}
        if fresh:
            # A policy that has its reference's weights still says the same, to the last bit.
            scorers = {
                agent: self.team[agent] if same_weights(reference, self.team[agent]) else reference
                for agent, reference in self.references.items()
            }
            for reading in self._read(scorers, fresh, keep_graphs=False).values():
                self._reference_sums.update(reading.sums)

    def forget_all_but(self, pairs: Sequence[Pair]) -> None:
        """Drop what the references said about completions of none of these pairs."""
        kept = self._keyed(pairs)
        self._reference_sums = {key: value for key, value in self._reference_sums.items() if key in kept}

    def take(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """One optimizer step of every policy; all margins are taken before anyone moves."""
        self.refer(pairs)
        keyed = self._keyed(pairs)
        readings = self._read(self.team, keyed, keep_graphs=True)
        sums = {key: value for reading in readings.values() for key, value in reading.sums.items()}
        if self.references is not None:
            sums = {key: value - self._reference_sums[key] for key, value in sums.items()}
        margins = torch.tensor([self._margin(pair, sums) for pair in pairs], dtype=torch.float64, requires_grad=True)
        losses = preference_loss(margins, self.beta)
        _check_finite(losses, pairs)
        losses.mean().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        assert margins.grad is not None
        pull: dict[Key, float] = dict.fromkeys(keyed, 0.0)
        for pair, gradient in zip(pairs, margins.grad.tolist(), strict=True):
            for agent in self._learning(pair):
                pull[self._key(agent, pair.chosen[agent])] += gradient
                pull[self._key(agent, pair.rejected[agent])] -= gradient

        def move(policy: LLMPolicy, agents: tuple[str, ...]) -> float:
            return self._move(policy, readings[id(policy)], keyed, pull)

        norms = run_each(self.policies, move, self.executor)
        found = {
            f"{agent}/grad_norm": n for (_, agents), n in zip(self.policies, norms, strict=True) for agent in agents
        }
        values = margins.detach()
        return {
            "loss": float(losses.detach().mean()),
            "margin": float(values.mean()),
            "accuracy": float((values > 0).double().mean()),
            **found,
        }

    def _move(
        self, policy: LLMPolicy, reading: Reading, keyed: Mapping[Key, Completion], pull: Mapping[Key, float]
    ) -> float:
        """Follow the gradient of the loss through each distinct completion of one policy, once."""
        optimizer = self.optimizers[id(policy)]
        optimizer.clear()
        moving = [(pull[key], keyed[key]) for key in reading.sums if pull[key] != 0]
        if moving and reading.graph is not None:
            weights = reading.graph.new_tensor([pull[key] for key in reading.sums])
            optimizer.backward((reading.graph * weights).sum())
            return optimizer.step()
        for part in plan(moving, lambda item: item[1], self.config.microbatch_tokens) if moving else []:
            totals = _totals(policy, [completion for _, completion in part])
            optimizer.backward((totals * totals.new_tensor([weight for weight, _ in part])).sum())
        return optimizer.step() if moving else 0.0

    def _key(self, agent: str, completion: Completion) -> Key:
        return id(self.team[agent]), completion.prompt.ids, completion.ids

    def _keyed(self, pairs: Sequence[Pair]) -> dict[Key, Completion]:
        """The distinct completions of some pairs."""
        return {
            self._key(agent, completion): completion
            for pair in pairs
            for agent in self._learning(pair)
            for completion in (pair.chosen[agent], pair.rejected[agent])
        }

    def _learning(self, pair: Pair) -> list[str]:
        return [agent for agent in pair.chosen if agent in self.team]

    def _margin(self, pair: Pair, sums: Mapping[Key, float]) -> float:
        # Not fsum, which refuses infinities of two signs before the loss can name the pair.
        return sum(
            sums[self._key(agent, pair.chosen[agent])] - sums[self._key(agent, pair.rejected[agent])]
            for agent in self._learning(pair)
        )

    def _read(
        self, scorers: Mapping[str, LLMPolicy], keyed: Mapping[Key, Completion], *, keep_graphs: bool
    ) -> dict[int, Reading]:
        """What the policies, or their references, say about completions; by `id` of the policy that wrote them."""

        def read(policy: LLMPolicy, agents: tuple[str, ...]) -> Reading:
            scorer = scorers[agents[0]]
            own = [(key, completion) for key, completion in keyed.items() if key[0] == id(policy)]
            parts = plan(own, lambda item: item[1], self.config.microbatch_tokens) if own else []
            # What fits one micro-batch is passed forward once: the step goes back through the same graph.
            keeps = keep_graphs and len(parts) == 1
            sums: dict[Key, float] = {}
            for part in parts:
                with torch.set_grad_enabled(keeps):
                    totals = _totals(scorer, [completion for _, completion in part])
                sums.update(zip([key for key, _ in part], totals.tolist(), strict=True))
            return Reading(sums, totals if keeps else None)

        results = run_each(self.policies, read, self.executor)
        return {id(policy): reading for (policy, _), reading in zip(self.policies, results, strict=True)}


def _totals(policy: LLMPolicy, completions: Sequence[Completion]) -> torch.Tensor:
    """Summed log-prob of each completion, (B,)."""
    now = policy.logprobs(completions)
    return torch.where(now.mask, now.logprobs, torch.zeros_like(now.logprobs)).sum(-1)


def _check_finite(losses: torch.Tensor, pairs: Sequence[Pair]) -> None:
    for pair, finite in zip(pairs, torch.isfinite(losses).tolist(), strict=True):
        if not finite:
            raise NonFiniteError(
                f"The loss of a pair of {', '.join(pair.chosen)} at turn {pair.turn} of task {pair.task_id!r} is not "
                "finite. Lower learning_rate, or use dtype='float32'."
            )
