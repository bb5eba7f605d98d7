"""Calls in what an agent writes: Python syntax or JSON, read and never run.

A call is a name, dots allowed, and arguments that are literals: texts, numbers, ``True``, ``False``, ``None`` (the
words of JSON too), lists, tuples, and mappings with texts as keys. Everything else that Python knows is an error, and
the call does not count.
"""

from __future__ import annotations

import ast
import json
import keyword
import math
import re
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from comlrl_envs.tagged_text import after_thoughts

if TYPE_CHECKING:
    from comlrl_envs.tool_use.functions import Function

MOST_CALLS = 64
MOST_CHARS = 20_000
MOST_DEPTH = 16
MOST_DIGITS = 400
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w-]*[ \t]*$", re.MULTILINE)
_BEGINS = re.compile(r"\s*[^\W\d]\w*(?:\.[^\W\d]\w*)*\s*\(")
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None, "none": None}
_STRINGS = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
BESIDE = "undecodable: words beside the calls did not count"


@dataclass(frozen=True, eq=False)
class Call:
    """A call as it was written.

    Attributes:
        name: Of the function.
        arguments: By name.
    """

    name: str
    arguments: Mapping[str, Any]

    @cached_property
    def text(self) -> str:
        """The call in Python, arguments sorted by name; two calls are equal if their texts are.

        >>> Call("f", {"b": "x", "a": 1.0}).text
        'f(a=1.0, b="x")'
        """
        return f"{self.name}({', '.join(f'{key}={_written(self.arguments[key])}' for key in sorted(self.arguments))})"


def _written(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value))}{',' * (len(value) == 1)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_written(key)}: {_written(each)}' for key, each in value.items())}}}"
    return repr(value)


@dataclass(frozen=True)
class Read:
    """What a reply calls.

    Attributes:
        calls: In order.
        errors: What did not count, in words for whoever wrote it, each behind the code ``undecodable``.
    """

    calls: tuple[Call, ...] = ()
    errors: tuple[str, ...] = ()


class _NotACall(ValueError):
    """A part of a reply that looks like a call and is none."""


def read_calls(reply: str, functions: Sequence[Function] = (), most: int = MOST_CALLS) -> Read:
    """The calls of a reply; any text is one.

    Args:
        reply: What stands behind the last ``</think>`` counts, the first 20,000 characters of it, fences left out.
        functions: Name the arguments that are given by position, in the order of their documents.
        most: Calls that count.

    Returns:
        The calls, and what was wrong.
    """
    text = after_thoughts(reply).replace("\0", " ")
    errors = []
    if len(text) > MOST_CHARS:
        errors.append(f"undecodable: your reply had {len(text)} characters; the first {MOST_CHARS} were read")
        text = text[:MOST_CHARS]
    text = _FENCE.sub("", text).strip()
    found = _whole(text, functions)
    if found is None:
        found, faults = _by_line(text, functions)
        errors += faults
    if len(found) > most:
        errors.append(f"undecodable: you wrote {len(found)} calls; the first {most} counted")
    return Read(tuple(found[:most]), tuple(dict.fromkeys(errors)))


def _whole(text: str, functions: Sequence[Function]) -> list[Call] | None:
    """The calls of a text that is nothing else."""
    if text in ("", "[]"):
        return []
    try:
        return _from_json(text) if text[0] in "[{" and _is_json(text) else _from_python(text, functions)
    except _NotACall:
        return None


def _is_json(text: str) -> bool:
    # A list of Python calls begins with a bracket too.
    return text[0] == "{" or text[1:].lstrip()[:1] in ("{", "]")


def _by_line(text: str, functions: Sequence[Function]) -> tuple[list[Call], list[str]]:
    calls: list[Call] = []
    errors: list[str] = []
    for line in text.splitlines():
        part = line.strip().rstrip(",;")
        if not part:
            continue
        if part[0] == "{" or _BEGINS.match(part):
            try:
                calls += _from_json(part) if part[0] == "{" else _from_python(part, functions)
            except _NotACall as fault:
                errors.append(f"undecodable: {part:.60}: {fault}")
        else:
            errors.append(BESIDE)
    return calls, errors


def _from_python(text: str, functions: Sequence[Function]) -> list[Call]:
    _check_depth(text)
    body = text if text.startswith("[") and text.endswith("]") else f"[{_joined(text)}]"
    try:
        with warnings.catch_warnings():
            # An odd escape in a reply is no news to the user of this library.
            warnings.simplefilter("ignore")
            tree = ast.parse(body, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as bad:
        raise _NotACall("it is not Python") from bad
    if not isinstance(tree, ast.List):
        raise _NotACall("it is no call")
    return [_call(node, functions) for node in tree.elts]


def _joined(text: str) -> str:
    """Lines of calls with commas between them."""
    lines = [line.strip().rstrip(",;") for line in text.splitlines() if line.strip()]
    whole_calls = all(_BEGINS.match(line) and line.endswith(")") for line in lines)
    return ",\n".join(lines) if whole_calls else text


def _check_depth(text: str) -> None:
    depth = 0
    for mark in _STRINGS.sub("", text):
        depth += (mark in "([{") - (mark in ")]}")
        if depth > MOST_DEPTH:
            raise _NotACall(f"it is nested more than {MOST_DEPTH} deep")


def _call(node: ast.expr, functions: Sequence[Function]) -> Call:
    if not isinstance(node, ast.Call):
        raise _NotACall("it is no call")
    name = _dotted(node.func)
    given: dict[str, Any] = {}
    if node.args:
        names = next((list(each.parameters) for each in functions if each.name == name), None)
        if names is None:
            raise _NotACall("give every argument with its name")
        if len(node.args) > len(names):
            raise _NotACall(f"it takes {len(names)} arguments at most")
        given = {key: _literal(value) for key, value in zip(names, node.args, strict=False)}
    for each in node.keywords:
        if each.arg is None:
            raise _NotACall("** is not taken")
        if each.arg in given:
            raise _NotACall(f"{each.arg:.60} is given twice")
        given[_plain(each.arg)] = _literal(each.value)
    return Call(name, given)


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or len(parts) > 4:
        raise _NotACall("a function is called by its name")
    return ".".join(_plain(part) for part in (node.id, *reversed(parts)))


def _plain(name: str) -> str:
    # Python reads look-alikes as the plain letters; a text of the call must be read back as the call.
    usual = name.isidentifier() and not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name
    if name.startswith("__") or not usual:
        raise _NotACall(f"{name:.60} is no name of a function or an argument")
    return name


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str | bool | None):
            return _clean(node.value)
        if isinstance(node.value, int | float):
            return _number(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        # One sign: a row of them would be as deep as it is long.
        value: Any = _literal(node.operand) if isinstance(node.operand, ast.Constant) else None
        if type(value) in (int, float):
            return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.List):
        return [_literal(each) for each in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_literal(each) for each in node.elts)
    if isinstance(node, ast.Dict):
        keys = [_literal(key) if key is not None else None for key in node.keys]
        if not all(isinstance(key, str) for key in keys):
            raise _NotACall("keys of a mapping are texts")
        return {key: _literal(value) for key, value in zip(keys, node.values, strict=True)}
    if isinstance(node, ast.Name) and node.id.lower() in _WORDS:
        return _WORDS[node.id.lower()]
    raise _NotACall("arguments are literal values")


def _clean(value: Any) -> Any:
    """A text without halves of characters, which escapes can write and no file can hold."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _number(value: int | float) -> int | float:
    if isinstance(value, float) and not math.isfinite(value):
        raise _NotACall("numbers are finite")
    if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        raise _NotACall(f"integers have {MOST_DIGITS} digits at most")
    return value


def _from_json(text: str) -> list[Call]:
    _check_depth(text)
    try:
        value = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as bad:
        raise _NotACall("it is not JSON") from bad
    return [_json_call(each) for each in (value if isinstance(value, list) else [value])]


def _refused(word: str) -> None:
    raise _NotACall(f"{word} is no number of JSON")


def _json_call(value: Any) -> Call:
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict):
        raise _NotACall("a call in JSON is an object")
    name = value.get("name", value.get("function"))
    if isinstance(name, str):
        arguments = value.get("arguments", value.get("parameters", {}))
    elif len(value) == 1:
        ((name, arguments),) = value.items()
    else:
        raise _NotACall("a call in JSON has a name and arguments")
    if isinstance(arguments, str):
        # As OpenAI-compatible interfaces write them; the depth within a text was not looked at.
        _check_depth(arguments)
        try:
            arguments = json.loads(arguments, parse_constant=_refused)
        except (ValueError, RecursionError) as bad:
            raise _NotACall("its arguments are no JSON") from bad
    if not isinstance(arguments, dict) or not _BEGINS.fullmatch(f"{name}("):
        raise _NotACall("a call in JSON has a name and arguments")
    for part in name.split("."):
        _plain(part)
    return Call(name, {_plain(key): _json_value(each) for key, each in arguments.items()})


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {_clean(key): _json_value(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_json_value(each) for each in value]
    return _clean(value) if isinstance(value, str | bool | None) else _number(value)
