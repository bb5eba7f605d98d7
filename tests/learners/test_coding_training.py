"""Training on code that agents write: twenty rounds leave nothing behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.envs.sandbox.processes import alive, soon

ROOT = Path(__file__).resolve().parents[2]
TRAINING = """
import json, os, tempfile, torch
import comlrl_envs
from comlrl_envs.sandbox.server import descendants
from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, SamplingParams

torch.set_num_threads(1)
config = MAGRPOConfig(
    max_steps=20, items_per_rollout=8, num_generations=4, learning_rate=5e-4, num_epochs=3, eval_every=0,
    eval_samples=1, sampling=SamplingParams(temperature=0.8, max_new_tokens=40), output_dir=None,
)
env = comlrl_envs.make("coding/humaneval", source="demo")
trainer = MAGRPOTrainer(env=env, policies="tiny", config=config)
seen = []
update = trainer.algorithm.update

def measured(*given):
    result = update(*given)
    pages = int(open("/proc/self/statm").read().split()[1])
    seen.append({
        "processes": sorted(descendants(os.getpid())),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "folders": len(os.listdir(tempfile.gettempdir())),
        "megabytes": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
    })
    return result

trainer.algorithm.update = measured
result = trainer.train()
print(json.dumps({"rounds": result.rounds, "steps": result.env_steps, "seen": seen}))
"""


# What the allocator is given back it gives back too, so that what is left is what is held.
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_MMAP_THRESHOLD_": "65536"}


def test_twenty_rounds_on_code_leak_no_process_descriptor_folder_or_memory(tmp_path):
    environment = {**os.environ, **ALLOCATOR, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", TRAINING], capture_output=True, text=True, timeout=300, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["rounds"] == 20 and len(told["seen"]) == 20
    early, last = told["seen"][5], told["seen"][-1]
    # The same workers from the first round to the last, and nothing that a program started.
    assert early["processes"] and last["processes"] == early["processes"]
    assert last["descriptors"] == early["descriptors"]
    assert last["folders"] == early["folders"]
    assert last["megabytes"] - early["megabytes"] < 20
    assert soon(lambda: not any(map(alive, last["processes"])))
    assert not list(tmp_path.iterdir())
