"""Questions about lost things: one fact says what somebody lost, another who keeps it now, and where.

``Where is the thing that Mira lost?`` "Mira lost the hat." and "Tom keeps a red hat in the hall." answer it together;
neither does alone, since others keep other things. The splits share no name and no thing, so no text either.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from comlrl_envs.seeding import rng

COUNTS = {"train": 64, "eval": 32}
KEEPERS = 3
"""People of a record who keep something."""
NAMES = {
    "train": ("Mira", "Tom", "Anna", "Leo", "Nina", "Omar", "Ida", "Sam", "Rosa", "Paul"),
    "eval": ("Eva", "Ben", "Kim", "Max", "Lena", "Noah"),
}
THINGS = {
    "train": ("kite", "hat", "lamp", "key", "book", "cup", "coin", "drum", "map", "ball"),
    "eval": ("bag", "clock", "box", "coat", "shoe", "letter"),
}
COLOURS = ("red", "blue", "green", "white", "black", "yellow", "brown", "pink")
PLACES = (
    "attic", "kitchen", "garden", "cellar", "hall", "barn", "shop", "tower", "school", "office", "boat", "shed",
)  # fmt: skip
PLACE, KEEPER, COLOUR = "place", "keeper", "colour"
KINDS = (PLACE, KEEPER, COLOUR)
QUESTIONS = {
    PLACE: "Where is the thing that {loser} lost?",
    KEEPER: "Who keeps the thing that {loser} lost?",
    COLOUR: "What colour is the thing that {loser} lost?",
}


@dataclass(frozen=True)
class Kept:
    """Who keeps what and where."""

    name: str
    colour: str
    thing: str
    place: str

    @property
    def sentence(self) -> str:
        """The fact in words."""
        return f"{self.name} keeps a {self.colour} {self.thing} in the {self.place}."

    def answer(self, kind: str) -> str:
        """The right answer to a question of this kind, a word."""
        return {PLACE: self.place, KEEPER: self.name, COLOUR: self.colour}[kind]


def question(kind: str, loser: str, kept: Sequence[Kept], lost: Kept, draws: np.random.Generator) -> dict[str, Any]:
    """A row, without its id, whose paragraphs stand in a drawn order; the first fact of its support names the thing."""
    texts = [(loser, f"{loser} lost the {lost.thing}."), *((each.name, each.sentence) for each in kept)]
    order = [int(place) for place in draws.permutation(len(texts))]
    return {
        "question": QUESTIONS[kind].format(loser=loser),
        "answers": [lost.answer(kind)],
        "paragraphs": [{"title": texts[place][0], "sentences": [texts[place][1]]} for place in order],
        "support": [[order.index(0), None], [order.index(1 + kept.index(lost)), None]],
        "kind": kind,
        "scorer": "musique",
    }


@functools.cache
def lost_things(split: str) -> tuple[dict[str, Any], ...]:
    """The rows of a split, each other than all before it."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    draws = rng("qa demo", "lost things", split)
    while len(rows) < COUNTS[split]:
        loser, *keepers = _some(NAMES[split], KEEPERS + 1, draws)
        parts = (_some(words, KEEPERS, draws) for words in (COLOURS, THINGS[split], PLACES))
        kept = [Kept(*each) for each in zip(keepers, *parts, strict=True)]
        row = question(KINDS[len(rows) % len(KINDS)], loser, kept, kept[0], draws)
        texts = tuple(sorted(paragraph["sentences"][0] for paragraph in row["paragraphs"]))
        rows.setdefault(texts, {"id": f"{loser.lower()}-{kept[0].thing}-{len(rows)}", **row})
    return tuple(rows.values())


def _some(words: Sequence[str], count: int, draws: np.random.Generator) -> list[str]:
    return [words[int(place)] for place in draws.permutation(len(words))[:count]]


def chance_alone(row: Mapping[str, Any], texts: Collection[str], split: str) -> float:
    """The chance of answering exactly right, at best, for a reader who knows some of a row's facts and hears nothing.

    Who knows what was lost, but not who keeps it, can only rule out what the others keep. Who does not know what was
    lost, and was dealt its keeper, can only guess among the keepers in hand. The bound holds for forced deals.

    Args:
        row: Of ``lost_things(split)``.
        texts: The sentences that the reader holds.
        split: ``"train"`` or ``"eval"``.
    """
    sentences = [paragraph["sentences"][0] for paragraph in row["paragraphs"]]
    clue, gold = (sentences[place] for place, _ in row["support"])
    kept = [text for text in texts if text != clue]
    if gold in kept:
        return 1.0 if clue in texts else 1 / len(kept)
    values: Sequence[str] = {PLACE: PLACES, KEEPER: NAMES[split], COLOUR: COLOURS}[row["kind"]]
    loser = 1 if row["kind"] == KEEPER else 0
    return 1 / (len(values) - len(kept) - loser)
