"""Questions about things that nobody has heard of, over a pool of paragraphs that is searched.

``Where is the thing that Dorvin lost?`` "Dorvin lost the plim." and "Tavul keeps a red plim in the hall." answer it:
the words of the question find the first alone, whose thing is the word to search for next. Each name and each thing
belongs to one record, so that the pool has one answer to each question; the splits share no name and no thing either.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from comlrl_envs.qa.demo.facts import COLOUR, COLOURS, COUNTS, KEEPER, KINDS, PLACE, PLACES, Kept, some
from comlrl_envs.seeding import rng

KEEPERS = (3, 5)
"""Fewest and most people of a record who keep something."""
QUESTIONS = {
    PLACE: "Where is the thing that {loser} lost?",
    KEEPER: "Who keeps the thing that {loser} lost?",
    COLOUR: "What colour is the thing that {loser} lost?",
}
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
        parts = (names, iter(some(COLOURS, count, draws)), things, iter(some(PLACES, count, draws)))
        kept = [Kept(*(next(part) for part in parts)) for _ in range(count)]
        rows.append(_row(KINDS[number % len(KINDS)], loser, kept, draws))
    return tuple(rows)


def _row(kind: str, loser: str, kept: Sequence[Kept], draws: np.random.Generator) -> dict[str, Any]:
    """A row about the first thing, its paragraphs in a drawn order; the first of its support names the thing."""
    lost = kept[0]
    texts = [(loser, f"{loser} lost the {lost.thing}."), *((each.name, each.sentence) for each in kept)]
    order = [int(place) for place in draws.permutation(len(texts))]
    return {
        "id": f"{loser.lower()}-{lost.thing}",
        "question": QUESTIONS[kind].format(loser=loser),
        "answers": [lost.answer(kind)],
        "paragraphs": [{"title": texts[place][0], "sentences": [texts[place][1]]} for place in order],
        "support": [[order.index(0), None], [order.index(1), None]],
        "kind": kind,
        "scorer": "musique",
    }


def _fresh(kind: str, split: str, *parts: tuple[str, ...] | list[str] | str) -> Iterator[str]:
    """All words of these parts in a drawn order; of every two one belongs to each split."""
    words = ["".join(word) for word in itertools.product(*parts)]
    order = rng("qa demo", "invented things", kind).permutation(len(words))
    return (words[int(place)] for place in order[sorted(COUNTS).index(split) :: len(COUNTS)])
