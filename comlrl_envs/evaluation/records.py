"""What is kept of an episode: one line of ``episodes.jsonl``."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Turn:
    """One joint action and its score.

    Attributes:
        replies: What each acting agent said, as it was scored.
        drafts: What else was written in the turn. ``discussion``: each agent's first text. ``solo``: its text before
            what teammates are shown was emptied. ``majority``: all texts drawn, under ``"AGENT 1"``, ``"AGENT 2"``, ...
        cut: Characters cut off the text that became each reply.
        replaced: Lone surrogates replaced in it.
        reward: The team's reward.
        terms: Parts of the reward.
        metrics: The team's metrics.
        agent_metrics: Metrics by name and agent.
    """

    replies: Mapping[str, str]
    drafts: Mapping[str, str]
    cut: Mapping[str, int]
    replaced: Mapping[str, int]
    reward: float
    terms: Mapping[str, float]
    metrics: Mapping[str, float]
    agent_metrics: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """One episode.

    Attributes:
        task: Id of the task.
        sample: Which of the task's episodes, from 0.
        seed: Seed of the episode.
        error: Why a machine could not finish it; ``""`` if it was finished. A failed episode has no score.
        turns: What happened, turn by turn; of a failed episode, up to the failure.
        seconds: Time of the policies by the protocol's account.
        prompt_tokens: Tokens read by agent; None where its policy does not count.
        completion_tokens: Tokens written by agent; None where its policy does not count.
    """

    task: str
    sample: int
    seed: int
    error: str
    turns: tuple[Turn, ...]
    seconds: float
    prompt_tokens: Mapping[str, int | None]
    completion_tokens: Mapping[str, int | None]

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from the other episodes of the run."""
        return self.task, self.sample

    @property
    def reward(self) -> float:
        """Reward of the last turn."""
        return self.turns[-1].reward

    @property
    def total(self) -> float:
        """The return: sum of the turns' rewards, undiscounted."""
        return sum(turn.reward for turn in self.turns)

    def to_line(self) -> bytes:
        """The record as one line of JSON."""
        return json.dumps(dataclasses.asdict(self), allow_nan=False).encode() + b"\n"

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> EpisodeRecord:
        """The record that ``to_line`` wrote; raises ``KeyError``, ``TypeError`` or ``ValueError`` if it is none."""
        record = EpisodeRecord(**{**data, "turns": tuple(Turn(**turn) for turn in data["turns"])})
        if not isinstance(record.task, str) or not isinstance(record.sample, int):
            raise ValueError("task and sample are no text and number")
        if not record.turns and not record.error:
            raise ValueError("it has no turn")
        for turn in record.turns:
            numbers = [turn.reward, *turn.terms.values(), *turn.metrics.values()]
            if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
                raise ValueError("a reward, term or metric is no finite number")
        return record
