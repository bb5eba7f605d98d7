"""The same work through the reference and through this project, in turn, and the medians of their ratios.

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive python paired.py --reference .venv-reference/bin/python --model DIR

Runs each side once per pair, each in a process of its own: replies forced to 64 tokens, T = 1, the whole distribution.
`--turns 2` plays the tree of two turns with K = 4. `--threads` compares this project with one and with two threads.
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


def run(python: str, script: Path, arguments: list[str]) -> dict[str, Any]:
    """Run one side and read its line."""
    done = subprocess.run([python, str(script), *arguments], capture_output=True, text=True, env=os.environ)
    if done.returncode:
        sys.exit(f"{script.name} failed:\n{done.stderr[-2000:]}")
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return line


def main() -> None:
    """Run the pairs and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", help="Python of the reference's virtual environment.")
    parser.add_argument("--model", required=True, help="Folder of the model that both sides train.")
    parser.add_argument("--turns", type=int, default=1, choices=(1, 2))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", action="store_true", help="One Python thread per agent against one for both.")
    options = parser.parse_args()
    work = [
        "--model",
        options.model,
        "--turns",
        str(options.turns),
        "--generations",
        "8" if options.turns == 1 else "4",
    ]
    ours = (sys.executable, HERE / "run_ours.py", [*work, *FORCED])
    if options.threads:
        other = (sys.executable, HERE / "run_ours.py", [*work, *FORCED, "--items", "40"])
        ours = (*ours[:2], [*other[2], "--threads", "2"])
    elif options.reference:
        other = (options.reference, HERE / "reference" / "run_reference.py", [*work, *FORCED])
    else:
        parser.error("give --reference, or --threads")
    pairs = [(run(*other), run(*ours)) for _ in range(options.pairs)]
    names = ("one thread", "two threads") if options.threads else ("reference", "ours")
    print("| figure | " + " | ".join(names) + " | median ratio |\n| --- | --- | --- | --- |")
    for key in ("cpu_s", "wall_s", "peak_rss_mb", "joint_actions", "tokens_generated", "tokens_trained"):
        left, right = ([pair[side][key] for pair in pairs] for side in (0, 1))
        ratio = statistics.median(one / two for one, two in zip(left, right, strict=True))
        print(f"| {key} | {statistics.median(left):.6g} | {statistics.median(right):.6g} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
