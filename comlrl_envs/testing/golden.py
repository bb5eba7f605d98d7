"""Golden episodes: what an id showed and paid for given texts, kept in a file, so that a change is noticed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.registry import make, spec
from comlrl_envs.testing import play
from comlrl_envs.testing.subject import Subject, expect

TEAMS = {"oracle": play.oracle, "random": play.random, "empty": play.empty}
TOLERANCE = 1e-9
_EPISODE: Mapping[str, tuple[type, ...]] = {"kwargs": (dict,), "task": (str,), "seed": (int,), "turns": (list,)}
_TURN: Mapping[str, tuple[type, ...]] = {
    "prompts": (dict,),
    "actions": (dict,),
    "terms": (dict,),
    "reward": (int, float),
    "done": (bool,),
}
_MEND = (
    "If the change of prompt or formula is meant, raise the version of the id and record a new file (record_golden); "
    "if not, undo it."
)


def record_golden(
    id: str,
    path: str | Path,
    variants: Sequence[Mapping[str, Any]] = ({},),
    tasks: int = 2,
) -> None:
    """Play an id by script and write its golden episodes.

    Args:
        id: The id; the file is for its version.
        path: The file, overwritten.
        variants: Keyword arguments, one mapping for each way to build the environment; JSON values only. Name the
            demo set (``source="demo"``) where a file should be checked without data.
        tasks: Tasks of each variant, the first of its set.

    Raises:
        OptionError: Keyword arguments are no JSON values.
    """
    episodes = []
    for kwargs in variants:
        env = make(id, **kwargs)
        for task in Subject(id, kwargs, tasks=tasks).some_tasks(env):
            for seed, choose in enumerate(TEAMS.values()):
                env.reset(seed=seed, options={"task": task.id})
                head = {"kwargs": dict(kwargs), "task": task.id, "seed": seed}
                episodes.append({**head, "turns": _played(env, choose)})
    data = {"id": spec(id).id, "episodes": episodes}
    try:
        text = json.dumps(data, indent=1)
    except TypeError as unwritable:
        raise OptionError(f"variants are no JSON values ({unwritable}); give str, numbers, lists, dicts.") from None
    Path(path).write_text(text + "\n", encoding="utf-8")


def _played(env: TextEnv, choose: play.Chooser) -> list[dict[str, Any]]:
    turns = []
    while env.agents:
        before = env.episode
        actions = dict(choose(env.game, before))
        env.step(actions)
        turns.append({"prompts": env.game.prompts(before), "actions": actions, **_outcome(env.game, env.episode)})
    return turns


def _outcome(game: TextGame, episode: Episode) -> dict[str, Any]:
    assert episode.score is not None
    terms = {name: episode.score.terms[name] for name in game.term_names}
    return {"terms": terms, "reward": episode.reward, "done": episode.done}


def check_golden(id: str, path: str | Path) -> None:
    """Play the texts of a file again and compare prompts, terms and rewards.

    Args:
        id: The id.
        path: A file that ``record_golden`` wrote for this id and version.

    Raises:
        CheckError: The file is for another id or version, or an episode went another way.
        OptionError: There is no such file, or it holds something else, or episodes that stop before their end.
    """
    data = _read(Path(path))
    now = spec(id).id
    expect(
        data["id"] == now, f"{path} holds episodes of {data['id']}, not of {now}.", "Record a file for this version."
    )
    envs: dict[str, TextEnv] = {}
    for episode in data["episodes"]:
        key = json.dumps(episode["kwargs"], sort_keys=True)
        if key not in envs:
            envs[key] = make(id, **episode["kwargs"])
        _replay(envs[key], episode)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as unreadable:
        raise OptionError(f"golden={str(path)!r} cannot be read ({unreadable}); write it with record_golden.") from None
    if not isinstance(data, dict) or data.keys() != {"id", "episodes"}:
        raise OptionError(f"golden={str(path)!r} holds no golden episodes; write it with record_golden.")
    if fault := _fault(data["episodes"]):
        raise OptionError(f"golden={str(path)!r}: {fault}. Write it anew with record_golden.")
    return data


def _fault(episodes: Any) -> str | None:
    """What keeps the episodes of a file from being played and compared to their ends; None if nothing does."""
    if not isinstance(episodes, list) or not episodes:
        return f"'episodes' is {_brief(episodes)}; expected a list of at least one"
    for place, episode in enumerate(episodes):
        where = f"episode {place}"
        if fault := _misfit(episode, _EPISODE):
            return f"{where} {fault}"
        for number, turn in enumerate(episode["turns"]):
            if fault := _misfit(turn, _TURN):
                return f"{where}, turn {number} {fault}"
            if not all(_is_number(value) for value in turn["terms"].values()):
                return f"{where}, turn {number} has terms that are no numbers"
        if not episode["turns"] or not episode["turns"][-1]["done"]:
            return f"{where} stops after {len(episode['turns'])} turns and is not over"
    return None


def _misfit(part: Any, fields: Mapping[str, tuple[type, ...]]) -> str | None:
    if not isinstance(part, dict):
        return f"is {_brief(part)}; expected an object with {', '.join(fields)}"
    if missing := sorted(fields.keys() - part.keys()):
        return f"has no {missing[0]!r}"
    wrong = [name for name, kinds in fields.items() if type(part[name]) not in kinds]
    return f"has {_brief(part[wrong[0]])} as {wrong[0]!r}" if wrong else None


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _brief(value: Any) -> str:
    return f"a {type(value).__name__}, {str(value)[:40]!r}"


def _replay(env: TextEnv, golden: Mapping[str, Any]) -> None:
    env.reset(seed=golden["seed"], options={"task": golden["task"]})
    where = f"Task {golden['task']!r}, seed {golden['seed']}, keyword arguments {golden['kwargs']}"
    for number, turn in enumerate(golden["turns"]):
        at = f"{where}, turn {number}"
        expect(bool(env.agents), f"{at}: the episode is over already.", _MEND)
        shown = env.game.prompts(env.episode)
        expect(list(shown) == list(turn["prompts"]), f"{at}: the agents are {list(shown)}.", _MEND)
        for agent, text in turn["prompts"].items():
            expect(shown[agent] == text, f"{at}: {agent!r} is shown {shown[agent]!r}; it was {text!r}.", _MEND)
        env.step(turn["actions"])
        now = _outcome(env.game, env.episode)
        expect(now["terms"].keys() == turn["terms"].keys(), f"{at}: the terms are {list(now['terms'])}.", _MEND)
        for name, value in (*turn["terms"].items(), ("reward", turn["reward"])):
            seen = now["reward"] if name == "reward" and name not in turn["terms"] else now["terms"][name]
            told = f"{at}: {name} is {seen!r}; it was {value!r}."
            expect(math.isclose(seen, value, rel_tol=TOLERANCE, abs_tol=TOLERANCE), told, _MEND)
        expect(now["done"] == turn["done"], f"{at}: over is {now['done']}; it was {turn['done']}.", _MEND)


def check_golden_file(subject: Subject) -> str | None:
    """The subject's file of golden episodes holds."""
    if subject.golden is None:
        return "no file of golden episodes was given"
    if not isinstance(subject.make, str) or ":" in subject.make:
        return "golden episodes are kept by id"
    check_golden(subject.make, subject.golden)
    return None
