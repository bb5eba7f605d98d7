"""From the records of an evaluation to its numbers; a pure function, so that a stored one is computed anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comlrl_envs.evaluation.records import EpisodeRecord
from comlrl_envs.evaluation.statistics import Estimate, clustered_mean, clustered_rate, pass_at_k

SUCCESS = "success"
"""The metric that pass@k counts: 1.0 where the team succeeded."""
SHOWN_FAILURES = 5


@dataclass(frozen=True)
class AgentReport:
    """How one agent wrote.

    Attributes:
        replies: How many texts of it were scored.
        empty: Share of them without a visible character; None if there are none, as of the next two.
        cut: Share that was too long and was cut.
        replaced: Share with characters that no file takes.
        metrics: Means of the agent's own metrics at the last turn; ``_num`` and ``_den`` pairs pooled.
        completion_tokens: Tokens written an episode; None if they were not counted.
        prompt_tokens: Tokens read an episode; None if they were not counted.
    """

    replies: int
    empty: float | None
    cut: float | None
    replaced: float | None
    metrics: Mapping[str, float | None]
    completion_tokens: float | None
    prompt_tokens: float | None


@dataclass(frozen=True)
class Report:
    """What an evaluation measured, over the finished episodes. ``str(report)`` is a table.

    Attributes:
        settings: What was evaluated, as in ``config.yaml``.
        records: The finished episodes, in order of task id and sample.
        failed: Those that a machine failed; they are no scores.
        reward: Reward of the last turn; None if nothing was finished.
        total: The return, the undiscounted sum over turns.
        success: Rate of episodes whose last ``success`` is 1; None where the game declares none.
        pass_at_k: By k, over the tasks with at least k finished episodes; None where no task has them.
        terms: Means of the reward's terms at the last turn.
        metrics: Means of the team's metrics at the last turn; ``_num`` and ``_den`` pairs pooled into one ratio, None
            where the denominators are 0.
        agents: By agent.
        seconds: Time of the policies an episode, by the protocol's account.
        completion_tokens: Tokens written an episode by all agents, drafts included; None if not counted.
        folder: Where it is stored; None if nowhere.
        stopped: Why the run ended before all was played; ``""`` if it did not, and in a report read from a folder.
    """

    settings: Mapping[str, Any]
    records: tuple[EpisodeRecord, ...]
    failed: tuple[EpisodeRecord, ...]
    reward: Estimate | None
    total: Estimate | None
    success: Estimate | None
    pass_at_k: Mapping[int, Estimate | None]
    terms: Mapping[str, float | None]
    metrics: Mapping[str, float | None]
    agents: Mapping[str, AgentReport]
    seconds: float | None
    completion_tokens: float | None
    folder: Path | None = None
    stopped: str = ""

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON values: ``summary.json``."""
        settings = self.settings
        played = len(self.records) + len(self.failed)
        return {
            "env": settings["env"]["id"],
            "protocol": settings["protocol"],
            "policies": settings["policies"],
            "origin": settings["origin"],
            "split": settings.get("split", ""),
            "version": settings["version"],
            "tasks": settings["tasks"],
            "samples": settings["samples"],
            "episodes": len(self.records),
            "failed": len(self.failed),
            "unplayed": settings["episodes"] - played,
            "stopped": self.stopped,
            "failures": list(dict.fromkeys(record.error for record in self.failed))[:SHOWN_FAILURES],
            "reward": _plain(self.reward),
            "return": _plain(self.total),
            "success": _plain(self.success),
            "pass_at_k": {str(k): _plain(estimate) for k, estimate in self.pass_at_k.items()},
            "terms": dict(self.terms),
            "metrics": dict(self.metrics),
            "agents": {agent: dataclasses.asdict(found) for agent, found in self.agents.items()},
            "seconds": self.seconds,
            "completion_tokens": self.completion_tokens,
        }

    def __str__(self) -> str:
        """A short table."""
        from comlrl_envs.evaluation.table import table

        return table([self])


def summarise(
    settings: Mapping[str, Any], records: Iterable[EpisodeRecord], folder: Path | None = None, stopped: str = ""
) -> Report:
    """The report on ``records``, in whatever order they come."""
    ordered = sorted(records, key=lambda record: record.key)
    good = tuple(record for record in ordered if not record.error)
    last = [record.turns[-1] for record in good]
    low, high = map(float, settings["reward_range"])
    return Report(
        settings=settings,
        records=good,
        failed=tuple(record for record in ordered if record.error),
        reward=clustered_mean(_by_task(good, lambda record: record.reward), (low, high)) if good else None,
        total=clustered_mean(_by_task(good, lambda record: record.total), _total_range(low, high, settings))
        if good
        else None,
        success=clustered_rate(_by_task(good, _success)) if good and settings["success"] else None,
        pass_at_k=_pass_at_k(settings, good),
        terms=_means([turn.terms for turn in last]),
        metrics=_means([turn.metrics for turn in last]),
        agents={agent: _agent(agent, good) for agent in settings["agents"]},
        seconds=_mean([record.seconds for record in good]),
        completion_tokens=_mean([_sum(record.completion_tokens.values()) for record in good]),
        folder=folder,
        stopped=stopped,
    )


def _total_range(low: float, high: float, settings: Mapping[str, Any]) -> tuple[float, float]:
    """Bounds of a return over 1 to ``max_turns`` turns."""
    turns = settings["max_turns"]
    return min(low, low * turns), max(high, high * turns)


def _by_task(records: Sequence[EpisodeRecord], value: Callable[[EpisodeRecord], float]) -> list[list[float]]:
    tasks: dict[str, list[float]] = {}
    for record in records:
        tasks.setdefault(record.task, []).append(value(record))
    return list(tasks.values())


def _success(record: EpisodeRecord) -> float:
    return float(record.turns[-1].metrics[SUCCESS] >= 1.0)


def _pass_at_k(settings: Mapping[str, Any], records: Sequence[EpisodeRecord]) -> dict[int, Estimate | None]:
    if not settings["success"]:
        return {}
    tasks = _by_task(records, _success)
    estimates: dict[int, Estimate | None] = {}
    for k in settings["k"]:
        enough = [[pass_at_k(len(values), round(sum(values)), k)] for values in tasks if len(values) >= k]
        estimates[k] = clustered_rate(enough) if enough else None
    return estimates


def _agent(agent: str, records: Sequence[EpisodeRecord]) -> AgentReport:
    turns = [turn for record in records for turn in record.turns if agent in turn.replies]
    own = [{n: values[agent] for n, values in record.turns[-1].agent_metrics.items()} for record in records]
    return AgentReport(
        replies=len(turns),
        empty=_mean([float(not turn.replies[agent].strip()) for turn in turns]),
        cut=_mean([float(turn.cut[agent] > 0) for turn in turns]),
        replaced=_mean([float(turn.replaced[agent] > 0) for turn in turns]),
        metrics=_means(own),
        completion_tokens=_mean([record.completion_tokens.get(agent) for record in records]),
        prompt_tokens=_mean([record.prompt_tokens.get(agent) for record in records]),
    )


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float | None]:
    """Mean of each name over rows with equal names; ``x_num`` and ``x_den`` become ``x``, the ratio of their sums."""
    if not rows:
        return {}
    means: dict[str, float | None] = {}
    for name in rows[0]:
        stem, _, kind = name.rpartition("_")
        if kind in ("num", "den") and {f"{stem}_num", f"{stem}_den"} <= rows[0].keys():
            below = sum(row[f"{stem}_den"] for row in rows)
            means[stem] = sum(row[f"{stem}_num"] for row in rows) / below if below else None
        else:
            means[name] = _mean([row[name] for row in rows])
    return means


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _sum(values: Iterable[int | None]) -> int | None:
    counts = list(values)
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _plain(estimate: Estimate | None) -> dict[str, float | None] | None:
    return None if estimate is None else dataclasses.asdict(estimate)
