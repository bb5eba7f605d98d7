"""What tells a policy, a function or an object from another one in a later process: JSON values, never an address."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
import os
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from comlrl_envs.evaluation.settings import Configured, code_facts, digest
from comlrl_learners.policy import LLMPolicy, distinct_policies

_LONGEST_LIST = 20


def described_team(team: Mapping[str, LLMPolicy]) -> dict[str, Any]:
    """By agent, its policy and the first agent that shares it."""
    return {
        agent: {"policy_of": agents[0], **described_policy(policy)}
        for policy, agents in distinct_policies(team)
        for agent in agents
    }


def described_policy(policy: LLMPolicy) -> dict[str, Any]:
    """All of a policy that decides what it reads and writes, but its weights."""
    template = policy.tokenizer.chat_template
    return {
        "class": _name(type(policy)),
        "architecture": type(policy.model).__name__,
        "sampling": dataclasses.asdict(policy.sampling),
        "max_prompt_tokens": policy.max_prompt_tokens,
        "end_tokens": list(policy.backbone.eos_ids),
        "vocabulary": len(policy.tokenizer),
        "chat_template": None if template is None else digest([template]),
    }


def described(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """A value as JSON, functions by name and code, objects by class and, if they tell them, their settings.

    Args:
        value: Anything.
        inside: `id` of what it is part of: what holds itself is described once.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if id(value) in inside:
        return "itself"
    inner = functools.partial(described, inside=(*inside, id(value)))
    if isinstance(value, Mapping):
        return {str(key): inner(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        entries = [inner(entry) for entry in value]
        return entries if len(entries) <= _LONGEST_LIST else {"length": len(entries), "sha256": digest(entries)}
    if isinstance(value, (set, frozenset)):
        return sorted((inner(entry) for entry in value), key=json.dumps)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic):
        return inner(value.item())
    if isinstance(value, functools.partial):
        return {"function": inner(value.func), "arguments": inner([value.args, value.keywords])}
    if inspect.ismethod(value):
        return {"function": inner(value.__func__), "of": inner(value.__self__)}
    if inspect.isfunction(value):
        bound = [value.__defaults__, value.__kwdefaults__, _enclosed(value)]
        return {"function": _name(value), "sha256": digest([code_facts(value.__code__), inner(bound)])}
    if isinstance(value, type) or inspect.isroutine(value):
        return _name(value)
    if isinstance(value, Configured):
        return {"object": _name(type(value)), **inner(value.settings())}
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.compare]
        fields = {name: vars(value)[name] for name in names if name in vars(value)}
        return {"object": _name(type(value)), **inner(fields)}
    return {"object": _name(type(value))}


def _enclosed(function: types.FunctionType) -> list[Any]:
    """The values that a function takes from around it; one that is not bound yet counts as none."""
    found: list[Any] = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            found.append(None)
    return found


def _name(thing: Any) -> str:
    # Methods of built-in types belong to no module.
    return f"{thing.__module__ if hasattr(thing, '__module__') else 'builtins'}:{thing.__qualname__}"
