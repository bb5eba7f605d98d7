"""What agents are told between turns, made of facts and verdicts alone.

No text here holds an assertion that counts in the reward, nor what it compares or says when it fails: of tests that
score only numbers, names and exception types are told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from comlrl_envs.coding.analysis import Definition
from comlrl_envs.coding.class_merge import ClassFacts
from comlrl_envs.coding.helper_use import Usage
from comlrl_envs.coding.scoring import TeamFacts
from comlrl_envs.coding.test_blocks import Split
from comlrl_envs.errors import one_of
from comlrl_envs.sandbox.jobs import TestResult, Verdict

FUNCTION_MODES = ("plain", "passed", "levels", "diagnosis")
CLASS_MODES = ("plain", "passed", "levels", "diagnosis", "group", "personal")

MOST_TESTS = 4
"""Failing tests of a function, or lines on those of a class, that a diagnosis goes into."""
MOST_REASONS = 2
"""Ignored values of a helper that a diagnosis names."""
MOST_TEST_CHARACTERS = 600
MOST_MESSAGE_CHARACTERS = 200
MOST_CODE_CHARACTERS = 6000
"""Characters of the team's class that a group report shows."""

REVISE = "Revise your code and write all of it again."
NOTHING_TO_WRITE = "You have no method to write; an empty reply will do."
"""For an agent whom no method is dealt to."""


def function_feedback(mode: str, name: str, facts: TeamFacts, verdict: Verdict | None, split: Split) -> str:
    """The text for one agent of a helper team.

    Args:
        mode: ``"plain"``: only the request to revise. ``"passed"``: whether everything passed. ``"levels"``: one short
            line each on the agent's own function, on a teammate's that is missing or returns nothing, the program,
            the tests, and for main on the use of helpers. ``"diagnosis"``: the same on everybody with lines, columns
            and reasons, and the feedback tests that failed.
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
    team = (*facts.helpers, facts.main)
    tests = f"Tests: {_share(verdict, _no_program(facts))}."
    if mode == "levels":
        own = facts.main if is_main else next(each for each in facts.helpers if each.name == name)
        lines = [f"{_whose(each, name)}: {_found(each)}." for each in team if each is own or not each.returns]
        lines += [f"Syntax: {_syntax(facts)}.", tests]
        lines += [f"Use of {h.name}: {_use(h, u)}." for h, u in _helpers(facts) if is_main]
        return "\n".join([*lines, REVISE])
    lines = [f"{_whose(each, name)}: {_state(each)}" for each in team]
    lines += [f"Program: {_program(facts)}.", f"{tests}{_definitions(verdict)}"]
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


def _share(verdict: Verdict | None, why_none: str) -> str:
    if verdict is None:
        return f"not run, {why_none}"
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


def _found(each: Definition) -> str:
    return "found" if each.returns else "found, but it returns nothing" if each.found else "none found"


def _syntax(facts: TeamFacts) -> str:
    broken = [each.name for each in (*facts.helpers, facts.main) if each.problem is not None]
    if broken:
        return f"an error in {', '.join(broken)}"
    return "no error found" if facts.problem is None else "an error"


def _program(facts: TeamFacts) -> str:
    if facts.problem is not None:
        return f"does not compile. {facts.problem}"
    return "compiles" if facts.runs else f"incomplete, {_no_program(facts)}"


def _no_program(facts: TeamFacts) -> str:
    """Why there is no program to run, if there is none."""
    if not facts.main.returns:
        return f"{facts.main.name} {'returns nothing' if facts.main.found else 'is missing'}"
    return "the program does not compile"


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
        around = [helper.name for helper, usage in _helpers(facts) if usage.called] or [h.name for h in facts.helpers]
        lines.append(f"Your function comes to one return around {' and '.join(around)}; give it statements of its own.")
    return lines


def class_feedback(mode: str, agent: str, facts: ClassFacts, verdict: Verdict | None) -> str:
    """The text for one agent that completes a class with others.

    Args:
        mode: ``"plain"``, ``"passed"`` (whether every method has code, all tests passed and none is written twice),
            ``"levels"`` (syntax, tests, and methods that were written twice or not taken), ``"diagnosis"`` (that,
            missing and broken methods, and which methods the failing tests use), ``"group"`` (how many methods each
            agent wrote, and the whole class) or ``"personal"`` (which methods each agent wrote).
        agent: Who is told.
        facts: See ``class_merge.class_facts``.
        verdict: Of the class's tests; None if it does not compile.

    Raises:
        OptionError: There is no such mode.
    """
    _check(mode, CLASS_MODES)
    request = NOTHING_TO_WRITE if facts.dealt and not facts.dealt[agent] else REVISE
    if mode == "plain":
        return request
    merged = facts.merged
    if mode == "passed":
        whole = len(merged.valid) == len(facts.targets) and not merged.overlap
        return f"{_all_passed(whole and _complete(verdict))}\n{request}"
    levels = [
        f"The class {'compiles' if merged.problem is None else f'does not compile: {merged.problem}'}.",
        f"Tests: {_share(verdict, 'the class does not compile')}.{_definitions(verdict)}",
        *_taken(agent, facts),
    ]
    detail = {"levels": [], "diagnosis": _diagnosis, "group": _group, "personal": _personal}[mode]
    return "\n".join([*levels, *(detail(agent, facts, verdict) if callable(detail) else []), request])


def _taken(agent: str, facts: ClassFacts) -> list[str]:
    """Methods that more than one agent wrote, and those of the agent's that were not taken."""
    own, merged, owners = facts.written[agent], facts.merged, facts.owners
    both = [key for key in merged.overlap if key in own]
    others = [key for key in merged.overlap if key not in own]
    lines = [f"More than one teammate wrote {', '.join(others)}."] if others else []
    if both and not owners:
        lines.append(f"You and a teammate both wrote {', '.join(both)}; leave each method to one of you.")
    elif both:
        lines.append(f"You and a teammate both wrote {', '.join(both)}.")
    for owner, dealt in facts.dealt.items():
        foreign = [key for key in dealt if key in own and owner != agent]
        if foreign:
            what = "yours was not taken, leave it out" if len(foreign) == 1 else "yours were not taken, leave them out"
            lines.append(f"{_are(foreign)} {owner}'s to write; {what}.")
    kept = [key for key in both if owners.get(key) == agent]
    if kept:
        lines.append(f"{_are(kept)} yours to write; no teammate's code for {_it(kept)} was taken.")
    lost = [key for key in both if not owners and merged.authors.get(key, agent) != agent]
    if lost:
        lines.append(f"A teammate's code was taken for {', '.join(lost)}, not yours.")
    return lines


def _are(keys: Sequence[str]) -> str:
    return f"{', '.join(keys)} {'is' if len(keys) == 1 else 'are'}"


def _it(keys: Sequence[str]) -> str:
    return "it" if len(keys) == 1 else "them"


def _broken(agent: str, facts: ClassFacts) -> list[str]:
    """What does not compile of the agent's methods; of those dealt to others it is no matter."""
    owners = facts.owners
    return [
        f"Your {key} does not compile: {why}."
        for key, why in facts.broken[agent].items()
        if owners.get(key, agent) == agent
    ]


def _owned(keys: Sequence[str], agent: str, facts: ClassFacts) -> str:
    owners = facts.owners
    return ", ".join(f"{key} ({'you' if owners[key] == agent else owners[key]})" if owners else key for key in keys)


def _diagnosis(agent: str, facts: ClassFacts, verdict: Verdict | None) -> list[str]:
    missing = [key for key in facts.targets if key not in facts.merged.valid]
    which = (
        "Methods without code that compiles from whom they are dealt to"
        if facts.dealt
        else "Methods without code that compiles"
    )
    lines = [f"{which}: {_owned(missing, agent, facts)}."] if missing else []
    return [*lines, *_broken(agent, facts), *_failing(facts, verdict)]


def _failing(facts: ClassFacts, verdict: Verdict | None) -> list[str]:
    """What failing tests use and how they end; those that are alike in one line."""
    failed = [test for test in verdict.tests if test.outcome != "passed"] if verdict and verdict.defined else []
    alike: Counter[tuple[str, str]] = Counter()
    for test in failed:
        name = ".".join(test.name.split(".")[-2:])
        used = [key for key in facts.targets if key in facts.methods_by_test.get(name, ())]
        ended = test.outcome if test.outcome in ("timeout", "not_run") else test.error or "an error"
        alike[", ".join(used) or "none of the methods", ended] += 1
    told = list(alike.items())[:MOST_TESTS]
    lines = [_failing_alike(used, ended, count) for (used, ended), count in told]
    more = len(failed) - sum(count for _, count in told)
    return [*lines, f"{more} more {'test fails' if more == 1 else 'tests fail'}."] if more else lines


def _failing_alike(used: str, ended: str, count: int) -> str:
    one = count == 1
    how = {"timeout": f"{'takes' if one else 'take'} too long", "not_run": f"{'is' if one else 'are'} not run"}.get(
        ended, f"{'ends' if one else 'end'} in {ended}"
    )
    return f"{'A failing test uses' if one else f'{count} failing tests use'} {used} and {how}."


def _group(agent: str, facts: ClassFacts, verdict: Verdict | None) -> list[str]:
    lines = []
    for each, names in facts.written.items():
        broken = list(facts.broken[each])
        note = f", of which {', '.join(broken)} {'does' if len(broken) == 1 else 'do'} not compile" if broken else ""
        lines.append(f"{_you(each, agent)} wrote {_count(len(names))}{note}.")
    source = facts.merged.source.strip()
    shown = source if len(source) <= MOST_CODE_CHARACTERS else source[:MOST_CODE_CHARACTERS] + "\n…"
    return [*lines, "The class:", shown, "End of the class."]


def _personal(agent: str, facts: ClassFacts, verdict: Verdict | None) -> list[str]:
    lines = [f"{_count(len(facts.targets))} {'is' if len(facts.targets) == 1 else 'are'} to be written."]
    for each, names in facts.written.items():
        lines.append(f"{_you(each, agent)} wrote {', '.join(names) or 'none of them'}.")
    lines += _broken(agent, facts)
    owners = facts.owners
    by = {key: [owners[key]] if owners else list(facts.written) for key in facts.targets}
    open_ = [key for key, agents in by.items() if not any(key in facts.written[each] for each in agents)]
    if open_:
        lines.append(f"Not written{' by whom they are dealt to' if owners else ''}: {_owned(open_, agent, facts)}.")
    return lines


def _you(each: str, agent: str) -> str:
    return "You" if each == agent else f"Your teammate {each}"


def _count(number: int) -> str:
    return f"{number} method{'' if number == 1 else 's'}"
