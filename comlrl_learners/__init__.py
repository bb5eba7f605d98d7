"""Learners for teams of language models: policies around causal LMs, trained on any ParallelEnv of texts."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comlrl_learners.algorithms.iac import IACConfig, IACTrainer
    from comlrl_learners.algorithms.maac import MAACConfig, MAACTrainer
    from comlrl_learners.algorithms.madpo import MADPOConfig, MADPOTrainer
    from comlrl_learners.algorithms.magrpo import MAGRPOConfig, MAGRPOTrainer
    from comlrl_learners.algorithms.mareinforce import MAREINFORCEConfig, MAREINFORCETrainer
    from comlrl_learners.algorithms.maremax import MAReMaxConfig, MAReMaxTrainer
    from comlrl_learners.algorithms.marloo import MARLOOConfig, MARLOOTrainer
    from comlrl_learners.errors import ConfigError, ForeignEnvError, NonFiniteError, PolicyError
    from comlrl_learners.policy import LLMPolicy
    from comlrl_learners.reward_model import ModelReward
    from comlrl_learners.sampling import SamplingParams
    from comlrl_learners.trainer import TrainResult

_HOMES = {
    "ConfigError": "comlrl_learners.errors",
    "ForeignEnvError": "comlrl_learners.errors",
    "IACConfig": "comlrl_learners.algorithms.iac",
    "IACTrainer": "comlrl_learners.algorithms.iac",
    "LLMPolicy": "comlrl_learners.policy",
    "MAACConfig": "comlrl_learners.algorithms.maac",
    "MAACTrainer": "comlrl_learners.algorithms.maac",
    "MADPOConfig": "comlrl_learners.algorithms.madpo",
    "MADPOTrainer": "comlrl_learners.algorithms.madpo",
    "MAGRPOConfig": "comlrl_learners.algorithms.magrpo",
    "MAGRPOTrainer": "comlrl_learners.algorithms.magrpo",
    "MAREINFORCEConfig": "comlrl_learners.algorithms.mareinforce",
    "MAREINFORCETrainer": "comlrl_learners.algorithms.mareinforce",
    "MARLOOConfig": "comlrl_learners.algorithms.marloo",
    "MARLOOTrainer": "comlrl_learners.algorithms.marloo",
    "MAReMaxConfig": "comlrl_learners.algorithms.maremax",
    "MAReMaxTrainer": "comlrl_learners.algorithms.maremax",
    "ModelReward": "comlrl_learners.reward_model",
    "NonFiniteError": "comlrl_learners.errors",
    "PolicyError": "comlrl_learners.errors",
    "SamplingParams": "comlrl_learners.sampling",
    "TrainResult": "comlrl_learners.trainer",
}
"""Where each public name lives: torch is loaded when the first of them is asked for, not with the package."""

__all__ = [
    "ConfigError",
    "ForeignEnvError",
    "IACConfig",
    "IACTrainer",
    "LLMPolicy",
    "MAACConfig",
    "MAACTrainer",
    "MADPOConfig",
    "MADPOTrainer",
    "MAGRPOConfig",
    "MAGRPOTrainer",
    "MAREINFORCEConfig",
    "MAREINFORCETrainer",
    "MARLOOConfig",
    "MARLOOTrainer",
    "MAReMaxConfig",
    "MAReMaxTrainer",
    "ModelReward",
    "NonFiniteError",
    "PolicyError",
    "SamplingParams",
    "TrainResult",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name in _HOMES:
        return vars(importlib.import_module(_HOMES[name]))[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return __all__
