"""Where a debate stands: who holds and said what, which answers are right, and what most say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from comlrl_envs.qa import reasoning
from comlrl_envs.qa.answers import NOTHING, AnswerScore
from comlrl_envs.qa.documents import Document, Facts
from comlrl_envs.qa.team_question import Asked, answer_score
from comlrl_envs.qa.vote import canonical, most_said
from comlrl_envs.scenario import State


@dataclass(frozen=True)
class Moves(State):
    """How answers went from turn to turn, over all solvers and turns.

    Attributes:
        right: Answers that were right before a turn.
        lost: Of these, those that were wrong after it.
        wrong: Answers that were wrong before a turn.
        found: Of these, those that were right after it.
        changed: Answers that a turn changed.
        followed: Of these, those that became what most had said.
    """

    right: int = 0
    lost: int = 0
    wrong: int = 0
    found: int = 0
    changed: int = 0
    followed: int = 0


@dataclass(frozen=True, kw_only=True)
class Discussion(Asked):
    """A question, who holds which documents, and what was said.

    Attributes:
        hands: By agent its documents.
        support: What the answer rests on, of documents that are dealt.
        knower: The one solver who knows the answer first, where the oracle plays.
        entry: What the scorer of a task of reasoning-gym needs, as JSON text; "" for others.
        private: By agent whether its last reply is kept from the others.
        first: By agent its answer in the first turn.
        moves: How answers went since.
    """

    hands: tuple[tuple[Document, ...], ...]
    support: Facts
    knower: int
    entry: str = ""
    private: tuple[bool, ...] = ()
    first: tuple[str | None, ...] = ()
    moves: Moves = Moves()

    @property
    def standing(self) -> tuple[str | None, ...]:
        """By agent the last answer that it gave."""
        return tuple(voice.answer for voice in self.voices)


def grade(state: Discussion, answer: str | None) -> AnswerScore:
    """The score of an answer; no answer is worth nothing."""
    if state.entry:
        return reasoning.score(answer, state.entry) if answer else NOTHING
    return answer_score(state, answer)


def form(state: Discussion, answer: str | None) -> str:
    """The form in which answers are compared; "" for none."""
    if state.entry and answer and grade(state, answer).em == 1.0:
        # A scorer may take several texts for right, which speak for one answer then.
        return canonical(state.answers[0], state.scorer)
    return canonical(answer, state.scorer)


def vote_accuracy(state: Discussion, answers: Sequence[str | None]) -> float:
    """Share of right ones among the answers with the most votes; groups in a tie are of one size."""
    forms = [form(state, answer) for answer in answers]
    most = most_said(forms)
    return fmean(grade(state, answer).em for answer, each in zip(answers, forms, strict=True) if each in most)


def moved(before: Discussion, after: Discussion) -> Moves:
    """The moves up to now, with those of the last turn."""
    most = most_said([form(before, answer) for answer in before.standing])
    counts = Counter(vars(before.moves))
    for old, new in zip(before.standing, after.standing, strict=True):
        was, now = grade(before, old).em == 1.0, grade(after, new).em == 1.0
        changed = form(before, old) != form(after, new)
        counts["right" if was else "wrong"] += 1
        counts["lost" if was else "found"] += was != now
        counts["changed"] += changed
        counts["followed"] += changed and form(after, new) in most
    return Moves(**counts)
