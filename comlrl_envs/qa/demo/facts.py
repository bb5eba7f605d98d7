"""The words of invented facts, and what a fact says: who keeps what, in which colour and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

COUNTS = {"train": 64, "eval": 32}
"""Rows of a split."""
NAMES = {
    "train": ("Mira", "Tom", "Anna", "Leo", "Nina", "Omar", "Ida", "Sam"),
    "eval": ("Rosa", "Paul", "Eva", "Ben", "Kim", "Max", "Lena", "Noah"),
}
THINGS = {
    "train": ("kite", "hat", "lamp", "key", "book", "cup", "coin", "drum"),
    "eval": ("map", "ball", "bag", "clock", "box", "coat", "shoe", "letter"),
}
COLOURS = ("white", "yellow", "pink", "red", "green", "brown", "blue", "black")
PLACES = (
    "attic", "kitchen", "garden", "cellar", "hall", "barn", "shop", "tower", "school", "office", "boat", "shed",
)  # fmt: skip
PLACE, KEEPER, COLOUR = "place", "keeper", "colour"
KINDS = (PLACE, KEEPER, COLOUR)
"""What may be asked of a fact."""


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


def some(words: Sequence[str], count: int, draws: np.random.Generator) -> list[str]:
    """So many of the words, each at most once, in a drawn order."""
    return [words[int(place)] for place in draws.permutation(len(words))[:count]]
