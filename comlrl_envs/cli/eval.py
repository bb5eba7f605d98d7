"""`comlrl-envs eval`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError, closest
from comlrl_envs.evaluation import evaluate
from comlrl_envs.registry import make, spec


def command(
    id: str,
    policies: str | None = None,
    episodes: int | None = None,
    samples: int | None = None,
    k: str = "1",
    protocol: str = "parallel",
    seed: int = 0,
    out: Path | None = None,
    batch_size: int = 32,
    env_options: Mapping[str, Any] | None = None,
) -> int:
    """Measure policies on an environment, on its `eval` split unless `--env.split` says otherwise.

    Args:
        id: The environment, such as `writing/length_ratio`.
        policies: One for all agents, or one an agent: `random`, `random,oracle`, `summarizer=random,elaborator=oracle`.
            Names are `random`, `echo`, `empty`, `oracle`, `human`, `openai:MODEL`, `hf:PATH`; settings follow a
            question mark, as in `openai:MODEL?base_url=http://localhost:8000/v1&temperature=0.7`.
        episodes: How many in all; the whole split if left out.
        samples: Episodes a task; the largest k if left out.
        k: For which k to show pass@k, such as `1,5`.
        protocol: `parallel`, `single`, `pipeline` or `discussion`.
        seed: The same seed plays the same episodes.
        out: Folder of the results; the same command goes on where it stopped.
        batch_size: Episodes played at once.
        env_options: Keyword arguments of the environment.
    """
    env = _make(id, env_options or {})
    try:
        report = evaluate(
            env,
            _policies(policies, env.possible_agents),
            episodes=episodes,
            samples=samples,
            k=_numbers(k),
            protocol=protocol,
            seed=seed,
            out=out,
            batch_size=batch_size,
            progress=_show_progress if sys.stderr.isatty() else None,
        )
    finally:
        env.close()
    sys.stdout.write(f"{report}\n")
    if report.failed:
        again = " Run the same command again to play them again." if out is not None else ""
        sys.stderr.write(f"{len(report.failed)} episodes failed, the first one: {report.failed[0].error}.{again}\n")
    return 0 if report.records else 1


def _make(id: str, options: Mapping[str, Any]) -> TextEnv:
    parameters = inspect.signature(spec(id).load()).parameters.values()
    takes_split = any(p.name == "split" or p.kind is p.VAR_KEYWORD for p in parameters)
    return make(id, **{**({"split": "eval"} if takes_split else {}), **options})


def _policies(given: str | None, agents: list[str]) -> str | list[str] | dict[str, str]:
    """One name, a name an agent in order, or names by agent."""
    if not given:
        raise OptionError("eval needs --policies, such as --policies random or --policies openai:MODEL.")
    parts = [part.strip() for part in given.split(",")]
    pairs = [part.partition("=") for part in parts]
    if all(name in agents and equals for name, equals, _ in pairs):
        return {name: policy for name, _, policy in pairs}
    for name, equals, policy in pairs:
        near = closest(name, agents)
        if equals and near and "?" not in name and ":" not in name:
            raise OptionError(f"--policies names {name!r} for {policy!r}; the agents are {', '.join(agents)}.{near}")
    return parts if len(parts) > 1 else given


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as bad:
        raise OptionError(f"--k {text} is no list of integers; expected such as 1,5.") from bad


def _show_progress(finished: int, planned: int, failed: int) -> None:
    end = "\n" if finished + failed >= planned else ""
    sys.stderr.write(f"\r{finished} of {planned} episodes" + (f", {failed} failed" if failed else "") + end)
    sys.stderr.flush()
