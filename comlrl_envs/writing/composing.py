"""Texts that earn the highest reward, built from a source's own words in plain sentences.

They show that the maximum can be reached, on every source and within any limits on words. They are not good
summaries: no rule of these rewards can tell.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from comlrl_envs.writing.levels import Rules
from comlrl_envs.writing.lexicon import tokens
from comlrl_envs.writing.strict import read_source, wanted_words

Pair = tuple[str, str]

PLAIN_OPENERS = (("it", "is", "about"), ("it", "is"))
RICH_OPENERS = (
    ("it", "is", "about"), ("there", "was"), ("they", "can", "be"), ("we", "have"), ("this", "will", "be"),
    ("you", "should", "have"), ("he", "had"), ("she", "could", "be"),
)  # fmt: skip
PLAIN_JOINERS = ("and", "or", "with")
RICH_JOINERS = ("and", "with", "for", "about", "or", "under", "over", "from")
LEADS = ("also", "however", "therefore", "overall", "indeed", "similarly", "namely", "meanwhile")
"""Transitions of eight categories to open sentences with."""
CONNECTIVES = (
    "also", "namely", "meaning", "hence", "however", "then", "indeed", "overall", "similarly", "although", "unless",
    "while",
)  # fmt: skip
"""One transition of each of the twelve categories."""
SPARES = ("matter", "case", "point", "word", "thing")
"""Content words for a source that has none; the first goes with the only ones of a very short source."""


@dataclass(frozen=True)
class Style:
    """How a text is built.

    Attributes:
        openers: Beginnings of sentences, of two and of three words.
        joiners: Words between the source's words.
        leads: Transitions that open the sentences, in turn; none if empty.
        sentence_words: Words of a sentence, roughly.
        paired: Share of sentences that join the source's words in pairs by hyphens, which lengthens a text without
            more words; what exceeds 1 is the share with three in a row.
    """

    openers: Sequence[tuple[str, ...]]
    joiners: Sequence[str]
    leads: Sequence[str] = ()
    sentence_words: int = 9
    paired: float = 0.0


def compose(vocabulary: Sequence[str], words: int, style: Style, used: set[tuple[str, ...]]) -> str | None:
    """A text of exactly ``words`` words, no sentence with content words in an order that is in ``used``.

    Adds its own to ``used``. None if the vocabulary is too small for so many different sentences.
    """
    count = max(1, round(words / style.sentence_words))
    if words // count < 5:
        return None
    place = 0
    joiners = itertools.cycle(style.joiners)
    sentences: list[str] = []
    for number in range(count):
        size = words // count + (number < words % count)
        lead = style.leads[number % len(style.leads)] if style.leads else ""
        # An opener and m words with a joiner between each two: the opener's length sets the parity.
        room = size - bool(lead)
        opener = next((o for o in _from(style.openers, number) if (room - len(o)) % 2 == 1), None)
        if opener is None or room <= len(opener):
            return None
        slots = (room - len(opener) + 1) // 2
        group = 1 + (number < style.paired * count) + (number < (style.paired - 1.0) * count)
        chosen = _unused(vocabulary, place, slots * group, used)
        if chosen is None:
            return None
        used.add(chosen)
        place += slots * group
        parts = ["-".join(chosen[i : i + group]) for i in range(0, len(chosen), group)]
        body = [parts[0]]
        for part in parts[1:]:
            body += [next(joiners), part]
        sentence = " ".join([*opener, *body]) + "."
        sentences.append(f"{lead.capitalize()}, {sentence}" if lead else sentence.capitalize())
    return " ".join(sentences)


def _from(openers: Sequence[tuple[str, ...]], start: int) -> Iterator[tuple[str, ...]]:
    return (openers[(start + step) % len(openers)] for step in range(len(openers)))


def _unused(vocabulary: Sequence[str], place: int, length: int, used: set[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The next ``length`` words in turn that are not in ``used``, or else any sequence of that length."""
    size = len(vocabulary)
    for start in range(place, place + size):
        window = tuple([vocabulary[(start + step) % size] for step in range(length)])
        if window not in used:
            return window
    for product in itertools.islice(itertools.product(vocabulary, repeat=length), len(used) + 1):
        if product not in used:
            return product
    return None


def best_pair(
    source_text: str, rules: Rules, judge: Callable[[str, str], float], highest: float, strict: bool
) -> Pair | None:
    """Two texts that ``judge`` gives ``highest``; None if none of the builder's texts does."""
    for pair in _candidates(source_text, rules, strict):
        if judge(*pair) >= highest:
            return pair
    return None


def _candidates(source_text: str, rules: Rules, strict: bool) -> Iterator[Pair]:
    vocabulary = _vocabulary(source_text)
    by_length = sorted(vocabulary, key=len)
    available = len(read_source(source_text).words)
    low, high = rules.min_words, rules.max_words
    joiners, leads = (RICH_JOINERS, LEADS) if strict else (CONNECTIVES, ())
    second_style = Style(RICH_OPENERS, joiners, leads)
    first_style = second_style if rules.both_styled else Style(PLAIN_OPENERS, PLAIN_JOINERS)
    factors = [factor for factor in (2.2, 1.9, 1.6, 1.3, 1.15, 1.0) if rules.length.credit(factor) is not None]
    factors += [1.0] if 1.0 not in factors else []
    for paired, size, words in itertools.product((0.0, 0.3, 0.6, 1.0, 1.5, 2.0), (9, 13, 17), _sizes(low, high)):
        wanted = max(wanted_words(words, available, rules), min(4, len(vocabulary)))
        for factor, ordered in itertools.product(factors, (vocabulary, by_length)):
            used: set[tuple[str, ...]] = set()
            first = compose(ordered[:wanted], words, replace(first_style, sentence_words=size), used)
            second_words = min(max(round(words * factor), low), high)
            pool = _second_pool(vocabulary, ordered[:wanted], rules, second_words, available)
            longer = replace(second_style, sentence_words=size, paired=paired)
            second = compose(pool, second_words, longer, used)
            if first is not None and second is not None:
                yield first, second


def _sizes(low: int, high: int) -> list[int]:
    """Lengths of the first text to try: the shortest allowed, though enough for two sentences."""
    return sorted({min(max(low, words), high) for words in (low, 18, 20, 24, 30)}, key=lambda n: (n < 18, n))


def _second_pool(
    vocabulary: Sequence[str], first: Sequence[str], rules: Rules, words: int, available: int
) -> Sequence[str]:
    """Words for the second text: those of the first, and as many more as the overlap allows or the count asks."""
    most = int(len(first) / rules.grounded_cap)
    if rules.vocabulary.high < float("inf"):
        most = max(len(first), wanted_words(words, available, rules))
    pool = [*first, *(word for word in vocabulary if word not in first)][:most]
    # Where both texts use the same words, the other way round keeps the sentences apart.
    return pool[::-1] if rules.both_styled else pool


def _vocabulary(source_text: str) -> list[str]:
    """The source's content words in order of appearance, with spare words if they are very few."""
    content = read_source(source_text).words
    ordered = [word for word in dict.fromkeys(tokens(source_text)) if word in content]
    return ordered if len(ordered) > 3 else [*ordered, SPARES[0]] if ordered else list(SPARES)
