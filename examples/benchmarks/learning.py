"""What a team learns on `writing/length_ratio` from `policies="tiny"`, with the CPU seconds it takes.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python learning.py --seeds 0 1 2
    python learning.py --seeds 0 1 2 --target-min 3 --target-max 4
    python learning.py --seeds 0 --joint-actions 16000
    python learning.py --seeds 0 1 2 --shared            # one policy, one prompt: nothing can tell the agents apart
    python learning.py --seeds 0 1 2 --shared --roles    # one policy, role words
    python learning.py --seeds 0 1 2 --algorithm iac     # or maac, madpo, marloo, maremax, mareinforce

Prints a table: mean reward on held-out topics before and after (180 sampled episodes at the training temperature), the
curve between, and the CPU seconds of training without the evaluations.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from comlrl_envs import make
from comlrl_learners import (
    IACTrainer,
    LLMPolicy,
    MAACTrainer,
    MADPOTrainer,
    MAGRPOTrainer,
    MAREINFORCETrainer,
    MAReMaxTrainer,
    MARLOOTrainer,
    SamplingParams,
)

TRAINERS = {
    trainer.name: trainer
    for trainer in (
        MAGRPOTrainer, MAREINFORCETrainer, MARLOOTrainer, MAReMaxTrainer, IACTrainer, MAACTrainer, MADPOTrainer,
    )
}  # fmt: skip


def timed(trainer_class: type) -> type:
    """The trainer, knowing how long its evaluations took."""

    class Timed(trainer_class):  # type: ignore[misc]
        evaluation_cpu = 0.0

        def _evaluate(self):  # type: ignore[no-untyped-def]
            started = time.process_time()
            result = super()._evaluate()
            self.evaluation_cpu += time.process_time() - started
            return result

    return Timed


def main() -> None:
    """Train once per seed and print the table."""
    options = parse()
    torch.set_num_threads(1)
    print("| seed | joint actions | before | after | CPU s | curve |\n| --- | --- | --- | --- | --- | --- |")
    for seed in options.seeds:
        sampling = SamplingParams(temperature=0.8, max_new_tokens=64)
        trainer_class = TRAINERS[options.algorithm]
        config = trainer_class.config_class(
            seed=seed,
            learning_rate=options.learning_rate,
            schedule=options.schedule,
            max_env_steps=options.joint_actions,
            num_epochs=-(-options.joint_actions // 480),
            eval_every=-(-options.joint_actions // 80 // 6),
            eval_samples=6,
            sampling=sampling,
            output_dir=None,
        )
        env = make(
            "writing/length_ratio", target_min=options.target_min, target_max=options.target_max, roles=options.roles
        )
        policies = LLMPolicy.load("tiny", sampling) if options.shared else "tiny"
        trainer = timed(trainer_class)(env=env, policies=policies, config=config)
        started = time.process_time()
        result = trainer.train()
        cpu = time.process_time() - started - trainer.evaluation_cpu
        values = [value for _, value in result.curve()]
        curve = " ".join(f"{value:.3f}" for value in values)
        print(f"| {seed} | {result.env_steps} | {values[0]:.3f} | {values[-1]:.3f} | {cpu:.0f} | {curve} |", flush=True)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--algorithm", choices=sorted(TRAINERS), default="magrpo")
    parser.add_argument("--joint-actions", type=int, default=4800)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--schedule", default="linear", choices=("linear", "constant", "cosine"))
    parser.add_argument("--target-min", type=float, default=2.0)
    parser.add_argument("--target-max", type=float, default=3.0)
    parser.add_argument("--roles", action="store_true")
    parser.add_argument("--shared", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
