"""Feedback by an expert, against a real server on loopback."""

import json
import logging
import pickle
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import comlrl_envs
from comlrl_envs import OptionError
from comlrl_envs.coding import expert
from comlrl_envs.coding.consulting import NO_ANSWER
from comlrl_envs.coding.expert import Expert, Part, Question, prompt_of, read_edits
from comlrl_envs.coding.json_reply import last_json_object
from comlrl_envs.model_client import close_clients
from comlrl_envs.testing import CHECKS, Subject, run_check
from comlrl_envs.testing.api import undetermined

from ..model_server import chat, first, says, serving, status

KEY = "sk-canary-expert-0123456789"
VARIABLE = "TEST_EXPERT_KEY"
IDS = ("coding/humaneval", "coding/coop_humaneval", "coding/mbpp")
EDITS = json.dumps({"aux": "AUX-EDIT", "main": "MAIN-EDIT"})
TEAM = {"helper": "def aux(*args):\n    return 'AUX-CODE'\n", "main": "no code"}
GOLD = {IDS[0]: ("aux", "main", "canonical_solution"), "coding/classeval": ("solution_code",)}
QUICK = "timeout=5&max_retries=0"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield
    close_clients()


def settings(server, asked=QUICK, **more):
    base = {"source": "demo", "feedback": "expert", "max_turns": 2, "expert_key_variable": VARIABLE}
    return {**base, "expert_model": f"stub?{asked}", "expert_base_url": server.url, **more}


def played(server, id=IDS[0], actions=TEAM, **more):
    """One joint action with an expert: observations, infos, the environment."""
    pytest.importorskip("openai")
    env = comlrl_envs.make(id, **settings(server, **more))
    env.reset(seed=0, options={"task": 0})
    observations, _, _, _, infos = env.step(actions)
    return observations, infos, env


def asked(server, number=0):
    return server.bodies[number]["messages"][0]["content"]


def failed(infos):
    return next(iter(infos.values()))["metric/expert_failed"]


# What is in a reply


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"a": "b"}', {"a": "b"}),
        ('Sure!\n```json\n{"a": "b"}\n```\nHope it helps.', {"a": "b"}),
        ('{"a": "1"} or rather {"a": "2"}', {"a": "2"}),
        ('{"a": {"b": {"c": 1}}, "d": 2}', {"a": {"b": {"c": 1}}, "d": 2}),
        ('{"a": "if x: {y} }"}', {"a": "if x: {y} }"}),
        ('{"a": "say \\"}\\" {"} done', {"a": 'say "}" {'}),
        ('{"a": "back\\\\"} "', {"a": "back\\"}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('the 5" pipe {"a": "b"} and {not this} }', {"a": "b"}),
        ('{{{ ({"a": []}', {"a": []}),
        ('[{"a": 1}, {"a": 2}]', {"a": 2}),
        ("{}", {}),
        ('{"a": "b"', None),
        ("{'a': 'b'}", None),
        ('"{"', None),
        ("", None),
    ],
)
def test_the_last_object_wins(reply, expected):
    assert last_json_object(reply) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    before=st.text(alphabet='ab{}"\\\n', max_size=40),
    found=st.dictionaries(st.text(), json_values, max_size=4),
    after=st.text(alphabet='ab{"\\\n', max_size=40),
    readable=st.booleans(),
)
def test_any_object_is_found_between_any_texts(before, found, after, readable):
    assert last_json_object(f"{before} {json.dumps(found, ensure_ascii=readable)} {after}") == found


HOSTILE = ("{", "}", '{"a":', '{"', '"}', '{"a":"}', "}{x", "{x}", '\\"', "\\", '"', '{"a":"x",}', "[{", "\n}")


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_replies_take_time_in_proportion(unit):
    reply = unit * (2**20 // len(unit))
    began = time.process_time()
    last_json_object(reply)
    assert last_json_object(reply + '{"a": "b"}') in ({"a": "b"}, None)
    assert time.process_time() - began < 10


def test_edits_are_texts_for_every_key():
    assert read_edits(f"Well.\n{EDITS}", ["main", "aux"]) == ("MAIN-EDIT", "AUX-EDIT")
    for reply in ("none", '{"aux": "x"}', '{"aux": 1, "main": "x"}', '{"aux": " ", "main": "x"}', f"{EDITS} {{}}"):
        with pytest.raises(ValueError, match=r"no JSON object|no text for"):
            read_edits(reply, ["aux", "main"])


def test_edits_are_cut_and_can_be_written():
    (text,) = read_edits('{"a": "\\ud800' + "x" * 10**5 + '"}', ["a"])
    assert text.encode() and text[0] == "\ufffd" and len(text) <= expert.MOST_EDIT_CHARACTERS + 4


# What the expert reads


def test_the_prompt_keeps_code_apart_and_short():
    long = Part("main", "the function f", "x = 1\n" * 10**5)
    fenced = Part("aux", "the function aux", 'def aux():\n    """```"""\n\ud800', "All is well.")
    text = prompt_of(Question("Do it.", (fenced, long, Part("aux_2", "the function aux_2", ""))))
    assert "````python\ndef aux()" in text and text.encode() and len(text) < 2 * expert.MOST_CODE_CHARACTERS
    assert "(there is no code)" in text and '{"aux": "...", "main": "...", "aux_2": "..."}' in text
    assert "All is well." in text and "could not be used" not in text


@pytest.mark.parametrize("id", IDS)
def test_each_agent_reads_the_edit_for_its_own_function(id):
    with serving(says(f"Sure!\n```json\n{EDITS}\n```")) as server:
        observations, infos, env = played(server, id)
    assert "AUX-EDIT" in observations["helper"] and "MAIN-EDIT" not in observations["helper"]
    assert "MAIN-EDIT" in observations["main"] and "AUX-EDIT" not in observations["main"]
    assert "AUX-CODE" not in observations["main"] and "no definition" not in observations["main"]
    assert failed(infos) == 0.0
    state = env.episode.state
    text = asked(server)
    assert state.prompt.strip() in text and "AUX-CODE" in text and f"Your function {state.entry_point}: missing" in text
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.bodies[0].keys() == {"model", "messages"} and server.bodies[0]["model"] == "stub"


def test_parameters_are_sent():
    with serving(says(EDITS)) as server:
        played(server, asked=f"{QUICK}&temperature=0.3&max_tokens=99")
    assert (server.bodies[0]["temperature"], server.bodies[0]["max_tokens"]) == (0.3, 99)


@pytest.mark.parametrize("tests", [("f(31) == 1", "f(2) == 2", "f(3) == 3", "f(4) == 4", "f(5) == 5"), ("f(31) == 1",)])
def test_tests_that_score_are_never_sent(tests):
    body = "\n".join(f"    assert candidate({test[2:]}" for test in tests)
    row = {"id": "a", "prompt": 'def f(x):\n    """Go."""\n', "entry_point": "f"}
    row["test"] = f"def check(candidate):\n{body}\n"
    team = {"helper": "def aux(x):\n    return x", "main": "def f(x):\n    return 'wrong'"}
    with serving(says("no JSON")) as server:
        observations, _, env = played(server, actions=team, tasks=[row], reward="strict")
    state = env.episode.state
    texts = [*map(asked, [server] * len(server.bodies), range(len(server.bodies))), *observations.values()]
    assert len(server.bodies) == 1 + expert.RETRIES
    for test in state.scoring:
        call = test.strip().split("assert candidate")[-1]
        assert not [text for text in texts if call in text], call
    assert all(("This test does not pass" in text) == state.disjoint for text in texts[:1])


def test_several_helpers_and_main_alone():
    reply = json.dumps({name: f"FOR-{name}." for name in ("aux_1", "aux_2", "main")})
    with serving(says(reply)) as server:
        team = {"helper_1": "", "helper_2": "", "main": ""}
        observations, infos, _ = played(server, actions=team, num_agents=3)
        assert failed(infos) == 0.0 and "FOR-aux_2." in observations["helper_2"]
        observations, infos, _ = played(server, actions={"main": ""}, num_agents=1)
        assert failed(infos) == 0.0 and "FOR-main." in observations["main"]


def test_a_class_is_edited_by_coder():
    reply = json.dumps({"coder_1": "ONE-EDIT", "coder_2": "TWO-EDIT"})
    with serving(says(reply)) as server:
        team = {"coder_1": "def mine(self):\n    return 'ONE-CODE'", "coder_2": "def broken(self:"}
        observations, infos, _ = played(server, "coding/classeval", team)
    assert "ONE-EDIT" in observations["coder_1"] and "TWO-EDIT" not in observations["coder_1"]
    assert "TWO-EDIT" in observations["coder_2"] and failed(infos) == 0.0
    text = asked(server)
    assert "ONE-CODE" in text and "def broken(self:" in text
    assert not [word for word in ("unittest", "self.assert", "TestCase") if word in text]


# What goes wrong


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [("{broken", "no JSON object"), ('{"helper": "x", "main": "y"}', "no text for 'aux'"), ("", "no JSON object")],
)
def test_a_reply_without_edits_is_asked_again_with_the_reason(bad, complaint):
    with serving(first(1, says(bad), says(EDITS))) as server:
        observations, infos, _ = played(server)
    assert len(server.bodies) == 2 and complaint in asked(server, 1) and complaint not in asked(server, 0)
    assert "MAIN-EDIT" in observations["main"] and failed(infos) == 0.0


FAILURES = {
    "no edits": (says("I would rather talk."), QUICK, 1 + expert.RETRIES),
    "hostile": (says('{"aux":"' * 10**5), QUICK, 1 + expert.RETRIES),
    "wrong keys": (says('{"first": "x"}'), QUICK, 1 + expert.RETRIES),
    "status 500": (status(500, f"key {KEY} is fine"), "max_retries=1", 2),
    "bad request": (status(400, "no temperature"), QUICK, 1),
    "no JSON at all": (lambda handler, body, number: handler.send("<html>"), QUICK, 1),
    "time-out": (says(EDITS, seconds=1.5), "timeout=0.3&max_retries=0", 1),
    "reset": (lambda handler, body, number: handler.hang_up(), QUICK, 1),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_seen_and_costs_nothing(name, caplog):
    rule, query, requests = FAILURES[name]
    with serving(rule) as server, caplog.at_level(logging.WARNING, logger="comlrl_envs"):
        observations, infos, env = played(server, asked=query)
    plain = comlrl_envs.make(IDS[0], source="demo", feedback="diagnosis", max_turns=2)
    plain.reset(seed=0, options={"task": 0})
    told, _, _, _, without = plain.step(TEAM)
    assert len(server.bodies) == requests
    assert failed(infos) == 1.0 and failed(without) == 0.0
    for agent, news in zip(env.possible_agents, plain.episode.state.news, strict=True):
        assert f"{NO_ANSWER}\n{news}" in observations[agent] and NO_ANSWER not in told[agent]
    same = {key: value for key, value in infos["main"].items() if key != "metric/expert_failed"}
    assert same == {key: value for key, value in without["main"].items() if key != "metric/expert_failed"}
    assert "The expert gave no answer on 1 of 1 programs" in caplog.text and KEY not in caplog.text
    assert not any(KEY in text for text in observations.values())
    assert env.step(TEAM)[2]["main"]


def test_a_refusal_names_what_to_mend_but_ends_no_run_that_has_begun(caplog, monkeypatch):
    with serving(status(401, f"bad key {KEY}")) as server, pytest.raises(OptionError, match=VARIABLE) as refused:
        played(server)
    assert KEY not in str(refused.value) and KEY not in caplog.text
    with serving(first(1, says(EDITS), status(402, f"{KEY} has no credit"))) as server:
        assert failed(played(server)[1]) == 0.0
        observations, infos, _ = played(server)
        assert failed(infos) == 1.0 and NO_ANSWER in observations["main"] and KEY not in caplog.text
    monkeypatch.delenv(VARIABLE)
    with serving(says(EDITS)) as server, pytest.raises(OptionError, match=f"{VARIABLE} is not set") as unset:
        played(server)
    # The scenario's keyword, not the client's.
    assert "pass expert_key_variable=''" in str(unset.value) and " key_variable" not in str(unset.value)


def test_nothing_is_asked_after_the_last_turn():
    with serving(says(EDITS)) as server:
        _, infos, env = played(server, max_turns=1)
        assert not server.bodies and failed(infos) == 0.0 and not env.agents
        _, _, env = played(server, max_turns=3)
        env.step(TEAM)
        assert len(server.bodies) == 2
        infos = env.step(TEAM)[4]
        assert len(server.bodies) == 2 and failed(infos) == 0.0 and not env.agents


def test_32_episodes_ask_at_once():
    pytest.importorskip("openai")
    barrier = threading.Barrier(32)

    def rule(handler, body, number):
        barrier.wait(20)
        handler.send(chat(json.dumps({"aux": "A", "main": f"M{number}"})))

    with serving(rule) as server:
        env = comlrl_envs.make_vec(IDS[0], 32, **settings(server, "timeout=30&max_retries=0"))
        env.reset(seed=0)
        infos = env.step([{**TEAM, "main": f"# {place}"} for place in range(32)])[4]
    assert server.most_flying == 32 and len(server.bodies) == 32
    assert all(failed(each) == 0.0 for each in infos)


def test_only_the_failed_episodes_fall_back():
    def rule(handler, body, number):
        lost = "LOST" in body["messages"][0]["content"]
        handler.send("x", 400) if lost else handler.send(chat(EDITS))

    with serving(rule) as server:
        pytest.importorskip("openai")
        env = comlrl_envs.make_vec(IDS[0], 4, **settings(server))
        env.reset(seed=0)
        infos = env.step([{**TEAM, "main": "def f():\n    return 'LOST'" if i % 2 else ""} for i in range(4)])[4]
    assert [failed(each) for each in infos] == [0.0, 1.0, 0.0, 1.0]


# Settings


@pytest.mark.parametrize("id", [*IDS, "coding/classeval"])
def test_settings_are_checked(id):
    def make(**kwargs):
        return comlrl_envs.make(id, source="demo", **kwargs)

    with pytest.raises(OptionError, match=r"expert_model='' names none.*feedback='diagnosis'"):
        make(feedback="expert")
    with pytest.raises(OptionError, match="expert_model, expert_base_url go with feedback='expert' alone"):
        make(expert_model="stub", expert_base_url="http://127.0.0.1:1/v1")
    with pytest.raises(OptionError, match="expert_retries go with"):
        make(feedback="plain", expert_retries=5)
    with pytest.raises(OptionError, match="expert_key_variable go with"):
        make(expert_key_variable="")
    for bad, said in (
        ({"expert_retries": -1}, "expert_retries=-1"),
        ({"expert_base_url": "nowhere"}, "base_url='nowhere'"),
        ({"expert_model": "stub?temprature=1"}, "Did you mean 'temperature'"),
        ({"expert_model": "stub?temperature=hot"}, "temperature='hot'"),
    ):
        with pytest.raises(OptionError, match=said):
            make(**{"feedback": "expert", "expert_model": "stub", **bad})
    with pytest.raises(OptionError) as told:
        make(feedback="expert", expert_model=f"stub?api_key={KEY}")
    assert KEY not in str(told.value)
    with pytest.raises(OptionError, match="Did you mean 'expert'"):
        make(feedback="experts")


def test_only_this_mode_is_not_deterministic():
    asking = comlrl_envs.make(IDS[0], source="demo", feedback="expert", expert_model="stub", max_turns=2)
    other = comlrl_envs.make(IDS[0], source="demo", max_turns=2)
    assert not asking.spec.deterministic and "not deterministic" in undetermined(asking)
    assert other.spec.deterministic and undetermined(other) is None
    assert comlrl_envs.spec(IDS[0]).deterministic
    assert asking.game.scenario.channel and not other.game.scenario.channel
    assert (asking.game.scenario.blank("x"), other.game.scenario.blank("x")) == ("", "x")


def test_no_key_is_in_what_is_stored():
    with serving(says(EDITS)) as server:
        _, _, env = played(server)
        one = Expert("stub", server.url, VARIABLE)
        stored = [pickle.dumps(env), pickle.dumps(one), repr(one), repr(env.spec), json.dumps(env.get_state())]
    assert not [text for text in stored if (KEY.encode() if isinstance(text, bytes) else KEY) in text]
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_saved_state_keeps_the_edits_and_asks_nobody():
    with serving(says(EDITS)) as server:
        observations, _, env = played(server)
        other = comlrl_envs.make(IDS[0], **settings(server))
        other.set_state(json.loads(json.dumps(env.get_state())))
        assert other.episode == env.episode and len(server.bodies) == 1
        assert "MAIN-EDIT" in observations["main"]


def quoting(handler, body, number):
    """An expert whose words follow from everybody's code."""
    text = body["messages"][0]["content"]
    keys = [key for key in ("aux", "main", "coder_1", "coder_2") if f'"{key}"' in text]
    handler.send(chat(json.dumps(dict.fromkeys(keys, text[:2000]))))


@pytest.mark.slow
@pytest.mark.parametrize("id", [IDS[0], "coding/classeval"])
def test_the_mode_keeps_what_is_asked_of_every_environment(id):
    pytest.importorskip("openai")
    with serving(quoting) as server:
        subject = Subject(id, settings(server), gold=GOLD[id]).replaced(tasks=16, replies=30)
        notes = {check: run_check(check, subject) for check in CHECKS if check not in ("supersuit", "golden")}
    exempt = {"seed_suites", "resets", "replay", "fork", "saved_state", "pickle"}
    assert {check for check, note in notes.items() if note and "not deterministic" in note} == exempt
    assert {check for check, note in notes.items() if note} == exempt
