"""Runs that stop and go on are the runs that never stopped."""

import errno
import json
import operator
import os
import signal
import subprocess
import time

import pytest
import torch

from comlrl_envs import from_reward
from comlrl_learners import (
    ConfigError,
    IACTrainer,
    MAACTrainer,
    MADPOTrainer,
    MAGRPOTrainer,
    MAREINFORCETrainer,
    MAReMaxTrainer,
    MARLOOTrainer,
    PolicyError,
)
from comlrl_learners import checkpoint as checkpoint_module
from comlrl_learners.checkpoint import checkpoints

from .small_policies import command, environment, measured, rows_of, same_weights, trainer

KINDS = {
    "magrpo": (MAGRPOTrainer, {}),
    "magrpo with a reference": (MAGRPOTrainer, {"kl_coef": 0.1}),
    "magrpo in minibatches": (MAGRPOTrainer, {"minibatch_size": 3, "clip_range": 0.2, "num_updates": 2}),
    "mareinforce": (MAREINFORCETrainer, {}),
    "marloo": (MARLOOTrainer, {}),
    "maremax": (MAReMaxTrainer, {}),
    "iac": (IACTrainer, {}),
    "iac with critics": (IACTrainer, {"use_separate_critic": True}),
    "maac": (MAACTrainer, {}),
    "madpo": (MADPOTrainer, {}),
    "madpo with a reference": (MADPOTrainer, {"reference_free": False}),
}


def run(kind="magrpo", folder=None, resume=None, rounds=4, **settings):
    cls, chosen = KINDS[kind]
    given = {"max_steps": rounds, "num_epochs": 9, "eval_every": 2, **chosen, **settings}
    made = trainer(cls=cls, output_dir=None if folder is None else str(folder), **given)
    return made, made.train(resume)


@pytest.mark.parametrize("kind", KINDS)
def test_two_halves_are_the_whole_bit_for_bit(kind, tmp_path):
    whole, uncut = run(kind, tmp_path / "whole")
    _, first = run(kind, tmp_path / "halves", rounds=2)
    second, joined = run(kind, tmp_path / "halves", first.folder)
    assert (second.rounds, second.env_steps) == (whole.rounds, whole.env_steps) == (4, whole.env_steps)
    assert same_weights(whole, second)
    assert measured(rows_of(joined.folder)) == measured(rows_of(uncut.folder)) == measured(joined.rows)
    for name, one in whole.algorithm.holdings().modules.items():
        twin = second.algorithm.holdings().modules[name].state_dict()
        assert all(torch.equal(value, twin[key]) for key, value in one.state_dict().items()), name


def test_a_schedule_needs_its_horizon_said(tmp_path):
    settings = {"schedule": "linear", "schedule_steps": 4}
    whole, _ = run(folder=tmp_path / "whole", **settings)
    _, first = run(folder=tmp_path / "halves", rounds=2, **settings)
    second, _ = run(folder=tmp_path / "halves", resume=first.folder, **settings)
    assert same_weights(whole, second)
    _, short = run(folder=tmp_path / "short", rounds=2, schedule="linear")
    with pytest.raises(ConfigError, match="schedule_horizon was 2 and is 4"):
        run(folder=tmp_path / "short", resume=short.folder, schedule="linear")


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"learning_rate": 2e-3}, "settings.learning_rate was 0.001 and is 0.002"),
        ({"seed": 5}, "settings.seed was 0 and is 5"),
        ({"kind": "marloo"}, "algorithm was 'magrpo' and is 'marloo'"),
        ({"kind": "iac"}, "algorithm was 'magrpo' and is 'iac'"),
        ({"rows": "train[:3]"}, "tasks was"),
    ],
)
def test_another_run_is_refused_with_what_differs(changed, words, tmp_path):
    from .small_policies import game

    _, first = run(folder=tmp_path, rounds=1)
    rows = changed.pop("rows", None)
    with pytest.raises(ConfigError, match=words):
        if rows:
            cls, _ = KINDS["magrpo"]
            trainer(cls=cls, env=game(rows), max_steps=2, num_epochs=9, eval_every=2, output_dir=str(tmp_path)).train(
                first.folder
            )
        else:
            run(folder=tmp_path, resume=first.folder, rounds=2, **changed)


def test_other_weights_in_shape_are_refused_and_nothing_is_loaded(tmp_path):
    from .small import policy
    from .small_policies import weights

    _, first = run(folder=tmp_path, rounds=1)
    other = [policy("llama", seed=1, max_new_tokens=8), policy("llama", seed=2, max_new_tokens=8)]
    made = trainer(policies=other, max_steps=2, num_epochs=9, eval_every=2, output_dir=str(tmp_path))
    before = weights(made)
    with pytest.raises(ConfigError, match=r"architecture|size or kind"):
        made.train(first.folder)
    assert all(torch.equal(before[agent], now) for agent, now in weights(made).items())


def test_only_the_newest_stay_and_0_writes_none(tmp_path):
    _, result = run(folder=tmp_path / "some", rounds=5, checkpoint_every=1, keep_checkpoints=2)
    assert [place.name for place in checkpoints(result.folder / "checkpoints")] == ["round-00000004", "round-00000005"]
    _, result = run(folder=tmp_path / "none", rounds=1, checkpoint_every=0)
    assert checkpoints(result.folder / "checkpoints") == []
    with pytest.raises(ConfigError, match="holds no checkpoint"):
        run(folder=tmp_path / "none", resume=result.folder)


def test_a_full_disk_leaves_the_old_checkpoint_whole(tmp_path, monkeypatch):
    whole, _ = run(folder=tmp_path / "whole")
    written = []
    save = checkpoint_module.save_file

    def full(tensors, path):
        written.append(path)
        if len(written) > 6:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        save(tensors, path)

    monkeypatch.setattr(checkpoint_module, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        run(folder=tmp_path / "full", checkpoint_every=1)
    (folder,) = (tmp_path / "full").iterdir()
    assert [place.name for place in checkpoints(folder / "checkpoints")] == ["round-00000001"]
    assert not list((folder / "checkpoints").glob(".*partial"))
    monkeypatch.undo()
    second, _ = run(folder=tmp_path / "full", resume=folder, checkpoint_every=1)
    assert same_weights(whole, second)


def test_a_checkpoint_is_tensors_and_json_alone(tmp_path):
    _, result = run(folder=tmp_path, rounds=1)
    (place,) = checkpoints(result.folder / "checkpoints")
    assert {entry.suffix for entry in place.iterdir()} == {".safetensors", ".json"}
    assert json.loads((place / "state.json").read_text())["counters"]["rounds"] == 1


@pytest.mark.slow
def test_a_run_killed_at_any_moment_goes_on_to_the_same_end(tmp_path, save_policy):
    model, _ = save_policy(tmp_path / "model")
    arguments = [
        "magrpo", "--env", "writing/length_ratio", "--env.split", "train[:4]", "--policies", model, "--max_steps", "12",
        "--num_epochs", "12", "--items_per_rollout", "2", "--num_generations", "2", "--learning_rate", "1e-3",
        "--eval_every", "5", "--eval_samples", "1", "--checkpoint_every", "1", "--progress", "false",
        "--sampling.max_new_tokens", "8",
    ]  # fmt: skip

    def start(name, *more):
        words = command(*arguments, "--output_dir", tmp_path, "--run_name", name, *more)
        return subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    whole = start("whole")
    assert whole.wait(timeout=300) == 0, whole.stderr.read()
    kills = 0
    for attempt in range(30):
        more = ["--resume", str(tmp_path / "cut")] if checkpoints(tmp_path / "cut" / "checkpoints") else []
        if not more and (tmp_path / "cut").exists():
            (tmp_path / "cut").rename(tmp_path / f"too early {attempt}")
        one = start("cut", *more)
        deadline = time.monotonic() + 120
        before = _bytes(tmp_path / "cut")
        while one.poll() is None and _bytes(tmp_path / "cut") == before and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.013 * (attempt % 11))
        if kills < 10 and one.poll() is None:
            os.kill(one.pid, signal.SIGKILL)
            kills += 1
            one.wait()
            continue
        assert one.wait(timeout=300) == 0, one.stderr.read()
        break
    assert kills >= 5
    assert measured(rows_of(tmp_path / "cut")) == measured(rows_of(tmp_path / "whole"))
    for agent in ("summarizer", "elaborator"):
        files = [tmp_path / name / "checkpoints" / "final" / agent / "model.safetensors" for name in ("whole", "cut")]
        assert files[0].read_bytes() == files[1].read_bytes()


def _bytes(folder):
    path = folder / "metrics.jsonl"
    return path.stat().st_size if path.exists() else 0


def test_a_run_names_its_team_again_heads_and_sharing_included(tmp_path):
    from .small import policy

    one, result = run("iac", tmp_path / "heads", rounds=2)
    again = trainer(cls=IACTrainer, policies=str(result.folder))
    assert same_weights(one, again)
    for agent, critic in one.algorithm.critics.items():
        loaded = again.algorithm.critics[agent].head.state_dict()
        assert all(torch.equal(value, loaded[name]) for name, value in critic.head.state_dict().items())
    shared = trainer(policies=policy(seed=3, max_new_tokens=8), output_dir=str(tmp_path / "shared"))
    folder = shared.train().folder
    again = trainer(policies=folder)
    assert again.team["summarizer"] is again.team["elaborator"] and same_weights(shared, again)


def test_critics_of_a_run_are_loaded_with_their_heads(tmp_path):
    one, result = run("maac", tmp_path, rounds=2)
    again = trainer(cls=MAACTrainer, policies=result.folder, critics=result.folder)
    mine, loaded = (made.algorithm.critics["summarizer"] for made in (one, again))
    for part in ("policy.model", "head"):
        states = [operator.attrgetter(part)(critic).state_dict() for critic in (mine, loaded)]
        assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_a_head_of_another_shape_is_refused(tmp_path):
    _, result = run("iac", tmp_path, rounds=1)
    with pytest.raises(ConfigError, match="value_head_hidden"):
        trainer(cls=IACTrainer, policies=result.folder, value_head_hidden=4)


def test_a_run_of_other_agents_is_refused(tmp_path):
    _, result = run(folder=tmp_path, rounds=1)
    env = from_reward([{"prompt": "a"}], lambda x, y: [0.0] * len(x))
    with pytest.raises(PolicyError, match=r"none for .*agent_0"):
        trainer(env=env, eval_env=env, policies=result.folder)
