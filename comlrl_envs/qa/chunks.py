"""A text cut into runs of whole paragraphs, one for each reader: what each may quote, and what was told of it."""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from comlrl_envs.qa.answers import YES_NO
from comlrl_envs.qa.documents import Document, Facts, fact_texts, says
from comlrl_envs.qa.normalize import squad
from comlrl_envs.qa.team_question import Asked
from comlrl_envs.tagged_text import shown

logger = logging.getLogger("comlrl_envs")

Chunk = tuple[Document, ...]
NONE = "NONE"
"""What a reader says who has nothing to tell."""


def runs(sizes: Sequence[int], parts: int) -> tuple[range, ...]:
    """The places of paragraphs in ``parts`` runs of nearly equal size, in order; in fewer, if they are fewer.

    Each run has a paragraph at least and ends at the border nearest to its share of the whole, at the earlier one of
    two.

    Args:
        sizes: Of the paragraphs.
        parts: How many runs, >= 1.

    >>> [list(run) for run in runs([10, 10, 10, 90], 3)]
    [[0, 1], [2], [3]]
    """
    filled = min(parts, len(sizes))
    ends = [0, *itertools.accumulate(sizes)]
    borders = [0]
    for part in range(1, filled):
        share = part * ends[-1] / filled
        open_borders = range(borders[-1] + 1, len(sizes) - (filled - part) + 1)
        borders.append(min(open_borders, key=lambda border: abs(ends[border] - share)))
    return tuple(range(start, end) for start, end in itertools.pairwise([*borders, len(sizes)][-filled - 1 :]))


def cut(paragraphs: Sequence[Document], parts: int, rng: np.random.Generator) -> tuple[Chunk, ...]:
    """Paragraphs in as many chunks, in order; where there are too few, the empty chunks are drawn."""
    filled = [tuple(paragraphs[place] for place in run) for run in runs([len(each.text) for each in paragraphs], parts)]
    places = sorted(map(int, rng.permutation(parts)[: len(filled)]))
    dealt = dict(zip(places, filled, strict=True))
    return tuple(dealt.get(place, ()) for place in range(parts))


def capped(chunk: Chunk, chars: int) -> tuple[Chunk, int]:
    """The first ``chars`` characters of a chunk's paragraphs, all of them for 0, and how many were left out."""
    if not chars:
        return chunk, 0
    kept: list[Document] = []
    room = chars
    for document in chunk:
        shorter = _shortened(document, room)
        if shorter.text:
            kept.append(shorter)
        room -= len(document.text)
    return tuple(kept), size(chunk) - size(kept)


@functools.lru_cache(maxsize=64)
def say_dropped(chars: int, parts: int) -> None:
    """Say once that text is left out; every episode counts how much."""
    logger.warning("chunk_chars=%d: %d chunks leave out text, counted as dropped_chars.", chars, parts)


def _shortened(document: Document, room: int) -> Document:
    if len(document.text) <= room:
        return document
    pieces: list[str] = []
    for sentence in document.sentences:
        if room > 0:
            pieces.append(sentence[:room])
        room -= len(sentence) + 1
    return replace(document, sentences=tuple(pieces))


def size(chunk: Iterable[Document]) -> int:
    """Characters of a chunk's paragraphs."""
    return sum(len(document.text) for document in chunk)


def page(chunk: Iterable[Document]) -> str:
    """A chunk as it is shown: a paragraph a line, the first under each title with the title."""
    lines: list[str] = []
    title = ""
    for document in chunk:
        head = f"{document.title}: " if document.title and document.title != title else ""
        lines.append(head + " ".join(document.text.split()))
        title = document.title
    return "\n".join(lines)


def facts_held(chunk: Iterable[Document], support: Facts) -> tuple[str, ...]:
    """The texts of the facts that a chunk holds, as a message would pass them on."""
    return tuple(shown(text) for text in fact_texts(chunk, support).values())


def kept_support(chunks: Iterable[Chunk], support: Facts) -> Facts:
    """The facts that some chunk still holds."""
    left = {document.number: len(document.sentences) for chunk in chunks for document in chunk}
    return tuple((number, place) for number, place in support if number in left and (place or 0) < left[number])


def spans(answers: Iterable[str], texts: Sequence[str]) -> tuple[str, ...]:
    """The answers, normalised, that can be quoted from some text; yes and no are said, not quoted."""
    forms = dict.fromkeys(form for answer in answers if (form := squad(answer)) and form not in YES_NO)
    return tuple(form for form in forms if any(says(text, (form,)) for text in texts))


@functools.lru_cache(maxsize=4096)
def quote(facts: tuple[str, ...], forms: tuple[str, ...], chars: int) -> str:
    """What a message of ``chars`` characters passes on of some facts.

    Args:
        facts: Texts that ``shown`` left as they are.
        forms: Normalised answers. If the facts are too long together, the words around one of these are passed on.
        chars: Most characters.
    """
    whole = " ".join(facts)
    if len(whole) > chars:
        for fact in facts:
            # Windows that overlap in all but an eighth find whatever is not nearly as long as they are.
            windows = [fact[start : start + chars].strip() for start in range(0, len(fact), max(1, chars // 8))]
            if found := [window for window in windows if says(window, forms)]:
                return found[len(found) // 2]
    return whole[:chars].strip()


@dataclass(frozen=True, kw_only=True)
class Work(Asked):
    """A question, who reads which part of the text, and what the manager was told.

    Attributes:
        chunks: By worker its paragraphs; the whole text for one who is alone.
        support: What the answer rests on, as far as chunks hold it.
        spans: Right answers, normalised, that can be quoted from it.
        dropped: Characters of the text that no chunk holds.
        spoke: By worker, whether it did not abstain in the last turn that the manager could read.
        told: By worker, whether it ever did so.
        named: Whether one of ``spans`` stood in a message that the manager could read.
        sent: Characters of all these messages.
    """

    chunks: tuple[Chunk, ...]
    support: Facts
    spans: tuple[str, ...]
    dropped: int
    spoke: tuple[bool, ...]
    told: tuple[bool, ...]
    named: bool = False
    sent: int = 0

    @functools.cached_property
    def facts(self) -> tuple[tuple[str, ...], ...]:
        """By worker the supporting texts that it holds."""
        return tuple(facts_held(chunk, self.support) for chunk in self.chunks)

    @property
    def outsiders(self) -> tuple[int, ...]:
        """Places of the workers who hold no supporting text."""
        return tuple(place for place, facts in enumerate(self.facts) if not facts)

    @property
    def gold_chunk(self) -> int:
        """The number, from 1, of the first chunk that holds a right answer, or else support; 0 if none does."""
        holders = [place + 1 for place, facts in enumerate(self.facts) if facts]
        naming = [number for number in holders if says(" ".join(self.facts[number - 1]), self.spans)]
        return next(iter(naming or holders), 0)


def abstains(message: str) -> bool:
    """Whether a message tells nothing: it is empty, or ``NONE`` in any case.

    >>> abstains("None."), abstains(""), abstains("None of them knows.")
    (True, True, False)
    """
    return squad(message) in ("", squad(NONE))
