"""What PettingZoo's consumers see; the suites themselves run in `test_conformance.py`."""

from pettingzoo.utils import parallel_to_aec

import comlrl_envs

from .toys import turn_taking_env


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


def test_equal_spaces_for_all_agents():
    """Vector layers of other libraries ask for it."""
    env = comlrl_envs.make("writing/length_ratio")
    assert env.observation_space("summarizer") == env.observation_space("elaborator")
    assert env.action_space("summarizer") == env.action_space("elaborator")
