"""Requests for two things, of which each can be done by one of four functions; one in eight asks for none of these.

``book a table at Rome and buy some milk`` is two calls, for two callers.
"""

from __future__ import annotations

import functools
from typing import Any

from comlrl_envs.seeding import rng
from comlrl_envs.tool_use.demo.wishes import COUNTS, TOOLS, asked, some, wish

FUNCTIONS = 4
IRRELEVANT_EVERY = 8


@functools.cache
def requests(split: str) -> tuple[dict[str, Any], ...]:
    """The rows of a split, each other than all before it."""
    rows: dict[str, dict[str, Any]] = {}
    draws = rng("tool use demo", "requests", split)
    while len(rows) < COUNTS[split]:
        tools = some(TOOLS, FUNCTIONS + 2, draws)
        irrelevant = len(rows) % IRRELEVANT_EVERY == IRRELEVANT_EVERY - 1
        shown, used = tools[:FUNCTIONS], tools[-2:] if irrelevant else tools[:2]
        wishes = [wish(tool, split, draws) for tool in used]
        order = draws.permutation(len(shown))
        row = {
            "id": f"{split}-{len(rows)}",
            "request": asked(wishes),
            "functions": [shown[int(place)].document for place in order],
            "answers": [] if irrelevant else [{each.tool.name: {each.tool.parameter: [each.value]}} for each in wishes],
            "category": "irrelevance" if irrelevant else "parallel_multiple",
        }
        rows.setdefault(str(row["request"]), row)
    return tuple(rows.values())
