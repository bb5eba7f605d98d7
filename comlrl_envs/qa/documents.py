"""Paragraphs as agents are shown them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from comlrl_envs.qa.answers import squad_v1
from comlrl_envs.qa.normalize import squad
from comlrl_envs.qa.records import Paragraph
from comlrl_envs.scenario import State
from comlrl_envs.tagged_text import shown

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
    texts = fact_texts(documents, facts)
    return shown(" ".join(texts.values()))[:chars].strip(), tuple(texts)


def fact_texts(documents: Iterable[Document], facts: Facts) -> dict[tuple[int, int | None], str]:
    """What documents say of the facts that they hold, by fact."""
    own = {each.number: each for each in documents}
    held = ((fact, own[fact[0]]) for fact in facts if fact[0] in own)
    return {fact: each.text if fact[1] is None else each.sentences[fact[1]] for fact, each in held}


def says(text: str, forms: Iterable[str]) -> bool:
    """Whether one of some normalised answers stands in a text, as whole words.

    >>> says("In the U.S. they know.", ["us"]), says("They know.", ["no"])
    (True, False)
    """
    words = f" {squad(text)} "
    return any(f" {form} " in words for form in forms)


def passed_on(text: str, message: str) -> bool:
    """Whether a message tells what a text tells: half of its words."""
    return squad_v1(message, [text]).recall >= 0.5


def cited(facts: Facts) -> str:
    """Facts as evidence is written.

    >>> cited(((3, 0), (7, None)))
    'D3:0; D7'
    """
    return "; ".join(f"D{number}" if sentence is None else f"D{number}:{sentence}" for number, sentence in facts)
