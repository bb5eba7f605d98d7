"""Environments that know nothing of this project, as another library would write them."""

from __future__ import annotations

import threading
from typing import ClassVar

import numpy as np
from pettingzoo import ParallelEnv


class Relay(ParallelEnv):
    """A host and a guest talk; the guest leaves after two turns, the host after three. Equal rewards by default."""

    metadata: ClassVar = {"name": "relay"}
    observed: type = str
    uneven = 0.0

    def __init__(self):
        self.possible_agents = ["host", "guest"]
        self.agents = []

    def observation_space(self, agent):
        raise NotImplementedError

    action_space = observation_space

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.turn = 0
        self.draws = np.random.default_rng(seed)
        self.number = int(self.draws.integers(1000))
        return self._look(), {agent: {} for agent in self.agents}

    def _look(self):
        text = f"turn {self.turn} number {self.number}"
        return {agent: text if self.observed is str else self.observed(self.turn) for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.number = (self.number * 31 + sum(map(ord, "".join(actions.values())))) % 1000
        self.turn += 1
        reward = self.number / 1000 + float(self.draws.random())
        rewards = {agent: reward + (self.uneven if agent == "guest" else 0.0) for agent in self.agents}
        gone = {"host": self.turn >= 3, "guest": self.turn >= 2}
        ends = {agent: gone[agent] for agent in self.agents}
        observations = self._look()
        infos = {agent: {} for agent in self.agents}
        self.agents = [agent for agent in self.agents if not gone[agent]]
        return observations, rewards, ends, dict.fromkeys(ends, False), infos


class Locked(Relay):
    """Holds a lock, which no copy can."""

    def __init__(self):
        super().__init__()
        self.guard = threading.Lock()


class Streaming(Relay):
    """Holds a generator, which no copy can."""

    def __init__(self):
        super().__init__()
        self.stream = (n for n in range(9))


class Uneven(Relay):
    uneven = 1.0


class Numbers(Relay):
    observed = int
