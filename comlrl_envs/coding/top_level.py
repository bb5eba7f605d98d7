"""What belongs to a module that others build upon, and what only shows or tests it.

Agents like to add an example: ``print(f(3))``, ``result = f(3)``, a loop over cases, assertions. Run together with a
teammate's code it fails, or runs before what it needs is defined, so it is left out:

- bare names, numbers and texts (prose often reads as such), and calls of functions; calls of something that the code
  imports or binds stay (``sys.setrecursionlimit(10_000)``), but for test runners;
- assignments, loops and other statements that call a function of the reply, where no definition reads the names that
  they deal with (``TABLE = build()`` stays if a function reads ``TABLE``);
- assertions, ``if __name__ == "__main__"``, annotations without a value, and what cannot compile there, such as
  ``return``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from comlrl_envs.coding.syntax import (
    DEFINITIONS,
    bound_names,
    compile_error,
    first_line,
    is_read,
    last_line,
    loaded_names,
    parse,
)

TEST_RUNNERS = frozenset({"unittest", "doctest", "pytest"})
"""Modules that are called only to test the code."""

_NEVER = (ast.Assert, ast.Pass, ast.Return, ast.Break, ast.Continue, ast.Raise)
_RUN_THROUGH = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.While, ast.With, ast.If, ast.Try)


def module_of(pieces: Sequence[str]) -> tuple[str, list[tuple[str, SyntaxError]]]:
    """One module of pieces of valid source, and the statements that do not compile, each with the reason.

    Imports from ``__future__`` go first. The module is ``""`` if its statements compile one by one only.
    """
    trees = [(piece.split("\n"), parse(piece).body) for piece in pieces]
    examples = _examples([statement for _, body in trees for statement in body])
    chunks: list[tuple[bool, str]] = []
    for lines, body in trees:
        for group in _groups(body):
            if not all(id(statement) in examples for statement in group):
                future = isinstance(group[0], ast.ImportFrom) and group[0].module == "__future__"
                text = "\n".join(lines[first_line(group[0]) - 1 : last_line(group[-1])]) + "\n"
                chunks.append((future, text))
    chunks.sort(key=lambda chunk: not chunk[0])
    code = "".join(text for _, text in chunks)
    if compile_error(code) is None:
        return code, []
    failed = [(text, error) for _, text in chunks if (error := compile_error(text)) is not None]
    bad = {text for text, _ in failed}
    code = "".join(text for _, text in chunks if text not in bad)
    return ("" if compile_error(code) else code), failed


def _groups(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Statements in groups that have lines of their own."""
    group: list[ast.stmt] = []
    for statement in body:
        if group and first_line(statement) > last_line(group[-1]):
            yield group
            group = []
        group.append(statement)
    if group:
        yield group


def _examples(body: list[ast.stmt]) -> set[int]:
    """Ids of the statements that only show or test the code."""
    bound = {name for statement in body for name in bound_names(statement)}
    own = {statement.name for statement in body if isinstance(statement, DEFINITIONS)}
    dropped = {id(statement) for statement in body if _never_kept(statement, bound)}
    doubtful = [each for each in body if id(each) not in dropped and _calls(each, own)]
    if not doubtful:
        return dropped
    settled = dropped | set(map(id, doubtful))
    wanted = {name for statement in body if id(statement) not in settled for name in _read_outside(statement)}
    for statement in reversed(doubtful):
        names = (set(bound_names(statement)) | loaded_names(statement)) - own
        if names & bound & wanted:
            wanted |= loaded_names(statement)
        else:
            dropped.add(id(statement))
    return dropped


def _never_kept(statement: ast.stmt, bound: set[str]) -> bool:
    if isinstance(statement, ast.Expr):
        return not _is_setting(statement.value, bound)
    if isinstance(statement, ast.AnnAssign):
        return statement.value is None
    if isinstance(statement, ast.If):
        return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))
    return isinstance(statement, _NEVER)


def _is_setting(value: ast.expr, bound: set[str]) -> bool:
    """Whether an expression is a call of something that a bound name holds: ``sys.setrecursionlimit(…)``."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    root: ast.expr = value.func
    while isinstance(root, ast.Attribute | ast.Call | ast.Subscript):
        root = root.func if isinstance(root, ast.Call) else root.value
    return isinstance(root, ast.Name) and root.id in bound - TEST_RUNNERS


def _calls(statement: ast.stmt, own: set[str]) -> bool:
    """Whether a statement that runs at once calls one of ``own``."""
    if not isinstance(statement, _RUN_THROUGH):
        return False
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Name) and function.id in own for function in calls)


def _read_outside(statement: ast.stmt) -> set[str]:
    """Names that a statement reads and, if it is a definition, does not bind within."""
    names = loaded_names(statement)
    if isinstance(statement, DEFINITIONS):
        within = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and not is_read(node)}
        arguments = {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
        shared = {n for node in ast.walk(statement) if isinstance(node, ast.Global) for n in node.names}
        return (names - within - arguments) | shared
    return names
