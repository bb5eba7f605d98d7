"""Multi-agent DPO: the team's joint replies in pairs, the better of which should become more likely than the other.

Rafailov et al. 2023 (DPO, eq. 7) with the sum of all agents' log-ratios as margin: each agent's gradient sees the whole
team's margin. Without a reference it is the form that CoMLRL publishes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from comlrl_envs.seeding import rng
from comlrl_learners.algorithms.madpo_config import MADPOConfig, check_samplers
from comlrl_learners.algorithms.preference_steps import PreferenceSteps
from comlrl_learners.checkpoint import Holdings
from comlrl_learners.games import Game
from comlrl_learners.pairs_file import read_pairs, round_record
from comlrl_learners.policy import LLMPolicy
from comlrl_learners.preferences import (
    Pair,
    draw_pairs,
    from_json,
    node_returns,
    pairs_at,
    replay_shares,
    to_json,
)
from comlrl_learners.rollout import Node, RolloutPlan, RolloutStats, Visit, rollout
from comlrl_learners.team import learners
from comlrl_learners.trainer import Trainer

__all__ = ["MADPO", "MADPOBatch", "MADPOConfig", "MADPOTrainer"]


@dataclass(frozen=True)
class MADPOBatch:
    """What one round collected.

    Attributes:
        roots: The trees of candidates.
        pairs: The pairs made of them.
        stats: What collecting cost.
        metrics: Diagnostics of candidates and pairs.
        records: The round's pairs and how its rewards lie, for the run folder.
    """

    roots: list[Node]
    pairs: list[Pair]
    stats: RolloutStats
    metrics: dict[str, float]
    records: dict[str, Any] = field(default_factory=dict)


class MADPO:
    """Makes pairs and moves the team towards the better half of each."""

    def __init__(
        self,
        config: MADPOConfig,
        game: Game,
        team: Mapping[str, LLMPolicy],
        references: dict[str, LLMPolicy] | None,
        executor: Executor | None,
    ) -> None:
        """Make one optimizer per distinct policy."""
        self.config, self.game, self.team, self.executor, self.references = config, game, team, executor, references
        learning = learners(team, config.frozen)
        check_samplers(config, learning)
        self.plan = RolloutPlan(config.num_generations, config.joint_mode, config.max_turns, config.prune_above)
        self.steps = PreferenceSteps(config, config.beta, learning, references, executor)
        self.rounds: list[list[Pair]] = []
        self._given = None if config.pairs_file is None else read_pairs(config.pairs_file, team, learning)

    def collect(self, visits: Sequence[Visit]) -> MADPOBatch:
        """Sample candidates and pair them; or take the pairs of the file."""
        if (given := self._given) is not None:
            metrics = {"pairs": float(len(given.pairs)), "replies_cut": float(given.replies_cut)}
            return MADPOBatch([], given.pairs, RolloutStats(joint_actions=2 * len(given.pairs)), metrics)
        config = self.config
        roots, stats = rollout(self.game, self.team, visits, self.plan, self.executor)
        nodes = [node for root in roots for node in root.subtree()]
        returns = node_returns(nodes, config)
        how = (config.pair_selection, config.pairs_per_node, self.steps.team, config.seed)
        pairs = [pair for node in nodes for pair in pairs_at(node, returns[id(node)], *how)]
        gaps = [pair.chosen_return - pair.rejected_return for pair in pairs]
        metrics = {"pairs": float(len(pairs)), "pair_gap": float(np.mean(gaps)) if pairs else 0.0}
        record = round_record(pairs, [value for node in nodes for value in returns[id(node)]], self.team)
        return MADPOBatch(roots, pairs, stats, metrics, {"preferences": record})

    def update(self, batch: MADPOBatch, round_index: int, rate: float) -> dict[str, float]:
        """Take the optimizer steps of one round over its pairs and, with a replay, those of earlier rounds."""
        config, started = self.config, time.perf_counter()
        self.steps.set_rate(rate)
        pairs = self._replayed(batch.pairs, round_index)
        self._prepare_references(pairs)
        steps: list[dict[str, float]] = []
        size = len(pairs) if config.minibatch_size is None else max(1, config.minibatch_size // 2)
        for epoch in range(config.num_updates if pairs else 0):
            order = np.arange(len(pairs))
            if size < len(pairs):
                rng(config.seed, "pairs", round_index, epoch).shuffle(order)
            for start in range(0, len(pairs), size):
                steps.append(self.steps.take([pairs[i] for i in order[start : start + size]]))
        means = {name: float(np.mean([step[name] for step in steps])) for name in (steps[0] if steps else {})}
        return {**means, "replayed_pairs": float(len(pairs)), "time/update_s": time.perf_counter() - started}

    def holdings(self) -> Holdings:
        """What learning changes: weights, optimizers, and the pairs that later rounds may draw."""
        held = self.steps.holdings()
        return held if self.config.replay == "current" else replace(held, memory=self)

    def save(self, folder: Path) -> None:
        """Nothing beyond the team."""

    def remembered(self) -> Any:
        """The pairs of earlier rounds as JSON values."""
        return [[to_json(pair) for pair in pairs] for pairs in self.rounds]

    def remember(self, data: Any) -> None:
        """Take up what `remembered` gave."""
        self.rounds = [[from_json(pair) for pair in pairs] for pairs in data]

    def facts(self) -> dict[str, str | None]:
        """What it was given besides settings, as a run that goes on must be given again: a sha256 of the pairs."""
        return {"pairs": None if self._given is None else self._given.digest}

    def _prepare_references(self, pairs: list[Pair]) -> None:
        """Keep their word on what may be drawn again; once they have read all pairs of a file, let them go."""
        self.steps.forget_all_but([*pairs, *itertools.chain.from_iterable(self.rounds)])
        if self._given is not None and self.references is not None:
            self.steps.refer(self._given.pairs)
            self.references.clear()

    def _replayed(self, pairs: list[Pair], round_index: int) -> list[Pair]:
        """The pairs to learn from: this round's, or as many drawn from the rounds that the replay reaches back to."""
        config = self.config
        if config.replay == "current":
            return pairs
        self.rounds.append(pairs)
        if config.replay == "nearest_k":
            del self.rounds[: -config.replay_k]
        ages = range(len(self.rounds) - 1, -1, -1)
        shares = replay_shares(list(ages), config.replay, config.replay_k, config.replay_lambda)
        return draw_pairs(self.rounds, shares, len(pairs), rng(config.seed, "replay", round_index))


class MADPOTrainer(Trainer[MADPOConfig]):
    """Trains a team with MADPO."""

    name = "madpo"
    config_class = MADPOConfig
    algorithm_class = MADPO
