"""Steps of many coding environments at once, beside the time of the sandbox alone for the same programs.

Each round plays `VectorTextEnv.step` in 32 environments, with replies that no round before had (a constant in them
differs), so that nothing is remembered; then the sandbox runs the very jobs of that step. Rounds in turn, in one
process; medians are printed.

    python examples/benchmarks/coding_steps.py
    python examples/benchmarks/coding_steps.py --id coding/classeval --envs 32 --rounds 9
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable, Iterator
from typing import Any

import comlrl_envs
from comlrl_envs.sandbox import Job, Sandbox


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", default="coding/humaneval")
    parser.add_argument("--envs", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    ran: list[tuple[Sandbox, list[Job]]] = []
    run_many = Sandbox.run_many

    def noted(sandbox: Sandbox, jobs: Iterable[Job]) -> Any:
        kept: list[Job] = []
        ran.append((sandbox, kept))

        def passed_on() -> Iterator[Job]:
            for job in jobs:
                kept.append(job)
                yield job

        return run_many(sandbox, passed_on())

    envs = comlrl_envs.make_vec(options.id, options.envs, source="demo", max_turns=2)
    times: dict[str, list[float]] = {"steps": [], "sandbox": []}
    for number in range(-1, options.rounds):  # the first is for the workers to start
        envs.reset(seed=1000 * (number + 1))
        actions = [
            {agent: f"{reply}\n\nUNUSED = {number}\n" for agent, reply in env.game.oracle(env.episode).items()}
            for env in envs.envs
        ]
        ran.clear()
        Sandbox.run_many = noted  # type: ignore[method-assign]
        start = time.perf_counter()
        _, rewards, *_ = envs.step(actions)
        stepped = time.perf_counter() - start
        Sandbox.run_many = run_many  # type: ignore[method-assign]
        highest = envs.game.scenario.reward_range[1]
        assert all(each[agent] == highest for each in rewards for agent in each), rewards
        start = time.perf_counter()
        for sandbox, jobs in ran:
            sandbox.run_many(jobs)
        alone = time.perf_counter() - start
        if number >= 0:
            times["steps"].append(stepped)
            times["sandbox"].append(alone)
    steps, alone = (statistics.median(times[name]) for name in ("steps", "sandbox"))
    programs = sum(len(jobs) for _, jobs in ran)
    print(
        f"{options.id}: a step of {options.envs} environments ({programs} programs) {1000 * steps:.0f} ms, "
        f"the sandbox alone {1000 * alone:.0f} ms, ratio {steps / alone:.2f}"
    )


if __name__ == "__main__":
    main()
