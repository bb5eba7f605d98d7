"""The official scores of supporting facts, of an answer together with its support, and of whole sets.

A fact is a pair of a title and a sentence's place in HotpotQA and 2WikiMultihopQA, a paragraph's number in MuSiQue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from comlrl_envs.qa.answers import NOTHING, AnswerScore, harmonic, hotpotqa, musique

Fact: TypeAlias = tuple[str, int]


def hotpotqa_support(prediction: Iterable[Fact], gold: Iterable[Fact]) -> AnswerScore:
    """HotpotQA's support score: sets of facts, titles as they are written; nothing for nothing has an F1 of 0."""
    own, wanted = set(prediction), set(gold)
    return _counted(own, wanted)


def twowiki_support(prediction: Iterable[Fact], gold: Iterable[Fact]) -> AnswerScore:
    """2WikiMultihopQA's: titles in lower case, which facts that differ in case only survive as two."""
    own, wanted = ([(title.lower(), place) for title, place in set(facts)] for facts in (prediction, gold))
    return _counted(own, wanted)


def musique_support(prediction: Iterable[int | str], gold: Iterable[int | str]) -> AnswerScore:
    """MuSiQue's: sets of paragraph numbers; nothing for nothing is right."""
    own, wanted = ({int(number) for number in numbers} for numbers in (prediction, gold))
    return _counted(own, wanted) if own or wanted else AnswerScore(1.0, 1.0, 1.0, 1.0)


def _counted(own: Collection[object], gold: Collection[object]) -> AnswerScore:
    right = sum(each in gold for each in own)
    missed = sum(each not in own for each in gold)
    precision = right / len(own) if own else 0.0
    recall = right / (right + missed) if right + missed else 0.0
    em = float(right == len(own) and not missed)
    return AnswerScore(em, harmonic(precision, recall), precision, recall)


def joint(answer: AnswerScore, support: AnswerScore) -> AnswerScore:
    """Of an answer and its support together: products, and the F1 of these."""
    precision, recall = answer.precision * support.precision, answer.recall * support.recall
    return AnswerScore(answer.em * support.em, harmonic(precision, recall), precision, recall)


def hotpotqa_set(
    predictions: Sequence[tuple[str | None, Iterable[Fact] | None]], golds: Sequence[tuple[str, Iterable[Fact]]]
) -> dict[str, AnswerScore]:
    """HotpotQA's averages over a whole set.

    Args:
        predictions: An answer and its support for each question; None where there is none, which counts 0.
        golds: The same for each question.

    Returns:
        ``"answer"``, ``"support"`` and ``"joint"``; a question without an answer or without support has no joint score.
    """
    parts: dict[str, list[AnswerScore]] = {"answer": [], "support": [], "joint": []}
    for (answer, facts), (gold, wanted) in zip(predictions, golds, strict=True):
        answered = NOTHING if answer is None else hotpotqa(answer, [gold])
        supported = NOTHING if facts is None else hotpotqa_support(facts, wanted)
        parts["answer"].append(answered)
        parts["support"].append(supported)
        parts["joint"].append(NOTHING if answer is None or facts is None else joint(answered, supported))
    return {name: _averaged(scores) for name, scores in parts.items()}


def _averaged(scores: Sequence[AnswerScore]) -> AnswerScore:
    columns = ((score.em, score.f1, score.precision, score.recall) for score in scores)
    return AnswerScore(*(fmean(column) for column in zip(*columns, strict=True)))


@dataclass(frozen=True)
class Instance:
    """One of the two instances of a question of MuSiQue-Full, as predicted.

    Attributes:
        answerable: Whether its paragraphs hold the answer.
        said_answerable: Whether the prediction says so.
        answer: The predicted answer.
        support: The predicted supporting paragraphs.
    """

    answerable: bool
    said_answerable: bool
    answer: str
    support: tuple[int | str, ...]


def musique_group(instances: Sequence[Instance], golds: Sequence[str], support: Sequence[int]) -> Mapping[str, float]:
    """MuSiQue-Full's score of one question: its answer and support count if the answerability of both is right.

    Args:
        instances: The answerable instance and its contrast, in any order.
        golds: Answer and aliases.
        support: Supporting paragraphs of the answerable instance.

    Returns:
        ``answer_em``, ``answer_f1``, ``support_em``, ``support_f1`` and ``sufficiency``.
    """
    sufficient = float(all(each.answerable == each.said_answerable for each in instances))
    best = next(each for each in instances if each.answerable)
    answer, facts = musique(best.answer, golds), musique_support(best.support, support)
    return {
        "answer_em": sufficient * answer.em,
        "answer_f1": sufficient * answer.f1,
        "support_em": sufficient * facts.em,
        "support_f1": sufficient * facts.f1,
        "sufficiency": sufficient,
    }
