"""Multi-agent GRPO: the group's mean as baseline, its standard deviation as scale, tokens averaged.

Liu et al. 2025, "LLM Collaboration With Multi-Agent Reinforcement Learning"; the advantage is that of GRPO (Shao et al.
2024, DeepSeekMath).
"""

from __future__ import annotations

from dataclasses import dataclass

from comlrl_learners.advantages import AdvantageNorm, Baseline
from comlrl_learners.algorithms.reinforce import Reinforce, ReinforceConfig
from comlrl_learners.losses import LossNorm, RatioLevel
from comlrl_learners.trainer import Trainer


@dataclass(kw_only=True)
class MAGRPOConfig(ReinforceConfig):
    """Defaults of MAGRPO."""

    baseline: Baseline = "mean"
    advantage_norm: AdvantageNorm = "group"
    loss_norm: LossNorm = "mean"
    ratio_level: RatioLevel = "token"


class MAGRPOTrainer(Trainer[MAGRPOConfig]):
    """Trains a team with MAGRPO."""

    name = "magrpo"
    config_class = MAGRPOConfig
    algorithm_class = Reinforce
