import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs.coding import scoring
from comlrl_envs.coding.replies import extract
from comlrl_envs.sandbox.jobs import TestResult, Verdict

AUX = "def aux(n):\n    return n * n\n"
WHOLE = "def f(n):\n    return n * n + 1\n"
TEAM = "def f(n):\n    square = aux(n)\n    return square + 1\n"
WRAPPER = "def f(n):\n    return aux(n)\n"
IGNORES = "def f(n):\n    aux(n)\n    return n * n + 1\n"
BROKEN = "def f(n):\n    return aux(n\n"


def verdict(passed, total, defined=True):
    results = [TestResult(str(i), "passed" if i < passed else "failed", "", "", None) for i in range(total)]
    return Verdict(defined, None if defined else "NameError", tuple(results), "", False)


def facts(main, **helpers):
    return scoring.team_facts({name: extract(code) for name, code in helpers.items()}, extract(main), "f")


def reward(terms):
    assert tuple(terms) == scoring.FUNCTION_TERMS
    return round(sum(terms.values()), 12)


def published(main, passed, total, **helpers):
    known = facts(main, **helpers)
    return reward(scoring.published(known, verdict(passed, total) if known.runs else None))


@pytest.mark.parametrize(
    ("main", "aux", "passed", "total", "expected"),
    [
        ("", "", 0, 4, 0.0),
        ("no code at all", AUX, 0, 4, 0.4),  # main is missing
        (WHOLE, "", 4, 4, 2.1),  # main alone
        (WHOLE, AUX, 4, 4, 2.5),  # the helper is not used
        (WRAPPER, AUX, 4, 4, 3.0),
        (TEAM, AUX, 4, 4, 4.0),
        (TEAM, AUX, 1, 4, 3.25),
        (BROKEN, AUX, 4, 4, 1.0),  # a syntax error
        (TEAM, AUX, 0, 0, 1.5),  # no test
        (TEAM, AUX, 0, 4, 1.5),
        (IGNORES, AUX, 4, 4, 3.5),
    ],
)
def test_parity_with_the_published_reward(main, aux, passed, total, expected):
    assert published(main, passed, total, aux=aux) == expected


def test_a_main_agent_alone_reaches_its_maximum():
    assert published(WHOLE, 4, 4) == scoring.maximum(0) == 2.1
    assert scoring.maximum(2) == 4.0


def test_a_helper_without_a_return_of_its_own_earns_nothing():
    idle = "def aux(n):\n    # return n\n    n + 1\n"
    assert published(TEAM, 4, 4, aux=idle) == 2.1


def test_a_broken_helper_is_a_syntax_error_of_the_program():
    known = facts(TEAM, aux="def aux(n):\n    return (n\n")
    assert not known.runs and known.problem is not None and known.problem.startswith("aux:")
    assert reward(scoring.published(known, None)) == 1.0


def test_definitions_that_fail_when_they_run_keep_the_structure_points():
    assert reward(scoring.published(facts(TEAM, aux=AUX), verdict(0, 4, defined=False))) == 1.5


def test_several_helpers_share_the_points_of_one():
    both = "def f(n):\n    one = aux_1(n)\n    return one + aux_2(n)\n"
    one = "def f(n):\n    one = aux_1(n)\n    return one + 1\n"
    helpers = {"aux_1": AUX.replace("aux", "aux_1"), "aux_2": AUX.replace("aux", "aux_2")}
    assert published(both, 4, 4, **helpers) == 4.0
    assert published(one, 4, 4, **helpers) == 3.75
    assert published(one, 4, 4, aux_1=helpers["aux_1"], aux_2="") == 3.55


def strict(main, rate, *without, total=10, **helpers):
    known = facts(main, **helpers)
    stubbed = [verdict(passed, total) for passed in without]
    return reward(scoring.strict(known, verdict(rate, total) if known.runs else None, stubbed))


@pytest.mark.parametrize(
    ("main", "passed", "without", "expected"),
    [
        (TEAM, 10, 0, 4.0),  # every test needs the helper
        (TEAM, 10, 5, 4.0),  # half of them do: the others are edge cases, or passed by luck
        (TEAM, 10, 8, 2.5 + 1.5 * 0.4),
        (TEAM, 10, 10, 2.5),  # the helper does not matter
        (TEAM, 5, 0, 2.0 + 1.5 * 0.5),  # no more for the helper than for the tests
        (TEAM, 5, 7, 2.0),
        (WRAPPER, 10, 0, 3.0),
        (WHOLE, 10, 10, 2.5),
        (WHOLE, 10, 0, 2.5),  # a use that the syntax tree does not show
        (IGNORES, 10, 10, 2.0),
        (IGNORES, 10, 0, 4.0),  # the helper changes its argument in place
        (TEAM, 0, 0, 1.5),
    ],
)
def test_the_strict_reward_pays_for_the_effect_of_the_helper(main, passed, without, expected):
    assert strict(main, passed, without, aux=AUX) == round(expected, 12)


def test_the_strict_reward_needs_a_verdict_for_each_helper():
    with pytest.raises(ValueError, match="0 stubbed verdicts for 1 helpers"):
        strict(TEAM, 10, aux=AUX)
    assert strict(BROKEN, 0, aux=AUX) == 1.0
    assert strict(WHOLE, 10) == scoring.maximum(0)


def test_each_helper_is_paid_for_its_own_effect():
    both = "def f(n):\n    one = aux_1(n)\n    return one + aux_2(n)\n"
    helpers = {"aux_1": AUX.replace("aux", "aux_1"), "aux_2": AUX.replace("aux", "aux_2")}
    assert strict(both, 10, 0, 0, **helpers) == 4.0
    assert strict(both, 10, 0, 10, **helpers) == 3.25


REPLIES = ("", AUX, WHOLE, TEAM, WRAPPER, IGNORES, BROKEN, "def aux(n:\n", "def f(n): pass", "prose (only")


@pytest.mark.parametrize(("main", "aux"), list(itertools.product(REPLIES, REPLIES)))
def test_rewards_stay_in_their_range(main, aux):
    known = facts(main, aux=aux)
    for passed, without in itertools.product((0, 1, 4), (0, 4)):
        given_verdict = verdict(passed, 4) if known.runs else None
        for terms in (
            scoring.published(known, given_verdict),
            scoring.strict(known, given_verdict, [verdict(without, 4)]),
        ):
            assert 0.0 <= reward(terms) <= 4.0


@given(st.integers(0, 20), st.integers(0, 20))
def test_effect_is_monotone_and_bounded(passed, without):
    effect = scoring.helper_effect(passed / 20, without / 20)
    assert 0.0 <= effect <= passed / 20
    assert effect <= scoring.helper_effect(passed / 20, max(0, without - 1) / 20)


def test_parity_with_the_published_reward_of_classes():
    terms = scoring.class_published(4, 4, 1, verdict(6, 8))
    assert tuple(terms) == scoring.CLASS_TERMS
    assert sum(terms.values()) == 4.75
    assert sum(scoring.class_published(4, 4, 0, verdict(8, 8)).values()) == scoring.CLASS_MAXIMUM
    assert sum(scoring.class_published(4, 0, 4, verdict(0, 8)).values()) == scoring.CLASS_MINIMUM
    assert sum(scoring.class_published(4, 4, 4, None).values()) == 0.0
    assert scoring.class_published(4, 2, 0, verdict(0, 0))["tests"] == 0.0
    with pytest.raises(ValueError, match="valid=5"):
        scoring.class_published(4, 5, 0, None)


def test_the_oldest_reward_of_classes_weighs_tests_by_their_agents():
    names = ("module.TestA.test_one", "TestA.test_two", "TestB.test_one")
    results = [
        TestResult(name, outcome, "", "", None)
        for name, outcome in zip(names, ("passed", "failed", "passed"), strict=True)
    ]
    found = Verdict(True, None, tuple(results), "", False)
    agents = {"TestA.test_one": {"a", "b"}, "TestA.test_two": {"a"}, "TestB.test_one": ()}
    assert scoring.class_collaboration(found, agents) == {
        "syntax": 3.0,
        "tests": pytest.approx(10 / 3),
        "collaboration": pytest.approx(4 / 3),
    }
    assert sum(scoring.class_collaboration(None, agents).values()) == 0.0
    assert scoring.class_collaboration(found, {})["collaboration"] == 0.0


MANY = ("x=aux(n)", "x{i}=aux(n)", "def g{i}(): return aux(n)", "g{i}=aux", "if n: aux(n)")


@pytest.mark.parametrize("piece", MANY)
def test_facts_about_a_long_reply_take_seconds(piece):
    lines = "".join(f" {piece.format(i=i)}\n" for i in range(32_000 // len(piece) - 20))
    begin = time.process_time()
    known = facts(f"def f(n):\n{lines} return n\n", aux=AUX)
    assert time.process_time() - begin < 10
    assert known.main.found
