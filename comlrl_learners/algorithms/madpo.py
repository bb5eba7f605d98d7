"""Multi-agent DPO: the team's joint replies in pairs, the better of which should become more likely than the other.

Rafailov et al. 2023 (DPO, eq. 7) with the sum of all agents' log-ratios as margin: each agent's gradient sees the whole
team's margin. Without a reference it is the form that CoMLRL publishes.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from comlrl_envs.seeding import rng
from comlrl_learners.algorithms.preference_steps import PreferenceSteps
from comlrl_learners.checkpoint import Holdings
from comlrl_learners.config import TrainerConfig
from comlrl_learners.errors import ConfigError
from comlrl_learners.games import Game
from comlrl_learners.policy import LLMPolicy
from comlrl_learners.preferences import (
    Pair,
    PairSelection,
    Replay,
    draw_pairs,
    from_json,
    histogram,
    read_pairs,
    replay_shares,
    select_pairs,
    to_json,
    to_record,
)
from comlrl_learners.returns import edge_returns
from comlrl_learners.rollout import Node, RolloutPlan, RolloutStats, Visit, rollout
from comlrl_learners.team import learners
from comlrl_learners.trainer import Trainer


@dataclass(kw_only=True)
class MADPOConfig(TrainerConfig):
    """Settings of MADPO; `num_generations` are the candidates, an epoch is a refreshed round of pairs."""

    beta: float = 0.1
    """How sharply a margin counts."""
    reference_free: bool = True
    """Take plain log-probs as margin (the published form), or their ratio to frozen references (DPO)."""
    pair_selection: PairSelection = "reward_gap"
    """Pairs with the widest gaps in return, in random order, or "all"."""
    pairs_per_node: int | None = 4
    """Pairs taken from the candidates of one point of an episode; None takes all that the selection gives."""
    pairs_file: str | None = None
    """Learn from the pairs in this JSON file, and sample none."""
    replay: Replay = "current"
    """Pairs of the "current" round, of the "nearest_k" rounds or "all_history" alike, or by "lambda_decay"."""
    replay_k: int = 2
    """Rounds of "nearest_k"."""
    replay_lambda: float = 0.5
    """A round's weight shrinks by this factor with each round that it is older."""

    def __post_init__(self) -> None:
        """Refuse combinations that cannot work.

        Raises:
            ConfigError: With the reason and the nearest setting that works.
        """
        super().__post_init__()
        if self.num_generations < 2 and self.pairs_file is None:
            raise ConfigError("num_generations=1 gives no pair. Use num_generations >= 2, or pairs_file=.")
        if not self.beta > 0:
            raise ConfigError(f"beta={self.beta} must be positive.")
        if self.pairs_per_node is not None and self.pairs_per_node < 1:
            raise ConfigError(f"pairs_per_node={self.pairs_per_node} must be 1 or more, or None.")
        if self.pair_selection == "all" and self.pairs_per_node is not None:
            raise ConfigError("pair_selection='all' takes every pair. Use pairs_per_node=None, or another selection.")
        if self.replay_k < 1 or not 0 <= self.replay_lambda <= 1:
            raise ConfigError(
                f"replay_k={self.replay_k} must be 1 or more, replay_lambda={self.replay_lambda} in [0, 1]."
            )
        self.refuse_idle(self.replay != "nearest_k", f"replay={self.replay!r} counts no rounds", "replay_k")
        self.refuse_idle(self.replay != "lambda_decay", f"replay={self.replay!r} has no decay", "replay_lambda")
        self.refuse_idle(
            self.pairs_file is not None,
            "pairs_file gives the same pairs each round",
            "replay",
            "pair_selection",
            "pairs_per_node",
        )
        if self.minibatch_size == 1:
            raise ConfigError("minibatch_size=1 is half a pair. Use minibatch_size >= 2, or None.")
        if self.sampling.truncates and not self.reference_free:
            raise ConfigError(
                "sampling truncates the distribution (top_p < 1 or top_k > 0), so ratios to a reference would compare "
                "two different distributions. Use top_p=1 and top_k=0, or reference_free=True."
            )

    @property
    def wants_references(self) -> bool:
        """Whether frozen copies of the start are needed."""
        return not self.reference_free

    @property
    def no_references(self) -> str:
        """The setting that makes references idle, for messages."""
        return "reference_free=True takes plain log-probs"


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
        self.plan = RolloutPlan(config.num_generations, config.joint_mode, config.max_turns, config.prune_above)
        self.steps = PreferenceSteps(config, config.beta, learners(team, config.frozen), references, executor)
        self.rounds: list[list[Pair]] = []
        self._given = None if config.pairs_file is None else read_pairs(config.pairs_file, team)

    def collect(self, visits: Sequence[Visit]) -> MADPOBatch:
        """Sample candidates and pair them; or take the pairs of the file."""
        if self._given is not None:
            stats = RolloutStats(joint_actions=2 * len(self._given))
            return MADPOBatch([], self._given, stats, {"pairs": float(len(self._given))})
        roots, stats = rollout(self.game, self.team, visits, self.plan, self.executor)
        nodes = [node for root in roots for node in root.subtree()]
        returns = node_returns(nodes, self.config)
        heard = [node for node in nodes if any(agent in self.steps.team for agent in node.acting)]
        pairs = [pair for node in heard for pair in self._pairs(node, returns[id(node)])]
        rewards = [value for node in nodes for value in returns[id(node)]]
        records = {
            "num_pairs": len(pairs),
            "pairs": [to_record(pair) for pair in pairs],
            "distribution": {
                "candidates": histogram(rewards),
                "chosen": histogram([pair.chosen_return for pair in pairs]),
                "rejected": histogram([pair.rejected_return for pair in pairs]),
            },
        }
        metrics = {
            "pairs": float(len(pairs)),
            "pair_gap": float(np.mean([pair.chosen_return - pair.rejected_return for pair in pairs])) if pairs else 0.0,
        }
        return MADPOBatch(roots, pairs, stats, metrics, {"preferences": records})

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

    def _pairs(self, node: Node, returns: Sequence[float]) -> Iterator[Pair]:
        config = self.config
        draws = rng(config.seed, "pair selection", node.visit.number, node.visit.task.id, *node.branch)
        mean = math.fsum(returns) / len(returns)
        for better, worse in select_pairs(returns, config.pair_selection, config.pairs_per_node, draws):
            replies = [
                {agent: node.completions[agent][k] for agent, k in zip(node.acting, node.edges[i].index, strict=True)}
                for i in (better, worse)
            ]
            prompts = {agent: node.prompts[agent] for agent in node.acting}
            place = (node.visit.task.id, node.episode.turn)
            yield Pair(*place, prompts, replies[0], replies[1], returns[better], returns[worse], mean)

    def _prepare_references(self, pairs: list[Pair]) -> None:
        """Keep their word on what may be drawn again; once they have read all pairs of a file, let them go."""
        self.steps.forget_all_but([*pairs, *itertools.chain.from_iterable(self.rounds)])
        if self._given is not None and self.references is not None:
            self.steps.refer(self._given)
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


def node_returns(nodes: Sequence[Node], config: TrainerConfig) -> dict[int, list[float]]:
    """By `id(node)`, the return of each joint action; parents come before children in `nodes`."""
    found: dict[int, list[float]] = {}
    for node in reversed(nodes):
        rewards = [config.reward_scale * edge.reward + config.reward_shift for edge in node.edges]
        below = [None if e.child is None else float(np.mean(found[id(e.child)])) for e in node.edges]
        found[id(node)] = edge_returns(rewards, below, config.discount)
    return found
