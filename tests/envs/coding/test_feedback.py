import re

import pytest

from comlrl_envs.coding import feedback
from comlrl_envs.coding.class_merge import class_facts as facts_of
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
        ("def f(n):\n    return aux(n)", AUX, "Your function comes to one return around aux; give it statements"),
        ("def f(n):\n    return aux(n) + 1", AUX, "Your function comes to one return around aux; give it statements"),
        ("def f(n):\n    m = aux(n)\n    return m", AUX, "Your function comes to one return around aux; give it"),
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


@pytest.mark.parametrize(
    ("main", "aux", "missing", "levels", "diagnosis", "lack"),
    [
        ("", AUX, "f", "none found.", "missing;", "f is missing"),
        (
            "def f(n):\n    n + 1",
            AUX,
            "f",
            "found, but it returns nothing.",
            "found, but it has no",
            "f returns nothing",
        ),
        (TEAM, "", "aux", "none found.", "missing;", ""),
        (TEAM, "def aux(n):\n    n + 1", "aux", "found, but it returns nothing.", "found, but it has no", ""),
    ],
)
def test_each_agent_learns_whose_function_is_missing(main, aux, missing, levels, diagnosis, lack):
    known = facts(main, aux)
    for name in ("aux", "f"):
        whose = "Your" if name == missing else "Your teammate's"
        for mode, state in (("levels", levels), ("diagnosis", diagnosis)):
            text = told(mode, name, known, verdict(*failed(6)) if known.runs else None)
            assert f"{whose} function {missing}: {state}" in text
            assert ("Tests: not run" in text) == (f"Tests: not run, {lack}." in text) == bool(lack)
            assert (f"Program: incomplete, {lack}." in text) == (mode == "diagnosis" and bool(lack))
    assert "teammate" not in told("levels", found=verdict(*failed(6)))


def test_levels_name_the_function_that_does_not_parse():
    known = facts("def f(n:\n    return n")
    for name in ("aux", "f"):
        text = told("levels", name, known)
        assert "Syntax: an error in f." in text and "Tests: not run, the program does not compile." in text


def test_only_a_thin_wrapper_is_told_so_and_which_helpers_it_is_around():
    assert "one return" not in told("diagnosis", found=verdict(*failed(6)))
    assert "one return" not in told("diagnosis", known=facts("def f(n):\n    m = aux(n)\n    return m + 1"))
    helpers = {name: extract(AUX.replace("aux", name)) for name in ("aux_1", "aux_2", "aux_3")}
    known = team_facts(helpers, extract("def f(n):\n    return aux_1(n) + aux_3(n)"), "f")
    assert "one return around aux_1 and aux_3;" in told("diagnosis", known=known, found=verdict(*PASSED))


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
    known = facts_of(skeleton, written, merge(skeleton, written), methods_by_test(TEST, skeleton.targets))
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
    assert "A failing test uses add, size and ends in AssertionError." in texts["diagnosis"]
    assert "Methods without code that compiles: size, clear." in texts["diagnosis"]
    assert "Your size does not compile" in texts["diagnosis"]
    assert (
        "Your teammate a wrote 2 methods." in texts["group"]
        and "You wrote 2 methods, of which size does not compile." in texts["group"]
    )
    assert "return 2" in texts["group"] and "return 2" not in texts["personal"]
    assert (
        "4 methods are to be written." in texts["personal"] and "Your teammate a wrote add, pop." in texts["personal"]
    )
    assert "Not written: clear." in texts["personal"]


def test_a_long_class_is_cut():
    skeleton = read_skeleton(SKELETON)
    written = {"a": read_reply(f"def add(self):\n    return '{'x' * 9000}'\n", skeleton)}
    known = facts_of(skeleton, written, merge(skeleton, written), {})
    assert len(feedback.class_feedback("group", "a", known, None)) < feedback.MOST_CODE_CHARACTERS + 500


ADD, POP, SIZE, CLEAR = (f"def {name}(self):\n    return {name!r}\n" for name in ("add", "pop", "size", "clear"))
TESTS = verdict(*PASSED)
CHECKED = ("levels", "diagnosis", "group", "personal")


def class_told(mode, agent, replies, found=TESTS, dealt=None, tests=TEST):
    skeleton = read_skeleton(SKELETON)
    written = {name: read_reply(reply, skeleton) for name, reply in replies.items()}
    merged = merge(skeleton, written, dealt)
    known = facts_of(skeleton, written, merged, methods_by_test(tests, skeleton.targets), dealt)
    return feedback.class_feedback(mode, agent, known, found)


def test_all_checks_of_a_class_are_methods_tests_and_no_method_written_twice():
    whole = {"a": ADD + POP, "b": SIZE + CLEAR}
    assert class_told("passed", "a", whole).startswith("All checks passed.")
    assert class_told("passed", "a", {**whole, "a": ADD + POP + SIZE}).startswith("Not all checks passed.")
    assert class_told("passed", "a", {**whole, "b": SIZE}).startswith("Not all checks passed.")
    assert class_told("passed", "a", whole, verdict(*failed(1))).startswith("Not all checks passed.")


@pytest.mark.parametrize("mode", CHECKED)
def test_methods_that_are_written_twice_are_named_to_everybody(mode):
    replies = {"a": ADD + POP, "b": POP + SIZE, "c": CLEAR}
    both = "You and a teammate both wrote pop; leave each method to one of you."
    first, second, third = (class_told(mode, agent, replies) for agent in "abc")
    assert both in first and "was taken" not in first
    assert both in second and "A teammate's code was taken for pop, not yours." in second
    assert "More than one teammate wrote pop." in third and "both wrote" not in third
    assert all("all passed" in text for text in (first, second, third))
    assert "both wrote" not in class_told(mode, "b", {**replies, "b": SIZE})


DEALT = {"a": ("add", "pop"), "b": ("size", "clear")}


@pytest.mark.parametrize("mode", CHECKED)
def test_under_a_deal_a_coder_is_told_whose_method_it_wrote_in_vain(mode):
    replies = {"a": ADD + POP + SIZE, "b": CLEAR}
    text = class_told(mode, "a", replies, dealt=DEALT)
    assert "size is b's to write; yours was not taken, leave it out." in text
    assert "Methods without code that compiles:" not in text and "leave each method" not in text
    assert "not taken" not in class_told(mode, "b", replies, dealt=DEALT)
    replies["a"] += CLEAR
    text = class_told(mode, "a", replies, dealt=DEALT)
    assert "size, clear are b's to write; yours were not taken, leave them out." in text
    assert "You and a teammate both wrote clear." in text
    text = class_told(mode, "b", replies, dealt=DEALT)
    assert "You and a teammate both wrote clear." in text and "leave" not in text
    assert "clear is yours to write; no teammate's code for it was taken." in text


def test_under_a_deal_it_is_told_who_still_owes_a_method():
    replies = {"a": ADD + SIZE, "b": "def clear(self):\n    return (\n"}
    missing = "Methods without code that compiles from whom they are dealt to: pop ({}), size ({}), clear ({})."
    assert missing.format("you", "b", "b") in class_told("diagnosis", "a", replies, dealt=DEALT)
    text = class_told("diagnosis", "b", replies, dealt=DEALT)
    assert missing.format("a", "you", "you") in text and "Your clear does not compile" in text
    assert "Not written by whom they are dealt to: pop (a), size (you)." in class_told(
        "personal", "b", replies, dealt=DEALT
    )
    # A method in a teammate's place is no matter of its own, be it broken.
    text = class_told("diagnosis", "a", {"a": "def clear(self):\n    return (\n", "b": ""}, dealt=DEALT)
    assert "clear is b's to write" in text and "Your clear" not in text


@pytest.mark.parametrize("mode", feedback.CLASS_MODES)
def test_an_agent_with_nothing_to_write_is_not_asked_to_write_it_again(mode):
    dealt = {**DEALT, "c": ()}
    text = class_told(mode, "c", {"a": ADD, "b": "", "c": ""}, dealt=dealt)
    assert text.endswith(feedback.NOTHING_TO_WRITE) and feedback.REVISE not in text
    assert class_told(mode, "b", {"a": ADD, "b": "", "c": ""}, dealt=dealt).endswith(feedback.REVISE)


def test_failing_tests_that_are_alike_are_told_once():
    calls = ["add", "add", "pop", "size", "clear", "add"]
    tests = "import unittest\nclass BoxTest(unittest.TestCase):\n" + "".join(
        f"    def test_{n}(self):\n        Box().{name}()\n" for n, name in enumerate(calls)
    )
    ends = [("failed", "KeyError"), ("failed", "KeyError"), ("timeout", ""), ("timeout", ""), ("not_run", "")]
    results = [TestResult(f"m.BoxTest.test_{n}", kind, error, "", None) for n, (kind, error) in enumerate(ends)]
    whole = {"a": ADD + POP, "b": SIZE + CLEAR}
    text = class_told("diagnosis", "a", whole, verdict(*results), tests=tests)
    assert "2 failing tests use add and end in KeyError." in text
    assert "A failing test uses pop and takes too long." in text and "A failing test uses clear and is not run." in text
    assert "more test" not in text
    results.append(TestResult("BoxTest.test_5", "failed", "", "", None))
    text = class_told("diagnosis", "a", whole, verdict(*results), tests=tests)
    assert text.count("failing test") == feedback.MOST_TESTS and "1 more test fails." in text
    slow = [TestResult(f"BoxTest.test_{n}", "timeout", "", "", None) for n in (0, 1)]
    assert "2 failing tests use add and take too long." in class_told(
        "diagnosis", "a", whole, verdict(*slow), tests=tests
    )


def test_a_group_report_counts_what_does_not_compile():
    broken = "def add(self):\n    return (\n"
    replies = {"a": broken, "b": f"{POP}\n{broken}\n{broken.replace('add', 'size')}"}
    text = class_told("group", "a", replies)
    assert "You wrote 1 method, of which add does not compile." in text
    assert "Your teammate b wrote 3 methods, of which add, size do not compile." in text


@pytest.mark.parametrize("mode", feedback.CLASS_MODES)
def test_one_agent_alone_is_told_of_no_team(mode):
    for reply in ("", ADD, ADD + POP + SIZE + CLEAR):
        text = class_told(mode, "a", {"a": reply})
        assert not re.search("team|Nobody|of you", text)
