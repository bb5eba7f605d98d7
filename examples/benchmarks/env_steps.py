"""How many `env.step` calls of 1 kB texts a processor second holds: the environments' own share of a training run.

    python examples/benchmarks/env_steps.py

Ten turns, memory of one exchange; only `step` is timed. The second figure is the same cost in units of a fixed piece of
plain Python work, so that it can be compared between machines of different speed.
"""

import json
import statistics
import time
from collections.abc import Callable

import comlrl_envs

EPISODES, TURNS = 20, 10


def yardstick() -> float:
    """Processor seconds of a fixed piece of plain Python work (dicts, strings, JSON)."""
    start = time.process_time()
    for _ in range(300):
        row = {str(length): "x" * length for length in range(40)}
        json.dumps(sorted(row.items()))
        "".join(f"{key}:{text}" for key, text in row.items())
    return time.process_time() - start


def step_seconds(env: comlrl_envs.TextEnv) -> float:
    """Processor seconds of one `step`, the mean of 200."""
    actions = {"summarizer": "x" * 1000, "elaborator": "y" * 1000}
    spent = 0.0
    for seed in range(EPISODES):
        env.reset(seed=seed)
        start = time.process_time()
        for _ in range(TURNS):
            env.step(actions)
        spent += time.process_time() - start
    return spent / (EPISODES * TURNS)


def measure(tries: int = 30, unit: Callable[[], float] = yardstick) -> tuple[float, float]:
    """Steps a second and steps a unit: medians over `tries`, each step timed beside its unit."""
    env = comlrl_envs.make("writing/length_ratio", max_turns=TURNS, memory="last")
    step_seconds(env)
    pairs = [(step_seconds(env), unit()) for _ in range(tries)]
    return 1 / statistics.median(step for step, _ in pairs), 1 / statistics.median(step / work for step, work in pairs)


if __name__ == "__main__":
    a_second, a_unit = measure()
    print(f"{a_second:,.0f} steps per processor second; {a_unit:.0f} steps per unit of plain Python work")
