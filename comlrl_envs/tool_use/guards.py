"""What stands around a few methods of the Berkeley Function Calling Leaderboard's classes.

Each is called in the method's place and calls it: with a precision of its own where the method sets that of the whole
process, not at all where that would take long or much memory, with members of sets sorted in what it says, and with
one date on all days.
"""

from __future__ import annotations

import datetime
import decimal
import importlib
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

MOST_DIGITS = 1_000
"""Precision of a logarithm or a root."""
MOST_BITS = 100_000
"""Bits of a power of integers, and places before the point that a number is rounded to."""
MOST_DEPTH = 64
"""Folders within each other."""
MOST_PATHS = 10_000
"""Files and folders of a file system, those with two paths counted twice."""
MOST_PATH_CHARS = 1_000_000
"""Characters of all paths of a file system."""
Guard = Callable[[Callable[..., Any], Any, dict[str, Any]], Any]
"""Called with the method, the instance and the arguments; gives what the method gives."""
_contexts = threading.local()


class _OneDay(datetime.datetime):
    """Ages are told for the day of the package's release, not for the day of the run."""

    @classmethod
    def today(cls) -> _OneDay:
        return cls(2026, 3, 23)


class RefusedError(Exception):
    """A call would not end in time or take too much memory; the message is for the caller."""


def guards() -> dict[tuple[str, str], Guard]:
    """By class and method what is called in the method's place."""
    files = "GorillaFileSystem"
    return {
        ("MathAPI", "logarithm"): _logarithm,
        ("MathAPI", "square_root"): _square_root,
        ("MathAPI", "power"): _power,
        ("MathAPI", "round_number"): _round_number,
        ("VehicleControlAPI", "get_outside_temperature_from_google"): _weather,
        ("TravelAPI", "book_flight"): _sorted_classes,
        ("TravelAPI", "verify_traveler_information"): _dated,
        ("TicketAPI", "edit_ticket"): _sorted_fields,
        **{(files, name): _undone_if_too_large for name in ("cp", "mv", "mkdir")},
        **{(files, name): _measured for name in ("find", "du")},
    }


def _with_globals(function: Callable[..., Any], **changed: Any) -> Callable[..., Any]:
    """The function, to which some names of its module mean something else."""
    assert isinstance(function, types.FunctionType)
    own = types.FunctionType(function.__code__, {**function.__globals__, **changed}, function.__name__)
    own.__defaults__, own.__qualname__ = function.__defaults__, function.__qualname__
    return own


def _precise(arguments: Mapping[str, Any]) -> None:
    """Refuse a precision that takes long."""
    given = arguments.get("precision")
    if isinstance(given, str) and len(given) > 9:
        raise RefusedError(f"the precision is more than {MOST_DIGITS} digits")
    try:
        digits = int(given)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return
    if digits > MOST_DIGITS:
        raise RefusedError(f"the precision is more than {MOST_DIGITS} digits")


def _logarithm(function: Callable[..., Any], instance: Any, arguments: dict[str, Any]) -> Any:
    _precise(arguments)
    for each in (arguments.get("value"), arguments.get("base")):
        # A number in a text may have an exponent of any size.
        if isinstance(each, str) and (len(each) > 30 or "e" in each.lower()):
            raise RefusedError("a number is expected, not a text")
    if not hasattr(_contexts, "mpmath"):
        own = importlib.import_module("mpmath").MPContext()
        _contexts.mpmath = types.SimpleNamespace(mp=own, log=own.log)
    result = _with_globals(function, mpmath=_contexts.mpmath)(instance, **arguments)
    # Shown while its precision holds.
    return result if "error" in result else str(result)


def _square_root(function: Callable[..., Any], instance: Any, arguments: dict[str, Any]) -> Any:
    _precise(arguments)
    with decimal.localcontext(decimal.Context()):
        return function(instance, **arguments)


def _power(function: Callable[..., Any], instance: Any, arguments: dict[str, Any]) -> Any:
    base, exponent = arguments.get("base"), arguments.get("exponent")
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
        if base.bit_length() * exponent > MOST_BITS:
            raise RefusedError("the result is too large")
    return function(instance, **arguments)


def _round_number(function: Callable[..., Any], instance: Any, arguments: dict[str, Any]) -> Any:
    number, places = arguments.get("number"), arguments.get("decimal_places", 0)
    if isinstance(number, int) and isinstance(places, int) and places < -MOST_BITS:
        raise RefusedError("the number has no such place")
    return function(instance, **arguments)


def _weather(function: Callable[..., Any], instance: Any, arguments: dict[str, Any]) -> Any:
    table = dict(function.__globals__["LONG_WEATHER_EXTENSION"])
    return _with_globals(function, LONG_WEATHER_EXTENSION=table)(instance, **arguments)


def _dated(function: Callable[..., Any], instance: Any, arguments: dict[str, Any]) -> Any:
    return _with_globals(function, datetime=_OneDay)(instance, **arguments)


def _sorted_classes(function: Callable[..., Any], instance: Any, arguments: dict[str, Any]) -> Any:
    result = function(instance, **arguments)
    before, braced, names = str(result.get("error", "")).partition("Invalid travel class. Must be one of {")
    if braced and not before:
        result["error"] = f"{braced}{', '.join(sorted(names.rstrip('}').split(', ')))}}}"
    return result


def _sorted_fields(function: Callable[..., Any], instance: Any, arguments: dict[str, Any]) -> Any:
    result = function(instance, **arguments)
    start = "Invalid fields for update: "
    if str(result.get("error", "")).startswith(start):
        unknown = set(arguments["updates"]) - {"title", "description", "status", "priority"}
        result["error"] = start + ", ".join(sorted(unknown))
    return result


def _undone_if_too_large(function: Callable[..., Any], instance: Any, arguments: dict[str, Any]) -> Any:
    """Copies share their folders, so that a few calls make a tree of billions of paths, or one within itself."""
    here = instance._current_dir
    place = arguments.get("destination")
    target = here.contents.get(place) if isinstance(place, str) else None
    touched = [here.contents, *([target.contents] if target is not None and hasattr(target, "contents") else [])]
    before = [dict(contents) for contents in touched]
    result = function(instance, **arguments)
    top, levels = here, 0
    while top.parent is not None and levels <= MOST_DEPTH:
        top, levels = top.parent, levels + 1
    try:
        for each in (instance.root, top, here):
            _measure(each, {}, 0)
    except RefusedError:
        for contents, old in zip(touched, before, strict=True):
            contents.clear()
            contents.update(old)
        raise
    return result


def _measured(function: Callable[..., Any], instance: Any, arguments: dict[str, Any]) -> Any:
    path = arguments.get("path", ".")
    if isinstance(path, str):
        target = instance._navigate_to_directory(path)
        if not isinstance(target, dict):
            paths, chars, _ = _measure(target, {}, 0)
            if chars + paths * len(path) > MOST_PATH_CHARS:
                raise RefusedError("the paths are too long")
    return function(instance, **arguments)


def _measure(folder: Any, known: dict[int, tuple[int, int, int]], depth: int) -> tuple[int, int, int]:
    """Paths below a folder, their characters, and levels; refuses what is too large or within itself."""
    if depth > MOST_DEPTH:
        raise RefusedError("the folders would lie too deep")
    found = known.get(id(folder))
    if found is None:
        paths = chars = levels = 0
        for name, item in folder.contents.items():
            below = chars_below = 0
            if hasattr(item, "contents"):
                below, chars_below, deep = _measure(item, known, depth + 1)
                levels = max(levels, deep + 1)
            paths += 1 + below
            chars += (len(name) + 1) * (1 + below) + chars_below
        found = known[id(folder)] = paths, chars, levels
    if found[0] > MOST_PATHS or found[1] > MOST_PATH_CHARS or depth + found[2] > MOST_DEPTH:
        raise RefusedError("the file system would grow too large")
    return found
