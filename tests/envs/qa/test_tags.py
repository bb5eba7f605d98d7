"""Replies of any kind as they count."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs.qa.tags import ANSWER, MESSAGE, Limits, read, without
from comlrl_envs.tagged_text import shown

LIMITS = Limits()


@pytest.mark.parametrize(
    ("reply", "message", "answer", "errors"),
    [
        ("", "", None, 0),
        ("Paris", "", None, 0),
        ("<message>hi</message><answer>Paris</answer>", "hi", "Paris", 0),
        ("<MESSAGE>hi</Message> so <Answer> Paris\n</ANSWER>", "hi", "Paris", 0),
        ("<think><answer>Rome</answer></think><answer>Paris</answer>", "", "Paris", 0),
        ("<think>a</think><answer>Rome</answer></think>", "", None, 0),
        ("<answer>Paris</answer> <answer>paris </answer>", "", "paris", 0),
        ("<answer>-5</answer> <answer>5</answer>", "", None, 1),
        ("<answer>n < 5</answer>", "", "n < 5", 0),
        ("<me\u017f\u017fage>hi</me\u017f\u017fage>", "", None, 0),
        ("<answer>Paris</answer> <answer>Rome</answer>", "", None, 1),
        ("<answer>Paris", "", "Paris", 1),
        ("<message>a <answer>Paris</answer>", "a", "Paris", 1),
        ("<message>a<message>b</message>", "a‹message>b", None, 0),
        ("</answer>Paris<answer>", "", "", 1),
        ("<answer>your answer</answer>", "", None, 0),
        ("<answer> </answer>", "", "", 0),
        ("<answer>Your answer</answer><answer>Paris</answer>", "", "Paris", 0),
        ("<message>[reader_2] I am sure\n\nTurn 3 of 3.</message>", "[reader_2] I am sure Turn 3 of 3.", None, 0),
        ("<message>a\u2028b\x00c\x1b[2J</message>", "a b c [2J", None, 0),
        ("<message>x</message><message>y</message>", "x y", None, 0),
    ],
)
def test_what_counts(reply, message, answer, errors):
    said = read(reply, LIMITS)
    assert (said.message, said.answer, len(said.errors)) == (message, answer, errors)


def test_parts_are_cut_and_it_is_said():
    said = read(f"<message>{'m' * 700}</message><answer>{'a ' * 40}</answer>", LIMITS)
    assert said.message == "m" * 600 and said.overlong and said.answer == "a " * 29 + "a" and len(said.errors) == 2
    cited = read("<evidence>" + "; ".join(f"D{n}:0" for n in range(12)) + "</evidence>", LIMITS)
    assert len(cited.evidence) == 10 and len(cited.errors) == 1


def test_evidence():
    said = read("<evidence>D3:0; d7 : 2, D4\nD3:0; D999999999:1; x</evidence>", LIMITS)
    assert said.evidence == ((3, 0), (7, 2), (4, None)) and len(said.errors) == 1


def test_blanking_keeps_the_other_parts():
    reply = "hm <message>D3 says Rome</message><answer>Rome</answer>"
    blanked = read(without(reply, MESSAGE), LIMITS)
    assert (blanked.message, blanked.answer) == ("", "Rome")
    assert read(without(reply, MESSAGE, ANSWER), LIMITS).answer == ""
    thought = "<answer>Rome</answer></think><answer>Paris</answer>"
    assert read(without(thought, MESSAGE), LIMITS).answer == "Paris"


@given(st.text(alphabet="<>/messageanswer \n\0‹", max_size=300))
def test_any_text_can_be_read_and_nothing_shown_holds_a_tag(reply):
    said = read(reply, LIMITS)
    assert "<" not in said.message and "\n" not in said.message
    assert len(said.message) <= 600 and shown(said.message) == said.message


PIECES = ["<message>", "</message>", "<answer>", "</answer>", "</think>", "<evidence>", "<select>", "D1:0", "x", " "]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_blanking_empties_the_message_and_nothing_else(reply):
    said, blanked = read(reply, LIMITS), read(without(reply, MESSAGE), LIMITS)
    assert blanked.message == "" and blanked.evidence == said.evidence
    assert blanked.parts.keys() == said.parts.keys()
    assert (blanked.answer is None) == (said.answer is None)
    assert shown(blanked.answer or "") == shown(said.answer or "")
    assert len(blanked.errors) == len(said.errors)


def test_many_mistakes_of_a_kind_are_told_once():
    (error,) = read(f"<evidence>{'x;' * 16_000}</evidence>", LIMITS).errors
    assert error == "16000 of the facts you cited did not count: write D3:0; D7:2"


@pytest.mark.parametrize("piece", ["<answer>", "</answer>", "<message>a</message>", "</think>", "D1:1;", "<", "\u202e"])
def test_a_megabyte_takes_a_moment(piece):
    text = "<evidence>" + piece * (1_000_000 // len(piece))
    start = time.process_time()
    read(text, LIMITS)
    without(text, MESSAGE)
    assert time.process_time() - start < 5
