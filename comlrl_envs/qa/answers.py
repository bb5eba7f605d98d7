"""The official scores of an answer text: exact match, and overlap of words.

Each function takes a prediction and all gold answers, of which there is at least one, and gives the best score over
them, each number by itself. They agree with the official scripts to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass

from comlrl_envs.qa import normalize

YES_NO = frozenset({"yes", "no", "noanswer"})


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """Scores of one answer, each in [0, 1].

    Attributes:
        em: Whether it is a gold answer, after normalising: 1.0 or 0.0.
        f1: Harmonic mean of precision and recall.
        precision: Share of its words that the gold answer has.
        recall: Share of the gold answer's words that it has.
    """

    em: float
    f1: float
    precision: float
    recall: float


NOTHING = AnswerScore(0.0, 0.0, 0.0, 0.0)


def squad_v1(prediction: str, golds: Sequence[str]) -> AnswerScore:
    """SQuAD 1.1: F1 is 0 where no word is shared, also if both sides are empty."""
    return _best(prediction, golds, normalize.squad, _overlap)


def squad_v2(prediction: str, golds: Sequence[str]) -> AnswerScore:
    """SQuAD 2.0: gold answers that normalise to nothing do not count; without any, only an empty answer is right."""
    kept = [gold for gold in golds if normalize.squad(gold)]
    return _best(prediction, kept or [""], normalize.squad, _overlap_or_both_empty)


def musique(prediction: str, golds: Sequence[str]) -> AnswerScore:
    """MuSiQue's answer score: as SQuAD 2.0, but every gold answer counts."""
    return _best(prediction, golds, normalize.squad, _overlap_or_both_empty)


def hotpotqa(prediction: str, golds: Sequence[str]) -> AnswerScore:
    """HotpotQA: yes, no and noanswer share words with nothing else. It has one gold answer; further ones are not read.

    Yang et al., "HotpotQA" (2018), evaluation script.
    """
    return _best(prediction, golds[:1], normalize.squad, _overlap_or_closed)


def twowiki(prediction: str, golds: Sequence[str]) -> AnswerScore:
    """2WikiMultihopQA: HotpotQA's rule over all aliases; precision and recall may come from different ones."""
    return _best(prediction, golds, normalize.squad, _overlap_or_closed)


def triviaqa(prediction: str, golds: Sequence[str]) -> AnswerScore:
    """TriviaQA: SQuAD 1.1 with a normal form of its own."""
    return _best(prediction, golds, normalize.triviaqa, _overlap)


def _best(
    prediction: str, golds: Sequence[str], form: Callable[[str], str], overlap: Callable[[str, str], AnswerScore]
) -> AnswerScore:
    if not golds:
        raise ValueError("there is no gold answer; give at least one")
    own = form(prediction)
    scores = [astuple(overlap(own, form(gold))) for gold in golds]
    return AnswerScore(*map(max, zip(*scores, strict=True)))


def _overlap(own: str, gold: str) -> AnswerScore:
    em = float(own == gold)
    words, wanted = own.split(), gold.split()
    same = (Counter(words) & Counter(wanted)).total()
    if same == 0:
        return AnswerScore(em, 0.0, 0.0, 0.0)
    precision, recall = same / len(words), same / len(wanted)
    return AnswerScore(em, harmonic(precision, recall), precision, recall)


def _overlap_or_both_empty(own: str, gold: str) -> AnswerScore:
    if own and gold:
        return _overlap(own, gold)
    equal = float(own == gold)
    return AnswerScore(equal, equal, equal, equal)


def _overlap_or_closed(own: str, gold: str) -> AnswerScore:
    return NOTHING if own != gold and YES_NO & {own, gold} else _overlap(own, gold)


def harmonic(precision: float, recall: float) -> float:
    """The F1 of a precision and a recall; 0 if both are."""
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
