"""What must stay equal for a run to go on, and where it left off."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comlrl_envs import TextGame
from comlrl_envs.evaluation.settings import digest
from comlrl_envs.tasks import Task
from comlrl_learners.checkpoint import checkpoints
from comlrl_learners.config import TrainerConfig
from comlrl_learners.errors import ConfigError
from comlrl_learners.games import Playground
from comlrl_learners.identity import described, described_team
from comlrl_learners.policy import LLMPolicy, distinct_policies
from comlrl_learners.tracking import plain

FREE = frozenset({
    "num_epochs", "max_steps", "max_env_steps", "eval_every", "eval_samples", "eval_temperature", "output_dir",
    "run_name", "checkpoint_every", "keep_checkpoints", "trackers", "wandb_project", "transcripts_every", "progress",
    "microbatch_tokens", "agent_threads", "cpu_threads", "schedule_steps", "devices",
    "reference_devices", "critic_devices", "gradient_checkpointing",
})  # fmt: skip
"""Settings that may change on the way: how long, how often to look, where to write and to compute."""


def run_facts(
    algorithm: str,
    config: TrainerConfig,
    playground: Playground,
    team: Mapping[str, LLMPolicy],
    references: Mapping[str, LLMPolicy] | None,
    horizon: int,
) -> dict[str, Any]:
    """What a checkpoint compares before it is loaded, as JSON values.

    Args:
        algorithm: Its name.
        config: The settings.
        playground: Game and tasks.
        team: All policies, those of frozen partners included.
        references: Policies of the KL term.
        horizon: Rounds until the schedule ends.
    """
    settings = {k: v for k, v in plain(dataclasses.asdict(config)).items() if k not in FREE}
    partners = {agent: team[agent] for agent in config.frozen}
    return {
        "algorithm": algorithm,
        "settings": settings,
        "env": _environment(playground),
        "tasks": digest(_task(playground.tasks[i]) for i in range(len(playground.tasks))),
        "schedule_horizon": None if config.schedule == "constant" else config.schedule_steps or horizon,
        "team": described_team(team),
        "references": None
        if references is None
        else {"policies": described_team(references), "weights": _weights(references)},
        "partners": _weights(partners),
    }


def _environment(playground: Playground) -> dict[str, Any]:
    """Id, options and, of a game of this project, its rules and what the caller gave in their place."""
    game = playground.game
    known = {"id": playground.name, "options": described(playground.options), "agents": list(game.agents)}
    if not isinstance(game, TextGame):
        return known
    return {
        **known,
        "rules": described(game.scenario),
        "callables": described(game.callables),
        "memory": game.memory,
        "stop_reward": game.stop_reward,
        "max_action_chars": game.max_action_chars,
        "reward_range": described(game.reward_range),
    }


def _weights(team: Mapping[str, LLMPolicy]) -> list[str]:
    """sha256 of the weights of each distinct policy."""
    return [policy.weight_digest() for policy, _ in distinct_policies(team)]


def _task(task: Any) -> Any:
    """A task as JSON values: its row, or of a stranger's environment its id, which holds the seed."""
    return [task.id, dict(task.fields)] if isinstance(task, Task) else task.id


def newest_checkpoint(run: str | os.PathLike[str]) -> Path:
    """The newest whole checkpoint of a run folder.

    Raises:
        ConfigError: There is none.
    """
    folder = Path(run) / "checkpoints"
    found = checkpoints(folder)
    if not found:
        raise ConfigError(
            f"The run {os.fspath(run)!r} holds no checkpoint. Give a run folder that was written with checkpoint_every "
            "other than 0, or start a new run."
        )
    return found[-1]
