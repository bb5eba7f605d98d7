"""Multi-agent REINFORCE: raw returns, no baseline (Williams 1992)."""

from __future__ import annotations

from dataclasses import dataclass

from comlrl_learners.advantages import AdvantageNorm, Baseline
from comlrl_learners.algorithms.reinforce import Reinforce, ReinforceConfig
from comlrl_learners.losses import LossNorm, RatioLevel
from comlrl_learners.trainer import Trainer


@dataclass(kw_only=True)
class MAREINFORCEConfig(ReinforceConfig):
    """Defaults of MAREINFORCE."""

    baseline: Baseline = "none"
    advantage_norm: AdvantageNorm = "none"
    loss_norm: LossNorm = "mean"
    ratio_level: RatioLevel = "token"


class MAREINFORCETrainer(Trainer[MAREINFORCEConfig]):
    """Trains a team with MAREINFORCE."""

    name = "mareinforce"
    config_class = MAREINFORCEConfig
    algorithm_class = Reinforce
