"""What tiny policies learn on the demo sets of the coding family: held-out tests passed, before and after.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python coding_learning.py --seeds 0 1 2

The tiny policy knows code in a few short forms of prompt. It reads the prompts of `coding/humaneval` and `coding/mbpp`
as the games write them. In the other two they are beyond it, so they come in its forms, by `prompts=`: a helper is
asked for the first step of the problem, main reads that and the whole problem, and each coder is shown every second
method.

The measure is the share of an episode's scoring tests that pass.
"""

from __future__ import annotations

import argparse
import ast
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from gains import trained

from comlrl_envs import make
from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, SamplingParams

Writer = Callable[[Mapping[str, Any]], str]
SAMPLES = 4
CODERS = 2


@dataclass(frozen=True)
class Schedule:
    """How an id is trained: rounds of 16 tasks and 8 replies an agent."""

    rounds: int = 30
    learning_rate: float = 5e-4
    temperature: float = 1.0


def helper(row: Mapping[str, Any]) -> str:
    """The first step of the problem, as the tiny policy is asked for a helper."""
    _, variable, says = function(row)
    return f"Write a helper aux({variable}) that {first_step(says)}."


def main_function(row: Mapping[str, Any]) -> str:
    """The whole problem, as it is asked for a function that calls one."""
    name, variable, says = function(row)
    return f"The helper aux({variable}) {first_step(says)}. Write {name}({variable}) that calls aux and {says}."


def first_step(says: str) -> str:
    """What is done first in a sentence of two steps."""
    return says.split(" and ")[0]


def function(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Name, argument and sentence of a problem with a docstring."""
    node = ast.parse(row["prompt"]).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node.name, node.args.args[0].arg, (ast.get_docstring(node) or "").split(".")[0].removeprefix("It ")


def methods_from(place: int) -> Writer:
    """Every second method of a class, from a place on, as functions to complete."""

    def writer(row: Mapping[str, Any]) -> str:
        body = next(node for node in ast.parse(row["skeleton"]).body if isinstance(node, ast.ClassDef)).body
        stubs = [node for node in body if isinstance(node, ast.FunctionDef) and ast.get_docstring(node)]
        lines = [ast.unparse(node).splitlines() for node in stubs[place::CODERS]]
        plain = ["\n".join(line for line in each if not line.startswith("@")) for each in lines]
        return "\n".join(["Complete this function:", *plain])

    return writer


PROMPTS: dict[str, dict[str, Writer] | None] = {
    "coding/humaneval": None,
    "coding/mbpp": None,
    "coding/coop_humaneval": {"helper": helper, "main": main_function},
    "coding/classeval": {f"coder_{place + 1}": methods_from(place) for place in range(CODERS)},
}
SCHEDULES = {"coding/classeval": Schedule(rounds=40, learning_rate=3e-4, temperature=0.8)}


def main() -> None:
    """Train once per id and seed and print the table."""
    options = parse()
    torch.set_num_threads(1)
    print("| id | seed | before | after | gain, 95 % | CPU s |\n| --- | --- | --- | --- | --- | --- |")
    for id in options.ids:
        for seed in options.seeds:
            schedule = SCHEDULES.get(id, Schedule())
            config = MAGRPOConfig(
                seed=seed,
                learning_rate=schedule.learning_rate,
                schedule="linear",
                num_epochs=100,
                max_steps=schedule.rounds,
                items_per_rollout=16,
                num_generations=8,
                eval_every=0,
                eval_samples=SAMPLES,
                sampling=SamplingParams(temperature=schedule.temperature, max_new_tokens=64),
                output_dir=None,
            )
            env = make(id, source="demo", prompts=PROMPTS[id])
            gain = trained(MAGRPOTrainer(env=env, policies="tiny", config=config), tests_passed)
            print(f"| {id} | {seed} | {gain.cells()}", flush=True)


def tests_passed(edge: Any) -> float:
    """The share of the scoring tests that a joint action passes."""
    return edge.score.metrics["tests_num"] / edge.score.metrics["tests_den"]


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ids", nargs="+", default=list(PROMPTS), choices=list(PROMPTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    return parser.parse_args()


if __name__ == "__main__":
    main()
