"""Small scenarios with what the shipped one lacks: turns taken one by one, a vote, failing machines, bad scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from comlrl_envs import InfrastructureError, Scenario, Score, State, Step, Task, TaskSet, TextEnv, TextGame
from comlrl_envs.scenario import Actions
from comlrl_envs.seeding import rng as rng_of

ROWS = [{"id": f"row{i}", "prompt": f"Prompt {i}.", "gold": f"CANARY{i}"} for i in range(5)]


@dataclass(frozen=True)
class Talk(State):
    prompt: str
    said: tuple[str, ...] = ()
    dice: int = 0


@dataclass(frozen=True)
class TurnTaking(Scenario):
    """Asker and answerer speak in turn; each is shown the other's last text. One point a spoken character, up to 5."""

    max_turns: int = 4
    agents = ("asker", "answerer")
    reward_range = (0.0, 5.0)
    terms = ("length", "bonus")
    metrics = ("spoken",)
    agent_metrics = ("own",)

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        return Talk(item["prompt"], dice=int(rng.integers(100)))

    def brief(self, state: State, agent: str) -> str:
        return f"You are the {agent}. {state.prompt}"

    def observe(self, state: State, agent: str) -> str:
        return f"Heard: {state.said[-1]}" if state.said else ""

    def acting(self, state: State) -> tuple[str, ...]:
        return (self.agents[len(state.said) % 2],)

    def advance(self, state: State, actions: Actions) -> Step:
        turn = len(state.said)
        text = actions[self.agents[turn % 2]]
        dice = int(rng_of(state.key, turn, "dice").integers(100))
        new = Talk(state.prompt, (*state.said, text), dice, key=state.key)
        return Step(
            new,
            Score(
                {"length": float(len(text)), "bonus": 0.5},
                {"spoken": float(turn + 1)},
                {"own": {agent: float(len(actions[agent])) for agent in self.agents}},
            ),
            done=text == "stop",
        )


@dataclass(frozen=True)
class Counting(Scenario):
    """Counts what it is asked to score; fails where told."""

    max_turns: int = 3
    fail: str = ""
    broken: str = ""
    batches: list[int] = field(default_factory=list, compare=False)
    agents = ("a", "b")
    reward_range = (-1.0, 1.0)
    terms = ("t",)
    metrics = ("m",)

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        return Talk(item["prompt"])

    def brief(self, state: State, agent: str) -> str:
        return state.prompt

    def advance_many(self, pairs: Sequence[tuple[State, Actions]]) -> Sequence[Step | InfrastructureError]:
        self.batches.append(len(pairs))
        if self.fail == "batch" and any("boom" in actions.values() for _, actions in pairs):
            raise InfrastructureError("batch", "the pool is gone")
        return [self._one(state, actions) for state, actions in pairs]

    def _one(self, state: State, actions: Actions) -> Step | InfrastructureError:
        if self.fail == "each" and "boom" in actions.values():
            return InfrastructureError("row", "the worker is gone")
        score = Score({"t": float(len(actions["a"]) - len(actions["b"]))}, {"m": 0.0})
        if self.broken == "nan":
            score = Score({"t": float("nan")}, {"m": 0.0})
        if self.broken == "inf_metric":
            score = Score({"t": 0.0}, {"m": float("inf")})
        if self.broken == "names":
            score = Score({"u": 0.0}, {"m": 0.0})
        if self.broken == "type":
            score = Score({"t": "high"}, {"m": 0.0})  # type: ignore[dict-item]
        return Step(Talk(state.prompt, (*state.said, actions["a"], actions["b"]), key=state.key), score)


@dataclass(frozen=True)
class Polling(Scenario):
    """Each says "VOTE|MESSAGE" and is shown the others' messages; one point for each vote of the right length."""

    num_agents: int = 2
    max_turns: int = 2
    feedback: str = "peers"
    reward_range = (0.0, 9.0)
    terms = ("even",)
    metrics = ("told",)

    @property
    def agents(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"voter_{place + 1}" for place in range(self.num_agents))

    @property
    def channel(self) -> bool:  # type: ignore[override]
        return self.num_agents > 1 and self.max_turns > 1

    @property
    def ablation(self) -> bool:  # type: ignore[override]
        return self.feedback == "oracle"

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        return Talk(item["prompt"])

    def brief(self, state: State, agent: str) -> str:
        return f"You are {agent}. {state.prompt}"

    def observe(self, state: State, agent: str) -> str:
        told = [text.partition("|")[2] for name, text in zip(self.agents, state.said, strict=False) if name != agent]
        return f"Heard: {told}" if state.said else ""

    def advance(self, state: State, actions: Actions) -> Step:
        said = tuple(actions[agent] for agent in self.agents)
        score = Score(
            {"even": float(sum(len(text.partition("|")[0]) % 2 == 0 for text in said))},
            {"told": float(sum(bool(text.partition("|")[2]) for text in said))},
        )
        return Step(Talk(state.prompt, said, key=state.key), score)

    def blank(self, reply: str) -> str:
        return reply.partition("|")[0] if self.channel else reply

    def majority(self, state: State, replies: Sequence[str]) -> str:
        lengths = [len(reply) for reply in replies]
        return max(sorted(replies), key=lambda reply: (lengths.count(len(reply)), len(reply)))


def polling_env(split: str = "train", max_action_chars: int = 1000, **settings: Any) -> TextEnv:
    """An environment of ``Polling``, as an id's ``parallel_env`` makes it."""
    return TextEnv(TextGame(Polling(**settings), max_action_chars=max_action_chars), TaskSet(ROWS), "toy/polling")


def start(game: TextGame, count: int = 1, seed: int = 0) -> list[Any]:
    """``count`` equal episodes."""
    task = Task("row0", ROWS[0])
    return game.start_many([task] * count, [seed] * count)


def turn_taking_env(**settings: Any) -> TextEnv:
    """An environment of ``TurnTaking``."""
    return TextEnv(TextGame(TurnTaking(), **settings), TaskSet(ROWS), "toy/turns")
