"""The fields of a record of a pairs file, each held to its kind; what is wrong is said for a person to mend."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any


class RecordError(Exception):
    """What is wrong with one record, to be said after its number."""


def texts_of(record: Mapping[str, Any], name: str, agents: Sequence[str]) -> list[str]:
    """One text for each agent; raises `RecordError` for anything else, as all of these do."""
    texts = record.get(name)
    if not isinstance(texts, list) or len(texts) != len(agents) or not all(isinstance(text, str) for text in texts):
        raise RecordError(f"needs {name!r}: a list of {len(agents)} texts, one for each of {list(agents)}.")
    return texts


def ids_of(record: Mapping[str, Any], name: str, agents: Sequence[str]) -> list[list[int]]:
    """Token ids by agent, as a run wrote them; empty ones where the field is left out."""
    rows = record.get(name, [[]] * len(agents))
    if not isinstance(rows, list) or len(rows) != len(agents) or not all(map(_is_ids, rows)):
        raise RecordError(
            f"needs {name!r} to be a list of {len(agents)} lists of token ids, one for each of {list(agents)}, or no "
            "such field."
        )
    return rows


def _is_ids(row: Any) -> bool:
    return isinstance(row, list) and all(type(number) is int and 0 <= number < 2**31 for number in row)


def switches_of(record: Mapping[str, Any], name: str, agents: Sequence[str]) -> list[bool]:
    """True or false for each agent, true where the field is left out."""
    found = record.get(name, [True] * len(agents))
    if not isinstance(found, list) or len(found) != len(agents) or not all(isinstance(one, bool) for one in found):
        raise RecordError(
            f"needs {name!r} to be a list of {len(agents)} of true and false, one for each of {list(agents)}, or no "
            "such field."
        )
    return found


def number_of(record: Mapping[str, Any], name: str, default: float) -> float:
    """A finite number."""
    value = record.get(name, default)
    # The comparison holds for no NaN, and for whole numbers that no float can be.
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise RecordError(f"needs {name!r} to be a finite number, or no such field; it holds {short(value)}.")
    return float(value)


def turn_of(record: Mapping[str, Any]) -> int:
    """Joint actions played before, 0 by default."""
    turn = record.get("turn", 0)
    if type(turn) is not int or turn < 0:
        raise RecordError(f"needs 'turn' to be 0 or a whole number above, or no such field; it holds {short(turn)}.")
    return turn


def task_of(record: Mapping[str, Any], number: int) -> str:
    """The task's name, by default the number of the pair."""
    task = record.get("task", number)
    if type(task) not in (str, int):
        raise RecordError(f"needs 'task' to be a text, or no such field; it holds {short(task)}.")
    return str(task)


def short(value: Any) -> str:
    """A value in a message, however large or deep it is."""
    return reprlib.repr(value)
