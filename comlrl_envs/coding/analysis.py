"""Facts about what a helper and a main agent wrote, from their syntax trees alone: definitions, syntax, wrappers."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from comlrl_envs.coding.program import without
from comlrl_envs.coding.replies import Broken, Extracted
from comlrl_envs.coding.syntax import (
    FUNCTIONS,
    bound_names,
    compile_error,
    in_scope,
    is_read,
    own_statements,
    parse,
    simple_binding,
)

_FUNCTION_VALUES = (ast.Lambda, ast.Name, ast.Attribute, ast.Call)


@dataclass(frozen=True)
class Problem:
    """Why a text is no Python.

    Attributes:
        message: What the compiler says.
        line: From 1; 0 if unknown.
        column: From 1; 0 if unknown.
    """

    message: str
    line: int
    column: int

    def __str__(self) -> str:
        """One line."""
        return f"{self.message} (line {self.line}, column {self.column})" if self.line else self.message


@dataclass(frozen=True)
class Definition:
    """What is known of one agent's function.

    Attributes:
        name: Its name.
        found: It is in the reply, be it broken.
        returns: It returns or yields in its own scope (a text search if it is broken).
        problem: Why it cannot be parsed, or None.
    """

    name: str
    found: bool
    returns: bool
    problem: Problem | None = None

    @property
    def usable(self) -> bool:
        """It can be run and gives something back."""
        return self.returns and self.problem is None


def syntax_error(code: str) -> Problem | None:
    """Why ``code`` does not compile, or None.

    >>> str(syntax_error("x ="))
    'invalid syntax (line 1, column 4)'
    """
    error = compile_error(code)
    return None if error is None else Problem(error.msg or "invalid syntax", error.lineno or 0, error.offset or 0)


def definition(reply: Extracted, name: str) -> Definition:
    """What ``reply`` says of the function ``name``."""
    node = _function(parse(reply.code).body, name)
    if node is not None:
        return Definition(name, True, _returns(node))
    broken = next((each for each in reply.broken if each.name == name), None)
    if broken is None:
        return Definition(name, False, False)
    return Definition(name, True, _mentions_return(broken), Problem(broken.message, broken.line, broken.column))


def _function(body: Iterable[ast.stmt], name: str) -> ast.AST | None:
    """The last definition of ``name`` at the top level, or the value that is bound to it: ``name = cache(other)``."""
    found: ast.AST | None = None
    for node in in_scope(body):
        binding = simple_binding(node)
        if isinstance(node, FUNCTIONS) and node.name == name:
            found = node
        elif binding is not None and binding[0] == name:
            found = binding[1] if isinstance(binding[1], _FUNCTION_VALUES) else None
    return found


def _returns(node: ast.AST) -> bool:
    if not isinstance(node, FUNCTIONS):
        return True
    return any(isinstance(each, ast.Return | ast.Yield | ast.YieldFrom) for each in in_scope(node.body))


def _mentions_return(broken: Broken) -> bool:
    code = [line.split("#", 1)[0].split() for line in broken.source.split("\n")]
    return any("return" in words or "yield" in words for words in code)


def thin_wrapper(main: str, entry_point: str, helpers: Collection[str]) -> bool:
    """Whether the entry function only passes a helper's work on.

    Its body is empty, or one ``return`` that mentions a helper, or ``v = helper(…)`` and ``return v``. Statements
    without effect (``pass``, texts, imports, names that nobody reads) are left aside, copies of a name are followed,
    and so is a function of ``main`` that is such a wrapper itself.
    """
    body = parse(without(main, helpers)).body
    own = {node.name: node for node in body if isinstance(node, FUNCTIONS)}
    name, wrapped = entry_point, set(helpers)
    for _ in range(len(own)):
        node = own.pop(name, None)
        if node is None:
            return False
        statements, copies = _effective(node.body)
        if not statements:
            return True
        mentioned = _mentioned_in_result(statements, copies)
        if mentioned & wrapped:
            return True
        name = next(iter(sorted(mentioned & set(own))), "")
    return False


def _mentioned_in_result(statements: list[ast.stmt], copies: Mapping[str, str]) -> set[str]:
    """Names in the value of a body that is one ``return``, or one call bound to a name that is returned."""
    last = statements[-1]
    if not isinstance(last, ast.Return) or last.value is None or len(statements) > 2:
        return set()
    value = last.value
    if len(statements) == 2:
        bound = simple_binding(statements[0])
        if bound is None or not isinstance(value, ast.Name) or copies.get(value.id, value.id) != bound[0]:
            return set()
        value = bound[1]
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
            return set()
        value = value.func
    return {copies.get(node.id, node.id) for node in ast.walk(value) if isinstance(node, ast.Name)}


def _effective(body: list[ast.stmt]) -> tuple[list[ast.stmt], dict[str, str]]:
    """A body without docstring and statements that change nothing, and the names that are copies of another.

    A name is a copy if its one binding is ``name = other``.
    """
    kept = [node for node in own_statements(body) if not _idle(node)]
    bound = Counter(name for node in kept for name in bound_names(node))
    read = {each.id for node in kept for each in ast.walk(node) if isinstance(each, ast.Name) and is_read(each)}
    copies: dict[str, str] = {}
    rest: list[ast.stmt] = []
    for node in kept:
        name, value = simple_binding(node) or ("", None)
        if isinstance(value, ast.Name) and bound[name] == 1 and bound[value.id] <= 1:
            copies[name] = copies.get(value.id, value.id)
        elif value is None or name in read or not _pure(value):
            rest.append(node)
    return rest, copies


def _idle(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return _pure(node.value)
    if isinstance(node, ast.Assert):
        return isinstance(node.test, ast.Constant) and bool(node.test.value)
    binding = simple_binding(node)
    if binding is not None and isinstance(binding[1], ast.Name):
        return binding[0] == binding[1].id
    return isinstance(node, ast.Pass | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal)


def _pure(node: ast.expr) -> bool:
    """Whether evaluating ``node`` surely calls nothing."""
    calls = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Attribute, ast.Subscript, ast.BinOp)
    return not any(isinstance(each, calls) for each in ast.walk(node))
