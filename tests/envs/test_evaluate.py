"""`evaluate`: what is played and what is counted."""

import json
import threading
from dataclasses import dataclass

import pytest

from comlrl_envs import OptionError, Score, Step, TaskSet, TextEnv, TextGame, make
from comlrl_envs.evaluation import evaluate, table
from comlrl_envs.policies import per_prompt

from .evaluations import ENV, Flaky, row, stable
from .toys import ROWS, Counting, TurnTaking, turn_taking_env


def test_the_defaults_play_the_eval_split_once():
    report = evaluate(ENV, "oracle")
    assert (len(report.records), report.reward.mean, report.success.mean) == (30, 1.0, 1.0)
    assert report.pass_at_k[1] == report.success
    assert report.success.low < 0.9
    assert report.settings["env"]["kwargs"]["split"] == "eval"
    assert report.agents["summarizer"].empty == 0.0 and report.agents["elaborator"].replies == 30
    assert "1.000 [0.878, 1.000]" in str(report)


def test_tasks_come_from_the_head_and_a_longer_run_begins_with_the_shorter():
    short = evaluate(ENV, "random", episodes=6, samples=3)
    long = evaluate(ENV, "random", episodes=30, samples=3, batch_size=7)
    heads = [make(ENV, split="eval").tasks[i].id for i in range(2)]
    assert [record.key for record in short.records] == [(t, n) for t in sorted(heads) for n in range(3)]
    found = {record.key: (record.seed, record.turns) for record in long.records}
    assert all(found[record.key] == (record.seed, record.turns) for record in short.records)
    assert len({record.seed for record in long.records}) == 30


def test_a_second_run_is_equal_and_another_seed_is_not():
    draws = per_prompt(str.upper)
    assert stable(evaluate(ENV, "random", k=(1, 2))) == stable(evaluate(ENV, "random", k=(1, 2)))
    assert stable(evaluate(ENV, Flaky())) == stable(evaluate(ENV, Flaky()))
    assert evaluate(ENV, "random").reward != evaluate(ENV, "random", seed=1).reward
    assert evaluate(ENV, draws).reward.mean == pytest.approx(0.3679, abs=1e-4)


def test_no_two_calls_of_a_policy_share_their_draws():
    report = evaluate(make(ENV, split="eval[:20]", max_turns=2), Flaky(), batch_size=4, protocol="discussion")
    drawn = [
        text[-17:]
        for record in report.records
        for turn in record.turns
        for text in (*turn.replies.values(), *turn.drafts.values())
    ]
    assert len(set(drawn)) == len(drawn) == 20 * 2 * 4


def test_policies_by_list_and_by_dict():
    by_list = evaluate(ENV, ["empty", "echo"], episodes=4)
    by_dict = evaluate(ENV, {"elaborator": "echo", "summarizer": "empty"}, episodes=4)
    assert stable(by_list) == stable(by_dict)
    assert by_list.agents["summarizer"].empty == 1.0 and by_list.agents["elaborator"].empty == 0.0


def test_different_policies_answer_at_once():
    meeting = threading.Barrier(2, timeout=20)

    class Meets:
        def act(self, prompts, agent, rng):
            meeting.wait()
            return ["x"] * len(prompts)

    assert len(evaluate(ENV, [Meets(), Meets()], episodes=4).records) == 4


def test_a_policy_is_asked_once_an_agent_turn_and_batch():
    calls = []

    class Counts:
        def act(self, prompts, agent, rng):
            calls.append((agent, len(prompts)))
            return ["x"] * len(prompts)

    evaluate(make(ENV, split="eval[:5]", max_turns=2), Counts(), batch_size=3)
    assert calls == [(a, n) for n in (3, 2) for _ in range(2) for a in ("summarizer", "elaborator")]


@dataclass(frozen=True)
class Rated(TurnTaking):
    """One turn; success is left to a coin of the task, ratios to pooled counts."""

    max_turns: int = 1
    metrics = ("success", "hits_num", "hits_den", "odd_num")

    def advance(self, state, actions):
        size = float(len(actions["asker"]))
        metrics = {"success": float(size > 32), "hits_num": size, "hits_den": 2 * size + 2, "odd_num": 1.0}
        own = {"own": dict.fromkeys(self.agents, 1.0)}
        return Step(state, Score({"length": size / 100, "bonus": 0.0}, metrics, own), True)


def test_ratios_are_pooled_and_pass_at_k_is_counted():
    report = evaluate(TextEnv(TextGame(Rated()), TaskSet(ROWS)), "random", k=(1, 5), samples=8)
    sizes = [len(record.turns[0].replies["asker"]) for record in report.records]
    assert len(sizes) == 40
    assert report.metrics["hits"] == pytest.approx(sum(sizes) / (2 * sum(sizes) + 80))
    assert report.metrics["odd_num"] == 1.0
    assert report.pass_at_k[1].mean == pytest.approx(sum(s > 32 for s in sizes) / 40)
    assert report.pass_at_k[5].mean > report.pass_at_k[1].mean
    assert report.pass_at_k[5].low < report.pass_at_k[5].mean


def test_format_rates_by_agent():
    env = make(ENV, split="eval[:4]", max_action_chars=5)
    report = evaluate(env, [per_prompt(lambda p: "abcdefgh\ud800"), per_prompt(lambda p: " \ud800"[: len(p) % 3])])
    assert report.agents["summarizer"].cut == 1.0 and report.agents["summarizer"].replaced == 0.0
    assert report.agents["summarizer"].metrics == {"characters": 5.0}
    assert 0.0 < report.agents["elaborator"].replaced + report.agents["elaborator"].empty <= 1.0
    json.dumps(report.to_json(), allow_nan=False)


def test_a_failed_episode_is_no_score_and_is_counted():
    env = make(ENV, split="eval[:6]")
    word = env.tasks[2].fields["topic"]
    report = evaluate(env, Flaky(word), samples=2)
    assert (len(report.records), len(report.failed)) == (10, 2)
    assert {record.task for record in report.failed} == {env.tasks[2].id}
    assert "the server is gone" in report.failed[0].error
    without = [record.reward for record in report.records]
    assert report.reward.mean == pytest.approx(sum(without) / 10)
    assert report.to_json()["failures"] == [report.failed[0].error]


def test_a_failing_scenario_loses_its_episode_only():
    env = TextEnv(TextGame(Counting(fail="each")), TaskSet(ROWS))
    report = evaluate(env, per_prompt(lambda prompt: "boom" if "Prompt 3" in prompt else "x"), batch_size=5)
    assert [record.task for record in report.failed] == ["row3"]
    assert "the worker is gone" in report.failed[0].error and len(report.records) == 4
    assert report.pass_at_k == {} and report.success is None


def test_nothing_finished_is_no_number():
    report = evaluate(make(ENV, split="eval[:3]"), Flaky("Write"))
    assert report.reward is None and report.success is None and report.seconds is None
    assert [(a.replies, a.empty, a.cut, a.replaced) for a in report.agents.values()] == [(0, None, None, None)] * 2
    assert row(report, "summarizer empty") == row(report, "elaborator cut") == row(report, "reward") == "-"
    assert "failed" in str(report) and json.dumps(report.to_json())


def test_an_outer_limit_of_turns_ends_episodes():
    env = turn_taking_env()
    env.max_cycles = 2
    assert {len(record.turns) for record in evaluate(env, "echo").records} == {2}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"episodes": 7, "samples": 2}, "play 6 or 8"),
        ({"episodes": 31}, "has 30"),
        ({"episodes": 0}, "episodes"),
        ({"k": (1, 5), "samples": 3}, "pass@5"),
        ({"k": (0,)}, "k=0"),
        ({"samples": 0}, "samples"),
        ({"batch_size": 0}, "batch_size"),
        ({"policies": ["echo"]}, "1 policies for 2 agents"),
        ({"policies": {"summariser": "echo", "elaborator": "echo"}}, "Did you mean 'summarizer'"),
        ({"policies": {"summarizer": "echo"}}, "elaborator"),
        ({"policies": str.upper}, r"policies is a .* Wrap a function of one prompt by per_prompt"),
        ({"policies": 3}, r"policies is a int; .* or a dict\.$"),
        ({"policies": [str.upper, "echo"]}, "per_prompt"),
        ({"env": "writing/lenght_ratio"}, "length_ratio"),
        ({"env": 3}, "int"),
    ],
)
def test_what_does_not_fit_is_named_before_anything_is_played(given, named, tmp_path):
    arguments = {"env": ENV, "policies": "echo", **given}
    with pytest.raises((OptionError, LookupError), match=named):
        evaluate(arguments.pop("env"), arguments.pop("policies"), **arguments, out=tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_pass_at_k_needs_a_success_metric():
    assert evaluate(turn_taking_env(), "echo").pass_at_k == {}
    with pytest.raises(OptionError, match="success"):
        evaluate(turn_taking_env(), "echo", k=(1, 2))


def test_the_table_says_which_rows_and_which_rules():
    assert row(evaluate(ENV, "echo", episodes=2), "rows") == "eval, demo set"
    assert row(evaluate(make(ENV), "echo", episodes=2), "rows") == "train, demo set"
    given = make(ENV, tasks=[{"prompt": "bees"}], max_turns=2, prompts={"summarizer": "{prompt} " + "very " * 30})
    report = evaluate(given, "echo")
    assert row(report, "rows") == "given rows"
    assert "max_turns=2" in row(report, "settings") and len(row(report, "settings")) < 180
    assert row(evaluate(make(ENV, split="eval[:3]"), "echo"), "rows") == "eval[:3], demo set"
    assert row(evaluate(make(ENV, split="eval[:3]"), "echo"), "settings") == "-"
    assert row(evaluate(turn_taking_env(), "echo"), "rows") == "given rows"


def test_a_short_table_has_rewards_success_and_terms_alone():
    report = evaluate(make(ENV, split="eval[:3]", max_turns=2), "echo")
    long, short = ([line.split("  ")[0] for line in table([report], short).splitlines()] for short in (False, True))
    assert {"reward", "return", "success", "term ratio_reward", "rows", "settings"} <= set(short)
    assert set(long) - set(short) >= {"metric length_ratio", "summarizer empty", "seconds per episode"}
    assert "completion tokens per episode" in long and len(short) < 14
