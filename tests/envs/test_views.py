"""Views for other learners: PettingZoo's own suites, what each view shows and takes, and how views go together."""

import doctest
import json
import multiprocessing
import pickle
import warnings
from typing import ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from pettingzoo import ParallelEnv
from pettingzoo.test import api_test, parallel_api_test, seed_test
from pettingzoo.utils import aec_to_parallel, parallel_to_aec

import comlrl_envs
from comlrl_envs import ActionError, EpisodeError, OptionError, views
from comlrl_envs.views import ChoiceView, DictView, TokenActions, TokenObservations, TokenView, aec

from .toys import turn_taking_env

REPLIES = ["ab", "abcde", "", "x" * 20]


def writers(**settings):
    return comlrl_envs.make("writing/length_ratio", **{"max_turns": 3, "feedback": "levels", **settings})


def cut_of(agent, observation):
    """Candidates from what the agent reads; at module level, so that a view of it can be pickled."""
    return [agent, observation[-5:]]


class Stranger(ParallelEnv):
    """Knows nothing of this project: Gymnasium's own spaces, no state, no limit; the guest leaves first."""

    metadata: ClassVar = {"name": "stranger", "render_modes": ["ansi"]}
    render_mode = "ansi"

    def __init__(self):
        self.possible_agents = ["host", "guest"]
        self.agents = []
        letters = "abcdefghijklmnopqrstuvwxyz 0123456789"
        self.seen = {agent: spaces.Text(40, min_length=0, charset=letters) for agent in self.possible_agents}
        self.said = {agent: spaces.Text(9, min_length=0, charset=letters) for agent in self.possible_agents}
        self.closed = 0

    def observation_space(self, agent):
        return self.seen[agent]

    def action_space(self, agent):
        return self.said[agent]

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.turn = 0
        self.number = int(np.random.default_rng(seed).integers(1000))
        return self._look(), {agent: {} for agent in self.agents}

    def _look(self):
        return {agent: f"{agent} at turn {self.turn} sees {self.number}" for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents) and all(type(text) is str for text in actions.values())
        self.number = (self.number * 31 + sum(map(ord, "".join(actions.values())))) % 1000
        self.turn += 1
        ends = {agent: self.turn >= (2 if agent == "guest" else 3) for agent in self.agents}
        observations, acted = self._look(), self.agents
        self.agents = [agent for agent in acted if not ends[agent]]
        return (
            observations,
            dict.fromkeys(acted, self.number / 1000),
            ends,
            dict.fromkeys(acted, False),
            {agent: {} for agent in acted},
        )

    def render(self):
        return f"turn {self.turn}"

    def close(self):
        self.closed += 1


ENVS = {"ours": writers, "turns": turn_taking_env, "stranger": Stranger}
VIEWS = {
    "dict": DictView,
    "choice": lambda env: ChoiceView(env, REPLIES),
    "choice of text": lambda env: ChoiceView(env, cut_of, 2),
    "tokens": lambda env: TokenView(env, 48, 6),
    "tokens float32": lambda env: TokenView(env, 48, 6, "float32"),
    "dict, choice": lambda env: DictView(ChoiceView(env, REPLIES)),
    "dict, tokens": lambda env: DictView(TokenActions(env, 6)),
    "tokens, choice": lambda env: TokenObservations(ChoiceView(env, cut_of, 2), 48),
    "choice, tokens": lambda env: ChoiceView(TokenObservations(env, 48), REPLIES),
}


@pytest.fixture(params=ENVS)
def make_env(request):
    return ENVS[request.param]


@pytest.fixture(params=VIEWS)
def view(request):
    return VIEWS[request.param]


@pytest.fixture
def make(make_env, view):
    return lambda: view(make_env())


def play(env, seed):
    """A whole episode of sampled actions: everything that comes back."""
    for place, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(seed + place)
    log = [env.reset(seed=seed)]
    while env.agents:
        log.append(env.step({agent: env.action_space(agent).sample() for agent in env.agents}))
    return log


def plain(value):
    """Arrays as lists, so that logs can be compared."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_parallel_api_without_warnings(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(make(), num_cycles=50)


def test_seed_over_the_aec_view(make):
    seed_test(lambda: parallel_to_aec(make()), num_cycles=20)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_api_over_the_aec_view_as_pettingzoo_ships_it(make):
    api_test(aec(make()), num_cycles=20)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_api_of_the_environment_itself_behind_aec(make_env):
    api_test(aec(make_env()), num_cycles=20)


def test_equal_seeds_play_equal_episodes(make):
    assert plain(play(make(), 3)) == plain(play(make(), 3))
    assert plain(play(make(), 3)) != plain(play(make(), 4))


def test_observations_lie_in_their_spaces_and_spaces_are_equal_and_stay(make):
    env = make()
    spaces_of = {agent: (env.observation_space(agent), env.action_space(agent)) for agent in env.possible_agents}
    (first, second) = spaces_of.values()
    assert first == second and first[0] is not second[0] and first[1] is not second[1]
    for step in play(env, 0):
        for agent, observation in step[0].items():
            assert env.observation_space(agent) is spaces_of[agent][0]
            assert env.action_space(agent) is spaces_of[agent][1]
            assert env.observation_space(agent).contains(observation)


def test_what_is_not_viewed_is_handed_through(make_env, view):
    base = make_env()
    env = view(base)
    assert env.unwrapped is base
    assert env.metadata == base.metadata and env.render_mode == base.render_mode
    assert env.possible_agents == base.possible_agents and str(env) == str(base)
    log = play(env, 0)
    for _, rewards, _, _, infos in log[1:]:
        assert len(set(rewards.values())) == 1
        assert all(isinstance(v, int | float) for info in infos.values() for v in info.values())
    assert env.agents == base.agents == []
    if base.render_mode:
        assert env.render() == base.render()
    env.close()
    env.close()


def test_max_cycles_reaches_the_environment(view):
    base = writers(max_turns=9)
    env = view(base)
    env.max_cycles = 2
    assert base.max_cycles == env.max_cycles == 2
    log = play(env, 0)
    assert len(log) == 3 and all(log[-1][3].values()) and not any(log[-1][2].values())


def test_close_reaches_the_environment():
    base = Stranger()
    DictView(base).close()
    assert base.closed == 1


def finish(env, queue):
    """In another process: the rest of an episode."""
    queue.put(plain(rest(env)))


def rest(env):
    log = []
    while env.agents:
        log.append(env.step({agent: env.action_space(agent).sample() for agent in env.agents}))
    return log


def begun(env):
    """Two steps into an episode, with the generators of the action spaces used."""
    for place, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(place)
    env.reset(seed=5)
    env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    return env


@pytest.mark.parametrize("name", VIEWS)
def test_an_episode_goes_on_in_a_spawned_process(name):
    env = begun(VIEWS[name](writers()))
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    worker = context.Process(target=finish, args=(env, queue))
    worker.start()
    there = queue.get(timeout=60)
    worker.join(60)
    assert there == plain(rest(env)) and len(there) == 2


def test_a_pickled_view_goes_on(make):
    env = begun(make())
    twin = pickle.loads(pickle.dumps(env))
    assert plain(rest(twin)) == plain(rest(env))
    again = pickle.loads(pickle.dumps(aec(make())))
    again.reset(seed=0)
    assert again.agent_selection == again.possible_agents[0]


def test_a_fork_goes_on_alone(view):
    env = begun(view(writers()))
    before = plain(env.state())
    twin = env.fork()
    assert type(twin) is type(env)
    for agent in env.possible_agents:
        assert twin.action_space(agent) == env.action_space(agent)
        assert twin.action_space(agent) is not env.action_space(agent)
        assert twin.observation_space(agent) is not env.observation_space(agent)
    rest(twin)
    assert plain(env.state()) == before != plain(twin.state())
    assert env.agents and not twin.agents


def test_a_state_is_taken_up_by_another_view(view):
    env, other = begun(view(writers())), view(writers())
    other.set_state(json.loads(json.dumps(env.get_state())))
    assert plain(other.state()) == plain(env.state())
    for agent in env.possible_agents:
        other.action_space(agent).seed(9)
        env.action_space(agent).seed(9)
    assert plain(rest(other)) == plain(rest(env))


def test_dict_view_shows_the_text_itself():
    base, env = writers(), DictView(writers())
    texts, shown = base.reset(seed=1)[0], env.reset(seed=1)[0]
    assert shown == {agent: {"text": text} for agent, text in texts.items()}
    assert list(env.observation_space("summarizer").spaces) == ["text"]
    assert env.state() == base.state() and env.state_space.contains(env.state())


def test_an_action_is_the_candidate_at_its_place():
    env = ChoiceView(writers(), REPLIES)
    assert env.action_space("summarizer") == spaces.Discrete(4)
    env.reset(seed=0)
    env.step({"summarizer": np.int64(1), "elaborator": np.array(3)})
    said = [exchange[0].reply for exchange in env.unwrapped.episode.past]
    assert said == ["abcde", "x" * 20]


def test_candidates_by_agent():
    env = ChoiceView(writers(), {"elaborator": ["long", "longer"], "summarizer": ("a", "b")})
    assert env.offered("summarizer") == ("a", "b") and env.offered("elaborator") == ("long", "longer")
    env.reset(seed=0)
    assert env.step({"summarizer": 0, "elaborator": 0})[1]["summarizer"] == pytest.approx(np.exp(-1))


def test_candidates_from_what_each_agent_reads():
    env = ChoiceView(Stranger(), cut_of, 2)
    with pytest.raises(EpisodeError, match="reset"):
        env.offered("host")
    observations, _ = env.reset(seed=0)
    assert env.offered("guest") == ("guest", observations["guest"][-5:])
    observations = env.step({"host": 0, "guest": 1})[0]
    assert env.offered("host") == ("host", observations["host"][-5:])
    env.step({"host": 0, "guest": 1})
    with pytest.raises(EpisodeError, match="guest"):
        env.offered("guest")


@pytest.mark.parametrize(
    ("candidates", "n", "message"),
    [
        ("abc", None, "expected a list of texts"),
        ([], None, "at least one"),
        (["a", 1], None, "expected a list of texts"),
        (["a", "b"], 3, "expected 3"),
        ({"summarizer": ["a"]}, None, "elaborator"),
        ({"summarizer": ["a"], "elaborator": ["a", "b"]}, None, "expected 1"),
        ({"summarizer": ["a"], "elaborator": ["a"], "elaborater": ["a"]}, None, "Did you mean 'elaborator'"),
        (cut_of, None, "pass n"),
        (cut_of, 0, "positive"),
    ],
)
def test_bad_candidates(candidates, n, message):
    with pytest.raises(OptionError, match=message):
        ChoiceView(writers(), candidates, n)


def test_a_callable_must_keep_to_n():
    with pytest.raises(OptionError, match="There are 2 candidates of 'summarizer', expected 3"):
        ChoiceView(writers(), cut_of, 3).reset(seed=0)


@pytest.mark.parametrize(
    ("action", "message"), [(4, "4 candidates"), (-1, "4 candidates"), ("ab", "str"), (1.0, "float"), (None, "None")]
)
def test_bad_choices_name_the_agent(action, message):
    env = ChoiceView(writers(), REPLIES)
    env.reset(seed=0)
    with pytest.raises(ActionError, match=message) as raised:
        env.step({"summarizer": 0, "elaborator": action})
    assert "elaborator" in str(raised.value)


def test_actions_of_nobody_and_after_the_end():
    env = ChoiceView(writers(max_turns=1), REPLIES)
    env.reset(seed=0)
    with pytest.raises(ActionError, match="Did you mean 'elaborator'"):
        env.step({"summarizer": 0, "elaborater": 0})
    env.step({"summarizer": 0, "elaborator": 0})
    assert env.step({}) == ({}, {}, {}, {}, {})
    with pytest.raises(EpisodeError):
        env.step({"summarizer": 0, "elaborator": 0})


def test_tokens_are_bytes_counted_from_one():
    env = TokenObservations(writers(), 24)
    shown = env.reset(seed=1)[0]["summarizer"]
    text = env.unwrapped.episode.briefs[0]
    assert shown.dtype == np.int64 and env.observation_space("summarizer") == spaces.Box(0, 256, (24,), np.int64)
    assert shown.tolist() == [byte + 1 for byte in text.encode()] + [0] * (24 - len(text))


def test_a_long_text_keeps_its_end():
    env = TokenObservations(writers(), 5)
    assert env.encode("abcdefgh").tolist() == [ord(c) + 1 for c in "defgh"]
    assert env.encode("aé").tolist() == [98, 0xC3 + 1, 0xA9 + 1, 0, 0]
    assert env.encode("\ud800").tolist() == [ord("?") + 1, 0, 0, 0, 0]


def test_float_tokens_are_the_same_scaled():
    whole, scaled = TokenObservations(writers(), 16), TokenObservations(writers(), 16, "float32")
    assert scaled.encode("héllo").dtype == np.float32
    assert np.rint(scaled.encode("héllo").astype(float) * 256).tolist() == whole.encode("héllo").tolist()
    assert scaled.observation_space("summarizer").contains(scaled.encode("\U0010ffff"))


@given(st.text(max_size=40))
def test_a_text_survives_both_directions(text):
    text = text.replace("\x00", "")
    tokens = TokenObservations(writers(), 200).encode(text)
    assert TokenActions(writers(), 200).decode("summarizer", tokens) == text


@given(st.lists(st.integers(0, 256), min_size=8, max_size=8))
def test_every_action_is_a_text(ids):
    text = TokenActions(writers(), 8).decode("summarizer", np.array(ids))
    ended = ids[: ids.index(0)] if 0 in ids else ids
    assert text == bytes(i - 1 for i in ended).decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("action", "message"),
    [([1, 2], "shape"), ([1.0, 2.0, 3.0], "float64"), ([1, 2, 257], "257"), ([-1, 0, 0], "-1"), ("abc", "shape")],
)
def test_bad_token_actions_name_the_agent(action, message):
    with pytest.raises(ActionError, match=message) as raised:
        TokenActions(writers(), 3).decode("elaborator", action)
    assert "elaborator" in str(raised.value)


class Words:
    """A tokenizer of a few words."""

    words = ("write", "about", "other", "bees")

    def encode(self, text):
        return [self.words.index(word) if word in self.words else 2 for word in text.lower().strip(".").split()]

    def decode(self, ids):
        return " ".join(self.words[i] for i in ids)


def test_a_tokenizer_in_place_of_bytes():
    env = TokenView(writers(), 6, 3, tokenizer=Words(), vocab_size=4)
    shown = env.reset(seed=0, options={"task": "bees"})[0]["summarizer"]
    assert shown.tolist() == [1, 2, 4, 0, 0, 0]
    assert env.action_space("summarizer") == spaces.MultiDiscrete([5, 5, 5])
    env.step({"summarizer": np.array([4, 0, 1]), "elaborator": np.array([1, 2, 4])})
    assert [past[0].reply for past in env.unwrapped.episode.past] == ["bees", "write about bees"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": 0}, "length=0"),
        ({"dtype": "int32"}, "Did you mean 'int64'"),
        ({"tokenizer": Words()}, "vocab_size"),
        ({"vocab_size": 9}, "without a tokenizer"),
    ],
)
def test_bad_settings_of_tokens(settings, message):
    with pytest.raises(OptionError, match=message):
        TokenObservations(writers(), **{"length": 8, **settings})


def test_a_tokenizer_beyond_its_vocabulary():
    with pytest.raises(OptionError, match="vocab_size=3"):
        TokenObservations(writers(), 8, tokenizer=Words(), vocab_size=3).encode("bees")


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_the_state_holds_each_agents_tokens_at_a_place_of_its_own(make_env, dtype):
    env = TokenView(make_env(), 40, 4, dtype)
    with pytest.raises(EpisodeError, match="reset"):
        env.state()
    last = {}
    for step in play_steps(env):
        last |= step
        assert np.array_equal(env.state(), np.concatenate([last[agent] for agent in env.possible_agents]))
        assert env.state_space.contains(env.state())


def play_steps(env):
    yield env.reset(seed=0)[0]
    while env.agents:
        yield env.step({agent: env.action_space(agent).sample() for agent in env.agents})[0]


def test_views_of_two_sides_go_together_in_any_order():
    actions = [{"summarizer": 0, "elaborator": 1}] * 3
    logs = []
    for env in (
        TokenObservations(ChoiceView(writers(), REPLIES), 48),
        ChoiceView(TokenObservations(writers(), 48), REPLIES),
    ):
        logs.append(plain([env.reset(seed=2), *map(env.step, actions)]))
    assert logs[0] == logs[1]


def test_two_views_of_one_side_are_refused():
    with pytest.raises(OptionError, match="'summarizer' is a dict; TokenObservations"):
        TokenObservations(DictView(writers()), 8).reset(seed=0)


def test_aec_goes_back_to_the_view_it_came_from():
    env = DictView(writers())
    assert aec_to_parallel(aec(env)) is env
    assert isinstance(aec_to_parallel(aec(writers())), DictView)


def test_examples_in_docstrings():
    failed, tried = doctest.testmod(views)
    assert tried > 0 and failed == 0


@pytest.mark.parametrize("name", ["tokens", "tokens float32", "tokens, choice", "choice, tokens"])
def test_supersuit_stacks_them(name):
    supersuit = pytest.importorskip("supersuit")
    stacked = supersuit.concat_vec_envs_v1(
        supersuit.pettingzoo_env_to_vec_env_v1(VIEWS[name](writers())), 2, num_cpus=0, base_class="gymnasium"
    )
    observations, _ = stacked.reset(seed=0)
    assert observations.shape == (4, 48)
    for _ in range(7):
        actions = np.array([stacked.action_space.sample() for _ in range(4)])
        observations, rewards, _, _, _ = stacked.step(actions)
        assert observations.shape == (4, 48)
        assert rewards[0] == rewards[1] and rewards[2] == rewards[3]


@pytest.mark.parametrize(
    "view",
    [lambda env: ChoiceView(env, ["a"]), DictView, aec, lambda env: TokenView(env, 8, 8)],
    ids=["choice", "dict", "aec", "token"],
)
def test_an_id_is_no_environment(view):
    with pytest.raises(OptionError, match=r"env is a str; pass make\('writing/length_ratio'\)"):
        view("writing/length_ratio")
    with pytest.raises(OptionError, match="env is a NoneType; pass a ParallelEnv"):
        view(None)
