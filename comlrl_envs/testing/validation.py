"""The proof that an environment keeps its promises, in numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from comlrl_envs.env import TextEnv
from comlrl_envs.errors import positive_int
from comlrl_envs.registry import make, spec
from comlrl_envs.tasks import Task
from comlrl_envs.testing import proof
from comlrl_envs.testing.determinism import check_replay
from comlrl_envs.testing.golden import check_golden
from comlrl_envs.testing.proof import BlankCost, OracleProof
from comlrl_envs.testing.subject import CheckError, Subject

Verdict: TypeAlias = Literal["pass", "fail", "exempt"]


@dataclass(frozen=True)
class Line:
    """One promise.

    Attributes:
        promise: Its name.
        verdict: Whether it is kept; ``"exempt"`` if it does not apply or nothing declares it.
        seen: The numbers, or why it is exempt.
        mend: How to put it right; ``""`` unless it failed.
    """

    promise: str
    verdict: Verdict
    seen: str
    mend: str = ""


@dataclass(frozen=True)
class Validation:
    """What ``validate`` measured.

    Attributes:
        id: The id with its version.
        split: The split.
        tasks: Tasks played.
        oracle: How the oracle did against what is reachable.
        floors: For each floor policy its mean reward and the declared bound.
        blanks: Per agent, what blanking its communication costs; empty without a channel.
        lines: The promises in order.
    """

    id: str
    split: str
    tasks: int
    oracle: OracleProof
    floors: Mapping[str, tuple[float, float]]
    blanks: tuple[BlankCost, ...]
    lines: tuple[Line, ...]

    @property
    def passed(self) -> bool:
        """Whether no promise is broken."""
        return all(line.verdict != "fail" for line in self.lines)


def validate(
    id: str,
    *,
    split: str = "eval",
    tasks: int | None = None,
    kwargs: Mapping[str, Any] | None = None,
    golden: str | Path | None = None,
) -> Validation:
    """Measure whether gold earns the most, nonsense little, silence costs, and a replay is byte-equal.

    Args:
        id: The environment.
        split: ``"train"`` or ``"eval"``, or a slice of one.
        tasks: Most tasks played, the first of the split; None for all.
        kwargs: Keyword arguments of the environment.
        golden: File of golden episodes to compare with.

    Returns:
        The numbers, and a line for each promise.

    Raises:
        UnknownIdError: No environment has this id.
        OptionError: An argument has a bad value.
    """
    settings = {**(kwargs or {}), "split": split}
    most = None if tasks is None else positive_int("tasks", tasks)
    subject = Subject(id, settings, tasks=most)
    env = make(id, **settings)
    chosen = subject.some_tasks(env)
    game, scenario = env.game, env.game.scenario
    oracle = proof.measure_oracle(game, chosen)
    floors, floor_lines = _floors(env, chosen)
    blanks = tuple(proof.measure_blanks(game, chosen)) if scenario.channel else ()
    lines = [
        _oracle_line(oracle),
        *floor_lines,
        *(_blank_lines(env, subject, blanks)),
        _judged("replay", "byte-equal in fresh processes", lambda: check_replay(subject)),
    ]
    if golden is not None:
        lines.append(_judged("golden", f"as in {golden}", lambda: check_golden(id, golden)))
    return Validation(spec(id).id, split, len(chosen), oracle, floors, blanks, tuple(lines))


def _judged(promise: str, seen: str, judge: Callable[[], str | None] | Callable[[], None]) -> Line:
    """``seen`` if ``judge`` is content, its reason if the promise does not apply, what broke if it is broken."""
    try:
        reason = judge()
    except CheckError as broken:
        return Line(promise, "fail", broken.what, broken.mend)
    return Line(promise, "exempt", reason) if reason else Line(promise, "pass", seen)


def _oracle_line(oracle: OracleProof) -> Line:
    if not oracle.tasks:
        return Line("oracle", "exempt", "the scenario knows no gold joint action")
    seen = f"{oracle.mean:.4f} of {oracle.reachable:.4f} reachable"
    if oracle.unknown:
        seen += f"; none known for {oracle.unknown} of {oracle.tasks + oracle.unknown} tasks"

    line = _judged("oracle", seen, functools.partial(proof.judge_oracle, oracle))
    return line if line.verdict == "pass" else Line("oracle", "fail", f"{seen}. {line.seen}", line.mend)


def _floors(env: TextEnv, tasks: Sequence[Task]) -> tuple[dict[str, tuple[float, float]], list[Line]]:
    """Each floor policy's mean and bound, and the lines about them."""
    game = env.game
    floors: dict[str, tuple[float, float]] = {}
    lines: list[Line] = []
    for name, bound in game.scenario.floors.items():
        promise = f"floor {name}"
        try:
            mean = proof.measure_floor(game, tasks, name, {})
        except CheckError as unknown:
            lines.append(Line(promise, "fail", unknown.what, unknown.mend))
            continue
        floors[name] = (mean, float(bound))
        judge = functools.partial(proof.judge_floors, game, {name: mean})
        lines.append(_judged(promise, f"{mean:.4f} within {bound:.4f}", judge))
    return floors, lines or [Line("floors", "exempt", "the scenario bounds no floor policy")]


def _blank_lines(env: TextEnv, subject: Subject, blanks: tuple[BlankCost, ...]) -> list[Line]:
    if not env.game.scenario.channel:
        return [_judged("channel", "", lambda: proof.check_channel(subject))]
    if not blanks:
        return [Line("channel", "exempt", "the scenario knows no gold joint action to blank")]
    if not any(cost.changed for cost in blanks):
        return [_judged("channel", "", lambda: proof.judge_blanks(blanks))]
    lines = []
    for cost in blanks:
        name = f"blank {cost.agent}"
        if cost.changed:
            seen = f"costs {cost.mean:.4f}, 95 % in [{cost.low:.4f}, {cost.high:.4f}]"
            lines.append(_judged(name, seen, functools.partial(proof.judge_blanks, [cost])))
        else:
            lines.append(Line(name, "exempt", "blank changes none of its gold replies: it is no channel"))
    return lines
