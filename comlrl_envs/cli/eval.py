"""`comlrl-envs eval`."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError
from comlrl_envs.evaluation import Report, evaluate, read_episodes, table
from comlrl_envs.policies.build import parse_policies
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
    short: bool = False,
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
        protocol: `parallel`, `single`, `pipeline`, `discussion`, `solo` or `majority`.
        seed: The same seed plays the same episodes.
        out: Folder of the results; the same command goes on where it stopped, also with more episodes or samples.
        batch_size: Episodes played at once.
        short: Show rewards, success and terms alone.
        env_options: Keyword arguments of the environment.
    """
    if not policies:
        raise OptionError("eval needs --policies, such as --policies random or --policies openai:MODEL.")
    env = _make(id, env_options or {})
    try:
        report = evaluate(
            env,
            parse_policies(policies, env.possible_agents),
            episodes=episodes,
            samples=samples,
            k=_numbers(k),
            protocol=protocol,
            seed=seed,
            out=out,
            batch_size=batch_size,
            progress=Progress(sys.stderr),
        )
    except KeyboardInterrupt:
        # A terminal shows the interrupt at the end of the line of progress.
        start = "\n" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{start}stopped; {_kept(out)}\n")
        raise
    finally:
        env.close()
    sys.stdout.write(f"{table([report], short)}\n")
    _tell_failures(report, out)
    return 0 if report.records and not report.stopped else 1


class Progress:
    """Writes how far a run is: again and again over one line of a terminal, else as a line now and then.

    Args:
        stream: Where to.
        every: Seconds between two lines at least, where the stream is no terminal.
    """

    def __init__(self, stream: TextIO, every: float = 60.0) -> None:
        self._stream, self._every = stream, every
        self._last = time.monotonic()

    def __call__(self, finished: int, planned: int, failed: int) -> None:
        """Tell the numbers of episodes."""
        line = f"{finished} of {planned} episodes" + (f", {failed} failed" if failed else "")
        if self._stream.isatty():
            self._stream.write(f"\r{line}" + ("\n" if finished + failed >= planned else ""))
        elif time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._stream.write(f"{line}\n")
        self._stream.flush()


def _tell_failures(report: Report, out: Path | None) -> None:
    if report.stopped:
        start = "\n" if sys.stderr.isatty() else ""
        sys.stderr.write(
            f"{start}stopped, since {report.stopped}, the last one: {report.failed[-1].error}; {_kept(out)}\n"
        )
    elif report.failed:
        again = " Run the same command again to play them again." if out is not None else ""
        sys.stderr.write(f"{len(report.failed)} episodes failed, the first one: {report.failed[0].error}.{again}\n")


def _kept(out: Path | None) -> str:
    if out is None:
        return "nothing is kept; --out FOLDER keeps what is finished"
    finished = sum(not record.error for record in read_episodes(out))
    return f"{finished} episodes are kept in {out}, the same command goes on"


def _make(id: str, options: Mapping[str, Any]) -> TextEnv:
    parameters = inspect.signature(spec(id).load()).parameters.values()
    takes_split = any(p.name == "split" or p.kind is p.VAR_KEYWORD for p in parameters)
    return make(id, **{**({"split": "eval"} if takes_split else {}), **options})


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as bad:
        raise OptionError(f"--k {text} is no list of integers; expected such as 1,5.") from bad
