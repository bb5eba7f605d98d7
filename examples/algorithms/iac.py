"""IAC: every agent has a critic of its own, which reads what the agent reads; no group of texts is needed.

The critic is a value head on the policy, trained in the policy's own forward; with `use_separate_critic=True` it is a
model of its own, which costs a second forward. The prompts of this game tell nothing of the reward to come, so that a
critic is right when its value is the team's mean reward, and moves with it.

Expect .92 from .46 with the head, and .96 with critics of their own, in one to two CPU minutes.
"""

import argparse
import time

from comlrl_learners import IACConfig, IACTrainer, SamplingParams

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=30, help="rounds of 60 joint replies for each kind of critic")
rounds = parser.parse_args().rounds

for separate in (False, True):
    config = IACConfig(
        learning_rate=1e-3,
        schedule="linear",
        max_steps=rounds,
        num_epochs=rounds,
        items_per_rollout=60,
        num_generations=1,
        use_separate_critic=separate,
        sampling=SamplingParams(temperature=0.8, max_new_tokens=64),
        output_dir=None,
    )
    started = time.process_time()
    result = IACTrainer(env="writing/length_ratio", policies="tiny", config=config).train()
    before, after = (reward for _, reward in result.curve())
    (_, value), (_, target) = (result.curve(f"train/summarizer/value_{what}mean")[-1] for what in ("", "target_"))
    print(
        f"{'model of its own' if separate else 'head on the policy'}: reward {before:.3f} -> {after:.3f}, last value "
        f"{value:.3f} of {target:.3f}, {time.process_time() - started:.0f} CPU seconds"
    )
