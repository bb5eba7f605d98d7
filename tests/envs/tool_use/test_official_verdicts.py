"""`tool_use/multi_turn` pays what the leaderboard's multi-turn checker says, for gold calls and for changed ones."""

import copy
import json
import random
import subprocess
import sys

import pytest

from comlrl_envs import make
from comlrl_envs.sources.tool_sets import BFCL, official_rows
from comlrl_envs.tool_use.calls import Call
from comlrl_envs.tool_use.rows import parse_episode

from .wheel import wheel_path

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
CHECK = """
import json, sys
sys.path.insert(0, sys.argv[1])
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker
for line in sys.stdin:
    case = json.loads(line)
    said = [[turn] if turn else [] for turn in case["calls"]]
    verdict = multi_turn_checker(said, case["gold"], case["entry"], case["category"], f"model{case['number']}")
    print(json.dumps([verdict["valid"], verdict.get("error_type")]))
"""


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    pytest.importorskip("mpmath")
    (tmp_path / BFCL.data_path).parent.mkdir()
    (tmp_path / BFCL.data_path).symlink_to(wheel_path())
    monkeypatch.setenv("COMLRL_DATA_DIR", str(tmp_path))
    return wheel_path()


def changed(gold, draws):
    """Gold calls by request, of which one is gone, made twice, or has another argument."""
    calls = copy.deepcopy(gold)
    turn = draws.choice([place for place, own in enumerate(calls) if own])
    place = draws.randrange(len(calls[turn]))
    kind = draws.choice(("gone", "again", "other", "moved"))
    if kind == "gone":
        del calls[turn][place]
    elif kind == "again":
        calls[turn].insert(place, calls[turn][place])
    elif kind == "moved":
        draws.shuffle(calls[turn])
    else:
        name, arguments = next(iter(calls[turn][place].items()))
        texts = [key for key, value in arguments.items() if isinstance(value, str)]
        if texts:
            calls[turn][place] = {name: {**arguments, draws.choice(texts): "zebra"}}
    return calls


def written(calls):
    return [[Call(*each).text for call in turn for each in call.items()] for turn in calls]


def played(row, calls):
    """Whether all requests with gold calls are right as the checker counts, which has no look at the others."""
    env = make("tool_use/multi_turn", tasks=[row], num_agents=1, rounds=1, max_turns=64)
    env.reset(seed=0)
    before, right = 0.0, True
    for request, own in enumerate(written(calls)):
        _, _, _, _, infos = env.step({"lead": "\n".join(own)})
        now = infos["lead"]["metric/right_num"]
        right = right and (now > before or not row["gold"][request])
        before = now
    return right


@pytest.mark.slow
@pytest.mark.parametrize("category", CATEGORIES)
def test_changed_calls_get_the_official_verdict(category, wheel):
    draws = random.Random(category)
    cases = []
    for entry in official_rows(wheel, f"multi_turn_{category}"):
        row = parse_episode(entry)
        for calls in (row["gold"], changed(row["gold"], draws), changed(row["gold"], draws)):
            cases.append((entry, row, calls))
    lines = [
        json.dumps(
            {
                "calls": written(calls),
                "gold": entry["ground_truth"],
                "entry": {key: value for key, value in entry.items() if key != "function_documents"},
                "category": f"multi_turn_{category}",
                "number": number,
            }
        )
        for number, (entry, _, calls) in enumerate(cases)
    ]
    done = subprocess.run(
        [sys.executable, "-c", CHECK, str(wheel)], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(verdicts) == len(cases) == 600
    ours = [played(row, calls) for _, row, calls in cases]
    differ = [
        (entry["id"], verdict, own)
        for (entry, _, _), verdict, own in zip(cases, verdicts, ours, strict=True)
        if verdict[0] != own
    ]
    assert differ == []
    assert 100 < sum(ours) < 500
