"""What each protocol asks and shows, and how it counts time and tokens."""

import pytest

from comlrl_envs import OptionError, Score, Step, TaskSet, TextEnv, TextGame, make, register
from comlrl_envs.evaluation import evaluate
from comlrl_envs.evaluation.protocols import DISCUSSION_NOTE, PIPELINE_NOTE, rounds
from comlrl_envs.policies import MeasuredReply, Usage

from .toys import ROWS, TurnTaking, turn_taking_env

SECONDS = {"summarizer": 2.0, "elaborator": 5.0}


class Scribe:
    """Answers with its name and a count, and keeps what it was shown."""

    def __init__(self):
        self.shown = []

    def act(self, prompts, agent, rng):
        replies = []
        for prompt in prompts:
            self.shown.append((agent, prompt))
            replies.append(MeasuredReply(f"{agent}{len(self.shown)}", Usage(SECONDS[agent], 10, 3)))
        return replies


def play(protocol, **settings):
    scribe = Scribe()
    report = evaluate(
        make("writing/length_ratio", split="eval[:1]", **settings), scribe, protocol=protocol, batch_size=4
    )
    return scribe.shown, report


def test_parallel_shows_nothing_of_the_others():
    shown, report = play("parallel")
    assert [agent for agent, _ in shown] == ["summarizer", "elaborator"]
    assert not any("summarizer1" in prompt for _, prompt in shown)
    assert (report.seconds, report.completion_tokens) == (5.0, 6)


def test_pipeline_ends_each_later_prompt_with_the_finished_texts():
    shown, report = play("pipeline", max_turns=2)
    (first, prompt), (second, later), (_, third), (_, fourth) = shown
    assert (first, second) == ("summarizer", "elaborator")
    assert PIPELINE_NOTE not in prompt
    assert later == f"{prompt}\n\n{PIPELINE_NOTE}\n\n[summarizer]\nsummarizer1"
    assert fourth.endswith("[summarizer]\nsummarizer3")
    # What was shown once stays in the agent's memory; the first agent never saw a teammate's text.
    assert "summarizer1" in fourth and "elaborator" not in third
    assert (report.seconds, report.completion_tokens) == (14.0, 12)
    assert report.records[0].turns[0].drafts == {}


def test_discussion_shows_all_drafts_and_scores_the_second_texts():
    shown, report = play("discussion")
    prompt, refined = shown[0][1], [text for _, text in shown[2:]]
    drafts = f"{DISCUSSION_NOTE}\n\n[summarizer]\nsummarizer1\n\n[elaborator]\nelaborator2"
    assert refined == [f"{prompt}\n\n{drafts}"] * 2
    [turn] = report.records[0].turns
    assert turn.drafts == {"summarizer": "summarizer1", "elaborator": "elaborator2"}
    assert turn.replies == {"summarizer": "summarizer3", "elaborator": "elaborator4"}
    assert turn.metrics["length_ratio"] == 1.0
    assert (report.seconds, report.completion_tokens) == (10.0, 12)
    assert report.agents["summarizer"].prompt_tokens == 20


def test_idle_agents_are_not_asked():
    for protocol in ("parallel", "pipeline", "discussion"):
        report = evaluate(turn_taking_env(), "echo", episodes=1, protocol=protocol)
        assert [list(turn.replies) for turn in report.records[0].turns] == [["asker"], ["answerer"]] * 2
    assert rounds("pipeline", ()) == [] and rounds("discussion", ()) == [()]


def test_texts_shown_to_others_are_cleaned_and_cut_like_actions():
    class Loud:
        def act(self, prompts, agent, rng):
            return ["\ud800" + "y" * 50] * len(prompts)

    reader = Scribe()
    env = make("writing/length_ratio", split="eval[:1]", max_action_chars=10)
    evaluate(env, {"summarizer": Loud(), "elaborator": reader}, protocol="pipeline")
    assert reader.shown[0][1].endswith("[summarizer]\n\ufffd" + "y" * 9)


class OneWriter(TurnTaking):
    agents = ("asker",)

    def acting(self, state):
        return self.agents

    def advance(self, state, actions):
        score = Score({"length": 1.0, "bonus": 0.0}, {"spoken": 1.0}, {"own": {"asker": 0.0}})
        return Step(state, score, done=True)


def team_env(num_agents=2, split="train"):
    return TextEnv(TextGame(TurnTaking() if num_agents == 2 else OneWriter()), TaskSet(ROWS), "toy/team")


def test_single_is_the_ids_variant_with_one_agent():
    register("toy/team-v0", team_env, overwrite=True)
    report = evaluate("toy/team", "echo", protocol="single", episodes=2)
    assert list(report.agents) == ["asker"]
    assert report.settings["env"]["kwargs"] == {"split": "eval", "num_agents": 1}


def test_single_says_where_there_is_no_such_variant():
    with pytest.raises(OptionError, match=r"length_ratio-v0 has no variant with one agent"):
        evaluate("writing/length_ratio", "echo", protocol="single")
    with pytest.raises(OptionError, match="not made from an id"):
        evaluate(turn_taking_env(), "echo", protocol="single")
    with pytest.raises(OptionError, match="Did you mean 'pipeline'"):
        evaluate("writing/length_ratio", "echo", protocol="pipline")
