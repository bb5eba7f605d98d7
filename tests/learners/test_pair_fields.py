"""The fields of a pairs file's records: defaults, and what is said of those that cannot be used."""

import json
import math

import pytest

from comlrl_learners import ConfigError
from comlrl_learners.pairs_file import read_pairs

from .toy_models import toy_team

AGENTS = ("agent_0", "agent_1")
RECORD = {"prompts": ["one", "one"], "winner_completions": ["ab", "cd"], "loser_completions": ["x", "y"]}


def team_of():
    return dict(zip(AGENTS, toy_team(), strict=True))


def write(tmp_path, *records):
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(list(records)), encoding="utf-8")
    return path


def test_what_is_left_out_has_a_default(tmp_path):
    record = {"agents": ["agent_1"], "prompts": ["one"], "winner_completions": ["a"], "loser_completions": ["b"]}
    first, second = read_pairs(write(tmp_path, record, {**RECORD, "winner_reward": 3, "turn": 1}), team_of()).pairs
    assert (first.task_id, first.turn, list(first.chosen)) == ("0", 0, ["agent_1"])
    assert (first.chosen_return, first.rejected_return, first.group_mean) == (1.0, 0.0, 0.5)
    assert (second.task_id, second.turn, list(second.chosen)) == ("1", 1, list(AGENTS))
    assert (second.chosen_return, second.rejected_return, second.group_mean) == (3.0, 0.0, 1.5)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"agents": ["agent_0", "agent_0"]}, r"names an agent twice"),
        ({"agents": [], "prompts": []}, r"needs 'agents': a list of some of \['agent_0', 'agent_1'\]"),
        ({"agents": None}, "needs 'agents'.*it holds None"),
        ({"agents": 3}, "needs 'agents'.*it holds 3"),
        ({"agents": [["agent_0"], "agent_1"]}, "needs 'agents'"),
        ({"agents": "agent_0"}, "needs 'agents'.*it holds 'agent_0'"),
        ({"agents": ["agent_0", "agent_2"]}, r"names the agents \['agent_2'\].*Did you mean"),
        ({"turn": None}, "needs 'turn'.*it holds None"),
        ({"turn": "first"}, "needs 'turn'.*it holds 'first'"),
        ({"turn": True}, "needs 'turn'"),
        ({"turn": -1}, "needs 'turn'"),
        ({"task": ["a"]}, "needs 'task'"),
        ({"winner_reward": None}, "needs 'winner_reward' to be a finite number"),
        ({"winner_reward": "high"}, "needs 'winner_reward'.*it holds 'high'"),
        ({"winner_reward": math.nan}, "needs 'winner_reward'.*it holds nan"),
        ({"loser_reward": math.inf}, "needs 'loser_reward'.*it holds inf"),
        ({"loser_reward": 10**400}, "needs 'loser_reward'"),
        ({"candidate_reward_mean": math.nan}, "needs 'candidate_reward_mean'"),
        ({"winner_reward": 0.2, "loser_reward": 0.5}, "winner_reward=0.2, less than loser_reward=0.5"),
        ({"winner_reward": -3}, "winner_reward=-3.0, less than loser_reward=0.0"),
        ({"loser_completions": ["ab", "cd"]}, "the same winner and loser.*Give two different ones"),
        (
            {"winner_completions": ["abcdefgh", "c"], "loser_completions": ["abcdefxy", "c"]},
            "the same winner and loser.*max_new_tokens.*'agent_0': 6",
        ),
        ({"winner_completions": ["", "c"], "winner_finished": [False, True]}, "empty and not finished"),
        ({"winner_ids": [[1]]}, "needs 'winner_ids' to be a list of 2 lists of token ids"),
        ({"loser_ids": [[1], [2.5]]}, "needs 'loser_ids'"),
        ({"prompt_ids": [[1], [-4]]}, "needs 'prompt_ids'"),
        ({"winner_finished": [1, 0]}, "needs 'winner_finished' to be a list of 2 of true and false"),
        ({"prompts": "one"}, "needs 'prompts': a list of 2 texts"),
    ],
)
def test_a_record_that_cannot_be_used_is_named_with_its_file(change, words, tmp_path):
    path = write(tmp_path, RECORD, {**RECORD, **change})
    with pytest.raises(ConfigError, match=rf"(?s)pairs_file='.*pairs\.json': Pair 1 .*{words}"):
        read_pairs(path, team_of())
