"""Texts as arrays of token ids, for learners of numbers.

Ids are shifted by one, so that 0 is free: it fills up an observation and ends an action. Without a tokenizer a token
is a byte of UTF-8, and any text can be read and written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from comlrl_envs.errors import ActionError, EpisodeError, OptionError, one_of, positive_int
from comlrl_envs.views.base import ActionView, Observations, ObservationView

BYTES = 256
DTYPES = ("int64", "float32")


class Tokenizer(Protocol):
    """What turns texts into ids and back; tokenizers of Hugging Face do."""

    def encode(self, text: str) -> Sequence[int]:
        """Ids of the text, each from 0 to below ``vocab_size``."""
        ...

    def decode(self, ids: list[int]) -> str:
        """A text for any ids."""
        ...


@dataclass(frozen=True)
class Utf8:
    """Bytes as tokens. What is no UTF-8 becomes a replacement character."""

    def encode(self, text: str) -> Sequence[int]:
        """The text's bytes; a lone surrogate has none and becomes ``?``."""
        return text.encode("utf-8", "replace")

    def decode(self, ids: list[int]) -> str:
        """The text of the bytes."""
        return bytes(ids).decode("utf-8", "replace")


def _check_tokenizer(tokenizer: Tokenizer | None, vocab_size: int | None) -> tuple[Tokenizer, int]:
    """The tokenizer and its number of ids, bytes by default."""
    if tokenizer is None:
        if vocab_size not in (None, BYTES):
            raise OptionError(f"vocab_size={vocab_size!r} without a tokenizer; leave it out, bytes have {BYTES}.")
        return Utf8(), BYTES
    if vocab_size is None:
        raise OptionError("A tokenizer was given and vocab_size was not; pass its number of ids, often len(tokenizer).")
    return tokenizer, positive_int("vocab_size", vocab_size)


class TokenObservations(ObservationView):
    """Observations as arrays of ``length`` token ids plus one, then zeros; the actions stay as they are.

    Of a text that is too long the END is kept, where a game puts its news; the cut may go through a character.

    Args:
        env: A ``ParallelEnv`` whose observations are texts.
        length: Tokens of an observation, >= 1.
        dtype: ``"int64"``, whole numbers from 0 to ``vocab_size``; or ``"float32"``, the same divided by
            ``vocab_size``, in [0, 1], for learners that take no integers.
        tokenizer: Has ``encode`` and ``decode``; None for the bytes of UTF-8.
        vocab_size: Number of the tokenizer's ids; needed with a tokenizer.

    Attributes:
        state_space: The space of ``state()``.
    """

    def __init__(
        self,
        env: Any,
        length: int,
        dtype: str = "int64",
        tokenizer: Tokenizer | None = None,
        vocab_size: int | None = None,
    ) -> None:
        super().__init__(env)
        one_of("dtype", dtype, DTYPES)
        self._length = positive_int("length", length)
        self._dtype = dtype
        self._tokenizer, self._vocab_size = _check_tokenizer(tokenizer, vocab_size)
        agents = list(env.possible_agents)
        self.observation_spaces = {agent: self._box(length) for agent in agents}
        self.state_space = self._box(length * len(agents))

    def _box(self, length: int) -> spaces.Box:
        if self._dtype == "int64":
            return spaces.Box(0, self._vocab_size, (length,), np.int64)
        return spaces.Box(0.0, 1.0, (length,), np.float32)

    def encode(self, text: str) -> NDArray[Any]:
        """The array that stands for ``text``, of shape ``(length,)``."""
        ids = np.array(list(self._tokenizer.encode(text)[-self._length :]), np.int64)
        if ids.size and not 0 <= ids.min() <= ids.max() < self._vocab_size:
            raise OptionError(
                f"The tokenizer gave ids from {ids.min()} to {ids.max()}; vocab_size={self._vocab_size} expects 0 to "
                f"{self._vocab_size - 1}. Pass its number of ids, added tokens included."
            )
        tokens = np.zeros(self._length, np.int64)
        tokens[: ids.size] = ids + 1
        return tokens if self._dtype == "int64" else (tokens / self._vocab_size).astype(np.float32)

    def state(self) -> NDArray[Any]:
        """All agents' observations end to end, in the order of ``possible_agents``: each has its place.

        An agent that has left keeps its last one. The wrapped environment's own state, if any, is ``env.state()``.
        """
        if not self._kept:
            raise EpisodeError("No episode has begun. Call reset() first.")
        return np.concatenate([self.encode(self._kept.get(agent, "")) for agent in self.observation_spaces])

    def _show(self, observations: Mapping[str, Any]) -> Observations:
        shown = super()._show(observations)
        self._kept = {**self._kept, **observations}
        return shown

    def _own_spaces(self) -> None:
        super()._own_spaces()
        self.state_space = self._box(self._length * len(self.observation_spaces))


class TokenActions(ActionView):
    """Actions as ``MultiDiscrete`` arrays of token ids plus one; 0 ends the text. Observations stay as they are.

    Args:
        env: A ``ParallelEnv`` whose actions are texts.
        reply_length: Most tokens of an action, >= 1.
        tokenizer: Has ``encode`` and ``decode``; None for the bytes of UTF-8, where what is no UTF-8 becomes a
            replacement character.
        vocab_size: Number of the tokenizer's ids; needed with a tokenizer.
    """

    def __init__(
        self, env: Any, reply_length: int, tokenizer: Tokenizer | None = None, vocab_size: int | None = None
    ) -> None:
        super().__init__(env)
        self._length = positive_int("reply_length", reply_length)
        self._tokenizer, self._vocab_size = _check_tokenizer(tokenizer, vocab_size)
        self.action_spaces = {
            agent: spaces.MultiDiscrete([self._vocab_size + 1] * reply_length) for agent in env.possible_agents
        }

    def decode(self, agent: str, action: Any) -> str:
        """The text of an integer array of shape ``(reply_length,)``, up to its first 0."""
        ids = np.asarray(action)
        if ids.shape != (self._length,) or ids.dtype.kind not in "iu":
            raise ActionError(
                f"The action of {agent!r} is of shape {ids.shape} and type {ids.dtype}; expected ({self._length},) and "
                "integers, one for each token."
            )
        if ids.min() < 0 or ids.max() > self._vocab_size:
            raise ActionError(
                f"The action of {agent!r} holds ids from {ids.min()} to {ids.max()}; expected 0 to {self._vocab_size}, "
                "the tokens counted from 1, and 0 for the end."
            )
        ends = np.flatnonzero(ids == 0)
        written = ids[: ends[0]] if ends.size else ids
        return self._tokenizer.decode((written.astype(np.int64) - 1).tolist())


class TokenView(TokenObservations):
    """Token ids on both sides: ``TokenObservations`` of ``TokenActions``.

    Args:
        env: A ``ParallelEnv`` of texts.
        length: As in ``TokenObservations``.
        reply_length: As in ``TokenActions``.
        dtype: Of the observations, as in ``TokenObservations``; actions are integers in either case.
        tokenizer: For both sides.
        vocab_size: For both sides.
    """

    def __init__(
        self,
        env: Any,
        length: int,
        reply_length: int,
        dtype: str = "int64",
        tokenizer: Tokenizer | None = None,
        vocab_size: int | None = None,
    ) -> None:
        super().__init__(TokenActions(env, reply_length, tokenizer, vocab_size), length, dtype, tokenizer, vocab_size)
