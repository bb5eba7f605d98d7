"""TorchRL takes the views as they are, and its own PPO learns on one of them."""

import importlib.util
from pathlib import Path

import pytest
import torch

import comlrl_envs
from comlrl_envs.views import ChoiceView, DictView, TokenActions, TokenObservations, TokenView, aec

pytest.importorskip("torchrl")
from torchrl.envs import PettingZooWrapper, check_env_specs

pytestmark = pytest.mark.filterwarnings("ignore:PettingZoo in TorchRL:UserWarning")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "third_party" / "torchrl_length_ratio.py"
REPLIES = ["ab", "abcde", "x" * 20]


def writers():
    return comlrl_envs.make("writing/length_ratio", max_turns=3, feedback="levels")


VIEWS = {
    "choice": lambda: ChoiceView(writers(), REPLIES),
    "dict, choice": lambda: DictView(ChoiceView(writers(), REPLIES)),
    "dict, tokens": lambda: DictView(TokenActions(writers(), 6)),
    "tokens": lambda: TokenView(writers(), 400, 6),
    "tokens float32": lambda: TokenView(writers(), 400, 6, "float32"),
    "tokens, choice": lambda: TokenObservations(ChoiceView(writers(), REPLIES), 400),
}


@pytest.mark.parametrize("name", VIEWS)
def test_specs_fit_and_episodes_roll_out(name):
    env = PettingZooWrapper(VIEWS[name](), seed=0)
    check_env_specs(env, seed=0)
    rollout = env.rollout(7, break_when_any_done=False)
    assert rollout["next", "done"].flatten().tolist() == [False, False, True, False, False, True, False]
    assert torch.equal(rollout["next", "summarizer", "reward"], rollout["next", "elaborator", "reward"])
    turns = rollout["next", "elaborator", "info", "turn"].flatten().tolist()
    assert turns == [1, 2, 3, 1, 2, 3, 1]


@pytest.mark.parametrize("name", ["dict, choice", "dict, tokens"])
def test_the_text_itself_arrives_in_a_dict_view(name):
    view = VIEWS[name]()
    env = PettingZooWrapper(view)
    expected = writers().reset(seed=4)[0]["summarizer"]
    assert env.reset(seed=4)["summarizer", "observation", "text"] == [expected]
    rollout = env.rollout(3)
    shown = [step["next", "summarizer", "observation", "text"][0] for step in rollout]
    assert "The summarizer wrote" in shown[0]
    assert shown[-1] == view.unwrapped.game.prompts(view.unwrapped.episode)["summarizer"]


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_tokens_arrive_as_they_are(dtype):
    view = TokenObservations(ChoiceView(writers(), REPLIES), 64, dtype)
    env = PettingZooWrapper(view, return_state=True)
    reset = env.reset(seed=2)
    expected = TokenObservations(writers(), 64, dtype).reset(seed=2)[0]["elaborator"]
    assert reset["elaborator", "observation"].flatten().tolist() == expected.tolist()
    assert reset["state"].tolist() == view.state().tolist()
    assert reset["elaborator", "observation"].dtype == getattr(torch, dtype)


def test_the_state_of_a_dict_view_is_the_text():
    view = DictView(ChoiceView(writers(), REPLIES))
    assert PettingZooWrapper(view, return_state=True).reset(seed=2)["state"] == view.state()


def test_agents_in_turn():
    env = PettingZooWrapper(aec(ChoiceView(TokenObservations(writers(), 64), REPLIES)), use_mask=True)
    rollout = env.rollout(6)
    masks = [(step["summarizer", "mask"].item(), step["elaborator", "mask"].item()) for step in rollout]
    assert masks[:4] == [(True, False), (False, True)] * 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_writers_learn_with_its_ppo(seed):
    spec = importlib.util.spec_from_file_location("torchrl_length_ratio", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    before, after = example.train(seed)
    assert before <= 0.5
    assert after >= 0.8
