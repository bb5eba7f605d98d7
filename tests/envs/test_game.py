import dataclasses
import pickle

import pytest

from comlrl_envs import (
    ActionError,
    EpisodeError,
    InfrastructureError,
    OptionError,
    RewardError,
    Task,
    TaskError,
    TextGame,
    make,
)

from .toys import ROWS, Counting, TurnTaking, start


def play(game, texts):
    (episode,) = start(game)
    for text in texts:
        (episode,) = game.step_many([(episode, dict.fromkeys(game.agents, text))])
    return episode


@pytest.mark.parametrize(
    ("memory", "roles", "replies"),
    [("full", "uauau", ["one", "three"]), ("last", "uau", ["three"]), ("none", "u", [])],
)
def test_memory_of_an_agent_that_speaks_every_other_turn(memory, roles, replies):
    game = TextGame(TurnTaking(max_turns=9), memory=memory)
    messages = game.messages(play(game, ["one", "two", "three", "four"]))["asker"]
    assert "".join(m["role"][0] for m in messages) == roles
    assert [m["content"] for m in messages if m["role"] == "assistant"] == replies
    assert messages[0]["content"].startswith("You are the asker. Prompt 0.")
    # What was heard while it was not its turn is not lost.
    assert ("Heard: three" in str(messages)) == (memory != "none")
    assert messages[-1]["content"].endswith("Heard: four")


@pytest.mark.parametrize("memory", ["full", "last", "none"])
def test_prompts_hold_exactly_the_messages(memory):
    game = TextGame(TurnTaking(max_turns=9), memory=memory)
    episode = play(game, ["one", "two", "three"])
    for agent in game.agents:
        prompt = game.prompts(episode)[agent]
        for message in game.messages(episode)[agent]:
            assert message["content"] in prompt
            prompt = prompt.replace(message["content"], "", 1)
        assert not prompt.replace("--- Your earlier reply ---", "").replace("--- End of your reply ---", "").strip()


def test_step_many_leaves_its_arguments_alone():
    game = TextGame(TurnTaking())
    (episode,) = start(game)
    before = pickle.dumps(episode)
    game.step_many([(episode, {"asker": "x"})])
    assert pickle.dumps(episode) == before
    with pytest.raises(dataclasses.FrozenInstanceError):
        episode.turn = 5


def test_equal_moves_are_scored_once_in_one_call():
    scenario = Counting()
    game = TextGame(scenario)
    episodes = start(game, 4)
    texts = ["x", "y", "x", "x"]
    stepped = game.step_many([(e, {"a": t, "b": ""}) for e, t in zip(episodes, texts, strict=True)])
    assert scenario.batches == [2]
    assert [e.reward for e in stepped] == [1.0] * 4
    assert [e.past[0][-1].reply for e in stepped] == texts
    other_seed = game.start_many([Task("row0", ROWS[0])] * 2, [0, 1])
    game.step_many([(e, {"a": "x", "b": ""}) for e in other_seed])
    assert scenario.batches == [2, 2]
    assert game.step_many([]) == []


def test_batched_and_single_steps_agree():
    game = TextGame(TurnTaking())
    tasks = [Task(row["id"], row) for row in ROWS]
    episodes = game.start_many(tasks, range(5))
    moves = [(e, {"asker": e.task_id * 2}) for e in episodes]
    assert game.step_many(moves) == [game.step_many([move])[0] for move in moves]


@pytest.mark.parametrize("fail", ["each", "batch"])
def test_a_failed_machine_loses_one_move_at_most(fail):
    game = TextGame(Counting(fail=fail))
    episodes = start(game, 3)
    moves = [(e, {"a": t, "b": "y"}) for e, t in zip(episodes, ("fine", "boom", "also fine"), strict=True)]
    with pytest.raises(InfrastructureError):
        game.step_many(moves)
    kept = game.step_many(moves, on_error="keep")
    assert [e.turn for e in kept] == [1, 0, 1]
    assert "play the same move again" in kept[1].error and kept[0].error == ""
    (again,) = game.step_many([(kept[1], {"a": "fine", "b": "y"})])
    assert again == kept[0]
    with pytest.raises(OptionError, match="Did you mean 'keep'"):
        game.step_many(moves, on_error="kep")


@pytest.mark.parametrize(
    ("broken", "said"),
    [("nan", "'t' is nan"), ("inf_metric", "'m' is inf"), ("names", "terms"), ("type", "'t' is a str")],
)
def test_bad_scores_name_task_and_turn(broken, said):
    game = TextGame(Counting(broken=broken))
    (episode,) = start(game)
    with pytest.raises(RewardError, match=said) as caught:
        game.step_many([(episode, {"a": "", "b": ""})])
    assert "row0" in str(caught.value) and "turn 0" in str(caught.value)


def test_rewards_are_clipped_and_the_residue_is_a_term():
    game = TextGame(Counting())
    (episode,) = start(game)
    (episode,) = game.step_many([(episode, {"a": "x" * 7, "b": ""})])
    assert episode.reward == 1.0 and episode.score.terms == {"t": 7.0, "clip": -6.0}
    assert game.term_names == ("t", "clip")


def test_endings():
    game = TextGame(TurnTaking(max_turns=3))
    assert not play(game, ["a", "b"]).done
    assert play(game, ["a", "b", "c"]).done
    assert play(game, ["stop"]).done
    stopping = TextGame(TurnTaking(max_turns=3), stop_reward=3.5)
    assert not play(stopping, ["ab"]).done
    over = play(stopping, ["abc"])
    assert over.done and stopping.acting(over) == () and stopping.oracle(over) is None
    with pytest.raises(EpisodeError, match="row0"):
        stopping.step_many([(over, {"asker": "x"})])


def test_acting_must_name_agents():
    class Stranger(TurnTaking):
        def acting(self, state):
            return ("askr",)

    game = TextGame(Stranger())
    with pytest.raises(ActionError, match="Did you mean 'asker'"):
        game.acting(start(game)[0])


def test_prompts_replace_the_brief():
    def brief(game):
        return game.prompts(start(game)[0])

    assert brief(TextGame(TurnTaking(), prompts="Do: {prompt}")) == {
        "asker": "Do: Prompt 0.",
        "answerer": "Do: Prompt 0.",
    }
    assert brief(TextGame(TurnTaking(), prompts=lambda row: row["id"]))["asker"] == "row0"
    assert brief(TextGame(TurnTaking(), prompts=["A {id}", "B {{x}}"])) == {"asker": "A row0", "answerer": "B {x}"}
    assert brief(TextGame(TurnTaking(), prompts={"asker": "A"})) == {
        "asker": "A",
        "answerer": "You are the answerer. Prompt 0.",
    }


def test_bad_prompts_say_how_to_mend_them():
    with pytest.raises(TaskError, match="Did you mean 'prompt'"):
        start(TextGame(TurnTaking(), prompts="{promt}"))
    with pytest.raises(OptionError, match="braces"):
        start(TextGame(TurnTaking(), prompts="{} {prompt}"))
    with pytest.raises(TaskError, match="return a str"):
        start(TextGame(TurnTaking(), prompts=lambda row: 3))
    with pytest.raises(OptionError, match="Did you mean 'asker'"):
        TextGame(TurnTaking(), prompts={"askr": "x"})
    with pytest.raises(OptionError, match="1 entries for 2"):
        TextGame(TurnTaking(), prompts=["x"])


def test_bad_settings():
    for settings in (
        {"memory": "all"},
        {"max_action_chars": 0},
        {"stop_reward": "high"},
        {"reward": "strict"},
        {"reward": 3},
    ):
        with pytest.raises(OptionError, match=next(iter(settings))):
            TextGame(TurnTaking(), **settings)

    class Twins(TurnTaking):
        agents = ("same", "same")

    with pytest.raises(OptionError, match="agents="):
        TextGame(Twins())
    with pytest.raises(OptionError, match="max_turns"):
        TextGame(TurnTaking(max_turns=0))
    assert TextGame(TurnTaking(), reward="default").term_names == ("length", "bonus", "clip")


def test_own_reward_replaces_the_terms_and_is_called_once():
    calls = []

    def reward(first, second, *, batch_items):
        calls.append((first, second, [row["id"] for row in batch_items]))
        return [len(text) for text in first]

    game = TextGame(TurnTaking(), reward=reward)
    assert game.term_names == ("reward", "clip") and game.metric_names == ("spoken",)
    episodes = start(game, 3)
    stepped = game.step_many([(e, {"asker": t}) for e, t in zip(episodes, ["a", "bbb", "a"], strict=True)])
    assert calls == [(["a", "bbb"], ["", ""], ["row0", "row0"])]
    assert [e.reward for e in stepped] == [1.0, 3.0, 1.0]
    assert stepped[0].score.terms == {"reward": 1.0, "clip": 0.0}
    assert stepped[0].score.metrics == {"spoken": 1.0}


def test_with_reward_leaves_the_game_alone():
    game = TextGame(TurnTaking(), memory="last")
    other = game.with_reward(lambda a, b: [9.0] * len(a), (0.0, 2.0))
    assert play(other, ["x"]).reward == 2.0
    assert play(game, ["x"]).reward == 1.5
    assert other.memory == "last" and other.reward_range == (0.0, 2.0)


def test_equal_seeds_draw_equal_numbers_and_forks_share_them():
    game = TextGame(TurnTaking())
    one, two = start(game, 2, seed=3)
    assert one == two
    (other,) = start(game, seed=4)
    assert other.state.key != one.state.key
    left = game.step_many([(one, {"asker": "left"})])[0]
    right = game.step_many([(two, {"asker": "right"})])[0]
    assert left.state.dice == right.state.dice


@pytest.mark.parametrize("value", [1e308, -1e200, 10**400, "7", b"7", None, float("nan")])
def test_rewards_that_no_mean_can_hold_are_named(value):
    env = make("writing/length_ratio", reward=lambda first, second: [value])
    env.reset(seed=0)
    with pytest.raises(RewardError, match="'reward' is"):
        env.step({"summarizer": "a", "elaborator": "b"})


@pytest.mark.parametrize("prompts", [None, "Say \udfff: {prompt}"])
def test_what_is_shown_can_be_written_as_utf_8_whatever_the_row_holds(prompts):
    env = make("writing/length_ratio", tasks=[{"prompt": "\ud800 hi é"}], prompts=prompts)
    observations, _ = env.reset(seed=0)
    assert "\ufffd hi é" in observations["summarizer"].encode().decode()
