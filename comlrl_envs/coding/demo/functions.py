"""Function problems in the forms of HumanEval and of MBPP: 64 to train on and 32 held out for each id.

A problem says in one sentence what a function does. Each comes with the answer of a team in which main cannot do
without its helper: ``aux`` does the first step, or a share of the only one, and main uses its result.
``coding/coop_humaneval`` has no problem of one step; in half of its problems the helper's work is long, or is needed
twice.

Problems of easy steps have no example: their sentence leaves no doubt. The others show one, in doctest's form.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from comlrl_envs.coding.demo import steps
from comlrl_envs.coding.demo.steps import Step
from comlrl_envs.seeding import rng

Kind: TypeAlias = Literal["humaneval", "coop_humaneval", "mbpp"]
COUNTS = {"train": 64, "eval": 32}
PLAIN_ASSERTS = 5
MBPP_ASSERTS = 5
EQUAL = "assert candidate({}) == {}"
ONE, TWO, AGAIN, TWICE, MORE = "one", "two", "again", "twice", "more"
MIX: dict[str, tuple[str, ...]] = {
    "humaneval": (ONE, TWO, ONE, MORE, ONE, TWO, ONE, MORE),
    "coop_humaneval": (AGAIN, TWO, TWICE, MORE, AGAIN, TWO, TWICE, MORE),
    "mbpp": (ONE, TWO, ONE, MORE, ONE, TWO, ONE, MORE),
}
"""Families of eight problems in a row, so that a slice of a set is mixed."""


@dataclass(frozen=True)
class Program:
    """What a function does.

    Attributes:
        says: Words that follow "it", without a full stop.
        variable: Name of the argument.
        takes: Kind of the argument.
        gives: Kind of the result.
        aux: Expression that the helper returns.
        main: Expression that main returns; ``part`` in it is the helper's result.
        body: Lines of a solution without a helper.
        shown: Whether the problem shows an example.
    """

    says: str
    variable: str
    takes: str
    gives: str
    aux: str
    main: str
    body: tuple[str, ...]
    shown: bool


@dataclass(frozen=True)
class Problem:
    """A program with a name, and its arguments and results in Python's spelling."""

    name: str
    program: Program
    cases: tuple[tuple[str, str], ...]


def rows(kind: Kind, split: str) -> list[dict[str, Any]]:
    """The problems of a split.

    Args:
        kind: ``"humaneval"``, ``"coop_humaneval"`` or ``"mbpp"``.
        split: ``"train"`` (64 rows) or ``"eval"`` (32).

    Returns:
        Rows with ``id``, ``task_id``, ``prompt``, ``entry_point`` and ``canonical_solution``; in HumanEval's form with
        ``test``, in MBPP's with ``test_list`` and ``test_imports``. ``aux`` and ``main`` are the team's answer.
    """
    form = _mbpp_row if kind == "mbpp" else _humaneval_row
    problems = _problems(kind)[split]
    return [{**form(problem, rng("coding demo tests", kind, problem.name)), **_gold(problem)} for problem in problems]


@functools.cache
def _problems(kind: Kind) -> dict[str, tuple[Problem, ...]]:
    chance = rng("coding demo", kind)
    families = {family: _different(family, chance) for family in dict.fromkeys(MIX[kind])}
    made: dict[str, tuple[Problem, ...]] = {}
    for split, count in COUNTS.items():
        names = steps.shuffled(steps.NAMES[split], chance)
        mix = MIX[kind]
        programs = [next(families[mix[place % len(mix)]]) for place in range(count)]
        made[split] = tuple(
            Problem(name, program, _cases(program, chance)) for name, program in zip(names, programs, strict=True)
        )
    return made


def _different(family: str, chance: np.random.Generator) -> Iterator[Program]:
    """The programs of a family in an order of chance: pairs of steps take turns, and no sentence comes twice."""
    seen: set[str] = set()
    for first, then in steps.endless(_pairs(family), chance):
        variable = steps.shuffled(steps.VARIABLES[first.takes], chance)[0]
        k = steps.shuffled(first.numbers(), chance)[0]
        # What is added and then taken away again would be no work at all.
        others = [number for number in (then or first).numbers() if number != k] or [0]
        j = k if family == AGAIN else steps.shuffled(others, chance)[0]
        program = _program(first, then, variable, k, j, family in (TWICE, MORE))
        if program.says not in seen and (then is None or first.takes != then.takes or _needs_both(program, chance)):
            seen.add(program.says)
            yield program


def _pairs(family: str) -> Sequence[tuple[Step, Step | None]]:
    if family == ONE:
        return [(step, None) for step in steps.ONE]
    if family == AGAIN:
        return steps.AGAIN
    firsts = steps.MORE if family == MORE else steps.ONE
    thens = {TWO: steps.THEN, TWICE: steps.TWICE, MORE: steps.AFTER_MORE}[family]
    return [(first, then) for first in firsts for then in thens if first.gives == then.takes]


def _program(first: Step, then: Step | None, x: str, k: int, j: int, shown: bool) -> Program:
    says, does = first.says.format(x=x, k=k), first.does.format(x=x, k=k)
    if then is None:
        aux, main = first.aux.format(x=x, k=k), first.main.format(x=x, k=k, part="part")
        return Program(says, x, first.takes, first.gives, aux, main, (f"return {does}",), shown)
    main = then.does.format(part="part", k=j)
    both = f"{says} and {then.says.format(k=j)}"
    return Program(both, x, first.takes, then.gives, does, main, (f"part = {does}", f"return {main}"), shown)


def _needs_both(program: Program, chance: np.random.Generator) -> bool:
    """Whether the second step alone gives something else, as it does not for the length of a text turned round."""
    given = steps.values(program.takes, 8, chance)
    return any(_value(program.main, program, value, value) != _result(program, value) for value in given)


def _result(program: Program, given: Any) -> Any:
    return _value(program.main, program, given, _value(program.aux, program, given))


def _value(expression: str, program: Program, given: Any, part: Any = None) -> Any:
    """The value of an expression of the tables in ``steps``; never one of a reply."""
    return eval(expression, {program.variable: given, "part": part})


def _cases(program: Program, chance: np.random.Generator) -> tuple[tuple[str, str], ...]:
    """Eight arguments and results, the results not all the same."""
    for _ in range(100):
        given = steps.values(program.takes, 8, chance)
        results = [_result(program, value) for value in given]
        if any(result != results[0] for result in results):
            return tuple((repr(value), repr(result)) for value, result in zip(given, results, strict=True))
    raise ValueError(f"It {program.says}: the same result for all values; change the numbers in the tables of steps.")


def _function(name: str, variable: str, *body: str) -> str:
    return "\n".join([f"def {name}({variable}):", *(f"    {line}" for line in body), ""])


def _gold(problem: Problem) -> dict[str, str]:
    program = problem.program
    return {
        "aux": _function("aux", program.variable, f"return {program.aux}"),
        "main": _function(problem.name, program.variable, f"part = aux({program.variable})", f"return {program.main}"),
    }


def _humaneval_row(problem: Problem, chance: np.random.Generator) -> dict[str, Any]:
    program = problem.program
    given, result = problem.cases[0]
    example = ("", f">>> {problem.name}({given})", result, '"""') if program.shown else ()
    words = f'"""It {program.says}.' + ("" if example else '"""')
    lines = [f"def {problem.name}({program.variable}):", *(f"    {line}" if line else "" for line in (words, *example))]
    return {
        "id": problem.name,
        "task_id": problem.name,
        "prompt": "\n".join(lines) + "\n",
        "entry_point": problem.name,
        "test": _check(problem, chance),
        "canonical_solution": "".join(f"    {line}\n" for line in program.body),
    }


def _mbpp_row(problem: Problem, chance: np.random.Generator) -> dict[str, Any]:
    program = problem.program
    close = program.gives == steps.FRACTION
    form = "assert math.isclose({}({}), {})" if close else "assert {}({}) == {}"
    return {
        "id": problem.name,
        "task_id": problem.name,
        "prompt": f"Write a function {problem.name}({program.variable}) that {program.says}.",
        "entry_point": problem.name,
        "test_imports": ["import math"] if close else [],
        "test_list": [form.format(problem.name, given, result) for given, result in problem.cases[:MBPP_ASSERTS]],
        "canonical_solution": _function(problem.name, program.variable, *program.body),
    }


def _check(problem: Problem, chance: np.random.Generator) -> str:
    """A test function: plain asserts, and as chance has it more of them, a loop over pairs, or a value set up first."""
    form = "assert abs(candidate({}) - {}) < 1e-9" if problem.program.gives == steps.FRACTION else EQUAL
    plain = [form.format(given, result) for given, result in problem.cases[:PLAIN_ASSERTS]]
    rest = problem.cases[PLAIN_ASSERTS:]
    pairs = ", ".join(f"({given}, {result})" for given, result in rest)
    given, result = rest[0]
    loop = [f"for given, expected in [{pairs}]:", f"    {form.format('given', 'expected')}"]
    endings = [
        [form.format(*case) for case in rest],
        loop,
        [f"given = {given}", form.format("given", result), *(form.format(*case) for case in rest[1:])],
    ]
    ending = endings[int(chance.integers(len(endings)))]
    return _function("check", "candidate", *plain, *ending)
