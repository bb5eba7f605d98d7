"""ClassEval itself: its solutions reach the maximum, however their methods are dealt."""

import ast
import inspect
import json
import sys

import pytest

import comlrl_envs
from comlrl_envs.coding import classeval
from comlrl_envs.coding.class_skeleton import PACKAGES
from comlrl_envs.coding.rows import class_row
from comlrl_envs.coding.syntax import parse
from comlrl_envs.sources import REAL_SETS

EXCLUDED = REAL_SETS["coding/classeval"].excluded
DEALS = 20


@pytest.fixture
def rows(data_dir):
    rows = json.loads((data_dir / "classeval/ClassEval_data.json").read_text(encoding="utf-8"))
    return [{**row, "id": row["task_id"]} for row in rows if row["task_id"] not in EXCLUDED]


@pytest.mark.needs_data("classeval/ClassEval_data.json")
@pytest.mark.slow
def test_gold_classes_score_the_maximum_for_every_deal_of_their_methods(rows):
    assert len(rows) == 87
    short, deals = {}, {row["id"]: set() for row in rows}
    for seed in range(DEALS):
        env = comlrl_envs.make("coding/classeval", tasks=rows, assignment="partition", num_agents=2 + seed % 2)
        episodes = env.game.start_many(list(env.tasks), [seed] * len(rows))
        for each in env.game.step_many([(each, env.game.oracle(each)) for each in episodes]):
            deals[each.task_id].add(each.state.shares)
            metrics = each.score.metrics
            if each.reward != 6.0 or metrics["success"] != 1.0 or metrics["compiles"] != 1.0:
                short[each.task_id, seed] = (each.reward, dict(metrics))
    assert short == {}
    assert sum(map(len, deals.values())) / len(deals) > 10


@pytest.mark.needs_data("classeval/ClassEval_data.json")
def test_the_page_says_how_many_classes_are_played(rows, data_dir):
    played = {
        split: {task.id for task in comlrl_envs.make("coding/classeval", split=split, data_dir=str(data_dir)).tasks}
        for split in ("train", "eval")
    }
    names = [f"ClassEval_{number}" for number in range(82)]
    assert played["train"] == set(names[:66]) - EXCLUDED.keys()
    assert played["eval"] == set(names[66:]) - EXCLUDED.keys()
    counts = len(played["train"]), len(played["eval"])
    assert "66 to train and 16 to evaluate" in " ".join(classeval.__doc__.split())
    assert f"{counts[0]} and {counts[1]} are played" in " ".join(classeval.__doc__.split())


@pytest.mark.needs_data("classeval/ClassEval_data.json")
def test_the_classes_that_are_played_import_numpy_at_most(rows):
    imported = {
        name.split(".")[0]
        for row in rows
        for node in ast.walk(parse(class_row(row)["skeleton"]))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert imported - sys.stdlib_module_names == set(PACKAGES)


def test_the_example_of_the_page_is_not_broken_by_a_narrow_terminal():
    lines = inspect.cleandoc(classeval.__doc__).partition("Example:\n")[2].splitlines()
    assert len(lines) > 5 and max(map(len, lines)) < 70


@pytest.mark.needs_data("classeval/ClassEval_data.json")
@pytest.mark.parametrize("reply", ["", "I cannot do this.", "```python\n```"])
def test_defect_tests_that_stubs_pass_were_paid_to_empty_replies(data_dir, monkeypatch, reply):
    monkeypatch.setenv("COMLRL_DATA_DIR", str(data_dir))
    for split in ("train", "eval"):
        env = comlrl_envs.make("coding/classeval", split=split)
        episodes = env.game.start_many(list(env.tasks), [0] * len(env.tasks))
        ended = env.game.step_many([(each, dict.fromkeys(env.possible_agents, reply)) for each in episodes])
        assert {each.reward for each in ended} == {0.0}
