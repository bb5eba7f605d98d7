"""How a demo row is made: a frame of several sentences, filled once for each line of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Frame:
    """A text with gaps and what goes into them.

    Attributes:
        name: Beginning of the rows' ids.
        head: A title, or other text kept apart from the body.
        body: The text; ``{0}``, ``{1}`` and so on are the gaps.
        parts: One line a row, the parts of it between bars.
    """

    name: str
    head: str
    body: str
    parts: str

    def filled(self) -> Iterator[tuple[str, str, str]]:
        """Id, head and body of each row."""
        for number, line in enumerate(self.parts.strip().splitlines(), start=1):
            gaps = [part.strip() for part in line.split("|")]
            yield f"{self.name}-{number}", self.head.format(*gaps), self.body.format(*gaps)


def interleaved(frames: Sequence[Frame]) -> list[tuple[str, str, str]]:
    """All rows, each frame's first before any frame's second, so that a slice of the set is mixed."""
    columns = [list(frame.filled()) for frame in frames]
    return [column[place] for place in range(max(map(len, columns))) for column in columns if place < len(column)]
