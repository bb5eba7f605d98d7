"""Parity of the published rewards: the numbers of each level, and where they stop."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs.writing import arxiv, tldr
from comlrl_envs.writing.levels import HIGHEST, score_published, style_reward, transition_credit

from .exploits import PHRASES

TLDR = tldr.Tldr().rules
ARXIV_A = arxiv.Arxiv().rules
ARXIV_B = arxiv.Arxiv(reward="published_b").rules


def text(words, characters, distinct):
    """A text of so many words, characters and distinct words, with no transition in it."""
    names = [f"q{chr(97 + i // 26)}{chr(97 + i % 26)}x" for i in range(distinct)]
    chosen = [names[i % distinct] for i in range(words)]
    short = " ".join(chosen)
    assert len(short) <= characters
    # Full stops lengthen a text without adding words.
    return short + "." * (characters - len(short))


def judged(first, second, rules):
    return score_published(first, second, frozenset(), rules)


@pytest.mark.parametrize(
    ("rules", "ratio", "credit"),
    [
        (TLDR, 1.1, 0.0),
        (TLDR, 1.35, 0.5),
        (TLDR, 1.6, 1.0),
        (TLDR, 3.2, 1.0),
        (TLDR, 4.1, 0.5),
        (TLDR, 5.0, 0.0),
        (TLDR, 5.01, None),
        (TLDR, 1.09, None),
        (ARXIV_A, 0.9, 0.5),
        (ARXIV_A, 1.0, 1.0),
        (ARXIV_A, 1.3, 1.0),
        (ARXIV_A, 1.4, 0.5),
        (ARXIV_A, 1.51, None),
        (ARXIV_A, 0.79, None),
        (ARXIV_B, 1.05, 0.5),
        (ARXIV_B, 1.3, 1.0),
        (ARXIV_B, 1.8, 0.5),
        (ARXIV_B, 2.01, None),
    ],
)
def test_length_credit(rules, ratio, credit):
    found = rules.length.credit(ratio)
    assert found is None if credit is None else found == pytest.approx(credit, abs=1e-9)


@pytest.mark.parametrize(
    ("rules", "ratio", "reward"),
    [(TLDR, 1.65, 0.25), (TLDR, 2.0, 0.5), (TLDR, 9.0, 0.5), (TLDR, 1.3, 0.0), (TLDR, 1.29, None)]
    + [(rules, u, r) for rules in (ARXIV_A, ARXIV_B) for u, r in ((0.6, 0.25), (1.5, 0.25), (0.7, 0.5), (1.3, 0.5))]
    + [(ARXIV_A, 0.49, None), (ARXIV_A, 1.71, None)],
)
def test_vocabulary_reward(rules, ratio, reward):
    found = rules.vocabulary.credit(ratio)
    assert found is None if reward is None else 0.5 * found == pytest.approx(reward, abs=1e-9)


@pytest.mark.parametrize(("categories", "credit"), [(0, 0.0), (1, 0.4), (4, 0.55), (12, 0.95)])
def test_transition_credit(categories, credit):
    assert transition_credit(categories) == pytest.approx(credit)


def test_the_highest_reward_is_below_three():
    assert pytest.approx(2.98) == HIGHEST == 2.0 + style_reward(transition_credit(12), 1.0)


@pytest.mark.parametrize(
    ("first", "second", "reward"),
    [
        (text(8, 100, 8), text(30, 200, 16), 2.0),
        (text(8, 100, 8), text(30, 501, 16), 0.5),
        # At a ratio of 5.0 and of 1.1 the level earns nothing, and the next levels count still.
        (text(8, 100, 8), text(30, 500, 16), 1.0),
        (text(8, 100, 8), text(20, 110, 16), 1.0),
        (text(8, 100, 8), text(20, 135, 16), 1.5),
        (text(10, 100, 10), text(30, 200, 13), 1.5),
        (text(10, 100, 10), text(30, 200, 12), 1.5),
        (text(7, 100, 7), text(30, 200, 16), 0.0),
        (text(8, 100, 8), text(257, 1300, 16), 0.0),
        ("", "", 0.0),
        ("! ! ! ! ! ! ! !", text(8, 40, 8), 1.5),
    ],
)
def test_tldr_totals_without_style(first, second, reward):
    found = judged(first, second, TLDR)
    assert sum(found.terms[:3]) == pytest.approx(reward, abs=1e-9)


@pytest.mark.parametrize(("distinct", "opened"), [(12, False), (13, True)])
def test_a_vocabulary_ratio_of_1_3_goes_on_to_the_style(distinct, opened):
    found = judged(text(10, 100, 10), text(30, 200, distinct), TLDR)
    assert (found.terms[3] > 0.0) is opened and found.ungated[3] == pytest.approx(0.6)


@pytest.mark.parametrize(("rules", "share", "credit"), [(ARXIV_A, 0.115, 0.5), (TLDR, 0.015, 0.5), (TLDR, 0.5, 1.0)])
def test_jaccard_reward(rules, share, credit):
    union = 200
    common = round(union * share)
    names = [f"z{chr(97 + i // 26)}{chr(97 + i % 26)}v" for i in range(union)]
    middle = (union + common) // 2
    found = judged(" ".join(names[:middle]), " ".join(names[middle - common :]), rules)
    assert found.jaccard == pytest.approx(share) and found.jaccard_reward == pytest.approx(credit)


def test_no_content_words_at_all_count_as_equal():
    found = judged("the " * 8, "of the " * 8, TLDR)
    assert found.jaccard == found.jaccard_reward == 1.0


def test_transitions_count_in_the_second_text_of_tldr_and_in_both_of_arxiv():
    plain = text(130, 700, 40)
    styled = f"{plain} {' '.join(PHRASES)}"
    assert judged(styled, plain, TLDR).categories == 0
    assert judged(plain, styled, TLDR).categories == 12
    assert judged(styled, plain, ARXIV_A).categories == judged(plain, styled, ARXIV_A).categories == 12
    # Both texts are joined without a space, as published: "th" + "us" is a transition.
    assert judged("q th", "us q", ARXIV_A).categories == 1


def test_limits_on_words_are_inclusive():
    for words, fits in ((127, False), (128, True), (256, True), (257, False)):
        one = text(words, 2000, 60)
        assert (judged(one, one, ARXIV_A).terms[0] == 0.5) is fits


@given(st.text(max_size=400), st.text(max_size=400))
def test_rewards_stay_in_range_and_never_exceed_the_ungated(first, second):
    for rules in (TLDR, ARXIV_A, ARXIV_B, tldr.Tldr(min_words=1).rules):
        found = judged(first, second, rules)
        assert 0.0 <= found.reward <= HIGHEST
        assert all(0.0 <= term <= free + 1e-12 for term, free in zip(found.terms, found.ungated, strict=True))
        assert all(map(math.isfinite, (found.ratio, found.unique_ratio, found.jaccard)))
