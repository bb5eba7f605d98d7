"""MAGRPO: a text is as good as the joint replies that it was part of, beside the other texts of its group.

Every agent writes 4 texts a topic. "aligned" pairs them off, 4 joint replies; "cross" scores all 16 combinations, which
costs no writing, and tells what a text is worth with any partner rather than with one.

Expect about .95 either way from .46, in one CPU minute: four texts tell enough here, and 16 combinations no more.
"""

import argparse

from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, SamplingParams

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=30, help="rounds of 80 texts for each mode")
rounds = parser.parse_args().rounds

for joint_mode in ("aligned", "cross"):
    config = MAGRPOConfig(
        learning_rate=1e-3,
        schedule="linear",
        max_steps=rounds,
        num_generations=4,
        joint_mode=joint_mode,
        sampling=SamplingParams(temperature=0.8, max_new_tokens=64),
        output_dir=None,
    )
    result = MAGRPOTrainer(env="writing/length_ratio", policies="tiny", config=config).train()
    before, after = (reward for _, reward in result.curve())
    print(f"{joint_mode:8s} {80 * rounds} texts, {result.env_steps} joint replies: reward {before:.3f} -> {after:.3f}")
