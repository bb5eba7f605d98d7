import copy
import pickle

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForSequenceClassification

from comlrl_envs import from_reward, make
from comlrl_learners import ConfigError, MAGRPOConfig, MAGRPOTrainer, ModelReward, PolicyError

from .small import LLAMA_LIKE, policy, tokenizer


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judge")
    torch.manual_seed(4)
    Qwen2ForSequenceClassification(Qwen2Config(**LLAMA_LIKE, num_labels=1)).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


class Counted(ModelReward):
    """A model reward that counts what it is asked."""

    calls: tuple = ()

    def __call__(self, *completions, prompts):
        self.calls = (*self.calls, len(prompts))
        return super().__call__(*completions, prompts=prompts)


def test_scores_are_the_models_logit_on_prompt_and_texts(judge):
    reward = ModelReward(judge)
    found = reward(["a", "longer text"], ["b", "c"], prompts=["p", "q"])
    model = Qwen2ForSequenceClassification.from_pretrained(judge)
    for value, text in zip(found, ("p\n\na\n\nb", "q\n\nlonger text\n\nc"), strict=True):
        with torch.no_grad():
            expected = model(**tokenizer()(text, return_tensors="pt")).logits[0, 0]
        assert value == pytest.approx(float(expected), abs=1e-5)
    assert ModelReward(judge, batch_size=1)(["a", "longer text"], ["b", "c"], prompts=["p", "q"]) == pytest.approx(
        found, abs=1e-5
    )
    assert found[0] != pytest.approx(found[1], abs=1e-4)


def test_a_join_of_ones_own_and_a_length_limit_are_used(judge):
    last = ModelReward(judge, join=lambda prompt, joint: joint[-1])
    assert last(["a", "x"], ["same", "same"], prompts=["p", "q"])[0] == pytest.approx(
        last(["b"], ["same"], prompts=["z"])[0], abs=1e-5
    )
    short = ModelReward(judge, max_length=2)
    scores = short(["aaa", "aaa"], ["c", "c"], prompts=["one", "another"])
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert abs(scores[0] - short(["aaa"], ["d"], prompts=["one"])[0]) > 1e-6, "what the agents wrote is kept"


def test_copies_and_pickles_carry_settings_alone(judge):
    reward = ModelReward(judge)
    value = reward(["a"], ["b"], prompts=["p"])
    for twin in (copy.deepcopy(reward), pickle.loads(pickle.dumps(reward))):
        assert "_model" not in vars(twin)
        assert twin(["a"], ["b"], prompts=["p"]) == value


def again(prompt, agent_completions, num_agents):
    return [f"{prompt} again"] * num_agents


def test_a_team_trains_on_it_with_one_call_per_level(judge):
    reward = Counted(judge)
    env = from_reward([{"prompt": f"p{i}"} for i in range(4)], reward, feedback=again, max_turns=2)
    config = MAGRPOConfig(output_dir=None, num_generations=2, items_per_rollout=4, max_steps=1)
    result = MAGRPOTrainer(env=env, policies=[policy(seed=1), policy(seed=2)], config=config).train()
    assert result.env_steps == 4 * (2 + 4)
    assert len(reward.calls) == 2
    assert max(reward.calls) > 2


def test_it_replaces_the_reward_of_an_id(judge):
    reward = Counted(judge)
    env = make("writing/length_ratio", reward=reward)
    config = MAGRPOConfig(output_dir=None, num_generations=2, items_per_rollout=3, max_steps=1, eval_samples=1)
    rows = MAGRPOTrainer(env=env, policies=policy(), config=config).train().rows
    assert len(reward.calls) == 3  # evaluation, a round, evaluation
    trained = next(row for row in rows if "train/reward_mean" in row)
    assert trained["train/reward_mean"] == pytest.approx(trained["train/term/reward"])
    assert "train/metric/length_ratio" in trained


def test_a_model_of_several_outputs_is_refused(tmp_path):
    Qwen2ForSequenceClassification(Qwen2Config(**LLAMA_LIKE, num_labels=3)).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"3 outputs.*num_labels=1"):
        ModelReward(tmp_path)(["a"], ["b"], prompts=["p"])


def test_a_folder_without_a_tokenizer_is_named(tmp_path):
    Qwen2ForSequenceClassification(Qwen2Config(**LLAMA_LIKE, num_labels=1)).save_pretrained(tmp_path)
    with pytest.raises(PolicyError, match="holds no tokenizer"):
        ModelReward(tmp_path)(["a"], ["b"], prompts=["p"])
