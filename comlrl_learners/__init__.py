"""Learners for teams of language models: policies around causal LMs, trained on any ParallelEnv of texts."""

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
