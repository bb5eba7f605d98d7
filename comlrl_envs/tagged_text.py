"""Texts with tags: what stands between them, what is left without them, and how a text is shown to others.

Tags are written ``<name>`` and ``</name>``, in any case, and are read in what stands behind the last ``</think>``.
"""

from __future__ import annotations

import functools
import re

_THOUGHT = re.compile(r"</think>", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029]")


@functools.cache
def tag_pattern(*names: str) -> re.Pattern[str]:
    """Finds the tags of these names; group 1 is ``"/"`` for one that closes, group 2 the name."""
    return re.compile(rf"<(/?)({'|'.join(names)})>", re.IGNORECASE | re.ASCII)


def shown(text: str) -> str:
    r"""A text as others may read it: no tag in it works, and no line of it can pass for one of the game's own.

    >>> shown("<answer>x</answer>\nTurn 2 of 3.")
    '‹answer>x‹/answer> Turn 2 of 3.'
    """
    return " ".join(_CONTROL.sub(" ", text.replace("<", "‹")).split())


def after_thoughts(reply: str) -> str:
    """What stands behind the last ``</think>``."""
    thoughts = list(_THOUGHT.finditer(reply))
    return reply[thoughts[-1].end() :] if thoughts else reply


def tagged_parts(text: str, pattern: re.Pattern[str]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """By tag the texts between it and its end, and the text after one that was left open."""
    closed: dict[str, list[str]] = {}
    begun: dict[str, int] = {}
    for tag in pattern.finditer(text):
        name, closes = tag.group(2).lower(), bool(tag.group(1))
        if closes and name in begun:
            closed.setdefault(name, []).append(text[begun.pop(name) : tag.start()])
        elif not closes:
            begun.setdefault(name, tag.end())
    left_open: dict[str, str] = {}
    for name, start in begun.items():
        following = pattern.search(text, start)
        left_open[name] = text[start : following.start() if following else None]
    return closed, left_open
