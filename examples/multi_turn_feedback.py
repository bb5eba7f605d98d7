"""Two turns with feedback: a wish that nobody can guess, and that the feedback after the first turn tells.

Both writers get "Write about bees."; which of them should write more comes with the task, each topic both ways, so that
a first turn earns .5 on average whatever they do. The feedback says it in words that mean nothing to them at first.

Expect a gain of the second turn of 0 before training, .39 after it, and 0 where it is blanked, in one CPU minute.
"""

import argparse
import math

from comlrl_envs import from_reward
from comlrl_envs.writing.topics import EVAL_TOPICS, TRAIN_TOPICS
from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, SamplingParams


def proportion(first, second, batch_items):
    """1 if the text that should be longer is twice as long as the other or more, .5 if as long, 0 if half or less."""
    octaves = [math.log2((len(one) + 1) / (len(two) + 1)) for one, two in zip(first, second, strict=True)]
    signs = [1 if "the first." in row["prompt"] else -1 for row in batch_items]
    return [min(1.0, max(0.0, 0.5 + sign * octave / 2)) for sign, octave in zip(signs, octaves, strict=True)]


def told(prompt, agent_completions, num_agents):
    """The prompts of the second turn: the row's own, which says what is wanted."""
    return [prompt] * num_agents


def blanked(prompt, agent_completions, num_agents):
    """As many words, which do not say whose text should be longer."""
    return [f"{prompt.partition(' Longer')[0]} Longer: the other."] * num_agents


def game(topics, feedback=told):
    """Each topic both ways; what the first turn shows is the topic alone."""
    rows = [{"prompt": f"Write about {t}. Longer: the {n}."} for t in topics for n in ("first", "second")]
    return from_reward(rows, proportion, lambda row: row["prompt"].partition(" Longer")[0], feedback, max_turns=2)


def make_trainer(seed, rounds, policies="tiny", held_out_feedback=told):
    """Trains with feedback; the held-out tasks may have theirs blanked."""
    config = MAGRPOConfig(
        seed=seed, learning_rate=1e-3, schedule="linear", warmup_steps=4, max_steps=rounds, items_per_rollout=20,
        num_generations=3, sampling=SamplingParams(temperature=0.8, max_new_tokens=32), eval_every=0, output_dir=None,
    )  # fmt: skip
    held_out = game(EVAL_TOPICS, held_out_feedback)
    return MAGRPOTrainer(env=game(TRAIN_TOPICS), eval_env=held_out, policies=policies, config=config)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of 240 joint actions")
    trainer = make_trainer(seed=0, rounds=parser.parse_args().rounds)
    blind = make_trainer(0, 1, trainer.team, blanked)  # it only evaluates
    looks = {"before training": trainer.evaluate()}
    trainer.train()
    looks |= {"after training": trainer.evaluate(), "after, feedback blanked": blind.evaluate()}
    for name, found in looks.items():
        one, two = (found[f"turn_{turn}/reward_mean"] for turn in (1, 2))
        print(f"{name:24s} turn 1 {one:.3f}, turn 2 {two:.3f}, gain {two - one:+.3f}")
