"""Questions about kept things: one paragraph of four answers each, and whoever holds another should keep quiet.

``Who keeps the hat?`` is answered by "Tom keeps a red hat in the hall."; "The bus to Oslo is late." says nothing about
it. The splits share no name, no thing and no word of what else is told, so no text either.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from comlrl_envs.qa.demo.facts import COLOUR, COLOURS, COUNTS, KEEPER, KINDS, NAMES, PLACE, PLACES, THINGS, Kept, some
from comlrl_envs.qa.scorers import SCORERS
from comlrl_envs.seeding import rng

ASIDES = ("It is {weather} in {city}.", "The {vehicle} to {city} is late.", "We eat {meal} today.")
"""What the other paragraphs tell."""
WORDS = {
    "train": {
        "weather": ("cold", "warm"),
        "city": ("Oslo", "Rome", "Paris", "Cairo", "Lima", "Delhi"),
        "vehicle": ("train", "bus", "car"),
        "meal": ("soup", "rice", "bread", "cheese"),
    },
    "eval": {
        "weather": ("wet", "dry"),
        "city": ("Tokyo", "Bern", "Madrid", "Dublin", "Vienna", "Quito"),
        "vehicle": ("boat", "bike", "tram"),
        "meal": ("fish", "plums", "pasta", "salad"),
    },
}
QUESTIONS = {
    PLACE: "Where does {name} keep the {thing}?",
    KEEPER: "Who keeps the {thing}?",
    COLOUR: "What colour is the {thing}?",
}


@functools.cache
def kept_things(split: str) -> tuple[dict[str, Any], ...]:
    """The rows of a split, each other than all before it."""
    rows: dict[str, dict[str, Any]] = {}
    draws = rng("qa demo", "kept things", split)
    while len(rows) < COUNTS[split]:
        kept = Kept(*(some(words, 1, draws)[0] for words in (NAMES[split], COLOURS, THINGS[split], PLACES)))
        said = {name: some(words, 1, draws)[0] for name, words in WORDS[split].items()}
        texts = [kept.sentence, *(aside.format(**said) for aside in ASIDES)]
        order = [int(place) for place in draws.permutation(len(texts))]
        row = _row(KINDS[len(rows) % len(KINDS)], kept, [texts[place] for place in order], order.index(0))
        rows.setdefault(kept.sentence, {"id": f"{kept.name}-{kept.thing}-{len(rows)}".lower(), **row})
    return tuple(rows.values())


def _row(kind: str, kept: Kept, texts: Sequence[str], place: int) -> dict[str, Any]:
    return {
        "question": QUESTIONS[kind].format(name=kept.name, thing=kept.thing),
        "answers": [kept.answer(kind)],
        "paragraphs": [{"title": "", "sentences": [text]} for text in texts],
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
