"""Bare callables as an environment: rows, a reward function, and perhaps formatters and feedback."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from comlrl_envs.briefs import checked_prompt
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError, TaskError, closest, positive_int
from comlrl_envs.game import MAX_ACTION_CHARS, Episode, TextGame
from comlrl_envs.reward_call import FeedbackFunction, RewardCallable
from comlrl_envs.scenario import Actions, Scenario, Score, State, Step
from comlrl_envs.tasks import Row, Task, TaskSet
from comlrl_envs.transcript import Exchange

Formatter: TypeAlias = Callable[[Row], str]
Formatters: TypeAlias = Formatter | Sequence[Formatter] | Mapping[str, Formatter] | None


def from_reward(
    tasks: Iterable[Row] | str | Path | TaskSet,
    reward_func: RewardCallable,
    formatters: Formatters = None,
    feedback: Callable[..., Sequence[str]] | None = None,
    agents: Sequence[str] | None = None,
    max_turns: int = 1,
    num_agents: int | None = None,
    reward_range: tuple[float, float] = (-float("inf"), float("inf")),
    *,
    stop_reward: float | None = None,
    max_action_chars: int = MAX_ACTION_CHARS,
    text_infos: bool = False,
    render_mode: str | None = None,
    name: str = "from_reward",
) -> TextEnv:
    """Turn callables into an environment.

    Args:
        tasks: Rows, as for ``TaskSet``.
        reward_func: One number a joint action from per-agent lists of completions; the forms are those of
            ``RewardFunction``. All joint actions of a ``step_many`` come in one call.
        formatters: ``row -> prompt``: one for all agents, or one each; None takes the row's ``prompt``.
        feedback: ``f(prompt, agent_completions, num_agents, prompt_history_per_agent=, response_history_per_agent=)``
            called once for each episode that goes on. The N strings it returns are the next turn's whole prompts:
            no brief, no memory and no formatter is applied to them. ``prompt`` is the row's own, or without one
            the first agent's first prompt.
        agents: Ids; default ``agent_0``, ``agent_1``, as many as ``num_agents``.
        max_turns: Joint actions of an episode; more than one needs ``feedback``.
        num_agents: Default 2, or the number of ``agents``.
        reward_range: What rewards are clipped to.
        stop_reward: A reward of at least this ends the episode.
        max_action_chars: Longer actions are cut.
        text_infos: As in ``TextEnv``.
        render_mode: As in ``TextEnv``.
        name: For ``metadata["name"]``.

    Raises:
        OptionError: An argument has a bad value, or the reward's signature fits no form.

    Example:
        >>> def agree(first, second):
        ...     return [float(a == b) for a, b in zip(first, second)]
        >>> env = from_reward([{"prompt": "Say hi."}], agree)
        >>> _ = env.reset(seed=0)
        >>> env.step({"agent_0": "hi", "agent_1": "hi"})[1]["agent_0"]
        1.0
    """
    names = _names(agents, num_agents)
    if positive_int("max_turns", max_turns) > 1 and feedback is None:
        raise OptionError(f"max_turns={max_turns} needs feedback=, which writes the prompts of the later turns.")
    rows = tasks if isinstance(tasks, TaskSet) else TaskSet(tasks)
    _refuse_columns(reward_func, rows)
    game = CallableGame(
        CallableScenario(names, max_turns),
        _writers(formatters, names),
        None if feedback is None else FeedbackFunction(feedback),
        stop_reward=stop_reward,
        max_action_chars=max_action_chars,
        reward=reward_func,
        reward_range=reward_range,
    )
    return TextEnv(game, rows, name, text_infos, render_mode)


def _refuse_columns(reward_func: RewardCallable, rows: TaskSet) -> None:
    """Columns are not spread over parameters: one of that name would be filled with an agent's texts."""
    try:
        names = list(inspect.signature(reward_func).parameters)
    except (TypeError, ValueError):
        return  # whoever calls it says why it cannot be read
    columns = [name for name in names if name in rows[0].fields and name not in ("prompts", "prompt", "batch_items")]
    if columns:
        raise OptionError(
            f"The reward's parameter {columns[0]!r} is a column of the rows, but parameters are filled with a list of "
            f"texts per agent. Read columns from batch_items=: [row[{columns[0]!r}] for row in batch_items]."
        )


@dataclass(frozen=True)
class Position(State):
    """All that the rules know: how many turns were played."""

    turn: int = 0


@dataclass(frozen=True)
class CallableScenario(Scenario):
    """Rules without a judgement of their own: the game's reward gives it."""

    agents: tuple[str, ...]
    max_turns: int
    reward_range = (0.0, 0.0)
    terms = ()
    channel = False

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        """Turn 0."""
        return Position()

    def brief(self, state: State, agent: str) -> str:
        """None: the news are whole prompts."""
        return ""

    def advance(self, state: State, actions: Actions) -> Step:
        """The next turn."""
        assert isinstance(state, Position)
        return Step(Position(state.turn + 1, key=state.key), Score({}))


class CallableGame(TextGame):
    """A game whose prompts come from formatters and feedback; other arguments as in ``TextGame``."""

    def __init__(
        self,
        scenario: CallableScenario,
        writers: Mapping[str, Formatter] | None,
        feedback: FeedbackFunction | None,
        **settings: Any,
    ) -> None:
        super().__init__(scenario, memory="none", **settings)
        self._writers = writers
        self._feedback = feedback

    @property
    def callables(self) -> dict[str, Any]:
        """Reward, formatters and feedback."""
        feedback = {} if self._feedback is None else {"feedback": self._feedback.func}
        return {**super().callables, "formatters": dict(self._writers or {}), **feedback}

    def _first_news(self, task: Task, state: State) -> tuple[str, ...]:
        if self._writers is not None:
            return tuple([checked_prompt(self._writers[a](task.fields), task.id, a) for a in self.agents])
        if "prompt" not in task.fields:
            raise TaskError(
                f"Task {task.id!r} has no field 'prompt'; it has {sorted(task.fields)}. Add the field, or pass "
                f"formatters= that write the prompts from the row.{closest('prompt', task.fields)}"
            )
        return (checked_prompt(task.fields["prompt"], task.id, self.agents[0]),) * len(self.agents)

    def _news(
        self, before: Episode, past: tuple[tuple[Exchange, ...], ...], state: State, done: bool
    ) -> tuple[str, ...]:
        if done or self._feedback is None:
            return ("",) * len(self.agents)
        shown = [[exchange.news for exchange in agent] for agent in past]
        said = [[exchange.reply or "" for exchange in agent] for agent in past]
        prompt = before.item.get("prompt", shown[0][0])
        result = self._feedback(prompt, [replies[-1] for replies in said], shown, said)
        if not isinstance(result, list | tuple) or len(result) != len(self.agents):
            raise OptionError(
                f"feedback returned {type(result).__name__} for task {before.task_id!r}, turn {before.turn}; return a "
                f"list of {len(self.agents)} prompts, one for each of {self.agents}."
            )
        return tuple([checked_prompt(text, before.task_id, a) for a, text in zip(self.agents, result, strict=True)])


def _names(agents: Sequence[str] | None, num_agents: int | None) -> tuple[str, ...]:
    if agents is None:
        count = 2 if num_agents is None else num_agents
        return tuple(f"agent_{i}" for i in range(positive_int("num_agents", count)))
    strings = all(isinstance(agent, str) and agent for agent in agents)
    if isinstance(agents, str) or not agents or not strings or len(set(agents)) != len(agents):
        raise OptionError(f"agents={agents!r}; expected a tuple of different ids, such as ('writer', 'editor').")
    if num_agents not in (None, len(agents)):
        raise OptionError(f"num_agents={num_agents} but {len(agents)} agents are named; leave num_agents out.")
    return tuple(agents)


def _writers(formatters: Formatters, agents: tuple[str, ...]) -> dict[str, Formatter] | None:
    if formatters is None:
        return None
    if callable(formatters):
        return dict.fromkeys(agents, formatters)
    given = formatters if isinstance(formatters, Mapping) else dict(zip(agents, formatters, strict=False))
    if len(formatters) != len(agents) or set(given) != set(agents) or not all(map(callable, given.values())):
        raise OptionError(
            f"formatters holds {len(formatters)} entries for the agents {agents}; give one callable for "
            "all, or one each."
        )
    return dict(given)
