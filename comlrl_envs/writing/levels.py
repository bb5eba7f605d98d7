"""The published reward of a pair of texts: four levels, each of which opens the next.

Formulas and constants are those of CoMLRL's writing rewards; only the word lists are this project's own.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass

from comlrl_envs.writing.lexicon import FUNCTION_WORDS, STOP_WORDS, TRANSITIONS, categories_by_substring, tokens

STRUCTURE, LENGTH, VOCABULARY, STYLE = 0.5, 1.0, 0.5, 1.0
"""What each level can earn at most."""
TRANSITIONS_SHARE, JACCARD_SHARE = 0.4, 0.6
"""How the style level is made up."""


@dataclass(frozen=True, slots=True)
class Band:
    """A trapezium: no credit outside ``[low, high]``, full credit from ``full_low`` to ``full_high``, ramps between."""

    low: float
    full_low: float
    full_high: float = math.inf
    high: float = math.inf

    def credit(self, value: float) -> float | None:
        """Credit in [0, 1]; None outside, where the published reward stops. The ends themselves are inside."""
        if not self.low <= value <= self.high:
            return None
        if value < self.full_low:
            return (value - self.low) / (self.full_low - self.low)
        if value > self.full_high:
            return max(0.0, 1.0 - (value - self.full_high) / (self.high - self.full_high))
        return 1.0

    def nearness(self, value: float) -> float:
        """Credit in [0, 1] that fades with the relative distance from the full interval, and never stops."""
        if value <= 0.0:
            return 0.0
        return min(1.0, value / self.full_low, self.full_high / value) ** 2


@dataclass(frozen=True, slots=True)
class Rules:
    """What is asked of a pair of texts.

    Attributes:
        min_words: Fewest whitespace-separated words of a text.
        max_words: Most words of a text.
        length: Interval of ``len(second) / len(first)`` in characters.
        vocabulary: Interval of the ratio of their numbers of distinct words.
        jaccard_cap: Overlap of content words that earns full credit in the published reward.
        grounded_cap: The same for the content words taken from the source, in the strict reward.
        both_styled: Whether transitions count in both texts, or in the second only.
    """

    min_words: int
    max_words: int
    length: Band
    vocabulary: Band
    jaccard_cap: float
    grounded_cap: float
    both_styled: bool


@dataclass(frozen=True, slots=True)
class TextFacts:
    """Measures of one text.

    Attributes:
        words: Whitespace-separated words.
        characters: Characters.
        unique_words: Distinct lower-cased words, stop-words among them.
        grounded: Share of its distinct content words that stand in the source, in [0, 1].
        counted_words: Words that the reward counts; the strict one leaves out sentences that earn nothing.
        covered: Distinct words of the source that it uses.
        wanted: As many distinct words of the source as earn full credit; 0 if none are asked for.
    """

    words: int
    characters: int
    unique_words: int
    grounded: float
    counted_words: int
    covered: int
    wanted: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """The reward of a pair of texts and what it was made from.

    Attributes:
        terms: Rewards of structure, length, vocabulary and style as they count; their sum is the reward.
        ungated: The same four, each as if the others were full.
        texts: Measures of both texts.
        ratio: Second length over first, in characters; 0 if the first is empty.
        unique_ratio: Ratio of their distinct words; 0 if the first has none.
        jaccard: Overlap of their content words.
        categories: Kinds of transitions found.
        transition_reward: Credit for them, in [0, 1].
        jaccard_reward: Credit for the overlap, in [0, 1].
    """

    terms: tuple[float, float, float, float]
    ungated: tuple[float, float, float, float]
    texts: tuple[TextFacts, TextFacts]
    ratio: float
    unique_ratio: float
    jaccard: float
    categories: int
    transition_reward: float
    jaccard_reward: float

    @property
    def reward(self) -> float:
        """Sum of the terms, in [0, 3]."""
        return sum(self.terms)


def jaccard(first: Set[str], second: Set[str]) -> float:
    """Size of the common part over the size of the union; 1 if both are empty."""
    union = len(first | second)
    return len(first & second) / union if union else 1.0


def transition_credit(categories: int) -> float:
    """0 for none, else 0.4 and 0.05 for each further one, at most 1; the twelve there are give 0.95."""
    return min(1.0, 0.4 + min(0.05 * (categories - 1), 0.6)) if categories else 0.0


def style_reward(transitions: float, overlap: float) -> float:
    """The style level's reward from its two credits."""
    return STYLE * (TRANSITIONS_SHARE * transitions + JACCARD_SHARE * overlap)


HIGHEST = STRUCTURE + LENGTH + VOCABULARY + style_reward(transition_credit(len(TRANSITIONS)), 1.0)
"""Highest reward of ``score_published``: 2.98."""


def score_published(first: str, second: str, source_words: Set[str], rules: Rules) -> Judgement:
    """The published reward; ``source_words`` serves the measures only, the reward does not look at the source."""
    words = [tokens(text) for text in (first, second)]
    unique = [set(found) for found in words]
    facts = tuple(_facts(text, distinct, source_words) for text, distinct in zip((first, second), unique, strict=True))
    ratio = len(second) / len(first) if first else 0.0
    unique_ratio = len(unique[1]) / len(unique[0]) if unique[0] else 0.0
    overlap = jaccard(unique[0] - STOP_WORDS, unique[1] - STOP_WORDS)
    overlap_credit = min(overlap, rules.jaccard_cap) / rules.jaccard_cap
    # The published reward joins both texts without a space.
    categories = categories_by_substring(first + second if rules.both_styled else second)
    transitions = transition_credit(categories)

    fits = all(rules.min_words <= fact.words <= rules.max_words for fact in facts)
    length = rules.length.credit(ratio)
    vocabulary = rules.vocabulary.credit(unique_ratio) if unique[0] else None
    ungated = (
        STRUCTURE * fits,
        LENGTH * (length or 0.0),
        VOCABULARY * (vocabulary or 0.0),
        style_reward(transitions, overlap_credit),
    )
    opened = 0 if not fits else 2 if length is None else 3 if vocabulary is None else 4
    terms = tuple(value if place < opened else 0.0 for place, value in enumerate(ungated))
    return Judgement(
        (terms[0], terms[1], terms[2], terms[3]),
        ungated,
        (facts[0], facts[1]),
        ratio,
        unique_ratio,
        overlap,
        categories,
        transitions,
        overlap_credit,
    )


def is_content(word: str) -> bool:
    """Whether a token carries meaning: three characters or more, and no function word."""
    return len(word) > 2 and word not in FUNCTION_WORDS


def _facts(text: str, distinct: Set[str], source_words: Set[str]) -> TextFacts:
    count = len(text.split())
    content = {word for word in distinct if is_content(word)}
    covered = len(content & source_words)
    return TextFacts(count, len(text), len(distinct), covered / len(content) if content else 0.0, count, covered)
