"""All scorers by name; every one is a function of a prediction and the gold answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from comlrl_envs.qa import normalize
from comlrl_envs.qa.answers import NOTHING, AnswerScore, hotpotqa, musique, squad_v1, squad_v2, triviaqa, twowiki
from comlrl_envs.qa.drop import drop
from comlrl_envs.qa.numbers import extract_number, numbers_equal

Scorer: TypeAlias = Callable[[str, Sequence[str]], AnswerScore]

RIGHT = AnswerScore(1.0, 1.0, 1.0, 1.0)
_POLARITY = {"yes": "yes", "true": "yes", "correct": "yes", "no": "no", "false": "no", "incorrect": "no"}
_LETTER = re.compile(r"\(?\s*([A-Za-z])\s*[).:]?")


def gsm8k(prediction: str, golds: Sequence[str]) -> AnswerScore:
    """Whether the number that an answer gives equals the gold one; see ``numbers.extract_number``."""
    own = extract_number(prediction)
    wanted = [number for gold in golds if (number := extract_number(gold)) is not None]
    return RIGHT if own is not None and any(numbers_equal(own, number) for number in wanted) else NOTHING


def yesno(prediction: str, golds: Sequence[str]) -> AnswerScore:
    """Whether an answer is yes or no, as the gold one; true, correct, false and incorrect count too.

    Only the whole answer is read: "no" stands in "know", and "no, yes" says nothing.
    """
    own = polarity(prediction)
    return RIGHT if own and own in map(polarity, golds) else NOTHING


def polarity(text: str) -> str:
    """``"yes"``, ``"no"``, or ``""`` if a text is neither.

    >>> polarity("Yes."), polarity("I know")
    ('yes', '')
    """
    return _POLARITY.get(normalize.squad(text), "")


def choice(prediction: str, golds: Sequence[str]) -> AnswerScore:
    """Whether an answer is the gold letter: ``B``, ``b``, ``(B)``, ``B.`` or ``B)``, and nothing beside it."""
    own = letter(prediction)
    return RIGHT if own and own in map(letter, golds) else NOTHING


def letter(text: str) -> str:
    """The letter, in upper case, that is all a text holds, or ``""``.

    >>> letter(" (b) "), letter("B or C")
    ('B', '')
    """
    found = _LETTER.fullmatch(text.strip())
    return found.group(1).upper() if found else ""


SCORERS: Mapping[str, Scorer] = {
    "squad_v1": squad_v1,
    "squad_v2": squad_v2,
    "hotpotqa": hotpotqa,
    "twowiki": twowiki,
    "musique": musique,
    "triviaqa": triviaqa,
    "drop": drop,
    "gsm8k": gsm8k,
    "yesno": yesno,
    "choice": choice,
}
"""By the name of the set whose rule they are."""
