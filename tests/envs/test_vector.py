import pytest

import comlrl_envs
from comlrl_envs import EpisodeError, OptionError, VectorTextEnv

from .toys import ROWS, Counting, turn_taking_env

PAIR = {"summarizer": "ab", "elaborator": "abcde"}


def test_equals_single_environments():
    vector = comlrl_envs.make_vec("writing/length_ratio", 3, max_turns=2)
    singles = [comlrl_envs.make("writing/length_ratio", max_turns=2) for _ in range(3)]
    observations, infos = vector.reset(seed=7)
    firsts = [env.reset(seed=7 + i) for i, env in enumerate(singles)]
    assert list(zip(observations, infos, strict=True)) == firsts
    for _ in range(2):
        stepped = vector.step([PAIR] * 3)
        assert all(isinstance(column, list) for column in stepped)
        assert list(zip(*stepped, strict=True)) == [env.step(PAIR) for env in singles]
    assert vector.agents == [[], [], []]


def test_one_call_a_step():
    scenario = Counting()
    env = comlrl_envs.TextEnv(comlrl_envs.TextGame(scenario), comlrl_envs.TaskSet(ROWS))
    vector = VectorTextEnv(env, 5)
    vector.reset(seed=0)
    vector.step([{"a": "x", "b": "y"}] * 5)
    assert scenario.batches == [5]


def test_no_autoreset_and_partial_resets():
    vector = VectorTextEnv(turn_taking_env(), 3)
    vector.reset(seed=0)
    *_, terminations, _, _ = vector.step([{"asker": "stop"}, {"asker": "on"}, {"asker": "stop"}])
    assert [t["asker"] for t in terminations] == [True, False, True]
    with pytest.raises(EpisodeError, match="Environment 0"):
        vector.step([{"asker": "x"}, {"answerer": "y"}, None])
    observations, rewards, *_ = vector.step([None, {"answerer": "y"}, {}])
    assert observations[0] == rewards[2] == {} and rewards[1] == {"asker": 1.5, "answerer": 1.5}
    observations, _ = vector.reset(seed=[5], options=[{"task": "row3"}], indices=[2])
    assert "Prompt 3." in observations[0]["asker"] and len(observations) == 1
    assert vector.agents == [[], ["asker", "answerer"], ["asker", "answerer"]]


def test_a_bad_action_changes_no_environment():
    vector = comlrl_envs.make_vec("writing/length_ratio", 2, max_turns=2)
    vector.reset(seed=0)
    with pytest.raises(comlrl_envs.ActionError, match="elaborator"):
        vector.step([PAIR, {"summarizer": "x"}])
    assert [env.episode.turn for env in vector.envs] == [0, 0]


def test_unseeded_environments_differ():
    vector = comlrl_envs.make_vec("writing/length_ratio", 20)
    observations, _ = vector.reset()
    assert len({o["summarizer"] for o in observations}) > 5


def test_bad_arguments():
    with pytest.raises(OptionError, match="num_envs"):
        comlrl_envs.make_vec("writing/length_ratio", 0)
    vector = comlrl_envs.make_vec("writing/length_ratio", 2)
    with pytest.raises(OptionError, match="out of range"):
        vector.reset(indices=[2])
    with pytest.raises(OptionError, match="3 entries for 2"):
        vector.step([PAIR] * 3)
    with pytest.raises(OptionError, match="seed holds 1"):
        vector.reset(seed=[1])
    vector.close()
