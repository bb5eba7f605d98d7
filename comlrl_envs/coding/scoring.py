"""Rewards of the coding games as pure functions of facts and verdicts.

Each returns its terms by name; the reward is their sum. The names are the same for every preset of a game.

Functions (a helper team and a main agent), both presets up to 4.0:

=====================  =========================================  ==============================================
term                   ``published``                              ``strict``
=====================  =========================================  ==============================================
``definition``         0.4 helper, 0.6 main                       the same
``syntax``             0.5 the program compiles                   the same
``tests``              share of tests passed                      the same
``helper_used``        0.5 main calls the helper, a test passed   0.5 x effect of the helper on the tests
``not_wrapper``        1.0 that, and main is no thin wrapper      1.0 x effect, if main is no thin wrapper
``ignored_result``     -0.5 a call's value is never used          -0.5 the same, if the helper has no effect
=====================  =========================================  ==============================================

Classes, ``published`` up to 6.0: ``syntax`` 2 x share of methods with valid code, ``tests`` 4 x share of tests
passed, ``overlap`` -1 x share of methods that more than one agent wrote.

The published formulas are those of the environments of CoMLRL (Code_Generation, 4-point reward; Code_Completion,
6-point reward). Where their text searches are plainly broken the syntax tree decides: what counts as a call, as an
ignored value, as a ``return`` of the function's own, and as a wrapper (see ``analysis``). What makes a thin wrapper is
the published rule, see ``published``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from comlrl_envs.coding.analysis import Definition, definition, syntax_error, thin_wrapper
from comlrl_envs.coding.helper_use import Usage, helper_usage
from comlrl_envs.coding.program import team_program
from comlrl_envs.coding.replies import Extracted
from comlrl_envs.sandbox.jobs import Verdict

FUNCTION_TERMS = ("definition", "syntax", "tests", "helper_used", "not_wrapper", "ignored_result")
"""Terms of ``published`` and ``strict``."""
CLASS_TERMS = ("syntax", "tests", "overlap")
"""Terms of ``class_published``."""
TEAM_MAXIMUM = 4.0
SOLO_MAXIMUM = 2.1
CLASS_MAXIMUM = 6.0
CLASS_MINIMUM = -1.0

HELPER_POINTS, MAIN_POINTS, SYNTAX_POINTS = 0.4, 0.6, 0.5
USED_POINTS, NOT_WRAPPER_POINTS, IGNORED_POINTS = 0.5, 1.0, -0.5
FULL_EFFECT = 0.5
"""Share of the passed tests that must fail without the helper for its full effect."""


@dataclass(frozen=True)
class TeamFacts:
    """What is known of a team's replies before anything runs.

    Attributes:
        helpers: One definition for each helper that the team has; empty for a single agent.
        main: The entry function.
        usage: How main uses each helper, in the order of ``helpers``.
        wrapper: Main is a thin wrapper, see ``published``.
        problem: Why the program does not compile, or None. A helper or main that is broken is such a problem.
    """

    helpers: tuple[Definition, ...]
    main: Definition
    usage: tuple[Usage, ...]
    wrapper: bool
    problem: str | None

    @property
    def runs(self) -> bool:
        """There is a program to run: main is defined, and everything compiles."""
        return self.main.returns and self.problem is None


def maximum(helpers: int) -> float:
    """The highest reward of a team with so many helpers: 4.0, or 2.1 for a main agent alone."""
    return TEAM_MAXIMUM if helpers else SOLO_MAXIMUM


def team_facts(helpers: Mapping[str, Extracted], main: Extracted, entry_point: str) -> TeamFacts:
    """Facts about the replies of a team.

    Args:
        helpers: What each helper agent's reply holds, by the name of the function it should write.
        main: What the main agent's reply holds.
        entry_point: Name of the function that is tested.
    """
    found = tuple(definition(reply, name) for name, reply in helpers.items())
    own = definition(main, entry_point)
    broken = next((each for each in (*found, own) if each.problem is not None), None)
    if broken is not None:
        problem: str | None = f"{broken.name}: {broken.problem}"
    else:
        error = syntax_error(team_program("", {name: e.code for name, e in helpers.items()}, main.code, entry_point))
        problem = None if error is None else str(error)
    usage = tuple(helper_usage(main.code, entry_point, name) for name in helpers)
    return TeamFacts(found, own, usage, bool(helpers) and thin_wrapper(main.code, entry_point, helpers), problem)


def published(facts: TeamFacts, verdict: Verdict | None) -> dict[str, float]:
    """The 4-point reward; its levels stop where one fails.

    With several helpers each has an equal part of the 0.4 and the 0.5; the 1.0 needs one helper that counts.
    Known values: no main 0.4; main alone, all tests 2.1; helper unused 2.5; wrapper 3.0; everything 4.0, with a
    quarter of the tests 3.25; a syntax error 1.0; no test in the verdict 1.5.

    A thin wrapper, by the published rule, is a main whose body is one ``return`` that mentions a helper, whatever
    else it computes (``return aux(x) + 1`` is one), or ``v = aux(x)`` and ``return v``, or empty. The same work in
    statements (``v = aux(x)`` and ``return v + 1``) is none.

    Args:
        facts: See ``team_facts``.
        verdict: Of the whole program; None if ``facts.runs`` is False.

    Returns:
        ``FUNCTION_TERMS``, with a sum in [0, 4].
    """
    terms, gone_on = _structure(facts)
    if not gone_on or verdict is None:
        return terms
    terms["tests"] = pass_rate(verdict)
    if pass_rate(verdict) == 0.0:
        return terms
    share = 1 / len(facts.helpers) if facts.helpers else 0.0
    for helper, usage in zip(facts.helpers, facts.usage, strict=True):
        if helper.usable and usage.called:
            terms["helper_used"] += USED_POINTS * share
            terms["ignored_result"] += IGNORED_POINTS * share if usage.all_ignored else 0.0
    if terms["helper_used"] and not facts.wrapper:
        terms["not_wrapper"] = NOT_WRAPPER_POINTS
    return terms


def strict(facts: TeamFacts, verdict: Verdict | None, stubbed: Sequence[Verdict] = ()) -> dict[str, float]:
    """The 4-point reward with the helper's points given for what the helper does to the tests.

    A helper's effect is the pass rate with it minus the pass rate with a stub that returns None in its place,
    doubled, and no more than the pass rate. So it is full as soon as half of the passed tests need the helper: the
    other half may hold edge cases that main settles by itself, or tests that a None passes by luck. Every task
    lets a team reach 4.0, since a main that computes with the helper's value fails each test without it (all
    tests depend on the candidate). A call that the syntax tree does not show, a thin wrapper and an unused value
    earn nothing for use. A value that is ignored costs 0.5 only if the helper has no effect: one that changes its
    argument in place does its part.

    Args:
        facts: See ``team_facts``.
        verdict: Of the whole program; None if ``facts.runs`` is False.
        stubbed: Of the program with one helper stubbed each, in the order of ``facts.helpers``; not needed without
            a verdict or for helpers that are not called.

    Returns:
        ``FUNCTION_TERMS``, with a sum in [0, 4].

    Raises:
        ValueError: A verdict is missing.
    """
    terms, gone_on = _structure(facts)
    if not gone_on or verdict is None:
        return terms
    if len(stubbed) != len(facts.helpers):
        raise ValueError(f"{len(stubbed)} stubbed verdicts for {len(facts.helpers)} helpers; expected one for each.")
    rate = terms["tests"] = pass_rate(verdict)
    share = 1 / len(facts.helpers) if facts.helpers else 0.0
    effect = 0.0
    for helper, usage, without in zip(facts.helpers, facts.usage, stubbed, strict=True):
        own = helper_effect(rate, pass_rate(without)) if helper.usable and usage.called else 0.0
        effect += own * share
        if usage.all_ignored and own == 0.0:
            terms["ignored_result"] += IGNORED_POINTS * share
    terms["helper_used"] = USED_POINTS * effect
    terms["not_wrapper"] = 0.0 if facts.wrapper else NOT_WRAPPER_POINTS * effect
    return terms


def helper_effect(rate: float, rate_without: float) -> float:
    """How much the tests need a helper, in [0, ``rate``].

    >>> helper_effect(1.0, 0.5), helper_effect(1.0, 1.0), helper_effect(0.5, 0.0)
    (1.0, 0.0, 0.5)
    """
    return min(rate, max(0.0, rate - rate_without) / FULL_EFFECT)


def pass_rate(verdict: Verdict) -> float:
    """Share of tests passed, in [0, 1]; 0 if the definitions failed or there is no test."""
    return verdict.passed / verdict.total if verdict.defined and verdict.total else 0.0


def _structure(facts: TeamFacts) -> tuple[dict[str, float], bool]:
    """Terms of definitions and syntax, the others 0, and whether the levels go on."""
    terms = dict.fromkeys(FUNCTION_TERMS, 0.0)
    returning = sum(helper.returns for helper in facts.helpers)
    terms["definition"] = HELPER_POINTS * returning / len(facts.helpers) if facts.helpers else 0.0
    if not facts.main.returns:
        return terms, False
    terms["definition"] += MAIN_POINTS
    if facts.problem is not None:
        return terms, False
    terms["syntax"] = SYNTAX_POINTS
    return terms, True


def class_published(methods: int, valid: int, overlap: int, verdict: Verdict | None) -> dict[str, float]:
    """The 6-point reward of a class.

    Four methods, all valid, 6 of 8 tests, one method written twice: 2 + 3 - 0.25 = 4.75.

    Args:
        methods: Methods to write, >= 1.
        valid: Those with code that compiles, from an agent that may write them. As published, a stub that an agent
            repeats compiles and counts, so an echo of the skeleton earns the 2 of ``syntax``.
        overlap: Those that more than one agent wrote.
        verdict: Of the merged class; None if it does not compile, which makes every term 0. Where no method was
            written, tests that the stubs pass do not count, other than in the publication.

    Returns:
        ``CLASS_TERMS``, with a sum in [-1, 6].

    Raises:
        ValueError: The counts do not fit.
    """
    if methods < 1 or not 0 <= valid <= methods or not 0 <= overlap <= methods:
        raise ValueError(f"methods={methods}, valid={valid}, overlap={overlap}; expected counts of at least 1 method.")
    if verdict is None:
        return dict.fromkeys(CLASS_TERMS, 0.0)
    tests = 4 * pass_rate(verdict) if valid else 0.0
    return {"syntax": 2 * valid / methods, "tests": tests, "overlap": -overlap / methods}


def class_collaboration(verdict: Verdict | None, agents_by_test: Mapping[str, Collection[str]]) -> dict[str, float]:
    """The oldest reward of a class, kept as measures: tests weighted by the agents they bring together.

    As published, the 3 of ``syntax`` are for a class that compiles, and one of stubs does: empty replies earn them.

    Args:
        verdict: Of the merged class; None if it does not compile.
        agents_by_test: Agents whose methods each test calls, by the test's name (``Class.test``); see
            ``class_merge.agents_by_test``.

    Returns:
        ``syntax`` (0 or 3), ``tests`` ([0, 5]: 5 x share passed) and ``collaboration`` ([0, 2]: 2 x share of tests
        passed, each weighted by its number of agents; 0 if no test calls any agent's method).
    """
    if verdict is None:
        return {"syntax": 0.0, "tests": 0.0, "collaboration": 0.0}
    weights = {name: len(set(agents)) for name, agents in agents_by_test.items()}
    passed = {_short(test.name) for test in verdict.tests if test.outcome == "passed"} if verdict.defined else set()
    total = sum(weights.values())
    won = sum(weight for name, weight in weights.items() if _short(name) in passed)
    return {"syntax": 3.0, "tests": 5 * pass_rate(verdict), "collaboration": 2 * won / total if total else 0.0}


def _short(name: str) -> str:
    """``Class.test`` of a test's name, whatever module stands before."""
    return ".".join(name.split(".")[-2:])
