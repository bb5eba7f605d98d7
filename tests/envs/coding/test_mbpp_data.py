"""MBPP itself: signatures in the prompts, and its solutions in the environment."""

import ast
import json

import pytest

import comlrl_envs
from comlrl_envs.coding.test_blocks import entry_function
from comlrl_envs.sources import REAL_SETS

BROKEN = set(REAL_SETS["coding/mbpp"].excluded)


@pytest.fixture
def rows(data_dir):
    lines = (data_dir / "mbpp/MbppBase.jsonl").read_text(encoding="utf-8").splitlines()
    return [{**row, "id": row["task_id"]} for row in map(json.loads, lines)]


@pytest.mark.needs_data("mbpp/MbppBase.jsonl")
def test_canonical_solutions_pass_but_for_twenty_known_rows(rows):
    env = comlrl_envs.make("coding/mbpp", tasks=rows, num_agents=1)
    episodes = env.game.start_many(list(env.tasks), [0] * len(rows))
    ended = env.game.step_many([(each, env.game.oracle(each)) for each in episodes])
    failed = {each.task_id for each in ended if each.reward != pytest.approx(2.1)}
    assert len(ended) == 409 and len({row.removeprefix("Mbpp/") for row in BROKEN}) == 20
    # The twentieth, 120, fails in assertions of another file of the set.
    assert failed == {row for row in BROKEN if row.startswith("Mbpp/")} - {"Mbpp/120"}


@pytest.mark.needs_data("mbpp/MbppBase.jsonl")
def test_every_brief_names_the_parameters_of_the_solution(rows):
    env = comlrl_envs.make("coding/mbpp", tasks=rows)
    for place, row in enumerate(rows):
        shown, _ = env.reset(seed=0, options={"task": row["id"]})
        signature = env.tasks[place].fields["signature"]
        asked, solved = (entry_function(code, row["entry_point"]) for code in (signature, row["canonical_solution"]))
        assert ast.dump(asked.args) == ast.dump(solved.args)
        assert signature in shown["main"] and signature in shown["helper"]
