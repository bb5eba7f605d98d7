"""What a policy has to offer, in one of three forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from comlrl_envs.errors import InfrastructureError
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.transcript import Message

Reply: TypeAlias = "str | InfrastructureError"


@runtime_checkable
class TextPolicy(Protocol):
    """Reads prompts as texts."""

    def act(self, prompts: list[str], agent: str, rng: np.random.Generator) -> Sequence[Reply]:
        """One reply a prompt, all of ``agent``; draws, if any, come from ``rng``."""
        ...


@runtime_checkable
class ChatPolicy(Protocol):
    """Reads prompts as chat turns, the last of them the game's."""

    def act_chat(self, chats: list[list[Message]], agent: str, rng: np.random.Generator) -> Sequence[Reply]:
        """One reply a chat."""
        ...


@runtime_checkable
class EpisodePolicy(Protocol):
    """Reads the episodes themselves."""

    def act_episodes(
        self, game: TextGame, episodes: list[Episode], agent: str, rng: np.random.Generator
    ) -> Sequence[Reply]:
        """One reply an episode."""
        ...


Policy: TypeAlias = "TextPolicy | ChatPolicy | EpisodePolicy"


class _PerPrompt:
    def __init__(self, answer: Callable[[str], str]) -> None:
        self._answer = answer

    def act(self, prompts: list[str], agent: str, rng: np.random.Generator) -> list[Reply]:
        return [self._answer(prompt) for prompt in prompts]


def per_prompt(answer: Callable[[str], str]) -> TextPolicy:
    """A policy from a function of one prompt.

    >>> import numpy
    >>> per_prompt(str.upper).act(["hi"], "writer", numpy.random.default_rng(0))
    ['HI']
    """
    return _PerPrompt(answer)
