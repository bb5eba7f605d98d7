"""Policies without a model: the floor that every environment should have, and its ceiling."""

from __future__ import annotations

import string
from dataclasses import dataclass

import numpy as np

from comlrl_envs.errors import OptionError
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.policies.protocol import Reply
from comlrl_envs.seeding import rng as rng_of

PRINTABLE = string.ascii_letters + string.digits + string.punctuation + " "
LONGEST = 64
"""Most characters of a random reply."""


@dataclass(frozen=True)
class EmptyPolicy:
    """Says nothing."""

    def act(self, prompts: list[str], agent: str, rng: np.random.Generator) -> list[Reply]:
        """An empty text a prompt."""
        return [""] * len(prompts)


@dataclass(frozen=True)
class EchoPolicy:
    """Repeats what it is shown."""

    def act(self, prompts: list[str], agent: str, rng: np.random.Generator) -> list[Reply]:
        """The prompts."""
        return list(prompts)


@dataclass(frozen=True)
class RandomPolicy:
    """Writes 0 to 64 printable characters, each length and each character as likely.

    In an episode the draws belong to the episode, the turn and the agent, so that they do not depend on what else is
    played in the same batch; a bare prompt draws from the generator that it is given.
    """

    def act(self, prompts: list[str], agent: str, rng: np.random.Generator) -> list[Reply]:
        """Texts drawn from ``rng``."""
        return [_text(rng) for _ in prompts]

    def act_episodes(
        self, game: TextGame, episodes: list[Episode], agent: str, rng: np.random.Generator
    ) -> list[Reply]:
        """Texts drawn for each episode, turn and agent."""
        place = game.agents.index(agent)
        return [_text(rng_of("random", e.seed, e.task_id, e.turn, agent, e.news[place])) for e in episodes]


@dataclass(frozen=True)
class OraclePolicy:
    """Plays the gold joint action of the scenario, which reads the state of the episode."""

    def act_episodes(
        self, game: TextGame, episodes: list[Episode], agent: str, rng: np.random.Generator
    ) -> list[Reply]:
        """The agent's part of each gold joint action.

        Raises:
            OptionError: The scenario knows none for a task.
        """
        return [self._part(game, episode, agent) for episode in episodes]

    def _part(self, game: TextGame, episode: Episode, agent: str) -> str:
        gold = game.oracle(episode)
        if gold is None or agent not in gold:
            raise OptionError(
                f"The oracle knows no reply of {agent!r} for task {episode.task_id!r} in turn {episode.turn + 1}: its "
                "row holds no answer of such a team. The environment's page says which fields are one; add them, leave "
                "the task out, or evaluate another policy."
            )
        return gold[agent]


def _text(rng: np.random.Generator) -> str:
    places = rng.integers(len(PRINTABLE), size=int(rng.integers(LONGEST + 1)))
    return "".join([PRINTABLE[place] for place in places])
