"""Questions about kept things: one fact of several answers each, so that whoever holds another should keep quiet.

``Who keeps the hat?`` is answered by "Tom keeps a red hat in the hall."; "Anna keeps a green map in the attic." says
nothing about it. The splits share no name and no thing, so no text either.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from comlrl_envs.qa.demo.facts import COLOUR, COLOURS, COUNTS, KEEPER, KINDS, NAMES, PLACE, PLACES, THINGS, Kept, some
from comlrl_envs.qa.scorers import SCORERS
from comlrl_envs.seeding import rng

FACTS = 4
"""Paragraphs of a record."""
QUESTIONS = {
    PLACE: "Where does {name} keep the {thing}?",
    KEEPER: "Who keeps the {thing}?",
    COLOUR: "What colour is the {thing}?",
}


@functools.cache
def kept_things(split: str) -> tuple[dict[str, Any], ...]:
    """The rows of a split, each other than all before it."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    draws = rng("qa demo", "kept things", split)
    while len(rows) < COUNTS[split]:
        words = [some(each, FACTS, draws) for each in (NAMES[split], COLOURS, THINGS[split], PLACES)]
        kept = [Kept(*each) for each in zip(*words, strict=True)]
        place = int(draws.integers(FACTS))
        row = question(KINDS[len(rows) % len(KINDS)], kept, place)
        name = f"{kept[place].name.lower()}-{kept[place].thing}-{len(rows)}"
        rows.setdefault(tuple(sorted(each.sentence for each in kept)), {"id": name, **row})
    return tuple(rows.values())


def question(kind: str, kept: Sequence[Kept], place: int) -> dict[str, Any]:
    """A row, without its id, that asks about one of several facts, each a paragraph."""
    asked = kept[place]
    return {
        "question": QUESTIONS[kind].format(name=asked.name, thing=asked.thing),
        "answers": [asked.answer(kind)],
        "paragraphs": [{"title": "", "sentences": [each.sentence]} for each in kept],
        "support": [[place, None]],
        "kind": kind,
        "scorer": "squad_v1",
    }


def unheard_f1(rows: Iterable[Mapping[str, Any]]) -> float:
    """The best mean F1 of answers by somebody who is told nothing but what kind of thing is asked for.

    Each answer is one word, so the best guess lists the words that are asked for most often, as many as pay.
    """
    golds: dict[str, list[str]] = {}
    for row in rows:
        golds.setdefault(row["kind"], []).append(row["answers"][0])
    return sum(map(_best_guess, golds.values())) / sum(map(len, golds.values()))


def _best_guess(golds: Sequence[str]) -> float:
    words = [word for word, _ in Counter(golds).most_common()]
    guesses = [" ".join(words[:count]) for count in range(1, len(words) + 1)]
    return max(sum(SCORERS["squad_v1"](guess, [gold]).f1 for gold in golds) for guess in guesses)
