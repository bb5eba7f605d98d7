"""Benchmarks without a learner: play, count, tell how sure the numbers are."""

from comlrl_envs.evaluation.protocols import PROTOCOLS
from comlrl_envs.evaluation.records import EpisodeRecord, Turn
from comlrl_envs.evaluation.report import AgentReport, Report, summarise
from comlrl_envs.evaluation.results import read_episodes, read_settings
from comlrl_envs.evaluation.run import evaluate
from comlrl_envs.evaluation.statistics import Estimate, clustered_mean, clustered_rate, pass_at_k
from comlrl_envs.evaluation.table import table

__all__ = [
    "PROTOCOLS",
    "AgentReport",
    "EpisodeRecord",
    "Estimate",
    "Report",
    "Turn",
    "clustered_mean",
    "clustered_rate",
    "evaluate",
    "pass_at_k",
    "read_episodes",
    "read_settings",
    "summarise",
    "table",
]
