"""Function problems as they are played: what agents read, which tests score, and which they may be told about."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from comlrl_envs.coding.program import preamble_of
from comlrl_envs.coding.rows import function_row, prompt_source, row_tests
from comlrl_envs.coding.test_blocks import Split, docstring_examples, entry_function, split_for_feedback

REMEMBERED = 4096
"""Problems of which a process keeps what was made of their rows."""


@dataclass(frozen=True)
class Problem:
    """A problem with its tests parted.

    Attributes:
        preamble: What the problem itself defines.
        setup: Trusted source that the tests need.
        tests: All of them, one block each.
        split: Tests that score, and those that feedback reports on.
    """

    preamble: str
    setup: str
    tests: tuple[str, ...]
    split: Split


def from_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A checked row; see ``rows.function_row``.

    Raises:
        KeyError, TypeError, ValueError: The row cannot be played.
    """
    fields = function_row(row)
    if re.fullmatch(r"aux(_\d+)?", fields["entry_point"]):
        raise ValueError(f"the entry point is {fields['entry_point']!r}, as helpers call their functions; rename it")
    problem_of(fields)
    return fields


def problem_of(fields: Mapping[str, Any]) -> Problem:
    """The problem of a row that ``from_row`` has checked."""
    imports, tests = (tuple(fields.get(name) or ()) for name in ("test_imports", "test_list"))
    return _problem(
        fields["prompt"], fields["entry_point"], fields.get("test"), imports, fields.get("test_setup_code") or "", tests
    )


@functools.lru_cache(maxsize=REMEMBERED)
def _problem(
    prompt: str, entry_point: str, test: str | None, imports: tuple[str, ...], setup: str, test_list: tuple[str, ...]
) -> Problem:
    row = {"prompt": prompt, "entry_point": entry_point}
    if test is not None:
        tests = row_tests({**row, "test": test})
    else:
        tests = row_tests({**row, "test_imports": imports, "test_setup_code": setup, "test_list": test_list})
    source = prompt_source(prompt)
    shown = source is not None and entry_function(source, entry_point) is not None
    examples = docstring_examples(prompt, entry_point) if shown else ()
    preamble = preamble_of(source, entry_point) if shown and source is not None else ""
    return Problem(preamble, tests.setup, tests.blocks, split_for_feedback(tests.blocks, [entry_point], examples))


def parameters(signature: str) -> str:
    """The names of a header's parameters.

    >>> parameters("def add(x: int, *rest, y=0) -> int:")
    'x, *rest, y'
    """
    name = signature[: signature.index("(")].split()[-1]
    function = entry_function(signature, name)
    assert function is not None, "a signature is a function's header"
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [each.arg for each in given.kwonlyargs]
    return ", ".join([*names, f"**{given.kwarg.arg}"] if given.kwarg else names)


def solution_of(fields: Mapping[str, Any]) -> str | None:
    """A solution by one agent alone, from a row's ``canonical_solution``: a function, or a body for the prompt."""
    code = fields.get("canonical_solution")
    if not isinstance(code, str) or not code.strip():
        return None
    is_source = prompt_source(code) is not None
    if is_source and entry_function(code, fields["entry_point"]) is not None:
        return code
    return f"{fields['prompt'].rstrip()}\n{code}"
