"""What must hold across processes: replay, spawn, imports, memory, speed."""

import gc
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import comlrl_envs

ROOT = Path(__file__).resolve().parents[2]
PAIR = {"summarizer": "short text", "elaborator": "a text that is a good deal longer"}

REPLAY = """
import hashlib, json, sys
import comlrl_envs
from tests_toys import turn_taking_env
log = []
for env in (comlrl_envs.make("writing/length_ratio", max_turns=4, feedback="levels"), turn_taking_env()):
    for seed in (0, 1, 2**70):
        log.append(env.reset(seed=seed))
        turn = 0
        while env.agents:
            turn += 1
            log.append(env.step({a: a * turn + "é" for a in env.agents}))
            log.append(env.get_state())
    log.append([env.action_space(a).seed(3) and env.action_space(a).sample() for a in env.possible_agents])
    log.append([env.reset()[0] for _ in range(5)])
print(json.dumps(log))
"""


def run(code: str, hash_seed: str = "0") -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_replay_is_byte_equal_under_any_hash_seed():
    code = REPLAY.replace("from tests_toys", "sys.path.insert(0, 'tests')\nfrom envs.toys")
    first, second = run(code, "0"), run(code, "4242")
    assert first == second
    assert len(json.loads(first)) > 30


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


def _play(env, queue):
    env.step(PAIR)
    queue.put((env.state(), env.episode.reward, env.spec.id, env.reset()[0]))


def test_an_environment_in_mid_episode_is_picklable_under_spawn():
    env = comlrl_envs.make("writing/length_ratio", max_turns=3)
    env.reset(seed=0)
    env.step(PAIR)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_play, args=(env, queue))
    child.start()
    answer = queue.get(timeout=60)
    child.join(timeout=60)
    _play(env, here := context.Queue())
    assert child.exitcode == 0
    assert answer == here.get(timeout=10)


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
