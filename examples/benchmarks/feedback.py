"""What feedback between two turns is worth to a team before and after training, and when it is blanked.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python feedback.py --seeds 0 1 2

The game of `examples/multi_turn_feedback.py`. Prints a table: mean reward of the second turn less that of the first on
held-out topics, with its 95 % interval over topics, and the CPU seconds of training.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from multi_turn_feedback import blanked, make_trainer

from comlrl_learners.evaluation import EvaluationPlan, evaluate_team
from comlrl_learners.trainer import Trainer


def gains(trainer: Trainer, samples: int) -> np.ndarray:
    """Mean reward of the second turn less that of the first, by topic: both of its wishes, `samples` episodes each."""
    plan = EvaluationPlan(samples=samples, temperature=None, max_turns=None, discount=1.0, seed=trainer.config.seed)
    _, roots = evaluate_team(trainer.held_out, trainer.team, plan)
    first = [root.edges[0].reward for root in roots]
    second = [root.edges[0].child.edges[0].reward for root in roots]
    return (np.array(second) - np.array(first)).reshape(-1, 2 * samples).mean(axis=1)


def with_interval(values: np.ndarray) -> str:
    """Mean and normal 95 % interval."""
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.3f} [{values.mean() - half:.3f}, {values.mean() + half:.3f}]"


def main() -> None:
    """Train once per seed and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--samples", type=int, default=8)
    options = parser.parse_args()
    print("| seed | joint actions | before | after | growth | blanked | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for seed in options.seeds:
        seeing = make_trainer(seed, options.rounds)
        blind = make_trainer(seed, options.rounds, seeing.team, blanked)
        before = gains(seeing, options.samples)
        started = time.process_time()
        result = seeing.train()
        cpu = time.process_time() - started
        after, unseen = gains(seeing, options.samples), gains(blind, options.samples)
        found = [with_interval(values) for values in (before, after, after - before, unseen)]
        print(f"| {seed} | {result.env_steps} | {' | '.join(found)} | {cpu:.0f} |", flush=True)


if __name__ == "__main__":
    main()
