"""What all views share: one side of an environment is translated, everything else is handed through."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from gymnasium import spaces
from pettingzoo.utils import BaseParallelWrapper

from comlrl_envs.env import Infos
from comlrl_envs.errors import ActionError, OptionError, closest

Observations: TypeAlias = dict[str, Any]
Stepped: TypeAlias = tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]
Space: TypeAlias = "spaces.Space[Any]"
AnyView = TypeVar("AnyView", bound="View")


class View(BaseParallelWrapper, ABC):  # type: ignore[misc]  # PettingZoo ships no types
    """A wrapper around ``env``; what it does not define itself, it reads from there.

    Args:
        env: A ``ParallelEnv`` of texts, or another view of one.

    Raises:
        OptionError: ``env`` is no environment.
    """

    def __init__(self, env: Any) -> None:
        if not hasattr(env, "possible_agents"):
            how = f"make({env!r})" if isinstance(env, str) else "a ParallelEnv of texts, such as make(ID) returns"
            raise OptionError(f"env is a {type(env).__name__}; pass {how}.")
        super().__init__(env)
        # What the view remembers of the last observations, as JSON values; replaced, never changed in place.
        self._kept: dict[str, Any] = {}

    @property
    def max_cycles(self) -> int | None:
        """The wrapped environment's outer limit on steps, where it has one."""
        limit: int | None = self.env.max_cycles
        return limit

    @max_cycles.setter
    def max_cycles(self, limit: int | None) -> None:
        self.env.max_cycles = limit

    def fork(self: AnyView) -> AnyView:
        """A view that goes on from here on its own, if the wrapped environment can be forked."""
        twin = copy.copy(self)
        twin.env = self.env.fork()
        twin._own_spaces()
        return twin

    @abstractmethod
    def _own_spaces(self) -> None:
        """Give up spaces that another view holds too: they draw from generators of their own."""

    def get_state(self) -> dict[str, Any]:
        """Where view and environment stand, as JSON values, if the wrapped environment can tell."""
        return {"env": self.env.get_state(), "kept": self._kept}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``get_state`` gave."""
        self.env.set_state(state["env"])
        self._kept = state["kept"]


class ObservationView(View):
    """Shows the agents' texts in another form; actions are those of the wrapped environment.

    Attributes:
        observation_spaces: Per agent, the space of what ``encode`` returns.
    """

    observation_spaces: dict[str, Space]

    @abstractmethod
    def encode(self, text: str) -> Any:
        """What is shown in place of ``text``."""

    def observation_space(self, agent: str) -> Space:
        """The space of the agent's observations, the same object at each call."""
        return self.observation_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Infos]:
        """Begin an episode of the wrapped environment."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._kept = {}
        return self._show(observations), infos

    def step(self, actions: Mapping[str, Any]) -> Stepped:
        """Play one joint action in the wrapped environment."""
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        return self._show(observations), rewards, terminations, truncations, infos

    def _show(self, observations: Mapping[str, Any]) -> Observations:
        for agent, text in observations.items():
            if not isinstance(text, str):
                raise OptionError(
                    f"The observation of {agent!r} is a {type(text).__name__}; {type(self).__name__} shows texts. "
                    "Wrap an environment of texts, and in one view of its observations only."
                )
        return {agent: self.encode(text) for agent, text in observations.items()}

    def _own_spaces(self) -> None:
        self.observation_spaces = copy.deepcopy(self.observation_spaces)


class ActionView(View):
    """Takes actions of another form for texts; observations are those of the wrapped environment.

    Attributes:
        action_spaces: Per agent, the space of what ``decode`` reads; equal for all agents.
    """

    action_spaces: dict[str, Space]

    @abstractmethod
    def decode(self, agent: str, action: Any) -> str:
        """The text that ``action`` stands for; raises ``ActionError`` if it stands for none."""

    def action_space(self, agent: str) -> Space:
        """The space of the agent's actions, the same object at each call."""
        return self.action_spaces[agent]

    def step(self, actions: Mapping[str, Any]) -> Stepped:
        """Play the texts that the joint action stands for."""
        for agent in actions:
            if agent not in self.action_spaces:
                near = closest(agent, self.action_spaces)
                raise ActionError(f"No agent {agent!r}; the agents are {list(self.action_spaces)}.{near}")
        stepped: Stepped = self.env.step({agent: self.decode(agent, action) for agent, action in actions.items()})
        return stepped

    def _own_spaces(self) -> None:
        self.action_spaces = copy.deepcopy(self.action_spaces)
