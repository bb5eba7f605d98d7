r"""Numbers in answers: GSM8K's own rule, and one that reads the ways in which models write a number.

The own rule takes ``#### N`` alone and compares texts, so that "42.0" is not "42". The other one finds the number first
at the first ``####``, then in the last ``\boxed{...}``, then after the last "answer is", and else takes the last one;
thousands commas, a dollar sign, a unit and a percent sign do not matter, and values are compared, not texts.
"""

from __future__ import annotations

import functools
import re
from collections import deque
from decimal import Decimal

INVALID = "[invalid]"
"""What the official rule extracts where it finds nothing."""
TOLERANCE = Decimal("1e-6")
MOST_SIGNS = 300
"""Characters of a number; what is longer is none."""

_OFFICIAL = re.compile(r"#### (\-?[0-9\.\,]+)")
# A number begins and ends with a digit, so that a comma of the sentence is no part of it; a fraction, a power of ten
# and the digits of a word are none.
_NUMBER = r"(?<![\w.,/^])(?<!/\s)(?:[-+]\$?|\$[-+]?)?\d(?:[\d,]*\d)?(?:\.\d+)?(?!\.?\d|,\d|\s?/\s?\d|[eE][-+]?\d|\^)"
_NUMBERS = re.compile(_NUMBER, re.ASCII)
_MARKED = re.compile(rf"####\s{{0,8}}(?={_NUMBER})", re.ASCII)
_SAID = re.compile(
    rf"\banswer(?:\s{{1,8}}is)?\s{{0,8}}[:=]?\s{{0,8}}[*\\(]{{0,8}}(?={_NUMBER})", re.ASCII | re.IGNORECASE
)
_BOXED = "\\boxed{"
_BRACES = re.compile("[{}]")


def official_extract(text: str) -> str:
    """What GSM8K's rule reads: the first ``#### N`` without commas, or ``INVALID``; ASCII digits only.

    Cobbe et al., "Training Verifiers to Solve Math Word Problems" (2021), dataset script.
    """
    found = _OFFICIAL.search(text)
    return INVALID if found is None else found.group(1).strip().replace(",", "")


def official_correct(completion: str, gold: str) -> bool:
    """Whether GSM8K's rule reads the same text in a completion and in a gold solution."""
    wanted = official_extract(gold)
    return wanted != INVALID and official_extract(completion) == wanted


@functools.lru_cache(maxsize=256)
def extract_number(text: str) -> Decimal | None:
    """The number that a text gives as its answer, or None; see the module for the order in which it is looked for.

    >>> extract_number("That makes 1,200 clips, altogether.")
    Decimal('1200')
    >>> extract_number("half of 18 is 9, so the answer is $9.50.")
    Decimal('9.50')
    >>> extract_number("3/4") is None
    True
    """
    if marked := _MARKED.search(text):
        return _first(text, marked.end())
    boxed = _last_box(text)
    if boxed is not None:
        return _first(boxed, 0)
    if said := _last(_SAID, text):
        return _first(text, said.end())
    last = _last(_NUMBERS, text)
    return None if last is None else _value(last.group())


def numbers_equal(one: Decimal, other: Decimal) -> bool:
    """Whether two numbers differ by at most ``TOLERANCE``."""
    return abs(one - other) <= TOLERANCE


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)


def _first(text: str, start: int) -> Decimal | None:
    found = _NUMBERS.search(text, start)
    return None if found is None else _value(found.group())


def _value(number: str) -> Decimal | None:
    return None if len(number) > MOST_SIGNS else Decimal(number.replace(",", "").replace("$", "").replace("+", ""))


def _last_box(text: str) -> str | None:
    """What stands in the last boxed braces, to their partner or the end of the text."""
    start = text.rfind(_BOXED)
    if start < 0:
        return None
    start += len(_BOXED)
    depth = 1
    for brace in _BRACES.finditer(text, start):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return text[start : brace.start()]
    return text[start:]
