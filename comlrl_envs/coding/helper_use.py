"""How a main agent's code uses a helper, from its syntax tree.

A comment or a text that mentions the helper is no call, a name that a function binds for itself is not the
helper, and what can never run (behind ``if False``, after ``return``) does not count.
"""

from __future__ import annotations

import ast
import functools
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from comlrl_envs.coding.program import without
from comlrl_envs.coding.syntax import (
    DEFINITIONS,
    FUNCTIONS,
    SCOPES,
    bound_names,
    in_scope,
    loaded_names,
    parse,
    simple_binding,
)

INSPECTIONS = frozenset({"callable", "print", "isinstance", "type", "id", "repr", "str", "bool", "hash", "dir", "help"})
"""Functions that may be handed a helper without ever calling it."""

REMEMBERED = 512
"""Main agents' codes of which a process keeps how they use a helper."""
_MOST_COPIES = 10
"""Copies of copies of a helper's name that are followed."""
_MOST_SCOPES = 1000
"""Functions that are looked at."""
_MOST_NESTED = 200
"""Functions within one that are looked at: a nested one is read once for each around it."""
_NEAR = 20
"""Statements after a call that are searched for a new binding of its value's name, so that the time stays linear."""


@dataclass(frozen=True)
class Usage:
    """How the entry function uses a helper.

    Attributes:
        called: It is called, or handed to something that calls it (``map``, ``functools.partial``, ``key=``).
        ignored: One sentence for each call whose value is not used.
        uses: Calls and hand-overs, those of ``ignored`` included.
    """

    called: bool = False
    ignored: tuple[str, ...] = ()
    uses: int = 0

    @property
    def all_ignored(self) -> bool:
        """It is called, and no value of it is ever used."""
        return self.called and len(self.ignored) == self.uses


@functools.lru_cache(maxsize=REMEMBERED)
def helper_usage(main: str, entry_point: str, helper: str) -> Usage:
    """How ``entry_point``, and what it reaches in ``main``, uses ``helper``.

    Args:
        main: Valid source of the main agent; its own definition of ``helper`` is left aside.
        entry_point: Name of the function that is tested.
        helper: Name of the helper.
    """
    ignored: list[str] = []
    uses = 0
    own = without(main, [helper])
    shared = _aliases(_Scope(parse(own).body, frozenset()), {helper})
    for scope in _reached(own, entry_point):
        names = _aliases(scope, shared)
        sites = list(_sites(scope.body, names))
        read = set().union(*map(loaded_names, scope.body)) if sites else set()
        for site in sites:
            uses += 1
            if reason := _why_ignored(site, read, helper):
                ignored.append(reason)
    return Usage(uses > 0, tuple(ignored), uses)


@dataclass(frozen=True)
class _Scope:
    """The body of a function, class or module that can run when the entry function does."""

    body: list[ast.stmt]
    hidden: frozenset[str]  # names that it, or a scope around it, binds for itself


@dataclass(frozen=True)
class _Site:
    """A use of the helper: the statement, the block it stands in, and the expression around the name."""

    node: ast.AST
    statement: ast.stmt
    block: list[ast.stmt]


def _reached(main: str, entry_point: str) -> list[_Scope]:
    """The scopes that the entry function can reach by name, its own first, nested ones included."""
    body = parse(main).body
    owners: dict[str, list[ast.stmt]] = {}
    for statement in body:
        for name in bound_names(statement):
            # A definition replaces what held the name before; an assignment may use it.
            kept = [] if isinstance(statement, DEFINITIONS) else owners.get(name, [])
            owners[name] = [*kept, statement]
    todo, seen = deque([entry_point]), {entry_point}
    scopes: list[_Scope] = []
    read: set[int] = set()
    while todo and len(scopes) < _MOST_SCOPES:
        for statement in owners.get(todo.popleft(), []):
            if id(statement) in read:
                continue
            read.add(id(statement))
            scopes += list(islice(_scopes(statement), _MOST_NESTED))
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and node.id in owners and node.id not in seen:
                    seen.add(node.id)
                    todo.append(node.id)
    return scopes


def _scopes(statement: ast.stmt) -> Iterator[_Scope]:
    """The statement in its own scope, and the bodies of all functions and classes in it."""
    yield _Scope([statement], frozenset())
    todo: list[tuple[ast.AST, frozenset[str]]] = [(statement, frozenset())]
    while todo:
        around, hidden = todo.pop()
        for node in in_scope([around]):
            if not isinstance(node, SCOPES):
                continue
            body: list[ast.stmt] = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
            inner = hidden if isinstance(node, ast.ClassDef) else hidden | _locals(node, body)
            yield _Scope(body, inner)
            todo += [(child, inner) for child in body]


def _locals(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: list[ast.stmt]) -> frozenset[str]:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {argument.arg for argument in every if argument is not None}
    names.update(name for statement in body for name in bound_names(statement))
    shared = {name for each in in_scope(body) if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names}
    return frozenset(names - shared)


def _aliases(scope: _Scope, known: set[str]) -> set[str]:
    """Those of the helper's ``known`` names that the scope sees, and the names that the scope gives it."""
    names = known - scope.hidden
    for _ in range(_MOST_COPIES):
        bindings = (simple_binding(node) for node in in_scope(scope.body))
        more = {b[0] for b in bindings if b and isinstance(b[1], ast.Name) and b[1].id in names} - names
        if not more:
            break
        names |= more
    return names


def _sites(body: list[ast.stmt], names: set[str]) -> Iterator[_Site]:
    """Calls and hand-overs of ``names`` in statements that can run, nested blocks included."""
    todo = [body] if names else []
    while todo:
        block = _alive(todo.pop())
        for statement in block:
            todo += list(_blocks(statement))
            for node in in_scope(_heads(statement)):
                for used in _used(node, names):
                    yield _Site(used, statement, block)


def _alive(block: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a block up to the first that leaves it."""
    for number, statement in enumerate(block):
        if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
            return block[: number + 1]
    return block


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement that can run."""
    if isinstance(statement, SCOPES):
        return
    constant = isinstance(statement, ast.If | ast.While) and isinstance(statement.test, ast.Constant)
    for name, value in ast.iter_fields(statement):
        if not isinstance(value, list) or not value:
            continue
        if constant and name in ("body", "orelse") and bool(statement.test.value) != (name == "body"):  # type: ignore[attr-defined]
            continue
        if isinstance(value[0], ast.stmt):
            yield value
        elif isinstance(value[0], ast.ExceptHandler | ast.match_case):
            yield from (each.body for each in value)


def _heads(statement: ast.stmt) -> list[ast.AST]:
    """The parts of a statement that are no blocks."""
    if isinstance(statement, SCOPES):
        return [statement]
    heads: list[ast.AST] = []
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.match_case):
            heads += [child.pattern, *([child.guard] if child.guard else [])]
        elif isinstance(child, ast.ExceptHandler):
            heads += [child.type] if child.type else []
        elif not isinstance(child, ast.stmt):
            heads.append(child)
    return heads


def _used(node: ast.AST, names: set[str]) -> Iterator[ast.AST]:
    """The call itself if ``node`` calls one of ``names``, or the name for each hand-over by ``node``."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        yield from (each for each in node.decorator_list if _is_name(each, names))
    elif isinstance(node, ast.Call):
        if _is_name(node.func, names):
            yield node
        if not _is_name(node.func, INSPECTIONS):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            yield from (each for each in given if _is_name(each, names))
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        yield from (each for each in node.elts if _is_name(each, names))
    elif isinstance(node, ast.Dict):
        yield from (each for each in node.values if _is_name(each, names))


def _is_name(node: ast.AST, names: Collection[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _why_ignored(site: _Site, read: set[str], helper: str) -> str | None:
    """A sentence on a call whose value nobody reads, or None."""
    if not isinstance(site.node, ast.Call):
        return None
    where = f"the value of {helper}(…) in line {site.node.lineno} of the main code"
    value = site.node
    if isinstance(site.statement, ast.Expr) and _bare(site.statement.value) is value:
        return f"{where} is thrown away"
    binding = simple_binding(site.statement)
    if binding is None or _bare(binding[1]) is not value:
        return None
    name = binding[0]
    if name not in read:
        return f"{where} is bound to {name!r}, which is never read"
    following = site.block.index(site.statement) + 1
    for statement in site.block[following : following + _NEAR]:
        again = simple_binding(statement)
        if again is not None and again[0] == name and name not in loaded_names(statement):
            return f"{where} is bound to {name!r}, which is bound anew before it is read"
        if any(_is_name(node, [name]) for node in ast.walk(statement)):
            break
    return None


def _bare(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Await) else node
