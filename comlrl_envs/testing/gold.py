"""No gold: what only the judge may know must not reach an agent.

Gold cannot be searched for by its text: an answer may well stand in the paragraphs that an agent is given. So the
texts and numbers of gold-only fields are replaced by canaries, which occur nowhere, and these are searched for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from comlrl_envs.env import TextEnv
from comlrl_envs.errors import ActionError, EpisodeError
from comlrl_envs.game import Episode
from comlrl_envs.render import RENDER_MODES, render
from comlrl_envs.tasks import TaskSet
from comlrl_envs.testing import play
from comlrl_envs.testing.subject import Subject, expect, fail

Begin: TypeAlias = Callable[[Mapping[str, Any]], tuple[TextEnv, Any]]
"""An environment at the start of an episode of a row, and what its ``reset`` returned."""

_TASKS = 5
"""Tasks that every team plays; of the others the oracle's replies alone are played."""
_TEAMS = {"oracle": play.oracle, "empty": play.empty, "echo": play.echo, "hostile": play.hostile}
_CANARY = re.compile(r"qzx(\d+)vjk")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Planted:
    """A row with canaries.

    Attributes:
        row: The row.
        fields: Its fields that hold canaries; the number in a canary is the place here.
    """

    row: Mapping[str, Any]
    fields: tuple[str, ...]


def plant(row: Mapping[str, Any], fields: Sequence[str]) -> Planted:
    """Replace every text in ``fields``, nested ones too, by a canary a word, and every number by a rare one."""
    chosen = tuple(name for name in fields if _can_be_sown(row[name]))
    planted = {name: _sown(row[name], place) for place, name in enumerate(chosen)}
    return Planted({**row, **planted}, chosen)


def _can_be_sown(value: Any) -> bool:
    return bool(_sown(value, 0) != value)


def _sown(value: Any, place: int) -> Any:
    if isinstance(value, str):
        # As many words as before, so that rules about lengths go on as they did and a piece of it is found too.
        return " ".join([f"qzx{place}vjk"] * len(value.split()))
    if type(value) is int:
        return _number(place)
    if type(value) is float:
        # Its whole part shows in whatever precision it is printed.
        return _number(place) + 0.25
    if isinstance(value, Mapping):
        return {key: _sown(part, place) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_sown(part, place) for part in value])
    return value


def _number(place: int) -> int:
    """Rare, and yet small enough for rules that count up to it."""
    return 948_617 + 1009 * place


def found_in(text: str, planted: Planted, numbers: bool = True) -> list[str]:
    """The fields whose canaries are in ``text``, in whatever case; words alone without ``numbers``."""
    found = {planted.fields[int(place)] for place in _CANARY.findall(text.casefold())}
    if numbers:
        said = set(_DIGITS.findall(text.replace(",", "").replace("_", "")))
        found |= {name for place, name in enumerate(planted.fields) if str(_number(place)) in said}
    return sorted(found)


def check_gold(subject: Subject) -> str | None:
    """Canaries in gold-only fields turn up in no observation, info, state, rendering or error of any episode."""
    begin, rows = _stage(subject)
    refused: set[str] = set()
    sown: set[str] = set()
    for place, row in enumerate(rows):
        planted = plant(row, _gold_fields(subject, begin, row, refused))
        sown.update(planted.fields)
        teams = _TEAMS if place < _TASKS else {"oracle": play.oracle}
        for team, choose in teams.items() if planted.fields else ():
            _search(begin, row, planted, team, choose)
    if refused:
        return f"the rules refuse another value in {sorted(refused)}; these fields were not checked"
    if left := sorted(set(subject.gold or ()) - sown):
        return f"no row has a text or a number in {left}; these fields were not checked"
    return None if sown else "no row has a text or a number that its prompts do not show"


def gold_fields(subject: Subject) -> list[str]:
    """The row fields that ``check_gold`` puts canaries into."""
    begin, rows = _stage(subject)
    return sorted({name for row in rows for name in _gold_fields(subject, begin, row, set())})


def _stage(subject: Subject) -> tuple[Begin, list[Mapping[str, Any]]]:
    """How to begin an episode of a row, in an environment that shows all it can, and the rows."""
    env = subject.env(text_infos=True) if subject.named else subject.env()

    def begin(row: Mapping[str, Any]) -> tuple[TextEnv, Any]:
        stage = env.fork()
        if subject.items:
            return stage, stage.reset(seed=0, options={"item": row})
        # As the parser left it: a canary need not be what a parser takes a second time.
        stage.tasks = TaskSet([row])
        return stage, stage.reset(seed=0, options={"task": 0})

    return begin, list(subject.items) or [task.fields for task in subject.some_tasks(env)]


def _gold_fields(subject: Subject, begin: Begin, row: Mapping[str, Any], refused: set[str]) -> list[str]:
    if subject.gold is not None:
        named = [name for name in subject.gold if name in row]
        expect(
            bool(named) or not subject.gold,
            f"gold={list(subject.gold)} names no field of the row; it has {sorted(map(str, row))}.",
            "Name the row's fields; if the parser leaves gold out, pass whole rows in items=.",
        )
        return [name for name in named if not _refuses(begin, row, name, refused)]
    others = [name for name in row if name != "id" and _can_be_sown(row[name])]
    playable = [name for name in others if not _refuses(begin, row, name, refused)]
    planted = plant(row, playable)
    try:
        shown = found_in(begin(planted.row)[0].state(), planted)
    except Exception:
        # Each alone can be played and all together cannot; what is shown of one cannot be told from the rest.
        refused.update(playable)
        return []
    return [name for name in playable if name not in shown]


def _refuses(begin: Begin, row: Mapping[str, Any], name: str, refused: set[str]) -> bool:
    """Whether a canary in ``name`` alone stops the rules, as where it is a program, a name of a list or a place."""
    if not _can_be_sown(row[name]):
        return False
    try:
        stage, _ = begin(plant(row, [name]).row)
        play.play(stage.game, [stage.episode], play.empty)
    except Exception:
        refused.add(name)
        return True
    return False


def _search(begin: Begin, row: Mapping[str, Any], planted: Planted, team: str, choose: play.Chooser) -> None:
    """Play the canaried row by what the team says on the original one: gold that it says itself is no leak."""
    stage, returned = begin(planted.row)
    game = stage.game
    model: Episode = begin(row)[0].episode
    _look(planted, stage, "at the start", returned)
    while stage.agents:
        said = {**play.empty(game, stage.episode), **({} if model.done else choose(game, model))}
        actions = {agent: said[agent] for agent in game.acting(stage.episode)}
        where = f"after turn {stage.episode.turn + 1} of the team {team!r}"
        _look(planted, stage, where, stage.step(actions))
        if not model.done:
            model = game.step_many([(model, {agent: said.get(agent, "") for agent in game.acting(model)})])[0]
    for error in (*_errors(stage), *_errors(begin(planted.row)[0])):
        _clean(planted, f"the error {type(error).__name__}", str(error))


def _look(planted: Planted, stage: TextEnv, when: str, returned: Any) -> None:
    # Terms, metrics and renderings are for those who judge: a distance from gold may stand there as a number.
    _clean(planted, f"what reset or step returned {when}", repr(returned), numbers=False)
    _clean(planted, f"the observations {when}", repr(returned[0]))
    _clean(planted, f"state() {when}", stage.state())
    _clean(planted, f"messages() {when}", repr(stage.game.messages(stage.episode)))
    for mode in RENDER_MODES:
        _clean(planted, f"render() in mode {mode!r} {when}", render(stage.game, stage.episode, mode), numbers=False)
    _clean(planted, f"the repr {when}", f"{stage!r} {stage}")


def _clean(planted: Planted, where: str, text: str, numbers: bool = True) -> None:
    leaked = found_in(text, planted, numbers)
    if leaked:
        fail(
            f"Gold of the row's {leaked} is in {where}.",
            "Keep it out of brief, observe, names and messages; if agents may see it, leave it out of gold=.",
        )


def _errors(stage: TextEnv) -> Iterator[Exception]:
    """What misuse raises, in mid-episode or after the end."""
    for actions in ({}, {"a stranger": ""}, dict.fromkeys(stage.possible_agents, 3)):
        try:
            stage.step(actions)  # type: ignore[arg-type]
        except (ActionError, EpisodeError) as error:
            yield error
