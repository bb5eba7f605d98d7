"""Questions about things that nobody has heard of, over a pool of paragraphs that is searched.

``Where is the thing that Dorvin lost?`` "Dorvin lost the plim." and "Tavul keeps a red plim in the hall." answer it:
the words of the question find the first alone, whose thing is the word to search for next. Each name and each thing
belongs to one record, so that the pool has one answer to each question; the splits share no name and no thing either.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from comlrl_envs.qa.demo.lost_things import COLOURS, COUNTS, KINDS, PLACES, Kept, question
from comlrl_envs.seeding import rng

KEEPERS = (3, 5)
"""Fewest and most people of a record who keep something."""
_NAMES = ("B D F G H K L M N P R S T V Z".split(), "aeiou", ("lb", "rv", "v", "rz", "lg", "zr"), "aiou", "lnkm")
_THINGS = (("pl", "br", "dr", "gl", "kr", "sn", "tr", "v", "z", "sk"), "aeiou", ("lm", "rg", "zk", "lb", "mf", "sp"))
_ENDS = ("", "o")


@functools.cache
def invented_things(split: str) -> tuple[dict[str, Any], ...]:
    """The rows of a split; they share no name and no thing."""
    draws = rng("qa demo", "invented things", split)
    names, things = _fresh("names", split, *_NAMES), _fresh("things", split, *_THINGS, _ENDS)
    rows = []
    for number in range(COUNTS[split]):
        loser = next(names)
        count = int(draws.integers(KEEPERS[0], KEEPERS[1] + 1))
        parts = (names, _some(COLOURS, count, draws), things, _some(PLACES, count, draws))
        kept = [Kept(*(next(part) for part in parts)) for _ in range(count)]
        row = question(KINDS[number % len(KINDS)], loser, kept, kept[0], draws)
        rows.append({"id": f"{loser.lower()}-{kept[0].thing}", **row})
    return tuple(rows)


def _fresh(kind: str, split: str, *parts: tuple[str, ...] | list[str] | str) -> Iterator[str]:
    """All words of these parts in a drawn order; of every two one belongs to each split."""
    words = ["".join(word) for word in itertools.product(*parts)]
    order = rng("qa demo", "invented things", kind).permutation(len(words))
    return (words[int(place)] for place in order[sorted(COUNTS).index(split) :: len(COUNTS)])


def _some(words: tuple[str, ...], count: int, draws: np.random.Generator) -> Iterator[str]:
    return (words[int(place)] for place in draws.permutation(len(words))[:count])
