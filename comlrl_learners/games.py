"""The games that learners play: this project's `TextGame`, or a stranger's ParallelEnv behind the same methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pettingzoo import ParallelEnv

from comlrl_envs import TextEnv, make
from comlrl_envs.registry import EnvSpec, spec
from comlrl_envs.seeding import derive
from comlrl_envs.transcript import Message
from comlrl_learners.errors import ConfigError
from comlrl_learners.foreign import ForeignGame, SeedTasks

EnvSource: TypeAlias = "str | ParallelEnv[str, str, str] | Callable[[], ParallelEnv[str, str, str]]"


class ScoreLike(Protocol):
    """What a scored joint action tells: parts of the reward and diagnostics, all numbers."""

    @property
    def terms(self) -> Mapping[str, float]:
        """Parts of the reward."""
        ...

    @property
    def metrics(self) -> Mapping[str, float]:
        """Diagnostics of the team."""
        ...

    @property
    def agent_metrics(self) -> Mapping[str, Mapping[str, float]]:
        """Diagnostics by name and agent."""
        ...


class EpisodeLike(Protocol):
    """An episode as a value: stepping it gives another."""

    @property
    def task_id(self) -> str:
        """Id of the task."""
        ...

    @property
    def turn(self) -> int:
        """Joint actions played."""
        ...

    @property
    def done(self) -> bool:
        """Whether it is over."""
        ...

    @property
    def reward(self) -> float:
        """The last shared reward."""
        ...

    @property
    def score(self) -> ScoreLike | None:
        """The last judgement, None before the first."""
        ...


@runtime_checkable
class Game(Protocol):
    """What a rollout needs of an environment."""

    @property
    def agents(self) -> tuple[str, ...]:
        """The team, in order."""
        ...

    @property
    def max_turns(self) -> int | None:
        """Joint actions at most, or None."""
        ...

    def start_many(self, tasks: Sequence[Any], seeds: Sequence[int]) -> list[Any]:
        """Begin one episode per task and seed."""
        ...

    def messages(self, episode: Any) -> dict[str, list[Message]]:
        """What each agent is shown, as a chat."""
        ...

    def prompts(self, episode: Any) -> dict[str, str]:
        """What each agent is shown, as one text."""
        ...

    def acting(self, episode: Any) -> tuple[str, ...]:
        """Whose text counts now."""
        ...

    def step_many(self, moves: Sequence[tuple[Any, Mapping[str, str]]]) -> list[Any]:
        """Play one joint action in each episode; those given stay as they are."""
        ...


class Tasks(Protocol):
    """Tasks by number; each has a stable `id`."""

    def __len__(self) -> int:
        """Number of tasks."""
        ...

    def __getitem__(self, index: int) -> Any:
        """The task of this number."""
        ...


@dataclass(frozen=True)
class Playground:
    """A game with the tasks to play in it.

    Attributes:
        game: The game.
        tasks: The tasks.
        name: The environment's id, or what stands for it.
        options: Keyword arguments that `make` gave to an id.
    """

    game: Game
    tasks: Tasks
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ForeignOptions:
    """What a stranger's environment needs to be told.

    Attributes:
        team_reward: How unequal rewards become the shared one: None refuses them, or "mean", or "sum".
        tasks_per_epoch: Seeds that make an epoch.
        eval_tasks: Seeds held out for evaluation.
        branching: Whether several joint actions continue one episode, so that it must be copied.
        max_turns: Turns played at most, or None for the environment's own end.
    """

    team_reward: str | None = None
    tasks_per_epoch: int = 64
    eval_tasks: int = 32
    branching: bool = True
    max_turns: int | None = None


def open_playground(env: EnvSource, options: ForeignOptions, *, held_out: bool = False) -> Playground:
    """The game and the tasks behind what a user gives as `env=`.

    Args:
        env: An id, an environment, or a function that makes one.
        options: For environments of other projects.
        held_out: A stranger's tasks are seeds: take those kept for evaluation.

    Raises:
        ConfigError: `env` is none of these.
    """
    made = make(env) if isinstance(env, str) else env
    if not isinstance(made, ParallelEnv) and callable(made):
        made = made()
    if isinstance(made, TextEnv):
        known: EnvSpec | None = made.spec
        if known is None:
            return Playground(made.game, made.tasks, "custom")
        return Playground(made.game, made.tasks, known.id, known.kwargs)
    if isinstance(made, ParallelEnv):
        game = ForeignGame(
            made, team_reward=options.team_reward, branching=options.branching, max_turns=options.max_turns
        )
        tasks = SeedTasks(options.eval_tasks if held_out else options.tasks_per_epoch, held_out=held_out)
        return Playground(game, tasks, type(made).__name__)
    raise ConfigError(
        f"env={env!r} gives a {type(made).__name__}. Give an id such as 'writing/length_ratio', a ParallelEnv whose "
        "observations and actions are str, or a function that makes one."
    )


def held_out_playground(env: EnvSource, options: ForeignOptions) -> Playground | None:
    """The evaluation side of `env`: the eval split of an id, a stranger's held-out seeds, or None if there is none."""
    known: EnvSpec | None
    if isinstance(env, str):
        known = spec(env)
        twin = make(env, split="eval") if _has_splits(known) else make(env)
    else:
        twin = env if isinstance(env, ParallelEnv) else env()
        known = twin.spec if isinstance(twin, TextEnv) else None
        if known is not None and _has_splits(known):
            twin = make(known.id, **{**known.kwargs, "split": "eval"})
    if isinstance(twin, TextEnv) and not (known is not None and _has_splits(known)):
        return None
    return open_playground(twin, options, held_out=True)


def _has_splits(known: EnvSpec) -> bool:
    """Whether `split="eval"` gives other tasks: not without the keyword, nor if given tasks or eval are trained on."""
    parameters = inspect.signature(known.load()).parameters.values()
    takes = any(parameter.name == "split" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    trains_on_eval = str(known.kwargs.get("split", "")).startswith("eval")
    return takes and known.kwargs.get("tasks") is None and not trains_on_eval


def episode_seed(run_seed: int, purpose: str, task_id: str, visit: int) -> int:
    """The seed of a visit to a task, 63 bits."""
    return derive("episode", run_seed, purpose, task_id, visit)
