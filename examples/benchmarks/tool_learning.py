"""What tiny policies learn on the demo sets of tool use: held-out reward before and after.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python tool_learning.py --seeds 0 1 2

The prompts of the games are beyond the tiny policy; `prompts=` says the same in the one short form that it knows, with
the functions that the agent is shown. In `tool_use/multi_turn` both agents read the request, each holds the functions
of one machine, and an episode is one request of one turn: the tiny policy writes calls, but passes no request on.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from gains import trained

from comlrl_envs import make
from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, SamplingParams

PROMPT = "Functions: {signatures}.\nRequest: {request}.\nReply in Python."
SAMPLES = 4
SETTINGS: dict[str, Mapping[str, Any]] = {
    "tool_use/parallel": {},
    "tool_use/multi_turn": {"reads": "all", "rounds": 1, "num_requests": 1, "max_turns": 1},
}


def main() -> None:
    """Train once per id and seed and print the table."""
    options = parse()
    torch.set_num_threads(1)
    print("| id | seed | before | after | gain, 95 % | CPU s |\n| --- | --- | --- | --- | --- | --- |")
    for id in options.ids:
        for seed in options.seeds:
            config = MAGRPOConfig(
                seed=seed,
                learning_rate=5e-4,
                schedule="linear",
                num_epochs=100,
                max_steps=options.rounds,
                items_per_rollout=16,
                num_generations=8,
                eval_every=0,
                eval_samples=SAMPLES,
                sampling=SamplingParams(temperature=1.0, max_new_tokens=48),
                output_dir=None,
            )
            env = make(id, source="demo", prompts=PROMPT, memory="none", **SETTINGS[id])
            gain = trained(MAGRPOTrainer(env=env, policies="tiny", config=config), reward)
            print(f"| {id} | {seed} | {gain.cells()}", flush=True)


def reward(edge: Any) -> float:
    """What the joint action was paid."""
    return float(edge.reward)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ids", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=30)
    return parser.parse_args()


if __name__ == "__main__":
    main()
