"""What an environment's author writes: the rules, as pure functions of frozen values.

A ``Scenario`` knows no PettingZoo, no memory and no seeds. ``TextGame`` plays it, ``TextEnv`` shows it.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np

from comlrl_envs.errors import InfrastructureError, OptionError, closest

JSON: TypeAlias = Any
Actions: TypeAlias = Mapping[str, str]
_STATES: dict[str, type[State]] = {}


@dataclass(frozen=True)
class State:
    """Where a game stands: a frozen dataclass of JSON values, tuples and nested states.

    Subclass it with ``@dataclass(frozen=True)``. Fields hold ``str``, ``int``, ``float``, ``bool``, ``None``,
    tuples of these, or other states; so a state can be hashed, shared by many episodes and written as JSON.

    Attributes:
        key: Set by the game from the seed and the task; later draws come from ``rng(state.key, turn, purpose)``.
            Hand it on when a new state is built.
    """

    key: int = field(default=0, kw_only=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Remember the class by name, so that ``from_json`` finds it without importing anything."""
        super().__init_subclass__(**kwargs)
        _STATES[f"{cls.__module__}:{cls.__qualname__}"] = cls

    def to_json(self) -> dict[str, JSON]:
        """The state as JSON values; raises ``OptionError`` if a field holds something else."""
        fields = {f.name: _pack(getattr(self, f.name), f.name) for f in dataclasses.fields(self)}
        return {"state": f"{type(self).__module__}:{type(self).__qualname__}", "fields": fields}

    @staticmethod
    def from_json(data: Mapping[str, JSON]) -> State:
        """Rebuild what ``to_json`` wrote, tuples and nested states included."""
        name = data["state"]
        if name not in _STATES:
            raise OptionError(f"Unknown state class {name!r}: import its module first.{closest(name, _STATES)}")
        return _STATES[name](**{key: _unpack(value) for key, value in data["fields"].items()})


_STATES[f"{State.__module__}:{State.__qualname__}"] = State


def _pack(value: object, name: str) -> JSON:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, State):
        return value.to_json()
    if isinstance(value, tuple):
        return [_pack(v, name) for v in value]
    raise OptionError(
        f"State field {name!r} holds a {type(value).__name__}; states hold str, int, float, bool, None, tuples "
        "and states. Turn lists and dicts into tuples."
    )


def _unpack(value: JSON) -> Any:
    if isinstance(value, list):
        return tuple(_unpack(v) for v in value)
    if isinstance(value, dict):
        return State.from_json(value)
    return value


@dataclass(frozen=True, slots=True)
class Score:
    """The judgement of one joint action.

    Attributes:
        terms: One number for each of ``Scenario.terms``; the reward is their sum, clipped to ``reward_range``.
        metrics: One number for each of ``Scenario.metrics``: its value if the episode ended now.
        agent_metrics: ``{metric: {agent: number}}`` for each of ``Scenario.agent_metrics`` and every agent.
    """

    terms: Mapping[str, float]
    metrics: Mapping[str, float] = field(default_factory=dict)
    agent_metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """What a joint action leads to: the next state, its score, and whether the rules end the episode here."""

    state: State
    score: Score
    done: bool = False


class Scenario(ABC):
    """The rules of one game. Subclass it as a frozen dataclass; its fields are its settings.

    Attributes:
        agents: Stable ids, role words.
        max_turns: Most joint actions of an episode, >= 1; ``Step.done`` may end it earlier.
        reward_range: Lowest and highest reward of a turn; the sum of the terms is clipped to it.
        terms: Names of all reward terms.
        metrics: Names of all team metrics.
        agent_metrics: Names of all metrics that each agent has.
        floors: Upper bound on the mean reward of each scripted policy that should do badly (``empty``, ``echo``,
            ``random``), at the default tasks.
    """

    agents: tuple[str, ...]
    max_turns: int
    reward_range: tuple[float, float]
    terms: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    agent_metrics: tuple[str, ...] = ()
    floors: Mapping[str, float] = {}
    presets: ClassVar[tuple[str, ...]] = ()
    """Names that its setting ``reward`` takes, if it has one."""
    channel: bool = True
    """Whether teammates are shown anything of each other's replies; without a channel ``blank`` changes nothing."""
    deterministic: bool = True
    """Whether equal moves lead to equal steps; False in a mode that asks a model."""
    ablation: bool = False
    """Whether agents are told what only the judge knows, such as whether their answer is right, as a feedback mode for
    ablations may; ``evaluate`` refuses such an environment."""

    @abstractmethod
    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        """The state before the first action, from a task's row and a generator of this episode's own."""

    @abstractmethod
    def brief(self, state: State, agent: str) -> str:
        """Role, rules and item for ``agent``; the same text all through an episode."""

    def prompt_fields(self, state: State, agent: str) -> Mapping[str, Any]:
        """What ``agent`` alone is shown, by name, for a caller's own ``prompts=`` beside the row's fields."""
        return {}

    def observe(self, state: State, agent: str) -> str:
        """This turn's news for ``agent`` (feedback, messages); ``""`` if there is none."""
        return ""

    def acting(self, state: State) -> tuple[str, ...]:
        """Who acts now; the others' text is ignored and not trained. Default: all."""
        return self.agents

    def advance(self, state: State, actions: Actions) -> Step:
        """Play one joint action, which holds a text for every agent (``""`` for the idle ones)."""
        raise NotImplementedError(f"{type(self).__name__} must define advance or advance_many")

    def advance_many(self, pairs: Sequence[tuple[State, Actions]]) -> Sequence[Step | InfrastructureError]:
        """Play many joint actions; override it where work can be shared. Results in the order of ``pairs``.

        A machine's failure is returned in its place (or raised, which fails the whole batch); a reward of 0 would lie.
        """
        steps: list[Step | InfrastructureError] = []
        for state, actions in pairs:
            try:
                steps.append(self.advance(state, actions))
            except InfrastructureError as failure:
                steps.append(failure)
        return steps

    def oracle(self, state: State) -> Mapping[str, str] | None:
        """A gold joint action now, each reply from what that agent was shown plus gold for its part; None = unknown."""
        return None

    def reachable(self, state: State) -> float:
        """Highest reward that a joint action can earn now, and the oracle does. Default: the top of the range."""
        return self.reward_range[1]

    def blank(self, reply: str) -> str:
        """``reply`` with everything that teammates are shown emptied. Default: no channel, unchanged."""
        return reply

    def majority(self, state: State, replies: Sequence[str]) -> str:
        """The one of ``replies``, all drawn from one agent in ``state``, that most agree with.

        It reads nothing that the agent is not shown, least of all gold. Default: there is no such vote, which raises
        ``OptionError``; ``evaluate(protocol="majority")`` refuses an environment that does not override it.
        """
        raise OptionError(f"{type(self).__name__} defines no majority: its replies do not vote.")


def setting_names(scenario: Any) -> set[str]:
    """Names of the fields of a scenario class; empty if it is no dataclass."""
    return {f.name for f in dataclasses.fields(scenario) if f.init} if dataclasses.is_dataclass(scenario) else set()


def with_preset(scenario: Scenario, reward: str) -> Scenario:
    """``scenario`` with the named reward preset; one without a ``reward`` setting has the single preset ``default``."""
    if "reward" in setting_names(type(scenario)):
        settings: Any = scenario
        chosen: Scenario = dataclasses.replace(settings, reward=reward)
        return chosen
    if reward != "default":
        raise OptionError(
            f"reward={reward!r}: {type(scenario).__name__} has the single preset 'default'. Pass that, or a callable."
        )
    return scenario
