"""What the training loop asks of an algorithm and of what it collects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from comlrl_learners.checkpoint import Holdings
from comlrl_learners.rollout import Node, RolloutStats, Visit


class Batch(Protocol):
    """What a round of collecting gives, whatever the algorithm."""

    @property
    def roots(self) -> list[Node]:
        """The trees that were played."""
        ...

    @property
    def stats(self) -> RolloutStats:
        """What playing them cost."""
        ...

    @property
    def metrics(self) -> dict[str, float]:
        """Diagnostics of the team."""
        ...

    @property
    def records(self) -> Mapping[str, Any]:
        """What the run folder keeps of a round besides: a folder's name and JSON values."""
        ...


class Algorithm(Protocol):
    """What the loop asks of an algorithm."""

    def collect(self, visits: Sequence[Visit]) -> Any:
        """Play the visits and prepare what `update` learns from."""
        ...

    def update(self, batch: Any, round_index: int, rate: float) -> dict[str, float]:
        """Learn from a batch; returns diagnostics."""
        ...

    def holdings(self) -> Holdings:
        """All that learning changes."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What must be equal when a run goes on, beside settings, game and team: JSON values by name."""
        ...

    def save(self, folder: Path) -> None:
        """Write what it trained besides the team into the folder of the saved team."""
        ...
