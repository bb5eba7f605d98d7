"""MAAC: one critic for the team, which reads what all agents read; the actors stay apart and never see it.

With `critic_type="v"` it judges the joint situation. With "q" it reads the replies too, and each agent learns from its
counterfactual advantage: the value of the joint reply less its mean over what the agent might have written instead.
Such a critic has to know texts before it is of use: with half as many of them the team may follow its errors.

Expect .98 from .46 with "v" in one CPU minute, and .99 with "q" in four.
"""

import argparse

from comlrl_learners import MAACConfig, MAACTrainer, SamplingParams

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=30, help="rounds of 80 joint replies")
parser.add_argument("--critic-type", choices=("v", "q"), default="v")
options = parser.parse_args()

config = MAACConfig(
    learning_rate=1e-3,
    schedule="linear",
    max_steps=options.rounds,
    critic_type=options.critic_type,
    sampling=SamplingParams(temperature=0.8, max_new_tokens=64),
    output_dir=None,
)
result = MAACTrainer(env="writing/length_ratio", policies="tiny", critics="tiny", config=config).train()

print("joint replies   reward   the critic's value")
names = ("train/reward_mean", "train/summarizer/value_mean")
rows = [row for row in result.rows if names[0] in row]
for row in [*rows[::5], rows[-1]]:
    print(f"{row['env_step']:13d}    {row[names[0]]:.3f}                {row[names[1]]:.3f}")
before, after = (reward for _, reward in result.curve())
print(f"held-out reward {before:.3f} -> {after:.3f}")
