"""What an evaluation is, as plain values: written to ``config.yaml``, compared when it goes on."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from comlrl_envs.env import TextEnv
from comlrl_envs.tasks import Task

FREE = ("version", "k", "batch_size", "origin")
"""Settings that a continued run may change: the episodes already played stay what they are, and a digest of the tasks
tells whether these are the same."""
FREE_OF_POLICIES = ("spec", "key_variable", "concurrency", "max_retries", "timeout", "total_timeout")
"""Settings of a policy that may change too: they decide how long its server is waited for, not what it says."""
_LONGEST_LIST = 20


@runtime_checkable
class Configured(Protocol):
    """An object that tells its settings, such as a policy or a client."""

    def settings(self) -> Mapping[str, Any]:
        """The settings as JSON values, keys and other secrets left out."""
        ...


def describe(value: Any) -> Any:
    """``value`` as YAML can hold it: itself, or what tells it from others. Never an address in memory."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): describe(entry) for key, entry in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        if len(value) > _LONGEST_LIST:
            return {"length": len(value), "sha256": digest(value)}
        return [describe(entry) for entry in value]
    if isinstance(value, type) or inspect.isroutine(value):
        return _name(value)
    if isinstance(value, Configured):
        return {"object": _name(type(value)), **{key: describe(entry) for key, entry in value.settings().items()}}
    if dataclasses.is_dataclass(value):
        fields = {f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value) if f.compare}
        return {"object": _name(type(value)), **fields}
    return _name(type(value))


def describe_policy(given: Any, policy: Any) -> Any:
    """A policy by its name; one that tells its settings, with these, since a name may leave some to the environment."""
    if not isinstance(given, str):
        return describe(given)
    return {"spec": given, **describe(policy)} if isinstance(policy, Configured) else given


def digest(values: Iterable[Any]) -> str:
    """sha256 of values as JSON, in order."""
    hasher = hashlib.sha256()
    for value in values:
        text = json.dumps(value, sort_keys=True, default=lambda other: _name(type(other)))
        hasher.update(text.encode() + b"\n")
    return hasher.hexdigest()


def task_digest(tasks: Sequence[Task]) -> str:
    """sha256 of ids and rows: another row makes another evaluation."""
    return digest([task.id, dict(task.fields)] for task in tasks)


def describe_env(env: TextEnv) -> dict[str, Any]:
    """Id, keyword arguments, and the rules' settings as they came out."""
    known = env.spec
    return {
        "id": env.metadata["name"] if known is None else known.id,
        "kwargs": {} if known is None else describe(dict(known.kwargs)),
        "rules": describe(env.game.scenario),
        "memory": env.game.memory,
        "stop_reward": env.game.stop_reward,
        "max_action_chars": env.game.max_action_chars,
        "max_cycles": env.max_cycles,
    }


def differences(there: Any, here: Any, path: str = "") -> list[str]:
    """Where two settings differ, one line each: ``seed: 0 there, 1 here``."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        return [
            line
            for key in dict.fromkeys([*there, *here])
            if key not in (FREE if not path else FREE_OF_POLICIES if path.startswith("policies.") else ())
            for line in differences(there.get(key), here.get(key), f"{path}.{key}" if path else str(key))
        ]
    return [] if there == here else [f"{path}: {there!r} there, {here!r} here"]


def _name(thing: Any) -> str:
    # Methods of built-in types belong to no module.
    return f"{thing.__module__ if hasattr(thing, '__module__') else 'builtins'}:{thing.__qualname__}"
