"""What W&B holds of a run that stopped or was killed and went on: real offline runs, read back from their files."""

import json
import os
import re
import signal
import struct
import subprocess
import time

import pytest

from comlrl_learners import MAGRPOConfig
from comlrl_learners.checkpoint import checkpoints
from comlrl_learners.tracking import Tracking, WandbTracker

from .small_policies import command, environment, measured, rows_of, trainer

wandb = pytest.importorskip("wandb")
BLOCK, HEADER = 32_768, 7


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")


def chunks(data):
    """The parts of a LevelDB log, which is what a `.wandb` file is after its own header; a torn end is left out."""
    place = HEADER
    while place + HEADER <= len(data):
        left = BLOCK - place % BLOCK
        size, kind = struct.unpack_from("<HB", data, place + 4)
        if left < HEADER or kind == 0:
            place += left
            continue
        place += HEADER + size
        if place <= len(data):
            yield kind, data[place - size : place]


def records(path):
    """W&B's records in one file."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, found = path.read_bytes(), b""
    assert data.startswith(b":W&B")
    for kind, part in chunks(data):
        found += part
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(found)
            found = b""


def sent(folder):
    """By file, in the order of their making: the run's id and its rows (step, metrics), W&B's own metrics left out."""
    files = []
    for path in sorted((folder / "wandb").glob("offline-run-*/run-*.wandb")):
        ids, rows = set(), []
        for record in records(path):
            if record.HasField("run"):
                ids.add(record.run.run_id)
            if record.HasField("history"):
                items = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
                row = {name: value for name, value in items.items() if not name.startswith("_")}
                rows.append((record.history.step.num, *measured([row])))
        files.append((ids, rows))
    return files


def joined(rows):
    """Rows of `metrics.jsonl` as W&B shows them: those of one step are one row."""
    merged = {}
    for row in measured(rows):
        merged.setdefault(row["env_step"], {}).update(row)
    return list(merged.items())


def run(folder, rounds, resume=None, **settings):
    given = {"num_epochs": 9, "eval_every": 2, "run_name": "run", "output_dir": str(folder), **settings}
    return trainer(max_steps=rounds, **given).train(resume)


def next_second():
    """W&B names the folder of a run by the second."""
    time.sleep(1.001 - time.time() % 1)


@pytest.mark.slow
def test_after_a_clean_stop_there_is_neither_gap_nor_repeat(tmp_path):
    whole = run(tmp_path / "whole", 4)
    first = run(tmp_path / "halves", 2, trackers=("wandb",))
    next_second()
    run(tmp_path / "halves", 4, first.folder, trackers=("wandb",))
    (one, before), (other, after) = sent(first.folder)
    assert len(one) == 1 and one == other
    assert len(before) == 3 and len(after) == 2
    assert before + after == joined(whole.rows)


@pytest.mark.slow
def test_a_run_that_failed_past_its_checkpoint_sends_nothing_twice(tmp_path):
    whole = run(tmp_path / "whole", 6)
    broken = trainer(max_steps=6, num_epochs=9, eval_every=2, checkpoint_every=2, run_name="run",
                     output_dir=str(tmp_path / "cut"), trackers=("wandb",))  # fmt: skip
    update = broken.algorithm.update

    def fail(batch, round_index, rate):
        if round_index == 5:
            raise OSError("the power went")
        return update(batch, round_index, rate)

    broken.algorithm.update = fail
    with pytest.raises(OSError, match="power"):
        broken.train()
    folder = tmp_path / "cut" / "run"
    next_second()
    run(tmp_path / "cut", 6, folder, checkpoint_every=2, trackers=("wandb",))
    (_, before), (_, after) = sent(folder)
    assert [len(before), len(after)] == [6, 1]
    assert before + after == joined(whole.rows)


@pytest.mark.slow
def test_a_tracker_named_only_on_resume_gets_the_earlier_rows_too(tmp_path):
    first = run(tmp_path, 2)
    second = run(tmp_path, 4, first.folder, trackers=("wandb",))
    ((_, rows),) = sent(first.folder)
    assert rows == joined(second.rows)


@pytest.mark.slow
def test_after_a_kill_no_row_is_missing_and_repeats_are_equal(tmp_path, save_policy):
    model, _ = save_policy(tmp_path / "model")
    arguments = [
        "magrpo", "--env", "writing/length_ratio", "--env.split", "train[:2]", "--policies", model,
        "--num_epochs", "36", "--items_per_rollout", "2", "--num_generations", "2", "--learning_rate", "1e-3",
        "--eval_every", "9", "--eval_samples", "1", "--checkpoint_every", "3", "--progress", "false",
        "--sampling.max_new_tokens", "8", "--output_dir", tmp_path, "--transcripts_every", "0",
    ]  # fmt: skip
    cut = tmp_path / "cut"
    # A W&B that this process has started would serve the children too, and outlive them.
    variables = {name: value for name, value in environment().items() if name != "WANDB_SERVICE"}

    def start(*more):
        words = command(*arguments, "--run_name", "cut", "--trackers", "wandb", *more)
        return subprocess.Popen(words, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    for number, lines in ((1, 20), (2, 26)):
        # Some rows of the killed run have reached its file by then, and some have not.
        one = start(*(["--resume", cut] if number == 2 else []))
        while one.poll() is None and not (len(list(cut.glob("wandb/offline-run-*"))) == number and _lines(cut) > lines):
            time.sleep(0.002)
        assert one.poll() is None, one.stderr.read()
        os.kill(one.pid, signal.SIGKILL)
        one.wait()
        assert checkpoints(cut / "checkpoints")
        assert _lines(cut) < 36 + 5
    last = start("--resume", cut)
    assert last.wait(timeout=300) == 0, last.stderr.read()

    files = sent(cut)
    assert len(files) == 3 and len(set.union(*(ids for ids, _ in files))) == 1
    expected = dict(joined(rows_of(cut)))
    assert len(expected) == 1 + 36
    assert {step for _, rows in files for step, _ in rows} == set(expected)
    seen = [step for _, rows in files for step, _ in rows]
    assert len(seen) > len(set(seen))
    for _, rows in files:
        assert [step for step, _ in rows] == sorted({step for step, _ in rows})
        for step, row in rows:
            assert row.items() <= expected[step].items()
    assert files[-1][1] == list(expected.items())


def _lines(folder):
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_run_that_is_disabled_claims_no_arrival(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    wandb.teardown()  # it has read the variable when it started
    tracker = WandbTracker(MAGRPOConfig(), tmp_path, "run")
    tracker.log({"env_step": 3, "x": 1.0})
    tracker.close()
    wandb.teardown()
    assert not (tmp_path / "wandb.json").exists()


def test_what_tensorboard_was_given_is_in_its_file_at_once(tmp_path):
    pytest.importorskip("tensorboard")
    tracking = Tracking(MAGRPOConfig(output_dir=str(tmp_path), trackers=("tensorboard",)), {}, "run")
    tracking.log({"env_step": 1, "some/metric": 0.25})
    (file,) = (tmp_path / "run" / "tensorboard").iterdir()
    assert re.search(rb"some/metric", file.read_bytes())
    tracking.close()
