"""MAReMax: the group's best text is the baseline, so it is left alone and all others are discouraged.

No advantage is ever positive: what is taken from the worse texts goes to whatever was not written this time, the best
text included. The push shrinks as the texts of a group come to earn the same.

Expect a held-out reward of .97 from .46, and a mean advantage that rises from -.45 to -.02: one to two CPU minutes.
"""

import argparse

from comlrl_learners import MAReMaxConfig, MAReMaxTrainer, SamplingParams

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=30, help="rounds of 80 joint replies")
rounds = parser.parse_args().rounds

config = MAReMaxConfig(
    learning_rate=1e-3,
    schedule="linear",
    max_steps=rounds,
    sampling=SamplingParams(temperature=0.8, max_new_tokens=64),
    output_dir=None,
)
result = MAReMaxTrainer(env="writing/length_ratio", policies="tiny", config=config).train()

print("joint replies   reward   advantage   entropy a token")
names = ("train/reward_mean", "train/elaborator/advantage_mean", "train/elaborator/entropy")
rows = [row for row in result.rows if names[0] in row]
for row in [*rows[::5], rows[-1]]:
    reward, advantage, entropy = (row[name] for name in names)
    print(f"{row['env_step']:13d}    {reward:.3f}      {advantage:6.3f}             {entropy:.3f}")
before, after = (reward for _, reward in result.curve())
print(f"held-out reward {before:.3f} -> {after:.3f}")
