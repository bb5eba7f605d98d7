"""Paragraphs as agents are shown them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from comlrl_envs.qa.answers import squad_v1
from comlrl_envs.qa.records import Paragraph
from comlrl_envs.qa.tags import shown
from comlrl_envs.scenario import State

Facts = tuple[tuple[int, "int | None"], ...]
"""Documents by number, and of each a sentence, or None for the whole."""


@dataclass(frozen=True)
class Document(State):
    """A paragraph under a number that says nothing of its place in the record.

    Attributes:
        number: It is shown as ``D`` and this number.
        title: May be "".
        sentences: In order.
    """

    number: int
    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """All sentences."""
        return Paragraph(self.title, self.sentences).text

    def page(self) -> str:
        """Number, title, and the sentences, numbered if there are several."""
        pieces = [sentence.strip() for sentence in self.sentences]
        numbered = [f"({place}) {piece}" for place, piece in enumerate(pieces)] if len(pieces) > 1 else pieces
        head = f"[D{self.number}] {self.title}" if self.title else f"[D{self.number}]"
        return "\n".join([head, *([" ".join(numbered)] if pieces else [])])


def document(number: int, paragraph: Paragraph) -> Document:
    """A paragraph under a number."""
    return Document(number, paragraph.title, paragraph.sentences)


def quoted(documents: Sequence[Document], facts: Facts, chars: int) -> tuple[str, Facts]:
    """The message that passes on what documents say of some facts.

    Args:
        documents: Those that the speaker holds.
        facts: What matters.
        chars: Most characters of a message.

    Returns:
        The text as teammates will be shown it, and the facts of these documents.
    """
    own = {each.number: each for each in documents}
    held = tuple((number, sentence) for number, sentence in facts if number in own)
    texts = [own[number].text if sentence is None else own[number].sentences[sentence] for number, sentence in held]
    return shown(" ".join(texts))[:chars].strip(), held


def passed_on(text: str, message: str) -> bool:
    """Whether a message tells what a text tells: half of its words."""
    return squad_v1(message, [text]).recall >= 0.5


def cited(facts: Facts) -> str:
    """Facts as evidence is written.

    >>> cited(((3, 0), (7, None)))
    'D3:0; D7'
    """
    return "; ".join(f"D{number}" if sentence is None else f"D{number}:{sentence}" for number, sentence in facts)
