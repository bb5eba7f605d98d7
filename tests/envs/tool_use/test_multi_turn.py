"""`tool_use/multi_turn`: who holds and hears what, both checks, silence where something is missing."""

import pytest

from comlrl_envs import make
from comlrl_envs.errors import OptionError
from comlrl_envs.evaluation.statistics import clustered_mean
from comlrl_envs.tool_use.demo.errands import errands
from comlrl_envs.tool_use.messages import blanked, parted


def play_out(env, team):
    """All rewards of an episode."""
    rewards = []
    while env.agents:
        rewards.append(env.step(team(env))[1]["lead"])
    return rewards


def oracle(env):
    return env.game.scenario.oracle(env.episode.state)


@pytest.mark.parametrize("agents", [1, 2, 3])
@pytest.mark.parametrize("reads", ["lead", "all"])
@pytest.mark.parametrize("single", ["turn", "function"])
def test_the_oracle_does_every_request(agents, reads, single):
    env = make("tool_use/multi_turn", source="demo", num_agents=agents, reads=reads, single=single)
    for place in range(12):
        env.reset(seed=place, options={"task": place})
        rewards = play_out(env, oracle)
        assert sum(rewards) == pytest.approx(2.0), (place, rewards)


def test_without_messages_or_teammates_less_is_done():
    env = make("tool_use/multi_turn", source="demo")
    scenario = env.game.scenario
    lost = {"messages": [], "teammates": []}

    def muted(env):
        return {agent: scenario.blank(text) for agent, text in oracle(env).items()}

    for place in range(64):
        options = {"task": place}
        env.reset(seed=place, options=options)
        best = sum(play_out(env, oracle))
        env.reset(seed=place, options=options)
        lost["messages"].append([best - sum(play_out(env, muted))])
        alone = []
        for agent in env.possible_agents:
            env.reset(seed=place, options=options)
            alone.append(
                sum(
                    play_out(env, lambda env, agent=agent: {a: t if a == agent else "" for a, t in oracle(env).items()})
                )
            )
        lost["teammates"].append([best - max(alone)])
    assert clustered_mean(lost["messages"]).low > 0.2
    assert clustered_mean(lost["teammates"]).low > 0.2


def test_silence_is_right_where_the_function_is_missing():
    place = next(place for place, row in enumerate(errands("train")) if not row["gold"][-1])
    env = make("tool_use/multi_turn", source="demo")
    row = errands("train")[place]
    missing = [
        f'{name}({key}="x")'
        for name in row["withheld"]["2"]
        for key in ("name", "item", "to", "place", "title", "path", "word", "city")
    ]
    for extra, worth in (("", 1.0), ("\n".join(missing), 0.0)):
        env.reset(seed=0, options={"task": place})
        while env.agents:
            replies = oracle(env)
            if env.episode.state.request == 1:
                replies = dict.fromkeys(replies, extra)
            _, rewards, _, _, infos = env.step(replies)
        assert rewards["lead"] == worth and infos["lead"]["metric/success"] == worth


def test_a_helper_hears_of_a_request_from_the_lead_alone():
    env = make("tool_use/multi_turn", source="demo")
    observations, _ = env.reset(seed=0, options={"task": 0})
    words = errands("train")[0]["requests"][0]
    assert words in observations["lead"] and words not in observations["helper"]
    observations, *_ = env.step({"lead": f"<message>please: {words}</message>", "helper": ""})
    assert f"lead: please: {words}" in observations["helper"]


def test_results_go_to_their_caller_alone_and_foreign_calls_do_not_run():
    env = make("tool_use/multi_turn", source="demo")
    env.reset(seed=0, options={"task": 0})
    state = env.episode.state
    own = {agent: state.held[place][0] for place, agent in enumerate(env.possible_agents)}
    keys = {
        "add_task": "name",
        "book_table": "place",
        "send_mail": "to",
        "buy": "item",
        "play_song": "title",
        "open_file": "path",
        "get_weather": "city",
        "find_word": "word",
    }
    call = f'{own["lead"]}({keys[own["lead"]]}="zebra")'
    observations, _, _, _, infos = env.step({"lead": call, "helper": call})
    assert infos["lead"]["metric/rejected"] == 1.0 and infos["lead"]["metric/calls"] == 1.0
    assert f"{call} -> " in observations["lead"] and f"{call} -> " not in observations["helper"]
    assert "unknown_function" in observations["helper"]


def test_a_wrong_call_spoils_the_state_to_the_end():
    env = make("tool_use/multi_turn", source="demo", reads="all", rounds=1)
    place = next(p for p, row in enumerate(errands("train")) if row["classes"] == ["Diary", "Post"] and row["gold"][-1])
    env.reset(seed=0, options={"task": place})
    gold = oracle(env)
    stray = {agent: f'{text}\nadd_task(name="zebra")\nbook_table(place="zebra")' for agent, text in gold.items()}
    rewards = env.step(stray)[1]
    # Both gold calls ran and returned what they should; the state is another.
    assert 0.25 <= rewards["lead"] < 0.35
    _, rewards, _, _, infos = env.step(oracle(env))
    assert rewards["lead"] < 0.35 and infos["lead"]["metric/right_num"] == 0.0


def test_a_message_is_parted_from_the_calls():
    assert parted("<think>f(x=1)</think>g(y=2)<message>a\nb</message>h()") == ("a\nb", "g(y=2)\nh()")
    assert parted("f()<message>open") == ("open", "f()")
    assert parted("f()</message>g()") == ("", "f()\ng()")
    assert blanked("<message>x</message>") == ""


@pytest.mark.parametrize(
    ("kwargs", "told"),
    [({"reads": "al"}, "all"), ({"num_agents": 5}, "2 to 4"), ({"rounds": 0}, "rounds"), ({"dataset": "bas"}, "base")],
)
def test_bad_settings_are_named(kwargs, told):
    with pytest.raises(OptionError, match=told):
        make("tool_use/multi_turn", source="demo", **kwargs)
