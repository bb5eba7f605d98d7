"""The strict reward of a pair of texts: the published four levels, about this source, in sentences of their own.

The published reward never looks at the source: one constant pair of texts earns nearly everything on every row, so
does a list of words with transition phrases, transitions hide in other words ("so" in "person"), one shared word fills
the overlap, a text cut off in mid-sentence or copied whole counts like any other. Here:

- *What counts.* A text is read in sentences. A sentence counts unless it is unfinished (no mark at its end), repeated
  (the same content words in the same order, in either text), copied (part of more than 12 words in a row that stand
  so in the source), a list or broken. A list has more than 7 content words in a row without a function word, or more
  than 7 words of which fewer than 15 in a hundred are function words. Broken are a pair of words that English never
  puts side by side ("the of"), an end such as "the." or "because.", an article that does not fit ("an tree"), a
  capital as at a beginning within a sentence, and more than 60 words without a mark between them. Lengths and
  vocabulary are those of what counts.
- *Structure* ``s`` of a text: ``min(1, counted / min_words)``, times the share of its words that count, times a factor
  that falls from 1 at ``max_words`` to 0 at twice as many.
- *Grounding* ``g`` of a text: ``min(1, p / 0.5)``, ``p`` the share of its distinct content words that stand in the
  source, times ``min(1, n / wanted)``, ``n`` the number of them that do, ``wanted`` one for every six counted words
  and at most half of what the source has.
- *Terms*: structure ``0.5`` times the mean of ``s (0.2 + 0.8 g)`` over both texts, a first step for writers who do not
  reach the gate ``G = s1 s2 sqrt(g1 g2)``; length ``G L``; vocabulary ``0.5 G (1+L)/2 V``; style
  ``G (1+L)/2 (1+V)/2 (0.4 T + 0.6 J)``. ``L`` and ``V`` are 1 within the full interval of the published levels and
  fall with the square of the relative distance from it, so that partial success earns part.
- ``J`` is the overlap of the grounded words of both texts, over a higher cap. ``T`` is 0.4 for one category of
  transitions, 1 for four or more; a phrase is found at word boundaries and counts if it opens or joins a sentence that
  counts, a grounded word after it (and before it, if it joins); a sentence gives one category at most.

The sum reaches exactly 3 wherever the source has a content word, and 0.1 where it has none.

What is bounded, and what is not. The exploits below were measured with ``min_words=8`` as a mean over the demo rows of
each id and split, and over every fifth of 819 real posts and abstracts; ``tests/envs/writing/test_exploits.py`` asserts
the first figure, the second is the highest mean that was measured, and the published reward gives each more than 2.2 in
the game where it works: one constant pair of texts 0.3 (0.17); a word list and twelve transition phrases 0.1 (0.04);
one word of the source in that pair 0.5 (0.29); texts cut off 0.1 (0.00); the source copied 0.1 (0.00); its words
shuffled 0.6 (0.59), or listed 1.0 (0.24); one sentence repeated behind twelve transitions 0.2 (0.06); empty, short or
one-sided texts 0.1 (0.06). Transitions inside other words ("person") are none at all.

These bounds hold for those texts, not for every text of their kind. No rule here reads grammar or meaning, so texts
made for this reward are not stopped: a constant pair fitted to the commonest words of a data set earned 1.73 on
abstracts of computer science (0.02 with ``min_words=128``); words of the source at random in sentences of the right
shape ("It is the red of a class, and not the years.") earned 2.83, and can earn 3, as the oracle's texts do; the
source copied eight words at a time between words of one's own earned 1.0 and more. Whether an optimised writer's texts
are good must be read. Correct sentences are lost where they look like a list: of those that people wrote 0.3 % in posts
and 2 to 4 % in abstracts and encyclopaedias, nearly all for long runs of names or technical terms.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from comlrl_envs.writing.levels import (
    LENGTH,
    STRUCTURE,
    VOCABULARY,
    Judgement,
    Rules,
    TextFacts,
    jaccard,
    style_reward,
)
from comlrl_envs.writing.lexicon import FUNCTION_WORDS, Phrase, phrases_in, tokens

HIGHEST = 3.0
LONGEST_COPY = 12
LONGEST_RUN = 7
LONGEST_BREATH = 60
FUNCTION_SHARE = 0.15
_LIST = bytes([True]) * (LONGEST_RUN + 1)
GROUNDED_SHARE = 0.5
UNGROUNDED = 0.2
"""Share of the structure credit of a text that is not about the source."""
WORDS_PER_SOURCE_WORD = 6
FULL_CATEGORIES = 4

_BREAK = re.compile(r"(?<=[.!?…])\s+|(?<=[.!?…][\"'”’)\]])\s+|\n\s*\n")
_FINISHED = re.compile(r"[.!?…。！？][\"'”’)\]]{0,2}$")
_POSSESSIVES = "my|your|our|their|every"
_NO_NOUN = (
    "of|from|into|with|an|the|my|your|our|their|they|we|been|him|them|this|that|these|those|because|than|there"
    "|are|were|does|did|could|should|she|its|her"
)
"""What no article stands before: "must", "will", "can", "do", "by" and the like have readings as nouns."""
_IMPOSSIBLE = (
    ("the|an", f"{_NO_NOUN}|is|was|has|had|and|or|but|nor"),
    (_POSSESSIVES, f"{_NO_NOUN}|is|was|has|had|but|nor|he|his"),
    # "a" is a name too, of a variable or a group.
    ("a", "of|into|the|an|my|your|our|their|they|we|been|him|them|these|those|because|it|she|me"),
    ("of|from|into|at|with|by|for|on|to", "of"),
    ("and", "and|but"),
    ("or|but", "and|or|but"),
    ("because", "is|are|was"),
)
"""Words, and words that English does not put behind them, whatever comes before and after."""
_BROKEN_PAIRS = frozenset(
    pair for left, right in _IMPOSSIBLE for pair in itertools.product(left.split("|"), right.split("|"))
)


def _either_case(words: str) -> str:
    # "A" in capitals is a name ("vitamin A and D").
    return "|".join(word if word == "a" else f"[{word[0].upper()}{word[0]}]{word[1:]}" for word in words.split("|"))


_FIXED = r"(?![\w'’/-]|\s+(?:course|late|old)\b)"
_BROKEN = re.compile(
    "|".join(rf"\b(?:{_either_case(left)})\s+(?:{right}){_FIXED}" for left, right in _IMPOSSIBLE)
    + rf"|(?<![\w.'’])(?:a|an|the|{_POSSESSIVES}|and|or|because)\W*$"
)
_WRONG_ARTICLE = re.compile(
    r"\b(?:[Aa]n [bcdgjkpqtvwz]|a (?!and|are|also|equal)(?:[ai]|e(?!u|we)|o(?!n[ce]|ui)))[a-z]{2}"
)
"""Letters at which "an" and "a" cannot stand, whether what follows is a word or is spelt out."""
_CAPITAL_WITHIN = re.compile(
    r"\b[a-z]+ (?:The|My|Your|Our|Their|We|She|They|It|This|These|But|And|When|If|In|At|Of|From|With|To|By) [a-z]"
)
_BREATHLESS = re.compile(rf"(?:^|\s)(?:[\w'’]+\s+){{{LONGEST_BREATH}}}[\w'’]")
_OPEN_ENDED = frozenset(f"a|an|the|{_POSSESSIVES}|and|or|because".split("|"))


@dataclass(frozen=True, slots=True)
class Source:
    """What a source offers: its content words, and the neighbours among its words for finding copies."""

    text: str
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]


@functools.lru_cache(maxsize=1024)
def read_source(text: str) -> Source:
    """Content words of a source and the neighbours among all its words."""
    found = tokens(text)
    content = itertools.compress(found, _carrying(found))
    return Source(text, frozenset(content), frozenset(itertools.pairwise(found)))


@functools.lru_cache(maxsize=16)
def _spans(text: str) -> frozenset[tuple[str, ...]]:
    """Every ``LONGEST_COPY + 1`` words in a row, so that a copy is looked up in constant time."""
    found = tokens(text)
    return frozenset(zip(*(found[start:] for start in range(LONGEST_COPY + 1)), strict=False))


@dataclass(frozen=True, slots=True)
class Reading:
    """What counts in a text.

    Attributes:
        words: All whitespace-separated words.
        characters: All characters.
        counted_words: Words of the sentences that count.
        counted_characters: Their characters.
        unique: Their distinct words.
        content: Their distinct content words.
        grounded: Those of them that stand in the source.
        keys: Content words of each sentence, in order.
        transitions: For each sentence, the categories of transitions that open or join it.
    """

    words: int
    characters: int
    counted_words: int
    counted_characters: int
    unique: frozenset[str]
    content: frozenset[str]
    grounded: frozenset[str]
    keys: frozenset[tuple[str, ...]]
    transitions: tuple[tuple[str, ...], ...]


def read(text: str, source: Source, seen: frozenset[tuple[str, ...]] = frozenset()) -> Reading:
    """Read a text; sentences whose content words are in ``seen`` are repetitions."""
    sentences = [sentence for sentence in _BREAK.split(text.strip()) if sentence]
    by_sentence = [tokens(sentence) for sentence in sentences]
    copied = _copied([word for found in by_sentence for word in found], source)
    keys: set[tuple[str, ...]] = set()
    unique: set[str] = set()
    transitions: list[tuple[str, ...]] = []
    words = characters = start = 0
    for sentence, found in zip(sentences, by_sentence, strict=True):
        end = start + len(found)
        copy, start = copied is not None and any(copied[start:end]), end
        if copy or not found or not _FINISHED.search(sentence) or _is_broken(sentence, found):
            continue
        phrases = phrases_in(found)
        carries = _carrying(found, phrases)
        key = tuple(itertools.compress(found, carries))
        if key in keys or key in seen or _is_list(carries):
            continue
        keys.add(key)
        unique.update(found)
        words += len(sentence.split())
        characters += len(sentence)
        transitions.append(_joining(found, carries, phrases, source))
    content = frozenset(word for key in keys for word in key)
    return Reading(
        len(text.split()),
        len(text),
        words,
        characters,
        frozenset(unique),
        content,
        content & source.words,
        frozenset(keys),
        tuple(transitions),
    )


def score_strict(first: str, second: str, source_text: str, rules: Rules) -> Judgement:
    """The strict reward of a pair of texts; the formula stands in the module."""
    source = read_source(source_text)
    one = read(first, source)
    two = read(second, source, one.keys)
    facts = (_facts(one, source, rules), _facts(two, source, rules))
    ratio = two.counted_characters / one.counted_characters if one.counted_characters else 0.0
    unique_ratio = len(two.unique) / len(one.unique) if one.unique else 0.0
    overlap = jaccard(one.grounded, two.grounded) if one.grounded else 0.0
    overlap_credit = min(overlap, rules.grounded_cap) / rules.grounded_cap
    categories = _distinct((one.transitions if rules.both_styled else ()) + two.transitions)
    transitions = _transition_credit(categories)

    formed = (_structure(one, rules), _structure(two, rules))
    grounding = (_grounding(facts[0]), _grounding(facts[1]))
    gate = formed[0] * formed[1] * math.sqrt(grounding[0] * grounding[1])
    structure = sum(s * (UNGROUNDED + (1.0 - UNGROUNDED) * g) for s, g in zip(formed, grounding, strict=True)) / 2.0
    length = rules.length.nearness(ratio)
    vocabulary = rules.vocabulary.nearness(unique_ratio)
    style = style_reward(transitions, overlap_credit)
    third = gate * (1.0 + length) / 2.0
    fourth = third * (1.0 + vocabulary) / 2.0
    return Judgement(
        (STRUCTURE * structure, LENGTH * gate * length, VOCABULARY * third * vocabulary, fourth * style),
        (STRUCTURE * structure, LENGTH * length, VOCABULARY * vocabulary, style),
        facts,
        ratio,
        unique_ratio,
        overlap,
        categories,
        transitions,
        overlap_credit,
    )


def _transition_credit(categories: int) -> float:
    return min(1.0, 0.4 + 0.6 * (categories - 1) / (FULL_CATEGORIES - 1)) if categories else 0.0


def highest(source_text: str) -> float:
    """The highest reward of a pair of texts about this source: 3, or 0.1 if it has no content word."""
    return HIGHEST if read_source(source_text).words else STRUCTURE * UNGROUNDED


def wanted_words(counted: int, available: int, rules: Rules) -> int:
    """How many distinct words of the source a text of ``counted`` words should use."""
    asked = math.ceil(max(counted, rules.min_words) / WORDS_PER_SOURCE_WORD)
    return max(1, min(asked, math.ceil(available / 2)))


def _facts(reading: Reading, source: Source, rules: Rules) -> TextFacts:
    return TextFacts(
        reading.words,
        reading.characters,
        len(reading.unique),
        len(reading.grounded) / len(reading.content) if reading.content else 0.0,
        reading.counted_words,
        len(reading.grounded),
        wanted_words(reading.counted_words, len(source.words), rules),
    )


def _structure(reading: Reading, rules: Rules) -> float:
    if not reading.words:
        return 0.0
    long = max(0.0, 1.0 - max(0, reading.words - rules.max_words) / rules.max_words)
    return min(1.0, reading.counted_words / rules.min_words) * (reading.counted_words / reading.words) * long


def _grounding(facts: TextFacts) -> float:
    return min(1.0, facts.grounded / GROUNDED_SHARE) * min(1.0, facts.covered / facts.wanted)


def _carrying(found: Sequence[str], phrases: Sequence[Phrase] | None = None) -> list[bool]:
    """For each token whether it is a content word; the words of a transition phrase are not."""
    carries = [len(word) > 2 and word not in FUNCTION_WORDS for word in found]
    for start, end, _ in phrases_in(found) if phrases is None else phrases:
        carries[start:end] = [False] * (end - start)
    return carries


def _is_broken(sentence: str, found: Sequence[str]) -> bool:
    # The tokens are quick to look up; the expression then tells "the an" from "the AN" and "my of" from "my of-mice".
    text = sentence.lower() if sentence.isupper() else sentence
    suspicious = found[-1] in _OPEN_ENDED or not _BROKEN_PAIRS.isdisjoint(itertools.pairwise(found))
    breathless = len(found) > LONGEST_BREATH
    patterns = [_WRONG_ARTICLE, _CAPITAL_WITHIN] + [_BROKEN] * suspicious + [_BREATHLESS] * breathless
    return any(pattern.search(text) for pattern in patterns)


def _is_list(carries: Sequence[bool]) -> bool:
    if len(carries) <= LONGEST_RUN:
        return False
    return sum(carries) > (1.0 - FUNCTION_SHARE) * len(carries) or _LIST in bytes(carries)


def _copied(found: Sequence[str], source: Source) -> list[bool] | None:
    """For each token whether it is part of more than ``LONGEST_COPY`` in a row of the source; None if none is."""
    shared = [pair in source.pairs for pair in itertools.pairwise(found)]
    marks: list[bool] | None = None
    run = 0
    for place, known in enumerate(shared, start=1):
        run = run + 1 if known else 0
        first = place - LONGEST_COPY
        # Pairs of the source in a row are rarely more than chance; whole spans are looked up only after many of them.
        if run >= LONGEST_COPY and tuple(found[first : place + 1]) in _spans(source.text):
            marks = marks or [False] * len(found)
            marks[first : place + 1] = [True] * (LONGEST_COPY + 1)
    return marks


def _joining(
    found: Sequence[str],
    carries: Sequence[bool],
    phrases: Sequence[Phrase],
    source: Source,
) -> tuple[str, ...]:
    """Categories of the phrases that open or join the sentence and have a grounded word at the side that they need."""
    if not phrases:
        return ()
    content = [place for place in range(len(found)) if carries[place]]
    first = next((place for place in content if found[place] in source.words), None)
    last = next((place for place in reversed(content) if found[place] in source.words), None)
    if first is None or last is None:
        return ()
    joining = [names for start, end, names in phrases if last >= end and (start == 0 or first < start)]
    return tuple(itertools.chain.from_iterable(joining))


def _distinct(transitions: Sequence[tuple[str, ...]]) -> int:
    """Number of different categories if each sentence gives its first that no earlier sentence gave."""
    taken: set[str] = set()
    for categories in transitions:
        new = next((category for category in categories if category not in taken), None)
        if new is not None:
            taken.add(new)
    return len(taken)
