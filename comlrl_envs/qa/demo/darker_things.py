"""Questions about the darker of two things: each of two facts tells of one, so neither is enough.

``Who keeps the darker thing?`` "Mira keeps a pink kite in the hall." and "Tom keeps a blue hat in the barn." answer it
together. The splits share no name and no thing, so no text either.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from comlrl_envs.qa.demo.facts import COLOUR, COLOURS, COUNTS, KEEPER, NAMES, PLACES, THINGS, Kept, some
from comlrl_envs.seeding import rng

DARKNESS: Mapping[str, int] = {
    "white": 0, "yellow": 1, "pink": 2, "red": 3, "green": 3, "brown": 4, "blue": 4, "black": 5,
}  # fmt: skip
"""Steps from light to dark; colours of one step are not compared."""
QUESTIONS = {KEEPER: "Who keeps the darker thing?", COLOUR: "What colour is the darker thing?"}
KINDS = tuple(QUESTIONS)


@functools.cache
def darker_things(split: str) -> tuple[dict[str, Any], ...]:
    """The rows of a split, each other than all before it."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    draws = rng("qa demo", "darker things", split)
    while len(rows) < COUNTS[split]:
        parts = (some(words, 2, draws) for words in (NAMES[split], COLOURS, THINGS[split], PLACES))
        one, other = (Kept(*each) for each in zip(*parts, strict=True))
        if DARKNESS[one.colour] != DARKNESS[other.colour]:
            texts = (one.sentence, other.sentence)
            rows.setdefault(texts, _row(KINDS[len(rows) % len(KINDS)], one, other, len(rows)))
    return tuple(rows.values())


def _row(kind: str, one: Kept, other: Kept, number: int) -> dict[str, Any]:
    darker = max(one, other, key=lambda kept: DARKNESS[kept.colour])
    return {
        "id": f"{one.name}-{other.name}-{number}".lower(),
        "question": QUESTIONS[kind],
        "answers": [darker.answer(kind)],
        "paragraphs": [{"title": each.name, "sentences": [each.sentence]} for each in (one, other)],
        "support": [[0, None], [1, None]],
        "kind": kind,
        "scorer": "squad_v1",
    }


def chance_alone(row: Mapping[str, Any], text: str, split: str) -> float:
    """The chance of answering exactly right, at best, for a reader who knows one of the two facts and hears nothing.

    The other colour may be any of another step, the other name any other one.

    Args:
        row: Of ``darker_things(split)``.
        text: The sentence that the reader holds.
        split: ``"train"`` or ``"eval"``.
    """
    own = DARKNESS[text.split()[3]]
    others = [step for step in DARKNESS.values() if step != own]
    darker = sum(step > own for step in others) / len(others)
    # Whoever bets on the other fact has to guess its word: any other name, or one of the darker colours.
    guess = darker / (len(NAMES[split]) - 1) if row["kind"] == KEEPER else (darker > 0) / len(others)
    return max(1 - darker, guess)
