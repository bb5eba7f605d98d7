"""Texts in dictionaries, and agents that act one by one.

Some libraries take an observation that is a bare ``str`` for something else: TorchRL shows a fixed placeholder in its
place, PettingZoo's suite for agents in turn reads its ``dtype``. Inside a dictionary a text reaches both.
"""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from pettingzoo.utils import parallel_to_aec

from comlrl_envs.views.base import ObservationView, View

KEY = "text"
"""Not ``observation``: several libraries read a meaning of their own into that key."""


class DictView(ObservationView):
    """Observations ``{"text": str}`` in a space ``Dict({"text": ...})`` around the wrapped environment's space.

    Args:
        env: A ``ParallelEnv`` whose observations are texts.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_spaces = {
            agent: spaces.Dict({KEY: env.observation_space(agent)}) for agent in env.possible_agents
        }

    def encode(self, text: str) -> dict[str, str]:
        """The text under its key."""
        return {KEY: text}


def aec(env: Any) -> Any:
    """The environment behind PettingZoo's ``AECEnv``: agents act one by one, and all of them before anything happens.

    Args:
        env: A ``ParallelEnv`` of texts; it is shown through a ``DictView``, unless it is a view of the observations
            already.

    Returns:
        A ``pettingzoo.AECEnv`` that passes PettingZoo's ``api_test``.
    """
    return parallel_to_aec(env if _observations_are_viewed(env) else DictView(env))


def _observations_are_viewed(env: Any) -> bool:
    while isinstance(env, View):
        if isinstance(env, ObservationView):
            return True
        env = env.env
    return False
