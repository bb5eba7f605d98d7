"""Search for paragraphs by the words of a query: BM25 over the paragraphs of a set.

The score of a paragraph is the sum, over the distinct words w that it shares with the query, of

    ln(1 + (N - n_w + 0.5) / (n_w + 0.5)) · f_w / (f_w + k1 · (1 - b + b · L / L_mean))

with N paragraphs, n_w of them with w, f_w times w in this one, L its words and L_mean the words of the mean one (the
variant of Lucene, whose scores of shared words are all above 0). Words are runs of letters, digits and underscores of
title and text in lower case; no word is left out or cut to its stem. The package ``bm25s`` holds the scores; the best
are chosen here, so that the same paragraphs and query give the same places in every process and on every machine.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from comlrl_envs.errors import MissingExtraError, OptionError, positive_int
from comlrl_envs.qa.records import Paragraph, QARecord

K1 = 1.2
"""How soon a word's further occurrences in a paragraph count for less."""
B = 0.75
"""How much a paragraph longer than the mean one counts for less."""
MOST_QUERY_CHARS = 10_000
"""Characters of a query that are read: a longer one takes no longer."""
MOST_BUILT = 8
"""Indexes that a process keeps for corpora to come; those in use stay with their corpora."""
_TIED_DECIMALS = 9
_WORD = re.compile(r"\w+")
_lock = threading.Lock()
_built: OrderedDict[str, _Index] = OrderedDict()


class Corpus:
    """Paragraphs that can be searched.

    A corpus is its paragraphs until the first search, which builds the index; corpora of equal paragraphs share it in a
    process. It never changes, may be used from any thread and after a fork, and is pickled without its index. Two are
    equal if their paragraphs are, sentence by sentence.

    Args:
        paragraphs: In order. Of those with the same title and text the first is kept; titles alone may repeat. A
            paragraph's place among those kept, from 0, is its ``pid``.

    Raises:
        OptionError: One of them is no ``Paragraph``.
    """

    def __init__(self, paragraphs: Iterable[Paragraph]) -> None:
        self._pids: dict[tuple[str, str], int] = {}
        kept: list[Paragraph] = []
        for place, paragraph in enumerate(paragraphs):
            given: object = paragraph
            if not isinstance(given, Paragraph):
                raise OptionError(
                    f"Paragraph {place} is a {type(given).__name__}; expected a Paragraph. For records: "
                    "Corpus.of_records(records)."
                )
            if self._pids.setdefault(_key(paragraph), len(kept)) == len(kept):
                kept.append(paragraph)
        self._paragraphs = tuple(kept)
        self._index: _Index | None = None

    @classmethod
    def of_records(cls, records: Iterable[QARecord]) -> Corpus:
        """The paragraphs of all records, in order."""
        return cls(paragraph for record in records for paragraph in record.paragraphs)

    @functools.cached_property
    def sha256(self) -> str:
        """Digest of the paragraphs, in hexadecimal."""
        hasher = hashlib.sha256()
        for paragraph in self._paragraphs:
            hasher.update(json.dumps([paragraph.title, *paragraph.sentences]).encode("ascii") + b"\n")
        return hasher.hexdigest()

    def settings(self) -> dict[str, Any]:
        """What tells it from others, as JSON values."""
        return {"paragraphs": len(self), "sha256": self.sha256}

    def pid(self, paragraph: Paragraph) -> int | None:
        """The place of the paragraph with this title and text; None if there is none."""
        return self._pids.get(_key(paragraph))

    def search(self, query: str, k: int) -> tuple[int, ...]:
        """The best paragraphs for a query.

        Args:
            query: Any text. A word counts once however often it is repeated, the order of words does not matter, and
                what stands after the first ``MOST_QUERY_CHARS`` characters is not read.
            k: How many at most, 1 or more.

        Returns:
            Their pids, best first. Of those whose scores agree to nine decimals the smaller pid comes first. Paragraphs
            that share no word with the query are never among them, so there may be fewer than ``k``, or none.

        Raises:
            MissingExtraError: The package ``bm25s`` is not installed.
            OptionError: ``k`` is no positive integer.
        """
        return self.search_many((query,), k)[0]

    def search_many(self, queries: Sequence[str], k: int) -> list[tuple[int, ...]]:
        """What ``search`` gives for each query, in their order; raises what it raises."""
        positive_int("k", k)
        index = self._index
        if index is None:
            index = self._index = _shared_index(self)
        return [index.best(query, k) for query in queries]

    def __len__(self) -> int:
        return len(self._paragraphs)

    def __getitem__(self, pid: int) -> Paragraph:
        if pid < 0:
            raise IndexError(f"There is no paragraph {pid}; a pid is 0 or more.")
        return self._paragraphs[pid]

    def __eq__(self, other: object) -> bool:
        return self.sha256 == other.sha256 if isinstance(other, Corpus) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        return f"Corpus({len(self)} paragraphs, sha256 {self.sha256[:8]})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus, (self._paragraphs,)

    def __copy__(self) -> Corpus:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Corpus:
        # It never changes, and an environment is copied at every branch of a tree.
        return self


class _Index:
    """Scores of all words in all paragraphs, made by ``bm25s``; never changed after it is built."""

    def __init__(self, texts: Iterable[str]) -> None:
        try:
            import bm25s
        except ImportError as missing:
            raise MissingExtraError("qa", "Searching a corpus") from missing
        # Numbered as they come: the package's own numbering follows the order of a set, another in each process.
        self._words: dict[str, int] = {}
        numbered = [[self._words.setdefault(word, len(self._words)) for word in _words(text)] for text in texts]
        # In single precision, rounding would decide between paragraphs whose scores nearly agree.
        self._scores = bm25s.BM25(k1=K1, b=B, method="lucene", dtype="float64", backend="numpy", csc_backend="numpy")
        if self._words:
            # Not `index()`, which says so in a log that reaches every handler, whatever level the user has set.
            self._scores.scores = self._scores.build_index_from_ids(
                list(self._words.values()), numbered, show_progress=False
            )

    def best(self, query: str, k: int) -> tuple[int, ...]:
        """The pids that ``Corpus.search`` gives."""
        known = {self._words[word] for word in _words(query[:MOST_QUERY_CHARS]) if word in self._words}
        if not known:
            return ()
        scores: np.ndarray = self._scores.get_scores_from_ids(sorted(known))
        found = np.flatnonzero(scores > 0)
        # Sums of the same numbers in another order differ in their last bits, which is no reason to prefer one.
        order = np.argsort(-np.round(scores[found], _TIED_DECIMALS), kind="stable")
        return tuple(found[order[:k]].tolist())


def _key(paragraph: Paragraph) -> tuple[str, str]:
    return paragraph.title, paragraph.text


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _shared_index(corpus: Corpus) -> _Index:
    """The index of the corpus, built if no equal one was searched lately; one thread builds, the others wait."""
    with _lock:
        index = _built.get(corpus.sha256)
        if index is None:
            index = _built[corpus.sha256] = _Index(f"{each.title} {each.text}" for each in corpus._paragraphs)
        _built.move_to_end(corpus.sha256)
        while len(_built) > MOST_BUILT:
            _built.popitem(last=False)
        return index


def _forget_lock() -> None:
    """In a fork: a lock that a thread of the parent held stays held here. The indexes are whole, and are kept."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)
