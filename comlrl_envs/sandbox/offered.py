"""What a candidate may do with an object that a test handed to it.

Such an object lives in the tests' process, so the list is short: call what can be called, walk what can be walked, and
use public attributes of fakes and mocks. Nothing that leads from an object to the tests' own names is on it.
"""

from __future__ import annotations

import io
import operator
from collections.abc import Callable
from typing import Any
from unittest import mock

TESTS = "tests"
"""Name of the module that a job's trusted source is."""
_MOCK_API = frozenset(dir(mock.MagicMock()))
_FREE: dict[str, Callable[..., Any]] = {"bool": bool, "next": next}
_OF_FAKES: dict[str, Callable[..., Any]] = {
    "iter": iter,
    "len": len,
    "getitem": operator.getitem,
    "enter": lambda target: type(target).__enter__(target),
    "exit": lambda target, *error: type(target).__exit__(target, *error),
    "getattr": getattr,
    "setattr": setattr,
}


def perform(op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do what the candidate asks.

    Raises:
        AttributeError: The object does not offer that.
        Exception: Whatever the object itself raises.
    """
    if op == "call" and callable(target):
        return target(*args, **kwargs)
    if op in _FREE or (op == "iter" and hasattr(type(target), "__next__")):
        return _FREE.get(op, iter)(target)
    if op not in _OF_FAKES or not _is_fake(target):
        raise AttributeError(f"{op} is not offered by {type(target).__name__} objects of the tests")
    if op in ("getattr", "setattr") and not _is_open(op, target, str(args[0])):
        raise AttributeError(f"{type(target).__name__!r} object has no attribute {args[0]!r}")
    return _OF_FAKES[op](target, *args)


def _is_fake(target: Any) -> bool:
    return type(target).__module__ == TESTS or isinstance(target, mock.NonCallableMock | io.IOBase)


def _is_open(op: str, target: Any, name: str) -> bool:
    if name.startswith("_"):
        return False
    if isinstance(target, mock.NonCallableMock):
        # What a mock remembers, and its assertions, are the test's.
        return op == "getattr" and name not in _MOCK_API and not name.startswith("assert")
    return op == "getattr" or not isinstance(target, io.IOBase)
