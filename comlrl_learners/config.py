"""Settings shared by all trainers, each with its meaning below it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from comlrl_envs.errors import closest
from comlrl_learners.errors import ConfigError
from comlrl_learners.loading import Dtype
from comlrl_learners.placement import Devices, check_devices
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
    dtype: Dtype = "float32"
    """Weights of policies loaded by the trainer. Optimizers move float32 copies of weights that are less precise."""
    devices: Devices = None
    """Where policies lie: one device, one per agent in order, or some by agent. None leaves loaded policies where they
    are and takes the first GPU, or the CPU, for others."""
    reference_devices: Devices = None
    """The same for reference policies; None takes that of the policy itself."""

    frozen: tuple[str, ...] = ()
    """Agents that play and do not learn."""
    learning_rate: float = 1e-5
    """Peak learning rate of AdamW."""
    learning_rates: dict[str, float] | None = None
    """Peak learning rates of single agents, by name; the others have `learning_rate`."""
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
    gradient_checkpointing: bool = False
    """Compute each layer's activations again in the backward pass instead of keeping them: less memory, more time."""
    microbatch_tokens: int = 1024
    """Padded tokens that one forward and backward holds: changes memory and speed, not results. Raise it on a GPU."""
    cpu_threads: int | None = 1
    """Threads that torch uses within one operation on a CPU. More than one make sums, and so runs, differ in their last
    bits; None leaves the process's own setting."""
    agent_threads: bool = True
    """Work on distinct policies side by side, one Python thread each."""

    eval_every: int | None = None
    """Evaluate every so many rounds; None evaluates at the start and at the end only, 0 never."""
    eval_samples: int = 4
    """Episodes per held-out task and evaluation."""
    eval_temperature: float | None = None
    """Temperature of evaluation; None takes the training temperature."""

    output_dir: str | None = "runs"
    """Folder of run folders; None writes nothing."""
    run_name: str | None = None
    """Name of the run folder; None makes one of algorithm, environment, seed and time."""
    checkpoint_every: int | None = None
    """Write a checkpoint every so many rounds and at the end; None writes one at the end only, 0 never does."""
    keep_checkpoints: int = 2
    """How many checkpoints stay."""
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
        for name in (*at_least_one, "microbatch_tokens", "tasks_per_epoch", "keep_checkpoints"):
            if vars(self)[name] < 1:
                raise ConfigError(f"{name}={vars(self)[name]} must be 1 or more.")
        for name in ("max_steps", "max_env_steps", "max_turns", "minibatch_size", "schedule_steps", "cpu_threads"):
            value = vars(self)[name]
            if value is not None and value < 1:
                raise ConfigError(f"{name}={value} must be 1 or more, or None.")
        for name, none in (("eval_every", "start and end"), ("checkpoint_every", "end")):
            value = vars(self)[name]
            if value is not None and value < 0:
                raise ConfigError(f"{name}={value} must be 0 (never) or more, or None ({none}).")
        if self.reward_scale == 0:
            raise ConfigError("reward_scale=0 makes all rewards equal. Use another one.")
        if not 0 <= self.discount <= 1:
            raise ConfigError(f"discount={self.discount} must lie in [0, 1].")
        rates = {f"learning_rates[{agent!r}]": rate for agent, rate in (self.learning_rates or {}).items()}
        for name, value in {"learning_rate": self.learning_rate, **rates, "max_grad_norm": self.max_grad_norm}.items():
            if not value > 0:
                raise ConfigError(f"{name}={value} must be positive.")
        if self.weight_decay < 0 or not all(0 <= beta < 1 for beta in self.adam_betas):
            raise ConfigError(
                f"weight_decay={self.weight_decay} must be 0 or more, adam_betas={self.adam_betas} in [0, 1)."
            )
        if self.eval_temperature is not None and self.eval_temperature < 0:
            raise ConfigError(f"eval_temperature={self.eval_temperature} must be 0 (greedy) or more, or None.")
        for name in ("warmup_steps", "transcripts_every"):
            if vars(self)[name] < 0:
                raise ConfigError(f"{name}={vars(self)[name]} must be 0 or more.")
        if self.run_name is not None and (Path(self.run_name).name != self.run_name or not self.run_name.strip(".")):
            raise ConfigError(f"run_name={self.run_name!r} must be the name of one folder, inside output_dir.")
        if self.checkpoint_every and self.output_dir is None:
            raise ConfigError(
                f"checkpoint_every={self.checkpoint_every} has nowhere to write with output_dir=None. Set output_dir, "
                "or leave checkpoint_every out."
            )
        self.refuse_idle(self.schedule == "constant", "schedule='constant' has no end", "schedule_steps")
        if "tensorboard" in self.trackers and self.output_dir is None:
            raise ConfigError("TensorBoard writes into the run folder, and output_dir=None makes none. Set output_dir.")
        if self.sampling.temperature == 0:
            raise ConfigError("sampling.temperature=0 explores nothing. Use a positive one; eval_temperature may be 0.")

    @property
    def wants_references(self) -> bool:
        """Whether frozen copies of the start are needed."""
        return False

    @property
    def no_references(self) -> str:
        """The setting that makes references idle, for messages."""
        return "this algorithm has no references"

    def rate_of(self, agents: Sequence[str]) -> float:
        """The peak learning rate of the policy that these agents share.

        Raises:
            ConfigError: They have different ones.
        """
        rates = {agent: (self.learning_rates or {}).get(agent, self.learning_rate) for agent in agents}
        if len(set(rates.values())) > 1:
            raise ConfigError(
                f"{', '.join(agents)} share one policy and so one learning rate, and learning_rates gives {rates}. "
                "Give them the same, or a policy of its own to each."
            )
        return rates[agents[0]]

    def refuse_idle(self, idle: bool, reason: str, *names: str) -> None:
        """Refuse settings that were changed and that nothing would read.

        Args:
            idle: Whether nothing reads them.
            reason: Why.
            names: The settings.

        Raises:
            ConfigError: One of them is not at its default.
        """
        defaults = {setting.name: setting.default for setting in fields(self)}
        for name in names:
            if idle and vars(self)[name] != defaults[name]:
                raise ConfigError(f"{name}={vars(self)[name]!r} has no effect: {reason}. Leave {name} out.")

    def _check_choices(self) -> None:
        """Hold every setting to what its type hint says: one of a few words, a whole or a finite number, a switch."""
        for name, hint in get_type_hints(type(self)).items():
            given = vars(self)[name]
            if given is None and type(None) in get_args(hint):
                continue
            if get_origin(hint) is tuple and not isinstance(given, (tuple, list)):
                raise ConfigError(f"{name}={given!r} is no list of values. Write {name}=({given!r},).")
            words = _words(hint)
            for value in given if words and isinstance(given, (tuple, list)) else [given]:
                if words and value not in words:
                    raise ConfigError(f"{name}={value!r} is none of {', '.join(words)}.{closest(value, words)}")
            check_number(name, hint, given)
        self._check_containers()
        if not isinstance(self.sampling, SamplingParams):
            raise ConfigError(f"sampling={self.sampling!r} is a {type(self.sampling).__name__}. Give a SamplingParams.")

    def _check_containers(self) -> None:
        """Hold tuples, mappings and paths to what they are made of."""
        if len(self.adam_betas) != 2:
            raise ConfigError(f"adam_betas={self.adam_betas!r} must be two numbers.")
        for beta in self.adam_betas:
            check_number("adam_betas", float, beta)
        if not all(isinstance(agent, str) for agent in self.frozen):
            raise ConfigError(f"frozen={self.frozen!r} must be names of agents.")
        if self.learning_rates is not None:
            if not isinstance(self.learning_rates, dict):
                raise ConfigError(f"learning_rates={self.learning_rates!r} must be a dict: {{agent: rate}}.")
            for agent, rate in self.learning_rates.items():
                check_number(f"learning_rates[{agent!r}]", float, rate)
        for name in ("devices", "reference_devices", "critic_devices"):
            check_devices(name, vars(self).get(name))
        for name in ("output_dir", "run_name", "wandb_project"):
            if not isinstance(vars(self)[name], (str, type(None))):
                raise ConfigError(f"{name}={vars(self)[name]!r} must be a text.")


def check_number(name: str, hint: Any, value: Any) -> None:
    """Hold a setting that is a number or a switch to its kind.

    Raises:
        ConfigError: It is of another kind, or not finite.
    """
    kinds = {hint, *get_args(hint)} & {int, float, bool}
    if not kinds or get_origin(hint) is tuple:
        return
    if bool in kinds:
        right, expected = isinstance(value, bool), "True or False"
    elif float in kinds:
        right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        expected = "a finite number"
    else:
        right, expected = isinstance(value, int) and not isinstance(value, bool), "a whole number"
    if not right:
        raise ConfigError(f"{name}={value!r} must be {expected}{', or None' if type(None) in get_args(hint) else ''}.")


def _words(hint: Any) -> list[str]:
    """The strings that a type hint allows by Literal, itself or inside a union or tuple."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [word for part in get_args(hint) for word in _words(part)]
