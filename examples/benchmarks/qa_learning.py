"""What tiny policies learn on the demo sets of question answering: held-out worth before, after, and without messages.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python qa_learning.py --seeds 0 1 2

The prompts of the games are beyond the tiny policy; `prompts=` says the same in the few short forms that it knows, and
only what the agent is shown in the game: each has its own documents. It cannot cite evidence, which carries no weight
here, and answers count if they are exactly right.

`alone` is the most that any team could earn whose members tell each other nothing, computed from the demo facts, where
that is known; `closed` is the trained team when what it tells teammates is emptied (`protocol="solo"`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from comlrl_envs import TextEnv, make
from comlrl_envs.evaluation import Report, clustered_mean, evaluate
from comlrl_envs.qa.demo.darker_things import chance_alone, darker_things
from comlrl_envs.qa.demo.kept_things import kept_things, unheard_f1
from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, SamplingParams
from comlrl_learners.hosting import HostedPolicy

SAMPLES = 4
WORKERS = ("worker_1", "worker_2", "worker_3", "worker_4")


@dataclass(frozen=True)
class Plan:
    """How an id is played and trained.

    Attributes:
        settings: Keyword arguments of the environment.
        prompts: In the tiny policy's forms.
        alone: The most that a team earns on the held-out tasks whose members tell each other nothing; None if unknown.
        rounds: Of training, `items` tasks and `generations` replies an agent and turn each.
    """

    settings: Mapping[str, Any]
    prompts: str | Mapping[str, str]
    alone: float | None = None
    rounds: int = 40
    items: int = 12
    generations: int = 8
    learning_rate: float = 5e-4
    max_new_tokens: int = 32

    def env(self, id: str, split: str) -> TextEnv:
        """The environment of a split; nothing but the prompt and the news is shown."""
        return make(id, source="demo", split=split, memory="none", prompts=self.prompts, **self.settings)


def alone_with_half() -> float:
    """The worth of two readers who each hold one of the two facts and hear nothing, at best."""
    rows = darker_things("eval")
    texts = [(row, paragraph["sentences"][0]) for row in rows for paragraph in row["paragraphs"]]
    return 0.95 * statistics.fmean(chance_alone(row, text, "eval") for row, text in texts) + 0.05


PLANS: dict[str, Plan] = {
    "qa/split_context": Plan(
        {
            "max_turns": 2,
            "feedback": "peers",
            "answer_metric": "em",
            "weights": {"answer": 0.95, "support": 0.0},
        },
        "{texts} {question} Send a message and the answer.",
        alone=alone_with_half(),
    ),
    "qa/debate": Plan(
        {"max_turns": 2, "feedback": "peers"}, "{question} Put the answer in tags.", rounds=20, generations=4
    ),
    "qa/workers_manager": Plan(
        {"max_turns": 2, "feedback": "peers"},
        {**dict.fromkeys(WORKERS, "Tell your teammate this fact: {texts}"), "manager": "Answer the question."},
        alone=0.80 * unheard_f1(kept_things("eval")) + 0.05,
    ),
    "qa/retrieve_answer": Plan(
        {"max_turns": 2, "feedback": "peers"},
        {
            "rewriter": "Tell your teammate this fact: {question}",
            "selector": "Write a message: {question}",
            "answerer": "{question} Put the answer in tags.",
        },
        max_new_tokens=48,
    ),
}


def main() -> None:
    """Train once per id and seed and print the table."""
    options = parse()
    torch.set_num_threads(1)
    print("| id | seed | before | after | gain, 95 % | alone | closed | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for id in options.ids:
        for seed in options.seeds:
            plan = replace(PLANS[id], rounds=options.rounds or PLANS[id].rounds)
            print(f"| {id} | {seed} | {row(id, plan, seed)} |", flush=True)


def row(id: str, plan: Plan, seed: int) -> str:
    """Train one team, and measure it on equal episodes before, after, and with its channel closed."""
    config = MAGRPOConfig(
        seed=seed,
        learning_rate=plan.learning_rate,
        schedule="linear",
        num_epochs=1000,
        max_steps=plan.rounds,
        items_per_rollout=plan.items,
        num_generations=plan.generations,
        eval_every=0,
        sampling=SamplingParams(temperature=1.0, max_new_tokens=plan.max_new_tokens),
        output_dir=None,
    )
    held_out = plan.env(id, "eval")
    trainer = MAGRPOTrainer(env=plan.env(id, "train"), eval_env=held_out, policies="tiny", config=config)
    team = {agent: HostedPolicy(policy, "tiny") for agent, policy in trainer.team.items()}
    before = evaluate(held_out, team, samples=SAMPLES)
    started = time.process_time()
    trainer.train()
    spent = time.process_time() - started
    after = evaluate(held_out, team, samples=SAMPLES)
    closed = evaluate(held_out, team, samples=SAMPLES, protocol="solo") if held_out.game.scenario.channel else None
    gain = clustered_mean(differences(before, after))
    cells = [mean(before), mean(after), f"{gain.mean:.3f} [{gain.low:.3f}, {gain.high:.3f}]"]
    alone = "-" if plan.alone is None else f"{plan.alone:.3f}"
    return " | ".join([*cells, alone, "-" if closed is None else mean(closed), f"{spent:.0f}"])


def differences(before: Report, after: Report) -> list[list[float]]:
    """What each held-out episode gained, by task."""
    gains: dict[str, list[float]] = {}
    for early, late in zip(before.records, after.records, strict=True):
        assert (early.task, early.sample) == (late.task, late.sample)
        gains.setdefault(early.task, []).append(late.turns[-1].reward - early.turns[-1].reward)
    return list(gains.values())


def mean(report: Report) -> str:
    """The reward of the last turns."""
    assert report.reward is not None
    return f"{report.reward.mean:.3f}"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ids", nargs="+", default=list(PLANS), choices=list(PLANS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    main()
