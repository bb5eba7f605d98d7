"""How the ``parallel_env`` of an environment's module becomes an environment.

Every shipped id accepts the same base keyword arguments; the others are the fields of its scenario.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError, boolean, closest
from comlrl_envs.game import MAX_ACTION_CHARS, TextGame
from comlrl_envs.scenario import Scenario, setting_names
from comlrl_envs.tasks import Parse, Row, TaskSet, parse_split

Loader: TypeAlias = Callable[[str, str, "str | None"], "Iterable[Row] | TaskSet"]
"""Rows of a split: ``load("train" | "eval", source, data_dir)``; a ``TaskSet`` says where they come from."""

logger = logging.getLogger("comlrl_envs")

DEMO = "demo set"
"""Origin of shipped rows."""

BASE: Mapping[str, Any] = {
    "split": "train",
    "source": "auto",
    "data_dir": None,
    "tasks": None,
    "prompts": None,
    "reward": None,
    "feedback": None,
    "max_turns": None,
    "memory": "full",
    "stop_reward": None,
    "max_action_chars": MAX_ACTION_CHARS,
    "text_infos": False,
    "render_mode": None,
}
"""Keyword arguments that every id accepts, with their defaults; None leaves the scenario's own."""


def build_env(
    scenario: type[Scenario],
    load: Loader,
    kwargs: Mapping[str, Any],
    *,
    name: str,
    parse: Parse | None = None,
    defaults: Mapping[str, Any] | None = None,
    from_tasks: Callable[[TaskSet], Mapping[str, Any]] | None = None,
) -> TextEnv:
    """Build the environment of a scenario.

    Args:
        scenario: A frozen dataclass; its fields are its settings.
        load: Rows of a split, used unless ``tasks`` is given.
        kwargs: The caller's keyword arguments.
        name: Id without version.
        parse: Checks a row (see ``TaskSet``).
        defaults: Base keyword arguments whose defaults differ here.
        from_tasks: Settings of the scenario that the tasks decide, such as a corpus of all their paragraphs.

    Raises:
        OptionError: A keyword argument is unknown (the closest and all known ones are named) or has a bad value.
    """
    settings = setting_names(scenario)
    known = sorted(settings | BASE.keys())
    for key in kwargs:
        if key not in known:
            raise OptionError(f"{name} takes no keyword {key!r}.{closest(key, known)} It takes {', '.join(known)}.")
    for key in _switches(scenario) & kwargs.keys():
        boolean(key, kwargs[key])
    base = {**BASE, **(defaults or {}), **{k: v for k, v in kwargs.items() if k in BASE}}
    chosen = {k: v for k, v in kwargs.items() if k in settings and k not in BASE}
    for key in ("feedback", "max_turns"):
        if base[key] is not None:
            if key not in settings:
                raise OptionError(f"{name} has no setting {key!r}; leave it out.")
            chosen[key] = base[key]
    build = functools.partial(
        TextGame,
        memory=base["memory"],
        stop_reward=base["stop_reward"],
        max_action_chars=base["max_action_chars"],
        prompts=base["prompts"],
        reward=base["reward"],
    )
    rules: Any = scenario(**chosen)
    # Whatever is wrong with the settings shows before rows are loaded.
    game, tasks = build(rules), _tasks(load, base, parse)
    if from_tasks is not None:
        game = build(dataclasses.replace(rules, **from_tasks(tasks)))
    return TextEnv(game, tasks, name, base["text_infos"], base["render_mode"])


def _switches(scenario: type[Scenario]) -> set[str]:
    """Keyword arguments that are True or False: a text such as "no" would count as true without a word."""
    settings: Any = scenario
    # Annotations are texts where a module postpones them.
    kinds = {f.name: f.type for f in dataclasses.fields(settings) if f.init} if setting_names(settings) else {}
    own = {key for key, kind in kinds.items() if kind in (bool, "bool")}
    return own | {key for key, default in BASE.items() if isinstance(default, bool)}


def _tasks(load: Loader, base: Mapping[str, Any], parse: Parse | None) -> TaskSet:
    """The rows that the base keyword arguments ask for."""
    split, part = parse_split(base["split"])
    rows = load(split, base["source"], base["data_dir"]) if base["tasks"] is None else base["tasks"]
    tasks = rows if isinstance(rows, TaskSet) else TaskSet(rows, parse)
    if tasks is rows and parse is not None:
        tasks = tasks.parsed_by(parse)
    if (part.start, part.stop) == (None, None):
        return tasks
    if max(abs(bound) for bound in (part.start, part.stop) if bound is not None) > len(tasks):
        logger.warning("split=%r goes beyond the %d rows there are (%s).", base["split"], len(tasks), tasks.origin)
    return tasks[part]


def demo_only(train: Iterable[Row], evaluation: Iterable[Row]) -> Loader:
    """The loader of an id that has no real set: ``source`` is ``"demo"``, and ``"auto"`` means the same."""
    splits = {"train": list(train), "eval": list(evaluation)}

    def load(split: str, source: str, data_dir: str | None) -> TaskSet:
        if source not in ("auto", "demo"):
            near = closest(source, ("auto", "demo"))
            raise OptionError(f"source={source!r}; this id has only the demo set: expected 'auto' or 'demo'.{near}")
        return TaskSet(splits[split], origin=DEMO)

    return load
