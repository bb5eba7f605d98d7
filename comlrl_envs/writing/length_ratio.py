"""Two writers, one prompt: the second text should be two to three times as long as the first.

The smallest game of the package: it scores in microseconds, and lengths are something a small model learns in
minutes. It was CoMLRL's first tutorial; the interval, the prompts and the turns are settings here.

- Agents: ``summarizer``, ``elaborator``. Both are shown the row's prompt (with ``roles=True``, followed by "Answer
  briefly." and "Answer in detail."); neither ever sees the other's text.
- Observation: the prompt; from the second turn on also the feedback, ``"plain"`` (a fixed request to try again) or
  ``"levels"`` (both lengths, their ratio and the interval).
- Action: any text.
- Reward: in ``[0, 1]``. With ``r = len(second) / len(first)`` in characters, 1 if ``target_min <= r <= target_max``,
  else ``exp(-d)``, ``d`` the distance from ``r`` to that interval; 0 if the first text is empty.
- Episode end: after ``max_turns`` joint actions (default 1).
- Metrics: ``length_ratio`` (0 if the first text is empty), ``success`` (1.0 within the interval); per agent
  ``characters``.
- Data: demo set, 60 train and 30 eval topics written for this project (MIT), no topic in both. A row such as
  ``{"id": "bees", "prompt": "Write about bees.", "topic": "bees"}`` may set ``target_min`` and ``target_max``.
- Channel: none; silencing an agent tells its teammate nothing.
- Versions: v0, first release.

Example:
    >>> import comlrl_envs
    >>> env = comlrl_envs.make("writing/length_ratio", max_turns=2, feedback="levels")
    >>> env.reset(seed=0, options={"task": "bees"})[0]["summarizer"]
    'Write about bees.'
    >>> env.step({"summarizer": "Bees hum.", "elaborator": "Bees hum in the garden."})[1]["summarizer"]
    1.0
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from comlrl_envs.assemble import build_env, demo_only
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError, one_of, positive_int
from comlrl_envs.scenario import Actions, Scenario, Score, State, Step
from comlrl_envs.writing.topics import EVAL_TOPICS, TRAIN_TOPICS

SUMMARIZER, ELABORATOR = "summarizer", "elaborator"
ROLES = {SUMMARIZER: "Answer briefly.", ELABORATOR: "Answer in detail."}
FEEDBACK = ("plain", "levels")
RETRY = "Write your text again. The two texts should stand in a better proportion of lengths."
FILLER = "There is a lot to say about this, and more could be added at any point. "
LONGEST = 20_000
"""Longest text that the oracle writes, in characters."""


def score_ratio(first: int, second: int, low: float, high: float) -> tuple[float, float]:
    """Reward in [0, 1] and ratio of two lengths in characters, for an interval ``0 < low <= high``."""
    if first == 0:
        return 0.0, 0.0
    ratio = second / first
    return math.exp(-max(low - ratio, ratio - high, 0.0)), ratio


def check_bounds(low: Any, high: Any) -> tuple[float, float]:
    """``(low, high)`` if both are finite numbers with ``0 < low <= high``; raises ``ValueError``."""
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (low, high))
    if not numbers or not 0 < low <= high or not math.isfinite(high):
        raise ValueError(
            f"target_min={low!r}, target_max={high!r}; expected finite numbers with 0 < target_min <= target_max"
        )
    return float(low), float(high)


@functools.lru_cache(maxsize=256)
def lengths_within(low: float, high: float) -> tuple[int, int] | None:
    """Two lengths up to ``LONGEST`` whose ratio lies in the interval; None if there are none."""
    most = int(min(LONGEST, LONGEST / low))
    for first in itertools.chain(range(8, most + 1), range(1, 8)):
        for wanted in (first * (low / 2 + high / 2), first * low, first * high):
            nearest = round(min(wanted, LONGEST))
            for second in (nearest, nearest + 1, nearest - 1):
                if 0 < second <= LONGEST and low <= second / first <= high:
                    return first, second
    return None


@functools.lru_cache(maxsize=32)
def random_floor(low: float, high: float) -> float:
    """Mean reward of two independent texts of 0 to 64 characters, each length as likely."""
    span = range(65)
    return sum(score_ratio(a, b, low, high)[0] for a in span for b in span) / len(span) ** 2


@dataclass(frozen=True)
class Draft(State):
    """The prompt, the interval, and the last two lengths (None before the first turn)."""

    prompt: str
    low: float
    high: float
    lengths: tuple[int, int] | None = None


@dataclass(frozen=True)
class LengthRatio(Scenario):
    """Rules of the game; see the module.

    Attributes:
        max_turns: Joint actions of an episode, >= 1.
        feedback: ``"plain"`` or ``"levels"``.
        target_min: Lowest ratio that earns 1.
        target_max: Highest ratio that earns 1.
        roles: Whether each agent is told what to do.
    """

    max_turns: int = 1
    feedback: str = "plain"
    target_min: float = 2.0
    target_max: float = 3.0
    roles: bool = False

    agents = (SUMMARIZER, ELABORATOR)
    reward_range = (0.0, 1.0)
    terms = ("ratio_reward",)
    metrics = ("length_ratio", "success")
    agent_metrics = ("characters",)
    channel = False

    def __post_init__(self) -> None:
        """Check the settings."""
        try:
            check_bounds(self.target_min, self.target_max)
        except ValueError as bad:
            raise OptionError(f"{bad}.") from bad
        one_of("feedback", self.feedback, FEEDBACK)
        positive_int("max_turns", self.max_turns)

    @property
    def floors(self) -> Mapping[str, float]:  # type: ignore[override]
        """Upper bounds on the mean reward of silent, echoing and random writers, at this interval."""
        low, high = self.target_min, self.target_max
        # An echo repeats a prompt that differs from its teammate's by the roles' sentences at most: ratio 1 to 1.2.
        nearest = max(low - 1.2, 1.0 - high, 0.0)
        return {"empty": 0.0, "echo": math.exp(-nearest), "random": min(1.0, random_floor(low, high) + 0.1)}

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        """The row's prompt and interval."""
        low, high = item.get("target_min", self.target_min), item.get("target_max", self.target_max)
        return Draft(item["prompt"], float(low), float(high))

    def brief(self, state: State, agent: str) -> str:
        """The row's prompt, with the role's sentence if roles are told."""
        assert isinstance(state, Draft)
        return f"{state.prompt} {ROLES[agent]}" if self.roles else state.prompt

    def observe(self, state: State, agent: str) -> str:
        """Nothing at first, then the feedback on the last two texts."""
        assert isinstance(state, Draft)
        if state.lengths is None:
            return ""
        if self.feedback == "plain":
            return RETRY
        first, second = state.lengths
        ratio = f"{second / first:.2f}" if first else "undefined"
        return (
            f"The {SUMMARIZER} wrote {first} characters, the {ELABORATOR} {second}; their ratio is {ratio} and should "
            f"lie between {state.low:g} and {state.high:g}. {RETRY}"
        )

    def advance(self, state: State, actions: Actions) -> Step:
        """Measure both texts."""
        assert isinstance(state, Draft)
        first, second = len(actions[SUMMARIZER]), len(actions[ELABORATOR])
        reward, ratio = score_ratio(first, second, state.low, state.high)
        return Step(
            Draft(state.prompt, state.low, state.high, (first, second), key=state.key),
            Score(
                {"ratio_reward": reward},
                {"length_ratio": ratio, "success": float(state.low <= ratio <= state.high)},
                {"characters": {SUMMARIZER: float(first), ELABORATOR: float(second)}},
            ),
        )

    def oracle(self, state: State) -> Mapping[str, str] | None:
        """Texts whose ratio lies in the interval; None if no two texts up to ``LONGEST`` have such a ratio."""
        assert isinstance(state, Draft)
        found = lengths_within(state.low, state.high)
        if found is None:
            return None
        first, second = ((FILLER * (n // len(FILLER) + 1))[:n] for n in found)
        return {SUMMARIZER: first, ELABORATOR: second}


def from_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check a row: a text ``prompt``, and bounds that fit each other if it has any."""
    if not isinstance(row["prompt"], str):
        raise TypeError(f"'prompt' is a {type(row['prompt']).__name__}, expected a str")
    if "target_min" in row or "target_max" in row:
        check_bounds(row.get("target_min", 2.0), row.get("target_max", 3.0))
    return row


def demo_rows(topics: tuple[str, ...]) -> list[dict[str, str]]:
    """One row a topic."""
    return [{"id": topic, "prompt": f"Write about {topic}.", "topic": topic} for topic in topics]


def parallel_env(**kwargs: Any) -> TextEnv:
    """The environment; keyword arguments are the scenario's settings and those that every id accepts."""
    load = demo_only(demo_rows(TRAIN_TOPICS), demo_rows(EVAL_TOPICS))
    return build_env(LengthRatio, load, kwargs, name="writing/length_ratio", parse=from_row)
