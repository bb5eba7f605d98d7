import re

import pytest

from comlrl_envs.coding import feedback
from comlrl_envs.coding.class_merge import merge, read_reply
from comlrl_envs.coding.class_skeleton import methods_by_test, read_skeleton
from comlrl_envs.coding.replies import extract
from comlrl_envs.coding.scoring import team_facts
from comlrl_envs.coding.test_blocks import Split
from comlrl_envs.errors import OptionError
from comlrl_envs.sandbox.jobs import TestResult, Verdict

AUX = "def aux(n):\n    return n * n\n"
TEAM = "def f(n):\n    square = aux(n)\n    return square + 1\n"
IGNORES = "def f(n):\n    aux(n)\n    aux(n)\n    aux(n)\n    return n\n"
SPLIT = Split(("assert f(77) == 7777\n",), tuple(f"assert f({i}) == {i}\n" for i in range(6)), True)
WHOLE = Split(("assert f(77) == 7777\n",), ("assert f(77) == 7777\n",), False)


def facts(main=TEAM, aux=AUX):
    return team_facts({"aux": extract(aux)}, extract(main), "f")


def failed(count, message="7777 expected", actual="7776"):
    return tuple(TestResult(str(i), "failed", "AssertionError", message, actual) for i in range(count))


def verdict(*tests, problem=None):
    return Verdict(problem is None, problem, tests, "", False)


PASSED = tuple(TestResult(str(i), "passed", "", "", None) for i in range(6))


def told(mode, name="f", known=None, found=None, split=SPLIT):
    return feedback.function_feedback(mode, name, known or facts(), found, split)


def test_plain_says_nothing_of_the_code():
    assert told("plain") == told("plain", "aux", facts("", ""), verdict(*failed(6)))


def test_passed_is_one_sentence():
    assert told("passed", found=verdict(*PASSED)).startswith("All checks passed.")
    for known, found in ((facts(), verdict(*PASSED[:5], *failed(1))), (facts(""), None), (facts(), verdict())):
        assert told("passed", known=known, found=found).startswith("Not all checks passed.")


def test_levels_tell_each_agent_of_its_own_function():
    main = told("levels", found=verdict(*PASSED[:2], *failed(4)))
    assert "Your function f: found." in main and "2 of 6 passed" in main and "Use of aux: called and used." in main
    helper = told("levels", "aux", facts(TEAM, ""), verdict(*failed(6)))
    assert "Your function aux: none found" in helper and "none passed" in helper and "Use of" not in helper
    assert "there are none" in told("levels", found=verdict())
    assert "not run" in told("levels", known=facts("def f(n:\n    return n"))


@pytest.mark.parametrize(
    ("main", "aux", "expected"),
    [
        (TEAM, AUX, "Your use of aux: called and used."),
        (TEAM, "", "Your teammate's function aux: missing"),
        ("def f(n):\n    return n", AUX, "never called"),
        (IGNORES, AUX, "The value of aux(…) in line 3 of the main code is thrown away."),
        ("def f(n):\n    return aux(n)", AUX, "only passes a helper's work on"),
        ("text\ndef f(n):\n    return (n", AUX, "(line 3, column"),
        ("def f(n):\n    print(n)", AUX, "no return of its own"),
    ],
)
def test_a_diagnosis_names_what_is_wrong(main, aux, expected):
    known = facts(main, aux)
    text = told("diagnosis", known=known, found=verdict(*failed(6)) if known.runs else None)
    assert expected in text
    assert text.count("thrown away") <= feedback.MOST_REASONS


def test_a_diagnosis_shows_feedback_tests_that_fail_with_the_value():
    late = TestResult("5", "timeout", "", "", None)
    text = told("diagnosis", found=verdict(PASSED[0], *failed(4, "no", "3"), late))
    assert "assert f(1) == 1" in text and "It ended in AssertionError: no. The value was 3." in text
    assert "assert f(0) == 0" not in text and "1 more do not pass." in text
    assert "too long" in told("diagnosis", found=verdict(*PASSED[:5], late))
    assert "stopped before any test: NameError" in told("diagnosis", found=verdict(problem="NameError: x"))


def test_defect_feedback_showed_assertions_that_score():
    for mode in feedback.FUNCTION_MODES:
        for name in ("aux", "f"):
            for split, found in ((SPLIT, verdict(*failed(6, "no", None))), (WHOLE, verdict(*failed(1)))):
                text = told(mode, name, found=found, split=split)
                assert "77" not in text
    assert "none passed" in told("diagnosis", found=verdict(*failed(1)), split=WHOLE)


def test_long_tests_and_messages_are_cut():
    block = f"assert f({'1' * 5000}) == 1\n"
    text = told("diagnosis", found=verdict(*failed(1, "m" * 5000, "v" * 5000)), split=Split((), (block,), True))
    assert len(text) < 2000


def test_neither_agent_is_shown_the_others_code():
    for mode in feedback.FUNCTION_MODES:
        assert "n * n" not in told(mode, "f", found=verdict(*failed(6)))
        assert "square" not in told(mode, "aux", found=verdict(*failed(6)))


def test_an_unknown_mode_is_told_with_the_nearest():
    with pytest.raises(OptionError, match="Did you mean 'levels'"):
        told("level")
    with pytest.raises(OptionError, match="Did you mean 'group'"):
        feedback.class_feedback("groups", "a", class_facts()[0], None)


SKELETON = "class Box:\n    def __init__(self):\n        self.items = []\n" + "".join(
    f'    def {name}(self):\n        """Do."""\n' for name in ("add", "pop", "size", "clear")
)
TEST = (
    "import unittest\nclass BoxTest(unittest.TestCase):\n"
    "    def test_add(self):\n        box = Box()\n        box.add(1)\n        self.assertEqual(box.size(), 7777)\n"
    "    def test_clear(self):\n        Box().clear()\n"
)


def class_facts():
    skeleton = read_skeleton(SKELETON)
    written = {
        "a": read_reply("def add(self):\n    return 1\ndef pop(self):\n    return 2\n", skeleton),
        "b": read_reply("def pop(self):\n    return 3\n\ndef size(self):\n    return (\n", skeleton),
    }
    known = feedback.class_facts(skeleton, written, merge(skeleton, written), methods_by_test(TEST, skeleton.targets))
    results = (
        TestResult("BoxTest.test_add", "failed", "AssertionError", "1 != 7777", None),
        TestResult("BoxTest.test_clear", "passed", "", "", None),
    )
    return known, verdict(*results)


def test_class_reports():
    known, found = class_facts()
    texts = {mode: feedback.class_feedback(mode, "b", known, found) for mode in feedback.CLASS_MODES}
    assert len(set(texts.values())) == len(texts)
    assert not any(re.search("7777|assertEqual", text) for text in texts.values())
    assert "1 of 2 passed" in texts["levels"] and "class compiles" in texts["levels"]
    assert "A failing test uses add, size and ended in AssertionError." in texts["diagnosis"]
    assert "Methods without code that compiles: size, clear." in texts["diagnosis"]
    assert "Your size does not compile" in texts["diagnosis"]
    assert "Your teammate a wrote 2 methods." in texts["group"] and "You wrote 2 methods." in texts["group"]
    assert "return 2" in texts["group"] and "return 2" not in texts["personal"]
    assert (
        "4 methods are to be written." in texts["personal"] and "Your teammate a wrote add, pop." in texts["personal"]
    )
    assert "Nobody wrote clear." in texts["personal"] and "both wrote pop" in texts["personal"]


def test_a_long_class_is_cut():
    skeleton = read_skeleton(SKELETON)
    written = {"a": read_reply(f"def add(self):\n    return '{'x' * 9000}'\n", skeleton)}
    known = feedback.class_facts(skeleton, written, merge(skeleton, written), {})
    assert len(feedback.class_feedback("group", "a", known, None)) < feedback.MOST_CODE_CHARACTERS + 500
