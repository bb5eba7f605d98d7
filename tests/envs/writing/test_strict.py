import dataclasses
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs.writing import arxiv, tldr
from comlrl_envs.writing.strict import read, read_source, score_strict, wanted_words

SOURCE = (
    "Our old oven broke on the day of the village feast. My brother carried the dough to the baker, who had gone "
    "fishing. In the end we fried flat bread over a fire behind the barn, and the guests asked for more until midnight."
)
RULES = tldr.Tldr(reward="strict").rules
HONEST = (
    "The oven broke before the feast, so the bread was fried over a fire.",
    "When their oven broke on the feast day, a brother took the dough to the baker. However, the baker was fishing "
    "that day. Therefore the family fried flat bread behind the barn. In the end, all the guests asked for bread "
    "again.",
)


def counted(text, source=SOURCE):
    return read(text, read_source(source)).counted_words


def test_an_honest_pair_earns_most_of_what_there_is():
    found = score_strict(*HONEST, SOURCE, RULES)
    assert found.reward > 2.5
    assert found.terms[0] == pytest.approx(0.5)
    assert found.texts[0].counted_words == found.texts[0].words


def test_the_same_pair_about_something_else_earns_next_to_nothing():
    other = "Prices of copper fell last week after mines in the north had reopened sooner than analysts expected."
    assert score_strict(*HONEST, other, RULES).reward < 0.2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The oven broke before the feast.", 6),
        ("The oven broke before the feast. The guests fried", 6),
        ("The oven broke before the feast. The oven broke before the feast.", 6),
        ("The oven broke before the feast. But the oven broke. However, the oven broke.", 10),
        ("The oven broke before the", 0),
        ("The oven broke of the.", 0),
        ("Oven the of broke feast.", 0),
        ("The oven broke my in-laws.", 5),
        ("Oven feast brother dough baker fishing bread fire barn.", 0),
        ("Oven feast brother, dough baker with fishing bread, fire barn guests.", 0),
        ("It is what it is. That is it.", 5),
        ('He said "the oven broke." They agreed (with the baker!) Bread was fried.', 13),
        ("", 0),
        ("...", 0),
    ],
)
def test_which_sentences_count(text, words):
    assert counted(text) == words


@pytest.mark.parametrize(
    "sentence",
    [
        "I am too shy to enter the tango class that I have long dreamed of.",
        "They asked where the money came from.",
        "The room I slept in is cold, and I have nowhere to go to.",
        "The shop he works at is closed.",
        "The exam I studied for was hard.",
        "The people I work with are kind, and the one I asked for is here.",
        "He was told to and did, because and only because it was late.",
        "What she dreamed of she got, and all that he hoped for of course.",
        "This is a must have.",
        "My will was read.",
        "The can of beans fell.",
        "And of course they won.",
        "It comes with or without a lid, by and large.",
        "Vitamin A and D help.",
        "Distances between a and b are small.",
        "The US economy grew, and the so called experts of the IT department left.",
        "An a priori bound holds.",
        "A European met a one-off MP for an hour in an R-rated unit.",
        "I read The Times and heard The Who.",
        'He said "The oven broke."',
        "Farmers in Egypt, Kenya, Sudan, Chad, Mali, Niger and Libya lose camels.",
    ],
)
def test_correct_sentences_count(sentence):
    assert counted(sentence) == len(sentence.split())


@pytest.mark.parametrize(
    "sentence",
    [
        "The guests fried bread and the.",
        "The guests fried bread because.",
        "They met the with bread.",
        "THEY MET THE WITH BREAD.",
        "They met because was bread.",
        "They met a oven.",
        "They fried an bread.",
        "They fried bread The guests asked.",
        " ".join(["They fried it with bread"] * 13) + ".",
    ],
)
def test_broken_sentences_do_not_count(sentence):
    assert counted(sentence) == 0


def test_copies_of_more_than_twelve_words_do_not_count():
    words = SOURCE.split()
    assert counted(" ".join(words[1:13]) + ".") == 12
    assert counted(" ".join(words[1:14]) + ".") == 0
    assert counted("Then " + " ".join(words[11:24]) + " again. The guests liked the bread.") == 5
    assert counted(SOURCE) == counted(SOURCE.upper()) == 0


def test_a_sentence_of_the_first_text_does_not_count_in_the_second():
    rules = arxiv.Arxiv(reward="strict", min_words=8).rules
    found = score_strict(HONEST[1], HONEST[1], SOURCE, rules)
    assert found.texts[1].counted_words == 0 and found.reward < 0.3


@pytest.mark.parametrize(
    ("second", "categories"),
    [
        ("However, the baker was fishing.", 1),
        ("The dough rose, but the baker was fishing.", 1),
        ("However, but, therefore the baker was fishing.", 1),
        ("However, the baker was fishing. Therefore, the bread was fried.", 2),
        ("However, he was away.", 0),
        ("The baker was away however.", 0),
        ("Indeed. The baker was fishing.", 0),
        ("A person sat with the baker.", 0),
        ("However, the baker was", 0),
    ],
)
def test_which_transitions_count(second, categories):
    assert score_strict(HONEST[0], second, SOURCE, RULES).categories == categories


def test_structure_falls_in_proportion_to_what_is_cut_off():
    def structure(text):
        return score_strict(text, HONEST[1], SOURCE, RULES).ungated[0]

    whole = "The oven broke before the feast day. The brother took the dough away."
    cut = f"{whole} The guests fried bread over fire behind the barn and asked more"
    assert structure(cut) - structure("") == pytest.approx((structure(whole) - structure("")) * 13 / 25, rel=1e-9)


def test_below_the_least_words_credit_grows_in_proportion():
    def structure(text):
        return score_strict(text, "", SOURCE, RULES).ungated[0]

    four, eight = structure("The oven broke again."), structure("The oven broke at the old village feast.")
    assert 0.0 < four == pytest.approx(eight / 2)


def test_too_long_a_text_loses_its_credit_slowly():
    rules = dataclasses.replace(RULES, max_words=40)
    text = " ".join(f"The oven broke {word} the feast {n}." for n in range(1, 40) for word in ["before"])
    assert score_strict(text, HONEST[1], SOURCE, rules).terms[1] == 0.0


def test_wanted_words_scale_with_the_text_and_the_source():
    assert [wanted_words(n, 100, RULES) for n in (0, 8, 60, 256)] == [2, 2, 10, 43]
    assert wanted_words(256, 17, RULES) == 9 and wanted_words(0, 1, RULES) == 1


def test_a_source_without_content_words_earns_no_more_than_form():
    assert score_strict(*HONEST, "It is what it is.", RULES).reward <= 0.1


words = st.lists(
    st.sampled_from([*SOURCE.split(), "However,", "and", "ice.", "Yes!", "\n\n", "\u202e", "\x00", "名前。"])
)


@given(words.map(" ".join) | st.text(max_size=300), words.map(" ".join) | st.text(max_size=300))
def test_rewards_stay_in_range_and_are_the_same_twice(first, second):
    for rules in (RULES, arxiv.Arxiv(reward="strict").rules):
        found = score_strict(first, second, SOURCE, rules)
        assert 0.0 <= found.reward <= 3.0 and min(found.terms) >= 0.0
        assert score_strict(first, second, SOURCE, rules) == found
        assert 0.0 <= sum(found.ungated) <= 3.0


def test_looking_for_copies_takes_time_in_proportion_to_the_source():
    def seconds(count):
        source = " ".join(f"word{n % 997} of the" for n in range(count // 3))
        began = time.process_time()
        score_strict(source[:28_000], source[9:28_000], source, RULES)
        return time.process_time() - began

    seconds(1000)
    small, large = seconds(15_000), seconds(150_000)
    assert large < 40 * small and large < 8.0


def test_long_hostile_texts_are_read_in_reasonable_time():
    for text in (
        "." * 32_000,
        "\n" * 32_000,
        ". " * 16_000,
        "the " * 8_000,
        "a" * 32_000,
        "\"'" * 16_000,
        "! \n " * 8_000,
        "w'" * 16_000,
        "the of " * 5_000,
    ):
        score_strict(text, text, text, RULES)
