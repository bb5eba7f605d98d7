"""Errands for the machines: requests that take a call of each of two machines, which different agents own.

One request in six asks for a function that is withheld; the right answer to it is silence.
"""

from __future__ import annotations

import functools
from typing import Any

from comlrl_envs.seeding import rng
from comlrl_envs.tool_use.demo.machines import TOOLS_OF
from comlrl_envs.tool_use.demo.wishes import COUNTS, WORDS, asked, some, wish

REQUESTS = 2
WITHHELD_EVERY = 6


@functools.cache
def errands(split: str) -> tuple[dict[str, Any], ...]:
    """The rows of a split, each other than all before it."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    draws = rng("tool use demo", "errands", split)
    while len(rows) < COUNTS[split]:
        places = [int(place) for place in draws.permutation(len(TOOLS_OF))[:2]]
        classes = [list(TOOLS_OF)[place] for place in sorted(places)]
        tools = [some(TOOLS_OF[name], REQUESTS, draws) for name in classes]
        wishes = [[wish(own[turn], split, draws) for own in tools] for turn in range(REQUESTS)]
        gold = [[each.call for each in turn] for turn in wishes]
        withheld: dict[str, list[str]] = {}
        if len(rows) % WITHHELD_EVERY == WITHHELD_EVERY - 1:
            # What the last request asks for is never there.
            withheld = {str(REQUESTS): [each.tool.name for each in wishes[-1]]}
            gold[-1] = []
        words = WORDS[split]
        stock = {
            "Diary": {"tasks": [words[int(draws.integers(len(words)))]], "full": []},
            "Post": {"stamps": int(draws.integers(2, 6)), "coins": int(draws.integers(2, 6))},
            "Lounge": {"open": words[int(draws.integers(len(words)))]},
        }
        row: dict[str, Any] = {
            "id": f"{split}-{len(rows)}",
            "requests": [asked(turn) for turn in wishes],
            "classes": classes,
            "config": {name: stock[name] for name in classes},
            "gold": gold,
            "withheld": withheld,
            "hidden": [],
            "category": "miss_func" if withheld else "base",
            "long_context": False,
            "functions": {name: [tool.document for tool in TOOLS_OF[name]] for name in classes},
        }
        rows.setdefault(tuple(row["requests"]), row)
    return tuple(rows.values())
