import copy
import json
import logging

import pytest

import comlrl_envs
from comlrl_envs import ActionError, EpisodeError, OptionError, TaskError, UnknownIdError

from .toys import ROWS, turn_taking_env

PAIR = {"summarizer": "ab", "elaborator": "abcde"}
HOSTILE = {
    "empty": "",
    "right_to_left": "שלום \u202eabc",
    "nul": "a\0b",
    "megabyte": "x" * 2**20,
    "lone_surrogates": "a\ud800b\udfff",
    "emoji": "🙂" * 10,
}


def make(**kwargs):
    return comlrl_envs.make("writing/length_ratio", **kwargs)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_any_text_is_a_legal_action(text):
    env = make(max_turns=2, memory="full")
    env.reset(seed=0)
    observations, rewards, *_, infos = env.step({"summarizer": text, "elaborator": text})
    for agent in env.possible_agents:
        assert env.observation_space(agent).contains(observations[agent])
        observations[agent].encode("utf-8")
        assert 0.0 <= rewards[agent] <= 1.0
    assert infos["summarizer"]["cut"] == max(0, len(text) - env.game.max_action_chars)
    assert infos["summarizer"]["replaced"] == (2 if "\ud800" in text else 0)


def test_surrogate_pairs_are_joined_not_counted():
    env = make(max_turns=2)
    env.reset(seed=0)
    observations, *_, infos = env.step({"summarizer": "\ud83d\ude42", "elaborator": "x"})
    assert "🙂" in observations["summarizer"]
    assert infos["summarizer"]["replaced"] == 0


@pytest.mark.parametrize("bad", [None, 3, b"bytes", ["list"]])
def test_an_action_that_is_no_text_names_its_agent(bad):
    env = make()
    env.reset(seed=0)
    with pytest.raises(ActionError, match="elaborator"):
        env.step({"summarizer": "ok", "elaborator": bad})


def test_missing_and_unknown_agents_are_named():
    env = make()
    env.reset(seed=0)
    with pytest.raises(ActionError, match="elaborator"):
        env.step({"summarizer": "ok"})
    with pytest.raises(ActionError, match="Did you mean 'summarizer'"):
        env.step(PAIR | {"sumarizer": "ok"})
    with pytest.raises(ActionError, match="list"):
        env.step(["ab", "abcde"])
    assert env.step(PAIR)[1]["summarizer"] == 1.0


def test_an_idle_agent_may_be_left_out():
    env = turn_taking_env()
    _, infos = env.reset(seed=0)
    assert (infos["asker"]["active"], infos["answerer"]["active"]) == (1, 0)
    *_, infos = env.step({"asker": "hello"})
    assert (infos["asker"]["active"], infos["answerer"]["active"]) == (0, 1)
    with pytest.raises(ActionError, match="answerer"):
        env.step({"asker": "hello"})


def test_idle_text_is_ignored():
    twins = turn_taking_env(), turn_taking_env()
    for env in twins:
        env.reset(seed=0)
    assert twins[0].step({"asker": "x"}) == twins[1].step({"asker": "x", "answerer": "ignored"})


def test_stepping_without_an_episode_says_what_to_do():
    env = make()
    with pytest.raises(EpisodeError, match=r"reset\(\)"):
        env.step(PAIR)
    with pytest.raises(EpisodeError, match=r"reset\(\)"):
        env.state()
    env.reset(seed=0)
    env.step(PAIR)
    with pytest.raises(EpisodeError, match=r"reset\(\)"):
        env.step(PAIR)
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_info_keys_never_change_and_all_are_numbers():
    env = make(max_turns=3)
    _, infos = env.reset(seed=0)
    keys = set(infos["summarizer"])
    assert keys == {
        "term/ratio_reward",
        "term/clip",
        "metric/length_ratio",
        "metric/success",
        "agent_metric/characters",
        "turn",
        "active",
        "scored",
        "cut",
        "replaced",
    }
    types = {key: type(value) for key, value in infos["summarizer"].items()}
    assert infos["summarizer"]["scored"] == 0
    for turn in (1, 2, 3):
        *_, infos = env.step(PAIR)
        for info in infos.values():
            assert {key: type(value) for key, value in info.items()} == types
            assert info["scored"] == 1 and info["turn"] == turn
    assert infos["elaborator"]["agent_metric/characters"] == 5.0


def test_text_infos():
    env = make(text_infos=True, max_turns=2)
    _, infos = env.reset(seed=0)
    keys = set(infos["summarizer"])
    *_, infos = env.step(PAIR)
    assert set(infos["summarizer"]) == keys
    assert infos["summarizer"]["text/reply"] == "ab"
    assert infos["summarizer"]["text/news"] == env.episode.news[0] != ""


def test_terms_and_residue_add_up_to_the_reward():
    env = turn_taking_env()
    env.reset(seed=0)
    _, rewards, *_, infos = env.step({"asker": "x" * 30})
    info = infos["asker"]
    assert rewards == {"asker": 5.0, "answerer": 5.0}
    assert (info["term/length"], info["term/bonus"], info["term/clip"]) == (30.0, 0.5, -25.5)


def test_max_cycles_truncates_and_a_natural_end_terminates():
    env = make(max_turns=5)
    env.max_cycles = 2
    env.reset(seed=0)
    assert env.step(PAIR)[3] == {"summarizer": False, "elaborator": False}
    _, _, terminations, truncations, _ = env.step(PAIR)
    assert terminations == {"summarizer": False, "elaborator": False}
    assert truncations == {"summarizer": True, "elaborator": True}
    assert env.agents == []
    env.max_cycles = 5
    env.reset(seed=0)
    for _ in range(5):
        _, _, terminations, truncations, _ = env.step(PAIR)
    assert all(terminations.values()) and not any(truncations.values())


def test_options_choose_the_task():
    env = make()
    assert env.reset(options={"task": "bees"})[0]["summarizer"] == "Write about bees."
    assert env.reset(options={"task": 1})[0]["summarizer"] == "Write about rivers."
    assert env.reset(options={"item": {"prompt": "Mine."}})[0]["summarizer"] == "Mine."
    for task in (True, 1.0, None, ["bees"]):
        with pytest.raises(OptionError, match="task"):
            env.reset(options={"task": task})
    with pytest.raises(OptionError, match="out of range"):
        env.reset(options={"task": 60})
    with pytest.raises(UnknownIdError, match="Did you mean 'bees'"):
        env.reset(options={"task": "beees"})
    with pytest.raises(TaskError, match="prompt"):
        env.reset(options={"item": {"text": "no prompt"}})
    with pytest.raises(OptionError, match="both"):
        env.reset(options={"item": {"prompt": "x"}, "task": 0})


def test_unknown_options_are_logged_with_the_closest(caplog, recwarn):
    env = make()
    with caplog.at_level(logging.WARNING, logger="comlrl_envs"):
        observations, _ = env.reset(seed=0, options={"tsak": 3})
    assert "tsak" in caplog.text and "Did you mean 'task'" in caplog.text
    assert observations == make().reset(seed=0)[0]
    assert not recwarn.list


def test_seeds_spread_over_the_tasks_and_zero_is_a_seed():
    env = make()
    firsts = {seed: env.reset(seed=seed)[0]["summarizer"] for seed in range(600)}
    assert len(set(firsts.values())) == 60
    assert env.reset(seed=0)[0]["summarizer"] == firsts[0]
    with pytest.raises(OptionError, match="seed"):
        env.reset(seed="seven")


def test_unseeded_resets_continue_the_stream():
    def draw(env):
        return [env.reset()[0]["summarizer"] for _ in range(10)]

    first, second = make(), make()
    first.reset(seed=0)
    second.reset(seed=0)
    assert draw(first) == draw(second)
    assert draw(first) == draw(second)
    first.reset(seed=0)
    again = draw(first)
    second.reset(seed=1)
    assert draw(second) != again
    assert len(set(again)) > 3
    assert draw(make()) != draw(make())


def test_a_second_episode_holds_nothing_of_the_first():
    env = make(max_turns=3, memory="full")
    env.reset(seed=0)
    env.step({"summarizer": "UNIQUE", "elaborator": "UNIQUE"})
    observations, _ = env.reset(seed=1)
    assert "UNIQUE" not in json.dumps(observations) + env.state()


def test_no_agent_sees_another_without_a_channel():
    env = make(max_turns=3, memory="full", feedback="levels", text_infos=True)
    env.reset(seed=0)
    observations, *_, infos = env.step({"summarizer": "SECRET1", "elaborator": "SECRET2"})
    assert "SECRET2" not in observations["summarizer"] + str(infos["summarizer"])
    assert "SECRET1" not in observations["elaborator"] + str(infos["elaborator"])


def test_gold_appears_nowhere():
    env = turn_taking_env()
    env.render_mode = "ansi"
    for row in ROWS:
        seen = [env.reset(options={"task": row["id"]}), env.state(), env.render()]
        while env.agents:
            seen += [env.step(dict.fromkeys(env.agents, "hi")), env.state(), env.render()]
        assert "CANARY" not in str(seen)


def test_fork_is_independent_and_equal():
    env = turn_taking_env()
    env.reset(seed=4)
    env.step({"asker": "one"})
    twin = env.fork()
    for agent in env.possible_agents:
        assert twin.action_space(agent) is not env.action_space(agent)
    left = env.step({"answerer": "left"})
    right = twin.step({"answerer": "right!"})
    assert left != right and env.agents == twin.agents
    twin.max_cycles = 3
    assert env.max_cycles is None
    other = turn_taking_env()
    other.reset(seed=4)
    other.step({"asker": "one"})
    assert other.step({"answerer": "right!"}) == right


def test_a_deep_copy_goes_on_alone_and_copies_no_tasks():
    env = turn_taking_env()
    env.reset(seed=4)
    twin = copy.deepcopy(env)
    assert twin.tasks is env.tasks and twin.game is env.game
    twin.step({"asker": "x"})
    assert env.episode.turn == 0


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_state_travels_as_json_and_goes_on_identically(turns):
    env = turn_taking_env()
    env.reset(seed=9)
    texts = ["stay", "é\n🙂", "more"]
    for turn in range(turns):
        env.step(dict.fromkeys(env.agents, texts[turn]))
    other = turn_taking_env()
    other.set_state(json.loads(json.dumps(env.get_state())))
    assert other.episode == env.episode
    assert other.state() == env.state() and other.agents == env.agents
    while env.agents:
        actions = dict.fromkeys(env.agents, "go on")
        assert other.step(actions) == env.step(actions)
    assert other.reset() == env.reset()


def test_state_before_the_first_reset():
    env = make()
    other = make()
    other.set_state(json.loads(json.dumps(env.get_state())))
    assert other.agents == [] and other.reset() == env.reset()


def test_messages_alternate_and_render_to_the_observation():
    env = make(max_turns=3, memory="full")
    env.reset(seed=0)
    env.step({"summarizer": "one", "elaborator": "two"})
    observations, *_ = env.step({"summarizer": "three", "elaborator": "four"})
    messages = env.messages("summarizer")
    assert [m["role"] for m in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert [m["content"] for m in messages[1::2]] == ["one", "three"]
    place = 0
    for message in messages:
        place = observations["summarizer"].index(message["content"], place)
    with pytest.raises(OptionError, match="Did you mean"):
        env.messages("summariser")


@pytest.mark.parametrize("mode", ["ansi", "html"])
def test_render_shows_the_transcript(mode):
    env = make(max_turns=2, render_mode=mode)
    env.reset(seed=0)
    env.step({"summarizer": "<b>short</b>", "elaborator": "long"})
    page = env.render()
    assert isinstance(page, str) and "elaborator" in page and "Turn 1, reward" in page
    assert ("<b>short</b>" in page) == (mode == "ansi")


def test_render_modes(caplog):
    with pytest.raises(OptionError, match="Did you mean 'ansi'"):
        make(render_mode="anis")
    env = make()
    env.reset(seed=0)
    assert env.render() is None
    assert "render_mode" in caplog.text


def test_an_action_is_cut_at_the_limit():
    env = make(max_action_chars=10, max_turns=2)
    env.reset(seed=0)
    observations, *_, infos = env.step({"summarizer": "x" * 25, "elaborator": "y" * 10})
    assert infos["summarizer"]["cut"] == 15 and infos["elaborator"]["cut"] == 0
    assert "x" * 10 in observations["summarizer"] and "x" * 11 not in observations["summarizer"]
