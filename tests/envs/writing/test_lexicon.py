import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs.writing import lexicon
from comlrl_envs.writing.lexicon import FUNCTION_WORDS, STOP_WORDS, TRANSITIONS, categories_by_substring, phrases_in

SIZES = {
    "elaboration": 21, "examples": 22, "explanation": 22, "cause_effect": 26, "contrast": 29, "sequence": 33,
    "emphasis": 24, "summary": 21, "comparison": 17, "concession": 19, "condition": 19, "time": 26,
}  # fmt: skip


def found(text):
    return [(tuple(lexicon.tokens(text)[a:b]), set(names)) for a, b, names in phrases_in(lexicon.tokens(text))]


def test_sizes_follow_the_published_lists():
    assert {name: len(set(phrases)) for name, phrases in TRANSITIONS.items()} == SIZES
    assert len(STOP_WORDS) == 106 and STOP_WORDS < FUNCTION_WORDS
    assert all(phrase == phrase.lower().strip() for phrases in TRANSITIONS.values() for phrase in phrases)


def test_every_phrase_is_found_with_all_its_categories():
    for phrase in {phrase for phrases in TRANSITIONS.values() for phrase in phrases}:
        names = {name for name, phrases in TRANSITIONS.items() if phrase in phrases}
        assert found(phrase)[0] == (tuple(lexicon.tokens(phrase)), names), phrase
        assert categories_by_substring(f"xx{phrase.upper()}xx") >= len(names)


def test_by_word_nothing_is_found_inside_other_words():
    words = "A person was sober; butter and giftwrap, Whenceforth nowhere."
    assert categories_by_substring(words) >= 3 and found(words) == []


def test_the_longest_phrase_at_a_place_is_taken_and_phrases_do_not_overlap():
    assert [phrase for phrase, _ in found("As a result of this, rather than so that it is")] == [
        ("as", "a", "result"), ("rather", "than"), ("so", "that"),
    ]  # fmt: skip
    assert [phrase for phrase, _ in found("and then after that even if")] == [
        ("and", "then"), ("after", "that"), ("even", "if"),
    ]  # fmt: skip


@given(st.lists(st.sampled_from(sorted({w for ps in TRANSITIONS.values() for p in ps for w in lexicon.tokens(p)}))))
def test_phrases_stand_in_order_and_apart(words):
    spans = [(start, end) for start, end, _ in phrases_in(words)]
    assert all(0 <= a < b <= len(words) for a, b in spans)
    assert all(b <= c for (_, b), (c, _) in itertools.pairwise(spans))
    whole = {tuple(lexicon.tokens(p)) for ps in TRANSITIONS.values() for p in ps}
    assert all(tuple(words[a:b]) in whole for a, b in spans)
    assert all(re.fullmatch(r"\w+", word) for word in words)
