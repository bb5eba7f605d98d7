"""The reference's trainers, set up for the length-ratio task, and the meter that counts what they do.

It lies beside ``run_reference.py`` and runs in the reference's virtual environment.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from comlrl.trainers.actor_critic import IACConfig, IACTrainer, MAACConfig, MAACTrainer
from comlrl.trainers.preference import MADPOConfig, MADPOTrainer
from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer
from datasets import Dataset
from prompts import PROMPTS, next_prompt
from torch.optim.optimizer import register_optimizer_step_post_hook
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

NUM_AGENTS = 2
RATIO_RANGE = (2.0, 3.0)
UPDATE_SIZE = {"magrpo": 2, "iac": 8, "maac": 8, "madpo": 2}
"""What an agent collects before it updates, if the command line says nothing: the trainers' own defaults, in nodes for
MAGRPO, completions for IAC and MAAC, pairs for MADPO."""


def length_ratio(first: str, second: str) -> float:
    """Reward of two replies: 1 while the second is two to three times as long as the first, else less.

    Args:
        first: The first agent's reply.
        second: The second agent's reply.

    Returns:
        A value in [0, 1]: exp(-d), where d is the ratio's distance from the range; 0 if the first reply is empty.
    """
    if not first:
        return 0.0
    ratio = len(second) / len(first)
    low, high = RATIO_RANGE
    return math.exp(-max(low - ratio, ratio - high, 0.0))


class Meter:
    """Counts what the reference samples, trains and scores while it runs."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self.rewards: list[float] = []
        self.tokens_generated = 0
        self.completions_trained = 0
        self.tokens_trained = 0
        self.generate_calls = 0
        self.optimizer_steps = 0
        self.pairs: int | None = None
        register_optimizer_step_post_hook(self._count_step)

    def reward(self, first: list[str], second: list[str]) -> list[float]:
        """Score a batch of joint actions in the form the trainers call, and keep the scores."""
        scores = [length_ratio(one, other) for one, other in zip(first, second, strict=True)]
        self.rewards.extend(scores)
        return scores

    def watch_model(self, model: PreTrainedModel, eos_id: int) -> None:
        """Count the tokens of every ``generate`` call of ``model``."""
        generate = model.generate

        def counted(*args: Any, **kwargs: Any) -> Any:
            output = generate(*args, **kwargs)
            sequences = output if isinstance(output, torch.Tensor) else output.sequences
            replies = sequences[:, kwargs["input_ids"].shape[1] :]
            ended_before = (replies == eos_id).int().cumsum(dim=1) - (replies == eos_id).int()
            self.tokens_generated += int((ended_before == 0).sum())
            self.generate_calls += 1
            return output

        model.generate = counted

    def watch_magrpo(self, trainer: MAGRPOTrainer) -> None:
        """Count what enters the loss of MAGRPO: all stored tokens of a completion, padding included, but the last."""
        compute_loss = trainer._compute_loss_with_gradients

        def counted(agent: Any, completions_data: dict[str, Any], returns: Sequence[float]) -> Any:
            stored = completions_data["completion_input_ids"][0][: len(returns)]
            self._count_trained(max(len(tokens) - 1, 0) for tokens in stored)
            return compute_loss(agent, completions_data, returns)

        trainer._compute_loss_with_gradients = counted

    def watch_actor_critic(self, trainer: IACTrainer | MAACTrainer) -> None:
        """Count what enters the actors' loss of IAC and MAAC: all tokens up to the first padding."""
        step = trainer._ac_step

        def counted(agent_idx: int, batch: list[Any]) -> None:
            self._count_trained(sample.response_len for sample in batch)
            step(agent_idx, batch)

        trainer._ac_step = counted

    def watch_madpo(self, trainer: MADPOTrainer) -> None:
        """Count the pairs, and what enters MADPO's loss: both halves of each pair, each up to its last token but one.

        The reference also scores all halves once without a gradient; that is not counted.
        """
        self.pairs = 0
        update, loss = trainer._update_from_preference_batch, trainer._agent_preference_loss

        def counted_update(batch: list[Any]) -> Any:
            self.pairs = (self.pairs or 0) + len(batch)
            return update(batch)

        def counted_loss(agent_idx: int, batch: list[Any], detached: list[list[float]]) -> Any:
            pad = trainer.tokenizers[agent_idx].pad_token_id
            tensors = [pair.agent_tensors[agent_idx] for pair in batch]
            halves = [ids for own in tensors for ids in (own.winner_completion_ids, own.loser_completion_ids)]
            self._count_trained(max(len(trainer._trim_completion_tokens(ids, pad)) - 1, 0) for ids in halves)
            return loss(agent_idx, batch, detached)

        trainer._update_from_preference_batch = counted_update
        trainer._agent_preference_loss = counted_loss

    def _count_trained(self, lengths: Any) -> None:
        counted = list(lengths)
        self.completions_trained += len(counted)
        self.tokens_trained += sum(counted)

    def _count_step(self, *_: Any) -> None:
        self.optimizer_steps += 1


def build_magrpo(
    options: argparse.Namespace,
    agents: list[PreTrainedModel],
    tokenizer: PreTrainedTokenizerBase,
    dataset: Dataset,
    meter: Meter,
) -> MAGRPOTrainer:
    """Build the reference's MAGRPO trainer for one or two turns."""
    config = MAGRPOConfig(
        num_generations=options.generations,
        external_prompt_passthrough=options.turns > 1,
        early_termination_threshold=None,
        **common_settings(options),
    )

    def transition(prompt: str, agent_completions: Sequence[str], **_: Any) -> list[str]:
        return [next_prompt(prompt, completion) for completion in agent_completions]

    trainer = MAGRPOTrainer(
        agents=agents,
        args=config,
        reward_func=meter.reward,
        train_dataset=dataset,
        tokenizer=tokenizer,
        external_transition=transition if options.turns > 1 else None,
    )
    trainer.verbose = False
    meter.watch_magrpo(trainer)
    return trainer


def build_iac(
    options: argparse.Namespace,
    agents: list[PreTrainedModel],
    tokenizer: PreTrainedTokenizerBase,
    dataset: Dataset,
    meter: Meter,
) -> IACTrainer:
    """Build the reference's IAC trainer with a value head on each policy, judging prompts."""
    config = IACConfig(
        num_generations=options.generations,
        use_separate_critic=False,
        critic_type="v",
        early_termination_threshold=None,
        **common_settings(options),
    )
    trainer = IACTrainer(
        agents=agents, args=config, reward_func=meter.reward, train_dataset=dataset, tokenizer=tokenizer
    )
    trainer.verbose = False
    meter.watch_actor_critic(trainer)
    return trainer


def build_maac(
    options: argparse.Namespace,
    agents: list[PreTrainedModel],
    tokenizer: PreTrainedTokenizerBase,
    dataset: Dataset,
    meter: Meter,
) -> MAACTrainer:
    """Build the reference's MAAC trainer: one critic, a model of the agents' kind, judging the joint prompt."""
    config = MAACConfig(
        num_generations=options.generations,
        critic_type="v",
        critic_learning_rate=options.lr,
        early_termination_threshold=None,
        **common_settings(options),
    )
    critic = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    trainer = MAACTrainer(
        agents=agents,
        critics=[critic],
        args=config,
        reward_func=meter.reward,
        train_dataset=dataset,
        tokenizer=tokenizer,
    )
    trainer.verbose = False
    meter.watch_actor_critic(trainer)
    return trainer


def build_madpo(
    options: argparse.Namespace,
    agents: list[PreTrainedModel],
    tokenizer: PreTrainedTokenizerBase,
    dataset: Dataset,
    meter: Meter,
) -> MADPOTrainer:
    """Build the reference's MADPO trainer: K candidates an item, the pairs with the widest gaps.

    It samples all items before it learns, so its epochs are passes over the pairs; to let ``--epochs`` mean visits of
    each prompt on both sides, they become items here, and the pairs are passed through once.
    """
    settings = {**common_settings(options), "num_train_epochs": 1}
    config = MADPOConfig(
        preference_num_candidates=options.generations,
        preference_pairs_per_sample=options.pairs_per_item,
        pair_selection="reward_gap",
        **settings,
    )
    rows = Dataset.from_dict({"prompt": list(dataset["prompt"]) * options.epochs})
    trainer = MADPOTrainer(
        agents=agents, args=config, reward_func=meter.reward, train_dataset=rows, tokenizer=tokenizer
    )
    trainer.verbose = False
    meter.watch_madpo(trainer)
    return trainer


BUILDERS: dict[str, Callable[..., Any]] = {
    "magrpo": build_magrpo,
    "iac": build_iac,
    "maac": build_maac,
    "madpo": build_madpo,
}


def common_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that all trainers share."""
    return {
        "num_agents": NUM_AGENTS,
        "num_turns": options.turns,
        "num_train_epochs": options.epochs,
        "rollout_buffer_size": options.buffer,
        "agent_learning_rate": options.lr,
        "max_new_tokens": options.max_new_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "top_k": options.top_k,
        "eval_interval": 0,
    }


@torch.no_grad()
def probe(
    options: argparse.Namespace, agents: list[PreTrainedModel], tokenizer: PreTrainedTokenizerBase, samples: int
) -> float:
    """Mean reward of ``samples`` fresh joint actions a prompt, drawn from the team as it is now."""
    scores: list[float] = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt")
        replies: list[list[str]] = []
        for agent in agents:
            drawn = agent.generate(
                input_ids=ids["input_ids"],
                attention_mask=ids["attention_mask"],
                max_new_tokens=options.max_new_tokens,
                do_sample=True,
                temperature=options.temperature,
                top_p=options.top_p,
                top_k=options.top_k,
                num_return_sequences=samples,
            )
            replies.append(tokenizer.batch_decode(drawn[:, ids["input_ids"].shape[1] :], skip_special_tokens=True))
        scores += [length_ratio(one, other) for one, other in zip(*replies, strict=True)]
    return statistics.fmean(scores)
