"""Where an episode of ``tool_use/multi_turn`` stands, and what a request is worth."""

from __future__ import annotations

from dataclasses import dataclass

from comlrl_envs.scenario import State


@dataclass(frozen=True)
class Said(State):
    """An agent's last reply as it counts.

    Attributes:
        message: For the teammates.
        results: What its calls returned, a line each.
        errors: What was wrong with it, in words for it.
        calls: Run in the episode.
        characters: Of all its messages.
        told: Numbers of the requests whose words it knows.
    """

    message: str = ""
    results: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    calls: int = 0
    characters: int = 0
    told: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Errand(State):
    """Where an episode stands.

    Attributes:
        task: The row, in JSON.
        held: By agent the names of its functions.
        baton: The agent, by its place, whose functions run in the first request, the next one's in the second and so
            on; -1 where all do.
        turn: Joint actions played.
        request: Number of the current request, from 0.
        round: Joint actions played of it.
        log: Calls that ran, with the number of their request and the result.
        attempts: Calls of the current request, run or not.
        rejected: Calls that did not run, in the episode.
        right: Of the requests that ended, whether they are right.
        voices: By agent.
    """

    task: str
    held: tuple[tuple[str, ...], ...]
    baton: int
    turn: int = 0
    request: int = 0
    round: int = 0
    log: tuple[tuple[int, str, str], ...] = ()
    attempts: int = 0
    rejected: int = 0
    right: tuple[bool, ...] = ()
    voices: tuple[Said, ...] = ()


@dataclass(frozen=True)
class Judged:
    """What a request is worth.

    Attributes:
        right: Both checks.
        state: Whether the state is that after the gold calls, and something was called.
        responses: Gold results that were had.
        expected: Gold results.
        progress: Similarity of the calls to the gold ones.
    """

    right: bool
    state: bool
    responses: int
    expected: int
    progress: float

    @property
    def terms(self) -> dict[str, float]:
        """What it pays."""
        share = self.responses / self.expected if self.expected else float(self.right)
        return {
            "right": 0.6 * self.right,
            "state": 0.1 * self.state,
            "responses": 0.1 * share,
            "progress": 0.2 * self.progress,
        }
