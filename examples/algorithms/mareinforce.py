"""MAREINFORCE: the return itself weighs a text, so one text a task is enough, and the rewards' zero point matters.

All rewards of this game lie in [0, 1]. Taken as they are, every text is encouraged, the better ones more; with
`reward_shift=-0.5` what earns less than a half is discouraged: a baseline by hand. Logged rewards stay as given.

Expect .70 from .46 without the shift, and .96 with it, in one CPU minute.
"""

import argparse

from comlrl_learners import MAREINFORCEConfig, MAREINFORCETrainer, SamplingParams

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=30, help="rounds of 60 joint replies for each zero point")
rounds = parser.parse_args().rounds

for shift in (0.0, -0.5):
    config = MAREINFORCEConfig(
        learning_rate=1e-3,
        schedule="linear",
        num_epochs=rounds,  # 60 topics a round: all of them, once
        items_per_rollout=60,
        num_generations=1,
        reward_shift=shift,
        sampling=SamplingParams(temperature=0.8, max_new_tokens=64),
        output_dir=None,
    )
    result = MAREINFORCETrainer(env="writing/length_ratio", policies="tiny", config=config).train()
    before, after = (reward for _, reward in result.curve())
    print(f"reward_shift {shift:4.1f}: {result.env_steps} joint replies, reward {before:.3f} -> {after:.3f}")
