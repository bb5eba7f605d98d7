"""Environments that break what `TextEnv` keeps, one promise each."""

import threading
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from comlrl_envs import TextEnv
from comlrl_envs.spaces import Text


class Nameless(TextEnv):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.metadata = {"render_modes": ["ansi", "html"], "is_parallelizable": True}


class FreshSpaces(TextEnv):
    def action_space(self, agent: str) -> Text:
        return Text(self.game.max_action_chars)


class NarrowObservations(TextEnv):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.observation_spaces = {agent: Text(5) for agent in self.possible_agents}


class NarrowState(TextEnv):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state_space = Text(5)


class LongSample(Text):
    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return "x" * (self.max_length + 1)


class LongSamples(TextEnv):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.action_spaces = {agent: LongSample(100) for agent in self.possible_agents}


class GymnasiumSpaces(TextEnv):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.action_spaces = {agent: gymnasium.spaces.Text(100, charset="ab") for agent in self.possible_agents}


class Altered(TextEnv):
    """Changes what a step returns."""

    def step(self, actions: Mapping[str, str]) -> Any:
        observations, rewards, terminations, truncations, infos = super().step(actions)
        if not rewards:
            return observations, rewards, terminations, truncations, infos
        self.alter(rewards, terminations, truncations, infos)
        return observations, rewards, terminations, truncations, infos

    def alter(self, rewards: Any, terminations: Any, truncations: Any, infos: Any) -> None:
        raise NotImplementedError


class UnequalRewards(Altered):
    def alter(self, rewards: Any, terminations: Any, truncations: Any, infos: Any) -> None:
        rewards["reader"] += 0.5


class NumpyRewards(Altered):
    def alter(self, rewards: Any, terminations: Any, truncations: Any, infos: Any) -> None:
        rewards.update({agent: np.float64(reward) for agent, reward in rewards.items()})


class BeyondTheRange(Altered):
    def alter(self, rewards: Any, terminations: Any, truncations: Any, infos: Any) -> None:
        rewards.update(dict.fromkeys(rewards, 1.5))


class HiddenTerm(Altered):
    def alter(self, rewards: Any, terminations: Any, truncations: Any, infos: Any) -> None:
        rewards.update(dict.fromkeys(rewards, 0.5))


class LeavesAlone(Altered):
    def alter(self, rewards: Any, terminations: Any, truncations: Any, infos: Any) -> None:
        terminations["reader"] = True


class Truncates(Altered):
    def alter(self, rewards: Any, terminations: Any, truncations: Any, infos: Any) -> None:
        truncations.update(terminations)


class LateKey(Altered):
    def alter(self, rewards: Any, terminations: Any, truncations: Any, infos: Any) -> None:
        infos["reader"]["metric/late"] = 1.0


class NotANumber(Altered):
    def alter(self, rewards: Any, terminations: Any, truncations: Any, infos: Any) -> None:
        infos["reader"]["metric/success"] = float("nan")


class Lenient(TextEnv):
    def step(self, actions: Mapping[str, str]) -> Any:
        return super().step({agent: str(text) for agent, text in actions.items() if agent in self.agents})


class FalsySeed(TextEnv):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed or None, options)


class OneTask(TextEnv):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed, options or {"task": 0})


class OneEpisode(TextEnv):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(7 if seed is None else seed, options)


class ForksShareSpaces(TextEnv):
    def fork(self) -> TextEnv:
        twin = super().fork()
        twin.action_spaces = self.action_spaces
        return twin


class ForgetsTheTurn(TextEnv):
    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state({**state, "episode": {**state["episode"], "turn": 0, "rewards": []}})


class HoldsALock(TextEnv):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.lock = threading.Lock()


class TellsInErrors(TextEnv):
    def step(self, actions: Mapping[str, str]) -> Any:
        try:
            return super().step(actions)
        except ValueError as error:
            raise type(error)(f"{error} The row: {self.episode.item}") from error


class LeaksInInfos(Altered):
    def alter(self, rewards: Any, terminations: Any, truncations: Any, infos: Any) -> None:
        infos["writer"]["text/solution"] = self.episode.item["answer"].upper()
