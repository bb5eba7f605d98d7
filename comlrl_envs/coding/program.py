"""One program out of what a team wrote, and the same program without a helper."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping

from comlrl_envs.coding.syntax import DEFINITIONS, bound_names, parse, source_of


def without(code: str, names: Collection[str]) -> str:
    """``code`` without the top-level statements that bind one of ``names``."""
    kept = [statement for statement in parse(code).body if not set(bound_names(statement)) & set(names)]
    return source_of(kept, code)


def team_program(preamble: str, helpers: Mapping[str, str], main: str, entry_point: str) -> str:
    """The program of a team: the task's own definitions, each helper's code, then the main agent's.

    Each agent has its word on its own function alone: a helper's code loses what binds the entry function or another
    helper, the main agent's what binds a helper. Other names are the module's: where two agents bind the same
    one, the later definition holds, as in any Python module, and the main agent comes last.

    Args:
        preamble: Trusted source: imports and functions of the task.
        helpers: Valid source by the name of the helper it should define.
        main: Valid source of the main agent.
        entry_point: Name of the function that is tested.
    """
    parts = [preamble]
    for name, code in helpers.items():
        parts.append(without(code, {entry_point, *helpers} - {name}))
    parts.append(without(main, helpers))
    return join(parts)


def join(sources: Iterable[str]) -> str:
    """One module of several; imports from ``__future__`` go first, as they must."""
    future: list[str] = []
    rest: list[str] = []
    for source in sources:
        body = parse(source).body
        is_future = [isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in body]
        future.append(source_of([node for node, first in zip(body, is_future, strict=True) if first], source))
        rest.append(source_of([node for node, first in zip(body, is_future, strict=True) if not first], source))
    return "\n".join(part for part in (*future, *rest) if part)


def stub_helper(code: str, name: str) -> str:
    r"""``code`` in which the function ``name`` takes anything and returns None.

    Everything else that the code defines stays, so that only the helper's own value is taken away.

    >>> print(stub_helper("def aux(n):\n    return n", "aux"))
    def aux(n):
        return n
    <BLANKLINE>
    <BLANKLINE>
    def aux(*args, **kwargs):
        return None
    <BLANKLINE>
    """
    stub = f"def {name}(*args, **kwargs):\n    return None\n"
    return f"{code.rstrip()}\n\n\n{stub}" if code.strip() else stub


def preamble_of(prompt: str, entry_point: str) -> str:
    """What a task's prompt defines besides the entry function: imports, constants, functions.

    Raises:
        ValueError: The prompt is no Python, or does not define ``entry_point``.
    """
    try:
        tree = parse(prompt)
    except SyntaxError as error:
        raise ValueError(f"the prompt is no Python source: {error.msg} (line {error.lineno})") from None
    if not any(isinstance(node, DEFINITIONS) and node.name == entry_point for node in tree.body):
        raise ValueError(
            f"the prompt does not define the entry point {entry_point!r}; expected 'def {entry_point}(…):'"
        )
    return without(prompt, [entry_point])
