"""One form for the records of all question-answering sets.

A record is a question with its gold answers, the paragraphs that it comes with, and which of them support the answer.
As a row it is made of JSON values only; ``from_row`` checks one.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Support: TypeAlias = tuple[int, "int | None"]
"""A paragraph's place, and a sentence's place in it; None for the whole paragraph."""

OWN_FIELDS = frozenset(
    {"id", "question", "answers", "answer", "paragraphs", "support", "kind", "answerable", "steps", "scorer"}
)
"""Fields of rows by hand: those that ``from_row`` reads, and the name of the scorer."""


@dataclass(frozen=True)
class Paragraph:
    """A piece of text that agents may be shown.

    Attributes:
        title: Not unique: in MuSiQue a third of the records repeat one.
        sentences: In order, as the set has them; a set without sentences has one a paragraph.
    """

    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """All sentences; those of HotpotQA bring their own spaces along."""
        pieces = (piece if i == 0 or piece[:1].isspace() else f" {piece}" for i, piece in enumerate(self.sentences))
        return "".join(pieces).strip()


@dataclass(frozen=True)
class QARecord:
    """A question, its answers and where they stand.

    Attributes:
        id: Unique in its set.
        question: What is asked.
        answers: Gold answers, each of them right; () only if the question has no answer.
        paragraphs: What there is to read.
        support: What the answer rests on.
        kind: The set's own name for the type of question, or "".
        answerable: Whether the paragraphs hold the answer.
        steps: Gold questions that lead to the answer, where the set has them.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    paragraphs: tuple[Paragraph, ...] = ()
    support: tuple[Support, ...] = ()
    kind: str = ""
    answerable: bool = True
    steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that it can be asked and scored."""
        if not self.question.strip():
            raise ValueError("the question is empty")
        if self.answerable and not self.answers:
            raise ValueError("there is no gold answer; give one, or 'answerable': false")
        if not all(answer.strip() for answer in self.answers):
            raise ValueError("a gold answer is empty; leave it out")
        for paragraph, sentence in self.support:
            if not 0 <= paragraph < len(self.paragraphs):
                raise ValueError(f"support names paragraph {paragraph}; there are {len(self.paragraphs)}, from 0")
            known = len(self.paragraphs[paragraph].sentences)
            if sentence is not None and not 0 <= sentence < known:
                raise ValueError(f"support names sentence {sentence} of paragraph {paragraph}; it has {known}, from 0")

    @property
    def supporting(self) -> tuple[int, ...]:
        """Places of the paragraphs that hold support, in order."""
        return tuple(sorted({paragraph for paragraph, _ in self.support}))

    def without(self, place: int) -> QARecord:
        """The record without one of its paragraphs, and without what this one supports."""
        kept = tuple(each for each in range(len(self.paragraphs)) if each != place)
        support = tuple((kept.index(paragraph), fact) for paragraph, fact in self.support if paragraph != place)
        return replace(self, paragraphs=tuple(self.paragraphs[each] for each in kept), support=support)

    def row(self) -> dict[str, Any]:
        """The record as JSON values."""
        return {
            "id": self.id,
            "question": self.question,
            "answers": list(self.answers),
            "paragraphs": [{"title": each.title, "sentences": list(each.sentences)} for each in self.paragraphs],
            "support": [list(fact) for fact in self.support],
            "kind": self.kind,
            "answerable": self.answerable,
            "steps": list(self.steps),
        }


def from_row(row: Mapping[str, Any]) -> QARecord:
    """The record of a row that ``QARecord.row`` made, or that somebody wrote by hand.

    Args:
        row: ``question`` and ``answers`` (or one ``answer``), and if there are any ``paragraphs`` (texts, or mappings
            with ``title`` and ``text`` or ``sentences``), ``support`` (places, or pairs), ``kind``, ``answerable`` and
            ``steps``.

    Raises:
        KeyError: A field is missing.
        TypeError: A field is of another type.
        ValueError: It cannot be asked or scored.
    """
    answers = row["answers"] if "answers" in row else [row["answer"]]
    return QARecord(
        id=as_name(row.get("id")),
        question=as_text("question", row["question"]),
        answers=tuple(as_text("an answer", each) for each in as_list("answers", answers)),
        paragraphs=tuple(_paragraph(each) for each in as_list("paragraphs", row.get("paragraphs", ()))),
        support=tuple(_fact(each) for each in as_list("support", row.get("support", ()))),
        kind=as_text("kind", row.get("kind", "")),
        answerable=as_boolean("answerable", row.get("answerable", True)),
        steps=tuple(as_text("a step", each) for each in as_list("steps", row.get("steps", ()))),
    )


def _paragraph(given: Any) -> Paragraph:
    if isinstance(given, str):
        return Paragraph("", (given,))
    if not isinstance(given, Mapping):
        raise TypeError(
            f"a paragraph is a {type(given).__name__}; expected a text, or a mapping with 'title' and 'text'"
        )
    pieces = given["sentences"] if "sentences" in given else [given["text"]]
    title = as_text("title", given.get("title", ""))
    return Paragraph(title, tuple(as_text("a sentence", each) for each in as_list("sentences", pieces)))


def _fact(given: Any) -> Support:
    if not isinstance(given, list | tuple):
        return as_place("a paragraph's place in support", given), None
    if len(given) != 2:
        raise TypeError(f"support holds a list of {len(given)}; expected a paragraph's place, or it and a sentence's")
    paragraph, sentence = given
    place = as_place("a paragraph's place in support", paragraph)
    return place, None if sentence is None else as_place("a sentence's place in support", sentence)


def as_name(value: Any) -> str:
    """An id as text, "" for none; raises ``TypeError`` unless it is a text or an integer."""
    if value is None or isinstance(value, str):
        return value or ""
    return str(as_place("the id", value))


def as_place(name: str, value: Any) -> int:
    """An integer; raises ``TypeError`` that names the value."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is a {type(value).__name__}; expected an integer")
    return operator.index(value)


def as_text(name: str, value: Any) -> str:
    """A text; raises ``TypeError`` that names the value."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a {type(value).__name__}; expected a str")
    return value


def as_boolean(name: str, value: Any) -> bool:
    """A truth value; raises ``TypeError`` that names the value."""
    if not isinstance(value, bool):
        raise TypeError(f"{name!r} is a {type(value).__name__}; expected true or false")
    return value


def as_list(name: str, value: Any) -> Sequence[Any]:
    """A list; raises ``TypeError`` that names the value: a text is no list of its letters."""
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name!r} is a {type(value).__name__}; expected a list")
    return value
