"""Settings are checked before anything is loaded, and each message names a setting that works."""

import ast
import inspect

import pytest

from comlrl_learners import (
    ConfigError,
    IACConfig,
    IACTrainer,
    MAACConfig,
    MAACTrainer,
    MADPOConfig,
    MADPOTrainer,
    MAGRPOConfig,
    MAGRPOTrainer,
    MAREINFORCEConfig,
    MAReMaxConfig,
    MARLOOConfig,
    SamplingParams,
)
from comlrl_learners.algorithms.reinforce import ReinforceConfig
from comlrl_learners.config import TrainerConfig

from .small import policy
from .small_policies import config, game, trainer

GROUPED = [MAGRPOConfig, MARLOOConfig, MAReMaxConfig]


@pytest.mark.parametrize("cls", [MAGRPOConfig, MAREINFORCEConfig, MARLOOConfig, MAReMaxConfig])
def test_the_defaults_fit_each_other(cls):
    assert cls().seed == 0


@pytest.mark.parametrize("cls", GROUPED)
def test_a_group_of_one_has_no_group_baseline(cls):
    with pytest.raises(ConfigError, match=r"num_generations=1.*num_generations >= 2, or baseline='none'"):
        cls(num_generations=1)


def test_a_group_of_one_has_no_group_deviation():
    with pytest.raises(ConfigError, match=r"advantage_norm='group'"):
        MAREINFORCEConfig(num_generations=1, advantage_norm="group")


@pytest.mark.parametrize("cls", GROUPED)
def test_a_group_of_one_trains_once_the_named_remedy_is_taken(cls):
    assert cls(num_generations=1, baseline="none", advantage_norm="none").num_generations == 1


@pytest.mark.parametrize("cut", [{"top_p": 0.9}, {"top_k": 5}])
def test_a_truncating_sampler_and_a_ratio_exclude_each_other(cut):
    with pytest.raises(ConfigError, match=r"sampling truncates.*top_p=1 and top_k=0, or clip_range=None"):
        MAGRPOConfig(clip_range=0.2, sampling=SamplingParams(**cut))


@pytest.mark.parametrize("cut", [{"top_p": 0.9}, {"top_k": 5}])
def test_so_do_a_loaded_policys_truncating_sampler_and_a_ratio(cut):
    with pytest.raises(ConfigError, match=r"policy of summarizer truncates.*clip_range=None"):
        trainer(policies=policy(**cut), clip_range=0.2)


def test_without_a_ratio_a_truncating_sampler_is_warned_of(caplog):
    MAGRPOConfig(sampling=SamplingParams(top_p=0.9))
    assert "truncates the distribution" in caplog.text


@pytest.mark.parametrize("several", [{"minibatch_size": 4}, {"num_updates": 2}])
def test_several_steps_on_one_rollout_need_a_ratio(several):
    with pytest.raises(ConfigError, match=r"Set clip_range \(for example 0.2\)"):
        MAGRPOConfig(**several)
    assert MAGRPOConfig(**several, clip_range=0.2).clip_range == 0.2


@pytest.mark.parametrize("clip_range", [0, 1, -0.1, 1.5])
def test_clip_range_lies_between_0_and_1(clip_range):
    with pytest.raises(ConfigError, match="clip_range"):
        MAGRPOConfig(clip_range=clip_range)


@pytest.mark.parametrize(
    "name",
    ["num_epochs", "items_per_rollout", "num_generations", "num_updates", "eval_samples", "microbatch_tokens",
     "tasks_per_epoch", "max_steps", "max_env_steps", "max_turns", "minibatch_size", "schedule_steps", "cpu_threads"],
)  # fmt: skip
def test_a_count_of_0_is_refused_by_name(name):
    with pytest.raises(ConfigError, match=f"{name}=0 must be 1 or more"):
        MAGRPOConfig(**{name: 0})


@pytest.mark.parametrize(
    ("name", "value"),
    [("discount", -0.1), ("discount", 1.1), ("discount", float("nan")), ("learning_rate", 0), ("learning_rate", -1e-3),
     ("learning_rate", float("nan")), ("max_grad_norm", 0), ("kl_coef", -1), ("entropy_coef", -1)],
)  # fmt: skip
def test_a_number_outside_its_range_is_refused_by_name(name, value):
    with pytest.raises(ConfigError, match=name):
        MAGRPOConfig(**{name: value})


def test_training_at_temperature_0_is_refused():
    with pytest.raises(ConfigError, match=r"eval_temperature may be 0"):
        MAGRPOConfig(sampling=SamplingParams(temperature=0))


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [("schedule", "cosin", "cosine"), ("baseline", "leave_one", "leave_one_out"), ("joint_mode", "crossed", "cross"),
     ("kl_mode", "penalties", "penalty"), ("team_reward", "means", "mean"), ("loss_norm", "constants", "constant"),
     ("ratio_level", "tokens", "token"), ("advantage_norm", "groups", "group")],
)  # fmt: skip
def test_a_word_that_is_no_choice_gets_the_closest_one(name, given, meant):
    with pytest.raises(ConfigError, match=rf"{name}='{given}' is none of .*Did you mean '{meant}'\?"):
        MAGRPOConfig(**{name: given})


def test_an_unknown_tracker_gets_the_closest_one():
    with pytest.raises(ConfigError, match=r"'tensorbord' is none of .*Did you mean 'tensorboard'\?"):
        MAGRPOConfig(trackers=("wandb", "tensorbord"))


def test_every_setting_is_followed_by_its_meaning():
    for cls in (TrainerConfig, ReinforceConfig, SamplingParams):
        (body,) = ast.parse(inspect.getsource(cls)).body
        for place, statement in enumerate(body.body):
            if isinstance(statement, ast.AnnAssign):
                told = body.body[place + 1]
                assert isinstance(told, ast.Expr), f"{cls.__name__}.{statement.target.id}"
                assert isinstance(told.value.value, str)


def test_no_setting_means_the_defaults_of_the_algorithm():
    assert MAGRPOTrainer(env=game(), policies="tiny").config == MAGRPOConfig()


def test_two_equal_settings_compare_equal():
    assert config() == config()


CUT = SamplingParams(top_p=0.9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MAGRPOConfig(checkpoint_every=2, output_dir=None), "Set output_dir"),
        (lambda: MAGRPOConfig(schedule_steps=9), "Leave schedule_steps out"),
        (lambda: MAGRPOConfig(ratio_level="sequence"), "Leave ratio_level out"),
        (lambda: MAGRPOConfig(kl_mode="loss"), "Leave kl_mode out"),
        (lambda: MAGRPOConfig(completion_return="sum"), "Leave completion_return out"),
        (lambda: MAGRPOConfig(kl_coef=0.1, sampling=CUT), "kl_coef=0"),
        (lambda: IACConfig(kl_coef=0.1, sampling=CUT), "kl_coef=0"),
        (lambda: IACConfig(num_generations=1, items_per_rollout=1), "advantage_norm='none'"),
        (lambda: IACConfig(critic_type="q"), "use_separate_critic=True"),
        (lambda: IACConfig(critic_type="q", use_separate_critic=True, gae_lambda=0.5), "gae_lambda=0"),
        (lambda: IACConfig(critic_devices="cpu"), "use_separate_critic=True"),
        (lambda: IACConfig(use_separate_critic=True, value_loss_coef=0.1), "Leave value_loss_coef out"),
        (lambda: MAACConfig(value_loss_coef=0.1), "Leave value_loss_coef out"),
        (lambda: MADPOConfig(num_generations=1), "num_generations >= 2, or pairs_file"),
        (lambda: MADPOConfig(replay_k=3), "Leave replay_k out"),
        (lambda: MADPOConfig(replay="nearest_k", replay_lambda=0.9), "Leave replay_lambda out"),
        (lambda: MADPOConfig(pairs_file="pairs.json", replay="all_history"), "Leave replay out"),
        (lambda: MADPOConfig(minibatch_size=1), "minibatch_size >= 2"),
        (lambda: MADPOConfig(pair_selection="all"), "pairs_per_node=None"),
        (lambda: MADPOConfig(reference_free=False, sampling=CUT), "reference_free=True"),
        (lambda: trainer(references="tiny"), "kl_coef=0"),
        (lambda: trainer(cls=MADPOTrainer, references="tiny"), "reference_free=True"),
        (lambda: trainer(reference_devices="cpu"), "kl_coef=0"),
        (lambda: trainer(critics="tiny"), "train with iac or maac"),
        (lambda: trainer(cls=MADPOTrainer, critics="tiny"), "train with iac or maac"),
        (lambda: trainer(cls=IACTrainer, critics="tiny"), "use_separate_critic=True"),
        (lambda: trainer(cls=MAACTrainer, critics=["tiny", "tiny"]), "Give one"),
        (lambda: trainer(max_turns=3), "use max_turns=1"),
    ],
)
def test_what_cannot_work_together_is_refused_with_a_way_out(make, words):
    with pytest.raises(ConfigError) as refused:
        make()
    assert words in str(refused.value)


def test_a_loaded_policys_truncating_sampler_and_a_kl_term_exclude_each_other():
    with pytest.raises(ConfigError, match=r"policy of summarizer truncates.*kl_coef=0"):
        trainer(policies=policy(top_p=0.9), kl_coef=0.1)
