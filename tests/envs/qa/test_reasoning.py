"""Tasks of reasoning-gym as rows: who is refused, what scores, and what no answer can do."""

import json
import random
import runpy
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from comlrl_envs.errors import OptionError, TaskError
from comlrl_envs.game import TextGame
from comlrl_envs.qa import tags
from comlrl_envs.qa.debate import Debate, parallel_env
from comlrl_envs.qa.reasoning import CHECKED, LIMITS, REFUSED, SCORER, parse_row, reasoning_tasks, score, verbatim
from comlrl_envs.qa.vote import canonical
from comlrl_envs.tasks import Task
from comlrl_envs.testing import Subject, run_check
from comlrl_envs.testing.hostile import hostile_texts

from .players import blanked, mean_reward, oracle, play

pytest.importorskip("reasoning_gym")

EXAMPLE = Path(__file__).parents[3] / "examples" / "environments" / "reasoning_gym_debate.py"
# Making a task of these takes a second or more.
SLOW = {"figlet_font", "futoshiki", "group_anagrams", "sokoban", "zebra_puzzles", "advanced_geometry"}
GENERATORS = [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in sorted(CHECKED)]
SHORT = (
    "nan", "-inf", "1e999999999", "1e-999999999", "9" * 5_000, "[" * 5_000, "{}", "[[null]]", "null", "true", "1/0",
    "\x00", "١٢", "(" * 3_000, "-1", "1,2,3", "a=1,b=2", "R99", "F+999999999", "¬" * 3_000, '{"a": 1}', "\ud800",
    "0x10", "99999999:99", "5 days, 99:99", "1×0×3", "×", "__import__('os').abort()", "exit()",
)  # fmt: skip


def entry_of(row):
    return json.dumps(row["entry"], sort_keys=True)


@pytest.mark.parametrize("name", GENERATORS)
def test_gold_is_right_and_nothing_hostile_is(name):
    row = reasoning_tasks(name, 1, seed=3)[0]
    assert parse_row(parse_row(row)) == {**parse_row(row)} and json.loads(json.dumps(row)) == row
    begun = time.monotonic()
    texts = [*SHORT, *(verbatim(tags.read(f"<answer>{t}", LIMITS)) or "-" for t in hostile_texts(0, 60, ("a", "b")))]
    for text in texts:
        found = score(text, entry_of(row))
        assert 0.0 <= found.f1 <= 1.0 and found.em in (0.0, 1.0)
        assert not found.em or canonical(text, SCORER) in row["answers"][0]
    assert time.monotonic() - begun < 10.0
    rules = TextGame(Debate(max_turns=2))
    (ended,) = play(rules, [Task(row["id"], parse_row(row))], oracle)
    assert ended.reward == pytest.approx(1.0)


def test_every_generator_is_known_or_refused():
    known = set(sys.modules["reasoning_gym"].factory.DATASETS)
    assert not CHECKED & REFUSED.keys() and known >= CHECKED | REFUSED.keys()


@pytest.mark.parametrize(("name", "told"), [*REFUSED.items(), ("chain_sums", "Did you mean 'chain_sum'"), ("", "safe")])
def test_refused_generators(name, told):
    with pytest.raises(OptionError, match=told):
        reasoning_tasks(name, 2, seed=0)
    row = reasoning_tasks("chain_sum", 1, seed=0)[0]
    with pytest.raises(TaskError):
        parallel_env(tasks=[{**row, "entry": {**row["entry"], "generator": name}}])


def test_bad_sizes_seeds_and_settings():
    for size, seed in ((0, 0), (True, 0), (1, -1), (1, 0.5)):
        with pytest.raises(OptionError):
            reasoning_tasks("chain_sum", size, seed)
    for settings in ({"terms": 3}, {"min_terms": 5, "max_terms": 2}, {"min_terms": object()}):
        with pytest.raises(OptionError, match=r"settings"):
            reasoning_tasks("chain_sum", 1, 0, **settings)


def test_rows_that_contradict_their_generator():
    row = reasoning_tasks("chain_sum", 1, seed=0)[0]
    for broken in (
        {**row, "answers": ["5"]},
        {**row, "entry": {**row["entry"], "place": 1}},
        {**row, "entry": {**row["entry"], "place": -1}},
        {**row, "entry": {**row["entry"], "settings": {"size": 1, "seed": 0, "min_terms": 10**6}}},
        {key: value for key, value in row.items() if key != "entry"},
        {**row, "entry": "gold"},
    ):
        with pytest.raises((TaskError, OptionError)):
            parallel_env(tasks=[broken])


def test_nothing_in_a_row_reaches_a_scorer(tmp_path):
    row = reasoning_tasks("bitwise_arithmetic", 1, seed=0)[0]
    trap = {"problem": f"__import__('pathlib').Path({str(tmp_path / 'ran')!r}).touch() or 1"}
    env = parallel_env(tasks=[{**row, "entry": {**row["entry"], "metadata": trap, "answer": "0x1"}}])
    env.reset(seed=0)
    env.step(dict.fromkeys(env.possible_agents, "<answer>0x1</answer>"))
    assert not (tmp_path / "ran").exists() and "metadata" not in env.episode.state.entry


@pytest.mark.parametrize("name", ["ab", "pool_matrix"])
def test_global_generators_are_left_alone(name):
    random.seed(0)
    np.random.seed(0)
    expected = random.random(), np.random.random()
    random.seed(0)
    np.random.seed(0)
    reasoning_tasks(name, 3, seed=5)
    assert (random.random(), np.random.random()) == expected


@pytest.mark.slow
def test_rows_are_the_same_in_every_process():
    here = reasoning_tasks("word_sorting", 5, seed=1)
    code = (
        "import json; from comlrl_envs.qa.reasoning import reasoning_tasks as r;"
        "print(json.dumps(r('word_sorting', 5, seed=1)))"
    )
    for seed in ("1", "2"):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env={"PYTHONHASHSEED": seed})
        assert json.loads(done.stdout) == here
    assert len({row["id"] for row in here}) == 5 and reasoning_tasks("word_sorting", 5, seed=2) != here


def test_parts_count_in_the_mean_and_not_in_the_vote():
    row = parse_row(reasoning_tasks("word_sorting", 1, seed=1)[0])
    words = row["answers"][0].split(", ")
    part = ", ".join([words[0], *reversed(words[1:])])
    worth = score(part, entry_of(row))
    assert 0.0 < worth.f1 < 1.0 == score(", ".join(words), entry_of(row)).em and worth.em == 0.0
    rules = TextGame(Debate(max_turns=1))
    (episode,) = rules.start_many([Task(row["id"], row)], [0])
    (ended,) = rules.step_many([(episode, dict.fromkeys(rules.agents, f"<answer>{part}</answer>"))])
    terms = {"vote": 0.0, "mean": 0.25 * worth.f1, "form": 0.05, "clip": 0.0}
    assert ended.score.terms == pytest.approx(terms) and ended.score.metrics["accuracy"] == 0.0


def test_answers_keep_their_lines_and_are_shown_on_one():
    row = parse_row(reasoning_tasks("mini_sudoku", 1, seed=1)[0])
    assert "\n" in row["answers"][0]
    rules = TextGame(Debate())
    (episode,) = rules.start_many([Task(row["id"], row)], [0])
    (told,) = rules.step_many([(episode, dict.fromkeys(rules.agents, f"<answer>\n{row['answers'][0]}\n</answer>"))])
    assert told.score.metrics["accuracy"] == 1.0
    assert f"solver_2 (answer: {canonical(row['answers'][0], SCORER)}): (no message)" in rules.prompts(told)["solver_1"]
    restored = rules.from_json(json.loads(json.dumps(rules.to_json(told))))
    assert restored.state == told.state and json.loads(told.state.entry) == row["entry"]


def test_votes_tell_signs_apart():
    row = parse_row(reasoning_tasks("chain_sum", 1, seed=0)[0])
    rules = TextGame(Debate(num_agents=1))
    (episode,) = rules.start_many([Task(row["id"], row)], [0])
    replies = [f"<answer>{text}</answer>" for text in ("5", "-5", "-5", "5", "-5")]
    assert rules.scenario.majority(episode.state, replies) == replies[1]
    assert rules.scenario.majority(episode.state, ["hm", "no"]) == "hm"


def test_the_team_needs_to_be_told_and_the_environment_keeps_its_promises():
    rows = reasoning_tasks("chain_sum", 40, seed=0)
    tasks = [Task(row["id"], parse_row(row)) for row in rows]
    rules = TextGame(Debate())
    assert mean_reward(play(rules, tasks, oracle)) == pytest.approx(1.0)
    assert mean_reward(play(rules, tasks, blanked(*rules.agents))) == pytest.approx(0.05 + 0.25 / 3)
    subject = Subject("comlrl_envs.qa.debate:parallel_env", {"tasks": rows}, gold=("answers", "entry"), replies=60)
    for check in ("oracle", "floors", "channel", "rewards", "pure_reads", "hostile_replies"):
        run_check(check, subject)


def test_the_example_plays_to_the_end(capsys):
    try:
        runpy.run_path(str(EXAMPLE))
    except LookupError as unknown:
        pytest.skip(f"the id is not in the catalog: {unknown}")
    assert capsys.readouterr().out.rstrip().endswith("reward 1.00; answers right so far: 1.00")
