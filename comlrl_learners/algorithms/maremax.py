"""Multi-agent ReMax: the group's best return as baseline, so that all but the best are discouraged.

After Li et al. 2024, whose baseline is the return of the greedy completion.
"""

from __future__ import annotations

from dataclasses import dataclass

from comlrl_learners.advantages import AdvantageNorm, Baseline
from comlrl_learners.algorithms.reinforce import Reinforce, ReinforceConfig
from comlrl_learners.losses import LossNorm, RatioLevel
from comlrl_learners.trainer import Trainer


@dataclass(kw_only=True)
class MAReMaxConfig(ReinforceConfig):
    """Defaults of MAReMax."""

    baseline: Baseline = "max"
    advantage_norm: AdvantageNorm = "none"
    loss_norm: LossNorm = "mean"
    ratio_level: RatioLevel = "token"


class MAReMaxTrainer(Trainer[MAReMaxConfig]):
    """Trains a team with MAReMax."""

    name = "maremax"
    config_class = MAReMaxConfig
    algorithm_class = Reinforce
