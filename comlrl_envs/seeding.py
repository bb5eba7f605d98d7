"""Random numbers that are a function of names and numbers, equal in every process.

A draw belongs to what it is for, ``rng(key, turn, "shuffle")``, not to how many draws came before it. So a
fork, a replay and a batch of any shape see the same numbers.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np

Part: TypeAlias = int | str


def _digest(parts: tuple[Part, ...]) -> bytes:
    hasher = hashlib.sha256()
    for part in parts:
        kind = b"s" if isinstance(part, str) else b"i"
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else str(int(part)).encode()
        # The length in front keeps ("ab", "c") and ("a", "bc") apart, the kind keeps 1 and "1" apart.
        hasher.update(kind + str(len(data)).encode() + b":" + data)
    return hasher.digest()


def derive(*parts: Part) -> int:
    """A number in ``[0, 2**63)`` that depends on all ``parts`` (integers of any size, strings)."""
    return int.from_bytes(_digest(parts)[:8], "big") >> 1


def rng(*parts: Part) -> np.random.Generator:
    """A fresh generator seeded by sha256 of ``parts``; equal parts give equal draws in any process."""
    return np.random.Generator(np.random.PCG64(int.from_bytes(_digest(parts), "big")))
