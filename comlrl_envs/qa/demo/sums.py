"""Small sums: plain ones, in words, as yes or no, and with three choices; all numbers are at most 20.

No two rows are about the same numbers, so the splits share no text either; names and things differ too.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from comlrl_envs.qa.demo.facts import COUNTS
from comlrl_envs.seeding import rng

TOP = 20
NAMES = {
    "train": ("Mira", "Tom", "Anna", "Leo", "Nina", "Omar", "Ida", "Sam"),
    "eval": ("Eva", "Ben", "Kim", "Max"),
}
THINGS = {
    "train": ("kites", "hats", "lamps", "cups", "coins", "drums", "maps", "plums"),
    "eval": ("bags", "clocks", "shoes", "seeds"),
}
PLAIN = ("What is {sum}?", "Work out {sum}.")
STORIES = {
    "+": (
        "{name} has {a} {things} and gets {b} more. How many {things} does {name} have?",
        "There are {a} {things} here and {b} {things} there. How many {things} are there?",
    ),
    "-": (
        "{name} has {a} {things} and gives {b} away. How many {things} does {name} keep?",
        "Of {a} {things}, {b} are sold. How many {things} are left?",
    ),
}
SUM, STORY, YES_NO, CHOICE = "sum", "story", "yes or no", "choice"
KINDS = (SUM, STORY, SUM, STORY, SUM, STORY, SUM, YES_NO, SUM, STORY, SUM, STORY, SUM, STORY, SUM, CHOICE)
"""Of each sixteen rows."""


@dataclass(frozen=True)
class Sum:
    """``a + b`` or ``a - b``."""

    a: int
    sign: str
    b: int

    @property
    def value(self) -> int:
        """What it makes."""
        return self.a + self.b if self.sign == "+" else self.a - self.b

    def __str__(self) -> str:
        return f"{self.a} {self.sign} {self.b}"


def all_sums() -> list[Sum]:
    """Those with numbers from 2 to ``TOP``, which take a plural; a difference is at least 1."""
    sums = [Sum(a, "+", b) for a in range(2, TOP) for b in range(2, TOP - a + 1)]
    return sums + [Sum(a, "-", b) for a in range(3, TOP + 1) for b in range(2, a)]


@functools.cache
def sums(split: str) -> tuple[dict[str, Any], ...]:
    """The rows of a split."""
    everything = all_sums()
    order = [everything[int(place)] for place in rng("qa demo", "sums").permutation(len(everything))]
    begin = 0 if split == "train" else COUNTS["train"]
    draws = rng("qa demo", "sums", split)
    chosen = order[begin : begin + COUNTS[split]]
    return tuple(_row(KINDS[place % len(KINDS)], each, split, draws) for place, each in enumerate(chosen))


def _row(kind: str, one: Sum, split: str, draws: np.random.Generator) -> dict[str, Any]:
    question, answer, scorer = {SUM: _plain, STORY: _story, YES_NO: _yes_no, CHOICE: _choice}[kind](one, split, draws)
    name = f"{one.a}-{'plus' if one.sign == '+' else 'minus'}-{one.b}"
    return {"id": name, "question": question, "answers": [answer], "kind": kind, "scorer": scorer}


def _plain(one: Sum, split: str, draws: np.random.Generator) -> tuple[str, str, str]:
    return _pick(PLAIN, draws).format(sum=one), str(one.value), "gsm8k"


def _story(one: Sum, split: str, draws: np.random.Generator) -> tuple[str, str, str]:
    name, things = _pick(NAMES[split], draws), _pick(THINGS[split], draws)
    return _pick(STORIES[one.sign], draws).format(name=name, things=things, a=one.a, b=one.b), str(one.value), "gsm8k"


def _yes_no(one: Sum, split: str, draws: np.random.Generator) -> tuple[str, str, str]:
    said = _pick((one.value, _wrong(one, draws)[0]), draws)
    return f"Is {one} equal to {said}?", "yes" if said == one.value else "no", "yesno"


def _choice(one: Sum, split: str, draws: np.random.Generator) -> tuple[str, str, str]:
    values = sorted((one.value, *_wrong(one, draws)))
    offered = ", ".join(f"{letter}: {value}" for letter, value in zip("ABC", values, strict=True))
    return f"Which is {one}? {offered}.", "ABC"[values.index(one.value)], "choice"


def _wrong(one: Sum, draws: np.random.Generator) -> list[int]:
    """Two other values near the right one."""
    near = [one.value + step for step in (-2, -1, 1, 2) if 0 <= one.value + step <= TOP]
    return [near[int(place)] for place in draws.permutation(len(near))[:2]]


def _pick(options: Sequence[Any], draws: np.random.Generator) -> Any:
    return options[int(draws.integers(len(options)))]
