"""Teams of the shipped tiny policy learn `writing/length_ratio`, or cannot where nothing could tell them apart."""

import pytest

from comlrl_envs import make
from comlrl_learners import LLMPolicy, MAGRPOConfig, MAGRPOTrainer, SamplingParams

SAMPLING = SamplingParams(temperature=0.8, max_new_tokens=64)


def held_out(joint_actions, *, seed=0, shared=False, **rules):
    """Mean held-out reward before and after training, over 180 sampled episodes each."""
    config = MAGRPOConfig(
        seed=seed,
        learning_rate=1e-3,
        schedule="linear",
        max_env_steps=joint_actions,
        num_epochs=-(-joint_actions // 480),
        eval_samples=6,
        sampling=SAMPLING,
        output_dir=None,
    )
    policies = LLMPolicy.load("tiny", SAMPLING) if shared else "tiny"
    result = MAGRPOTrainer(env=make("writing/length_ratio", **rules), policies=policies, config=config).train()
    assert result.env_steps == joint_actions
    curve = result.curve()
    return curve[0][1], curve[-1][1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_agents_learn_to_differ(seed):
    before, after = held_out(4800, seed=seed)
    assert before <= 0.5
    assert after >= 0.95


@pytest.mark.slow
def test_role_words_let_one_policy_play_both_parts():
    assert held_out(4800, shared=True, roles=True)[1] >= 0.9


@pytest.mark.slow
def test_one_policy_with_one_prompt_cannot():
    assert held_out(1600, shared=True)[1] <= 0.6
