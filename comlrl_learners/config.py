"""Settings shared by all trainers, each with its meaning below it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

from comlrl_envs.errors import closest
from comlrl_learners.errors import ConfigError
from comlrl_learners.rollout import JointMode
from comlrl_learners.sampling import SamplingParams

Schedule = Literal["constant", "linear", "cosine"]
TrackerName = Literal["wandb", "tensorboard"]


@dataclass(kw_only=True)
class TrainerConfig:
    """What every algorithm needs: how much to play, how to optimise, when to look, where to write."""

    seed: int = 0
    """Decides every draw, the order of tasks and nothing else."""

    num_epochs: int = 10
    """Times each training task is visited."""
    max_steps: int | None = None
    """Stop after this many collect-and-update rounds."""
    max_env_steps: int | None = None
    """Stop once this many joint actions were scored."""
    tasks_per_epoch: int = 64
    """Seeds that make an epoch of an environment of another project."""

    items_per_rollout: int = 10
    """Tasks visited between two updates."""
    num_generations: int = 8
    """Completions K per agent and turn of a task."""
    joint_mode: JointMode = "aligned"
    """Which completions meet: "aligned" pairs the k-th of all agents, "cross" tries every combination."""
    max_turns: int | None = None
    """Turns played at most; None takes the game's."""
    discount: float = 1.0
    """Weight of the next turn's return, in [0, 1]."""
    prune_above: float | None = None
    """Do not continue a node whose mean reward exceeds this (upstream's early termination); None keeps all."""
    team_reward: Literal["mean", "sum"] | None = None
    """How unequal rewards of another project's environment become the shared one; None refuses them."""
    reward_scale: float = 1.0
    """Multiplies rewards before returns are formed; what is logged stays as the game gave it."""
    reward_shift: float = 0.0
    """Added to scaled rewards."""

    sampling: SamplingParams = field(default_factory=SamplingParams)
    """The distribution of completions, for policies loaded by the trainer."""
    dtype: str = "float32"
    """Weights of policies loaded by the trainer."""
    device: str | None = None
    """Where they lie; None takes the first GPU, or the CPU."""

    learning_rate: float = 1e-5
    """Peak learning rate of AdamW."""
    adam_betas: tuple[float, float] = (0.9, 0.99)
    """Decay of AdamW's moments."""
    weight_decay: float = 0.0
    """AdamW's weight decay."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this norm, one policy at a time."""
    schedule: Schedule = "constant"
    """Learning rate after warm-up."""
    warmup_steps: int = 0
    """Rounds over which the learning rate rises to its peak."""
    schedule_steps: int | None = None
    """Rounds until the schedule reaches 0; None takes the planned length of the run."""
    num_updates: int = 1
    """Passes over each rollout."""
    minibatch_size: int | None = None
    """Samples (one completion of one agent) per optimizer step; None takes all of a rollout."""
    microbatch_tokens: int = 1024
    """Padded tokens that one forward and backward holds: changes memory and speed, not results. Raise it on a GPU."""
    agent_threads: bool = True
    """Work on distinct policies side by side, one Python thread each."""

    eval_every: int | None = None
    """Evaluate every so many rounds; None evaluates at the start and at the end only."""
    eval_samples: int = 4
    """Episodes per held-out task and evaluation."""
    eval_temperature: float | None = None
    """Temperature of evaluation; None takes the training temperature."""

    output_dir: str | None = "runs"
    """Folder of run folders; None writes nothing."""
    run_name: str | None = None
    """Name of the run folder; None makes one of algorithm, environment, seed and time."""
    trackers: tuple[TrackerName, ...] = ()
    """Also log to "wandb" and/or "tensorboard"."""
    wandb_project: str = "comlrl"
    """Project of a W&B run."""
    transcripts_every: int = 10
    """Write the rollout's texts every so many rounds; 0 never does."""
    progress: bool = False
    """Show a progress bar."""

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            ConfigError: A value lies outside its range; the message names it.
        """
        self._check_choices()
        at_least_one = ("num_epochs", "items_per_rollout", "num_generations", "num_updates", "eval_samples")
        for name in (*at_least_one, "microbatch_tokens", "tasks_per_epoch"):
            if vars(self)[name] < 1:
                raise ConfigError(f"{name}={vars(self)[name]} must be 1 or more.")
        for name in ("max_steps", "max_env_steps", "max_turns", "minibatch_size", "eval_every", "schedule_steps"):
            value = vars(self)[name]
            if value is not None and value < 1:
                raise ConfigError(f"{name}={value} must be 1 or more, or None.")
        if not 0 <= self.discount <= 1:
            raise ConfigError(f"discount={self.discount} must lie in [0, 1].")
        for name in ("learning_rate", "max_grad_norm"):
            if not vars(self)[name] > 0:
                raise ConfigError(f"{name}={vars(self)[name]} must be positive.")
        if "tensorboard" in self.trackers and self.output_dir is None:
            raise ConfigError("TensorBoard writes into the run folder, and output_dir=None makes none. Set output_dir.")
        if self.sampling.temperature == 0:
            raise ConfigError("sampling.temperature=0 explores nothing. Use a positive one; eval_temperature may be 0.")

    def _check_choices(self) -> None:
        """Hold every setting that is one of a few words to them."""
        for name, hint in get_type_hints(type(self)).items():
            words = _words(hint)
            given = vars(self)[name]
            for value in given if isinstance(given, (tuple, list)) else [given]:
                if words and value is not None and value not in words:
                    raise ConfigError(f"{name}={value!r} is none of {', '.join(words)}.{closest(value, words)}")


def _words(hint: Any) -> list[str]:
    """The strings that a type hint allows by Literal, itself or inside a union or tuple."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [word for part in get_args(hint) for word in _words(part)]
