"""Who gets to read which paragraphs.

``"forced"`` deals the supporting paragraphs one by one round the team, so that nobody holds all of them; ``"random"``
deals all alike; ``"full"`` gives everybody everything, which is what one agent alone would have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comlrl_envs.qa.records import QARecord

DEALS = ("forced", "random", "full")
Hands = tuple[tuple[int, ...], ...]
"""By agent the places of its paragraphs, in the order in which they are shown."""


def deal(record: QARecord, agents: int, how: str, rng: np.random.Generator, least: int = 2) -> Hands:
    """A deal of a record's paragraphs.

    Args:
        record: With at least ``least`` supporting paragraphs, for a forced deal.
        agents: How many.
        how: One of ``DEALS``.
        rng: Source of chance.
        least: How many supporting paragraphs a forced deal asks for.

    Raises:
        ValueError: A forced deal of a record that one agent could answer.
    """
    everything = list(range(len(record.paragraphs)))
    if how == "full":
        return tuple(tuple(_shuffled(everything, rng)) for _ in range(agents))
    first = _shuffled(record.supporting, rng) if how == "forced" else []
    if how == "forced" and len(first) < least:
        raise ValueError(f"{len(first)} of its paragraphs support the answer; a forced deal takes two or more")
    begin = int(rng.integers(agents))
    hands: list[list[int]] = [[] for _ in range(agents)]
    for turn, place in enumerate(first):
        hands[(begin + turn) % agents].append(place)
    for place in _shuffled([place for place in everything if place not in set(first)], rng):
        min(hands, key=len).append(place)
    return tuple(tuple(_shuffled(hand, rng)) for hand in hands)


def labels(record: QARecord, rng: np.random.Generator) -> tuple[int, ...]:
    """By paragraph the number that it is shown under, from 1: one that says nothing of its place in the record."""
    return tuple(int(number) + 1 for number in rng.permutation(len(record.paragraphs)))


def _shuffled(places: Sequence[int], rng: np.random.Generator) -> list[int]:
    return [places[int(place)] for place in rng.permutation(len(places))]
