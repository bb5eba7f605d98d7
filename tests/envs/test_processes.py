"""What must hold across processes: imports, memory, speed (replay and pickling: `comlrl_envs.testing`)."""

import gc
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import comlrl_envs

ROOT = Path(__file__).resolve().parents[2]
PAIR = {"summarizer": "short text", "elaborator": "a text that is a good deal longer"}


def run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light_and_quick():
    code = (
        "import sys, time; start = time.process_time(); import comlrl_envs; took = time.process_time() - start;"
        "comlrl_envs.make('writing/length_ratio').reset(seed=0);"
        "heavy = {'torch', 'transformers', 'datasets', 'rich', 'wandb', 'pandas'} & set(sys.modules);"
        "print(sorted(heavy), took)"
    )
    heavy, took = run(code).strip().rsplit(" ", 1)
    assert heavy == "[]"
    # Processor time on a busy machine; a quiet one takes 0.2 s.
    assert float(took) < 1.0


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_ten_thousand_episodes_leave_no_memory_behind():
    env = comlrl_envs.make("writing/length_ratio")

    def play(count):
        for _ in range(count):
            env.reset()
            env.step(PAIR)
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = play(500)
    assert play(10_000) - before < 5 * 2**20


def test_a_step_costs_less_than_a_180th_of_a_fixed_piece_of_python_work():
    """20,000 steps a second where that work takes 9 ms; in units, because machines and their neighbours differ."""
    benchmark = runpy.run_path(str(ROOT / "examples/benchmarks/env_steps.py"))
    _, steps_per_unit = benchmark["measure"](tries=20)
    assert steps_per_unit >= 180
