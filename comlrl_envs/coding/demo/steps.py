"""What the demo programs are made of: steps in words and in Python, values to try them on, names to give them.

The words keep to a small vocabulary, so that a very small model can find out what a passing reply looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

NUMBER, LIST, TEXT, COUNTS, TRUTH, FRACTION = "number", "list", "text", "counts", "truth", "fraction"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Step:
    """Something to do with an argument; ``{x}`` stands for it, ``{k}`` for a number, ``{part}`` for what came before.

    Attributes:
        takes: Kind of the argument.
        gives: Kind of the result.
        says: Words that follow "it".
        does: Python expression.
        aux: What a helper can do of it; empty for a step that follows another one.
        main: The rest, given the helper's ``{part}``.
    """

    takes: str
    gives: str
    says: str
    does: str
    aux: str = ""
    main: str = ""

    def numbers(self) -> Sequence[int]:
        """Values of ``{k}`` that give different steps."""
        return range(2, 10) if "{k}" in self.says else (0,)


ONE = (
    Step(NUMBER, NUMBER, "doubles {x}", "{x} * 2", "2", "{x} * {part}"),
    Step(NUMBER, NUMBER, "squares {x}", "{x} * {x}", "abs({x})", "{part} * {part}"),
    Step(NUMBER, NUMBER, "adds {k} to {x}", "{x} + {k}", "{k}", "{x} + {part}"),
    Step(NUMBER, NUMBER, "takes {k} from {x}", "{x} - {k}", "{k}", "{x} - {part}"),
    Step(NUMBER, NUMBER, "multiplies {x} by {k}", "{x} * {k}", "{k}", "{x} * {part}"),
    Step(LIST, NUMBER, "adds up the list {x}", "sum({x})", "sum({x}[1:])", "{x}[0] + {part}"),
    Step(LIST, NUMBER, "gives the largest item of {x}", "max({x})", "sorted({x})", "{part}[-1]"),
    Step(LIST, NUMBER, "gives the smallest item of {x}", "min({x})", "sorted({x})", "{part}[0]"),
    Step(LIST, NUMBER, "gives the length of {x}", "len({x})", "[1 for _ in {x}]", "sum({part})"),
    Step(LIST, NUMBER, "gives the first item of {x}", "{x}[0]", "{x}[:1]", "{part}[0]"),
    Step(LIST, NUMBER, "gives the last item of {x}", "{x}[-1]", "{x}[-1:]", "{part}[0]"),
    Step(LIST, LIST, "sorts the list {x}", "sorted({x})", "list({x})", "sorted({part})"),
    Step(TEXT, TEXT, "reverses the text {x}", "{x}[::-1]", "list({x})[::-1]", '"".join({part})'),
    Step(TEXT, TEXT, "puts the text {x} in upper case", "{x}.upper()", "[c.upper() for c in {x}]", '"".join({part})'),
    Step(TEXT, NUMBER, "gives the length of {x}", "len({x})", "list({x})", "len({part})"),
)
"""Steps that make a problem by themselves."""

THEN = (
    Step(NUMBER, NUMBER, "adds {k}", "{part} + {k}"),
    Step(NUMBER, NUMBER, "takes away {k}", "{part} - {k}"),
    Step(NUMBER, NUMBER, "multiplies by {k}", "{part} * {k}"),
    Step(LIST, NUMBER, "gives its length", "len({part})"),
    Step(LIST, LIST, "says it twice", "{part} * 2"),
    Step(TEXT, NUMBER, "gives its length", "len({part})"),
    Step(TEXT, TEXT, "says it twice", "{part} * 2"),
)
"""Steps that follow one of ``ONE``."""

AGAIN = tuple(zip((step for step in ONE if "{k}" in step.says), THEN[:3], strict=True))
"""Pairs in which helper and main do the same, one after the other."""

TWICE = (
    Step(NUMBER, NUMBER, "multiplies that by itself", "{part} * {part}"),
    Step(NUMBER, NUMBER, "multiplies that by itself plus {k}", "{part} * ({part} + {k})"),
    Step(LIST, LIST, "puts that in front of its own mirror image", "{part} + {part}[::-1]"),
    Step(LIST, NUMBER, "multiplies its sum by its length", "sum({part}) * len({part})"),
    Step(TEXT, TEXT, "puts that in front of its own mirror image", "{part} + {part}[::-1]"),
    Step(TEXT, TEXT, "puts its length behind it", "{part} + str(len({part}))"),
)
"""Steps that need what came before more than once: a helper saves main from doing the work twice."""

MORE = (
    Step(LIST, LIST, "keeps the even items of {x}", "[item for item in {x} if item % 2 == 0]"),
    Step(LIST, LIST, "keeps the items of {x} above {k}", "[item for item in {x} if item > {k}]"),
    Step(LIST, LIST, "squares each item of {x}", "[item * item for item in {x}]"),
    Step(LIST, COUNTS, "counts each item of {x}", "{{item: {x}.count(item) for item in {x}}}"),
    Step(TEXT, COUNTS, "counts each letter of {x}", "{{letter: {x}.count(letter) for letter in {x}}}"),
    Step(TEXT, TEXT, "keeps the vowels of {x}", '"".join(letter for letter in {x} if letter in "aeiou")'),
    Step(NUMBER, LIST, "takes {x} apart into its digits", "[int(digit) for digit in str({x})]"),
    Step(NUMBER, LIST, "finds the numbers that divide {x}", "[n for n in range(1, {x} + 1) if {x} % n == 0]"),
)
"""Steps that are worth a helper of their own."""

AFTER_MORE = (
    Step(LIST, NUMBER, "adds them up", "sum({part})"),
    Step(LIST, NUMBER, "says how many there are", "len({part})"),
    Step(LIST, LIST, "puts the largest first", "sorted({part}, reverse=True)"),
    Step(LIST, TRUTH, "says whether their sum is above {k}", "sum({part}) > {k}"),
    Step(LIST, FRACTION, "divides their sum by {k}", "sum({part}) / {k}"),
    Step(COUNTS, NUMBER, "gives the largest count", "max({part}.values())"),
    Step(COUNTS, NUMBER, "says how many are different", "len({part})"),
    Step(COUNTS, LIST, "sorts those that come more than once", "sorted(k for k in {part} if {part}[k] > 1)"),
    Step(TEXT, NUMBER, "says how many there are", "len({part})"),
    Step(TEXT, TRUTH, "says whether there are more than two", "len({part}) > 2"),
)
"""Steps that follow one of ``MORE``."""

VARIABLES = {
    NUMBER: ("x", "n", "a", "y", "z", "v"),
    LIST: ("items", "values", "row", "a"),
    TEXT: ("text", "s", "word", "y"),
}
WORDS = (
    "apple", "tree", "banana", "level", "green", "letter", "moon", "sea", "garden", "noon", "kayak", "summer", "book",
    "ocean", "tea", "coffee", "queue", "area", "pepper", "island",
)  # fmt: skip

TRAIN_NAMES = (
    "price", "cost", "rent", "wage", "score", "level", "width", "depth", "speed", "label", "title", "motto", "tower",
    "lamp", "coin", "bridge", "honey", "toll", "fee", "fine", "rate", "size", "weight", "power", "heat", "light",
    "river", "stone", "garden", "market", "ticket", "basket", "bottle", "button", "candle", "carpet", "circle",
    "corner", "dinner", "engine", "finger", "forest", "hammer", "island", "jacket", "kettle", "ladder", "letter",
    "mirror", "needle", "office", "orange", "packet", "pencil", "pepper", "pillow", "pocket", "ribbon", "rocket",
    "saddle", "sailor", "shadow", "signal", "spider",
)  # fmt: skip
EVAL_NAMES = (
    "fare", "bonus", "debt", "loan", "age", "height", "length", "volume", "grade", "rank", "mark", "slogan", "gate",
    "wheel", "drum", "tunnel", "sugar", "valley", "window", "winter", "wallet", "walnut", "velvet", "turtle", "temple",
    "stable", "spring", "planet", "parrot", "anchor", "badge", "cabin",
)  # fmt: skip
NAMES = {"train": TRAIN_NAMES, "eval": EVAL_NAMES}
"""Names of functions, classes and fields; no name of one split stands in the other."""


def shuffled(items: Sequence[_T], rng: np.random.Generator) -> list[_T]:
    """The items in an order of chance."""
    return [items[int(place)] for place in rng.permutation(len(items))]


def endless(items: Sequence[_T], rng: np.random.Generator) -> Iterator[_T]:
    """All items in an order of chance, and again in another one."""
    while True:
        yield from shuffled(items, rng)


def _number(rng: np.random.Generator) -> int:
    return int(rng.integers(0, 30))


def _list(rng: np.random.Generator) -> list[int]:
    return [int(item) for item in rng.integers(0, 15, size=int(rng.integers(1, 7)))]


def _text(rng: np.random.Generator) -> str:
    return WORDS[int(rng.integers(len(WORDS)))]


_VALUES: dict[str, Callable[[np.random.Generator], Any]] = {NUMBER: _number, LIST: _list, TEXT: _text}


def values(kind: str, count: int, rng: np.random.Generator) -> list[Any]:
    """``count`` different values of a kind: numbers 0 to 29, lists of 1 to 6 numbers, or words."""
    drawn: list[Any] = []
    while len(drawn) < count:
        value = _VALUES[kind](rng)
        if value not in drawn:
            drawn.append(value)
    return drawn
