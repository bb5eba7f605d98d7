"""Classes to complete: which methods are open, who writes them, which tests use them, and what they import."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from comlrl_envs.coding.syntax import FUNCTIONS, Function, own_statements, parse, source_of
from comlrl_envs.seeding import rng

REMEMBERED = 1024
"""Classes of which a process keeps what was made of their rows."""
PACKAGES = ("numpy",)
"""Packages besides the standard library that a class may import, if its skeleton does."""
_ACCESSORS = frozenset({"setter", "deleter", "getter"})


@dataclass(frozen=True)
class Skeleton:
    """A class with methods to write.

    Attributes:
        source: The module that holds it.
        class_name: Its name.
        targets: Keys of the methods to write, in order: their names, and ``"x.setter"`` for ``@x.setter``.
    """

    source: str
    class_name: str
    targets: tuple[str, ...]


def read_skeleton(source: str, class_name: str | None = None) -> Skeleton:
    """The class to complete and its stubs.

    A stub is a method whose body is a docstring, ``pass``, ``...`` or ``raise NotImplementedError``; but a constructor
    whose body is ``pass`` alone is complete.

    Args:
        source: The module.
        class_name: Name of the class; None for the first class that has a stub.

    Raises:
        ValueError: The source is no Python, or has no such class or stub.
    """
    try:
        body = parse(source).body
    except SyntaxError as error:
        raise ValueError(f"the skeleton is no Python source: {error.msg} (line {error.lineno})") from None
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    for node in classes:
        targets = tuple(dict.fromkeys(method_key(method) for method in methods_of(node) if is_stub(method)))
        if node.name == class_name or (class_name is None and targets):
            if not targets:
                raise ValueError(
                    f"class {class_name!r} has no method to write; expected bodies of 'pass' or a docstring."
                )
            return Skeleton(source, node.name, targets)
    raise ValueError(
        f"the skeleton has the classes {[node.name for node in classes]}; expected {class_name or 'one'} with methods "
        "to write."
    )


def methods_of(node: ast.ClassDef) -> list[Function]:
    """The methods in the body of a class, in order."""
    return [each for each in node.body if isinstance(each, FUNCTIONS)]


def method_key(node: Function) -> str:
    """The name of a method, with the kind of an accessor: ``"x.setter"`` for ``@x.setter``."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Attribute) and decorator.attr in _ACCESSORS:
            return f"{node.name}.{decorator.attr}"
    return node.name


def is_stub(node: Function) -> bool:
    """Whether a method is still to be written; see ``read_skeleton``."""
    body = own_statements(node.body)
    if node.name == "__init__" and len(node.body) == 1 and isinstance(node.body[0], ast.Pass):
        return False
    return all(isinstance(each, ast.Pass) or _is_ellipsis(each) or _is_not_implemented(each) for each in body)


def _is_ellipsis(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def _is_not_implemented(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Raise):
        return False
    error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(error, ast.Name) and error.id == "NotImplementedError"


def partition(methods: Sequence[str], agents: Sequence[str], seed: int) -> dict[str, tuple[str, ...]]:
    """Which agent writes which methods: a seeded deal with numbers that differ by at most one.

    Each agent has its methods in the order of the class, and none where there are fewer methods than agents.

    >>> partition(("add", "pop", "size"), ("first", "second"), seed=0)
    {'first': ('add', 'size'), 'second': ('pop',)}
    """
    order = rng(seed, "partition of methods").permutation(len(methods))
    hands = {agent: sorted(order[i :: len(agents)].tolist()) for i, agent in enumerate(agents)}
    return {agent: tuple(methods[at] for at in hand) for agent, hand in hands.items()}


def methods_by_test(test: str, methods: Collection[str]) -> dict[str, frozenset[str]]:
    """Methods that each test of ``unittest`` source uses, by ``"Class.test"``; what ``setUp`` uses included.

    Raises:
        ValueError: The source is no Python.
    """
    try:
        body = parse(test).body
    except SyntaxError as error:
        raise ValueError(f"'test' is no Python source: {error.msg} (line {error.lineno})") from None
    found: dict[str, frozenset[str]] = {}
    for case in (node for node in body if isinstance(node, ast.ClassDef)):
        used = {method.name: _attributes(method) & set(methods) for method in methods_of(case)}
        common = used.get("setUp", set())
        found |= {
            f"{case.name}.{name}": frozenset(own | common) for name, own in used.items() if name.startswith("test")
        }
    return found


def _attributes(node: ast.AST) -> set[str]:
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def agents_by_test(test: str, authors: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Agents whose methods each test uses, by ``"Class.test"``; ``authors`` as in ``Merged``."""
    return {
        name: frozenset(authors[method] for method in used) for name, used in methods_by_test(test, authors).items()
    }


@functools.lru_cache(maxsize=REMEMBERED)
def imports_of(source: str) -> tuple[str, tuple[str, ...]]:
    """The imports of a skeleton, on which its tests rely too, and those of ``PACKAGES`` that they name."""
    imports = [node for node in parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)]
    named = {name.split(".")[0] for node in imports for name in _modules(node)}
    return source_of(imports, source), tuple(name for name in PACKAGES if name in named)


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
