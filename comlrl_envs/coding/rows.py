"""Rows as they are published and as they are shipped: one form for function problems, one for classes."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from comlrl_envs.coding.syntax import FUNCTIONS, Function, bound_names, loaded_names, moved, parse
from comlrl_envs.coding.test_blocks import Tests, entry_function, humaneval_tests, mbpp_tests
from comlrl_envs.errors import closest


def function_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Check a function problem in HumanEval's form, or in one of MBPP's.

    Args:
        row: In HumanEval's form ``prompt``, ``entry_point`` and ``test`` (source that defines ``check(candidate)``); in
            MBPP's ``prompt`` or ``text``, ``test_list``, and ``entry_point`` or reference code (``canonical_solution``
            or ``code``). Any may have ``canonical_solution``, and the team's answer as ``aux`` and ``main``.

    Returns:
        The row with ``prompt`` (a problem that shows the function's signature), ``entry_point``, ``signature`` (such as
        ``"def add(x, y):"``), and ``test`` or ``test_list``, ``test_imports`` and ``test_setup_code``. Read again it is
        the same.

    Raises:
        KeyError: A field is missing.
        TypeError: A field is of another type.
        ValueError: There are no tests, they are not Python, or the function is not found.
    """
    fields = dict(row)
    if "test" not in row and "test_list" in row:
        fields |= _mbpp_fields(row)
    else:
        for name in ("prompt", "entry_point", "test"):
            _text(fields, name)
        fields["prompt"] = _with_parameters(fields)
    if "signature" not in fields:
        fields["signature"] = _shown_signature(fields["prompt"], fields["entry_point"])
    entry_function(f"{fields['signature']}\n    pass", fields["entry_point"])
    row_tests(fields)
    return fields


def row_tests(fields: Mapping[str, Any]) -> Tests:
    """The tests of a row that ``function_row`` has read."""
    prompt, entry_point = fields["prompt"], fields["entry_point"]
    if "test" in fields:
        return humaneval_tests(fields["test"], entry_point, prompt_source(prompt) or "")
    return mbpp_tests(fields)


def prompt_source(prompt: str) -> str | None:
    """A prompt as source, with a body where it ends with a header or a comment; None if it is prose."""
    for source in (prompt, f"{prompt}\n    pass\n"):
        try:
            parse(source)
        except SyntaxError:
            continue
        return source
    return None


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
    if not names:
        raise ValueError("'skeleton' defines no class; expected one whose methods have docstrings for bodies")
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
    tests = row["test_list"]
    if not isinstance(tests, list | tuple) or not tests or not all(isinstance(test, str) for test in tests):
        raise ValueError("'test_list' holds no tests; expected a list of lines that begin with 'assert'")
    code = _reference(row)
    name = _entry_point(row, code)
    reference = entry_function(code, name) if code else None
    if code and reference is None:
        raise ValueError(f"the solution defines {_functions_of(code)}, and not {name!r}, which is the entry point")
    header = row.get("signature") or (
        _header(reference) if reference else f"def {name}({_arguments(tests[0], 'test_list', name)}):"
    )
    fields = {
        "prompt": _mbpp_prompt(_text(row, "prompt" if "prompt" in row else "text"), name, header),
        "entry_point": name,
        "signature": header,
        "test_imports": _test_imports(row, code),
        "test_setup_code": row.get("test_setup_code") or "",
    }
    return {**fields, "canonical_solution": code} if code else fields


def _reference(row: Mapping[str, Any]) -> str:
    """The row's own solution, if it is one by itself and not a body for its prompt."""
    code = row.get("canonical_solution") or row.get("code") or ""
    _parsed(code, "canonical_solution")
    return str(code)


def _entry_point(row: Mapping[str, Any], code: str) -> str:
    """The row's, or the last function of the reference code that the first test calls."""
    if row.get("entry_point"):
        return _text(row, "entry_point")
    if not code:
        raise ValueError("the row has no 'entry_point', and no 'canonical_solution' or 'code' to take it from")
    called = loaded_names(_parsed(row["test_list"][0], "test_list"))
    found = next((name for name in reversed(_functions_of(code)) if name in called), None)
    if found is None:
        raise ValueError(f"the solution defines {_functions_of(code)}, of which the first test calls none")
    return found


def _functions_of(code: str) -> list[str]:
    return [node.name for node in parse(code).body if isinstance(node, FUNCTIONS)]


def _mbpp_prompt(text: str, name: str, header: str) -> str:
    """The task under the function's header, or as it is where it shows the parameters itself."""
    shown = entry_function(text, name) if prompt_source(text) is not None else None
    if shown is not None:
        return text if _parameters(shown) or "()" in header else _replaced(text, name, header)
    words = text.strip().strip("'\"").strip()
    if f"{name}{header[header.index('(') : header.rindex(')') + 1]}" in words:
        return words
    words = words.replace("\r", "").replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if "\n" in words or words.endswith('"'):
        words = "\n    " + words.replace("\n", "\n    ") + "\n    "
    return f'{header}\n    """{words}"""\n'


def _test_imports(row: Mapping[str, Any], code: str) -> list[str]:
    """The row's, and imports of the reference code that the tests rely on: MBPP runs both in one module."""
    imports = row.get("test_imports") or []
    imports = [imports] if isinstance(imports, str) else list(imports)
    setup = "\n".join([*imports, row.get("test_setup_code") or ""])
    given = {name for node in _parsed(setup, "test_imports").body for name in bound_names(node)}
    wanted = loaded_names(_parsed("\n".join(row["test_list"]), "test_list")) - given
    lines = code.split("\n")
    for node in parse(code).body:
        if isinstance(node, ast.Import | ast.ImportFrom) and wanted & set(bound_names(node)):
            imports.append(moved(node, lines, "").rstrip())
    return imports


def _with_parameters(fields: Mapping[str, Any]) -> str:
    """The prompt; where its header has no parameters and the tests pass some, as in a known copy of MBPP, with them."""
    prompt, name = str(fields["prompt"]), fields["entry_point"]
    shown = entry_function(prompt, name) if prompt_source(prompt) is not None else None
    if shown is None:
        raise ValueError(f"'prompt' shows no function {name!r}, which is the entry point")
    if _parameters(shown):
        return prompt
    code = fields.get("canonical_solution") or fields.get("code") or ""
    reference = entry_function(code, name) if code and prompt_source(code) is not None else None
    header = _header(reference) if reference else f"def {name}({_arguments(fields['test'], 'test', name)}):"
    return _replaced(prompt, name, header)


def _replaced(prompt: str, name: str, header: str) -> str:
    return re.sub(rf"(async\s+)?def\s+{re.escape(name)}\s*\(\s*\)[^:\n]*:", lambda _: header, prompt, count=1)


def _parameters(node: Function) -> list[ast.arg]:
    given = node.args
    extra = [each for each in (given.vararg, given.kwarg) if each is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *extra]


def _header(node: Function) -> str:
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{kind} {node.name}({ast.unparse(node.args)}){returns}:"


def _arguments(test: str, field: str, name: str) -> str:
    """As many names as the first call in the tests passes values."""
    calls = (
        node
        for node in ast.walk(_parsed(test, field))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in (name, "candidate")
    )
    given = next(calls, None)
    return ", ".join(f"arg{place + 1}" for place in range(len(given.args) if given else 0))


def _shown_signature(prompt: str, name: str) -> str:
    shown = entry_function(prompt, name)
    assert shown is not None, "the prompt has been read"
    return _header(shown)


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
        raise ValueError(f"{field!r} is not Python ({bad.msg}, line {bad.lineno})") from bad


def _functions(tree: ast.AST, prefix: str) -> Iterator[Function]:
    """All functions below a node whose names begin so."""
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name.startswith(prefix):
            yield node


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"{name!r} is {value!r:.50}, a {type(value).__name__}; expected a str that says something")
    return value
