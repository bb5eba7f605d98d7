"""The proof that an environment keeps its promises, in numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from comlrl_envs.env import TextEnv
from comlrl_envs.errors import InfrastructureError, MissingExtraError, OptionError, positive_int
from comlrl_envs.game import TextGame
from comlrl_envs.registry import make, spec
from comlrl_envs.tasks import Task
from comlrl_envs.testing import play, proof
from comlrl_envs.testing.blame import blamed, is_number
from comlrl_envs.testing.determinism import check_replay
from comlrl_envs.testing.golden import check_golden
from comlrl_envs.testing.proof import BlankCost, OracleProof
from comlrl_envs.testing.subject import CheckError, Subject

Verdict: TypeAlias = Literal["pass", "fail", "exempt"]
_Judge: TypeAlias = "Callable[[], str | None] | Callable[[], None]"

_NOTHING = OracleProof(tasks=0, unknown=0, mean=0.0, reachable=0.0, worst=None, gap=0.0)


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
        oracle: How the oracle did against what is reachable; zeros if the scenario raised something.
        floors: For each floor policy its mean reward and the declared bound; without those that could not be played.
        blanks: Per agent, what blanking its communication costs; empty without a channel, or if it cannot be measured.
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

    Of an episode at most the first 100 turns are played. What the scenario raises fails the promise that was looked
    at, and its line names the method.

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
        InfrastructureError: A machine failed, which says nothing about the promises.
    """
    settings = {**(kwargs or {}), "split": split}
    most = None if tasks is None else positive_int("tasks", tasks)
    subject = Subject(id, settings, tasks=most)
    env = make(id, **settings)
    chosen = subject.some_tasks(env)
    stage = _Stage(env.game, chosen)
    oracle, oracle_line = _oracle(stage)
    floors, floor_lines = _floors(stage)
    blanks, blank_lines = _blanks(stage, env, subject)
    replay = stage.judged("replay", "byte-equal in fresh processes", lambda: check_replay(subject))
    lines = [oracle_line, *floor_lines, *blank_lines, replay]
    if golden is not None:
        lines.append(stage.judged("golden", f"as in {golden}", lambda: check_golden(id, golden), (OptionError,)))
    return Validation(spec(id).id, split, len(chosen), oracle, floors, blanks, tuple(lines))


@dataclass(frozen=True)
class _Stage:
    """What is played, and how a promise about it is judged."""

    game: TextGame
    tasks: Sequence[Task]

    def judged(self, promise: str, seen: str, judge: _Judge, passed: tuple[type[Exception], ...] = ()) -> Line:
        """``seen`` if ``judge`` is content, its reason if the promise does not apply, what broke if it is broken.

        Exceptions of the kinds in ``passed`` go on to the caller, like those of machines; others are the scenario's.
        """
        try:
            reason = judge()
        except CheckError as broken:
            return Line(promise, "fail", broken.what, broken.mend)
        except (InfrastructureError, MissingExtraError):
            raise
        except passed:
            raise
        except Exception as crash:
            told = blamed(crash, self.game, self.tasks)
            return Line(promise, "fail", told.what, told.mend)
        return Line(promise, "exempt", reason) if reason else Line(promise, "pass", seen)


def _oracle(stage: _Stage) -> tuple[OracleProof, Line]:
    measured = [_NOTHING]

    def measure() -> None:
        measured[0] = proof.measure_oracle(stage.game, stage.tasks)
        proof.judge_excess(proof.find_excess(stage.game, stage.tasks, {}))

    line = stage.judged("oracle", "", measure)
    return measured[0], line if line.verdict == "fail" else _oracle_line(stage, measured[0])


def _oracle_line(stage: _Stage, oracle: OracleProof) -> Line:
    if not oracle.tasks:
        return Line("oracle", "exempt", "the scenario knows no gold joint action")
    seen = f"{oracle.mean:.4f} of {oracle.reachable:.4f} reachable"
    if oracle.unknown:
        seen += f"; none known for {oracle.unknown} of {oracle.tasks + oracle.unknown} tasks"
    if stage.game.max_turns > play.TURNS:
        seen += f"; {play.TURNS} turns of {stage.game.max_turns} at most were played"
    line = stage.judged("oracle", seen, functools.partial(proof.judge_oracle, oracle))
    return line if line.verdict == "pass" else Line("oracle", "fail", f"{seen}. {line.seen}", line.mend)


def _floors(stage: _Stage) -> tuple[dict[str, tuple[float, float]], list[Line]]:
    """Each floor policy's mean and bound, and the lines about them."""
    game = stage.game
    floors: dict[str, tuple[float, float]] = {}
    lines: list[Line] = []
    for name, bound in game.scenario.floors.items():
        promise = f"floor {name}"
        if not is_number(bound):
            lines.append(Line(promise, "fail", f"floors bounds {name!r} by {bound!r}.", "Give a finite number."))
            continue

        def measure(name: str = name, bound: float = bound) -> None:
            floors[name] = (proof.measure_floor(game, stage.tasks, name, {}), float(bound))
            proof.judge_floors(game, {name: floors[name][0]})

        line = stage.judged(promise, "", measure)
        if line.verdict == "pass":
            line = Line(promise, "pass", f"{floors[name][0]:.4f} within {bound:.4f}")
        lines.append(line)
    return floors, lines or [Line("floors", "exempt", "the scenario bounds no floor policy")]


def _blanks(stage: _Stage, env: TextEnv, subject: Subject) -> tuple[tuple[BlankCost, ...], list[Line]]:
    """What blanking costs each agent, and the lines about it."""
    if not env.game.scenario.channel:
        return (), [stage.judged("channel", "", lambda: proof.check_channel(subject))]
    costs: list[BlankCost] = []
    line = stage.judged("channel", "", lambda: costs.extend(proof.measure_blanks(stage.game, stage.tasks)))
    if line.verdict == "fail":
        return (), [line]
    if not costs:
        return (), [Line("channel", "exempt", "the scenario knows no gold joint action to blank")]
    if not any(cost.changed for cost in costs):
        return tuple(costs), [stage.judged("channel", "", lambda: proof.judge_blanks(costs))]
    return tuple(costs), [_blank_line(stage, cost) for cost in costs]


def _blank_line(stage: _Stage, cost: BlankCost) -> Line:
    name = f"blank {cost.agent}"
    if not cost.changed:
        return Line(name, "exempt", "blank changes nothing that teammates are shown of it: it is no channel")
    seen = f"costs {cost.mean:.4f}, 95 % in [{cost.low:.4f}, {cost.high:.4f}]"
    return stage.judged(name, seen, functools.partial(proof.judge_blanks, [cost]))
