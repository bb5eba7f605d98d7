"""ClassEval itself: its solutions reach the maximum, however their methods are dealt."""

import json

import pytest

import comlrl_envs
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
