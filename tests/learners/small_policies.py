"""Helpers of the trainers' tests: short runs of small policies, and what is compared between them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, Qwen2Config

from comlrl_envs import make
from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, SamplingParams

from .small import LLAMA_LIKE, policy, tokenizer

GAME = "writing/length_ratio"
AGENTS = ("summarizer", "elaborator")
SHORT = SamplingParams(max_new_tokens=8)
TIMED = ("/tokens_per_s", "/time/", "/time_s")


def config(cls=MAGRPOConfig, **given):
    """A run of one update on two tasks, which writes nothing unless told to."""
    return cls(
        **{
            "max_steps": 1,
            "items_per_rollout": 2,
            "num_generations": 2,
            "eval_samples": 1,
            "learning_rate": 1e-3,
            "output_dir": None,
            "sampling": SHORT,
            **given,
        }
    )


def game(split="train[:4]", **rules):
    return make(GAME, split=split, **rules)


def held_out(**rules):
    return make(GAME, split="eval[:3]", **rules)


def random_team():
    """Two policies whose rounds take hundredths of a second."""
    return [policy(seed=seed, temperature=1.0, max_new_tokens=8) for seed in (1, 2)]


def trainer(env=None, policies=None, eval_env=None, references=None, critics=None, cls=MAGRPOTrainer, **given):
    return cls(
        env=game() if env is None else env,
        policies=random_team() if policies is None else policies,
        eval_env=held_out() if eval_env is None else eval_env,
        references=references,
        critics=critics,
        config=config(cls.config_class, **given),
    )


def weights(of):
    """All weights of a trainer's team, by agent."""
    return {
        agent: torch.cat([p.detach().flatten() for p in policy.model.parameters()]) for agent, policy in of.team.items()
    }


def same_weights(one, other):
    return all(torch.equal(found, weights(other)[agent]) for agent, found in weights(one).items())


def measured(rows):
    """Rows without what a clock told."""
    return [{name: value for name, value in row.items() if not any(t in name for t in TIMED)} for row in rows]


def rows_of(folder):
    """The rows of `metrics.jsonl`, every line of which must be strict JSON that ends in a newline."""
    text = (Path(folder) / "metrics.jsonl").read_text(encoding="utf-8")
    assert text.endswith("\n")

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def save_classifier(folder, labels=1, seed=0):
    """A random sequence classifier with its tokenizer."""
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_config(Qwen2Config(**LLAMA_LIKE, num_labels=labels))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.15)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def command(*arguments):
    """`comlrl-train` in a process of its own."""
    return [sys.executable, "-m", "comlrl_learners", *map(str, arguments)]


def environment(**more):
    """Variables for such a process: one thread, and this checkout's packages."""
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", **more}
