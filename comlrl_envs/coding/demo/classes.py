"""Classes in ClassEval's form, to be completed by a team: 64 to train on and 32 held out, each of 3 to 5 methods.

Half of them are toolkits, whose methods stand alone; the others keep something, or build one method on another, so that
agents who write different methods have to agree on what the skeleton says.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from comlrl_envs.coding.demo import steps
from comlrl_envs.coding.demo.steps import LIST, NUMBER, TEXT
from comlrl_envs.seeding import rng

COUNTS = {"train": 64, "eval": 32}
TESTS = 2
"""Tests of each method."""


@dataclass(frozen=True)
class Method:
    """A method to be written; ``{f}`` stands for the field, ``{k}`` and ``{j}`` for numbers.

    Attributes:
        name: What it is called.
        arguments: Its parameters after ``self``.
        says: Words of its docstring that follow "it".
        body: Its lines.
        calls: What a test calls, one after the other; ``{n}`` is a number and ``{w}`` a word, drawn for each test.
        decorator: What stands above it, if anything.
    """

    name: str
    arguments: str
    says: str
    body: tuple[str, ...]
    calls: tuple[str, ...]
    decorator: str = ""


@dataclass(frozen=True)
class Family:
    """A kind of class.

    Attributes:
        says: Its docstring.
        keeps: What its field is made of: a kind of value that the constructor takes, or an expression for a new one;
            empty for a class without a field.
        methods: The methods.
    """

    says: str
    keeps: str
    methods: tuple[Method, ...]


GAUGE = Family(
    "Keeps the {f}, which rises and falls.",
    NUMBER,
    (
        Method(
            "rise", "", "adds {k} to the {f} and returns it", ("self.{f} += {k}", "return self.{f}"), ("rise()",) * 2
        ),
        Method(
            "fall", "", "takes {j} from the {f} and returns it", ("self.{f} -= {j}", "return self.{f}"), ("fall()",)
        ),
        Method("double", "", "doubles the {f} and returns it", ("self.{f} *= 2", "return self.{f}"), ("double()",) * 2),
        Method("above", "x", "says whether the {f} is above x", ("return self.{f} > x",), ("above({n})", "above(9)")),
    ),
)
SERIES = Family(
    "Keeps numbers, each of them one {f}.",
    LIST,
    (
        Method("total", "", "adds up the list {f}", ("return sum(self.{f})",), ("total()",)),
        Method("largest", "", "gives the largest item of {f}", ("return max(self.{f})",), ("largest()",)),
        Method("count", "", "gives the length of {f}", ("return len(self.{f})",), ("count()",)),
        Method(
            "add",
            "x",
            "puts x behind the last {f} and returns the list",
            ("self.{f}.append(x)", "return self.{f}"),
            ("add({n})", "add(7)"),
        ),
        Method("ordered", "", "sorts the list {f}", ("return sorted(self.{f})",), ("ordered()",)),
    ),
)
SIGN = Family(
    "Keeps the {f}, a text.",
    TEXT,
    (
        Method("loud", "", "puts the text {f} in upper case", ("return self.{f}.upper()",), ("loud()",)),
        Method("mirror", "", "reverses the text {f}", ("return self.{f}[::-1]",), ("mirror()",)),
        Method("count", "", "gives the length of {f}", ("return len(self.{f})",), ("count()",)),
        Method(
            "has", "word", "says whether word stands in {f}", ("return word in self.{f}",), ("has({w})", "has('e')")
        ),
    ),
)
PILE = Family(
    "A pile; what was put on it last is taken first, {f} by {f}.",
    "[]",
    (
        Method(
            "put", "x", "puts x on the {f} pile and returns how many lie there now",
            ("self.{f}.append(x)", "return len(self.{f})"), ("put({n})", "put(3)"),
        ),
        Method(
            "take", "", "takes the last {f} away and returns it, or None if there is none",
            ("return self.{f}.pop() if self.{f} else None",), ("put({n})", "take()", "take()"),
        ),
        Method(
            "total", "", "adds up the {f} pile", ("return sum(self.{f})",), ("total()", "put({n})", "put(5)", "total()")
        ),
    ),
)  # fmt: skip
TALLY = Family(
    "Counts how often each {f} was seen.",
    "{{}}",
    (
        Method(
            "see", "word", "counts one more {f} called word and returns its count",
            ("self.{f}[word] = self.{f}.get(word, 0) + 1", "return self.{f}[word]"), ("see({w})", "see({w})"),
        ),
        Method(
            "count", "word", "returns how often the {f} called word was seen",
            ("return self.{f}.get(word, 0)",), ("count({w})", "see({w})", "count({w})"),
        ),
        Method(
            "most", "", "returns the {f} seen most often",
            ("return max(self.{f}, key=self.{f}.get)",), ("see('top')", "see({w})", "see('top')", "most()"),
        ),
    ),
)  # fmt: skip
CHAIN = Family(
    "Works out the {f} in steps.",
    "",
    (
        Method("base", "x", "multiplies x by {k} for the {f}", ("return x * {k}",), ("base({n})", "base(2)")),
        Method(
            "full",
            "x",
            "adds {j} to the {f} that base gives for x",
            ("return self.base(x) + {j}",),
            ("full({n})", "full(3)"),
        ),
        Method(
            "twice",
            "x",
            "doubles the {f} that full gives for x",
            ("return self.full(x) * 2",),
            ("twice({n})", "twice(4)"),
        ),
    ),
)
TOOLKIT = "toolkit"
MIX: tuple[Family | str, ...] = (
    TOOLKIT, GAUGE, TOOLKIT, SERIES, TOOLKIT, SIGN, TOOLKIT, CHAIN, TOOLKIT, PILE, TOOLKIT, TALLY,
)  # fmt: skip


def rows(split: str) -> list[dict[str, Any]]:
    """The classes of a split.

    Args:
        split: ``"train"`` (64 rows) or ``"eval"`` (32).

    Returns:
        Rows with ``id``, ``task_id``, ``skeleton`` (methods without bodies), ``class_name``, ``test`` (``unittest``)
        and ``solution_code``.
    """
    return [dict(row) for row in _made()[split]]


@functools.cache
def _made() -> dict[str, tuple[dict[str, Any], ...]]:
    chance = rng("coding demo", "classeval")
    tools = _tools(chance)
    made = {}
    for split, count in COUNTS.items():
        names = steps.shuffled(steps.NAMES[split], chance)
        families = [MIX[place % len(MIX)] for place in range(count)]
        made[split] = tuple(
            _row(name, _toolkit(name, tools) if isinstance(family, str) else family, chance)
            for name, family in zip(names, families, strict=True)
        )
    return made


def _tools(chance: np.random.Generator) -> Iterator[Method]:
    """Every one-step program as a static method, each sentence once."""
    programs = [
        (step, variable, k)
        for step in steps.ONE
        for variable in dict.fromkeys((*steps.VARIABLES[step.takes], "v"))
        for k in step.numbers()
    ]
    for step, variable, k in steps.shuffled(programs, chance):
        drawn = [repr(value) for value in steps.values(step.takes, TESTS, chance)]
        says, does = (text.format(x=variable, k=k) for text in (step.says, step.does))
        yield Method(says.split()[0], variable, says, (f"return {does}",), tuple(drawn), "@staticmethod")


def _toolkit(name: str, tools: Iterator[Method]) -> Family:
    """Three tools, the first words of their sentences their names: no two of them begin alike."""
    kept: dict[str, Method] = {}
    while len(kept) < 3:
        tool = next(tools)
        kept.setdefault(tool.name, tool)
    return Family(f"Tools for the {name}.", "", tuple(kept.values()))


def _row(field: str, family: Family, chance: np.random.Generator) -> dict[str, Any]:
    k, j = (int(number) for number in chance.choice(range(2, 10), size=2, replace=False))
    name = field.capitalize()
    gaps = {"f": field, "k": k, "j": j}
    head = [f"class {name}:", f'    """{family.says.format(**gaps)}"""', *_constructor(family.keeps, field)]
    stubs = [line for method in family.methods for line in _method(method, gaps, stub=True)]
    full = [line for method in family.methods for line in _method(method, gaps, stub=False)]
    solution = _text(head + full)
    return {
        "id": name,
        "task_id": name,
        "class_name": name,
        "skeleton": _text(head + stubs),
        "test": _tests(name, family, solution, chance),
        "solution_code": solution,
    }


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _constructor(keeps: str, field: str) -> list[str]:
    if not keeps:
        return []
    if keeps in (NUMBER, LIST, TEXT):
        value = f"list({field})" if keeps == LIST else field
        return ["", f"    def __init__(self, {field}):", f"        self.{field} = {value}"]
    return ["", "    def __init__(self):", f"        self.{field} = {keeps.format()}"]


def _method(method: Method, gaps: dict[str, Any], stub: bool) -> list[str]:
    first = [] if method.decorator else ["self"]
    arguments = ", ".join([*first, *([method.arguments] if method.arguments else [])])
    lines = [f"def {method.name}({arguments}):"]
    lines += [f'    """It {method.says.format(**gaps)}."""'] if stub else []
    lines += [] if stub else [f"    {line.format(**gaps)}" for line in method.body]
    return ["", *(f"    {line}" for line in [*([method.decorator] if method.decorator else []), *lines])]


def _tests(name: str, family: Family, solution: str, chance: np.random.Generator) -> str:
    """One test class a method, as ClassEval has it; what is right is what the solution says."""
    namespace: dict[str, Any] = {}
    # This is the text made above, never a reply.
    exec(solution, namespace)
    lines = ["import unittest"]
    for method in family.methods:
        lines += ["", "", f"class {name}Test{method.name.capitalize()}(unittest.TestCase):"]
        for number in range(TESTS):
            made = _constructed(name, family.keeps, chance)
            value, word = (repr(steps.values(kind, 1, chance)[0]) for kind in (NUMBER, TEXT))
            if method.decorator:
                subject, calls = name, [f"{method.name}({method.calls[number]})"]
            else:
                subject, calls = "made", [call.format(n=value, w=word) for call in method.calls]
            lines += [""] if number else []
            lines += [f"    def test_{method.name}_{number + 1}(self):"]
            lines += [f"        made = {made}"] if subject == "made" else []
            namespace["made"] = eval(made, namespace)
            for call in calls:
                result = eval(f"{subject}.{call}", namespace)
                lines.append(f"        self.assertEqual({subject}.{call}, {result!r})")
    return _text(lines)


def _constructed(name: str, keeps: str, chance: np.random.Generator) -> str:
    given = repr(steps.values(keeps, 1, chance)[0]) if keeps in (NUMBER, LIST, TEXT) else ""
    return f"{name}({given})"
