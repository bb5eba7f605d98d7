"""Both kinds of games behind one protocol, and what may be given as `env=`."""

import pytest
from envs.toys import TurnTaking

from comlrl_envs import TaskSet, TextEnv, TextGame, from_reward, make
from comlrl_learners import ConfigError
from comlrl_learners.foreign import ForeignGame
from comlrl_learners.games import ForeignOptions, Game, episode_seed, held_out_playground, open_playground

from .strangers import Relay

ID = "writing/length_ratio"
ROWS = [{"id": f"row-{i}", "prompt": text} for i, text in enumerate(("one", "two", "three"))]
OPTIONS = ForeignOptions(tasks_per_epoch=5, eval_tasks=3, branching=True, max_turns=2)


def bare():
    return from_reward(ROWS, lambda first, second: [0.5] * len(first))


def turn_taking():
    return TextEnv(TextGame(TurnTaking()), TaskSet(ROWS), "turn_taking")


def ids(playground):
    return [playground.tasks[i].id for i in range(len(playground.tasks))]


SOURCES = {
    "id": lambda: ID,
    "environment": lambda: make(ID),
    "function": lambda: lambda: make(ID),
    "callable-reward": bare,
    "turn-taking": turn_taking,
    "stranger": Relay,
    "stranger-class": lambda: Relay,
}


@pytest.mark.parametrize("source", SOURCES)
def test_whatever_opens_a_game_is_one_by_the_protocol(source):
    playground = open_playground(SOURCES[source](), OPTIONS)
    assert isinstance(playground.game, Game)
    assert len(playground.tasks) == len(set(ids(playground))) > 0
    assert len(playground.game.agents) == 2


@pytest.mark.parametrize("source", SOURCES)
def test_episodes_are_values_that_a_move_leaves_as_they_were(source):
    playground = open_playground(SOURCES[source](), OPTIONS)
    game = playground.game
    (start,) = game.start_many([playground.tasks[0]], [7])
    assert (start.turn, start.done, start.reward, start.score) == (0, False, 0.0, None)
    assert start.task_id == playground.tasks[0].id
    before = game.prompts(start)
    actions = {agent: f"I am {agent}." for agent in game.acting(start)}
    once, twice = game.step_many([(start, actions), (start, actions)])
    assert once.reward == twice.reward
    assert game.prompts(once) == game.prompts(twice)
    assert (start.turn, once.turn) == (0, 1)
    assert game.prompts(start) == before
    assert once.reward == pytest.approx(sum(once.score.terms.values()))


@pytest.mark.parametrize("source", SOURCES)
def test_every_agent_that_acts_is_shown_a_chat_and_a_text(source):
    playground = open_playground(SOURCES[source](), OPTIONS)
    game = playground.game
    (start,) = game.start_many([playground.tasks[0]], [7])
    messages, prompts = game.messages(start), game.prompts(start)
    for agent in game.acting(start):
        assert prompts[agent]
        assert [message["role"] for message in messages[agent]] == ["user"]
        assert messages[agent][-1]["content"] in prompts[agent]


def test_an_id_an_environment_and_a_function_open_the_same_tasks():
    first, *others = (open_playground(SOURCES[name](), OPTIONS) for name in ("id", "environment", "function"))
    for other in others:
        assert ids(other) == ids(first)
        assert other.name == first.name
        assert other.game.agents == first.game.agents
    assert first.name.startswith(ID)


def test_names_say_what_is_played():
    assert open_playground(bare(), OPTIONS).name == "custom"
    assert open_playground(Relay(), OPTIONS).name == "Relay"


def test_a_strangers_tasks_are_seeds_of_the_number_asked_for():
    training, held_out = (open_playground(Relay(), OPTIONS, held_out=out) for out in (False, True))
    assert (len(training.tasks), len(held_out.tasks)) == (5, 3)
    assert not {t.seed for t in training.tasks} & {t.seed for t in held_out.tasks}
    assert isinstance(training.game, ForeignGame)
    assert training.game.max_turns == 2


def test_the_held_out_side_of_an_id_holds_other_tasks():
    training, held_out = open_playground(ID, OPTIONS), held_out_playground(ID, OPTIONS)
    assert not set(ids(training)) & set(ids(held_out))


def test_the_held_out_side_of_an_environment_keeps_its_options():
    held_out = held_out_playground(make(ID, max_turns=3), OPTIONS)
    assert held_out.game.max_turns == 3
    assert ids(held_out) == ids(held_out_playground(ID, OPTIONS))


@pytest.mark.parametrize("env", [bare, turn_taking])
def test_an_environment_without_an_id_has_no_held_out_side(env):
    assert held_out_playground(env(), OPTIONS) is None
    assert held_out_playground(env, OPTIONS) is None


@pytest.mark.parametrize("env", [Relay(), Relay])
def test_a_strangers_held_out_side_is_its_held_out_seeds(env):
    assert ids(held_out_playground(env, OPTIONS)) == ids(open_playground(Relay(), OPTIONS, held_out=True))


@pytest.mark.parametrize(("env", "kind"), [(3, "int"), (lambda: "writing", "str"), (lambda: None, "NoneType")])
def test_what_opens_no_game_is_named_with_what_would(env, kind):
    with pytest.raises(ConfigError, match=rf"gives a {kind}\. Give an id such as"):
        open_playground(env, OPTIONS)


def test_an_episodes_seed_depends_on_run_purpose_task_and_visit_and_on_nothing_else():
    base = (0, "train", "row-0", 0)
    others = [(1, "train", "row-0", 0), (0, "eval", "row-0", 0), (0, "train", "row-1", 0), (0, "train", "row-0", 1)]
    seeds = [episode_seed(*arguments) for arguments in (base, *others)]
    assert len(set(seeds)) == 5
    assert episode_seed(*base) == seeds[0]
    assert all(0 <= seed < 2**63 for seed in seeds)
