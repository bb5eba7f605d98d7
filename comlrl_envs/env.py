"""One episode behind PettingZoo's ``ParallelEnv``: texts in, texts out, one reward for the team."""

from __future__ import annotations

import copy
import logging
import operator
import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from pettingzoo import ParallelEnv

from comlrl_envs.errors import EpisodeError, OptionError, closest
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.infos import InfoWriter
from comlrl_envs.registry import EnvSpec
from comlrl_envs.render import RENDER_MODES, render
from comlrl_envs.seeding import derive, rng
from comlrl_envs.spaces import Text
from comlrl_envs.tasks import Task, TaskSet
from comlrl_envs.transcript import Message

Texts: TypeAlias = dict[str, str]
Infos: TypeAlias = dict[str, dict[str, Any]]
Transition: TypeAlias = tuple[Texts, dict[str, float], dict[str, bool], dict[str, bool], Infos]

logger = logging.getLogger("comlrl_envs")

OBSERVATION_CHARS = 2**20
_OPTIONS = ("task", "item")


class TextEnv(ParallelEnv[str, str, str]):  # type: ignore[misc]  # PettingZoo ships no types
    """A team game of texts.

    An observation is a ``str``: the agent's brief, what it remembers, this turn's news. An action is any ``str``.
    All agents get the same reward and leave together.

    ``infos[agent]`` holds numbers, under the same keys from reset on: ``term/<name>``, ``term/clip``,
    ``metric/<name>``, ``agent_metric/<name>`` (floats, 0.0 until ``scored`` is 1), ``turn`` (joint actions played),
    ``active`` (1 if its text counts next), ``scored``, ``cut`` and ``replaced`` (characters of its last action).

    Args:
        game: The rules, memory and scoring.
        tasks: Where ``reset`` draws from.
        name: For ``metadata["name"]`` and ``str(env)``.
        text_infos: Adds ``text/news`` and ``text/reply`` to the infos, which then are no longer all numbers.
        render_mode: ``"ansi"``, ``"html"`` or None.

    Attributes:
        game: As given.
        tasks: As given.
        spec: How ``make`` built it; None otherwise.
        max_cycles: Truncates the episode after this many steps if the game has not ended; None for no such limit.
    """

    def __init__(
        self,
        game: TextGame,
        tasks: TaskSet,
        name: str = "text_game",
        text_infos: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in RENDER_MODES:
            near = closest(render_mode, RENDER_MODES)
            raise OptionError(f"render_mode={render_mode!r}; expected one of {RENDER_MODES}, or None.{near}")
        self.game = game
        self.tasks = tasks
        self.spec: EnvSpec | None = None
        self.max_cycles: int | None = None
        self.render_mode = render_mode
        self.metadata = {"name": name, "render_modes": list(RENDER_MODES), "is_parallelizable": True}
        self.possible_agents = list(game.agents)
        self.agents: list[str] = []
        self._infos = InfoWriter(game, text_infos)
        self._episode: Episode | None = None
        self._cycles = 0
        # Where the seeds of unseeded resets come from: a base and how many were taken.
        self._stream: tuple[int, int] = (int.from_bytes(os.urandom(8), "big"), 0)
        self._build_spaces()

    def observation_space(self, agent: str) -> Text:
        """The space of the agent's observations, the same object at each call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Text:
        """The space of the agent's actions, the same object at each call; ``step`` takes longer texts too."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Texts, Infos]:
        """Begin an episode.

        Args:
            seed: Equal seed and options give a byte-equal episode in any process. None continues this
                environment's own stream.
            options: ``{"task": position or id}``, or ``{"item": row}``; without either, the seed draws a task.
                Other keys are logged and ignored.

        Returns:
            Observations and infos by agent.

        Raises:
            OptionError: The seed is no integer, or an option has a bad value.
            TaskError: The task cannot be played.
        """
        return self._begin(*self._choose(seed, options))

    def step(self, actions: Mapping[str, str]) -> Transition:
        """Play one joint action, a text from each acting agent.

        Returns:
            Observations, rewards (one float, equal for all), terminations, truncations and infos by agent.

        Raises:
            ActionError: An action is missing, is no ``str``, or is of no agent.
            EpisodeError: The episode is over, or none has begun. No actions at all are fine once it is over.
        """
        if not self.agents:
            if self._episode is None or actions:
                raise EpisodeError(
                    "No episode has begun. Call reset() first."
                    if self._episode is None
                    else f"The episode of task {self._episode.task_id!r} is over. Call reset() to begin another."
                )
            return {}, {}, {}, {}, {}
        return self.commit(self.game.step_many([(self._current(), actions)])[0])

    def messages(self, agent: str) -> list[Message]:
        """What ``agent`` is shown now, as chat turns: the source of its observation."""
        shown = self.game.messages(self._current())
        if agent not in shown:
            raise OptionError(f"No agent {agent!r}; the agents are {self.game.agents}.{closest(agent, shown)}")
        return shown[agent]

    def state(self) -> str:
        """What all agents are shown, in agent order under ``[agent]`` headers; never gold."""
        return "\n\n".join([f"[{agent}]\n{text}" for agent, text in self.game.prompts(self._current()).items()])

    def render(self) -> str | None:
        """The episode so far as a transcript, in the form of ``render_mode``; None without one."""
        if self.render_mode is None:
            logger.warning("render() without a render mode shows nothing; pass render_mode='ansi' or 'html' to make.")
            return None
        return render(self.game, self._current(), self.render_mode)

    def close(self) -> None:
        """Nothing to release: handles are shared in the process."""

    @property
    def episode(self) -> Episode:
        """The episode as it stands, a value; raises ``EpisodeError`` before the first reset."""
        return self._current()

    def fork(self) -> TextEnv:
        """An environment that goes on from here on its own; costs no copy of tasks, texts or states."""
        twin = copy.copy(self)
        twin.agents = list(self.agents)
        # The spaces draw from generators of their own, which two environments must not share.
        twin._build_spaces()
        return twin

    def get_state(self) -> dict[str, Any]:
        """Where the environment stands, as JSON values."""
        return {
            "episode": None if self._episode is None else self.game.to_json(self._episode),
            "agents": list(self.agents),
            "cycles": self._cycles,
            "stream": list(self._stream),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``get_state`` gave, here or in another process."""
        base, taken = state["stream"]
        self._episode = None if state["episode"] is None else self.game.from_json(state["episode"])
        self.agents = list(state["agents"])
        self._cycles = state["cycles"]
        self._stream = (base, taken)

    def _build_spaces(self) -> None:
        game = self.game
        longest = OBSERVATION_CHARS + game.max_turns * len(game.agents) * game.max_action_chars
        self.observation_spaces: dict[str, Text] = {agent: Text(longest) for agent in game.agents}
        self.action_spaces: dict[str, Text] = {agent: Text(game.max_action_chars) for agent in game.agents}
        self.state_space = Text(longest * len(game.agents))

    def _choose(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Task, int]:
        """The task and the seed of the next episode."""
        if seed is None:
            base, taken = self._stream
            seed = derive(base, "reset", taken)
            self._stream = (base, taken + 1)
        else:
            try:
                seed = operator.index(seed)
            except TypeError as bad:
                raise OptionError(f"seed={seed!r} is a {type(seed).__name__}; expected an int or None.") from bad
            self._stream = (seed, 0)
        given = {} if options is None else options
        for name in given:
            if name not in _OPTIONS:
                logger.warning("Ignored reset option %r; known are %s.%s", name, _OPTIONS, closest(name, _OPTIONS))
        if "task" in given and "item" in given:
            raise OptionError("options name both 'task' and 'item'; give one of them.")
        if "item" in given:
            return self.tasks.from_row(given["item"]), seed
        if "task" not in given:
            return self.tasks.draw(rng(seed, "task")), seed
        task = given["task"]
        if isinstance(task, bool) or not (isinstance(task, str) or hasattr(task, "__index__")):
            raise OptionError(
                f"options['task'] is a {type(task).__name__}; expected a position (int) or an id (str). "
                "To play a row of your own, pass options={'item': row}."
            )
        return self.tasks[task], seed

    def _begin(self, task: Task, seed: int) -> tuple[Texts, Infos]:
        self._episode = self.game.start_many([task], [seed])[0]
        self._cycles = 0
        self.agents = list(self.possible_agents)
        return self.game.prompts(self._episode), self._infos.write(self._episode)

    def commit(self, episode: Episode) -> Transition:
        """Make ``episode`` the current one and report the step that led to it; for layers that step many at once."""
        self._episode = episode
        self._cycles += 1
        agents, done = self.agents, episode.done
        cut_short = not done and self.max_cycles is not None and self._cycles >= self.max_cycles
        reward = episode.rewards[-1]
        if done or cut_short:
            self.agents = []
        return (
            self.game.prompts(episode),
            dict.fromkeys(agents, reward),
            dict.fromkeys(agents, done),
            dict.fromkeys(agents, cut_short),
            self._infos.write(episode),
        )

    def take_stream(self, other: TextEnv, place: int) -> None:
        """Continue with a stream of seeds of its own, derived from that of ``other``."""
        self._stream = (derive(*other._stream, "env", place), 0)

    def _current(self) -> Episode:
        if self._episode is None:
            raise EpisodeError("No episode has begun. Call reset() first.")
        return self._episode
