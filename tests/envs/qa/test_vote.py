"""Which answers are equal, and what most say, whatever their order."""

import itertools

import pytest

from comlrl_envs.qa.tags import Limits
from comlrl_envs.qa.vote import agreed, canonical, most_agreed, most_said


@pytest.mark.parametrize(
    ("scorer", "equal"),
    [
        ("gsm8k", ["1200", "$1,200.00", "1200.0", "#### 1200", "The answer is 1,200 clips."]),
        ("gsm8k", ["0", "-0", "0.00", "+0"]),
        ("gsm8k", ["-3.5", "-3.50", "$-3.5"]),
        ("yesno", ["yes", "True.", "YES"]),
        ("choice", ["B", "(b)", "b."]),
        ("squad_v1", ["The Alps", "alps", "alps!"]),
    ],
)
def test_equal_answers_have_one_form(scorer, equal):
    assert len({canonical(answer, scorer) for answer in equal}) == 1
    assert agreed(equal, scorer)


@pytest.mark.parametrize(
    ("scorer", "one", "other"),
    [("gsm8k", "10", "100"), ("gsm8k", "1" * 30, "1" * 29 + "2"), ("gsm8k", "0.5", "-0.5"), ("choice", "A", "B")],
)
def test_others_have_not(scorer, one, other):
    assert canonical(one, scorer) != canonical(other, scorer)


def test_no_answer_is_a_vote_for_none_and_nobody_agrees_on_it():
    assert most_said(["", "", "7"]) == {""} and most_said(["", "7", "8"]) == {"", "7", "8"}
    assert not agreed([None, "know"], "yesno")


def test_the_majority_does_not_depend_on_the_order():
    replies = ["<answer>7</answer>", "<answer>8</answer>", "<answer>8.0</answer>", "hm", "<answer>9</answer>"]
    for order in itertools.permutations(replies):
        assert canonical(most_agreed(order, "gsm8k", Limits()), "gsm8k") == "8"
    tied = ["<answer>b</answer>", "<answer>a</answer>"]
    assert most_agreed(tied, "choice", Limits()) == most_agreed(tied[::-1], "choice", Limits()) == tied[1]
    assert most_agreed(["x", ""], "choice", Limits()) == "x"


def test_free_answers_that_share_most_words_count_as_one():
    same = "the red brick house by the old river bank of our town on a hill"
    replies = [f"<answer>{text}</answer>" for text in ("a barn", "a barn", same, f"{same} top", f"{same} side")]
    assert "house" in most_agreed(replies, "squad_v1", Limits())
