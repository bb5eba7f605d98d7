"""What makes two evaluations the same, so that one may go on where the other stopped."""

import dataclasses
import functools
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from comlrl_envs import OptionError, from_reward, make
from comlrl_envs.evaluation import evaluate, read_settings
from comlrl_envs.policies import per_prompt


def _reward(value):
    return lambda first, second: [value] * len(first)


def _partial(first, second, value):
    return [value] * len(first)


@dataclasses.dataclass
class Keyed:
    api_key: str

    def act(self, prompts, agent, rng):
        return ["x"] * len(prompts)


DIFFERENT = {
    "functions of one prompt": lambda value: evaluate_args(policy=per_prompt(lambda prompt: "x" * value)),
    "closures": lambda value: evaluate_args(reward=_reward(float(value))),
    "partials": lambda value: evaluate_args(reward=functools.partial(_partial, value=float(value))),
    "prompts": lambda value: evaluate_args(prompts=lambda row: f"{value} {row}"),
    "rows that are no JSON": lambda value: (
        from_reward([{"prompt": "a", "gold": np.array([value])}], _reward(1.0)),
        "empty",
    ),
    "bare rewards": lambda value: (from_reward([{"prompt": "a"}], _reward(float(value))), "empty"),
}


def row(**more):
    return {"prompt": "a", **more}


def evaluate_args(policy="empty", **kwargs):
    return make("writing/length_ratio", split="eval[:3]", **kwargs), policy


@pytest.mark.parametrize("kind", DIFFERENT)
def test_what_does_something_else_is_another_evaluation(kind, tmp_path):
    env, policy = DIFFERENT[kind](1)
    first = evaluate(env, policy, out=tmp_path / "run")
    assert evaluate(*DIFFERENT[kind](1), out=tmp_path / "run").reward == first.reward
    with pytest.raises(OptionError, match="other settings"):
        evaluate(*DIFFERENT[kind](2), out=tmp_path / "run")


def test_what_is_called_like_a_secret_is_not_written(tmp_path):
    evaluate("writing/length_ratio", Keyed("sk-nobody-should-read-this"), episodes=2, out=tmp_path)
    assert all("nobody" not in path.read_text() for path in tmp_path.iterdir() if path.is_file())


def _changed(line, **change):
    record = json.loads(line)
    return json.dumps({**record, **change})


@pytest.mark.parametrize(
    "change",
    [
        lambda line: _changed(line, turns=[]),
        lambda line: _changed(line, task=[]),
        lambda line: _changed(line, turns=[{**json.loads(line)["turns"][0], "reward": "x"}]),
        lambda line: _changed(line, turns=[{**json.loads(line)["turns"][0], "terms": {"a": None}}]),
        lambda line: "[" * 100_000,
        lambda line: "3",
    ],
)
def test_a_line_that_is_no_episode_is_named(change, tmp_path):
    evaluate("writing/length_ratio", "empty", episodes=2, out=tmp_path)
    first, second = (tmp_path / "episodes.jsonl").read_text().splitlines()
    (tmp_path / "episodes.jsonl").write_text(f"{first}\n{change(second)}\n")
    with pytest.raises(OptionError, match=r"line 2 is no episode .* Remove it"):
        evaluate("writing/length_ratio", "empty", episodes=2, out=tmp_path)


@pytest.mark.parametrize("content", [b"a: 1\n", b"\xff\xfe", b"- 1\n"])
def test_a_config_that_is_none_is_named(content, tmp_path):
    evaluate("writing/length_ratio", "empty", episodes=2, out=tmp_path)
    (tmp_path / "config.yaml").write_bytes(content)
    with pytest.raises(OptionError, match=r"config\.yaml"):
        read_settings(tmp_path)


class Locked:
    def __init__(self):
        self.lock, self.me = threading.Lock(), self

    def act(self, prompts, agent, rng):
        return ["x"] * len(prompts)


def test_a_policy_that_cannot_be_told_from_others_is_evaluated_but_not_stored(tmp_path):
    rows = [{"prompt": "a", "lock": threading.Lock()}]
    assert evaluate("writing/length_ratio", Locked(), episodes=2).failed == ()
    assert evaluate(make("writing/length_ratio", tasks=rows), "empty").failed == ()
    with pytest.raises(OptionError, match=r"cannot be told from another one .* settings\(\)"):
        evaluate("writing/length_ratio", Locked(), episodes=2, out=tmp_path / "run")


def test_a_function_is_the_same_in_every_process():
    """A set among its constants has another order in each."""
    program = (
        "from comlrl_envs.evaluation.settings import code_facts, digest\n"
        "def f(x): return x in {'ant', 'bee', 'cat', 'dog', 'eel', 'fox'}\n"
        "print(digest([code_facts(f.__code__)]))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(found) == 1
