"""Scores by hand: golden vectors, numbers in the forms that models write, yes and no, letters."""

import json
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs.qa.normalize import is_number
from comlrl_envs.qa.numbers import extract_number, official_correct
from comlrl_envs.qa.scorers import SCORERS, letter, polarity
from comlrl_envs.qa.support import hotpotqa_support, musique_support, twowiki_support

NAMES = ("squad_v1", "musique", "hotpotqa", "triviaqa", "drop")
# prediction, gold, and EM/F1 of SQuAD 1.1, of SQuAD 2.0 and MuSiQue, of HotpotQA, of TriviaQA, of DROP
VECTORS = [
    ("The Eiffel Tower", "Eiffel Tower", "1/1 1/1 1/1 1/1 1/1"),
    ("Eiffel Tower in Paris", "Eiffel Tower", "0/.667 0/.667 0/.667 0/.667 0/.67"),
    ("yes", "yes", "1/1 1/1 1/1 1/1 1/1"),
    ("Yes.", "yes", "1/1 1/1 1/1 1/1 1/1"),
    ("Yes, they were", "yes", "0/.5 0/.5 0/0 0/.5 0/.5"),
    ("no", "yes", "0/0 0/0 0/0 0/0 0/0"),
    ("yes", "Yes Minister", "0/.667 0/.667 0/0 0/.667 0/.67"),
    ("Yes Minister", "yes", "0/.667 0/.667 0/0 0/.667 0/.67"),
    ("", "Paris", "0/0 0/0 0/0 0/0 0/0"),
    ("", "", "1/0 1/1 1/0 1/0 1/1"),
    ("the", "the", "1/0 1/1 1/0 1/0 1/1"),
    ("Paris Paris Paris", "Paris", "0/.5 0/.5 0/.5 0/.5 0/1"),
    ("Paris, London or Rome", "Paris", "0/.4 0/.4 0/.4 0/.4 0/.4"),
    ("New-York", "New York", "0/0 0/0 0/0 1/1 1/1"),
    ("U.S.", "US", "1/1 1/1 1/1 0/0 1/1"),
    ("U. S.", "US", "0/0 0/0 0/0 0/0 0/0"),
    ("O’Brien", "O'Brien", "0/0 0/0 0/0 1/1 0/0"),
    ("O'Brien", "OBrien", "1/1 1/1 1/1 0/0 1/1"),
    ("Café", "Cafe", "0/0 0/0 0/0 0/0 0/0"),
    ("1,200", "1200", "1/1 1/1 1/1 0/0 1/1"),
    ("1200.0", "1200", "0/0 0/0 0/0 0/.667 1/1"),
    ("10", "10.0", "0/0 0/0 0/0 0/.667 1/1"),
    ("ten", "10", "0/0 0/0 0/0 0/0 0/0"),
    ("$5", "5", "1/1 1/1 1/1 1/1 1/1"),
    ("5%", "5 percent", "0/.667 0/.667 0/.667 0/.667 0/.67"),
    ("March 3, 1990", "3 March 1990", "0/1 0/1 0/1 0/1 0/1"),
    ("1990", "in 1990", "0/.667 0/.667 0/.667 0/.667 0/.67"),
    ("A", "a", "1/0 1/1 1/0 1/0 1/1"),
    ("A Tale of Two Cities", "Tale of Two Cities", "1/1 1/1 1/1 1/1 1/1"),
    ("unanswerable", "", "0/0 0/0 0/0 0/0 0/0"),
    ("noanswer", "noanswer", "1/1 1/1 1/1 1/1 1/1"),
]
FORMS = {
    "#### {}": True,
    "{}": False,
    "{}.00": False,
    "${}": False,
    "{}%": False,
    "{} units": False,
    "**{}**": False,
    "\\boxed{{{}}}": False,
    "The answer is {}.": False,
    "The total is {} clips, altogether.": False,
    "answer: {}": False,
    "First 3, then 4.\n#### {}\nSo 7 of them.": True,
}
"""Ways to write a number, and whether the set's own rule reads them."""


@pytest.mark.parametrize(("prediction", "gold", "expected"), VECTORS)
def test_golden_vectors(prediction, gold, expected):
    for name, pair in zip(NAMES, expected.split(), strict=True):
        em, f1 = map(float, pair.split("/"))
        score = SCORERS[name](prediction, [gold])
        assert (score.em, score.f1) == (em, pytest.approx(f1, abs=5e-4)), name
    twice = SCORERS["squad_v2"](prediction, [gold])
    assert twice == SCORERS["musique"](prediction, [gold])


def test_supporting_facts():
    both = [("A", 0), ("B", 1)]
    assert hotpotqa_support(both, both).em == hotpotqa_support([*both, *both], both).em == 1
    assert hotpotqa_support(both[:1], both).f1 == pytest.approx(2 / 3)
    assert hotpotqa_support([], both).f1 == hotpotqa_support([("a", 0)], [("A", 0)]).f1 == 0
    assert twowiki_support([("a", 0)], [("A", 0)]).f1 == 1
    assert musique_support(["3"], [3]).em == 1


@pytest.mark.parametrize(("form", "official"), FORMS.items())
@pytest.mark.parametrize("number", ["5", "-12", "1200", "1,234,567", "0", "70000"])
def test_a_number_is_read_in_each_form(form, official, number):
    assert SCORERS["gsm8k"](form.format(number), [f"#### {number}"]).em == 1
    assert official_correct(form.format(number), f"#### {number}") == official


@pytest.mark.needs_data("gsm8k/test.jsonl")
@pytest.mark.parametrize("form", FORMS)
def test_every_gold_number_is_read_in_each_form(data_dir, form):
    lines = (data_dir / "gsm8k/test.jsonl").read_text(encoding="utf-8").splitlines()
    golds = [json.loads(line)["answer"].rsplit("#### ", 1)[1] for line in lines]
    assert len(golds) == 1319
    assert all(SCORERS["gsm8k"](form.format(gold), [f"#### {gold}"]).em == 1 for gold in golds)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3/4", None),
        ("12 / 4", None),
        ("1e3", None),
        ("2^10", None),
        ("no number", None),
        ("", None),
        ("x2 and B12", None),
        ("5-3", "3"),
        ("-$18.50", "-18.50"),
        ("$-18.50", "-18.50"),
        ("+7", "7"),
        ("18.", "18"),
        ("1,200.", "1200"),
        ("It is 5 or 6", "6"),
        ("\\boxed{5} and \\boxed{{6} pens}", "6"),
        ("\\boxed{7 is left open", "7"),
        ("the answer is 4, not 5", "4"),
        ("Answer: $1,000.50 in all 3 months", "1000.50"),
        ("#### 18 and then #### 19", "18"),
        ("#### $18", "18"),
        ("٣", None),
    ],
)
def test_what_is_a_number(text, number):
    assert extract_number(text) == (None if number is None else Decimal(number))


def test_numbers_are_compared_by_value():
    assert SCORERS["gsm8k"]("42.0", ["42"]).em == SCORERS["gsm8k"]("42.0000001", ["42"]).em == 1
    assert SCORERS["gsm8k"]("42.1", ["42"]).em == SCORERS["gsm8k"]("-42", ["42"]).em == 0


@given(st.text(max_size=200), st.lists(st.text(max_size=50), min_size=1, max_size=3))
def test_any_text_has_a_score_between_0_and_1(prediction, golds):
    for name, scorer in SCORERS.items():
        score = scorer(prediction, golds)
        assert 0 <= score.em <= 1 and 0 <= score.f1 <= 1, name
        assert scorer(prediction, golds) == score


@pytest.mark.parametrize("piece", ["1", "1,", "answer ", "answer: ", "\\boxed{", "#### ", "1 ", "a ", "-", "$", "{"])
def test_a_megabyte_takes_a_moment(piece):
    text = piece * (1_000_000 // len(piece))
    start = time.process_time()
    for name in ("gsm8k", "hotpotqa", "yesno", "choice"):
        SCORERS[name](text, ["1"])
    assert time.process_time() - start < 3


def test_yes_and_no_are_whole_answers():
    assert [polarity(text) for text in ("Yes.", "TRUE", "no!", "incorrect", "I know", "no, yes", "", "not")] == [
        "yes", "yes", "no", "no", "", "", "", "",
    ]  # fmt: skip
    assert SCORERS["yesno"]("True", ["yes"]).em == 1 and SCORERS["yesno"]("", [""]).em == 0


def test_a_choice_is_one_letter():
    assert [letter(text) for text in ("B", "(b)", "b.", "B) ", " c: ", "B or C", "Bob", "")] == [
        "B", "B", "B", "B", "C", "", "", "",
    ]  # fmt: skip
    assert SCORERS["choice"]("(b)", ["B"]).em == 1 and SCORERS["choice"]("", [""]).em == 0


def test_scorers_are_fast():
    start = time.process_time()
    for _ in range(200):
        for prediction, gold, _ in VECTORS:
            SCORERS["hotpotqa"](prediction, [gold])
    assert 200 * len(VECTORS) / (time.process_time() - start) > 5_000


@given(st.text(alphabet="-+$0123456789.,/%#^{} \\boxeanswris:=*", max_size=60))
def test_any_text_has_a_number_or_none(text):
    found = extract_number(text)
    assert found is None or (found.is_finite() and extract_number(f"#### {found:f}") == found)
    assert SCORERS["gsm8k"](text, ["7"]).em in (0.0, 1.0)


@pytest.mark.parametrize("text", ["-$-5", "+-5", "--5", "$-5", "-$5"])
def test_a_number_has_one_sign(text):
    assert extract_number(text) == -5


def test_long_answers_neither_break_nor_stall_a_scorer():
    start = time.process_time()
    for text in ("9" * 1_000_001, " " * 20_000 + "x", "( " * 10_000, "\\boxed{" + "{" * 100_000):
        for scorer in SCORERS.values():
            assert scorer(text, ["12"]).em == 0.0
    assert extract_number("9" * 301) is None and extract_number("9" * 300) is not None
    assert time.process_time() - start < 5


@given(st.text(alphabet="naifNAIFty1e_. +-\t\n\x1c\u0663x", max_size=10))
def test_what_is_a_number_is_what_float_takes(text):
    try:
        float(text)
    except ValueError:
        assert not is_number(text)
    else:
        assert is_number(text)
