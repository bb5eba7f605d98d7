"""The wire forms of single values that JSON does not have: numbers, moments, ranges, arrays, named tuples.

Each function gets a way to encode or decode the parts of a value. No tag builds anything but a value of these types.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from operator import itemgetter
from typing import Any, TypeAlias

Tree: TypeAlias = Any
"""JSON values."""
PROGRAM = "program"
"""Name of the module that a candidate program is."""
TYPES = {
    kind.__name__: kind
    for kind in (
        *(bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict, range, slice, object),
        *(type, Exception, ValueError, TypeError, KeyError, IndexError, ZeroDivisionError, AttributeError),
        type(None),
    )
}
_TYPE_NAMES = {kind: name for name, kind in TYPES.items()}
_VIEWS: dict[type, str] = {type({}.keys()): "keys", type({}.values()): "values", type({}.items()): "items"}
_FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def encode(value: Any, kind: type, part: Callable[[Any], Tree]) -> Tree | None:
    """The tree of a value, or None if it has no form of its own."""
    if kind is int:
        return ["i", hex(value)]
    if kind is float:
        return ["f", repr(value)]
    if kind is bytes:
        return ["b", value.decode("latin-1")]
    if kind is complex:
        return ["c", part(value.real), part(value.imag)]
    if kind is range or kind is slice:
        return ["r" if kind is range else "s", part(value.start), part(value.stop), part(value.step)]
    if value is Ellipsis or value is NotImplemented:
        return ["..."] if value is Ellipsis else ["NotImplemented"]
    if kind is Decimal:
        return ["decimal", str(value)]
    if kind is Fraction:
        return ["fraction", part(value.numerator), part(value.denominator)]
    if kind in _VIEWS:
        return ["view", _VIEWS[kind], [part(each) for each in value]]
    if isinstance(value, type) and value in _TYPE_NAMES:
        return ["T", _TYPE_NAMES[value]]
    if kind.__module__ == "numpy":
        return _array_tree(value, part)
    if isinstance(value, tuple) and kind is not tuple:
        fields = kind._fields if hasattr(kind, "_fields") else ()
        return ["n", kind.__name__, list(fields), [part(each) for each in tuple.__iter__(value)]] if fields else None
    return _moment_tree(value, kind)


def _array_tree(value: Any, part: Callable[[Any], Tree]) -> Tree | None:
    if not hasattr(value, "dtype") or value.dtype.kind not in "biufcUS":
        return None
    if type(value).__name__ != "ndarray":
        return part(value.item()) if value.shape == () else None
    return ["array", value.dtype.str, list(value.shape), [part(each) for each in value.ravel().tolist()]]


def decode(tree: Tree, part: Callable[[Tree], Any]) -> Any:
    """The value of a tree; raises ``ValueError`` or one of its like for what is malformed."""
    tag = tree[0]
    if tag == "i":
        return int(tree[1], 16)
    if tag == "f":
        return _FLOATS[tree[1]]
    if tag == "b":
        return tree[1].encode("latin-1")
    if tag == "c":
        return complex(part(tree[1]), part(tree[2]))
    if tag in ("r", "s"):
        bounds = [part(each) for each in tree[1:4]]
        return range(*bounds) if tag == "r" else slice(*bounds)
    if tag == "...":
        return Ellipsis
    if tag == "NotImplemented":
        return NotImplemented
    if tag == "decimal":
        return Decimal(tree[1])
    if tag == "fraction":
        return Fraction(part(tree[1]), part(tree[2]))
    if tag == "T":
        return TYPES[tree[1]]
    if tag == "view":
        return _view(tree[1], [part(each) for each in tree[2]])
    if tag == "n":
        return named_tuple(tree[1], tree[2], [part(each) for each in tree[3]])
    if tag == "array":
        import numpy

        return numpy.array([part(each) for each in tree[3]], dtype=_dtype(tree[1])).reshape(tree[2])
    return _moment(tag, tree[1:])


def plain_form(value: Any, kind: type) -> Any:
    """What a subclass of a built-in type is at heart, or None for any other object.

    Classes that a program derives from a container have methods of their own and stay objects.
    """
    if isinstance(value, bool | int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, str):
        return str.__getitem__(value, slice(None))
    if isinstance(value, tuple):
        return tuple.__getitem__(value, slice(None))
    if isinstance(value, bytes):
        return bytes.__getitem__(value, slice(None))
    if kind.__module__ == PROGRAM:
        return None
    for base in (list, set, frozenset, dict):
        if isinstance(value, base):
            return base(value)
    return None


def named_tuple(name: str, fields: list[str], values: list[Any]) -> tuple[Any, ...]:
    """A tuple whose parts have names; equal to the plain tuple, as a named tuple is."""
    members: dict[str, Any] = {"__slots__": (), "_fields": tuple(map(str, fields))}
    members.update({str(field): property(itemgetter(place)) for place, field in enumerate(fields) if field[0] != "_"})
    made: tuple[Any, ...] = type(str(name), (tuple,), members)(values)
    return made


def _view(name: str, parts: list[Any]) -> Any:
    if name == "keys":
        return dict.fromkeys(parts).keys()
    return dict(parts).items() if name == "items" else dict(enumerate(parts)).values()


def _dtype(name: str) -> str:
    if name[1:2] not in tuple("biufcUS"):
        raise ValueError(f"an array of type {name!r}")
    return name


def _moment_tree(value: Any, kind: type) -> Tree | None:
    if kind is datetime.datetime or kind is datetime.time:
        offset = value.utcoffset()
        day = [value.year, value.month, value.day] if kind is datetime.datetime else []
        zone = None if offset is None else offset.total_seconds()
        return [kind.__name__, *day, value.hour, value.minute, value.second, value.microsecond, zone]
    if kind is datetime.date:
        return ["date", value.year, value.month, value.day]
    if kind is datetime.timedelta:
        return ["timedelta", value.days, value.seconds, value.microseconds]
    if kind is datetime.timezone:
        return ["timezone", value.utcoffset(None).total_seconds()]
    return None


def _moment(tag: str, parts: list[Any]) -> Any:
    if tag == "timezone":
        return datetime.timezone(datetime.timedelta(seconds=parts[0]))
    if tag in ("datetime", "time"):
        *fields, offset = parts
        zone = None if offset is None else datetime.timezone(datetime.timedelta(seconds=offset))
        return (
            datetime.datetime(*fields).replace(tzinfo=zone)
            if tag == "datetime"
            else datetime.time(*fields).replace(tzinfo=zone)
        )
    if tag == "date":
        return datetime.date(*parts)
    if tag == "timedelta":
        return datetime.timedelta(*parts)
    raise ValueError(f"no value has the tag {tag!r}")
