"""Policy gradients with a group of completions as its own baseline: the frame of MAGRPO, MAREINFORCE, MARLOO, MAReMax.

The four differ in their defaults only: baseline, normalisation of advantages, and how tokens and ratios are weighed.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from comlrl_envs.seeding import rng
from comlrl_learners.advantages import AdvantageNorm, Baseline, batch_normalised, group_advantages, has_spread
from comlrl_learners.annotate import Sequences, reference_logprobs
from comlrl_learners.config import TrainerConfig
from comlrl_learners.errors import ConfigError, NonFiniteError
from comlrl_learners.games import Game
from comlrl_learners.losses import LossNorm, RatioLevel, clipped_ratio, kl_k3, over_tokens, policy_gradient
from comlrl_learners.microbatches import plan
from comlrl_learners.optimisation import PolicyOptimizer
from comlrl_learners.policy import LLMPolicy, distinct_policies
from comlrl_learners.returns import completion_returns, edge_returns
from comlrl_learners.rollout import Node, RolloutPlan, RolloutStats, Visit, rollout, run_each
from comlrl_learners.samples import Completion, TokenSample
from comlrl_learners.team import refuse_shared_weights

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class ReinforceConfig(TrainerConfig):
    """Settings of the REINFORCE family."""

    baseline: Baseline = "mean"
    """Subtracted from a group's returns: "none", "mean", "leave_one_out" or "max"."""
    advantage_norm: AdvantageNorm = "none"
    """Divide advantages by the standard deviation of their "group" or of the agent's whole "batch"."""
    completion_return: Literal["mean", "sum"] = "mean"
    """Return of a completion over the joint actions that contain it (cross mode; "sum" is the published form)."""
    loss_norm: LossNorm = "mean"
    """Tokens of a completion are averaged, summed, or summed over the "constant" max_new_tokens."""
    clip_range: float | None = None
    """Use PPO's ratio to the sampling policy, clipped to 1 -+ this; None uses the plain gradient of fresh samples."""
    ratio_level: RatioLevel = "token"
    """Form the ratio per token or per whole completion."""
    kl_coef: float = 0.0
    """Weight of the KL divergence to the reference policies (frozen copies of the start unless given)."""
    kl_mode: Literal["penalty", "loss"] = "penalty"
    """Subtract the KL from each agent's rewards, or add it to the loss."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""

    def __post_init__(self) -> None:
        """Refuse combinations that cannot work.

        Raises:
            ConfigError: With the reason and the nearest setting that works.
        """
        super().__post_init__()
        if self.num_generations < 2 and (self.baseline != "none" or self.advantage_norm == "group"):
            raise ConfigError(
                f"num_generations=1 leaves nothing to compare with: baseline={self.baseline!r} and advantage_norm="
                f"{self.advantage_norm!r} give advantage 0. Use num_generations >= 2, or baseline='none' with "
                "advantage_norm='none'."
            )
        if self.clip_range is None and (self.num_updates > 1 or self.minibatch_size is not None):
            raise ConfigError(
                "Several optimizer steps on one rollout leave the policy that sampled it. Set clip_range (for example "
                "0.2), or use num_updates=1 and minibatch_size=None."
            )
        if self.clip_range is not None and not 0 < self.clip_range < 1:
            raise ConfigError(f"clip_range={self.clip_range} must lie in (0, 1), or be None.")
        if self.kl_coef < 0 or self.entropy_coef < 0:
            raise ConfigError("kl_coef and entropy_coef must be 0 or more.")
        self.check_sampling(self.sampling.truncates, "sampling")

    def check_sampling(self, truncates: bool, who: str) -> None:
        """Refuse a truncating sampler where its log-probs would enter a ratio."""
        if not truncates:
            return
        if self.clip_range is not None:
            raise ConfigError(
                f"{who} truncates the distribution (top_p < 1 or top_k > 0), so the ratio of clip_range would compare "
                "two different distributions. Use top_p=1 and top_k=0, or clip_range=None."
            )
        log.warning(
            "%s truncates the distribution (top_p < 1 or top_k > 0): the gradient is that of the whole distribution "
            "at samples from a part of it.", who,
        )  # fmt: skip


@dataclass(frozen=True)
class ReinforceBatch:
    """What one round collected.

    Attributes:
        roots: The trees.
        samples: Training samples by agent.
        stats: What collecting cost.
        metrics: Diagnostics of returns and advantages.
    """

    roots: list[Node]
    samples: dict[str, list[TokenSample]]
    stats: RolloutStats
    metrics: dict[str, float]


class Reinforce:
    """Collects trees, forms group advantages, and takes policy-gradient steps."""

    def __init__(
        self,
        config: ReinforceConfig,
        game: Game,
        team: Mapping[str, LLMPolicy],
        references: Mapping[str, LLMPolicy] | None,
        executor: Executor | None,
    ) -> None:
        """Make one optimizer per distinct policy."""
        self.config, self.game, self.team, self.executor = config, game, team, executor
        self.references = references
        refuse_shared_weights(team)
        for agent, policy in team.items():
            if policy.sampling.temperature == 0:
                raise ConfigError(
                    f"The policy of {agent} samples at temperature 0 and so explores nothing. Give it a positive "
                    "temperature; eval_temperature may be 0."
                )
            if policy.sampling is not config.sampling:
                config.check_sampling(policy.sampling.truncates, f"The policy of {agent}")
        self.plan = RolloutPlan(config.num_generations, config.joint_mode, config.max_turns, config.prune_above)
        self.policies = distinct_policies(team)
        self.optimizers = {id(policy): PolicyOptimizer(policy, agents, config) for policy, agents in self.policies}

    def collect(self, visits: Sequence[Visit]) -> ReinforceBatch:
        """Play the visits and turn them into training samples."""
        roots, stats = rollout(self.game, self.team, visits, self.plan, self.executor)
        nodes = [node for root in roots for node in root.subtree()]
        known: dict[str, Sequences] = {}
        if self.references is not None:
            known = reference_logprobs(self.references, nodes, self.config.microbatch_tokens, self.executor)
        samples: dict[str, list[TokenSample]] = {}
        metrics: dict[str, float] = {}
        for agent in self.team:
            groups = self._groups(roots, agent, known.get(agent))
            samples[agent], found = self._samples(groups, agent, known.get(agent))
            metrics.update({f"{agent}/{name}": value for name, value in found.items()})
        return ReinforceBatch(roots, samples, stats, metrics)

    def update(self, batch: ReinforceBatch, round_index: int, rate: float) -> dict[str, float]:
        """Take the optimizer steps of one round.

        Args:
            batch: What `collect` returned.
            round_index: Number of the round: seeds the order of minibatches.
            rate: Share of the peak learning rate.

        Returns:
            Diagnostics by agent; agents that share a policy share its figures.
        """
        started = time.perf_counter()

        def work(policy: LLMPolicy, agents: tuple[str, ...]) -> dict[str, float]:
            samples = [sample for agent in agents for sample in batch.samples[agent]]
            self.optimizers[id(policy)].set_rate(rate)
            return self._update_policy(policy, agents, samples, round_index)

        metrics: dict[str, float] = {}
        results = run_each(self.policies, work, self.executor)
        for (_, agents), found in zip(self.policies, results, strict=True):
            metrics.update({f"{agent}/{name}": value for agent in agents for name, value in found.items()})
        metrics["time/update_s"] = time.perf_counter() - started
        return metrics

    def _groups(self, roots: Sequence[Node], agent: str, reference: Sequences | None) -> list[tuple[Node, list[float]]]:
        """Each node at which the agent acts, with the returns of its completions, children before parents."""
        config, means, groups = self.config, dict[int, float](), list[tuple[Node, list[float]]]()
        penalised = reference is not None and config.kl_mode == "penalty"
        for node in reversed([node for root in roots for node in root.subtree()]):
            place = node.acting.index(agent) if agent in node.acting else None
            rewards = [config.reward_scale * edge.reward + config.reward_shift for edge in node.edges]
            if penalised and reference is not None and place is not None:
                kl = [_sequence_kl(c, reference[c.prompt.ids, c.ids]) for c in node.completions[agent]]
                rewards = [
                    reward - config.kl_coef * kl[edge.index[place]]
                    for reward, edge in zip(rewards, node.edges, strict=True)
                ]
            children = [None if edge.child is None else means[id(edge.child)] for edge in node.edges]
            returns = edge_returns(rewards, children, config.discount)
            means[id(node)] = math.fsum(returns) / len(returns)
            if place is not None:
                indices = [edge.index[place] for edge in node.edges]
                groups.append(
                    (node, completion_returns(indices, returns, config.num_generations, config.completion_return))
                )
        return groups[::-1]

    def _samples(
        self, groups: Sequence[tuple[Node, list[float]]], agent: str, reference: Sequences | None
    ) -> tuple[list[TokenSample], dict[str, float]]:
        if not groups:
            return [], {}
        config = self.config
        advantages = np.concatenate(
            [group_advantages(returns, config.baseline, config.advantage_norm) for _, returns in groups]
        )
        if config.advantage_norm == "batch":
            advantages = batch_normalised(advantages)
        written = [(node, completion) for node, _ in groups for completion in node.completions[agent]]
        samples = [
            TokenSample(
                agent,
                node.visit.task.id,
                node.episode.turn,
                completion,
                advantage,
                None if reference is None else reference[completion.prompt.ids, completion.ids],
            )
            for (node, completion), advantage in zip(written, advantages.tolist(), strict=True)
        ]
        flat = [there for _, there in groups]
        metrics = {
            "return_mean": float(np.mean(flat)),
            "advantage_mean": float(advantages.mean()),
            "advantage_std": float(advantages.std()),
            "zero_variance_groups": float(np.mean([not has_spread(there) for there in flat])),
            **_writing_metrics(samples),
        }
        return samples, metrics

    def _update_policy(
        self, policy: LLMPolicy, agents: tuple[str, ...], samples: list[TokenSample], round_index: int
    ) -> dict[str, float]:
        config, optimizer = self.config, self.optimizers[id(policy)]
        size = config.minibatch_size or max(1, len(samples))
        losses: list[float] = []
        norms: list[float] = []
        for epoch in range(config.num_updates):
            order = np.arange(len(samples))
            if size < len(samples):
                rng(config.seed, "minibatches", agents[0], round_index, epoch).shuffle(order)
            for start in range(0, len(samples), size):
                minibatch = [samples[i] for i in order[start : start + size]]
                optimizer.adam.zero_grad()  # An update that failed may have left something.
                losses.append(self._backward(policy, minibatch))
                moved = any(parameter.grad is not None for parameter in optimizer.parameters)
                norms.append(optimizer.step() if moved else 0.0)
        return {
            "loss": float(np.mean(losses)) if losses else 0.0,
            "grad_norm": float(np.mean(norms)) if norms else 0.0,
        }

    def _backward(self, policy: LLMPolicy, minibatch: Sequence[TokenSample]) -> float:
        """Accumulate the gradient of the mean loss over a minibatch; returns that loss."""
        config = self.config
        other_terms = config.entropy_coef > 0 or self._loss_kl
        # A sample of advantage 0 adds nothing to the gradient; it still counts in the mean.
        weighed = minibatch if other_terms else [sample for sample in minibatch if sample.advantage != 0]
        total = 0.0
        for part in plan(weighed, lambda sample: sample.completion, config.microbatch_tokens) if weighed else []:
            losses = self.sample_losses(policy, part)
            _check_finite(losses, part)
            loss = losses.sum() / len(minibatch)
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            total += loss.item()
        return total

    @property
    def _loss_kl(self) -> bool:
        return self.config.kl_coef > 0 and self.config.kl_mode == "loss"

    def sample_losses(self, policy: LLMPolicy, samples: Sequence[TokenSample]) -> Tensor:
        """The loss of each sample, (B,), with gradient; a minibatch's loss is their mean."""
        config = self.config
        constant = policy.sampling.max_new_tokens
        now = policy.logprobs([sample.completion for sample in samples], entropy=config.entropy_coef > 0)
        advantages = now.logprobs.new_tensor([sample.advantage for sample in samples])
        if config.clip_range is None:
            losses = policy_gradient(now.logprobs, now.mask, advantages, config.loss_norm, constant)
        else:
            old = _padded([sample.completion.logprobs for sample in samples], now.logprobs)
            losses = clipped_ratio(
                now.logprobs,
                old,
                now.mask,
                advantages,
                config.clip_range,
                config.ratio_level,
                config.loss_norm,
                constant,
            )
        if self._loss_kl:
            reference = _padded([sample.reference_logprobs or () for sample in samples], now.logprobs)
            kl = kl_k3(now.logprobs, reference, now.mask)
            losses = losses + config.kl_coef * over_tokens(kl, now.mask, config.loss_norm, constant)
        if now.entropy is not None:
            bonus = over_tokens(now.entropy, now.mask, config.loss_norm, constant)
            losses = losses - config.entropy_coef * bonus
        return losses


def _writing_metrics(samples: Sequence[TokenSample]) -> dict[str, float]:
    """What one agent wrote: lengths, ends, entropy (minus the mean log-prob, its unbiased estimate) and KL."""
    completions = [sample.completion for sample in samples]
    tokens = sum(len(c.ids) for c in completions)
    metrics = {
        "completion_tokens": tokens / len(completions),
        "completion_characters": float(np.mean([len(c.text) for c in completions])),
        "truncated": float(np.mean([not c.finished for c in completions])),
        "prompt_tokens": float(np.mean([len(c.prompt.ids) for c in completions])),
        "prompts_cut": float(np.mean([c.prompt.cut > 0 for c in completions])),
        "entropy": -math.fsum(value for c in completions for value in c.logprobs) / tokens,
    }
    known = [(s.completion, s.reference_logprobs) for s in samples if s.reference_logprobs is not None]
    if known:
        metrics["reference_kl"] = math.fsum(_sequence_kl(c, reference) for c, reference in known) / tokens
    return metrics


def _sequence_kl(completion: Completion, reference: Sequence[float]) -> float:
    """Sum of the k3 estimate over a completion's tokens, in nats."""
    differences = np.asarray(reference) - np.asarray(completion.logprobs)
    with np.errstate(over="ignore"):  # a reference too far away gives infinity, which the loss refuses by name
        return float(np.sum(np.expm1(differences) - differences))


def _padded(rows: Sequence[Sequence[float]], like: Tensor) -> Tensor:
    width = like.shape[1]
    return like.new_tensor([[*row, *[0.0] * (width - len(row))] for row in rows])


def _check_finite(losses: Tensor, samples: Sequence[TokenSample]) -> None:
    finite = torch.isfinite(losses)
    if bool(finite.all()):
        return
    place = int((~finite).nonzero()[0, 0])
    sample = samples[place]
    raise NonFiniteError(
        f"The loss of agent {sample.agent!r} at turn {sample.turn} of task {sample.task_id!r} is "
        f"{losses[place].item()}. Lower learning_rate, use dtype='float32', or look at that task's rewards."
    )
