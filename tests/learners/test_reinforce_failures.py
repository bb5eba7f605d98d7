"""What cannot be learnt from is named, and leaves the weights as they were."""

import dataclasses
import itertools
import math

import pytest
import torch

from comlrl_envs.errors import RewardError
from comlrl_learners import (
    ConfigError,
    MAGRPOConfig,
    NonFiniteError,
    PolicyError,
)
from comlrl_learners.samples import Reference, TokenSample

from .reinforce_games import (
    collect,
    game,
    poison,
    spread,
    trainer,
)
from .toy_models import flat_weights, toy_policy, toy_team


def test_nothing_trainable_is_refused():
    frozen = toy_policy()
    frozen.model.requires_grad_(False)
    with pytest.raises(PolicyError, match=r"agent_0, agent_1.*requires_grad_"):
        trainer(policies=frozen)
    with pytest.raises(PolicyError, match=r"policy of agent_1 has"):
        trainer(policies=[toy_policy(1), frozen])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_names_task_and_turn(value):
    for bad_turn in (0, 1):
        calls = itertools.count()

        def reward(first, second, batch_items, calls=calls, bad_turn=bad_turn):
            bad = next(calls) == bad_turn
            return [value if bad and item["id"] == "row-2" else 0.5 for item in batch_items]

        one = trainer(env=game(2, reward))
        with pytest.raises(RewardError, match=rf"Task 'row-2', turn {bad_turn}"):
            one.train()


def test_weights_that_are_no_number_name_agent_turn_and_task_when_they_write():
    one = trainer()
    poison(one.team["agent_1"])
    with pytest.raises(NonFiniteError, match=r"'agent_1' at turn 0 of task 'row-0'"):
        collect(one)


def test_weights_that_turn_bad_in_a_later_turn_name_it():
    team = toy_team()

    def reward(first, second):
        poison(team[0])
        return spread(first, second)

    one = trainer(env=game(2, reward), policies=team)
    with pytest.raises(NonFiniteError, match=r"'agent_0' at turn 1 of task 'row-0'"):
        collect(one)


def test_weights_that_are_no_number_name_agent_turn_and_task_when_they_learn():
    one = trainer()
    batch = collect(one)
    poison(one.team["agent_0"])
    with pytest.raises(NonFiniteError, match=r"'agent_0' at turn 0 of task 'row-\d'"):
        one.algorithm.update(batch, 0, 1.0)


def test_a_loss_that_is_no_number_names_agent_turn_and_task():
    one = trainer()
    batch = collect(one)
    sample = batch.samples["agent_1"][4]
    batch.samples["agent_1"][4] = dataclasses.replace(sample, advantage=float("nan"))
    before = flat_weights(one.team["agent_1"])
    with pytest.raises(NonFiniteError, match=rf"'agent_1' at turn 0 of task '{sample.task_id}'"):
        one.algorithm.update(batch, 0, 1.0)
    assert torch.equal(before, flat_weights(one.team["agent_1"]))


def test_a_gradient_that_is_no_number_leaves_the_weights():
    one = trainer(policies=toy_policy(1))
    member = one.team["agent_0"]
    before = flat_weights(member)
    handle = next(member.model.parameters()).register_hook(lambda grad: grad * float("inf"))
    batch = collect(one)
    with pytest.raises(NonFiniteError, match="agent_0, agent_1"):
        one.algorithm.update(batch, 0, 1.0)
    assert torch.equal(before, flat_weights(member))
    handle.remove()
    one.algorithm.update(batch, 0, 1.0)
    assert torch.isfinite(flat_weights(member)).all()
    assert not torch.equal(before, flat_weights(member))


def test_what_a_failed_update_left_behind_does_not_enter_the_next():
    """The loss fails in the second micro-batch, when the first has left its gradient."""
    ends = []
    for fails in (False, True):
        one = trainer(microbatch_tokens=1, learning_rate=1e-3)
        batch = collect(one)
        if fails:
            last = max(range(12), key=lambda i: len(batch.samples["agent_0"][i].completion.ids))
            samples = list(batch.samples["agent_0"])
            samples[last] = dataclasses.replace(samples[last], advantage=float("nan"))
            broken = dataclasses.replace(batch, samples={**batch.samples, "agent_0": samples})
            with pytest.raises(NonFiniteError, match="agent_0"):
                one.algorithm.update(broken, 0, 1.0)
        one.algorithm.update(batch, 0, 1.0)
        ends.append(flat_weights(one.team["agent_0"]))
    assert torch.equal(*ends)


def test_reference_logprobs_of_another_length_are_refused():
    completion = collect(trainer()).samples["agent_0"][0].completion
    with pytest.raises(ValueError, match="reference log-probs"):
        TokenSample("a", "t", 0, completion, 0.0, Reference((0.0,) * (len(completion.ids) + 1), 0.0))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_generations": 1}, "num_generations=1 .* baseline='none'"),
        ({"minibatch_size": 4}, "clip_range"),
        ({"num_updates": 2}, "clip_range"),
        ({"clip_range": 1.5}, "clip_range=1.5"),
        ({"discount": 1.5}, "discount=1.5"),
        ({"items_per_rollout": 0}, "items_per_rollout=0"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"kl_coef": -1.0}, "kl_coef"),
    ],
)
def test_settings_that_cannot_work_are_named(settings, words):
    with pytest.raises(ConfigError, match=words):
        MAGRPOConfig(**settings)


def test_a_truncating_sampler_is_refused_with_a_ratio_and_warned_of_without(caplog):
    cut = toy_policy(top_p=0.9)
    with pytest.raises(ConfigError, match=r"agent_0 truncates.*clip_range=None"):
        trainer(policies=cut, clip_range=0.2)
    with pytest.raises(ConfigError, match="top_p=1"):
        MAGRPOConfig(sampling=cut.sampling, clip_range=0.2)
    trainer(policies=cut)
    assert "truncates" in caplog.text
