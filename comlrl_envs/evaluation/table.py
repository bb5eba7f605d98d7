"""Reports side by side, as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from comlrl_envs.evaluation.report import Report
from comlrl_envs.evaluation.statistics import Estimate

NONE = "-"
LONGEST_VALUE = 40
"""Most characters of a keyword argument in a cell."""


def table(reports: Sequence[Report], short: bool = False) -> str:
    """A column a report, a row a number; what a report lacks is a dash. Intervals have 95 % coverage, by task.

    Args:
        reports: One or several.
        short: Leave out metrics, the rows of single agents, seconds and tokens.
    """
    columns = [_head(report) | _scores(report) | ({} if short else _details(report)) for report in reports]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = [[name, *(column.get(name, NONE) for column in columns)] for name in names]
    widths = [max(len(row[place]) for row in rows) for place in range(len(reports) + 1)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def _head(report: Report) -> dict[str, str]:
    data, settings = report.to_json(), report.settings
    column = {} if report.folder is None else {"folder": str(report.folder)}
    column |= {
        "environment": data["env"],
        "rows": ", ".join(filter(None, [data["split"], data["origin"]])),
        "settings": _kwargs(settings["env"]["kwargs"]),
        "policies": _policies(settings["policies"]),
        "protocol": data["protocol"],
        "tasks": f"{data['tasks']} x {data['samples']}",
        "episodes": str(data["episodes"]),
    }
    return column | {name: str(data[name]) for name in ("failed", "unplayed", "stopped") if data[name]}


def _scores(report: Report) -> dict[str, str]:
    settings = report.settings
    column = {"reward": _estimate(report.reward)}
    if settings["max_turns"] > 1:
        column |= {"return": _estimate(report.total)}
    if settings["success"]:
        column |= {"success": _estimate(report.success)}
    column |= {f"pass@{k}": _estimate(estimate) for k, estimate in report.pass_at_k.items()}
    return column | {f"term {name}": _number(value) for name, value in report.terms.items() if name != "clip" or value}


def _details(report: Report) -> dict[str, str]:
    column = {f"metric {name}": _number(value) for name, value in report.metrics.items() if name != "success"}
    for agent, found in report.agents.items():
        rates = {"empty": found.empty, "cut": found.cut, "replaced": found.replaced}
        column |= {f"{agent} {name}": _number(value) for name, value in rates.items()}
        column |= {f"{agent} {name}": _number(value) for name, value in found.metrics.items()}
    return column | {
        "seconds per episode": _number(report.seconds),
        "completion tokens per episode": _number(report.completion_tokens),
    }


def _kwargs(given: Mapping[str, Any]) -> str:
    """The keyword arguments of the environment; its split stands with the rows."""
    return ", ".join(f"{name}={_shortened(value)}" for name, value in given.items() if name != "split") or NONE


def _shortened(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _policies(policies: Mapping[str, Any]) -> str:
    """One name if all agents have the same policy, else one an agent."""
    names = {agent: policy if isinstance(policy, str) else _object(policy) for agent, policy in policies.items()}
    if len(set(map(repr, policies.values()))) == 1:
        return next(iter(names.values()))
    return ", ".join(f"{agent}={name}" for agent, name in names.items())


def _object(policy: Any) -> str:
    if not isinstance(policy, Mapping):
        return str(policy)
    return str(policy.get("spec", policy.get("object", policy)))


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.4g}"


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return NONE
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:.3f} [no interval]"
    return f"{estimate.mean:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
