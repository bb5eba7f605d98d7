"""A scenario as a game of values: episodes go in, episodes come out, nothing is changed in place."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from comlrl_envs.briefs import Briefs, PromptOverride
from comlrl_envs.errors import ActionError, EpisodeError, InfrastructureError, OptionError, closest, positive_int
from comlrl_envs.reward_call import RewardFunction
from comlrl_envs.scenario import Scenario, Score, State, Step, with_preset
from comlrl_envs.scoring import Judge, check_range
from comlrl_envs.seeding import derive, rng
from comlrl_envs.tasks import Task
from comlrl_envs.transcript import (
    Exchange,
    Message,
    as_messages,
    as_text,
    check_memory,
    clean,
    remembered,
    turns,
    writable,
)

MAX_ACTION_CHARS = 32_768

Move: TypeAlias = tuple["Episode", Mapping[str, str]]
Reward: TypeAlias = str | Callable[..., Any] | None


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode as it stands: a value that may be kept, shared and played on in many ways.

    Attributes:
        task_id: Id of the task.
        seed: Seed of the episode.
        item: The task's row; read only.
        state: Where the scenario stands.
        turn: Joint actions played.
        briefs: Per agent, the constant head of its prompt.
        news: Per agent, what is new to it this turn.
        past: Per agent, its exchanges so far.
        score: Judgement of the last joint action, its terms with the residue ``clip``; None before the first.
        rewards: The team's reward of each turn.
        done: Whether the game has ended by itself.
        error: Why the last move could not be scored (``step_many(on_error="keep")``); ``""`` if it was.
    """

    task_id: str
    seed: int
    item: Mapping[str, Any]
    state: State
    turn: int
    briefs: tuple[str, ...]
    news: tuple[str, ...]
    past: tuple[tuple[Exchange, ...], ...]
    score: Score | None = None
    rewards: tuple[float, ...] = ()
    done: bool = False
    error: str = ""

    @property
    def reward(self) -> float:
        """The team's reward of the last joint action; 0.0 before the first."""
        return self.rewards[-1] if self.rewards else 0.0


class TextGame:
    """A scenario with its memory, its ending rules and its scoring; holds no episode.

    Args:
        scenario: The rules.
        memory: How much of its own past an agent's prompt repeats: ``"full"``, ``"last"`` exchange, ``"none"``.
        stop_reward: A reward of at least this ends the episode.
        max_action_chars: Longer actions are cut to this many characters.
        prompts: Replaces the brief: a template with the row's fields in braces or a callable ``row -> str``; one for
            all agents, a list in agent order, or a dict by agent.
        reward: A preset of the scenario's, or a callable (see ``RewardFunction``) that replaces the terms by the
            single term ``reward``; it is called once a ``step_many``.
        reward_range: Range of a callable ``reward``.
    """

    def __init__(
        self,
        scenario: Scenario,
        memory: str = "full",
        stop_reward: float | None = None,
        max_action_chars: int = MAX_ACTION_CHARS,
        prompts: PromptOverride | None = None,
        reward: Reward = None,
        reward_range: tuple[float, float] = (-float("inf"), float("inf")),
    ) -> None:
        """Check the settings and fix every name that a score may carry."""
        if isinstance(reward, str):
            scenario = with_preset(scenario, reward)
        if isinstance(stop_reward, bool) or not (stop_reward is None or isinstance(stop_reward, int | float)):
            raise OptionError(f"stop_reward={stop_reward!r}; expected a number or None.")
        self.scenario = scenario
        self.memory = check_memory(memory)
        self.stop_reward = stop_reward
        self.max_action_chars = positive_int("max_action_chars", max_action_chars)
        self.agents = tuple(scenario.agents)
        if not self.agents or len(set(self.agents)) != len(self.agents):
            raise OptionError(f"agents={self.agents!r}; expected at least one id, each different.")
        self.max_turns = positive_int("max_turns", scenario.max_turns)
        self._briefs = Briefs(prompts, self.agents)
        own = None if reward is None or isinstance(reward, str) else RewardFunction(reward, len(self.agents))
        self._judge = Judge(scenario, own, check_range(reward_range) if own else check_range(scenario.reward_range))

    @property
    def reward_range(self) -> tuple[float, float]:
        """Lowest and highest reward of a turn."""
        return self._judge.reward_range

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of the reward terms; the last, ``clip``, is what clipping to ``reward_range`` added."""
        return self._judge.term_names

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the team's metrics."""
        return self._judge.metric_names

    @property
    def agent_metric_names(self) -> tuple[str, ...]:
        """Names of the metrics that each agent has."""
        return self._judge.agent_metric_names

    @property
    def callables(self) -> dict[str, Any]:
        """What the caller gave in place of the scenario's own: reward and prompts, where there are any."""
        own = self._judge.own
        return {**({} if own is None else {"reward": own.func}), **self._briefs.given}

    def with_reward(
        self, reward: Callable[..., Any], reward_range: tuple[float, float] = (-float("inf"), float("inf"))
    ) -> TextGame:
        """The same game scored by ``reward``; the scenario's metrics are kept."""
        game = copy.copy(self)
        game._judge = Judge(self.scenario, RewardFunction(reward, len(self.agents)), check_range(reward_range))
        return game

    def start_many(self, tasks: Sequence[Task], seeds: Sequence[int]) -> list[Episode]:
        """Begin one episode for each task and seed; equal pairs give equal episodes in any process.

        Raises:
            TaskError: A row cannot be played.
        """
        if len(tasks) != len(seeds):
            raise OptionError(f"{len(tasks)} tasks and {len(seeds)} seeds; expected as many of each.")
        return [self._start(task, seed) for task, seed in zip(tasks, seeds, strict=True)]

    def _start(self, task: Task, seed: int) -> Episode:
        state = self.scenario.begin(task.fields, rng(seed, task.id, "begin"))
        state = dataclasses.replace(state, key=derive(seed, task.id))
        briefs = tuple([writable(brief) for brief in self._briefs.of(task, self.scenario, state)])
        news = self._first_news(task, state)
        return Episode(task.id, seed, task.fields, state, 0, briefs, news, ((),) * len(self.agents))

    def messages(self, episode: Episode) -> dict[str, list[Message]]:
        """Per agent, the chat it is shown: user and assistant in turn, the brief at the head, the news at the end."""
        return {agent: as_messages(texts) for agent, texts in zip(self.agents, self._turns(episode), strict=True)}

    def prompts(self, episode: Episode) -> dict[str, str]:
        """Per agent, the same as one text."""
        return {agent: as_text(texts) for agent, texts in zip(self.agents, self._turns(episode), strict=True)}

    def _turns(self, episode: Episode) -> list[list[str]]:
        memory = self.memory
        return [
            turns(brief, remembered(past, memory), news)
            for brief, past, news in zip(episode.briefs, episode.past, episode.news, strict=True)
        ]

    def acting(self, episode: Episode) -> tuple[str, ...]:
        """Whose text counts now; nobody's once the episode is over."""
        if episode.done:
            return ()
        acting = self.scenario.acting(episode.state)
        for agent in acting:
            if agent not in self.agents:
                raise ActionError(f"acting names {agent!r}; the agents are {self.agents}.{closest(agent, self.agents)}")
        return acting

    def oracle(self, episode: Episode) -> Mapping[str, str] | None:
        """The scenario's gold joint action now; None if unknown or over."""
        return None if episode.done else self.scenario.oracle(episode.state)

    def step_many(self, moves: Sequence[Move], on_error: Literal["raise", "keep"] = "raise") -> list[Episode]:
        """Play one joint action in each episode.

        Each distinct (state, actions) is scored once, all of them in one call of the scenario.

        Args:
            moves: Episodes and their joint actions; idle agents may be left out.
            on_error: What an ``InfrastructureError`` does: ``"raise"`` it, or ``"keep"`` the episode as it was with
                ``Episode.error`` set, the others going on.

        Returns:
            The episodes after the move, in the order of ``moves``; those given are unchanged.

        Raises:
            ActionError: An action is missing, no ``str``, or of no agent.
            EpisodeError: An episode is over.
            RewardError: A score has a non-finite number or undeclared names.
        """
        if on_error not in ("raise", "keep"):
            raise OptionError(
                f"on_error={on_error!r}; expected 'raise' or 'keep'.{closest(on_error, ('raise', 'keep'))}"
            )
        heard = [self._hear(episode, actions) for episode, actions in moves]
        outcomes = self._judge.score([m[0] for m in moves], [h[0] for h in heard], self._first_prompts, on_error)
        stepped: list[Episode] = []
        for (episode, _), (_, past), outcome in zip(moves, heard, outcomes, strict=True):
            if isinstance(outcome, InfrastructureError):
                stepped.append(dataclasses.replace(episode, error=str(outcome)))
            else:
                stepped.append(self._next(episode, past, *outcome))
        return stepped

    def _hear(
        self, episode: Episode, actions: Mapping[str, str]
    ) -> tuple[dict[str, str], tuple[tuple[Exchange, ...], ...]]:
        """Clean the replies and write them into each agent's past."""
        if episode.done:
            raise EpisodeError(f"Task {episode.task_id!r} is over after {episode.turn} turns. Start another episode.")
        if not isinstance(actions, Mapping):
            raise ActionError(f"The actions are a {type(actions).__name__}; expected a dict, agent to text.")
        acting = self.acting(episode)
        replies: dict[str, str] = {}
        past: list[tuple[Exchange, ...]] = []
        found = 0
        for agent, earlier, news in zip(self.agents, episode.past, episode.news, strict=True):
            given = agent in actions
            found += given
            if agent not in acting:
                replies[agent] = ""
                past.append((*earlier, Exchange(news, None, 0, 0)))
                continue
            if not given:
                raise ActionError(
                    f"No action from {agent!r}, whose turn it is; expected a str from each of {acting}, "
                    f"got {list(actions)}."
                )
            text = actions[agent]
            if not isinstance(text, str):
                raise ActionError(
                    f"The action of {agent!r} is a {type(text).__name__}; expected a str. Decode tokens first."
                )
            text, cut, replaced = clean(text, self.max_action_chars)
            replies[agent] = text
            past.append((*earlier, Exchange(news, text, cut, replaced)))
        if found != len(actions):
            stranger = next(name for name in actions if name not in self.agents)
            raise ActionError(
                f"An action came from {stranger!r}; the agents are {self.agents}.{closest(stranger, self.agents)}"
            )
        return replies, tuple(past)

    def _next(
        self, episode: Episode, past: tuple[tuple[Exchange, ...], ...], step: Step, score: Score, reward: float
    ) -> Episode:
        turn = episode.turn + 1
        done = step.done or turn >= self.max_turns or (self.stop_reward is not None and reward >= self.stop_reward)
        return Episode(
            episode.task_id,
            episode.seed,
            episode.item,
            step.state,
            turn,
            episode.briefs,
            self._news(episode, past, step.state, done),
            past,
            score,
            (*episode.rewards, reward),
            done,
        )

    def _first_news(self, task: Task, state: State) -> tuple[str, ...]:
        return tuple([writable(self.scenario.observe(state, agent)) for agent in self.agents])

    def _news(
        self, before: Episode, past: tuple[tuple[Exchange, ...], ...], state: State, done: bool
    ) -> tuple[str, ...]:
        if done:
            return ("",) * len(self.agents)
        return tuple([writable(self.scenario.observe(state, agent)) for agent in self.agents])

    def _first_prompts(self, episodes: Sequence[Episode]) -> list[str]:
        """What the first agent is shown in each episode, for rewards that ask for it."""
        return [self.prompts(episode)[self.agents[0]] for episode in episodes]

    def to_json(self, episode: Episode) -> dict[str, Any]:
        """The episode as JSON values; raises ``OptionError`` if its row holds something that JSON does not."""
        data: dict[str, Any] = {f.name: getattr(episode, f.name) for f in dataclasses.fields(Episode)}
        data["state"] = episode.state.to_json()
        data["score"] = None if episode.score is None else dataclasses.asdict(episode.score)
        try:
            restored: dict[str, Any] = json.loads(json.dumps(data))
        except TypeError as unwritable:
            raise OptionError(
                f"The row of task {episode.task_id!r} is not JSON ({unwritable}); turn its values into str, numbers, "
                "lists and dicts."
            ) from unwritable
        return restored

    def from_json(self, data: Mapping[str, Any]) -> Episode:
        """The episode that ``to_json`` wrote."""
        values = dict(data)
        values["state"] = State.from_json(data["state"])
        values["score"] = None if data["score"] is None else Score(**data["score"])
        values["past"] = tuple(tuple(Exchange(*exchange) for exchange in agent) for agent in data["past"])
        for name in ("briefs", "news", "rewards"):
            values[name] = tuple(data[name])
        return Episode(**values)

    def __deepcopy__(self, memo: dict[int, Any]) -> TextGame:
        """The game itself: it never changes."""
        return self
