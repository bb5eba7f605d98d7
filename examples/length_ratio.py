"""The smallest whole run: two small models learn to write texts of different lengths, offline and on a CPU.

Both agents are asked the same, neither sees the other, and their reward is 1 while the second text is two to three
times as long as the first. Two separate copies of one model become a brief writer and a thorough one.

Expect a held-out reward of about .46 before training, .94 after 800 joint actions and .99 at the end: one CPU minute.
"""

import argparse

from numpy.random import default_rng

from comlrl_envs import make
from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, SamplingParams

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=60, help="rounds of 80 joint actions")
rounds = parser.parse_args().rounds

config = MAGRPOConfig(
    learning_rate=1e-3,
    schedule="linear",
    max_steps=rounds,
    eval_every=10,
    sampling=SamplingParams(temperature=0.8, max_new_tokens=64),
)
trainer = MAGRPOTrainer(env="writing/length_ratio", policies="tiny", config=config)
result = trainer.train()

print("joint actions   held-out reward")
for env_step, reward in result.curve():
    print(f"{env_step:13d}   {reward:.3f}")

# The trained policies write for anyone: here about a topic that training never showed.
env = make("writing/length_ratio", split="eval")
observations, _ = env.reset(seed=0)
texts = {agent: trainer.team[agent].act([observations[agent]], agent, default_rng(0))[0] for agent in env.agents}
_, rewards, *_ = env.step(texts)
for agent, text in texts.items():
    print(f"\n{agent} is asked {observations[agent]!r} and writes {len(text)} characters:\n  {text}")
print(f"\nreward {rewards['summarizer']:.2f}; curve, texts and weights lie in {result.folder}")
