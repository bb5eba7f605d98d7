"""What each protocol asks and shows, what is played of it, and how it counts time and tokens."""

import pytest

from comlrl_envs import (
    ActionError,
    InfrastructureError,
    OptionError,
    Score,
    Step,
    TaskSet,
    TextEnv,
    TextGame,
    make,
    register,
)
from comlrl_envs.evaluation import evaluate, read_settings
from comlrl_envs.evaluation.protocols import DISCUSSION_NOTE, PIPELINE_NOTE, rounds
from comlrl_envs.policies import MeasuredReply, Usage

from .evaluations import lines, stable
from .toys import ROWS, Polling, TurnTaking, polling_env, turn_taking_env

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


@pytest.fixture
def polling():
    register("toy/polling-v0", polling_env, overwrite=True)
    return lambda **settings: make("toy/polling", split="eval", **settings)


class Speaker:
    """Says a vote and a message, each with the number of the text, and keeps what it was shown."""

    def __init__(self, fail_at=0):
        self.shown, self.fail_at = [], fail_at

    def settings(self):
        return {}

    def act(self, prompts, agent, rng):
        replies = []
        for prompt in prompts:
            self.shown.append(prompt)
            n = len(self.shown)
            said = MeasuredReply(f"vote{n}|secret{n}", Usage(float(n), 10, 3))
            replies.append(InfrastructureError("x", "the server is gone") if n == self.fail_at else said)
        return replies


def test_solo_shows_scores_and_remembers_replies_without_their_messages(polling):
    speaker, open_speaker = Speaker(), Speaker()
    report = evaluate(polling(), speaker, protocol="solo", episodes=1)
    first, second = report.records[0].turns
    assert first.replies == {"voter_1": "vote1", "voter_2": "vote2"}
    assert first.drafts == {"voter_1": "vote1|secret1", "voter_2": "vote2|secret2"}
    assert second.drafts == {"voter_1": "vote3|secret3", "voter_2": "vote4|secret4"}
    assert not any("secret" in prompt for prompt in speaker.shown)
    # Each remembers its own vote; the news are there, with nothing in them.
    assert "vote1" in speaker.shown[2] and "vote2" not in speaker.shown[2] and "Heard: ['']" in speaker.shown[2]
    assert report.metrics["told"] == 0.0
    assert (report.seconds, report.completion_tokens) == (2.0 + 4.0, 12)

    spoken = evaluate(polling(), open_speaker, episodes=1)
    assert "Heard: ['secret2']" in open_speaker.shown[2] and spoken.metrics["told"] == 2.0
    assert spoken.records[0].turns[0].drafts == {}


def test_solo_counts_what_was_cut_before_the_message_was_emptied(polling):
    class Loud:
        def act(self, prompts, agent, rng):
            return ["\ud800" + "y" * 50 + "|late"] * len(prompts)

    report = evaluate(polling(max_action_chars=10), Loud(), protocol="solo", episodes=1)
    turn = report.records[0].turns[0]
    assert turn.replies["voter_1"] == turn.drafts["voter_1"] == "\ufffd" + "y" * 9
    assert turn.cut == {"voter_1": 46, "voter_2": 46} and turn.replaced == {"voter_1": 1, "voter_2": 1}
    short = evaluate(polling(max_action_chars=53), Loud(), protocol="solo", episodes=1).records[0].turns[0]
    assert short.drafts["voter_1"].endswith("|l") and short.replies["voter_1"].endswith("y")
    assert short.cut["voter_1"] == 3


def test_solo_is_refused_where_there_is_no_channel_to_close(polling):
    for env in ("writing/length_ratio", polling(max_turns=1), polling(num_agents=1)):
        with pytest.raises(OptionError, match=r"has no channel.*'solo' equals 'parallel'"):
            evaluate(env, "echo", protocol="solo")
    with pytest.raises(OptionError, match=r"TurnTaking\) do not say what .* Define Scenario.blank"):
        evaluate(turn_taking_env(), "echo", protocol="solo")


def test_solo_empties_whole_replies_where_they_are_shown_whole():
    env = make("writing/tldr", source="demo", split="eval[:2]", feedback="peers", max_turns=2)
    report = evaluate(env, "random", protocol="solo")
    turns = [turn for record in report.records for turn in record.turns]
    assert all(set(turn.replies.values()) == {""} and all(turn.drafts.values()) for turn in turns)


@pytest.mark.parametrize(
    ("settings", "draws"), [({}, 4), ({"num_agents": 3, "max_turns": 3}, 9), ({"num_agents": 1}, 2)]
)
def test_majority_draws_as_many_texts_as_the_team_writes(polling, settings, draws):
    report = evaluate(polling(**settings), "random", protocol="majority")
    assert report.settings["draws"] == draws and report.settings["max_turns"] == 1
    assert report.settings["env"]["kwargs"].items() >= {"num_agents": 1, "max_turns": 1}.items()
    assert report.settings["agents"] == ["voter_1"] and report.agents["voter_1"].replies == len(ROWS)
    for record in report.records:
        [turn] = record.turns
        texts = list(turn.drafts.values())
        assert list(turn.drafts) == [f"voter_1 {n + 1}" for n in range(draws)]
        assert len(set(texts)) == draws
        assert turn.replies == {"voter_1": Polling().majority(None, texts)}
    drafts = {text for record in report.records for text in record.turns[0].drafts.values()}
    assert len(drafts) == draws * len(ROWS)


def test_majority_is_the_same_again_in_any_batch_and_with_another_seed_another(polling):
    first = evaluate(polling(), "random", protocol="majority", samples=2)
    again = evaluate(polling(), "random", protocol="majority", samples=2, batch_size=3)
    assert [record.turns for record in again.records] == [record.turns for record in first.records]
    other = evaluate(polling(), "random", protocol="majority", samples=2, seed=1)
    assert [record.turns for record in other.records] != [record.turns for record in first.records]
    # More draws begin with those of fewer.
    more = evaluate(polling(max_turns=3), "random", protocol="majority", samples=2)
    for few, many in zip(first.records, more.records, strict=True):
        assert few.turns[0].drafts.items() < many.turns[0].drafts.items()


def test_majority_sums_tokens_over_all_draws_and_takes_the_time_of_the_slowest(polling):
    speaker = Speaker()
    report = evaluate(polling(), speaker, protocol="majority", episodes=1)
    assert len(speaker.shown) == 4 and len(set(speaker.shown)) == 1
    assert report.records[0].completion_tokens == {"voter_1": 12}
    assert report.agents["voter_1"].prompt_tokens == 40 and report.seconds == 4.0
    # Equal votes: the played text is one of those drawn, with its own counts.
    assert report.records[0].turns[0].replies["voter_1"] in report.records[0].turns[0].drafts.values()


def test_majority_counts_the_cut_of_the_text_that_is_played(polling):
    class Growing:
        def __init__(self):
            self.asked = 0

        def act(self, prompts, agent, rng):
            self.asked += 1
            return ["y" * (5 + self.asked)] * len(prompts)

    # 6, 7, 8 and 9 characters: two are cut to the 7 that then wins.
    [turn] = evaluate(polling(max_action_chars=7), Growing(), protocol="majority", episodes=1).records[0].turns
    assert [len(text) for text in turn.drafts.values()] == [6, 7, 7, 7]
    assert len(turn.replies["voter_1"]) == 7 and turn.cut == {"voter_1": 2}


def test_a_failed_draw_fails_the_episode_and_the_folder_goes_on(polling, tmp_path):
    failing = Speaker(fail_at=7)
    first = evaluate(polling(), failing, protocol="majority", batch_size=1, out=tmp_path)
    assert [record.task for record in first.failed] == ["row1"] and len(first.records) == 4
    # Episode row1 ended with its third draw.
    assert len(failing.shown) == 4 * 4 + 3
    again = Speaker()
    whole = evaluate(polling(), again, protocol="majority", batch_size=1, out=tmp_path)
    assert len(again.shown) == 4 and not whole.failed and len(lines(tmp_path)) == len(ROWS)


@pytest.mark.parametrize("protocol", ["solo", "majority"])
def test_a_folder_is_continued_grows_and_knows_its_protocol(polling, protocol, tmp_path):
    evaluate(polling(), "random", protocol=protocol, episodes=2, out=tmp_path)
    file = tmp_path / "episodes.jsonl"
    file.write_bytes(file.read_bytes()[:-30])
    grown = evaluate(polling(), "random", protocol=protocol, out=tmp_path)
    assert stable(grown) == stable(evaluate(polling(), "random", protocol=protocol))
    assert [r.turns for r in grown.records] == [
        r.turns for r in evaluate(polling(), "random", protocol=protocol).records
    ]
    assert read_settings(tmp_path)["protocol"] == protocol
    with pytest.raises(OptionError, match="protocol"):
        evaluate(polling(), "random", out=tmp_path)


def test_a_folder_of_another_number_of_draws_is_refused(polling, tmp_path):
    evaluate(polling(), "random", protocol="majority", out=tmp_path)
    with pytest.raises(OptionError, match="draws: 4 there, 6 here"):
        evaluate(polling(max_turns=3), "random", protocol="majority", out=tmp_path)


def test_majority_is_refused_without_a_vote_or_a_variant_before_anything_is_asked(polling):
    register("toy/team-v0", team_env, overwrite=True)
    speaker = Speaker()
    writers = make("writing/tldr", source="demo", split="eval[:2]", max_turns=2)
    with pytest.raises(OptionError, match=r"writing/tldr has no majority of replies.*Scenario.majority"):
        evaluate(writers, speaker, protocol="majority")
    with pytest.raises(OptionError, match=r"protocol='majority': .*length_ratio-v0 has no variant with one agent"):
        evaluate("writing/length_ratio", speaker, protocol="majority")
    # Its id takes no max_turns.
    with pytest.raises(OptionError, match=r"toy/team-v0 has no variant with one agent and one turn"):
        evaluate("toy/team", speaker, protocol="majority")
    with pytest.raises(OptionError, match=r"not made from an id. Pass its own variant with one agent and one turn"):
        evaluate(polling_env(), speaker, protocol="majority")
    assert speaker.shown == []
    assert len(evaluate(polling_env(num_agents=1, max_turns=1), speaker, protocol="majority").records) == len(ROWS)
    with pytest.raises(OptionError, match="TurnTaking defines no majority"):
        TurnTaking().majority(None, ["a"])


def test_a_vote_for_none_of_the_replies_is_refused():
    class Inventing(Polling):
        def majority(self, state, replies):
            return "my own"

    env = TextEnv(TextGame(Inventing(1, 1)), TaskSet(ROWS), "toy/inventing")
    with pytest.raises(ActionError, match=r"Inventing.majority gave back 'my own'; expected one of the 1 replies"):
        evaluate(env, "echo", protocol="majority")


@pytest.mark.parametrize("protocol", ["parallel", "single", "solo", "majority"])
def test_feedback_of_what_only_the_judge_knows_is_refused(polling, protocol):
    speaker = Speaker()
    with pytest.raises(OptionError, match=r"feedback='oracle' tells agents .* choose another feedback"):
        evaluate(polling(feedback="oracle"), speaker, protocol=protocol)
    assert speaker.shown == []

    class Telling(TurnTaking):
        ablation = True

    with pytest.raises(OptionError, match="toy/telling: its feedback tells agents"):
        evaluate(TextEnv(TextGame(Telling()), TaskSet(ROWS), "toy/telling"), speaker, protocol=protocol)


def test_feedback_of_what_only_the_judge_knows_may_be_played(polling):
    env = polling(feedback="oracle")
    env.reset(seed=0)
    assert env.step({"voter_1": "aa|b", "voter_2": "a"})[1]["voter_1"] == 1.0
