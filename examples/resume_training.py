"""A run that stops half-way and goes on is the run that never stopped: the same figures, the same weights.

A learning-rate schedule that should not end with the first half has its horizon said from the start: `schedule_steps`.
Evaluations come every few rounds, since one at the end of the first half alone would be missing from the whole run.

Expect two times True, after about half a CPU minute.
"""

import argparse
import tempfile

from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, SamplingParams

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=5, help="rounds of each half")
half = parser.parse_args().rounds


def trainer(name, rounds):
    """A new trainer with fresh copies of the tiny model, as a new process would make it."""
    config = MAGRPOConfig(
        learning_rate=1e-3,
        schedule="linear",
        schedule_steps=2 * half,
        max_steps=rounds,
        eval_every=half,
        eval_samples=1,
        sampling=SamplingParams(temperature=0.8, max_new_tokens=32),
        output_dir=folder,
        run_name=name,
    )
    return MAGRPOTrainer(env="writing/length_ratio", policies="tiny", config=config)


def measured(row):
    """A row without what a clock told."""
    return {name: value for name, value in row.items() if "time" not in name and "tokens_per_s" not in name}


with tempfile.TemporaryDirectory() as folder:
    stopped = trainer("stopped", half).train()
    print(
        f"stopped after {stopped.rounds} rounds at {stopped.curve()[-1][1]:.6f}; kept {stopped.folder.name}/checkpoints"
    )
    second = trainer("stopped", 2 * half)
    resumed = second.train(resume=stopped.folder)
    print(f"went on to {resumed.rounds} rounds and {resumed.curve()[-1][1]:.6f}")
    uncut = trainer("uncut", 2 * half)
    whole = uncut.train()
    print(f"a run without a stop: {whole.rounds} rounds and {whole.curve()[-1][1]:.6f}")

same_rows = list(map(measured, resumed.rows)) == list(map(measured, whole.rows))
same_weights = all(second.team[agent].weight_digest() == uncut.team[agent].weight_digest() for agent in uncut.team)
print(f"all {len(whole.rows)} rows equal: {same_rows}; weights equal bit for bit: {same_weights}")
