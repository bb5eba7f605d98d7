"""MARLOO: each text is held against the mean of the others of its group, and a whole text is one action.

Leaving itself out keeps the baseline unbiased even in the smallest group, of two, where each text is measured by one
other. Groups of 2 and of 6 texts at the same number of joint replies: many topics a round, or better baselines.

Expect .91 from .46 with groups of two, and .96 with groups of six, in one CPU minute.
"""

import argparse

from comlrl_learners import MARLOOConfig, MARLOOTrainer, SamplingParams

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=30, help="rounds of 60 joint replies for each size of group")
rounds = parser.parse_args().rounds

for size in (2, 6):
    config = MARLOOConfig(
        learning_rate=1e-3,
        schedule="linear",
        max_steps=rounds,
        num_epochs=rounds,
        items_per_rollout=60 // size,
        num_generations=size,
        sampling=SamplingParams(temperature=0.8, max_new_tokens=64),
        output_dir=None,
    )
    result = MARLOOTrainer(env="writing/length_ratio", policies="tiny", config=config).train()
    before, after = (reward for _, reward in result.curve())
    print(f"groups of {size}: {result.env_steps} joint replies, reward {before:.3f} -> {after:.3f}")
