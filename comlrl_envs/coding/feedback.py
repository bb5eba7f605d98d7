"""What agents are told between turns, made of facts and verdicts alone.

No text here holds an assertion that counts in the reward, nor what it compares or says when it fails: of tests that
score only numbers, names and exception types are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from comlrl_envs.coding.analysis import Definition
from comlrl_envs.coding.class_merge import Merged, Written
from comlrl_envs.coding.class_skeleton import Skeleton
from comlrl_envs.coding.helper_use import Usage
from comlrl_envs.coding.scoring import TeamFacts
from comlrl_envs.coding.test_blocks import Split
from comlrl_envs.errors import one_of
from comlrl_envs.sandbox.jobs import TestResult, Verdict

FUNCTION_MODES = ("plain", "passed", "levels", "diagnosis")
CLASS_MODES = ("plain", "passed", "levels", "diagnosis", "group", "personal")

MOST_TESTS = 4
"""Failing tests that a diagnosis goes into."""
MOST_REASONS = 2
"""Ignored values of a helper that a diagnosis names."""
MOST_TEST_CHARACTERS = 600
MOST_MESSAGE_CHARACTERS = 200
MOST_CODE_CHARACTERS = 6000
"""Characters of the team's class that a group report shows."""

REVISE = "Revise your code and write all of it again."


def function_feedback(mode: str, name: str, facts: TeamFacts, verdict: Verdict | None, split: Split) -> str:
    """The text for one agent of a helper team.

    Args:
        mode: ``"plain"``: only the request to revise. ``"passed"``: whether everything passed. ``"levels"``: one short
            line each on the agent's own function, the program, the tests, and for main on the use of helpers.
            ``"diagnosis"``: the same on everybody with lines, columns and reasons, and the feedback tests that
            failed.
        name: The function that the agent writes.
        facts: See ``scoring.team_facts``.
        verdict: Of ``split.feedback``, one result a block; None if nothing could be run.
        split: Which tests score. If it is not disjoint, tests are counted and nothing of them is shown.

    Raises:
        OptionError: There is no such mode.
    """
    _check(mode, FUNCTION_MODES)
    if mode == "plain":
        return REVISE
    if mode == "passed":
        return f"{_all_passed(facts.runs and _complete(verdict))}\n{REVISE}"
    is_main = name == facts.main.name
    if mode == "levels":
        own = facts.main if is_main else next(each for each in facts.helpers if each.name == name)
        lines = [
            f"Your function {name}: {'found' if own.returns else 'none found that returns something'}.",
            f"Syntax: {'correct' if facts.problem is None else 'an error'}.",
            f"Tests: {_share(verdict)}.",
        ]
        lines += [f"Use of {h.name}: {_use(h, u)}." for h, u in _helpers(facts) if is_main]
        return "\n".join([*lines, REVISE])
    lines = [f"{_whose(each, name)}: {_state(each)}" for each in (*facts.helpers, facts.main)]
    lines.append(f"Program: {'compiles' if facts.problem is None else f'does not compile. {facts.problem}'}.")
    lines.append(f"Tests: {_share(verdict)}.{_definitions(verdict)}")
    lines += _failures(verdict, split)
    if is_main:
        lines += _use_in_detail(facts)
    return "\n".join([*lines, REVISE])


def _check(mode: str, modes: Sequence[str]) -> None:
    one_of("feedback", mode, modes)


def _complete(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.defined and 0 < verdict.total == verdict.passed


def _all_passed(yes: bool) -> str:
    return "All checks passed." if yes else "Not all checks passed."


def _share(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not run, there is no program to run"
    passed, total = verdict.passed if verdict.defined else 0, verdict.total
    if not total:
        return "there are none"
    return "all passed" if passed == total else "none passed" if not passed else f"{passed} of {total} passed"


def _helpers(facts: TeamFacts) -> list[tuple[Definition, Usage]]:
    return list(zip(facts.helpers, facts.usage, strict=True))


def _use(helper: Definition, usage: Usage) -> str:
    if not helper.usable:
        return "it is not there to be used"
    if not usage.called:
        return "never called"
    return "called, but its value is not used" if usage.all_ignored else "called and used"


def _whose(each: Definition, name: str) -> str:
    return f"Your function {each.name}" if each.name == name else f"Your teammate's function {each.name}"


def _state(each: Definition) -> str:
    if not each.found:
        return "missing; no definition of it was found in the reply."
    if each.problem is not None:
        return f"found, but it cannot be parsed: {each.problem}."
    return "found." if each.returns else "found, but it has no return of its own."


def _definitions(verdict: Verdict | None) -> str:
    if verdict is None or verdict.defined:
        return ""
    return f" The program stopped before any test: {_short(verdict.problem or 'its definitions failed')}."


def _failures(verdict: Verdict | None, split: Split) -> list[str]:
    """The failing tests with what happened, if they may be shown."""
    if verdict is None or not verdict.defined or not split.disjoint:
        return []
    pairs = zip(split.feedback, verdict.tests, strict=True)
    failed = [(block, test) for block, test in pairs if test.outcome != "passed"]
    lines = []
    for block, test in failed[:MOST_TESTS]:
        text = block.strip() if len(block) <= MOST_TEST_CHARACTERS else block[:MOST_TEST_CHARACTERS] + " …"
        lines += ["This test does not pass:", *(f"    {line}" for line in text.split("\n")), f"  {_outcome(test)}"]
    if len(failed) > MOST_TESTS:
        lines.append(f"{len(failed) - MOST_TESTS} more do not pass.")
    return lines


def _outcome(test: TestResult) -> str:
    value = f" The value was {_short(test.actual)}." if test.actual is not None else ""
    if test.outcome == "timeout":
        return "It took too long."
    if test.outcome == "not_run":
        return "It was not run."
    message = f": {_short(test.message)}" if test.message else ""
    return f"It ended in {test.error or 'an error'}{message}.{value}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST_MESSAGE_CHARACTERS else line[:MOST_MESSAGE_CHARACTERS] + " …"


def _use_in_detail(facts: TeamFacts) -> list[str]:
    lines = []
    for helper, usage in _helpers(facts):
        lines.append(f"Your use of {helper.name}: {_use(helper, usage)}.")
        lines += [f"  {reason[0].upper()}{reason[1:]}." for reason in usage.ignored[:MOST_REASONS]]
    if facts.wrapper and facts.main.usable and facts.helpers:
        lines.append("Your function only passes a helper's work on; do a part of the work yourself.")
    return lines


@dataclass(frozen=True)
class ClassFacts:
    """What is known of a team's class before its tests run.

    Attributes:
        targets: Methods to write.
        written: Methods of ``targets`` that each agent wrote, be they broken, in the order of the class.
        broken: By agent and method, why its code does not compile.
        merged: The team's class.
        methods_by_test: Methods that each test uses, by ``"Class.test"``.
    """

    targets: tuple[str, ...]
    written: Mapping[str, tuple[str, ...]]
    broken: Mapping[str, Mapping[str, str]]
    merged: Merged
    methods_by_test: Mapping[str, frozenset[str]]


def class_facts(
    skeleton: Skeleton, written: Mapping[str, Written], merged: Merged, methods_by_test: Mapping[str, frozenset[str]]
) -> ClassFacts:
    """The facts of a team's replies; arguments as in ``class_merge``."""
    names = {
        agent: tuple(key for key in skeleton.targets if key in own.methods or key in own.broken)
        for agent, own in written.items()
    }
    broken = {
        agent: {key: own.broken[key] for key in names[agent] if key in own.broken} for agent, own in written.items()
    }
    return ClassFacts(skeleton.targets, names, broken, merged, methods_by_test)


def class_feedback(mode: str, agent: str, facts: ClassFacts, verdict: Verdict | None) -> str:
    """The text for one agent that completes a class with others.

    Args:
        mode: ``"plain"``, ``"passed"``, ``"levels"`` (syntax and tests in one line each), ``"diagnosis"`` (that,
            missing and broken methods, and which methods the failing tests use), ``"group"`` (how many methods each
            agent wrote, and the whole class) or ``"personal"`` (the methods that each agent chose, and
            where they overlap).
        agent: Who is told.
        facts: See ``class_facts``.
        verdict: Of the class's tests; None if it does not compile.

    Raises:
        OptionError: There is no such mode.
    """
    _check(mode, CLASS_MODES)
    if mode == "plain":
        return REVISE
    if mode == "passed":
        return f"{_all_passed(_complete(verdict))}\n{REVISE}"
    problem = facts.merged.problem
    levels = [
        f"The team's class {'compiles' if problem is None else f'does not compile: {problem}'}.",
        f"Tests: {_share(verdict)}.{_definitions(verdict)}",
    ]
    detail = {"levels": [], "diagnosis": _diagnosis, "group": _group, "personal": _personal}[mode]
    return "\n".join([*levels, *(detail(agent, facts, verdict) if callable(detail) else []), REVISE])


def _diagnosis(agent: str, facts: ClassFacts, verdict: Verdict | None) -> list[str]:
    missing = [key for key in facts.targets if key not in facts.merged.valid]
    lines = [f"Methods without code that compiles: {', '.join(missing)}."] if missing else []
    lines += [f"Your {key} does not compile: {why}." for key, why in facts.broken[agent].items()]
    failed = [test for test in verdict.tests if test.outcome != "passed"] if verdict and verdict.defined else []
    for test in failed[:MOST_TESTS]:
        name = ".".join(test.name.split(".")[-2:])
        used = [key for key in facts.targets if key in facts.methods_by_test.get(name, ())]
        how = "took too long" if test.outcome == "timeout" else f"ended in {test.error or 'an error'}"
        lines.append(f"A failing test uses {', '.join(used) or 'none of the methods'} and {how}.")
    return lines


def _group(agent: str, facts: ClassFacts, verdict: Verdict | None) -> list[str]:
    lines = [f"{_you(each, agent)} wrote {_count(len(names))}." for each, names in facts.written.items()]
    source = facts.merged.source.strip()
    shown = source if len(source) <= MOST_CODE_CHARACTERS else source[:MOST_CODE_CHARACTERS] + "\n…"
    return [*lines, "The team's class:", shown, "End of the class."]


def _personal(agent: str, facts: ClassFacts, verdict: Verdict | None) -> list[str]:
    lines = [f"{_count(len(facts.targets))} are to be written."]
    for each, names in facts.written.items():
        lines.append(f"{_you(each, agent)} wrote {', '.join(names) or 'none of them'}.")
    lines += [f"Your {key} does not compile: {why}." for key, why in facts.broken[agent].items()]
    nobody = [key for key in facts.targets if not any(key in names for names in facts.written.values())]
    if nobody:
        lines.append(f"Nobody wrote {', '.join(nobody)}.")
    shared = [key for key in facts.merged.overlap if key in facts.written[agent]]
    if shared:
        lines.append(f"You and a teammate both wrote {', '.join(shared)}; leave each method to one of you.")
    return lines


def _you(each: str, agent: str) -> str:
    return "You" if each == agent else f"Your teammate {each}"


def _count(number: int) -> str:
    return f"{number} method{'' if number == 1 else 's'}"
