"""Policy-gradient steps on samples that carry their advantage: what all algorithms with actors share."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from comlrl_envs.seeding import rng
from comlrl_learners.annotate import References
from comlrl_learners.checkpoint import Holdings
from comlrl_learners.config import TrainerConfig
from comlrl_learners.critic import ValueHead
from comlrl_learners.errors import ConfigError, NonFiniteError
from comlrl_learners.losses import (
    LossNorm,
    RatioLevel,
    clipped_ratio,
    kl_k3,
    over_tokens,
    policy_gradient,
    value_loss,
)
from comlrl_learners.microbatches import plan
from comlrl_learners.optimisation import WeightOptimizer
from comlrl_learners.policy import LLMPolicy, distinct_policies
from comlrl_learners.rollout import Node, run_each
from comlrl_learners.samples import TokenSample
from comlrl_learners.team import folder_name, refuse_shared_weights

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(kw_only=True)
class ActorConfig(TrainerConfig):
    """Settings of the actors' loss."""

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
        if self.clip_range is None and (self.num_updates > 1 or self.minibatch_size is not None):
            raise ConfigError(
                "Several optimizer steps on one rollout leave the policy that sampled it. Set clip_range (for example "
                "0.2), or use num_updates=1 and minibatch_size=None."
            )
        if self.clip_range is not None and not 0 < self.clip_range < 1:
            raise ConfigError(f"clip_range={self.clip_range} must lie in (0, 1), or be None.")
        if self.kl_coef < 0 or self.entropy_coef < 0:
            raise ConfigError("kl_coef and entropy_coef must be 0 or more.")
        self.refuse_idle(self.clip_range is None, "clip_range=None forms no ratio", "ratio_level")
        self.refuse_idle(self.kl_coef == 0, "kl_coef=0 takes no KL divergence", "kl_mode")
        self.check_sampling(self.sampling.truncates, "sampling")

    @property
    def wants_references(self) -> bool:
        """Whether frozen copies of the start are needed."""
        return self.kl_coef > 0

    @property
    def no_references(self) -> str:
        """The setting that makes references idle, for messages."""
        return "kl_coef=0 takes no KL divergence"

    def check_sampling(self, truncates: bool, who: str) -> None:
        """Refuse a truncating sampler where its log-probs would be compared with those of another distribution."""
        if not truncates:
            return
        if self.clip_range is not None:
            raise ConfigError(
                f"{who} truncates the distribution (top_p < 1 or top_k > 0), so the ratio of clip_range would compare "
                "two different distributions. Use top_p=1 and top_k=0, or clip_range=None."
            )
        if self.kl_coef > 0:
            raise ConfigError(
                f"{who} truncates the distribution (top_p < 1 or top_k > 0), so the KL divergence of kl_coef would "
                "compare it with the references' whole one. Use top_p=1 and top_k=0, or kl_coef=0."
            )
        log.warning(
            "%s truncates the distribution (top_p < 1 or top_k > 0): the gradient is that of the whole distribution "
            "at samples from a part of it.", who,
        )  # fmt: skip


@dataclass(frozen=True)
class SharedValues:
    """Value heads on the policies themselves.

    Attributes:
        heads: By agent; agents that share a policy share its head.
        coef: Weight of the value loss beside the actor's.
        clip_range: See `losses.value_loss`.
        learning_rate: Peak learning rate of the heads; None takes the actors'.
    """

    heads: Mapping[str, ValueHead]
    coef: float = 0.5
    clip_range: float | None = None
    learning_rate: float | None = None


class Actors:
    """The team's policies, each with its optimizer.

    Args:
        config: The loss.
        team: One policy per agent.
        executor: Works on distinct policies side by side.
        values: Value heads that sit on policies: their loss joins that of the actor, in one forward.

    Raises:
        ConfigError: A policy's sampling explores nothing or does not fit the loss.
        PolicyError: Two policies hold the same weights, or one has none to train.
    """

    def __init__(
        self,
        config: ActorConfig,
        team: Mapping[str, LLMPolicy],
        executor: Executor | None,
        values: SharedValues | None = None,
    ) -> None:
        self.config, self.executor = config, executor
        self.values = values or SharedValues({})
        refuse_shared_weights(team)
        for agent, policy in team.items():
            if policy.sampling.temperature == 0:
                raise ConfigError(
                    f"The policy of {agent} samples at temperature 0 and so explores nothing. Give it a positive "
                    "temperature; eval_temperature may be 0."
                )
            if policy.sampling is not config.sampling:
                config.check_sampling(policy.sampling.truncates, f"The policy of {agent}")
        self.policies = distinct_policies(team)
        self.optimizers = {
            id(policy): WeightOptimizer(
                policy, agents, config, self.values.heads.get(agents[0]), head_rate=self.values.learning_rate
            )
            for policy, agents in self.policies
        }
        self._heads = {id(team[agent]): head for agent, head in self.values.heads.items()}

    def update(self, samples: Mapping[str, Sequence[TokenSample]], round_index: int, rate: float) -> dict[str, float]:
        """Take the optimizer steps of one round.

        Args:
            samples: Training samples by agent.
            round_index: Number of the round: seeds the order of minibatches.
            rate: Share of the peak learning rate.

        Returns:
            Diagnostics by agent; agents that share a policy share its figures.
        """

        def work(policy: LLMPolicy, agents: tuple[str, ...]) -> dict[str, float]:
            own = [sample for agent in agents for sample in samples[agent]]
            self.optimizers[id(policy)].set_rate(rate)
            return self._update_policy(policy, agents, own, round_index)

        metrics: dict[str, float] = {}
        results = run_each(self.policies, work, self.executor)
        for (_, agents), found in zip(self.policies, results, strict=True):
            metrics.update({f"{agent}/{name}": value for agent in agents for name, value in found.items()})
        return metrics

    def holdings(self) -> Holdings:
        """Policies, heads and their optimizers, by the first agent of each."""
        modules: dict[str, nn.Module] = {}
        optimizers: dict[str, WeightOptimizer] = {}
        for policy, agents in self.policies:
            name = folder_name(agents[0])
            modules[f"policy-{name}"] = policy.model
            optimizers[f"policy-{name}"] = self.optimizers[id(policy)]
            if id(policy) in self._heads:
                modules[f"head-{name}"] = self._heads[id(policy)]
        return Holdings(modules, optimizers)

    def _update_policy(
        self, policy: LLMPolicy, agents: tuple[str, ...], samples: list[TokenSample], round_index: int
    ) -> dict[str, float]:
        config, optimizer = self.config, self.optimizers[id(policy)]
        losses: list[float] = []
        norms: list[float] = []
        for epoch in range(config.num_updates):
            for minibatch in minibatches(samples, config, ("minibatches", agents[0], round_index, epoch)):
                optimizer.clear()  # An update that failed may have left something.
                losses.append(self._backward(policy, minibatch))
                norms.append(optimizer.step() if optimizer.has_gradient else 0.0)
        return {
            "loss": float(np.mean(losses)) if losses else 0.0,
            "grad_norm": float(np.mean(norms)) if norms else 0.0,
        }

    def _backward(self, policy: LLMPolicy, minibatch: Sequence[TokenSample]) -> float:
        """Accumulate the gradient of the mean loss over a minibatch; returns that loss."""
        config = self.config
        other_terms = config.entropy_coef > 0 or self._loss_kl or id(policy) in self._heads
        # A sample of advantage 0 adds nothing to the gradient; it still counts in the mean.
        weighed = minibatch if other_terms else [sample for sample in minibatch if sample.advantage != 0]
        total = 0.0
        for part in plan(weighed, lambda sample: sample.completion, config.microbatch_tokens) if weighed else []:
            losses = self.sample_losses(policy, part)
            _check_finite(losses, part)
            loss = losses.sum() / len(minibatch)
            self.optimizers[id(policy)].backward(loss)
            total += loss.item()
        return total

    @property
    def _loss_kl(self) -> bool:
        return self.config.kl_coef > 0 and self.config.kl_mode == "loss"

    def sample_losses(self, policy: LLMPolicy, samples: Sequence[TokenSample]) -> Tensor:
        """The loss of each sample, (B,), with gradient; a minibatch's loss is their mean."""
        config, head = self.config, self._heads.get(id(policy))
        constant = policy.sampling.max_new_tokens
        now = policy.logprobs([sample.completion for sample in samples], entropy=config.entropy_coef > 0, head=head)
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
            reference = _padded([s.reference.logprobs if s.reference else () for s in samples], now.logprobs)
            kl = kl_k3(now.logprobs, reference, now.mask)
            losses = losses + config.kl_coef * over_tokens(kl, now.mask, config.loss_norm, constant)
        if now.entropy is not None:
            bonus = over_tokens(now.entropy, now.mask, config.loss_norm, constant)
            losses = losses - config.entropy_coef * bonus
        if now.values is not None:
            targets = now.values.new_tensor([sample.value_target for sample in samples])
            before = now.values.new_tensor([sample.old_value for sample in samples])
            losses = losses + self.values.coef * value_loss(now.values, targets, before, self.values.clip_range)
        return losses


def minibatches(samples: Sequence[T], config: TrainerConfig, purpose: tuple[str | int, ...]) -> list[list[T]]:
    """`samples` cut into minibatches of `config.minibatch_size`, shuffled if there are several."""
    size = config.minibatch_size or max(1, len(samples))
    order = np.arange(len(samples))
    if size < len(samples):
        rng(config.seed, *purpose).shuffle(order)
    return [[samples[i] for i in order[start : start + size]] for start in range(0, len(samples), size)]


def penalised_rewards(config: ActorConfig, node: Node, agent: str, reference: References | None) -> list[float]:
    """Rewards of a node's joint actions as one agent learns from them: scaled, shifted, less its KL penalty."""
    rewards = [config.reward_scale * edge.reward + config.reward_shift for edge in node.edges]
    if reference is None or config.kl_mode != "penalty" or agent not in node.acting:
        return rewards
    place = node.acting.index(agent)
    kl = [reference[completion.prompt.ids, completion.ids].kl for completion in node.completions[agent]]
    return [reward - config.kl_coef * kl[edge.index[place]] for reward, edge in zip(rewards, node.edges, strict=True)]


def writing_metrics(samples: Sequence[TokenSample]) -> dict[str, float]:
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
    known = [sample.reference for sample in samples if sample.reference is not None]
    if known:
        metrics["reference_kl"] = math.fsum(reference.kl for reference in known) / tokens
    return metrics


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
