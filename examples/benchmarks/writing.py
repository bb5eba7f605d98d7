"""What two tiny policies learn on the demo sets of `writing/tldr` and `writing/arxiv`, in the strict preset.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python writing.py --seeds 0 1 2

`min_words=8`, since the published lower limit of the arXiv game, 128 words, is beyond this policy. Prints, per id and
seed, the mean held-out reward before and after training and the 95 % interval of the gain: differences of equal tasks,
clustered by task.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from gains import trained

from comlrl_envs import make
from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, SamplingParams

SAMPLES = 6


def main() -> None:
    """Train once per id and seed and print the table."""
    options = parse()
    torch.set_num_threads(1)
    print("| id | seed | before | after | gain, 95 % | CPU s |\n| --- | --- | --- | --- | --- | --- |")
    for id in options.ids:
        for seed in options.seeds:
            print(row(id, seed, options), flush=True)


def row(id: str, seed: int, options: argparse.Namespace) -> str:
    """One run as a line of the table."""
    config = MAGRPOConfig(
        seed=seed,
        learning_rate=options.learning_rate,
        schedule="linear",
        num_epochs=100,
        max_steps=options.rounds,
        items_per_rollout=8,
        eval_every=0,
        eval_samples=SAMPLES,
        sampling=SamplingParams(temperature=0.8, max_new_tokens=96),
        output_dir=None,
    )
    env = make(id, source="demo", reward="strict", min_words=8)
    trainer = MAGRPOTrainer(env=env, policies="tiny", config=config)
    return f"| {id} | {seed} | {trained(trainer, lambda edge: edge.reward).cells()}"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ids", nargs="+", default=["writing/tldr", "writing/arxiv"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
