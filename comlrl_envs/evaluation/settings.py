"""What an evaluation is, as plain values: written to ``config.yaml``, compared when it goes on."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import os
import pickle
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from comlrl_envs.assemble import BASE
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError
from comlrl_envs.tasks import Task

FREE = ("version", "k", "batch_size", "origin", "split", "episodes")
"""Settings that a continued run may change: the episodes already played stay what they are, and a digest of the tasks
tells whether these are the same. ``episodes`` is the product of what may grow."""
GROWING = ("tasks", "samples")
"""Settings that may grow when a run goes on: an episode keeps its seed however many there are."""
FREE_OF_POLICIES = ("spec", "key_variable", "concurrency", "max_retries", "timeout", "total_timeout")
"""Settings of a policy that may change too: they decide how long its server is waited for, not what it says."""
_LONGEST_LIST = 20
_SECRET = re.compile(r"key|token|secret|password|credential", re.IGNORECASE)


@runtime_checkable
class Configured(Protocol):
    """An object that tells its settings, such as a policy or a client."""

    def settings(self) -> Mapping[str, Any]:
        """The settings as JSON values, keys and other secrets left out."""
        ...


def describe(value: Any, told_apart: bool = True) -> Any:
    """``value`` as YAML can hold it: itself, or what tells it from others. Never an address in memory.

    Args:
        value: Anything.
        told_apart: Whether functions and objects get their fingerprint, which only a stored evaluation is held to.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): describe(entry, told_apart) for key, entry in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        if len(value) > _LONGEST_LIST:
            return {"length": len(value), **({"sha256": digest(value)} if told_apart else {})}
        return [describe(entry, told_apart) for entry in value]
    if isinstance(value, type) or inspect.isbuiltin(value):
        return _name(value)
    if isinstance(value, Configured):
        return {"object": _name(type(value)), **{key: describe(entry) for key, entry in value.settings().items()}}
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.compare]
        open_fields = {name: vars(value)[name] for name in names if name in vars(value) and not _SECRET.search(name)}
        return {"object": _name(type(value)), **dict.fromkeys(names, "[hidden]"), **describe(open_fields, told_apart)}
    name = _name(value if inspect.isroutine(value) else type(value))
    return {"object": name, **({"sha256": fingerprint(value)} if told_apart else {})}


def describe_policy(given: Any, policy: Any, told_apart: bool = True) -> Any:
    """A policy by its name; one that tells its settings, with these, since a name may leave some to the environment."""
    if not isinstance(given, str):
        return describe(given, told_apart)
    return {"spec": given, **describe(policy)} if isinstance(policy, Configured) else given


def digest(values: Iterable[Any]) -> str:
    """sha256 of values as JSON, in order."""
    hasher = hashlib.sha256()
    for value in values:
        text = json.dumps(value, sort_keys=True, default=fingerprint)
        hasher.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return hasher.hexdigest()


def fingerprint(value: Any) -> str:
    """sha256 of what a function does (code, constants, defaults, enclosed values), or of an object's pickle.

    Raises:
        OptionError: It has neither, so that nobody could tell it from another one.
    """
    if inspect.ismethod(value):
        return digest([fingerprint(value.__func__), fingerprint(value.__self__)])
    if inspect.isfunction(value):
        enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
        return digest([code_facts(value.__code__), describe([value.__defaults__, value.__kwdefaults__, enclosed])])
    if isinstance(value, functools.partial):
        return digest([fingerprint(value.func), describe([value.args, value.keywords])])
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()
    except Exception as error:
        # Whatever a stranger's object raises when it is pickled; its attributes may still tell it from others.
        if hasattr(value, "__dict__") and not isinstance(error, RecursionError):
            return digest([_name(type(value)), describe(vars(value))])
        raise OptionError(
            f"A {type(value).__name__} cannot be told from another one ({error}), so a stored evaluation could not go "
            "on. Give it a method settings() that returns JSON values, or leave out= away."
        ) from error


def code_facts(code: types.CodeType) -> list[Any]:
    """What a function does, as JSON values: its bytecode, the names it uses, its constants."""
    return [code.co_code.hex(), list(code.co_names), [_constant(entry) for entry in code.co_consts]]


def _constant(value: object) -> Any:
    """A constant of a function as JSON values, the same in every process: a set's order is its own each time."""
    if isinstance(value, types.CodeType):
        return code_facts(value)
    if isinstance(value, tuple):
        return [_constant(entry) for entry in value]
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


def task_digest(tasks: Sequence[Task]) -> str:
    """sha256 of ids and rows: another row makes another evaluation."""
    return digest([task.id, dict(task.fields)] for task in tasks)


def describe_env(env: TextEnv, told_apart: bool = True) -> dict[str, Any]:
    """Id, keyword arguments, and the rules' settings as they came out; ``told_apart`` as in ``describe``."""
    known = env.spec
    return {
        "id": env.metadata["name"] if known is None else known.id,
        "kwargs": {} if known is None else describe(dict(known.kwargs), told_apart),
        "rules": describe(env.game.scenario, told_apart),
        "callables": describe(env.game.callables, told_apart),
        "memory": env.game.memory,
        "stop_reward": env.game.stop_reward,
        "max_action_chars": env.game.max_action_chars,
        "max_cycles": env.max_cycles,
    }


def split_of(env: TextEnv) -> str:
    """The split that ``env`` plays, as it was told or by its default; ``""`` if it was given rows, or has no split."""
    if env.spec is None or env.spec.kwargs.get("tasks") is not None:
        return ""
    parameters = inspect.signature(env.spec.load()).parameters
    if "split" in parameters:
        default = parameters["split"].default
    else:
        default = BASE["split"] if any(p.kind is p.VAR_KEYWORD for p in parameters.values()) else ""
    split = env.spec.kwargs.get("split", default)
    return split if isinstance(split, str) else ""


def before_growth(
    here: Mapping[str, Any], there: Mapping[str, Any], head_digest: Callable[[int], str]
) -> dict[str, Any]:
    """``here`` with the smaller counts of ``there``: equal to ``there`` if nothing but growth tells them apart.

    Args:
        here: Settings of the run that goes on.
        there: Settings of the folder.
        head_digest: The ``task_digest`` of the first n tasks of ``here``.
    """
    begun = dict(here)
    for name in GROWING:
        if isinstance(there.get(name), int) and there[name] < here[name]:
            begun[name] = there[name]
    if shrunk(here, there):
        # Fewer tasks cannot be compared with more by their digests; that they are fewer is refused as it is.
        begun["tasks_sha256"] = there.get("tasks_sha256")
    elif begun["tasks"] < here["tasks"]:
        begun["tasks_sha256"] = head_digest(begun["tasks"])
    return begun


def shrunk(here: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    """Whether ``here`` asks for fewer tasks or samples than ``there`` holds."""
    return any(isinstance(there.get(name), int) and here[name] < there[name] for name in GROWING)


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
