"""Text games for teams of language models, behind PettingZoo's ``ParallelEnv``.

>>> import comlrl_envs
>>> env = comlrl_envs.make("writing/length_ratio")
>>> observations, infos = env.reset(seed=0)
>>> observations, rewards, terminations, truncations, infos = env.step({"summarizer": "ab", "elaborator": "abcde"})
>>> rewards["summarizer"]
1.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from comlrl_envs.catalog import register_shipped
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import (
    ActionError,
    ComlrlError,
    EpisodeError,
    InfrastructureError,
    MissingExtraError,
    OptionError,
    RewardError,
    TaskError,
    UnknownIdError,
)
from comlrl_envs.from_reward import from_reward
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.registry import EnvSpec, list_envs, make, make_vec, register, spec
from comlrl_envs.scenario import Scenario, Score, State, Step
from comlrl_envs.tasks import Task, TaskSet
from comlrl_envs.vector import VectorTextEnv

if TYPE_CHECKING:
    from comlrl_envs.evaluation import evaluate

__version__ = "0.1.0"

__all__ = [
    "ActionError",
    "ComlrlError",
    "EnvSpec",
    "Episode",
    "EpisodeError",
    "InfrastructureError",
    "MissingExtraError",
    "OptionError",
    "RewardError",
    "Scenario",
    "Score",
    "State",
    "Step",
    "Task",
    "TaskError",
    "TaskSet",
    "TextEnv",
    "TextGame",
    "UnknownIdError",
    "VectorTextEnv",
    "__version__",
    "evaluate",
    "from_reward",
    "list_envs",
    "make",
    "make_vec",
    "register",
    "spec",
]

register_shipped()


def __getattr__(name: str) -> Any:
    """Load what playing does not need when it is asked for."""
    if name == "evaluate":
        from comlrl_envs.evaluation import evaluate

        return evaluate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
