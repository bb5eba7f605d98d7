"""Candidate replies to choose from, for learners of discrete actions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from gymnasium import spaces

from comlrl_envs.env import Infos
from comlrl_envs.errors import ActionError, EpisodeError, OptionError, closest, positive_int
from comlrl_envs.views.base import ActionView, Observations, Stepped

Offer: TypeAlias = Callable[[str, Any], Sequence[str]]
Candidates: TypeAlias = "Sequence[str] | Mapping[str, Sequence[str]] | Offer"


class ChoiceView(ActionView):
    """Actions in ``Discrete(n)``: action ``i`` of an agent is its candidate reply ``i``, counted from 0.

    Args:
        env: A ``ParallelEnv`` whose actions are texts.
        candidates: A list of texts for all agents, a dict of such lists by agent, or a callable
            ``(agent, observation) -> list of n texts`` that is asked anew for each turn of each live agent.
            It is given the observation as ``env`` shows it: to choose by text, wrap the environment itself and put a
            view of its observations around this one. A module's function can be pickled with the view, a lambda not.
        n: How many candidates each agent has. Needed with a callable; otherwise counted.

    Raises:
        OptionError: The candidates are no texts, their number differs between agents, or an agent has none.
    """

    def __init__(self, env: Any, candidates: Candidates, n: int | None = None) -> None:
        super().__init__(env)
        self._offer: Offer | None = None
        agents = list(env.possible_agents)
        if callable(candidates):
            if n is None:
                raise OptionError(
                    "candidates is a callable and n is missing; pass n, the number of texts it returns: the action "
                    "space has to be known before the first observation."
                )
            self._offer = candidates
            self._n = positive_int("n", n)
        else:
            by_agent = candidates if isinstance(candidates, Mapping) else dict.fromkeys(agents, candidates)
            _check_agents(by_agent, agents)
            first = by_agent[agents[0]]
            self._n = len(_texts(agents[0], first, n))
            self._kept = {agent: _texts(agent, by_agent[agent], self._n) for agent in agents}
        self.action_spaces = {agent: spaces.Discrete(self._n) for agent in agents}

    def offered(self, agent: str) -> tuple[str, ...]:
        """What the agent's actions stand for now.

        Raises:
            EpisodeError: A callable has not been asked yet, as no episode has begun or the agent has left.
        """
        if agent not in self._kept:
            raise EpisodeError(f"No candidates for {agent!r}: it is not in an episode now. Call reset() first.")
        return tuple(self._kept[agent])

    def decode(self, agent: str, action: Any) -> str:
        """The candidate at position ``action``, an integer of any kind."""
        try:
            place = operator.index(action)
        except TypeError as bad:
            raise ActionError(
                f"The action of {agent!r} is a {type(action).__name__}; expected an integer from 0 to {self._n - 1}, "
                "the position of a candidate."
            ) from bad
        if not 0 <= place < self._n:
            raise ActionError(f"The action of {agent!r} is {place}; there are {self._n} candidates, from 0.")
        return self.offered(agent)[place]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Infos]:
        """Begin an episode of the wrapped environment, and ask for candidates."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._ask(observations)
        return observations, infos

    def step(self, actions: Mapping[str, Any]) -> Stepped:
        """Play the chosen replies, and ask for the next candidates."""
        stepped = super().step(actions)
        self._ask(stepped[0])
        return stepped

    def _ask(self, observations: Observations) -> None:
        if self._offer is not None:
            self._kept = {
                agent: _texts(agent, self._offer(agent, observations[agent]), self._n) for agent in self.env.agents
            }


def _check_agents(by_agent: Mapping[str, object], agents: list[str]) -> None:
    for agent in by_agent:
        if agent not in agents:
            raise OptionError(f"candidates names {agent!r}; the agents are {agents}.{closest(agent, agents)}")
    missing = [agent for agent in agents if agent not in by_agent]
    if missing:
        raise OptionError(f"candidates has nothing for {missing}; give each of {agents} a list of texts.")


def _texts(agent: str, given: object, n: int | None) -> list[str]:
    """``given`` as a list, if it is ``n`` texts (any number >= 1 if ``n`` is None)."""
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(isinstance(text, str) for text in given):
        raise OptionError(f"The candidates of {agent!r} are {given!r:.80}; expected a list of texts.")
    if not given:
        raise OptionError(f"There are no candidates of {agent!r}; give at least one text.")
    if n is not None and len(given) != n:
        raise OptionError(
            f"There are {len(given)} candidates of {agent!r}, expected {n}: all agents have equally many at every turn."
        )
    return list(given)
