"""What is given by mistake is refused at once and in words: containers, names, critics, rewards, files of a team."""

import json

import numpy as np
import pytest

from comlrl_envs import from_reward
from comlrl_envs.errors import RewardError
from comlrl_learners import ConfigError, IACTrainer, MAACTrainer, MADPOTrainer, MAGRPOConfig, MAGRPOTrainer, PolicyError
from comlrl_learners.team import folder_name, frozen_copies

from .small import policy
from .small_policies import trainer
from .toy_models import toy_policy

ROWS = [{"prompt": "one"}, {"prompt": "two"}]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"frozen": "summarizer"}, "Write frozen=('summarizer',)"),
        ({"trackers": "wandb"}, "Write trackers=('wandb',)"),
        ({"frozen": None}, "is no list"),
        ({"frozen": (3,)}, "names of agents"),
        ({"adam_betas": (0.9,)}, "two numbers"),
        ({"adam_betas": (0.9, "0.99")}, "finite number"),
        ({"learning_rates": [1e-3]}, "must be a dict"),
        ({"learning_rates": {"summarizer": "1e-3"}}, "finite number"),
        ({"devices": 0}, "is no device"),
        ({"reference_devices": {"summarizer": 1}}, "is no device"),
        ({"output_dir": 3}, "must be a text"),
        ({"warmup_steps": -3}, "0 or more"),
        ({"transcripts_every": -5}, "0 or more"),
        ({"run_name": ".."}, "name of one folder"),
        ({"reward_scale": 0.0}, "all rewards equal"),
    ],
)
def test_a_setting_of_another_kind_is_refused_by_name(settings, words):
    with pytest.raises(ConfigError) as refused:
        MAGRPOConfig(**settings)
    assert words in str(refused.value)


def test_a_critic_must_not_be_a_partners_model():
    team = [toy_policy(0), toy_policy(1)]
    with pytest.raises(PolicyError, match="one of the team's own models"):
        trainer(cls=MAACTrainer, policies=team, critics=team[1], frozen=("elaborator",))


def test_a_reference_of_another_vocabulary_would_score_other_words():
    with pytest.raises(PolicyError, match=r"embeds|another vocabulary"):
        trainer(policies=toy_policy(0), references=policy(max_new_tokens=8), kl_coef=0.1)
    with pytest.raises(PolicyError, match="another vocabulary"):
        frozen_copies({"one": policy(max_new_tokens=8)}, sampled_from={"one": toy_policy(0)})


def test_a_critic_without_a_trainable_weight_is_told_as_a_critic():
    critic = toy_policy(3)
    critic.model.requires_grad_(False)
    with pytest.raises(PolicyError, match=r"The critic of .*leave critics= out"):
        trainer(cls=MAACTrainer, policies=[toy_policy(0), toy_policy(1)], critics=critic)


def test_a_critic_reads_in_its_whole_context():
    one = trainer(cls=MAACTrainer, policies=[toy_policy(0), toy_policy(1)], critics=toy_policy(3, max_new_tokens=200))
    critic = one.algorithm.critics["summarizer"].policy
    assert critic.max_prompt_tokens == critic.backbone.context - 1


def test_replies_that_a_critic_of_actions_could_not_read_are_refused():
    env = from_reward([{"prompt": "word " * 40}], lambda first, second: [0.5] * len(first))
    one = MAACTrainer(
        env=env,
        policies=[toy_policy(0, max_new_tokens=30), toy_policy(1, max_new_tokens=30)],
        config=MAACTrainer.config_class(
            critic_type="q", num_generations=2, items_per_rollout=1, max_steps=1, eval_every=0, output_dir=None
        ),
    )
    with pytest.raises(ConfigError, match="Use critic_type='v'"):
        one.train()


def test_the_share_of_prompts_that_a_critic_read_in_part_is_logged():
    env = from_reward([{"prompt": "word " * 40}], lambda first, second: [0.5] * len(first))
    for prompt, cut in (("word " * 40, 1.0), ("a word", 0.0)):
        env = from_reward([{"prompt": prompt}], lambda first, second: [0.5] * len(first))
        config = MAACTrainer.config_class(
            num_generations=2, items_per_rollout=1, max_steps=1, eval_every=0, output_dir=None
        )
        team = [toy_policy(0), toy_policy(1)]
        (row,) = MAACTrainer(env=env, policies=team, config=config).train().rows
        assert row["train/agent_0/critic_prompts_cut"] == cut


@pytest.mark.parametrize("cls", [MAGRPOTrainer, IACTrainer, MAACTrainer, MADPOTrainer])
def test_a_reward_beyond_float32_is_refused_with_its_place(cls):
    env = from_reward(ROWS, lambda first, second: [1e50] * len(first), reward_range=(0.0, 1e60))
    config = cls.config_class(num_generations=2, items_per_rollout=2, max_steps=1, eval_every=0, output_dir=None)
    with pytest.raises(RewardError, match="Scale the rewards"):
        cls(env=env, policies=[toy_policy(0), toy_policy(1)], config=config).train()


def test_a_team_comes_back_with_its_critics(tmp_path):
    def made(**given):
        return trainer(cls=MAACTrainer, **{"policies": [toy_policy(0), toy_policy(1)], **given})

    first = made(output_dir=str(tmp_path))
    folder = first.train().folder
    again = made(policies=str(folder))
    there, here = (one.algorithm.critics["summarizer"] for one in (first, again))
    for key, value in there.head.state_dict().items():
        assert np.array_equal(value.numpy(), here.head.state_dict()[key].numpy())
    (folder / "checkpoints/final/critics/summarizer/value_head.safetensors").unlink()
    with pytest.raises(PolicyError, match="has lost its value_head"):
        made(policies=str(folder))


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"summarizer": 3}'])
def test_a_broken_list_of_a_team_is_refused_in_words(text, tmp_path):
    trainer(policies=[toy_policy(0), toy_policy(1)]).save(tmp_path)
    assert json.loads((tmp_path / "team.json").read_text())
    (tmp_path / "team.json").write_text(text)
    with pytest.raises(PolicyError, match="does not say which folder is whose"):
        trainer(policies=str(tmp_path))


def test_every_agent_has_a_folder_of_its_own():
    odd = ["team.json", "critics", "漢" * 60, "漢" * 61, "\ud800", ".", "..", "", "a/b", "plain one"]
    names = [folder_name(agent) for agent in odd]
    assert len(set(names)) == len(odd)
    assert not {"team.json", "critics", ".", ".."} & set(names)
    assert all(0 < len(name.encode()) < 200 and "/" not in name for name in names)
    assert folder_name("plain one") == "plain one"


def test_a_run_is_no_model(tmp_path):
    from comlrl_learners import LLMPolicy

    folder = trainer(policies=[toy_policy(0), toy_policy(1)], output_dir=str(tmp_path)).train().folder
    with pytest.raises(PolicyError, match=r"is a run, .*elaborator, summarizer"):
        LLMPolicy.load(folder)
