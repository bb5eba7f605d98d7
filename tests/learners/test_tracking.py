import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from comlrl_envs import from_reward, make
from comlrl_envs.errors import MissingExtraError
from comlrl_learners import MAGRPOConfig, MAGRPOTrainer
from comlrl_learners.tracking import Tracking, draw_reward, plain, run_name

from .small import policy

ROWS = [{"id": f"row-{i}", "prompt": text} for i, text in enumerate(("one", "zwei é", "three"))]


def score(first, second):
    return [len(one) / (1 + len(two)) for one, two in zip(first, second, strict=True)]


def again(prompt, agent_completions, num_agents):
    return [prompt] * num_agents


def train(folder, **settings):
    config = MAGRPOConfig(output_dir=None if folder is None else str(folder), num_generations=2, num_epochs=1,
                          items_per_rollout=2, run_name="run", **{"transcripts_every": 1, **settings})  # fmt: skip
    env = from_reward(ROWS, score, feedback=again, max_turns=2)
    trainer = MAGRPOTrainer(env=env, policies=[policy(seed=1), policy(seed=2)], config=config, eval_env=env)
    return trainer.train()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs"))


def test_a_run_folder_holds_what_the_design_says(run):
    assert {path.name for path in run.folder.iterdir()} == {
        "config.yaml", "metrics.jsonl", "transcripts", "reward.png", "checkpoints",
    }  # fmt: skip
    assert run.folder.name == "run"


def test_every_line_of_the_metrics_is_json_without_nan(run):
    def refuse(word):
        raise AssertionError(word)

    lines = (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line, parse_constant=refuse) for line in lines]
    assert rows == run.rows
    assert all(math.isfinite(value) for row in rows for value in row.values())
    assert [("eval/reward_mean" in row, row["round"], row["env_step"]) for row in rows] == [
        (True, 0, 0), (False, 1, 12), (False, 2, 18), (True, 2, 18),
    ]  # fmt: skip
    assert {"train/reward_mean", "train/agent_0/loss", "train/agent_1/entropy", "train/learning_rate"} <= set(rows[1])
    assert {"eval/return_mean", "eval/term/reward", "eval/time_s"} <= set(rows[0])
    assert run.curve() == [(0, rows[0]["eval/reward_mean"]), (18, rows[3]["eval/reward_mean"])]


def test_transcripts_hold_every_joint_action_with_its_texts_and_reward(run):
    names = sorted(path.name for path in (run.folder / "transcripts").iterdir())
    assert names == ["eval-000000.jsonl", "eval-000002.jsonl", "train-000001.jsonl", "train-000002.jsonl"]
    text = (run.folder / "transcripts" / "train-000001.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    assert len(records) == 2 * (2 + 4)
    for record in records:
        first, second = record["replies"]["agent_0"], record["replies"]["agent_1"]
        assert record["reward"] == record["terms"]["reward"] == pytest.approx(len(first) / (1 + len(second)))
        assert len(record["branch"]) == record["turn"] + 1
        assert record["task"] in {row["id"] for row in ROWS}
    logged = next(row for row in run.rows if row["round"] == 1)
    last = [record["reward"] for record in records if record["turn"] == 1]
    assert logged["train/reward_mean"] == pytest.approx(sum(last) / len(last))
    assert all(set(record["prompts"]) == set(record["replies"]) for record in records)


def test_transcripts_can_be_rarer_or_off(tmp_path):
    rare, off = train(tmp_path, transcripts_every=5), train(tmp_path, transcripts_every=0)
    assert sorted(path.name for path in (rare.folder / "transcripts").iterdir())[-1] == "train-000001.jsonl"
    assert not (off.folder / "transcripts").exists()
    assert (rare.folder.name, off.folder.name) == ("run", "run-2")


def test_the_reward_curve_is_a_picture(run, tmp_path):
    assert (run.folder / "reward.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    draw_reward([], tmp_path / "empty.png")
    assert (tmp_path / "empty.png").read_bytes().startswith(b"\x89PNG")


def test_the_configuration_is_written_whole(run):
    text = (run.folder / "config.yaml").read_text(encoding="utf-8")
    written = yaml.safe_load(text)
    assert written["algorithm"] == "magrpo"
    assert written["num_generations"] == 2
    assert written["adam_betas"] == [0.9, 0.99]
    assert written["sampling"]["temperature"] == 1.0
    assert set(vars(MAGRPOConfig())) <= set(written)


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = train(None)
    assert result.folder is None
    assert list(tmp_path.iterdir()) == []
    assert len(result.rows) == 4


def test_tensorboard_holds_the_logged_values(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    result = train(tmp_path, trackers=("tensorboard",))
    events = accumulator.EventAccumulator(str(result.folder / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("train/reward_mean")]
    assert found == [
        (row["env_step"], pytest.approx(row["train/reward_mean"])) for row in result.rows if "train/reward_mean" in row
    ]
    assert [event.step for event in events.Scalars("eval/reward_mean")] == [0, 18]


@pytest.mark.slow
def test_wandb_writes_its_file_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    result = train(tmp_path, trackers=("wandb",))
    (file,) = (result.folder / "wandb").glob("offline-run-*/run-*.wandb")
    content = file.read_bytes()
    assert b"train/reward_mean" in content and b"eval/reward_mean" in content


@pytest.mark.parametrize(("tracker", "module"), [("wandb", "wandb"), ("tensorboard", "tensorboard")])
def test_a_missing_tracker_names_the_extra(tmp_path, monkeypatch, tracker, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install \"comlrl-envs\[learners\]\""):
        train(tmp_path, trackers=(tracker,))


def test_a_figure_that_is_no_number_is_refused_and_leaves_no_torn_line(tmp_path):
    tracking = Tracking(MAGRPOConfig(output_dir=str(tmp_path)), {}, "run")
    tracking.log({"env_step": 1, "x": 1.0})
    with pytest.raises(ValueError, match="JSON"):
        tracking.log({"env_step": 2, "x": math.nan})
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == '{"env_step": 1, "x": 1.0}\n'


def test_names_sort_and_hold_no_slash():
    assert run_name("magrpo", "writing/length_ratio-v0", 3).startswith("magrpo-writing-length_ratio-v0-seed3-2")


def test_plain_values_have_no_tuples():
    assert plain({"a": (1, [2, (3,)]), "b": "text"}) == {"a": [1, [2, [3]]], "b": "text"}


def test_paths_and_numpys_numbers_are_written_plainly_and_the_rest_as_its_repr():
    found = plain({"p": Path("a") / "b", "n": np.float64(0.5), "i": (np.int64(3),), "f": score, "o": None, "t": True})
    assert found == {"p": "a/b", "n": 0.5, "i": [3], "f": repr(score), "o": None, "t": True}
    assert yaml.safe_load(yaml.safe_dump(found)) == found


def test_an_option_that_yaml_cannot_hold_does_not_stop_a_run(tmp_path):
    env = make("writing/length_ratio", split="train[:2]", reward=score)
    settings = MAGRPOConfig(output_dir=str(tmp_path), run_name="run", max_steps=1, num_generations=2, eval_samples=1,
                            learning_rate=np.float64(1e-4))  # fmt: skip
    MAGRPOTrainer(env=env, policies=policy(), config=settings).train()
    written = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert written["env_options"] == {"split": "train[:2]", "reward": repr(score)}
    assert written["learning_rate"] == 1e-4
    assert "policies" not in written


def test_checkpoints_open_with_transformers_and_hold_the_final_weights(tmp_path):
    config = MAGRPOConfig(output_dir=str(tmp_path), num_generations=2, max_steps=1, run_name="run", learning_rate=1e-2)
    trainer = MAGRPOTrainer(env=from_reward(ROWS, score), policies=[policy(seed=1), policy(seed=2)], config=config)
    folder = trainer.train().folder
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"final", "round-00000001"}
    assert {path.name for path in (folder / "checkpoints" / "final").iterdir()} == {*trainer.team, "team.json"}
    for agent, member in trainer.team.items():
        opened = AutoModelForCausalLM.from_pretrained(folder / "checkpoints" / "final" / agent)
        pairs = zip(opened.parameters(), member.model.parameters(), strict=True)
        assert all(torch.equal(saved, now) for saved, now in pairs)
        tokenizer = AutoTokenizer.from_pretrained(folder / "checkpoints" / "final" / agent)
        assert tokenizer("Bees é 🐝")["input_ids"] == member.tokenizer("Bees é 🐝")["input_ids"]
