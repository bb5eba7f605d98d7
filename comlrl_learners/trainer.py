"""The one training loop: collect, update, log, evaluate, until the run is as long as asked."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
import torch

from comlrl_envs.errors import closest
from comlrl_envs.seeding import rng
from comlrl_learners.algorithms.protocol import Algorithm, Batch
from comlrl_learners.checkpoint import (
    Counters,
    checkpoint_name,
    checkpoints,
    write_checkpoint,
)
from comlrl_learners.config import TrainerConfig
from comlrl_learners.errors import ConfigError
from comlrl_learners.evaluation import EvaluationPlan, evaluate_team, last_edges, mean_return, score_means
from comlrl_learners.games import EnvSource, ForeignOptions, held_out_playground, open_playground
from comlrl_learners.optimisation import learning_rate_factor
from comlrl_learners.placement import place
from comlrl_learners.policy import LLMPolicy, distinct_policies
from comlrl_learners.progress import progress_bar
from comlrl_learners.restoring import read_checkpoint
from comlrl_learners.resuming import newest_checkpoint, run_facts
from comlrl_learners.rollout import Node, Visit
from comlrl_learners.run_files import check_run_files, held
from comlrl_learners.team import (
    Loading,
    PolicySources,
    build_team,
    check_agents,
    check_rates,
    frozen_copies,
    learners,
    save_team,
    source_names,
)
from comlrl_learners.tracking import Tracking, plain, run_name

log = logging.getLogger(__name__)
LARGE_ROUND = 5_000
"""Joint actions of a round from which on a trainer says how many there may be."""


@dataclass(frozen=True)
class TrainResult:
    """What a run leaves.

    Attributes:
        folder: The run folder, or None when nothing was written.
        env_steps: Joint actions scored.
        rounds: Collect-and-update rounds done.
        interrupted: Whether the user stopped it.
        rows: All logged metrics, in order.
    """

    folder: Path | None
    env_steps: int
    rounds: int
    interrupted: bool
    rows: list[dict[str, float]] = field(repr=False)

    def curve(self, name: str = "eval/reward_mean") -> list[tuple[int, float]]:
        """(joint actions, value) wherever the metric was logged.

        Raises:
            ConfigError: No row holds such a metric, though rows were logged.
        """
        names = {key for row in self.rows for key in row}
        if self.rows and name not in names and name != "eval/reward_mean":
            raise ConfigError(f"No row holds the metric {name!r}.{closest(name, names)}")
        return [(int(row["env_step"]), row[name]) for row in self.rows if name in row]


ConfigT = TypeVar("ConfigT", bound=TrainerConfig)


class Trainer(Generic[ConfigT]):
    """Trains a team; subclasses name an algorithm and its configuration.

    Example:
        >>> from comlrl_learners import MAGRPOConfig, MAGRPOTrainer
        >>> config = MAGRPOConfig(learning_rate=5e-4, max_steps=1, output_dir=None)
        >>> result = MAGRPOTrainer(env="writing/length_ratio", policies="tiny", config=config).train()
        >>> result.rounds
        1

    Attributes:
        config: The settings.
        sources: `policies` as given.
        team: One policy per agent.
        references: Frozen policies for the KL term, or None.
        rounds: Rounds done.
        env_steps: Joint actions scored so far.
    """

    name: ClassVar[str]
    config_class: ClassVar[type[TrainerConfig]]
    algorithm_class: ClassVar[Callable[..., Algorithm]]

    def __init__(
        self,
        *,
        env: EnvSource,
        policies: PolicySources,
        config: ConfigT | None = None,
        eval_env: EnvSource | None = None,
        references: PolicySources | None = None,
        critics: PolicySources | None = None,
    ) -> None:
        """Open the games, load the team.

        Args:
            env: An id such as "writing/length_ratio", a ParallelEnv of texts, or a function that makes one.
            policies: "tiny", a folder or hub id (a copy per agent), a loaded policy (shared), a list, or a dict.
            config: The settings.
            eval_env: Where to evaluate; by default the eval split of `env`'s id, or a stranger's held-out seeds.
            references: Policies of the KL term; by default frozen copies of the team as given.
            critics: Models of critics, for algorithms that have separate ones; by default copies of the actors' start.

        Raises:
            ConfigError: The settings do not fit each other or the environment.
            PolicyError: The policies cannot be loaded or do not fit the team.
        """
        self.sources = policies
        self.config: ConfigT = config if config is not None else cast(ConfigT, self.config_class())
        if not isinstance(self.config, self.config_class):
            raise ConfigError(
                f"{type(self).__name__} was given a {type(self.config).__name__}. Give it a "
                f"{self.config_class.__name__}, or use the trainer of that configuration."
            )
        config = self.config
        if config.cpu_threads is not None:
            torch.set_num_threads(config.cpu_threads)
        options = ForeignOptions(
            config.team_reward, config.tasks_per_epoch, branching=config.num_generations > 1, max_turns=config.max_turns
        )
        self.playground = open_playground(env, options)
        self.held_out = (
            held_out_playground(env, options) if eval_env is None else open_playground(eval_env, options, held_out=True)
        )
        agents = self.playground.game.agents
        check_agents(agents)
        self._check_turns()
        self._warn_of_large_trees()
        if self.held_out is not None and self.held_out.game.agents != agents:
            raise ConfigError(f"eval_env has the agents {self.held_out.game.agents}, and the team is {agents}.")
        self.team = build_team(policies, agents, self._loading(place(config.devices, agents, "devices")))
        check_rates(config.learning_rates, agents, config.frozen)
        self.references = self._build_references(references)
        workers = len(distinct_policies(self.team)) if config.agent_threads else 1
        self._executor: Executor | None = ThreadPoolExecutor(workers) if workers > 1 else None
        self.algorithm = self._build_algorithm(critics)
        self.rounds = 0
        self.env_steps = 0
        self._described: dict[str, Any] = {
            "algorithm": self.name,
            "env": self.playground.name,
            "env_options": plain(self.playground.options),
            **source_names(policies, agents),
        }
        self._stop = threading.Event()
        self._started = False
        self._playing = threading.RLock()

    def describe(self, **facts: Any) -> None:
        """Add facts to the run's `config.yaml`, for example the options its environment was made with."""
        self._described.update(facts)

    def train(self, resume: str | os.PathLike[str] | None = None) -> TrainResult:
        """Run the loop to its end, or until the first Ctrl-C, which lets the current round finish.

        Args:
            resume: Folder of a run to go on with, from its newest checkpoint, as if it had never stopped. Only how long
                it runs, how often it looks, and where it writes and computes may have changed.

        Raises:
            ConfigError: The run to go on with has no checkpoint, was another one, is damaged, or is being trained by
                another process.
            RewardError: A reward is not finite.
            NonFiniteError: A loss or gradient is not finite.
        """
        config = self.config
        if self._started:
            raise ConfigError("train() was called before on this trainer. Make a new one; its policies may be these.")
        self._started = True
        name = config.run_name or run_name(self.name, self.playground.name, config.seed)
        horizon = self.planned_rounds()
        facts = self._facts(horizon) if self._keeps(resume) else {}
        with contextlib.ExitStack() as locks:
            if resume is not None:
                newest_checkpoint(resume)  # A folder that is no run is not written to.
                locks.enter_context(held(Path(resume)))
            resumed = None if resume is None else self._restore(Path(resume), facts)
            tracking = Tracking(config, self._described, name, resumed)
            if resumed is None and tracking.folder is not None:
                locks.enter_context(held(tracking.folder.path))
            self._run(tracking, facts, horizon, goes_on=resumed is not None)
        folder = None if tracking.folder is None else tracking.folder.path
        return TrainResult(folder, self.env_steps, self.rounds, self._stop.is_set(), tracking.rows)

    def _run(self, tracking: Tracking, facts: Mapping[str, Any], horizon: int, *, goes_on: bool) -> None:
        """Train until the run is as long as asked, or stopped, and save."""
        config = self.config
        try:
            with self._interruptible(), progress_bar(config.progress, horizon) as show:
                if not goes_on:
                    self._evaluate_and_log(tracking, show)
                for visits in self._schedule():
                    show(self._round(visits, horizon, tracking))
                    if config.eval_every and self.rounds % config.eval_every == 0:
                        self._evaluate_and_log(tracking, show)
                    if config.checkpoint_every and self.rounds % config.checkpoint_every == 0:
                        self._checkpoint(tracking, facts)
                    if self._stop.is_set():
                        break
                self._checkpoint(tracking, facts)
                if not self._stop.is_set() and not (config.eval_every and self.rounds % config.eval_every == 0):
                    self._evaluate_and_log(tracking, show)
        finally:
            try:
                self._save(tracking)
            finally:
                tracking.close()
                if self.references is not None:
                    self.references.clear()  # Nothing is scored any more.

    def evaluate(self) -> dict[str, float]:
        """Play the held-out tasks; see `comlrl_learners.evaluation.evaluate_team`.

        Raises:
            ConfigError: There is no held-out environment.
        """
        return self._evaluate()[0]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the team, and what else was trained, to a folder that `policies=` loads again.

        Each agent's policy lies in a folder of its own, which `from_pretrained` opens.
        """
        save_team(self.team, Path(folder))
        self.algorithm.save(Path(folder))

    def planned_rounds(self) -> int:
        """Rounds that `num_epochs` and `max_steps` allow; a bound on joint actions may end the run earlier."""
        per_epoch = math.ceil(len(self.playground.tasks) / self.config.items_per_rollout)
        planned = self.config.num_epochs * per_epoch
        return planned if self.config.max_steps is None else min(planned, self.config.max_steps)

    def _schedule(self) -> Iterator[list[Visit]]:
        """The visits of each round still to do: every task once an epoch, in an order that the seed decides."""
        config, tasks = self.config, self.playground.tasks
        per_epoch, before = math.ceil(len(tasks) / config.items_per_rollout), self.rounds
        for epoch in range(before // per_epoch, config.num_epochs):
            order = rng(config.seed, "order", epoch).permutation(len(tasks))
            done = max(0, before - epoch * per_epoch)
            for start in range(done * config.items_per_rollout, len(tasks), config.items_per_rollout):
                if config.max_steps is not None and self.rounds >= config.max_steps:
                    return
                if config.max_env_steps is not None and self.env_steps >= config.max_env_steps:
                    return
                chosen = order[start : start + config.items_per_rollout]
                yield [Visit(tasks[int(index)], epoch, config.seed, "train") for index in chosen]

    def _round(self, visits: Sequence[Visit], horizon: int, tracking: Tracking) -> dict[str, float]:
        started = time.perf_counter()
        rate = learning_rate_factor(self.config, self.rounds, horizon)
        with self._playing:
            batch: Batch = self.algorithm.collect(visits)
            updated = self.algorithm.update(batch, self.rounds, rate)
        self.rounds += 1
        self.env_steps += batch.stats.joint_actions
        metrics = {
            **self._played(batch.roots),
            **batch.metrics,
            **updated,
            "learning_rate": self.config.learning_rate * rate,
            "tokens_per_s": batch.stats.tokens / max(batch.stats.generate_seconds, 1e-9),
            "time/generate_s": batch.stats.generate_seconds,
            "time/score_s": batch.stats.score_seconds,
            "time/round_s": time.perf_counter() - started,
        }
        row = self._row("train", metrics)
        tracking.log(row)
        if tracking.folder is not None:
            tracking.folder.write_records(self.rounds, batch.records)
        every = self.config.transcripts_every
        if tracking.folder is not None and every and (self.rounds - 1) % every == 0:
            tracking.folder.write_transcripts(f"train-{self.rounds:06d}", batch.roots)
        return row

    def _played(self, roots: Sequence[Node]) -> dict[str, float]:
        """Means over what a round played; nothing where it played nothing."""
        last = [edge for root in roots for edge in last_edges(root)]
        if not last:
            return {}
        return {
            "reward_mean": float(np.mean([edge.reward for edge in last])),
            "reward_std": float(np.std([edge.reward for edge in last])),
            "return_mean": float(np.mean([mean_return(root, self.config.discount) for root in roots])),
            **score_means(last),
        }

    def _evaluate(self) -> tuple[dict[str, float], list[Node]]:
        if self.held_out is None:
            raise ConfigError("There is nothing to evaluate on: this environment has no eval split. Pass eval_env=.")
        config = self.config
        plan = EvaluationPlan(
            config.eval_samples, config.eval_temperature, config.max_turns, config.discount, config.seed
        )
        with self._playing:
            return evaluate_team(self.held_out, self.team, plan, self._executor)

    def _evaluate_and_log(self, tracking: Tracking, show: Callable[[Mapping[str, float]], None]) -> None:
        if self.held_out is None or self.config.eval_every == 0:
            return
        started = time.perf_counter()
        metrics, roots = self._evaluate()
        row = self._row("eval", {**metrics, "time_s": time.perf_counter() - started})
        tracking.log(row)
        show(row)
        if tracking.folder is not None and self.config.transcripts_every:
            tracking.folder.write_transcripts(f"eval-{self.rounds:06d}", roots)

    def _row(self, kind: str, metrics: Mapping[str, float]) -> dict[str, float]:
        named = {f"{kind}/{name}": value for name, value in metrics.items()}
        return {"round": self.rounds, "env_step": self.env_steps, **named}

    def _build_algorithm(self, critics: PolicySources | None) -> Algorithm:
        if critics is not None:
            raise ConfigError(f"critics= was given, and {self.name} has none. Leave it out, or train with iac or maac.")
        return self.algorithm_class(self.config, self.playground.game, self.team, self.references, self._executor)

    def _build_references(self, given: PolicySources | None) -> dict[str, LLMPolicy] | None:
        config, agents = self.config, self.playground.game.agents
        learning = learners(self.team, config.frozen)
        devices = place(config.reference_devices, agents, "reference_devices")
        if not config.wants_references and (given is not None or config.reference_devices is not None):
            what = "reference_devices" if given is None else "references="
            raise ConfigError(f"{what} was given, and {config.no_references}: nothing would read them. Leave it out.")
        if given is None:
            return frozen_copies(learning, learning, devices) if config.wants_references else None
        beside = {agent: device or str(self.team[agent].backbone.device) for agent, device in devices.items()}
        team = build_team(given, agents, self._loading(beside))
        return frozen_copies({agent: team[agent] for agent in learning}, learning, devices)

    def _loading(self, devices: Mapping[str, str | None]) -> Loading:
        config = self.config
        return Loading(config.sampling, config.dtype, devices, config.gradient_checkpointing)

    def _check_turns(self) -> None:
        """Refuse more turns than the game has."""
        most, asked = self.playground.game.max_turns, self.config.max_turns
        if asked is not None and most is not None and asked > most:
            raise ConfigError(
                f"max_turns={asked}, and {self.playground.name} ends after {most}. Make the environment with "
                f"max_turns={asked}, or use max_turns={most}."
            )

    def _warn_of_large_trees(self) -> None:
        """Say so if the trees of a round are larger than anybody may want them."""
        config, turns = self.config, self.config.max_turns or self.playground.game.max_turns
        if turns is None:
            return
        agents = len(self.playground.game.agents) if config.joint_mode == "cross" else 1
        branches = config.num_generations**agents
        actions = config.items_per_rollout * sum(branches**turn for turn in range(1, turns + 1))
        if actions > LARGE_ROUND:
            log.warning(
                "A round plays up to %s joint actions: %d tasks, and each of %d turns goes on from every one of %d. "
                "Lower num_generations, max_turns or items_per_rollout if that takes too long.",
                f"{actions:,}", config.items_per_rollout, turns, branches,
            )  # fmt: skip

    def _facts(self, horizon: int) -> dict[str, Any]:
        """What a checkpoint of this run and the run that goes on from it must have in common."""
        known = run_facts(self.name, self.config, self.playground, self.team, self.references, horizon)
        return {**known, **self.algorithm.facts()}

    def _keeps(self, resume: str | os.PathLike[str] | None) -> bool:
        """Whether this run reads or writes checkpoints at all."""
        return resume is not None or (self.config.output_dir is not None and self.config.checkpoint_every != 0)

    def _restore(self, run: Path, facts: Mapping[str, Any]) -> tuple[Path, Counters]:
        """Load the newest checkpoint of a run, and take up its counters; nothing is changed unless everything fits."""
        holdings = self.algorithm.holdings()
        found = read_checkpoint(newest_checkpoint(run), holdings, facts)
        check_run_files(run, found.counters.metrics_bytes, wandb="wandb" in self.config.trackers)
        found.load_into(holdings)
        self.rounds, self.env_steps = found.counters.rounds, found.counters.env_steps
        return run, found.counters

    def _checkpoint(self, tracking: Tracking, facts: Mapping[str, Any]) -> None:
        """Write a checkpoint, unless the run keeps none or this round has one."""
        if tracking.folder is None or not facts or self.config.checkpoint_every == 0:
            return
        folder = tracking.folder.path / "checkpoints"
        if any(place.name == checkpoint_name(self.rounds) for place in checkpoints(folder)):
            return
        counters = Counters(self.rounds, self.env_steps, tracking.folder.metrics_bytes)
        write_checkpoint(folder, counters, self.algorithm.holdings(), facts, keep=self.config.keep_checkpoints)

    def _save(self, tracking: Tracking) -> None:
        if tracking.folder is not None:
            # Written beside its place and moved there, so that what is called final is whole.
            partial = tracking.folder.path / "checkpoints" / "partial"
            self.save(partial)
            final = partial.with_name("final")
            if final.exists():  # of the run that this one goes on with
                shutil.rmtree(final)
            partial.rename(final)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """The first Ctrl-C or SIGTERM asks the loop to stop after the current round; the second one stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(*_: object) -> None:
            if self._stop.is_set():
                raise KeyboardInterrupt
            log.warning("Stopping after this round; press Ctrl-C again to stop at once.")
            self._stop.set()

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
