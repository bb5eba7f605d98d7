"""Whose fault an exception is: the method of a scenario that raised it, or that returned what cannot be played."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeAlias

from comlrl_envs.errors import InfrastructureError
from comlrl_envs.game import TextGame
from comlrl_envs.scenario import Scenario, State, Step
from comlrl_envs.seeding import rng
from comlrl_envs.tasks import Task
from comlrl_envs.testing.subject import CheckError

Probe: TypeAlias = "tuple[str, Callable[[], Any], Callable[[Any], bool], str]"

METHODS = ("begin", "brief", "observe", "acting", "advance", "advance_many", "oracle", "reachable", "blank")
_TASKS = 5
_TURNS = 3


def blamed(crash: Exception, game: TextGame, tasks: Sequence[Task]) -> CheckError:
    """What to tell the author of ``game`` about an exception that came while ``tasks`` were played."""
    raised = f"{type(crash).__name__}: {crash}".rstrip(": ")
    method = _method(crash.__traceback__, game.scenario)
    name = type(game.scenario).__name__
    if method is not None:
        return CheckError(f"{name}.{method} raised {raised}.", f"Mend {method} at {_place(crash)}.")
    returned = _misfit(game.scenario, tasks)
    if returned is not None:
        return CheckError(f"{name}.{returned} ({raised})", "Return what Scenario documents.")
    return CheckError(f"Playing {name} raised {raised} at {_place(crash)}.", "See what it says.")


def _method(trace: TracebackType | None, scenario: Scenario) -> str | None:
    """The method of the scenario that was called last before the crash, without its helpers."""
    found = None
    while trace is not None:
        code = trace.tb_frame.f_code
        # By class: an environment that was built anew has another scenario of the same kind.
        if code.co_name in METHODS and type(trace.tb_frame.f_locals.get("self")) is type(scenario):
            found = code.co_name
        trace = trace.tb_next
    return found if found != "advance_many" or _defines(scenario, "advance_many") else None


def _defines(scenario: Scenario, method: str) -> bool:
    return getattr(type(scenario), method) is not getattr(Scenario, method)


def _place(crash: Exception) -> str:
    trace = crash.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "an unknown place" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def _misfit(scenario: Scenario, tasks: Sequence[Task]) -> str | None:
    """The first method that returns something of another kind than ``Scenario`` says; None if none was come upon."""
    try:
        for task in tasks[:_TASKS]:
            state: Any = scenario.begin(task.fields, rng(0, task.id, "begin"))
            if not isinstance(state, State):
                return f"begin returned a {type(state).__name__}; expected a State."
            for _ in range(_TURNS):
                if misfit := _misfit_at(scenario, state):
                    return misfit
                actions = {**dict.fromkeys(scenario.agents, ""), **(scenario.oracle(state) or {})}
                (step,) = scenario.advance_many([(state, actions)])
                if isinstance(step, InfrastructureError) or step.done:
                    break
                state = step.state
    except Exception:
        # Asked in another order than the game asks, a scenario may raise something that says nothing about the crash.
        return None
    return None


def _misfit_at(scenario: Scenario, state: State) -> str | None:
    for method, call, fits, expected in _probes(scenario, state):
        value = call()
        if not fits(value):
            return f"{method} returned a {type(value).__name__}; expected {expected}."
    return None


def _probes(scenario: Scenario, state: State) -> list[Probe]:
    probes: list[Probe] = []
    for agent in scenario.agents:
        probes.append(("brief", functools.partial(scenario.brief, state, agent), _is_text, "a str"))
        probes.append(("observe", functools.partial(scenario.observe, state, agent), _is_text, "a str"))
    silence = dict.fromkeys(scenario.agents, "")
    return [
        *probes,
        ("acting", lambda: scenario.acting(state), lambda acting: isinstance(acting, tuple), "a tuple of agents"),
        ("oracle", lambda: scenario.oracle(state), _is_gold, "a dict, agent to text, or None"),
        ("reachable", lambda: scenario.reachable(state), is_number, "a finite number"),
        ("blank", lambda: scenario.blank(""), _is_text, "a str"),
        *_advances(scenario, state, silence),
    ]


def _advances(scenario: Scenario, state: State, actions: Mapping[str, str]) -> list[Probe]:
    """The method that the author wrote: ``advance_many`` calls ``advance`` by default."""
    if _defines(scenario, "advance_many"):
        many = [(state, actions)]
        return [("advance_many", lambda: scenario.advance_many(many), _are_steps, "a list of one Step each")]
    return [("advance", lambda: scenario.advance(state, actions), lambda step: isinstance(step, Step), "a Step")]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_gold(value: object) -> bool:
    return value is None or (isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values()))


def _are_steps(value: object) -> bool:
    return isinstance(value, Sequence) and len(value) == 1 and isinstance(value[0], Step)


def is_number(value: object) -> bool:
    """Whether ``value`` is a finite real number and no truth value."""
    return type(value) is not bool and isinstance(value, numbers.Real) and math.isfinite(value)
