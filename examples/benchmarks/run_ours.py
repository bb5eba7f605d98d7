"""Train with this project on the length-ratio task and print one JSON line, as `reference/run_reference.py` does.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python run_ours.py --model DIR --turns 1

The prompts, rewards, tree and sampling are those of the reference's runner; so are the fields of the line. Here
`tokens_trained` are the tokens whose log-probability enters the loss with a weight other than 0.
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
from pathlib import Path
from typing import ClassVar

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
sys.path.insert(0, str(Path(__file__).parent / "reference"))

import torch
from prompts import PROMPTS, next_prompt

from comlrl_envs import from_reward
from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, SamplingParams
from comlrl_learners.algorithms.reinforce import Reinforce


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


class Meter(Reinforce):
    """The algorithm, counting what it samples and trains."""

    tokens_generated = tokens_trained = 0
    rewards: ClassVar[list[float]] = []

    def collect(self, visits):  # type: ignore[no-untyped-def]
        """Collect, and count."""
        batch = super().collect(visits)
        Meter.tokens_generated += batch.stats.tokens
        for samples in batch.samples.values():
            Meter.tokens_trained += sum(len(s.completion.ids) for s in samples if s.advantage != 0)
        Meter.rewards += [edge.reward for root in batch.roots for node in root.subtree() for edge in node.edges]
        return batch


class MeteredTrainer(MAGRPOTrainer):
    """MAGRPO with the meter."""

    algorithm_class = Meter


def main() -> None:
    """Run once and print the line."""
    options = parse()
    torch.set_num_threads(1)
    rows = [{"prompt": PROMPTS[i % len(PROMPTS)]} for i in range(options.items)]
    env = from_reward(rows, length_ratio, feedback=try_again, max_turns=options.turns)
    config = MAGRPOConfig(
        seed=options.seed,
        num_epochs=options.epochs,
        items_per_rollout=options.items_per_rollout,
        num_generations=options.generations,
        learning_rate=options.lr,
        agent_threads=options.threads > 1,
        output_dir=None,
        sampling=SamplingParams(
            temperature=options.temperature,
            top_p=options.top_p,
            top_k=options.top_k,
            max_new_tokens=options.max_new_tokens,
            min_new_tokens=options.min_new_tokens,
        ),
    )
    trainer = MeteredTrainer(env=env, policies=options.model, config=config)
    cpu, wall = time.process_time(), time.perf_counter()
    trainer.train()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    rewards, count = Meter.rewards, len(Meter.rewards)
    line = {
        "cpu_s": round(cpu, 3),
        "wall_s": round(wall, 3),
        "joint_actions": count,
        "per_cpu_s": round(count / cpu, 2),
        "per_wall_s": round(count / wall, 2),
        "tokens_generated": Meter.tokens_generated,
        "tokens_trained": Meter.tokens_trained,
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "reward_mean": round(statistics.mean(rewards), 4),
        "quarters": slices(rewards, 4),
    }
    if options.curve:
        line["curve"] = slices(rewards, 20)
    print(json.dumps(line))


def slices(rewards: list[float], parts: int) -> list[float]:
    """Means of equal slices, in scoring order."""
    size = len(rewards)
    return [round(statistics.mean(rewards[i * size // parts : (i + 1) * size // parts]), 4) for i in range(parts)]


def parse() -> argparse.Namespace:
    """The command line; names and defaults as in the reference's runner."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    for name, default in (
        ("turns", 1), ("generations", 8), ("items", 10), ("epochs", 1), ("top-k", 50), ("seed", 0),
        ("max-new-tokens", 64), ("min-new-tokens", 0), ("items-per-rollout", 10), ("threads", 1),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, fraction in (("temperature", 0.6), ("top-p", 0.6), ("lr", 5e-5)):
        parser.add_argument(f"--{name}", type=float, default=fraction)
    parser.add_argument("--curve", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
