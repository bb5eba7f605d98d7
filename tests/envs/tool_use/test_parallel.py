"""`tool_use/parallel`: parts, both rewards, silence, feedback."""

import numpy as np
import pytest

from comlrl_envs import make
from comlrl_envs.errors import OptionError, TaskError
from comlrl_envs.evaluation.statistics import clustered_mean
from comlrl_envs.tool_use.roles import ROLE_MODES, deal, even_split, share

WEATHER = {
    "name": "get_weather",
    "description": "Weather of a city.",
    "parameters": {"type": "dict", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
BUY = {
    "name": "shop.buy",
    "description": "Buy things.",
    "parameters": {
        "type": "dict",
        "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["item"],
    },
}
ROW = {
    "id": "two",
    "request": "the weather in Oslo, and buy milk",
    "functions": [WEATHER, BUY],
    "answers": [
        {"get_weather": {"city": ["Oslo", "oslo, Norway"]}},
        {"shop.buy": {"item": ["milk"], "count": [1, ""]}},
    ],
}
NOTHING = {"id": "none", "request": "tell me a joke", "functions": [WEATHER], "answers": []}
RAIN, MILK = 'get_weather(city="Oslo")', 'shop.buy(item="milk")'


def played(replies, row=ROW, **kwargs):
    env = make("tool_use/parallel", tasks=[row], **kwargs)
    env.reset(seed=0)
    observations, rewards, _, _, infos = env.step(dict(zip(env.possible_agents, replies, strict=True)))
    agent = env.possible_agents[0]
    return rewards[agent], infos[agent], observations


@pytest.mark.parametrize(
    ("replies", "worth"),
    [
        ((RAIN, MILK), 1.1),
        # One does everything: no balance (0), the other is lazy (half).
        ((f"{RAIN}\n{MILK}", "[]"), 0.05 + 0.25 + 0.35 + 0.10 + 0.20 - 0.15 / 2),
        (("", ""), -0.15),
        # Both do everything: two calls overlap.
        ((f"{RAIN}\n{MILK}",) * 2, 0.05 + 0.25 + 0.35 + 0.10 + 0.20 - 0.20),
        # One of two: F1 of names 2/3, half of the arguments, half of the count, half of the balance.
        ((RAIN, ""), 0.05 + 0.25 * 2 / 3 + 0.35 / 2 + 0.10 / 2 + 0.15 / 2 - 0.15 / 2),
        # A wrong value: the name counts.
        ((RAIN, 'shop.buy(item="bread")'), 0.05 + 0.25 + 0.35 / 2 + 0.10 + 0.15),
        # Issued twice by one agent.
        ((f"{RAIN}\n{RAIN}", MILK), 1.1 - 0.05 / 2),
    ],
)
def test_published_reward_is_the_formula(replies, worth):
    assert played(replies)[0] == pytest.approx(worth)


@pytest.mark.parametrize(
    ("replies", "worth"),
    [
        ((RAIN, MILK), 1.0),
        ((f"{RAIN}\n{MILK}", "[]"), 1.0),
        (("", ""), 0.0),
        # Everything twice: F1 of 2 right calls among 4 issued, 2 wanted; nobody's calls are its alone.
        ((f"{RAIN}\n{MILK}",) * 2, 0.3 * 4 / 6),
        ((RAIN, ""), 0.3 * 2 / 3 + 0.1 / 2),
        ((RAIN, 'shop.buy(item="bread")'), 0.3 * 2 / 4 + 0.1 / 2),
    ],
)
def test_strict_reward_pays_for_the_exact_set_and_for_use(replies, worth):
    assert played(replies, reward="strict")[0] == pytest.approx(worth)


@pytest.mark.parametrize(("reward", "full"), [("published", 1.1), ("strict", 1.0)])
def test_silence_is_right_where_nothing_fits(reward, full):
    assert played(("[]", ""), NOTHING, reward=reward)[0] == pytest.approx(full)
    assert played((RAIN, ""), NOTHING, reward=reward)[0] <= 0.0


@pytest.mark.parametrize("mode", ROLE_MODES)
@pytest.mark.parametrize("agents", [2, 3])
@pytest.mark.parametrize("reward", ["published", "strict"])
def test_the_oracle_earns_everything_in_every_mode(mode, agents, reward):
    env = make("tool_use/parallel", source="demo", role_mode=mode, num_agents=agents, reward=reward)
    for place in range(12):
        env.reset(seed=0, options={"task": place})
        _, rewards, *_ = env.step(env.game.scenario.oracle(env.episode.state))
        assert rewards["caller_1"] == pytest.approx(1.1 if reward == "published" else 1.0)


def test_functions_are_dealt_so_that_nobody_can_finish_alone():
    env = make("tool_use/parallel", source="demo", role_mode="by_function", reward="strict")
    losses = []
    for place in range(64):
        env.reset(seed=place, options={"task": place})
        state, scenario = env.episode.state, env.game.scenario
        gold = scenario.oracle(state)
        hands = [gold, *({**dict.fromkeys(gold, ""), agent: gold[agent]} for agent in gold)]
        team, *alone = (sum(scenario.advance(state, hand).score.terms.values()) for hand in hands)
        losses.append([team - max(alone)])
    loss = clustered_mean(losses)
    assert loss.low > 0.3


def test_a_function_of_a_teammate_is_no_use():
    own = {"caller_1": "get_weather", "caller_2": "shop.buy"}
    env = make("tool_use/parallel", tasks=[ROW], role_mode="by_function", reward="strict", max_turns=2)
    observations, _ = env.reset(seed=3)
    holder = {
        agent: next(name for name in own.values() if f'"name": "{name}"' in text)
        for agent, text in observations.items()
    }
    assert set(holder.values()) == {"get_weather", "shop.buy"}
    swapped = {agent: MILK if name == "get_weather" else RAIN for agent, name in holder.items()}
    observations, rewards, _, _, infos = env.step(swapped)
    assert rewards["caller_1"] == 0.0 and infos["caller_1"]["metric/foreign"] == 2.0
    assert "unknown_function" in observations["caller_1"]


def test_one_function_cannot_be_dealt():
    env = make("tool_use/parallel", tasks=[{**ROW, "answers": ROW["answers"][:1]}], role_mode="by_function")
    with pytest.raises(TaskError, match="calls one function only"):
        env.reset(seed=0)


def test_feedback_tells_of_form_and_of_doubles_but_of_no_gold():
    wrong = f'{RAIN}\nshop.buy(item="bread", colour="red")\nget_wether(city="Rome")\nprose here'
    text = played((wrong, RAIN), max_turns=2)[2]["caller_1"].split("Turn 2 of 2.")[1]
    for code in ("unexpected_param", "unknown_function", "issued_twice", "get_weather"):
        assert code in text
    assert "milk" not in text
    plain = played((wrong, RAIN), max_turns=2, feedback="plain")[2]["caller_1"].split("Turn 2 of 2.")[1]
    assert "unknown_function" not in plain


def test_a_gold_call_that_stands_twice_is_issued_twice():
    row = {**ROW, "answers": [ROW["answers"][0], ROW["answers"][0]]}
    assert played((RAIN, RAIN), row)[0] == pytest.approx(1.1)
    assert played((RAIN, RAIN), row, reward="strict")[0] == pytest.approx(1.0)


def test_parts():
    assert even_split(5, 3) == (2, 2, 1)
    assert share("odd_even", "abcd", ["abcd"] * 3) == (0, 1, 2, 0)
    assert share("split_by_order", "abcde", ["abcde"] * 2) == (0, 0, 0, 1, 1)
    for seed in range(50):
        hands = deal("abcdef", "ace", 2, np.random.default_rng(seed))
        assert sorted(hands[0] + hands[1]) == list("abcdef") and all(set("ace") & set(hand) for hand in hands)


@pytest.mark.parametrize(
    ("kwargs", "told"),
    [({"role_mode": "by_functions"}, "by_function"), ({"num_agents": 9}, "1 to 8"), ({"dataset": "nativ"}, "native")],
)
def test_bad_settings_are_named(kwargs, told):
    with pytest.raises(OptionError, match=told):
        make("tool_use/parallel", source="demo", **kwargs)
