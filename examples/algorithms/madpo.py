"""MADPO: pairs of joint replies, the better of which becomes more likely; from the team itself, or from a file.

A first team samples its pairs round by round, and learns from those of the last three rounds. The pairs that it wrote
are gathered in one file, and a second team learns from that file alone: it samples nothing, as with pairs from people.

Expect .85 from .46 with pairs of its own, and .60 from the file alone, which nobody refreshes: one CPU minute.
"""

import argparse
import json
import tempfile
from pathlib import Path

from comlrl_learners import MADPOConfig, MADPOTrainer, SamplingParams

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=20, help="rounds of 80 joint replies")
rounds = parser.parse_args().rounds
sampling = SamplingParams(temperature=0.8, max_new_tokens=64)

with tempfile.TemporaryDirectory() as folder:
    config = MADPOConfig(
        learning_rate=1e-3, schedule="linear", max_steps=rounds, pairs_per_node=4, replay="nearest_k", replay_k=3,
        sampling=sampling, output_dir=folder,
    )  # fmt: skip
    first = MADPOTrainer(env="writing/length_ratio", policies="tiny", config=config).train()
    files = sorted((first.folder / "preferences").glob("round-*.json"))
    pairs = [pair for path in files for pair in json.loads(path.read_text())["pairs"]]
    gathered = Path(folder, "pairs.json")
    gathered.write_text(json.dumps(pairs))
    config = MADPOConfig(
        learning_rate=3e-4, schedule="linear", max_steps=1, minibatch_size=40, pairs_file=str(gathered),
        sampling=sampling, output_dir=None,
    )  # fmt: skip
    second = MADPOTrainer(env="writing/length_ratio", policies="tiny", config=config).train()

best = max(pairs, key=lambda pair: pair["winner_reward"] - pair["loser_reward"])
for half in ("winner", "loser"):
    print(f"{half}, reward {best[f'{half}_reward']:.2f}: {' | '.join(best[f'{half}_completions'])}")
for name, result in (("own pairs", first), ("file alone", second)):
    before, after = (reward for _, reward in result.curve())
    print(f"{name:10s} {len(pairs)} pairs: reward {before:.3f} -> {after:.3f}")
