"""The same work through the reference and through this project, in turn, and the medians of their ratios.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python paired.py --reference .venv-reference/bin/python --model DIR

Runs each side once per pair, each in a process of its own, the other side first in every second pair: replies forced to
64 tokens, T = 1, the whole distribution. `--algorithm` takes one other than MAGRPO, `--turns 2` plays the tree of two
turns with K = 4. `--threads` compares this project with one and with two threads.

What both sides collect before an update is their own default: all ten items here, one or two in the reference. With
`--same-updates` this project updates as often as the reference does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FORCED = ["--temperature", "1", "--top-p", "1", "--top-k", "0", "--min-new-tokens", "64"]
REFERENCE_UPDATES = {
    "magrpo": ["--items-per-rollout", "2"],
    "iac": ["--items-per-rollout", "1"],
    "maac": ["--items-per-rollout", "1"],
    "madpo": ["--pairs-per-step", "2"],
}
"""Options of `run_ours.py` with which it takes the optimizer steps that the reference takes."""
FIGURES = (
    "cpu_s", "wall_s", "peak_rss_mb", "joint_actions", "tokens_generated", "pairs", "completions_trained",
    "tokens_trained", "optimizer_steps",
)  # fmt: skip

Side = tuple[str, Path, list[str]]


def run(python: str, script: Path, arguments: list[str]) -> dict[str, Any]:
    """Run one side and read its line."""
    done = subprocess.run([python, str(script), *arguments], capture_output=True, text=True, env=os.environ)
    if done.returncode:
        sys.exit(f"{script.name} failed:\n{done.stderr[-2000:]}")
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return line


def take_pairs(first: Side, second: Side, count: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Run both sides `count` times, side by side in time, in alternating order."""
    pairs = []
    for number in range(count):
        if number % 2 == 0:
            one, other = run(*first), run(*second)
        else:
            other, one = run(*second), run(*first)
        pairs.append((one, other))
        print(f"pair {number + 1}: {one['cpu_s']} and {other['cpu_s']} CPU s", file=sys.stderr, flush=True)
    return pairs


def main() -> None:
    """Run the pairs and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", help="Python of the reference's virtual environment.")
    parser.add_argument("--model", required=True, help="Folder of the model that both sides train.")
    parser.add_argument("--algorithm", choices=sorted(REFERENCE_UPDATES), default="magrpo")
    parser.add_argument("--turns", type=int, default=1, choices=(1, 2))
    parser.add_argument("--generations", type=int, help="Samples per agent and node: 8 in one turn, 4 in two.")
    parser.add_argument("--pairs-per-item", type=int, default=8, help="Preference pairs an item (MADPO).")
    parser.add_argument("--same-updates", action="store_true", help="As many optimizer steps here as in the reference.")
    parser.add_argument("--pairs", type=int, default=5, help="How often both sides run.")
    parser.add_argument("--threads", action="store_true", help="One Python thread per agent against one for both.")
    options = parser.parse_args()
    work = ["--model", options.model, "--algorithm", options.algorithm, "--turns", str(options.turns)]
    work += ["--generations", str(options.generations or (8 if options.turns == 1 else 4))]
    work += ["--pairs-per-item", str(options.pairs_per_item), *FORCED]
    ours: Side = (sys.executable, HERE / "run_ours.py", work)
    if options.threads:
        other: Side = (*ours[:2], [*work, "--items", "40"])
        ours = (*ours[:2], [*other[2], "--threads", "2"])
    elif options.reference:
        other = (options.reference, HERE / "reference" / "run_reference.py", work)
        if options.same_updates:
            ours = (*ours[:2], [*work, *REFERENCE_UPDATES[options.algorithm]])
    else:
        parser.error("give --reference, or --threads")
    pairs = take_pairs(other, ours, options.pairs)
    names = ("one thread", "two threads") if options.threads else ("reference", "ours")
    print("| figure | " + " | ".join(names) + " | median ratio | from | to |\n| --- | --- | --- | --- | --- | --- |")
    for key in (figure for figure in FIGURES if all(figure in line for pair in pairs for line in pair)):
        left, right = ([pair[side][key] for pair in pairs] for side in (0, 1))
        ratios = sorted(one / two for one, two in zip(left, right, strict=True))
        cells = [f"{statistics.median(values):.6g}" for values in (left, right)]
        cells += [f"{value:.2f}" for value in (statistics.median(ratios), ratios[0], ratios[-1])]
        print(f"| {key} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
