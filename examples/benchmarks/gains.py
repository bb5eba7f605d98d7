"""What training changes on held-out tasks, measured on equal tasks before and after."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from comlrl_envs.evaluation.statistics import Estimate, clustered_mean
from comlrl_learners import MAGRPOTrainer
from comlrl_learners.rollout import Edge, Node

Measure = Callable[[Edge], float]


@dataclass(frozen=True)
class Gain:
    """A run's result.

    Attributes:
        before: Mean over all held-out episodes, before training.
        after: The same after it.
        gain: Differences of equal tasks, with their 95 % interval, clustered by task.
        cpu: CPU seconds of the training.
    """

    before: float
    after: float
    gain: Estimate
    cpu: float

    def cells(self, digits: int = 3) -> str:
        """The last columns of a table: before, after, gain with interval, CPU seconds."""
        mean, low, high = (f"{value:.{digits}f}" for value in (self.gain.mean, self.gain.low, self.gain.high))
        return f"{self.before:.{digits}f} | {self.after:.{digits}f} | {mean} [{low}, {high}] | {self.cpu:.0f} |"


def trained(trainer: MAGRPOTrainer, measure: Measure) -> Gain:
    """Train, with an evaluation before and one after.

    Args:
        trainer: Of a game of one turn.
        measure: What is measured of a joint action.
    """
    before = _by_task(trainer._evaluate()[1], measure)
    started = time.process_time()
    trainer.train()
    cpu = time.process_time() - started
    after = _by_task(trainer._evaluate()[1], measure)
    gains = [[late - early for early, late in zip(before[task], after[task], strict=True)] for task in before]
    return Gain(_mean(before), _mean(after), clustered_mean(gains), cpu)


def _by_task(roots: list[Node], measure: Measure) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for root in roots:
        found.setdefault(root.visit.task.id, []).append(measure(root.edges[0]))
    return found


def _mean(values: dict[str, list[float]]) -> float:
    every = [value for values_of_task in values.values() for value in values_of_task]
    return sum(every) / len(every)
