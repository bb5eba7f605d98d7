"""Plays a batch of episodes in lock step and writes down what happened."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from comlrl_envs.errors import InfrastructureError
from comlrl_envs.evaluation.protocols import Protocol, asked_with, duration, note, rounds, settle, with_notes
from comlrl_envs.evaluation.records import EpisodeRecord, Turn
from comlrl_envs.evaluation.threads import in_threads
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.policies.asking import ask
from comlrl_envs.policies.protocol import Policy, Reply
from comlrl_envs.policies.usage import usage_of
from comlrl_envs.seeding import rng
from comlrl_envs.tasks import Task
from comlrl_envs.transcript import clean


@dataclass(frozen=True, slots=True)
class Assignment:
    """An episode to play: the task, which of its episodes this is, and the seed."""

    task: Task
    sample: int
    seed: int


class _Written(NamedTuple):
    """A text as the game takes it, with the characters that it cut and replaced."""

    text: str
    cut: int
    replaced: int


@dataclass
class _Table:
    """One episode while it is played.

    Attributes:
        episode: Where it stands; within a turn with the notes shown so far.
        written: Each agent's texts of this turn, round after round.
        waits: Seconds of this turn's rounds.
        actions: What is played of the texts.
        drafts: What else is kept of them.
        error: Why it cannot go on.
    """

    assignment: Assignment
    episode: Episode
    written: dict[str, list[_Written]] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    actions: dict[str, str] = field(default_factory=dict)
    drafts: dict[str, str] = field(default_factory=dict)
    error: str = ""
    turns: list[Turn] = field(default_factory=list)
    seconds: float = 0.0
    tokens: dict[str, int | None] = field(default_factory=dict)
    prompt_tokens: dict[str, int | None] = field(default_factory=dict)

    def texts(self) -> dict[str, list[str]]:
        """Each agent's texts of this turn."""
        return {agent: [each.text for each in written] for agent, written in self.written.items()}

    def origin(self, agent: str) -> _Written:
        """The text that became the agent's action: one that reads the same, or the last."""
        written, action = self.written[agent], self.actions[agent]
        return next((each for each in reversed(written) if each.text == action), written[-1])


class Player:
    """A team at a game.

    Args:
        game: What is played.
        team: A policy for each agent; the same object twice is asked one call after the other, different ones at once.
        protocol: Who is asked when.
        max_turns: Ends an episode after this many turns; None for the game's own end.
        draws: With ``majority``, how many texts are drawn in a turn.
    """

    def __init__(
        self,
        game: TextGame,
        team: Mapping[str, Policy],
        protocol: Protocol,
        max_turns: int | None = None,
        draws: int = 1,
    ) -> None:
        self.game, self.team, self.protocol, self.max_turns, self.draws = game, team, protocol, max_turns, draws

    def play(self, batch: Sequence[Assignment]) -> list[EpisodeRecord]:
        """Play a batch to the end; records in order. An episode that a machine fails is recorded as failed."""
        episodes = self.game.start_many([a.task for a in batch], [a.seed for a in batch])
        tables = [_Table(assignment, episode) for assignment, episode in zip(batch, episodes, strict=True)]
        while live := [table for table in tables if self._goes_on(table)]:
            self._ask_round_by_round(live)
            self._step([table for table in live if not table.error])
        return [self._record(table) for table in tables]

    def _goes_on(self, table: _Table) -> bool:
        over = table.episode.done or (self.max_turns is not None and table.episode.turn >= self.max_turns)
        return not over and not table.error

    def _ask_round_by_round(self, tables: Sequence[_Table]) -> None:
        plans = [rounds(self.protocol, self.game.acting(table.episode), self.draws) for table in tables]
        for table in tables:
            table.written, table.waits = {}, []
        for number in range(max(map(len, plans))):
            asked = [
                (table, plan[number])
                for table, plan in zip(tables, plans, strict=True)
                if number < len(plan) and not table.error
            ]
            for table, agents in asked:
                said = {agent: texts[-1] for agent, texts in table.texts().items()}
                if shown := note(self.protocol, said):
                    table.episode = with_notes(self.game, table.episode, dict.fromkeys(agents, shown))
            self._ask(asked, number)
        for table in tables:
            table.seconds += duration(self.protocol, table.waits)
            if not table.error:
                state = table.episode.state
                table.actions, table.drafts = settle(self.protocol, self.game.scenario, state, table.texts())

    def _ask(self, asked: Sequence[tuple[_Table, tuple[str, ...]]], number: int) -> None:
        """One call of a policy for each agent that some table asks."""
        calls = {
            agent: [table for table, agents in asked if agent in agents]
            for agent in self.game.agents
            if any(agent in agents for _, agents in asked)
        }
        answers = self._answer(calls, number)
        slowest = [0.0] * len(asked)
        place = {id(table): i for i, (table, _) in enumerate(asked)}
        for agent, tables in calls.items():
            replies, seconds = answers[agent]
            for table, reply in zip(tables, replies, strict=True):
                took = self._hear(table, agent, reply, seconds / len(tables))
                slowest[place[id(table)]] = max(slowest[place[id(table)]], took)
        for (table, _), seconds in zip(asked, slowest, strict=True):
            table.waits.append(seconds)

    def _answer(self, calls: Mapping[str, list[_Table]], number: int) -> dict[str, tuple[list[Reply], float]]:
        """Replies and seconds of each agent's call; different policies are called at once."""
        shared: dict[int, list[str]] = {}
        for agent in calls:
            shared.setdefault(id(self.team[agent]), []).append(agent)

        def answer(agents: list[str]) -> dict[str, tuple[list[Reply], float]]:
            return {agent: self._call(agent, calls[agent], number) for agent in agents}

        parts = in_threads([functools.partial(answer, agents) for agents in shared.values()])
        return {agent: found for part in parts for agent, found in part.items()}

    def _call(self, agent: str, tables: list[_Table], number: int) -> tuple[list[Reply], float]:
        # The draws belong to the episodes asked, so that no two calls share them and a second run draws the same.
        who = [part for t in tables for part in (t.assignment.seed, t.assignment.task.id)]
        draws = rng("policy", agent, tables[0].episode.turn, number, *who)
        began = time.perf_counter()
        episodes = [asked_with(self.protocol, table.episode, number) for table in tables]
        replies = ask(self.team[agent], self.game, episodes, agent, draws)
        return replies, time.perf_counter() - began

    def _hear(self, table: _Table, agent: str, reply: Reply, share: float) -> float:
        """Take one reply in; returns the seconds that it took: its own count, or its share of the call."""
        if isinstance(reply, InfrastructureError):
            table.error = table.error or f"{agent}, turn {table.episode.turn + 1}: {reply.reason}"
            return share
        table.written.setdefault(agent, []).append(_Written(*clean(reply, self.game.max_action_chars)))
        usage = usage_of(reply)
        for counts, tokens in ((table.tokens, usage.completion_tokens), (table.prompt_tokens, usage.prompt_tokens)):
            before = counts.get(agent, 0)
            counts[agent] = None if tokens is None or before is None else before + tokens
        return share if usage.seconds is None else usage.seconds

    def _step(self, tables: Sequence[_Table]) -> None:
        stepped = self.game.step_many([(table.episode, table.actions) for table in tables], on_error="keep")
        for table, episode in zip(tables, stepped, strict=True):
            if episode.error:
                table.error = f"scoring, turn {episode.turn + 1}: {episode.error}"
            else:
                table.episode = episode
                table.turns.append(self._turn(episode, table))

    def _turn(self, episode: Episode, table: _Table) -> Turn:
        score = episode.score
        assert score is not None
        said = [(a, past[-1].reply) for a, past in zip(self.game.agents, episode.past, strict=True)]
        replies = {agent: reply for agent, reply in said if reply is not None}
        # The game was given texts already cut, so what was cut off stands with these.
        return Turn(
            replies=replies,
            drafts=table.drafts,
            cut={agent: table.origin(agent).cut for agent in replies},
            replaced={agent: table.origin(agent).replaced for agent in replies},
            reward=float(episode.reward),
            terms={name: float(value) for name, value in score.terms.items()},
            metrics={name: float(value) for name, value in score.metrics.items()},
            agent_metrics={n: {a: float(v) for a, v in values.items()} for n, values in score.agent_metrics.items()},
        )

    def _record(self, table: _Table) -> EpisodeRecord:
        assignment = table.assignment
        return EpisodeRecord(
            task=assignment.task.id,
            sample=assignment.sample,
            seed=assignment.seed,
            error=table.error,
            turns=tuple(table.turns),
            seconds=table.seconds,
            prompt_tokens=table.prompt_tokens,
            completion_tokens=table.tokens,
        )
