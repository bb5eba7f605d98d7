"""A space of texts as language models write them.

Gymnasium's own ``Text`` lists its characters: it would hold all of Unicode in every copy and look at every
character of an observation. Here membership is a matter of type and length; a small charset serves sampling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import utils as vector_utils
from numpy.typing import NDArray

SAMPLE_CHARS = 64
_CHARSET = "".join(map(chr, range(32, 127))) + "\n"
_LAST = 0x10FFFF


class _Iterable(spaces.Text):
    """Carries the registration of ``iterate``.

    ``iterate(space, texts)`` finds it through the bases, while Gymnasium's tuples, which look up the exact class of
    their parts, do not find ``Text`` and go on treating a tuple of texts as a batch of them.
    """


class Text(_Iterable):
    """All strings of ``min_length`` to ``max_length`` characters, of any script.

    Args:
        max_length: Most characters, >= 1.
        min_length: Fewest characters.
        seed: Seeds ``sample``, which draws up to 64 printable ASCII characters, the same in every process.
    """

    def __init__(self, max_length: int, *, min_length: int = 0, seed: int | None = None) -> None:
        # A str, since the order of a frozenset, Gymnasium's default, changes with PYTHONHASHSEED.
        super().__init__(max_length, min_length=min_length, charset=_CHARSET, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A short random text; ``mask`` and ``probability`` as in Gymnasium."""
        if mask is not None or probability is not None:
            return super().sample(mask, probability)
        longest = max(self.min_length, min(SAMPLE_CHARS, self.max_length))
        length = int(self.np_random.integers(self.min_length, longest + 1))
        return "".join([_CHARSET[i] for i in self.np_random.integers(0, len(_CHARSET), length)])

    def contains(self, x: object) -> bool:
        """Whether ``x`` is a ``str`` of a fitting length."""
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length

    def __eq__(self, other: object) -> bool:
        """Spaces are equal if their bounds are."""
        return isinstance(other, Text) and (self.min_length, self.max_length) == (other.min_length, other.max_length)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Short, without the charset."""
        return f"Text({self.min_length}, {self.max_length})"

    def __reduce__(self) -> tuple[Any, ...]:
        """The bounds and the generator: the tables of characters are built anew."""
        return _restore, (self.max_length, self.min_length, self._np_random)


def _restore(max_length: int, min_length: int, generator: np.random.Generator | None) -> Text:
    space = Text(max_length, min_length=min_length)
    if generator is not None:
        space._np_random = generator
    return space


def _flatten_space(space: Text) -> spaces.Box:
    return spaces.Box(-1, _LAST, (space.max_length,), np.int32)


def _flatten(space: Text, x: str) -> NDArray[np.int32]:
    """Code points, then -1 up to the longest length."""
    codes = np.full(space.max_length, -1, np.int32)
    codes[: len(x)] = np.frombuffer(x.encode("utf-32-le", "surrogatepass"), "<u4")
    return codes


def _unflatten(space: Text, x: NDArray[np.int32]) -> str:
    codes = np.asarray(x)
    return codes[codes >= 0].astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


def _iterate(space: _Iterable, items: Iterable[Any]) -> Iterator[Any]:
    return iter(items)


def _batch_differing(differing: Sequence[Text]) -> spaces.Tuple[Any]:
    return spaces.Tuple(tuple(differing))


# Gymnasium's dispatch goes by exact class here and there, so what Text inherits is registered again.
spaces.utils.flatten_space.register(Text, _flatten_space)
spaces.utils.flatten.register(Text, _flatten)
spaces.utils.unflatten.register(Text, _unflatten)
vector_utils.iterate.register(_Iterable, _iterate)
vector_utils.batch_differing_spaces.register(Text, _batch_differing)
