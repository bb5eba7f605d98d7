"""A stranger's ParallelEnv behind the methods of a text game.

The environment knows nothing of this project, so an episode holds a deep copy of it, taken before each joint action
when several of them continue the same episode. Copies of one episode share the state of its random generator: what the
environment draws next is equal for all of them.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pettingzoo import ParallelEnv

from comlrl_envs.errors import RewardError
from comlrl_envs.transcript import Message
from comlrl_learners.errors import ForeignEnvError

log = logging.getLogger(__name__)

TextParallelEnv: TypeAlias = "ParallelEnv[str, str, str]"
EVAL_SEEDS = 2**30
"""Held-out seeds start here; training seeds stay below."""


@dataclass(frozen=True)
class SeedTask:
    """A stranger's task is a seed."""

    id: str
    seed: int


@dataclass(frozen=True)
class SeedTasks:
    """The seeds that stand for a stranger's tasks; those of training and evaluation are disjoint."""

    count: int
    held_out: bool = False

    def __len__(self) -> int:
        """Number of seeds."""
        return self.count

    def __getitem__(self, index: int) -> SeedTask:
        """The task of this number."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        seed = index + (EVAL_SEEDS if self.held_out else 0)
        return SeedTask(f"seed-{seed}", seed)


@dataclass(frozen=True)
class ForeignScore:
    """A stranger's reward, under the one term `reward`."""

    terms: Mapping[str, float]
    metrics: Mapping[str, float] = field(default_factory=dict)
    agent_metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ForeignEpisode:
    """Where a stranger's episode stands.

    Attributes:
        task_id: Name of the seed.
        seed: What the environment was reset with.
        turn: Joint actions played.
        observations: What each agent still present reads.
        done: Whether no agent is left or the last turn was played.
        reward: The last shared reward.
        score: The same as a score, None before the first joint action.
        env: The environment at this point, or None when it is rebuilt from `history`.
        history: All joint actions so far.
    """

    task_id: str
    seed: int
    turn: int
    observations: Mapping[str, str]
    done: bool
    reward: float
    score: ForeignScore | None
    env: TextParallelEnv | None
    history: tuple[Mapping[str, str], ...] = ()


class ForeignGame:
    """The three methods of a game, `start_many`, `messages` and `step_many`, over a stranger's environment.

    Attributes:
        agents: The team.
        max_turns: Turns played at most, or None for the environment's own end.
    """

    def __init__(
        self,
        env: TextParallelEnv,
        *,
        team_reward: str | None = None,
        branching: bool = True,
        max_turns: int | None = None,
    ) -> None:
        """Probe the environment: one reset and one copy.

        Args:
            env: The environment.
            team_reward: How unequal rewards become the shared one: None refuses them, or "mean", or "sum".
            branching: Whether several joint actions continue one episode.
            max_turns: Turns played at most.

        Raises:
            ForeignEnvError: An observation is no str, or the environment cannot be copied where it must be.
        """
        self.agents: tuple[str, ...] = tuple(env.possible_agents)
        named = [agent for agent in self.agents if isinstance(agent, str) and agent]
        if len(set(named)) < len(self.agents):
            raise ForeignEnvError(
                f"{type(env).__name__} names its agents {list(self.agents)}. Different, non-empty str ids are needed: "
                "they name policies, metrics and folders."
            )
        self.max_turns = max_turns
        self._env, self._team_reward, self._branching = env, team_reward, branching
        self._check_observations(env.reset(seed=0)[0])
        self._copies = self._probe_copy()

    def start_many(self, tasks: Sequence[SeedTask], seeds: Sequence[int]) -> list[ForeignEpisode]:
        """Reset once per task, with the task's own seed (`seeds` is not used: a stranger has no items)."""
        return [self._start(task) for task in tasks]

    def acting(self, episode: ForeignEpisode) -> tuple[str, ...]:
        """The agents that are observed now."""
        return tuple(agent for agent in self.agents if agent in episode.observations)

    def prompts(self, episode: ForeignEpisode) -> dict[str, str]:
        """Each present agent's observation."""
        return dict(episode.observations)

    def messages(self, episode: ForeignEpisode) -> dict[str, list[Message]]:
        """Each present agent's observation as one user message."""
        return {agent: [{"role": "user", "content": text}] for agent, text in episode.observations.items()}

    def step_many(self, moves: Sequence[tuple[ForeignEpisode, Mapping[str, str]]]) -> list[ForeignEpisode]:
        """Play each joint action on a copy of its episode (on the episode's own environment when none branches)."""
        return [self._step(episode, actions) for episode, actions in moves]

    def _start(self, task: SeedTask) -> ForeignEpisode:
        env = self._copy(self._env) if self._copies else self._env
        observations, _ = env.reset(seed=task.seed)
        self._check_observations(observations)
        return ForeignEpisode(task.id, task.seed, 0, observations, False, 0.0, None, env if self._copies else None)

    def _step(self, episode: ForeignEpisode, actions: Mapping[str, str]) -> ForeignEpisode:
        present = {agent: actions[agent] for agent in self.acting(episode)}
        env = self._at(episode)
        observations, rewards, terminations, truncations, _ = env.step(present)
        reward = self._shared(rewards, episode)
        turn = episode.turn + 1
        staying = {
            agent: observations[agent]
            for agent in self.agents
            if agent in observations and agent in env.agents
            if not (terminations.get(agent, False) or truncations.get(agent, False))
        }
        self._check_observations(staying)
        return ForeignEpisode(
            episode.task_id,
            episode.seed,
            turn,
            staying,
            not staying or turn == self.max_turns,
            reward,
            ForeignScore({"reward": reward}),
            env if self._copies else None,
            () if self._copies else (*episode.history, present),
        )

    def _at(self, episode: ForeignEpisode) -> TextParallelEnv:
        """An environment that stands where the episode does and may be stepped."""
        if episode.env is not None:
            return self._copy(episode.env) if self._branching else episode.env
        self._env.reset(seed=episode.seed)
        for actions in episode.history:
            self._env.step(dict(actions))
        return self._env

    def _copy(self, env: TextParallelEnv) -> TextParallelEnv:
        return copy.deepcopy(env)

    def _probe_copy(self) -> bool:
        try:
            self._copy(self._env)
        except Exception as error:
            self._refuse_or_warn(error)
            return False
        return True

    def _refuse_or_warn(self, error: Exception) -> None:
        name = type(self._env).__name__
        culprits = [key for key, value in vars(self._env).items() if not _copies_well(value)]
        found = f"attribute {', '.join(map(repr, culprits))}" if culprits else "the object as a whole"
        if self._branching and self.max_turns != 1:
            raise ForeignEnvError(
                f"{name} cannot be copied ({found}: {error}), but several joint actions continue each of its turns. "
                "Give it a __deepcopy__ that leaves that part out, or set num_generations=1, or max_turns=1."
            ) from error
        log.warning(
            "%s cannot be copied (%s: %s): every episode is played from its seed again, which is right only if its "
            "seed decides all it does.", name, found, error,
        )  # fmt: skip

    def _check_observations(self, observations: Mapping[str, Any]) -> None:
        for agent, text in observations.items():
            if not isinstance(text, str):
                raise ForeignEnvError(
                    f"{type(self._env).__name__} gives {agent!r} an observation of type {type(text).__name__}. "
                    "Language models read str: wrap the environment so that its observations are text."
                )

    def _shared(self, rewards: Mapping[str, float], episode: ForeignEpisode) -> float:
        values = [float(value) for value in rewards.values()]
        if not values or not all(map(math.isfinite, values)):
            raise RewardError(
                f"{type(self._env).__name__} gave the rewards {dict(rewards)} at turn {episode.turn} of "
                f"{episode.task_id}: one finite number per agent is expected."
            )
        if self._team_reward == "sum":
            return math.fsum(values)
        if self._team_reward == "mean":
            return math.fsum(values) / len(values)
        if max(values) != min(values):
            raise ForeignEnvError(
                f"{type(self._env).__name__} rewards its agents unequally ({dict(rewards)}), and a team learns from "
                'one reward. Set team_reward="mean" or "sum".'
            )
        return values[0]


def _copies_well(value: Any) -> bool:
    try:
        copy.deepcopy(value)
    except Exception:
        return False
    return True
