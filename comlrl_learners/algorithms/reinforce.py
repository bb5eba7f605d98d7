"""Policy gradients with a group of completions as its own baseline: the frame of MAGRPO, MAREINFORCE, MARLOO, MAReMax.

The four differ in their defaults only: baseline, normalisation of advantages, and how tokens and ratios are weighed.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from comlrl_learners.advantages import AdvantageNorm, Baseline, batch_normalised, group_advantages, has_spread
from comlrl_learners.algorithms.actor import ActorConfig, Actors, penalised_rewards, writing_metrics
from comlrl_learners.annotate import References, score_references
from comlrl_learners.checkpoint import Holdings
from comlrl_learners.errors import ConfigError
from comlrl_learners.games import Game
from comlrl_learners.policy import LLMPolicy
from comlrl_learners.returns import completion_returns, edge_returns
from comlrl_learners.rollout import Node, RolloutPlan, RolloutStats, Visit, rollout
from comlrl_learners.samples import TokenSample
from comlrl_learners.team import learners

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class ReinforceConfig(ActorConfig):
    """Settings of the REINFORCE family."""

    baseline: Baseline = "mean"
    """Subtracted from a group's returns: "none", "mean", "leave_one_out" or "max"."""
    advantage_norm: AdvantageNorm = "none"
    """Divide advantages by the standard deviation of their "group" or of the agent's whole "batch"."""
    completion_return: Literal["mean", "sum"] = "mean"
    """Return of a completion over the joint actions that contain it (cross mode; "sum" is the published form)."""

    def __post_init__(self) -> None:
        """Refuse a group that has nothing to compare with.

        Raises:
            ConfigError: With the reason and the nearest setting that works.
        """
        super().__post_init__()
        if self.num_generations < 2 and (self.baseline != "none" or self.advantage_norm == "group"):
            raise ConfigError(
                f"num_generations=1 leaves nothing to compare with: baseline={self.baseline!r} and advantage_norm="
                f"{self.advantage_norm!r} give advantage 0. Use num_generations >= 2, or baseline='none' with "
                "advantage_norm='none'."
            )
        self.refuse_idle(
            self.joint_mode == "aligned", "joint_mode='aligned' plays each completion once", "completion_return"
        )


@dataclass(frozen=True)
class ReinforceBatch:
    """What one round collected.

    Attributes:
        roots: The trees.
        samples: Training samples by agent.
        stats: What collecting cost.
        metrics: Diagnostics of returns and advantages.
    """

    roots: list[Node]
    samples: dict[str, list[TokenSample]]
    stats: RolloutStats
    metrics: dict[str, float]
    records: dict[str, Any] = field(default_factory=dict)


class Reinforce:
    """Collects trees, forms group advantages, and takes policy-gradient steps."""

    def __init__(
        self,
        config: ReinforceConfig,
        game: Game,
        team: Mapping[str, LLMPolicy],
        references: Mapping[str, LLMPolicy] | None,
        executor: Executor | None,
    ) -> None:
        self.config, self.game, self.team, self.executor = config, game, team, executor
        self.references = references
        self.plan = RolloutPlan(config.num_generations, config.joint_mode, config.max_turns, config.prune_above)
        self.learners = learners(team, config.frozen)
        self.actors = Actors(config, self.learners, executor)

    def collect(self, visits: Sequence[Visit]) -> ReinforceBatch:
        """Play the visits and turn them into training samples."""
        roots, stats = rollout(self.game, self.team, visits, self.plan, self.executor)
        nodes = [node for root in roots for node in root.subtree()]
        known: dict[str, References] = {}
        if self.references is not None:
            known = score_references(self.references, self.team, nodes, self.config.microbatch_tokens, self.executor)
        samples: dict[str, list[TokenSample]] = {}
        metrics: dict[str, float] = {}
        for agent in self.learners:
            groups = self._groups(roots, agent, known.get(agent))
            samples[agent], found = self._samples(groups, agent, known.get(agent))
            metrics.update({f"{agent}/{name}": value for name, value in found.items()})
        return ReinforceBatch(roots, samples, stats, metrics)

    def update(self, batch: ReinforceBatch, round_index: int, rate: float) -> dict[str, float]:
        """Take the optimizer steps of one round; see `Actors.update`."""
        started = time.perf_counter()
        metrics = self.actors.update(batch.samples, round_index, rate)
        return {**metrics, "time/update_s": time.perf_counter() - started}

    def holdings(self) -> Holdings:
        """What learning changes."""
        return self.actors.holdings()

    def facts(self) -> dict[str, Any]:
        """Nothing beyond settings, game and team."""
        return {}

    def save(self, folder: Path) -> None:
        """Nothing beyond the team."""

    def _groups(
        self, roots: Sequence[Node], agent: str, reference: References | None
    ) -> list[tuple[Node, list[float]]]:
        """Each node at which the agent acts, with the returns of its completions, children before parents."""
        config, means, groups = self.config, dict[int, float](), list[tuple[Node, list[float]]]()
        for node in reversed([node for root in roots for node in root.subtree()]):
            place = node.acting.index(agent) if agent in node.acting else None
            rewards = penalised_rewards(config, node, agent, reference)
            children = [None if edge.child is None else means[id(edge.child)] for edge in node.edges]
            returns = edge_returns(rewards, children, config.discount)
            means[id(node)] = math.fsum(returns) / len(returns)
            if place is not None:
                indices = [edge.index[place] for edge in node.edges]
                groups.append(
                    (node, completion_returns(indices, returns, config.num_generations, config.completion_return))
                )
        return groups[::-1]

    def _samples(
        self, groups: Sequence[tuple[Node, list[float]]], agent: str, reference: References | None
    ) -> tuple[list[TokenSample], dict[str, float]]:
        if not groups:
            return [], {}
        config = self.config
        advantages = np.concatenate(
            [group_advantages(returns, config.baseline, config.advantage_norm) for _, returns in groups]
        )
        if config.advantage_norm == "batch":
            advantages = batch_normalised(advantages)
        written = [(node, completion) for node, _ in groups for completion in node.completions[agent]]
        samples = [
            TokenSample(
                agent,
                node.visit.task.id,
                node.episode.turn,
                completion,
                advantage,
                None if reference is None else reference[completion.prompt.ids, completion.ids],
            )
            for (node, completion), advantage in zip(written, advantages.tolist(), strict=True)
        ]
        flat = [there for _, there in groups]
        metrics = {
            "return_mean": float(np.mean(flat)),
            "advantage_mean": float(advantages.mean()),
            "advantage_std": float(advantages.std()),
            "zero_variance_groups": float(np.mean([not has_spread(there) for there in flat])),
            **writing_metrics(samples),
        }
        return samples, metrics
