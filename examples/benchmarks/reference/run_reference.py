"""Train with the reference implementation (comlrl 1.4.3) on the length-ratio task and print one JSON line.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive VENV/bin/python run_reference.py --model DIR --turns 1
    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive VENV/bin/python run_reference.py --model DIR --algorithm iac

It runs in the virtual environment that ``setup_reference.sh`` makes and imports nothing of this project, so that both
sides of a pair are measured in processes of their own. ``DIR`` is a folder with a causal language model and its
tokenizer (see ``make_reference_models.py``); each of the two agents loads its own float32 copy of it. Evaluation, early
termination and the tracker are off, and one thread computes. In two turns (MAGRPO) the tree is the aligned one: K joint
actions at the root and K below each of them. ``builders.py`` holds the trainers and what is counted in each.

Fields of the line:
    cpu_s, wall_s: seconds of process time and of wall time around ``train()`` alone.
    joint_actions: how many joint actions were scored.
    tokens_generated: sampled tokens up to and with the first end-of-sequence token, over both agents.
    completions_trained, tokens_trained: completions that pass through the actors' forward with a gradient, one that is
        passed through twice counted twice, and the tokens whose log-probability enters the loss.
    optimizer_steps: steps of all optimizers, critics' included.
    pairs: preference pairs learnt from (MADPO).
    peak_rss_mb: peak resident memory of the process, imports and loading included.
    reward_mean, quarters: mean reward of all joint actions, and of each quarter of them in scoring order.
    curve: the same in 20 equal slices (with ``--curve``).
    by_turn: mean, quarters and curve of each turn by itself (with two turns).
    after: mean reward of fresh joint actions of the trained team, 16 a prompt (with ``--probe``).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import random
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("WANDB_MODE", "disabled")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
import transformers
from builders import BUILDERS, NUM_AGENTS, UPDATE_SIZE, Meter, probe
from datasets import Dataset
from prompts import PROMPTS
from transformers import AutoModelForCausalLM, AutoTokenizer

REFERENCE = "1.4.3"
SLICES = 20
QUARTERS = 4
PROBE_SAMPLES = 16


def slice_means(values: Sequence[float], count: int, digits: int = 4) -> list[float]:
    """Mean of each of ``count`` equal slices of ``values``, in order; empty slices are left out."""
    edges = [index * len(values) // count for index in range(count + 1)]
    parts = [values[start:end] for start, end in itertools.pairwise(edges)]
    return [round(statistics.fmean(part), digits) for part in parts if part]


def summarize(rewards: Sequence[float], curve: bool) -> dict[str, Any]:
    """Mean, quarters and, if asked, the curve of rewards in scoring order."""
    summary: dict[str, Any] = {
        "reward_mean": round(statistics.fmean(rewards), 4),
        "quarters": slice_means(rewards, QUARTERS),
    }
    if curve:
        summary["curve"] = slice_means(rewards, SLICES)
    return summary


def split_turns(rewards: Sequence[float], generations: int) -> list[list[float]]:
    """Split the rewards of two-turn trees by turn; a tree is scored root first, then child by child."""
    tree = generations + generations**2
    turns: list[list[float]] = [[], []]
    for index, reward in enumerate(rewards):
        turns[index % tree >= generations].append(reward)
    return turns


def peak_rss_mb() -> float:
    """Peak resident memory of this process in MiB."""
    unit = 1 if platform.system() == "Darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Train once and return the measured line."""
    if version("comlrl") != REFERENCE:
        raise SystemExit(
            f"expected comlrl {REFERENCE}, found {version('comlrl')}: make the venv with setup_reference.sh"
        )
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    random.seed(options.seed)
    np.random.seed(options.seed)
    torch.manual_seed(options.seed)

    meter = Meter()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    agents = [AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32) for _ in range(NUM_AGENTS)]
    for agent in agents:
        if options.min_new_tokens:
            agent.generation_config.min_new_tokens = options.min_new_tokens
        meter.watch_model(agent, tokenizer.eos_token_id)
    prompts = [PROMPTS[index % len(PROMPTS)] for index in range(options.items)]
    trainer = BUILDERS[options.algorithm](options, agents, tokenizer, Dataset.from_dict({"prompt": prompts}), meter)

    cpu, wall = time.process_time(), time.perf_counter()
    trainer.train()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall

    settings = {key: value for key, value in vars(options).items() if key not in ("model", "curve", "probe")}
    line = {
        "side": "reference",
        "model": os.path.basename(os.path.normpath(options.model)),
        **settings,
        "cpu_s": round(cpu, 2),
        "wall_s": round(wall, 2),
        "joint_actions": len(meter.rewards),
        "tokens_generated": meter.tokens_generated,
        "completions_trained": meter.completions_trained,
        "tokens_trained": meter.tokens_trained,
        "optimizer_steps": meter.optimizer_steps,
        "generate_calls": meter.generate_calls,
        "peak_rss_mb": peak_rss_mb(),
        **summarize(meter.rewards, options.curve),
    }
    if meter.pairs is not None:
        line["pairs"] = meter.pairs
    if options.turns > 1:
        line["by_turn"] = [summarize(part, options.curve) for part in split_turns(meter.rewards, options.generations)]
    if options.probe:
        line["after"] = round(probe(options, agents, tokenizer, PROBE_SAMPLES), 4)
    return line


def parse_options() -> argparse.Namespace:
    """Read the command line; the defaults are the reference's own sampling and the published measurement's sizes."""
    parser = argparse.ArgumentParser(description="Run the reference trainer on the length-ratio task.")
    parser.add_argument("--algorithm", choices=sorted(BUILDERS), default="magrpo")
    parser.add_argument("--model", required=True, help="folder with a causal language model and its tokenizer")
    parser.add_argument("--turns", type=int, choices=(1, 2), default=1)
    parser.add_argument("--generations", type=int, help="samples per agent and node (default: 8 in one turn, 4 in two)")
    parser.add_argument("--items", type=int, default=10, help="prompts an epoch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.6)
    parser.add_argument("--top-p", type=float, default=0.6)
    parser.add_argument("--top-k", type=int, default=50, help="0 turns it off")
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--buffer", type=int, help="what an agent collects before it updates (see UPDATE_SIZE)")
    parser.add_argument("--pairs-per-item", type=int, default=8, help="preference pairs an item (MADPO)")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--min-new-tokens", type=int, default=0, help="the maximum again: all replies are that long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--curve", action="store_true", help="add the reward curve in 20 slices")
    parser.add_argument("--probe", action="store_true", help="add what the trained team earns")
    options = parser.parse_args()
    if options.turns > 1 and options.algorithm != "magrpo":
        parser.error(f"{options.algorithm} is measured in one turn")
    if options.buffer is None:
        options.buffer = UPDATE_SIZE[options.algorithm]
    if options.generations is None:
        options.generations = 8 if options.turns == 1 else 4
    return options


def main() -> None:
    """Run with the command line's options; standard output gets the JSON line and nothing else."""
    options = parse_options()
    with contextlib.redirect_stdout(sys.stderr):
        line = run(options)
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
