import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import comlrl_envs
from comlrl_envs import OptionError, TaskError
from comlrl_envs.spaces import Text
from comlrl_envs.writing.length_ratio import LengthRatio, lengths_within, score_ratio

ID = "writing/length_ratio"
positive = st.floats(0.01, 100.0)


def play(first, second, **kwargs):
    env = comlrl_envs.make(ID, **kwargs)
    env.reset(seed=0)
    return env.step({"summarizer": "x" * first, "elaborator": "y" * second})


@pytest.mark.parametrize(
    ("first", "second", "reward"),
    [
        (10, 20, 1.0),
        (10, 25, 1.0),
        (10, 30, 1.0),
        (10, 10, math.exp(-1.0)),
        (10, 0, math.exp(-2.0)),
        (10, 45, math.exp(-1.5)),
        (4, 7, math.exp(-0.25)),
        (0, 10, 0.0),
        (0, 0, 0.0),
        (1, 5000, 0.0),
    ],
)
def test_closed_form_values(first, second, reward):
    _, rewards, *_, infos = play(first, second)
    assert rewards["summarizer"] == rewards["elaborator"] == pytest.approx(reward, abs=1e-12)
    info = infos["summarizer"]
    assert info["metric/success"] == float(reward == 1.0)
    assert info["metric/length_ratio"] == (second / first if first else 0.0)
    assert info["agent_metric/characters"] == first


@given(st.integers(0, 10**6), st.integers(0, 10**6), positive, positive)
def test_reward_is_in_its_range_and_full_exactly_inside(first, second, one, two):
    low, high = sorted((one, two))
    reward, ratio = score_ratio(first, second, low, high)
    assert 0.0 <= reward <= 1.0 and math.isfinite(ratio)
    if first and low <= ratio <= high:
        assert reward == 1.0


bounds = st.one_of(
    st.tuples(st.integers(1, 400), st.integers(1, 100)).map(lambda pq: (pq[0] / pq[1],) * 2),
    st.tuples(positive, st.floats(1.01, 5.0)).map(lambda lw: (lw[0], lw[0] * lw[1])),
)


@given(bounds, st.booleans(), st.sampled_from(["plain", "levels"]))
@settings(deadline=None)
def test_the_oracle_is_always_full(interval, roles, feedback):
    env = comlrl_envs.make(
        ID, target_min=interval[0], target_max=interval[1], roles=roles, feedback=feedback, max_turns=2
    )
    env.reset(seed=1)
    while env.agents:
        assert env.step(env.game.oracle(env.episode))[1]["summarizer"] == 1.0


def test_an_interval_that_no_texts_meet_has_no_oracle():
    assert lengths_within(math.pi, math.pi) is None
    for low, high in ((1e-300, 1e-299), (1e300, 1e301), (5e-324, 1.7e308)):
        lengths_within(low, high)
    env = comlrl_envs.make(ID, target_min=math.pi, target_max=math.pi)
    env.reset(seed=0)
    assert env.game.oracle(env.episode) is None


def test_the_row_may_set_the_interval():
    env = comlrl_envs.make(ID, tasks=[{"prompt": "p", "target_min": 5, "target_max": 6}])
    env.reset(seed=0)
    assert env.step({"summarizer": "x", "elaborator": "y" * 5})[1]["summarizer"] == 1.0
    for bad in (
        {"target_min": 4},
        {"target_max": 1},
        {"target_min": "2"},
        {"target_min": float("nan")},
        {"target_min": 0},
    ):
        with pytest.raises(TaskError, match="target_min"):
            comlrl_envs.make(ID, tasks=[{"prompt": "p", **bad}])


@pytest.mark.parametrize("bad", [(0, 1), (3, 2), (-1, 2), (1, float("inf")), ("2", 3), (True, 3)])
def test_bounds_must_fit(bad):
    with pytest.raises(OptionError, match="0 < target_min <= target_max"):
        comlrl_envs.make(ID, target_min=bad[0], target_max=bad[1])


def test_prompts_are_the_rows_or_with_roles():
    def first(**kwargs):
        return comlrl_envs.make(ID, **kwargs).reset(options={"task": "bees"})[0]

    assert first() == {"summarizer": "Write about bees.", "elaborator": "Write about bees."}
    assert first(roles=True) == {
        "summarizer": "Write about bees. Answer briefly.",
        "elaborator": "Write about bees. Answer in detail.",
    }


def test_feedback_modes():
    plain = play(4, 4, max_turns=2, memory="none")[0]["summarizer"]
    levels = play(4, 6, max_turns=2, feedback="levels", memory="none")[0]["summarizer"]
    assert plain.startswith("Write about") and not any(digit in plain for digit in "0123456789")
    assert "4 characters" in levels and "6; their ratio is 1.50" in levels and "between 2 and 3" in levels
    assert "undefined" in play(0, 6, max_turns=2, feedback="levels")[0]["summarizer"]
    with pytest.raises(OptionError, match="Did you mean 'levels'"):
        comlrl_envs.make(ID, feedback="level")


@pytest.mark.parametrize("kwargs", [{}, {"roles": True}, {"target_min": 1.0, "target_max": 1.5}])
def test_floor_policies_stay_below_their_bounds(kwargs):
    env = comlrl_envs.make(ID, **kwargs)
    floors = env.game.scenario.floors
    space = Text(100, seed=0)
    rewards = {"empty": [], "echo": [], "random": []}
    for seed in range(400):
        observations, _ = env.reset(seed=seed)
        policies = {
            "empty": dict.fromkeys(env.agents, ""),
            "echo": observations,
            "random": {agent: space.sample() for agent in env.agents},
        }
        for name, actions in policies.items():
            rewards[name].append(env.fork().step(actions)[1]["summarizer"])
    for name, earned in rewards.items():
        assert sum(earned) / len(earned) <= floors[name] <= 1.0


def test_it_has_no_channel():
    scenario = LengthRatio()
    assert scenario.channel is False and scenario.blank("any text") == "any text"
