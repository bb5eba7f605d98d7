"""DROP's answer score: spans as sets of words, numbers that must agree, spans of both sides matched one to one.

Dua et al., "DROP" (2019), evaluation script. Its F1 is rounded to two digits as numpy does it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comlrl_envs.errors import MissingExtraError
from comlrl_envs.qa.answers import AnswerScore, harmonic
from comlrl_envs.qa.normalize import drop as normal_form
from comlrl_envs.qa.normalize import is_number


def drop(prediction: str, golds: Sequence[str]) -> AnswerScore:
    """The best score of one span over gold answers of one span each; precision and recall are not rounded."""
    if not golds:
        raise ValueError("there is no gold answer; give at least one")
    own = normal_form(prediction)
    scores = [_one_span(own, normal_form(gold)) for gold in golds]
    return AnswerScore(*map(max, zip(*scores, strict=True)))


def _one_span(own: str, gold: str) -> tuple[float, float, float, float]:
    """Exact match, F1, precision and recall of two normalised spans."""
    words, wanted = set(own.split()), set(gold.split())
    return float(own == gold), float(np.round(_f1(words, wanted), 2)), *_shares(words, wanted)


def drop_script(prediction: str, golds: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 as the whole script gives them: gold answers that are blank are not read."""
    scores = [spans([prediction], [gold]) for gold in golds if gold.strip()]
    return max((em for em, _ in scores), default=0.0), max((f1 for _, f1 in scores), default=0.0)


def spans(prediction: Sequence[str], gold: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 of an answer of several spans.

    Raises:
        MissingExtraError: Several spans on both sides, and no ``scipy``, which matches them.
    """
    own, wanted = ([normal_form(span) for span in each] for each in (prediction, gold))
    em = float(set(own) == set(wanted) and len(own) == len(wanted))
    table = np.array([[_f1(set(a.split()), set(b.split())) for a in own] for b in wanted]).reshape(len(gold), len(own))
    best = _matched(table) / max(table.shape)
    return em, float(np.round(best, 2))


def _matched(table: np.ndarray) -> float:
    """The largest sum of entries of which no two share a row or column."""
    if min(table.shape) == 1:
        return float(table.max())
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as missing:
        raise MissingExtraError("qa", "DROP's score of several spans") from missing
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum())


def _f1(own: set[str], gold: set[str]) -> float:
    numbers = set(filter(is_number, gold))
    if numbers and not numbers & own:
        return 0.0
    return harmonic(*_shares(own, gold))


def _shares(own: set[str], gold: set[str]) -> tuple[float, float]:
    same = len(own & gold)
    return same / len(own) if own else 1.0, same / len(gold) if gold else 1.0
