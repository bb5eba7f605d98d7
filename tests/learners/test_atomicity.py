"""A checkpoint is there whole or not at all, loaded whole or not at all, whenever the process ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from comlrl_learners import ConfigError, MAACTrainer, MADPOTrainer, MAGRPOTrainer
from comlrl_learners import checkpoint as checkpoint_module
from comlrl_learners.algorithms.madpo import MADPO
from comlrl_learners.checkpoint import Counters, checkpoints, optimizer_tensors, write_checkpoint
from comlrl_learners.restoring import read_checkpoint
from comlrl_learners.tracking import RunFolder, TensorBoardTracker

from .small_policies import environment, measured, rows_of, same_weights, trainer
from .test_checkpoint_damage import contents, seal

FIRST, SECOND = "round-00000001", "round-00000002"
REPLAY = {"replay": "all_history"}
KINDS = {"magrpo": (MAGRPOTrainer, {}), "maac": (MAACTrainer, {}), "madpo": (MADPOTrainer, REPLAY)}
EXITED = 71


class Died(BaseException):
    """What no handler of errors takes for an error."""


def made(kind, folder, rounds=4, **given):
    cls, chosen = KINDS[kind]
    settings = {"max_steps": rounds, "num_epochs": 9, "eval_every": 2, "run_name": "run", **chosen, **given}
    return trainer(cls=cls, output_dir=str(folder), **settings)


def lived_in(kind, folder, value=1.0):
    """A trainer whose optimizers have moments and whose memory, if any, holds a round."""
    one = made(kind, folder)
    for optimizer in one.algorithm.holdings().optimizers.values():
        for master in optimizer.masters:
            moments = {name: torch.full_like(master, value) for name in ("exp_avg", "exp_avg_sq")}
            optimizer.adam.state[master] = {"step": torch.tensor(value), **moments}
    if one.algorithm.holdings().memory is not None:
        one.algorithm.remember([[]])
    return one


def state_of(one):
    """Copies of everything that loading a checkpoint changes."""
    holdings = one.algorithm.holdings()
    tensors = {
        **{name: module.state_dict() for name, module in holdings.modules.items()},
        **{f"{name} moments": optimizer_tensors(optimizer) for name, optimizer in holdings.optimizers.items()},
    }
    copies = {f"{name} {key}": value.clone() for name, all_ in tensors.items() for key, value in all_.items()}
    remembered = None if holdings.memory is None else json.dumps(holdings.memory.remembered())
    return copies, (remembered, one.rounds, one.env_steps)


def assert_same_state(one, other):
    assert one[1] == other[1]
    assert one[0].keys() == other[0].keys()
    assert all(torch.equal(value, other[0][name]) for name, value in one[0].items())


def write(folder, rounds, holdings, keep=1):
    return write_checkpoint(folder, Counters(rounds, rounds, 0), holdings, {"seed": 0}, keep=keep)


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def holdings(tmp_path):
    return lived_in("madpo", tmp_path).algorithm.holdings()


def assert_loads(place, holdings):
    """It is whole, digests and shapes included."""
    read_checkpoint(place, holdings, {"seed": 0}).load_into(holdings)


def test_nothing_bears_the_final_name_before_it_is_whole_and_on_the_disk(holdings, tmp_path, monkeypatch):
    """What is renamed was synced, and so is the rename; only then the old one goes."""
    folder, seen, synced = tmp_path / "checkpoints", [], set()
    place = folder / SECOND
    write(folder, 1, holdings)
    save, fsync, rename, remove = checkpoint_module.save_file, os.fsync, Path.rename, shutil.rmtree

    def saving(tensors, path):
        assert names(folder) == [f".{SECOND}.partial", FIRST] and Path(path).parent.name == f".{SECOND}.partial"
        seen.append("save")
        save(tensors, path)
        assert not place.exists()

    def syncing(handle):
        synced.add(os.fstat(handle).st_ino)
        seen.append("sync after" if place.exists() else "sync")
        fsync(handle)

    def renaming(self, target):
        assert not place.exists() and Path(target) == place
        files = {entry.name for entry in self.iterdir()}
        assert files == {*holdings.files, "state.json"}
        assert {entry.stat().st_ino for entry in [self, *self.iterdir()]} <= synced
        synced.clear()
        seen.append("rename")
        return rename(self, target)

    def removing(path, *arguments, **options):
        if Path(path).name == FIRST:
            assert names(folder) == [FIRST, SECOND]
            assert folder.stat().st_ino in synced
            assert_loads(place, holdings)
            seen.append("remove")
        return remove(path, *arguments, **options)

    monkeypatch.setattr(checkpoint_module, "save_file", saving)
    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(Path, "rename", renaming)
    monkeypatch.setattr(shutil, "rmtree", removing)
    assert write(folder, 2, holdings) == place
    assert list(dict.fromkeys(seen)) == ["save", "sync", "rename", "sync after", "remove"]
    assert names(folder) == [SECOND]


def _at_save(number):
    def patch(monkeypatch):
        save, calls = checkpoint_module.save_file, []

        def dying(tensors, path):
            calls.append(path)
            if len(calls) == number:
                path.write_bytes(b"half")
                raise Died
            save(tensors, path)

        monkeypatch.setattr(checkpoint_module, "save_file", dying)

    return patch


def _dies(*_, **__):
    raise Died


def _at_folder_sync(number):
    def patch(monkeypatch):
        sync, calls = checkpoint_module._sync_folder, []

        def dying(folder):
            calls.append(folder)
            if len(calls) == number:
                raise Died
            sync(folder)

        monkeypatch.setattr(checkpoint_module, "_sync_folder", dying)

    return patch


def _at_removal(monkeypatch):
    remove = shutil.rmtree

    def dying(path, *arguments, **options):
        if Path(path).name == FIRST:
            (Path(path) / "state.json").unlink()
            raise Died
        return remove(path, *arguments, **options)

    monkeypatch.setattr(shutil, "rmtree", dying)


BEFORE = {
    "first file": _at_save(1),
    "last file": _at_save(4),
    "memory": lambda patch: patch.setattr(MADPO, "remembered", _dies),
    "digests": lambda patch: patch.setattr(checkpoint_module, "file_digest", _dies),
    "sync": _at_folder_sync(1),
    "rename": lambda patch: patch.setattr(Path, "rename", _dies),
}
AFTER = {"sync of the rename": _at_folder_sync(2), "removal of the old one": _at_removal}


@pytest.mark.parametrize("moment", BEFORE)
def test_what_fails_before_the_new_one_is_in_place_leaves_the_only_old_one(moment, holdings, tmp_path, monkeypatch):
    folder = tmp_path / "checkpoints"
    write(folder, 1, holdings)
    before = contents(folder)
    BEFORE[moment](monkeypatch)
    with pytest.raises(Died):
        write(folder, 2, holdings)
    monkeypatch.undo()
    assert names(folder) == [FIRST] and contents(folder) == before
    assert_loads(folder / FIRST, holdings)
    assert_loads(write(folder, 2, holdings), holdings)
    assert names(folder) == [SECOND]


@pytest.mark.parametrize("moment", AFTER)
def test_what_fails_after_the_new_one_is_in_place_leaves_it(moment, holdings, tmp_path, monkeypatch):
    folder = tmp_path / "checkpoints"
    write(folder, 1, holdings)
    AFTER[moment](monkeypatch)
    with pytest.raises(Died):
        write(folder, 2, holdings)
    monkeypatch.undo()
    assert checkpoints(folder)[-1].name == SECOND and not list(folder.glob(".*"))
    assert_loads(folder / SECOND, holdings)
    write(folder, 3, holdings)
    assert names(folder) == ["round-00000003"]


def test_what_an_ended_process_left_beside_it_is_neither_taken_nor_kept(holdings, tmp_path):
    folder = tmp_path / "checkpoints"
    partial = folder / f".{FIRST}.partial"
    partial.mkdir(parents=True)
    (partial / "left.safetensors").write_bytes(b"half")
    assert checkpoints(folder) == []
    place = write(folder, 1, holdings)
    assert names(folder) == [FIRST] and set(names(place)) == {*holdings.files, "state.json"}


def test_what_only_resembles_a_checkpoint_is_neither_counted_nor_removed(holdings, tmp_path):
    folder = tmp_path / "checkpoints"
    others = ["final", "round-00000000.old", "round-1", "round-aside"]
    for name in others:
        (folder / name).mkdir(parents=True)
    (folder / "round-00000009").write_text("a file")
    for rounds in (1, 2, 10):
        write(folder, rounds, holdings, keep=2)
    assert [place.name for place in checkpoints(folder)] == [SECOND, "round-00000010"]
    assert names(folder) == sorted([*others, SECOND, "round-00000009", "round-00000010"])


def _reshape(key_number):
    def change(path):
        tensors = load_file(path)
        key = sorted(tensors)[key_number]
        save_file({**tensors, key: torch.zeros(*tensors[key].shape, 2)}, path)

    return change


def _recast(path):
    tensors = load_file(path)
    key = sorted(tensors)[-1]
    save_file({**tensors, key: tensors[key].double()}, path)


def _drop(path):
    tensors = load_file(path)
    tensors.pop(sorted(tensors)[-1])
    save_file(tensors, path)


CHANGES = {"shape": _reshape(0), "shape of the last": _reshape(-1), "dtype": _recast, "missing": _drop}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A function: a kind, to the folder of a run of it, trained once."""
    folders = {}

    def store(kind):
        if kind not in folders:
            folders[kind] = made(kind, tmp_path_factory.mktemp(kind), rounds=1, eval_every=0).train().folder
        return folders[kind]

    return store


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("part", ["modules", "optimizers"])
@pytest.mark.parametrize("kind", ["madpo", "maac"])
def test_nothing_is_loaded_when_only_the_last_part_does_not_fit(kind, part, change, stored, tmp_path):
    run = shutil.copytree(stored(kind), tmp_path / "run")
    (place,) = checkpoints(run / "checkpoints")
    one = lived_in(kind, tmp_path, value=3.0)
    parts = {"modules": "weights", "optimizers": "optimizer"}
    last = list(vars(one.algorithm.holdings())[part])[-1]
    CHANGES[change](place / f"{last}.{parts[part]}.safetensors")
    seal(place)
    before, files = state_of(one), contents(run)
    with pytest.raises(ConfigError, match=last):
        one.train(run)
    assert_same_state(state_of(one), before)
    assert contents(run) == files


def test_nothing_is_loaded_when_only_the_last_pair_is_none(stored, tmp_path):
    run = shutil.copytree(stored("madpo"), tmp_path / "run")
    (place,) = checkpoints(run / "checkpoints")
    pairs = json.loads((place / "memory.json").read_text())
    (place / "memory.json").write_text(json.dumps([*pairs, [{}]]))
    seal(place)
    one = lived_in("madpo", tmp_path, value=3.0)
    before = state_of(one)
    with pytest.raises(ConfigError, match=r"is damaged: memory\.json"):
        one.train(run)
    assert_same_state(state_of(one), before)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_loaded_into_a_trainer_that_has_lived(kind, stored, tmp_path):
    """What the refusals above leave untouched is what a checkpoint that fits replaces, to the last tensor."""
    place = checkpoints(stored(kind) / "checkpoints")[-1]
    one = lived_in(kind, tmp_path, value=3.0)
    holdings, facts = one.algorithm.holdings(), json.loads((place / "state.json").read_text())["facts"]
    before = state_of(one)
    found = read_checkpoint(place, holdings, facts)
    assert_same_state(state_of(one), before)
    found.load_into(holdings)
    for name, module in holdings.modules.items():
        tensors = load_file(place / f"{name}.weights.safetensors")
        assert tensors and all(torch.equal(value, module.state_dict()[key]) for key, value in tensors.items())
    for name, optimizer in holdings.optimizers.items():
        tensors, now = load_file(place / f"{name}.optimizer.safetensors"), optimizer_tensors(optimizer)
        assert tensors.keys() == now.keys() and all(torch.equal(value, now[key]) for key, value in tensors.items())
    if holdings.memory is not None:
        assert holdings.memory.remembered() == json.loads((place / "memory.json").read_text())


def scalars(folder):
    """By name, the steps and values that TensorBoard shows of a run folder."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]}


def next_second():
    """Event files are read in the order of their names, which hold whole seconds."""
    time.sleep(1.01 - time.time() % 1)


def test_tensorboard_shows_what_was_logged_anew_from_the_very_next_step(tmp_path):
    pytest.importorskip("tensorboard")
    first = TensorBoardTracker(tmp_path)
    for step in range(6):
        first.log({"env_step": step, "reward": 10.0 + step})
    next_second()
    second = TensorBoardTracker(tmp_path, resumed_after=3)
    for step in (4, 6):
        second.log({"env_step": step, "reward": 20.0 + step})
    # Neither is closed: a process that is killed closes nothing.
    assert scalars(tmp_path)["reward"] == [(0, 10.0), (1, 11.0), (2, 12.0), (3, 13.0), (4, 24.0), (6, 26.0)]
    for tracker in (first, second):
        tracker.close()


def test_tensorboard_of_a_resumed_run_shows_each_step_once(tmp_path, monkeypatch):
    """A run that logged past its checkpoint goes on: what it logs again counts, and nothing else is lost."""
    pytest.importorskip("tensorboard")
    settings = {"trackers": ("tensorboard",), "checkpoint_every": 2}
    with monkeypatch.context() as patch, pytest.raises(Died):
        _at_save(5)(patch)  # the first file of the second checkpoint: rounds 3 and 4 are logged
        made("magrpo", tmp_path, rounds=6, **settings).train()
    run = tmp_path / "run"
    assert [place.name for place in checkpoints(run / "checkpoints")] == [SECOND]
    timed = "train/time/update_s"
    logged = {name: values for name, values in scalars(run).items() if name in ("round", timed)}
    assert max(value for _, value in logged["round"]) == 4
    next_second()
    result = made("magrpo", tmp_path, rounds=5, **settings).train(run)
    shown = scalars(run)
    assert shown.keys() == {name for row in result.rows for name in row}
    for name, values in shown.items():
        rows = [(row["env_step"], row[name]) for row in result.rows if name in row]
        assert [step for step, _ in values] == [step for step, _ in rows], name
        assert [value for _, value in values] == pytest.approx([value for _, value in rows], rel=1e-6), name
    # A clock tells values of the first process from those of the second.
    assert shown[timed][:2] == logged[timed][:2] and shown[timed][2:4] != logged[timed][2:4]


def end_at(kind, folder, moment, number):
    """Train, and end this process without a word: at the n-th file of a checkpoint, or once a round is logged."""
    save, log = checkpoint_module.save_file, RunFolder.log
    calls = []

    def saving(tensors, path):
        calls.append(path)
        if len(calls) == int(number):
            path.write_bytes(b"half")
            os._exit(EXITED)
        save(tensors, path)

    def logging(self, row):
        log(self, row)
        if row["round"] == int(number):
            os.kill(os.getpid(), signal.SIGKILL)

    if moment == "file":
        checkpoint_module.save_file = saving
    else:
        RunFolder.log = logging
    made(kind, folder, rounds=6, checkpoint_every=1 if moment == "file" else 2, keep_checkpoints=1).train()


def ended(kind, folder, moment, number):
    """The status of a process of its own that ran `end_at`."""
    code = f"import sys; from {__name__} import end_at; end_at(*sys.argv[1:])"
    variables = environment()
    variables["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), variables["PYTHONPATH"]])
    words = [sys.executable, "-c", code, kind, str(folder), moment, str(number)]
    ran = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=300)
    assert ran.returncode in (EXITED, -signal.SIGKILL), ran.stderr
    return ran.returncode


def goes_on_to_the_same_end(kind, tmp_path, **settings):
    whole, second = made(kind, tmp_path / "whole", rounds=6), made(kind, tmp_path, rounds=6, **settings)
    whole.train()
    second.train(tmp_path / "run")
    assert_same_state(state_of(second), state_of(whole))
    assert same_weights(second, whole)
    assert measured(rows_of(tmp_path / "run")) == measured(rows_of(tmp_path / "whole" / "run"))


@pytest.mark.slow
def test_a_process_that_ends_inside_a_file_leaves_the_older_checkpoint_alone(tmp_path):
    assert ended("magrpo", tmp_path, "file", 6) == EXITED
    folder = tmp_path / "run" / "checkpoints"
    assert names(folder) == [f".{SECOND}.partial", FIRST]
    assert [place.name for place in checkpoints(folder)] == [FIRST]
    goes_on_to_the_same_end("magrpo", tmp_path, checkpoint_every=1, keep_checkpoints=1)
    assert names(folder) == ["final", "round-00000006"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["maac", "madpo"])
def test_a_run_that_is_killed_past_its_checkpoint_goes_on_to_the_same_end(kind, tmp_path):
    assert ended(kind, tmp_path, "round", 5) == -signal.SIGKILL
    assert [place.name for place in checkpoints(tmp_path / "run" / "checkpoints")] == ["round-00000004"]
    assert rows_of(tmp_path / "run")[-1]["round"] == 5
    goes_on_to_the_same_end(kind, tmp_path, checkpoint_every=2)
