"""What untrained policies earn on every shipped id: the table of `docs/benchmarks.md`.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python policies.py

One episode a task of the demo evaluation split, four with a model; mean reward with its 95 % interval over tasks.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from comlrl_envs import evaluate, list_envs, make

POLICIES = {"random": 1, "empty": 1, "oracle": 1, "hf:tiny?max_new_tokens=64": 4}
"""Policies with their episodes a task."""


def main() -> None:
    """Evaluate each policy on each id and print the table."""
    print(f"| id | range | {' | '.join(POLICIES)} |\n| --- | --- |{' --- |' * len(POLICIES)}")
    for id in list_envs():
        env = make(id, source="demo", split="eval")
        cells = [cell(id, policy, samples) for policy, samples in POLICIES.items()]
        low, high = env.game.reward_range
        print(f"| `{id}` | {low:g} to {high:g} | {' | '.join(cells)} |", flush=True)


def cell(id: str, policy: str, samples: int) -> str:
    """One mean with its interval."""
    env = make(id, source="demo", split="eval")
    reward = evaluate(env, policy, samples=samples, k=(1,)).reward
    return f"{reward.mean:.3f} [{reward.low:.3f}, {reward.high:.3f}]"


if __name__ == "__main__":
    main()
