"""Built-in policies, their names, and the one way to ask any of them."""

import pickle
import string

import pytest

from comlrl_envs import ActionError, InfrastructureError, OptionError, TaskSet, TextEnv, TextGame, make
from comlrl_envs.model_client import ModelClient
from comlrl_envs.policies import (
    MeasuredReply,
    OpenAIPolicy,
    Usage,
    ask,
    build_policy,
    is_policy,
    per_prompt,
    split_settings,
    usage_of,
)
from comlrl_envs.policies.build import parse_policies
from comlrl_envs.seeding import rng

from .toys import ROWS, TurnTaking, start


@pytest.fixture
def env():
    return make("writing/length_ratio", split="eval")


def begin(env, count=3):
    return env.game.start_many([env.tasks[i] for i in range(count)], list(range(count)))


def answers(env, policy, agent="summarizer", seed=0, count=3):
    return ask(policy, env.game, begin(env, count), agent, rng(seed))


def test_empty_and_echo(env):
    assert answers(env, build_policy("empty")) == ["", "", ""]
    prompts = [env.game.prompts(episode)["summarizer"] for episode in begin(env)]
    assert answers(env, build_policy("echo")) == prompts


def test_random_writes_printable_text_that_belongs_to_the_episode(env):
    policy = build_policy("random")
    texts = answers(env, policy, count=30)
    assert answers(env, policy, seed=9, count=30) == texts
    assert answers(env, policy, "elaborator", count=30) != texts
    assert answers(env, policy, count=2) == texts[:2]
    assert {char for text in texts for char in text} <= set(string.printable)
    assert max(map(len, texts)) <= 64 and len(set(map(len, texts))) > 10


def test_random_draws_for_bare_prompts_from_the_generator():
    policy = build_policy("random")
    assert policy.act(["a"] * 5, "x", rng(1)) == policy.act(["b"] * 5, "x", rng(1))
    assert policy.act(["a"] * 5, "x", rng(1)) != policy.act(["a"] * 5, "x", rng(2))


def test_the_oracle_reads_the_episode(env):
    policy = build_policy("oracle")
    episodes = begin(env)
    actions = {agent: ask(policy, env.game, episodes, agent, rng(0)) for agent in env.game.agents}
    moves = [(e, {agent: texts[i] for agent, texts in actions.items()}) for i, e in enumerate(episodes)]
    assert [episode.reward for episode in env.game.step_many(moves)] == [1.0] * 3


def test_an_unknown_oracle_names_the_task():
    game = TextGame(TurnTaking())
    with pytest.raises(OptionError, match=r"no reply of 'asker' for task 'row0' in turn 1"):
        ask(build_policy("oracle"), game, start(game), "asker", rng(0))


def test_each_form_is_told_what_it_reads():
    env = TextEnv(TextGame(TurnTaking()), TaskSet(ROWS))
    [episode] = start(env.game)
    [episode] = env.game.step_many([(episode, {"asker": "hello"})])

    class Chat:
        def act_chat(self, chats, agent, rng):
            return [repr(chat) for chat in chats]

    class Whole:
        def act_episodes(self, game, episodes, agent, rng):
            return [f"{agent} {episode.turn}" for episode in episodes]

        def act(self, prompts, agent, rng):
            raise AssertionError("the fuller form goes first")

    def one(policy):
        return ask(policy, env.game, [episode], "answerer", rng(0))[0]

    assert one(per_prompt(str.upper)) == env.game.prompts(episode)["answerer"].upper()
    assert one(Chat()) == repr(env.game.messages(episode)["answerer"])
    assert one(Whole()) == "answerer 1"


def test_what_a_policy_must_not_give(env):
    class Short:
        def act(self, prompts, agent, rng):
            return ["x"]

    class Tokens:
        def act(self, prompts, agent, rng):
            return [[1, 2]] * len(prompts)

    class Broken:
        def act(self, prompts, agent, rng):
            raise InfrastructureError("x", "the server is gone")

    with pytest.raises(OptionError, match="1 replies to 3"):
        answers(env, Short())
    with pytest.raises(ActionError, match="list"):
        answers(env, Tokens())
    with pytest.raises(OptionError, match="per_prompt"):
        answers(env, str.upper)
    assert [reply.reason for reply in answers(env, Broken())] == ["the server is gone"] * 3
    assert not is_policy(str.upper) and is_policy(Short())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("randm", "Did you mean 'random'"),
        ("opnai:gpt", "Did you mean 'openai'"),
        ("openai", "openai:MODEL"),
        ("", "no policy"),
        ("openai:", "model"),
        ("openai:m?temprature=1", "Did you mean 'temperature'"),
        ("openai:m?temperature=hot", "float"),
        ("openai:m?chat=maybe", "bool"),
        ("openai:m?base_url=ftp://x", "base_url"),
        ("openai:m&base_url=http://localhost:1/v1", r"settings begin with '\?'.* m\?base_url="),
        ("openai:m&tempreture=1?top_p=1", r"settings begin with '\?'"),
    ],
)
def test_a_wrong_name_is_told_the_right_one(name, said):
    with pytest.raises(OptionError, match=said):
        build_policy(name)


@pytest.mark.parametrize("query", ["api_key=sk-hush", "key=sk-hush", "API_KEY=sk-hush"])
@pytest.mark.parametrize("sign", ["?", "&"])
def test_a_key_in_a_name_is_refused_and_not_repeated(query, sign):
    with pytest.raises(OptionError, match="environment variable") as caught:
        build_policy(f"openai:m{sign}{query}")
    assert "hush" not in str(caught.value)


def test_a_model_is_named_with_its_settings():
    policy = build_policy(
        "openai:org/m-1?base_url=http://localhost:8000/v1&temperature=1&max_tokens=9&chat=false&timeout=5"
    )
    assert policy.client == ModelClient(
        "org/m-1", "http://localhost:8000/v1", chat=False, parameters={"temperature": 1.0, "max_tokens": 9}, timeout=5.0
    )
    assert policy.settings()["parameters"] == {"temperature": 1.0, "max_tokens": 9}
    assert OpenAIPolicy("m").client == ModelClient("m")


def test_settings_after_a_question_mark():
    assert split_settings("a/b", {}) == ("a/b", {})
    assert split_settings("models/a&b=c", {"temperature": float}) == ("models/a&b=c", {})
    known = {"x": float, "y": str, "z": bool}
    assert split_settings("a?x=1e-3&y=&z=True", known) == ("a", {"x": 0.001, "y": "", "z": True})


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("random", "random"),
        (" random ", "random"),
        ("random, oracle", ["random", "oracle"]),
        ("b=oracle,a=random", {"b": "oracle", "a": "random"}),
        ("a=hf:x?top_p=1", {"a": "hf:x?top_p=1"}),
        ("hf:x?top_p=1,openai:m?seed=2&stop=a", ["hf:x?top_p=1", "openai:m?seed=2&stop=a"]),
    ],
)
def test_policies_of_a_command_line(text, parsed):
    assert parse_policies(text, ["a", "b"]) == parsed


def test_slips_in_policies_of_a_command_line():
    with pytest.raises(OptionError, match=r"names 'summariser'.*Did you mean 'summarizer'"):
        parse_policies("summariser=random,elaborator=echo", ["summarizer", "elaborator"])
    with pytest.raises(OptionError, match="empty"):
        parse_policies(" ", ["a"])


def test_a_measured_reply_is_a_text_that_keeps_its_cost():
    reply = MeasuredReply("héllo", Usage(1.5, 2, 3))
    assert reply == "héllo" and isinstance(reply, str)
    again = pickle.loads(pickle.dumps(reply))
    assert again == reply and again.usage == reply.usage
    assert usage_of("plain") == Usage()
