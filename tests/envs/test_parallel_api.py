"""PettingZoo's own suites, on what the package makes and on a toy with turns."""

import warnings

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.test.state_test import state_test
from pettingzoo.utils import parallel_to_aec

import comlrl_envs

from .toys import turn_taking_env

MAKERS = {
    "one_turn": lambda: comlrl_envs.make("writing/length_ratio"),
    "five_turns": lambda: comlrl_envs.make("writing/length_ratio", max_turns=5, feedback="levels", roles=True),
    "turn_taking": turn_taking_env,
    "from_reward": lambda: comlrl_envs.from_reward(
        [{"prompt": "a"}, {"prompt": "b"}], lambda x, y: [0.5] * len(x), feedback=lambda p, c, n: c, max_turns=3
    ),
}


@pytest.fixture(params=MAKERS)
def maker(request):
    return MAKERS[request.param]


@pytest.fixture
def text_observations(monkeypatch):
    """Let ``api_test`` take a str: it reads ``.dtype`` of an observation, which only arrays have."""
    # The module's name is shadowed by the function of the same name.
    module = __import__("sys").modules["pettingzoo.test.api_test"]
    original = module._test_observation_space_compatibility

    def compatible(expected, seen, recursed_keys):
        if isinstance(expected, spaces.Text):
            assert expected.contains(seen)
        else:
            original(expected, seen, recursed_keys)

    monkeypatch.setattr(module, "_test_observation_space_compatibility", compatible)


def test_parallel_api_without_warnings(maker):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(maker(), num_cycles=500)


def test_parallel_seed(maker):
    parallel_seed_test(maker, num_cycles=20)


def test_seed_over_the_aec_view(maker):
    seed_test(lambda: parallel_to_aec(maker()), num_cycles=40)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_api_over_the_aec_view(maker, text_observations):
    api_test(parallel_to_aec(maker()), num_cycles=50)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_state(maker):
    env = maker()
    state_test(parallel_to_aec(env), maker())
    env.reset(seed=0)
    assert env.state_space.contains(env.state())


def test_state_joins_what_all_agents_are_shown():
    env = turn_taking_env()
    observations, _ = env.reset(seed=1)
    assert env.state() == f"[asker]\n{observations['asker']}\n\n[answerer]\n{observations['answerer']}"
    assert "CANARY" not in env.state()


def test_aec_view_plays_an_episode():
    env = parallel_to_aec(comlrl_envs.make("writing/length_ratio", max_turns=2))
    env.reset(seed=3)
    for agent in env.agent_iter():
        observation, _, termination, truncation, _ = env.last()
        assert isinstance(observation, str)
        env.step(None if termination or truncation else "x" * (4 if agent == "summarizer" else 10))
    assert env.agents == []


def test_global_generators_are_left_alone(maker):
    import random

    random.seed(5)
    np.random.seed(5)
    before = (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2])
    env = maker()
    for seed in (None, 1):
        env.reset(seed=seed)
        while env.agents:
            env.step(dict.fromkeys(env.agents, "text"))
    assert (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]) == before


def test_attributes_that_consumers_read(maker):
    env = maker()
    assert env.agents == []
    assert env.unwrapped is env
    assert env.max_num_agents == len(env.possible_agents) == 2
    assert env.metadata["is_parallelizable"] and env.metadata["name"] == str(env)
    assert env.metadata["render_modes"] == ["ansi", "html"] and env.render_mode is None
    for agent in env.possible_agents:
        assert env.observation_space(agent) is env.observation_space(agent) is env.observation_spaces[agent]
        assert env.action_space(agent) is env.action_space(agent) is env.action_spaces[agent]
    env.reset(seed=0)
    env.close()
    env.close()
