"""JSON out of a model's reply."""

from __future__ import annotations

import json
import re
from typing import Any

LONGEST = 2**18
"""Characters of a reply, from its end, that are searched."""
SCAN = 4
"""How often they are read over, at most."""
SCAN_LEAST = 200_000
"""Characters that may be read in any case, so that short replies are searched whatever they hold."""
ATTEMPT = 100
"""What an attempt costs besides the characters it reads."""
_MARKS = re.compile(r'\\+|[{}"]')


def last_json_object(reply: str) -> dict[str, Any] | None:
    r"""The last JSON object in a reply, or None; an object within another is no object of its own.

    Prose, fences and objects before it do not matter, nor do braces within its texts; texts may run over lines. The
    search goes backward, since from its closing brace on an object can be told from what stands before it; its time
    is in proportion to the reply, so that a hostile one may hide an object.

    >>> last_json_object('Use {x}. {"a": 1} Better:\n```json\n{"a": {"b": "}"}}\n```\nThat is {all}.')
    {'a': {'b': '}'}}
    """
    reply = reply[-LONGEST:]
    marks = _marks(reply)
    budget = max(SCAN * len(reply), SCAN_LEAST)
    for end in range(len(marks) - 1, -1, -1):
        if marks[end][1] != "}":
            continue
        start = _opening(marks, end)
        first = marks[start][0] if start is not None else 0
        found = None if start is None else _parsed(reply[first : marks[end][0] + 1])
        if found is not None:
            return found
        budget -= marks[end][0] + 1 - first + ATTEMPT
        if budget <= 0:
            return None
    return None


def _marks(text: str) -> list[tuple[int, str]]:
    """Braces and quotes with their places; a quote behind an odd number of backslashes is part of a text."""
    marks = []
    slashes_end, odd = -1, False
    for match in _MARKS.finditer(text):
        mark = match[0]
        if mark[0] == "\\":
            slashes_end, odd = match.end(), len(mark) % 2 == 1
        elif mark != '"' or match.start() != slashes_end or not odd:
            marks.append((match.start(), mark))
    return marks


def _opening(marks: list[tuple[int, str]], end: int) -> int | None:
    """The mark that opens what the brace at ``end`` closes; None if there is none."""
    depth, quoted = 0, False
    for place in range(end, -1, -1):
        mark = marks[place][1]
        if mark == '"':
            quoted = not quoted
        elif not quoted:
            depth += 1 if mark == "}" else -1
            if depth == 0:
                return place
    return None


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
