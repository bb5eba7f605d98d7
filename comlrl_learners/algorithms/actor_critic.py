"""Actor-critic learning over trees of turns: the frame of IAC and MAAC, which differ in what their critics read."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from comlrl_learners.advantages import batch_normalised
from comlrl_learners.algorithms.actor import ActorConfig, Actors, SharedValues, penalised_rewards, writing_metrics
from comlrl_learners.algorithms.critics import CriticSteps, ValueSample
from comlrl_learners.annotate import References, score_references
from comlrl_learners.checkpoint import Holdings
from comlrl_learners.critic import Critic, explained_variance, save_critics
from comlrl_learners.errors import ConfigError
from comlrl_learners.games import Game
from comlrl_learners.identity import described_policy
from comlrl_learners.judgement import Judgement, counterfactual_advantages, judge_actions, judge_situations, replaced
from comlrl_learners.placement import Devices
from comlrl_learners.policy import LLMPolicy
from comlrl_learners.returns import completion_returns
from comlrl_learners.rollout import Node, RolloutPlan, RolloutStats, Visit, rollout
from comlrl_learners.samples import Prompt, TokenSample
from comlrl_learners.team import learners


@dataclass(kw_only=True)
class ActorCriticConfig(ActorConfig):
    """Settings of IAC and MAAC."""

    critic_type: Literal["v", "q"] = "v"
    """The critic judges situations ("v"), or situations and what was written in them ("q")."""
    gae_lambda: float = 0.0
    """Between one-step targets (0) and whole returns (1); "q" has one-step targets."""
    advantage_norm: Literal["none", "batch"] = "batch"
    """Shift and scale the advantages of an agent's whole "batch" to mean 0 and standard deviation 1."""
    value_loss_coef: float = 0.5
    """Weight of the value loss beside the actor's where they share a model."""
    value_clip_range: float | None = None
    """A value that moved further than this from the one at sampling gains nothing by moving on; None for no bound."""
    critic_learning_rate: float | None = None
    """Peak learning rate of value heads and critics' models; None takes the actors'."""
    value_head_hidden: int | None = None
    """Width of a layer inside the value head; None makes it linear."""
    critic_devices: Devices = None
    """Where critics with models of their own lie, as `devices`; None takes that of the agent, for a critic of all that
    of the first."""

    def __post_init__(self) -> None:
        """Refuse combinations that cannot work.

        Raises:
            ConfigError: With the reason and the nearest setting that works.
        """
        super().__post_init__()
        if not 0 <= self.gae_lambda <= 1:
            raise ConfigError(f"gae_lambda={self.gae_lambda} must lie in [0, 1].")
        if self.critic_type == "q" and self.gae_lambda > 0:
            raise ConfigError("critic_type='q' learns from one-step targets. Use gae_lambda=0, or critic_type='v'.")
        for name in ("value_loss_coef", "value_clip_range", "critic_learning_rate", "value_head_hidden"):
            value = vars(self)[name]
            if value is not None and not value > 0:
                raise ConfigError(f"{name}={value} must be positive.")
        if self.advantage_norm == "batch" and self.num_generations * self.items_per_rollout == 1:
            raise ConfigError(
                "advantage_norm='batch' over the single sample of num_generations=1 and items_per_rollout=1 is always "
                "0. Use advantage_norm='none', or more items."
            )


class View(Protocol):
    """What a critic reads, as token ids of its own tokenizer."""

    shared: bool
    """Whether all agents have one critic, which judges the team."""

    def situation(self, critic: Critic, node: Node, agent: str) -> Prompt | None:
        """A node before anyone writes; None where there is nothing to judge."""
        ...

    def action(self, critic: Critic, node: Node, agent: str, index: tuple[int, ...]) -> Prompt | None:
        """A node and the texts of one joint action."""
        ...


@dataclass(frozen=True)
class ActorCriticBatch:
    """What one round collected.

    Attributes:
        roots: The trees.
        samples: The actors' samples by agent.
        values: The critics' samples by agent; a shared critic's stand under its first agent.
        stats: What collecting cost.
        metrics: Diagnostics of values and advantages.
    """

    roots: list[Node]
    samples: dict[str, list[TokenSample]]
    values: dict[str, list[ValueSample]]
    stats: RolloutStats
    metrics: dict[str, float]
    records: dict[str, Any] = field(default_factory=dict)


class ActorCritic:
    """Collects trees, has critics judge them, and moves actors and critics.

    Args:
        config: The settings.
        game: The game.
        team: One policy per agent.
        references: Frozen policies of the KL term, or None.
        executor: Works on distinct policies side by side.
        critics: One critic per learning agent; one object may serve several.
        view: What the critics read.
    """

    def __init__(
        self,
        config: ActorCriticConfig,
        game: Game,
        team: Mapping[str, LLMPolicy],
        references: Mapping[str, LLMPolicy] | None,
        executor: Executor | None,
        critics: Mapping[str, Critic],
        view: View,
    ) -> None:
        self.config, self.game, self.team, self.executor = config, game, team, executor
        self.references, self.critics, self.view = references, critics, view
        self.plan = RolloutPlan(config.num_generations, config.joint_mode, config.max_turns, config.prune_above)
        self.learners = learners(team, config.frozen)
        heads = {agent: critics[agent].head for agent in self.learners if critics[agent].policy is team[agent]}
        shared = SharedValues(heads, config.value_loss_coef, config.value_clip_range, config.critic_learning_rate)
        self.actors = Actors(config, self.learners, executor, shared)
        separate = {agent: critic for agent, critic in critics.items() if agent not in heads}
        self.critic_steps = CriticSteps(
            config, separate, executor, config.critic_learning_rate, config.value_clip_range
        )

    def collect(self, visits: Sequence[Visit]) -> ActorCriticBatch:
        """Play the visits, value every situation once, and form advantages and targets."""
        roots, stats = rollout(self.game, self.team, visits, self.plan, self.executor)
        nodes = [node for root in roots for node in root.subtree()]
        known: dict[str, References] = {}
        if self.references is not None:
            known = score_references(self.references, self.team, nodes, self.config.microbatch_tokens, self.executor)
        started = time.perf_counter()
        batch = ActorCriticBatch(roots, {}, {}, stats, {})
        agents = list(self.learners)
        for owner, served in [(agents[0], agents)] if self.view.shared else [(agent, [agent]) for agent in agents]:
            reading = Reading(self.critics[owner], self.view, owner, nodes, self.config)
            batch.metrics[f"{owner}/critic_prompts_cut"] = reading.cut
            judged = reading.judge({id(node): self._rewards(node, served, known) for node in nodes})
            if owner not in self.actors.values.heads:
                batch.values[owner] = reading.samples(judged)
            for agent in served:
                batch.samples[agent] = self._samples(agent, reading, judged, known.get(agent))
                batch.metrics.update(
                    {f"{agent}/{name}": v for name, v in _metrics(batch.samples[agent], judged).items()}
                )
        batch.metrics["time/value_s"] = time.perf_counter() - started
        return batch

    def update(self, batch: ActorCriticBatch, round_index: int, rate: float) -> dict[str, float]:
        """Take the optimizer steps of one round: the actors', then those of critics with models of their own."""
        started = time.perf_counter()
        metrics = self.actors.update(batch.samples, round_index, rate)
        metrics.update(self.critic_steps.update(batch.values, round_index, rate))
        return {**metrics, "time/update_s": time.perf_counter() - started}

    def holdings(self) -> Holdings:
        """What learning changes."""
        actors, critics = self.actors.holdings(), self.critic_steps.holdings()
        return Holdings({**actors.modules, **critics.modules}, {**actors.optimizers, **critics.optimizers})

    def facts(self) -> dict[str, Any]:
        """Whose critic is whose, and what each reads."""
        owners: dict[int, str] = {}
        return {
            "critics": {
                agent: {
                    "critic_of": owners.setdefault(id(critic), agent),
                    "on_policy": critic.policy is self.team[agent],
                    **described_policy(critic.policy),
                }
                for agent, critic in self.critics.items()
            }
        }

    def save(self, folder: Path) -> None:
        """Write heads and critics beside the saved team."""
        save_critics(self.critics, self.team, folder)

    def _rewards(self, node: Node, served: Sequence[str], known: Mapping[str, References]) -> list[float]:
        """Rewards of a node's joint actions, less the KL penalties of the agents whose critic judges it."""
        plain = penalised_rewards(self.config, node, served[0], None)
        rewards = list(plain)
        for agent in served:
            penalised = penalised_rewards(self.config, node, agent, known.get(agent))
            rewards = [total + own - base for total, own, base in zip(rewards, penalised, plain, strict=True)]
        return rewards

    def _samples(
        self, agent: str, reading: Reading, judged: Mapping[int, Judgement], reference: References | None
    ) -> list[TokenSample]:
        count = self.config.num_generations
        samples: list[TokenSample] = []
        for node in reading.nodes:
            if agent not in node.acting:
                continue
            judgement, place = judged[id(node)], node.acting.index(agent)
            indices = [edge.index[place] for edge in node.edges]
            advantages = completion_returns(indices, reading.advantages(node, place, judgement), count)
            targets = completion_returns(indices, judgement.targets, count)
            old = completion_returns(indices, judgement.estimates, count)
            samples += [
                TokenSample(
                    agent,
                    node.visit.task.id,
                    node.episode.turn,
                    completion,
                    advantages[k],
                    None if reference is None else reference[completion.prompt.ids, completion.ids],
                    targets[k],
                    old[k],
                )
                for k, completion in enumerate(node.completions[agent])
            ]
        if self.config.advantage_norm == "batch" and samples:
            normalised = batch_normalised(np.array([sample.advantage for sample in samples])).tolist()
            samples = [replace(sample, advantage=a) for sample, a in zip(samples, normalised, strict=True)]
        return samples


class Reading:
    """Everything that one critic says about some trees; equal prompts are valued once.

    Args:
        critic: The critic.
        view: What it reads.
        agent: For whom; a shared critic's first agent.
        nodes: Whole trees, parents before children.
        config: Kind of critic, discount, token budget.
    """

    def __init__(
        self, critic: Critic, view: View, agent: str, nodes: Sequence[Node], config: ActorCriticConfig
    ) -> None:
        self.nodes, self.agent, self._config = nodes, agent, config
        prompts: dict[tuple[int, tuple[int, ...]], Prompt] = {}
        for node in nodes:
            for index in self._indices(node, view.shared):
                read = view.action(critic, node, agent, index) if index else view.situation(critic, node, agent)
                if read is not None:
                    prompts[id(node), index] = read
        self.cut = float(np.mean([prompt.cut > 0 for prompt in prompts.values()])) if prompts else 0.0
        if self.cut and config.critic_type == "q":
            raise ConfigError(
                f"The critic reads at most {critic.policy.max_prompt_tokens} tokens, and situation and replies are "
                "longer: replies would be lost in the middle. Use critic_type='v', critics= with a longer context, or "
                "lower max_new_tokens."
            )
        values = critic.estimates(prompts.values(), config.microbatch_tokens)
        self._prompts = prompts
        self._values = {key: values[prompt.ids] for key, prompt in prompts.items()}

    def _indices(self, node: Node, shared: bool) -> list[tuple[int, ...]]:
        """What the critic is asked at a node: the situation, as (), or joint actions, those not played included."""
        if self._config.critic_type == "v":
            return [()]
        places = (
            range(len(node.acting)) if shared else [i for i, agent in enumerate(node.acting) if agent == self.agent]
        )
        choices = range(self._config.num_generations)
        asked = {edge.index for edge in node.edges}
        asked |= {replaced(edge.index, place, k) for edge in node.edges for place in places for k in choices}
        return sorted(asked)

    def judge(self, rewards: Mapping[int, Sequence[float]]) -> dict[int, Judgement]:
        """Targets and advantages of all joint actions, by `id(node)`; nodes without an estimate have none."""
        config = self._config
        if config.critic_type == "q":
            return judge_actions(self.nodes, rewards, self._estimate, config.discount)
        values = {place: value for (place, _), value in self._values.items()}
        return judge_situations(self.nodes, rewards, values, config.discount, config.gae_lambda)

    def advantages(self, node: Node, place: int, judgement: Judgement) -> list[float]:
        """Advantage of each joint action for the agent at `place`: counterfactual where Q and a group allow it."""
        if self._config.critic_type == "v" or self._config.num_generations < 2:
            return judgement.advantages
        return counterfactual_advantages(node, place, self._config.num_generations, self._estimate)

    def samples(self, judged: Mapping[int, Judgement]) -> list[ValueSample]:
        """What the critic learns from: one sample per joint action that it judged."""
        q = self._config.critic_type == "q"
        return [
            ValueSample(
                self.agent,
                node.visit.task.id,
                node.episode.turn,
                self._prompts[id(node), edge.index if q else ()],
                judged[id(node)].targets[number],
                judged[id(node)].estimates[number],
            )
            for node in self.nodes
            if id(node) in judged
            for number, edge in enumerate(node.edges)
        ]

    def _estimate(self, node: Node, index: tuple[int, ...]) -> float | None:
        return self._values.get((id(node), index))


def _metrics(samples: Sequence[TokenSample], judged: Mapping[int, Judgement]) -> dict[str, float]:
    if not samples:
        return {}
    advantages = [sample.advantage for sample in samples]
    estimates = [value for judgement in judged.values() for value in judgement.estimates]
    targets = [target for judgement in judged.values() for target in judgement.targets]
    return {
        "advantage_mean": float(np.mean(advantages)),
        "advantage_std": float(np.std(advantages)),
        "value_mean": float(np.mean(estimates)),
        "value_target_mean": float(np.mean(targets)),
        "explained_variance": explained_variance(estimates, targets),
        **writing_metrics(samples),
    }
