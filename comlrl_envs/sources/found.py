"""Rows that a source gave, with the words that name it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from comlrl_envs.tasks import Row


@dataclass(frozen=True)
class Found:
    """Rows of a split.

    Attributes:
        rows: The published ones.
        origin: Where they lay: kind of source, place, commit if there is one.
    """

    rows: Sequence[Row]
    origin: str


Look: TypeAlias = Found | str
"""What a look into a source gives: rows, or why it has none."""
