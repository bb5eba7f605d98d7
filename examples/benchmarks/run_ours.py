"""Train with this project on the length-ratio task and print one JSON line, as `reference/run_reference.py` does.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python run_ours.py --model DIR --turns 1
    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python run_ours.py --model DIR --algorithm iac     # or maac, madpo

The prompts, rewards, tree and sampling are those of the reference's runner; so are the settings of the losses that both
sides have, and the fields of the line. Completions and tokens count as trained when their log-probability was computed
with a gradient, once for each time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
sys.path.insert(0, str(Path(__file__).parent / "reference"))

import numpy as np
import torch
from prompts import PROMPTS, next_prompt
from torch.optim.optimizer import register_optimizer_step_post_hook

from comlrl_envs import from_reward
from comlrl_learners import (
    IACConfig,
    IACTrainer,
    LLMPolicy,
    MAACConfig,
    MAACTrainer,
    MADPOConfig,
    MADPOTrainer,
    MAGRPOConfig,
    MAGRPOTrainer,
    SamplingParams,
)

PROBE_SAMPLES = 16


def length_ratio(first: list[str], second: list[str]) -> list[float]:
    """Reward of aligned replies: 1 while the second is two to three times as long, exp(-distance) outside."""
    rewards = []
    for one, other in zip(first, second, strict=True):
        ratio = len(other) / len(one) if one else 0.0
        rewards.append(math.exp(-max(2.0 - ratio, ratio - 3.0, 0.0)) if one else 0.0)
    return rewards


def try_again(prompt: str, completions: list[str], num_agents: int, **_: object) -> list[str]:
    """The reference's next prompts: each agent's own last reply, cut."""
    return [next_prompt(prompt, completion) for completion in completions]


class Meter:
    """The algorithm of a trainer, counting what it samples and trains."""

    def __init__(self, trainer: Any) -> None:
        """Step between the trainer and its algorithm."""
        self._algorithm, trainer.algorithm = trainer.algorithm, self
        self.tokens_generated = self.completions_trained = self.tokens_trained = self.optimizer_steps = 0
        self.pairs: int | None = None
        self.rewards: list[float] = []
        for policy in trainer.team.values():
            self._watch(policy)
        register_optimizer_step_post_hook(self._count_step)

    def collect(self, visits: Any) -> Any:
        """Collect, and count what was sampled."""
        batch = self._algorithm.collect(visits)
        self.tokens_generated += batch.stats.tokens
        self.rewards += [edge.reward for root in batch.roots for node in root.subtree() for edge in node.edges]
        if "pairs" in batch.metrics:
            self.pairs = (self.pairs or 0) + int(batch.metrics["pairs"])
        return batch

    def update(self, batch: Any, round_index: int, rate: float) -> dict[str, float]:
        """Let the algorithm learn; what passes through a forward with a gradient is counted on the policies."""
        metrics: dict[str, float] = self._algorithm.update(batch, round_index, rate)
        return metrics

    def holdings(self) -> Any:
        """The algorithm's."""
        return self._algorithm.holdings()

    def facts(self) -> Any:
        """The algorithm's."""
        return self._algorithm.facts()

    def save(self, folder: Path) -> None:
        """The algorithm's."""
        self._algorithm.save(folder)

    def _watch(self, policy: LLMPolicy) -> None:
        score = policy.logprobs

        def counted(completions: Sequence[Any], **options: Any) -> Any:
            if torch.is_grad_enabled():
                self.completions_trained += len(completions)
                self.tokens_trained += sum(len(completion.ids) for completion in completions)
            return score(completions, **options)

        policy.logprobs = counted  # type: ignore[method-assign]

    def _count_step(self, *_: Any) -> None:
        self.optimizer_steps += 1


def build(options: argparse.Namespace) -> Any:
    """The trainer that the command line asks for."""
    rows = [{"prompt": PROMPTS[i % len(PROMPTS)]} for i in range(options.items)]
    env = from_reward(rows, length_ratio, feedback=try_again, max_turns=options.turns)
    common: dict[str, Any] = {
        "seed": options.seed,
        "num_epochs": options.epochs,
        "items_per_rollout": options.items_per_rollout,
        "num_generations": options.generations,
        "learning_rate": options.lr,
        "agent_threads": options.threads > 1,
        "output_dir": None,
        "sampling": SamplingParams(
            temperature=options.temperature,
            top_p=options.top_p,
            top_k=options.top_k,
            max_new_tokens=options.max_new_tokens,
            min_new_tokens=options.min_new_tokens,
        ),
    }
    given: dict[str, Any] = {"env": env, "policies": options.model}
    if options.algorithm == "iac":
        return IACTrainer(config=IACConfig(value_loss_coef=0.6, value_clip_range=0.2, **common), **given)
    if options.algorithm == "maac":
        return MAACTrainer(config=MAACConfig(**common), critics=options.model, **given)
    if options.algorithm == "madpo":
        size = None if options.pairs_per_step is None else 2 * options.pairs_per_step
        config = MADPOConfig(pairs_per_node=options.pairs_per_item, minibatch_size=size, **common)
        return MADPOTrainer(config=config, **given)
    return MAGRPOTrainer(config=MAGRPOConfig(**common), **given)


def main() -> None:
    """Run once and print the line."""
    options = parse()
    torch.set_num_threads(1)
    trainer = build(options)
    meter = Meter(trainer)
    cpu, wall = time.process_time(), time.perf_counter()
    trainer.train()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    rewards, count = meter.rewards, len(meter.rewards)
    line = {
        "cpu_s": round(cpu, 3),
        "wall_s": round(wall, 3),
        "joint_actions": count,
        "per_cpu_s": round(count / cpu, 2),
        "per_wall_s": round(count / wall, 2),
        "tokens_generated": meter.tokens_generated,
        "completions_trained": meter.completions_trained,
        "tokens_trained": meter.tokens_trained,
        "optimizer_steps": meter.optimizer_steps,
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "reward_mean": round(statistics.mean(rewards), 4),
        "quarters": slices(rewards, 4),
    }
    if meter.pairs is not None:
        line["pairs"] = meter.pairs
    if options.curve:
        line["curve"] = slices(rewards, 20)
    if options.probe:
        line["after"] = round(probe(trainer.team, options.seed), 4)
    print(json.dumps(line))


def slices(rewards: list[float], parts: int) -> list[float]:
    """Means of equal slices, in scoring order."""
    size = len(rewards)
    return [round(statistics.mean(rewards[i * size // parts : (i + 1) * size // parts]), 4) for i in range(parts)]


def probe(team: dict[str, LLMPolicy], seed: int) -> float:
    """Mean reward of fresh joint actions of the team as it is now, some a prompt."""
    prompts = [prompt for prompt in PROMPTS for _ in range(PROBE_SAMPLES)]
    draws = np.random.default_rng(seed)
    first, second = (policy.act(prompts, agent, draws) for agent, policy in team.items())
    return statistics.mean(length_ratio(first, second))


def parse() -> argparse.Namespace:
    """The command line; names and defaults as in the reference's runner."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--algorithm", choices=("magrpo", "iac", "maac", "madpo"), default="magrpo")
    parser.add_argument("--model", required=True)
    for name, default in (
        ("turns", 1), ("generations", 8), ("items", 10), ("epochs", 1), ("top-k", 50), ("seed", 0), ("threads", 1),
        ("max-new-tokens", 64), ("min-new-tokens", 0), ("items-per-rollout", 10), ("pairs-per-item", 8),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--pairs-per-step", type=int, help="pairs of one optimizer step (MADPO; default: all there are)"
    )
    for name, fraction in (("temperature", 0.6), ("top-p", 0.6), ("lr", 5e-5)):
        parser.add_argument(f"--{name}", type=float, default=fraction)
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--probe", action="store_true", help="add what the trained team earns")
    return parser.parse_args()


if __name__ == "__main__":
    main()
