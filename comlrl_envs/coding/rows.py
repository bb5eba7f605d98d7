"""Rows as they are published and as they are shipped: one form for function problems, one for classes."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from typing import Any

from comlrl_envs.coding.syntax import Function, parse
from comlrl_envs.errors import closest


def function_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Check a function problem in HumanEval's form, or in one of MBPP's.

    Args:
        row: In HumanEval's form ``prompt``, ``entry_point`` and ``test`` (source that defines ``check(candidate)``); in
            MBPP's ``prompt`` or ``text``, ``test_list`` and ``canonical_solution`` or ``code``. Any may have
            ``canonical_solution``, and the team's answer as ``aux`` and ``main``.

    Returns:
        The row with ``prompt`` (a problem that shows the function's signature), ``entry_point``, ``signature`` (such as
        ``"def add(x, y):"``), and ``test`` or ``test_list``, ``test_imports`` and ``test_setup_code``.

    Raises:
        KeyError: A field is missing.
        TypeError: A field is of another type.
        ValueError: There are no tests, they are not Python, or the function is not found.
    """
    fields = dict(row)
    if "test" not in row and "test_list" in row:
        fields.update(_mbpp_fields(row))
    for name in ("prompt", "entry_point"):
        _text(fields, name)
    if "test_list" in fields and "test" not in fields:
        _check_test_list(fields)
    else:
        _check_test(_text(fields, "test"))
    fields["signature"] = _signature(fields)
    return fields


def class_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Check a class in ClassEval's form.

    Args:
        row: ``skeleton`` (a class whose methods have no bodies), ``test`` (``unittest`` source), and if they are there
            ``class_name``, ``solution_code`` and ``import_statement`` (lines of imports).

    Returns:
        The row with ``class_name``, and a ``skeleton`` that is valid Python and imports what is listed. A skeleton that
        is no Python is made anew of the solution's signatures and the methods' descriptions.

    Raises:
        KeyError: A field is missing.
        TypeError: A field is of another type.
        ValueError: The tests are not Python or have no test, or the skeleton has no class of that name.
    """
    fields = dict(row)
    skeleton, test = _text(fields, "skeleton"), _parsed(_text(fields, "test"), "test")
    if not any(_functions(test, "test")):
        raise ValueError("'test' has no method whose name begins with 'test'; without tests nothing can be scored")
    if not _has_class(skeleton, row.get("class_name")) and "solution_code" in row and "methods_info" in row:
        skeleton = _skeleton_anew(row)
    names = [node.name for node in _parsed(skeleton, "skeleton").body if isinstance(node, ast.ClassDef)]
    fields["class_name"] = row.get("class_name") or next(iter(names), None)
    if fields["class_name"] not in names:
        raise ValueError(
            f"'skeleton' defines the classes {names}, not {fields['class_name']!r}."
            f"{closest(fields['class_name'], names)}"
        )
    wanted = [line for text in row.get("import_statement") or () for line in text.splitlines() if line.strip()]
    missing = [line for line in wanted if line.strip() not in skeleton]
    fields["skeleton"] = "\n".join([*missing, skeleton])
    return fields


def _mbpp_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    solution = row["canonical_solution"] if "canonical_solution" in row else row["code"]
    tests = row["test_list"]
    if not isinstance(tests, list | tuple) or not tests or not all(isinstance(test, str) for test in tests):
        raise ValueError("'test_list' holds no tests; expected a list of lines that begin with 'assert'")
    functions = {node.name: node for node in _parsed(solution, "canonical_solution").body if isinstance(node, Function)}
    called = {node.id for node in ast.walk(_parsed(tests[0], "test_list")) if isinstance(node, ast.Name)}
    name = row.get("entry_point") or next((name for name in functions if name in called), None)
    if name not in functions:
        raise ValueError(f"the solution defines {sorted(functions)}, and not {name!r}, which the tests call")
    words = (row["prompt"] if "prompt" in row else row["text"]).strip().strip("'\"").strip()
    header = f"def {name}({ast.unparse(functions[name].args)}):"
    shown = words if f"{name}(" in words else f'{header}\n    """{_escaped(words)}"""\n'
    return {
        "prompt": shown,
        "entry_point": name,
        "signature": header,
        "canonical_solution": solution,
        "test_imports": list(row.get("test_imports") or ()),
        "test_setup_code": row.get("test_setup_code") or "",
    }


def _check_test_list(fields: Mapping[str, Any]) -> None:
    for test in (*fields["test_imports"], fields["test_setup_code"], *fields["test_list"]):
        _parsed(test, "test_list")


def _check_test(test: str) -> None:
    checks = [node for node in _functions(_parsed(test, "test"), "check") if node.name == "check"]
    if not checks:
        raise ValueError("'test' does not define check(candidate)")
    if not any(isinstance(node, ast.Assert) for check in checks for node in ast.walk(check)):
        raise ValueError("'test' asserts nothing; without tests nothing can be scored")


def _signature(fields: Mapping[str, Any]) -> str:
    """The header of the entry function: that of the solution, or else of the prompt, whose body is missing."""
    if "signature" in fields:
        return str(fields["signature"])
    name, prompt = fields["entry_point"], fields["prompt"]
    for source in (prompt, f"{prompt}\n    pass"):
        try:
            tree = parse(source)
        except SyntaxError:
            continue
        for node in _functions(tree, name):
            if node.name == name:
                kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
                returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
                return f"{kind} {name}({ast.unparse(node.args)}){returns}:"
    raise ValueError(f"'prompt' shows no function {name!r}, which is the entry point")


def _has_class(source: str, name: object) -> bool:
    try:
        body = parse(source).body
    except SyntaxError:
        return False
    return any(isinstance(node, ast.ClassDef) and name in (None, node.name) for node in body)


def _skeleton_anew(row: Mapping[str, Any]) -> str:
    """The solution's class with descriptions for bodies; the constructor is given, as in the other skeletons."""
    told = {method["method_name"]: _description(method["method_description"]) for method in row["methods_info"]}
    tree = copy.deepcopy(_parsed(row["solution_code"], "solution_code"))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == row.get("class_name", node.name):
            for method in node.body:
                if isinstance(method, Function) and method.name in told:
                    method.body = [ast.Expr(ast.Constant(told[method.name]))]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _description(text: str) -> str:
    """The docstring of a stub; some have quotation marks for quotes, or lack the last ones."""
    _, _, words = text.partition(":\n")
    return words.strip().strip('"“”').rstrip() + "\n        "


def _parsed(source: Any, field: str) -> ast.Module:
    if not isinstance(source, str):
        raise TypeError(f"{field!r} holds a {type(source).__name__}, expected a str")
    try:
        return parse(source)
    except SyntaxError as bad:
        raise ValueError(f"{field!r} is not Python ({bad})") from bad


def _functions(tree: ast.AST, prefix: str) -> Iterator[Function]:
    """All functions below a node whose names begin so."""
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name.startswith(prefix):
            yield node


def _escaped(words: str) -> str:
    return words.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').replace("\r", "")


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"{name!r} is {value!r:.50}, a {type(value).__name__}; expected a str that says something")
    return value
