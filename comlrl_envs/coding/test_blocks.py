"""The tests of a task as whole blocks of statements, taken by the parser.

A block is one test: an assertion, a loop with assertions in it, or a call of the test's own helper that asserts,
together with the lines it needs from above. Loops, set-up lines, helper functions and assertions over several
lines stay whole, texts are left as they are, and what does not depend on the candidate is no test.
"""

from __future__ import annotations

import ast
import doctest
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comlrl_envs.coding.program import preamble_of
from comlrl_envs.coding.syntax import (
    DEFINITIONS,
    FUNCTIONS,
    Function,
    bound_names,
    in_scope,
    loaded_names,
    moved,
    own_statements,
    parse,
    source_of,
)

FEEDBACK_SHARE = 4
"""One of so many tests goes to the feedback where a task's docstring has no example of its own."""


@dataclass(frozen=True)
class Tests:
    """The tests of one task; trusted source.

    Attributes:
        setup: Run once before the blocks, where the entry point is bound: imports and helpers of the tests.
        blocks: One test each. Each can be run without the others.
    """

    __test__ = False  # a test class by name only

    setup: str
    blocks: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """Which tests score, and which an agent may be told about.

    Attributes:
        scoring: Blocks that count in the reward.
        feedback: Blocks that feedback reports on.
        disjoint: No call of the candidate in ``feedback`` stands in ``scoring``. If not, a single test is all there
            is: feedback may say whether it passed, but must not show it.
    """

    scoring: tuple[str, ...]
    feedback: tuple[str, ...]
    disjoint: bool


def humaneval_tests(test: str, entry_point: str, prompt: str = "") -> Tests:
    """The tests of a text with ``def check(candidate): …``, as in HumanEval.

    Args:
        test: The text. Its module-level code and the prompt's own definitions become the set-up; calls of ``check``
            do not.
        entry_point: Name that stands for ``candidate``, and may be called by itself.
        prompt: Source whose other definitions the tests may use; ``""`` for none.

    Raises:
        ValueError: The text is no Python, has no ``check``, or tests nothing.
    """
    tree = _parsed(test, "test")
    checks = [node for node in tree.body if isinstance(node, FUNCTIONS) and node.name == "check"]
    if not checks or not checks[-1].args.args:
        raise ValueError("the test does not define check(candidate); expected 'def check(candidate):' with assertions.")
    check = checks[-1]
    around = _apart_from_check(tree.body)
    candidate = check.args.args[0].arg
    setup = (preamble_of(prompt, entry_point) if prompt else "") + source_of(around, test)
    asserting = _asserting(around)
    if any(isinstance(node, ast.Return | ast.Yield | ast.YieldFrom | ast.Nonlocal) for node in in_scope(check.body)):
        blocks = [f"{source_of([check], test)}check({entry_point})\n"] if _asserts(check, asserting) else []
    else:
        lines = test.split("\n")
        blocks = _blocks(check.body, lines, {candidate, entry_point}, asserting)
        blocks = [_bind(block, candidate, entry_point) for block in blocks]
    return _checked(Tests(setup, tuple(blocks)))


def mbpp_tests(row: Mapping[str, Any]) -> Tests:
    """The tests of a row in MBPP's form: ``test_list``, with ``test_imports`` and ``test_setup_code`` as set-up.

    Args:
        row: A row that ``rows.function_row`` has read.

    Raises:
        ValueError: A test is no Python, or there is none.
    """
    setup = "\n".join([*row["test_imports"], row["test_setup_code"]]).strip()
    entry_point, blocks = row["entry_point"], []
    _parsed(setup, "test_imports and test_setup_code")
    for text in row["test_list"]:
        body = _parsed(text, "test_list").body
        blocks += _blocks(body, text.split("\n"), {entry_point}, _asserting(body))
    return _checked(Tests(f"{setup}\n" if setup else "", tuple(blocks)))


def entry_function(source: str, name: str) -> Function | None:
    """The definition of ``name`` in ``source``, which may end with the docstring or the colon; None without one.

    Raises:
        ValueError: The source is no Python.
    """
    for text in (source, f"{source.rstrip()}\n    pass\n"):
        try:
            tree = parse(text)
        except SyntaxError:
            continue
        return next((node for node in tree.body if isinstance(node, FUNCTIONS) and node.name == name), None)
    raise ValueError(f"the source of {name!r} is no Python: {source[:80]!r}")


def docstring_examples(prompt: str, entry_point: str) -> tuple[str, ...]:
    r"""The ``>>>`` examples in the docstring of the entry function as assertions.

    Only single expressions that call it, with a literal as their result.

    >>> docstring_examples("def aux(n):\n    '''\n    >>> aux(1)\n    2\n    '''\n", "aux")
    ('assert aux(1) == 2\n',)
    """
    node = entry_function(prompt, entry_point)
    text = ast.get_docstring(node) if node is not None else None
    found = []
    try:
        examples = doctest.DocTestParser().get_examples(text or "")
    except ValueError:  # an example that is not indented as doctest wants it
        return ()
    for example in examples:
        source, want = example.source.strip(), example.want.strip()
        try:
            expression = ast.parse(source, mode="eval")
            ast.literal_eval(want)
        except (SyntaxError, ValueError):
            continue
        if entry_point in loaded_names(expression) and "\n" not in source:
            found.append(f"assert {source} == {want}\n" if "\n" not in want else f"assert {source} == (\n{want}\n)\n")
    return tuple(dict.fromkeys(found))


def split_for_feedback(blocks: Sequence[str], names: Iterable[str], examples: Sequence[str] = ()) -> Split:
    """Which tests score and which feedback may show, without a call of the candidate in common.

    The examples that a task's docstring shows are feedback, if their calls stand in no block: then every block
    scores. Else the first quarter of the blocks (at least one) whose calls stand in no other block is feedback,
    and the others score. Where no such block exists, all blocks score and are feedback, and ``disjoint`` is False.

    Args:
        blocks: All tests, at least one.
        names: The candidate's names: the entry point, and ``"candidate"``.
        examples: See ``docstring_examples``.
    """
    known = set(names) | {"candidate"}
    calls = [_calls(block, known) for block in blocks]
    scored = set().union(*calls)
    shown = tuple(example for example in examples if not _calls(example, known) & scored)
    if shown:
        return Split(tuple(blocks), shown, True)
    unlike = [
        i for i, own in enumerate(calls) if own and not own & set().union(*calls[:i], *calls[i + 1 :])
    ]  # fmt: skip
    chosen = set(unlike[: max(1, len(blocks) // FEEDBACK_SHARE)])
    if not chosen or len(blocks) < 2:
        return Split(tuple(blocks), tuple(blocks), False)
    return Split(
        tuple(block for i, block in enumerate(blocks) if i not in chosen),
        tuple(block for i, block in enumerate(blocks) if i in chosen),
        True,
    )


def _calls(block: str, names: set[str]) -> set[str]:
    """The calls of the candidate in a block, in one form whatever the candidate is called there."""
    return {
        ast.dump(ast.Tuple([*node.args, *(keyword.value for keyword in node.keywords)]))
        for node in ast.walk(parse(block))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    }


def _parsed(source: str, field: str) -> ast.Module:
    if not isinstance(source, str):
        raise TypeError(f"{field!r} is a {type(source).__name__}, expected Python source as a str")
    try:
        return parse(source)
    except SyntaxError as error:
        raise ValueError(f"{field!r} is no Python source: {error.msg} (line {error.lineno})") from None


def _apart_from_check(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements that neither define ``check`` nor call it, be it through a function that does."""
    callers, rest = {"check"}, body
    for _ in body:
        kept = [node for node in rest if not callers & (loaded_names(node) | set(bound_names(node)))]
        if len(kept) == len(rest):
            break
        callers |= {node.name for node in rest if isinstance(node, FUNCTIONS) and node not in kept}
        rest = kept
    return rest


def _checked(tests: Tests) -> Tests:
    if not tests.blocks:
        raise ValueError("there is no test; expected at least one assertion that depends on the candidate.")
    return tests


def _blocks(body: list[ast.stmt], lines: list[str], names: set[str], asserting: set[str]) -> list[str]:
    """One text for each statement of ``body`` that tests a candidate known by ``names``."""
    body = own_statements(body)
    asserting = asserting | _asserting(body)
    above: list[ast.stmt] = []
    blocks = []
    for statement in body:
        if isinstance(statement, DEFINITIONS) or not _asserts(statement, asserting):
            above.append(statement)
            continue
        needed = _needed(statement, above)
        if any(names & loaded_names(node) for node in (*needed, statement)):
            blocks.append("".join(moved(node, lines, "") for node in (*needed, statement)))
    return blocks


def _needed(statement: ast.stmt, above: list[ast.stmt]) -> list[ast.stmt]:
    """The statements above that bind, or may change, what ``statement`` reads, and what those read."""
    wanted = loaded_names(statement)
    chosen = []
    for node in reversed(above):
        binds = set(bound_names(node))
        plain = isinstance(node, (*DEFINITIONS, ast.Import, ast.ImportFrom))
        only_binds = isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets)
        touched = binds if plain or only_binds else binds | (loaded_names(node) - {"print"})
        if touched & wanted or "*" in binds:
            wanted |= loaded_names(node)
            chosen.append(node)
    return chosen[::-1]


def _asserting(body: Iterable[ast.stmt]) -> set[str]:
    """Names of the functions that assert something when called, directly or through each other."""
    found: set[str] = set()
    functions = [node for node in body if isinstance(node, FUNCTIONS)]
    for _ in functions:
        more = {node.name for node in functions if any(_asserts(each, found) for each in node.body)}
        if more == found:
            break
        found = more
    return found


def _asserts(statement: ast.stmt, asserting: set[str]) -> bool:
    for node in ast.walk(statement):
        if isinstance(node, ast.Assert | ast.Raise):
            return True
        if isinstance(node, ast.Name) and node.id in asserting:
            return True
        if isinstance(node, ast.Attribute) and node.attr.startswith("assert"):
            return True
    return False


def _bind(block: str, candidate: str, entry_point: str) -> str:
    """``block`` with a first line that makes ``candidate`` the entry point, if it says so."""
    if candidate == entry_point or candidate not in loaded_names(parse(block)):
        return block
    return f"{candidate} = {entry_point}\n{block}"
