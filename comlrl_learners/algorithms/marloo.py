"""Multi-agent RLOO: the mean return of the other completions as baseline, whole completions as actions.

Kool et al. 2019; Ahmadian et al. 2024, "Back to Basics", section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from comlrl_learners.advantages import AdvantageNorm, Baseline
from comlrl_learners.algorithms.reinforce import Reinforce, ReinforceConfig
from comlrl_learners.losses import LossNorm, RatioLevel
from comlrl_learners.trainer import Trainer


@dataclass(kw_only=True)
class MARLOOConfig(ReinforceConfig):
    """Defaults of MARLOO."""

    baseline: Baseline = "leave_one_out"
    advantage_norm: AdvantageNorm = "none"
    loss_norm: LossNorm = "sum"
    ratio_level: RatioLevel = "sequence"


class MARLOOTrainer(Trainer[MARLOOConfig]):
    """Trains a team with MARLOO."""

    name = "marloo"
    config_class = MARLOOConfig
    algorithm_class = Reinforce
