"""A checkpoint or a run folder that is not what was written is refused, and changes nothing."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

from comlrl_envs import from_reward
from comlrl_learners import ConfigError, IACTrainer, MADPOTrainer, MAGRPOTrainer
from comlrl_learners.checkpoint import checkpoints, file_digest, state_digest
from comlrl_learners.run_files import held

from .small import policy
from .small_policies import command, environment, measured, rows_of, same_weights, trainer, weights

REPLAY = {"replay": "all_history"}


def made(folder, cls=MAGRPOTrainer, rounds=2, **given):
    settings = {"max_steps": rounds, "num_epochs": 9, "eval_every": 0, "run_name": "run", **given}
    return trainer(cls=cls, output_dir=str(folder), **settings)


def stored(folder, cls=MAGRPOTrainer, **given):
    """A run and its newest checkpoint."""
    run = made(folder, cls, **given).train().folder
    return run, checkpoints(run / "checkpoints")[-1]


def refused(run, words, cls=MAGRPOTrainer, **given):
    """A trainer that goes on from there is refused with these words, and neither it nor the run changes."""
    one = made(run.parent, cls, rounds=4, **given)
    before, files = weights(one), contents(run)
    with pytest.raises(ConfigError, match=words) as caught:
        one.train(run)
    assert all(torch.equal(before[agent], now) for agent, now in weights(one).items())
    assert all(not o.adam.state for o in one.algorithm.holdings().optimizers.values())
    assert contents(run) == files
    return str(caught.value)


def contents(run):
    return {str(p): p.read_bytes() for p in run.rglob("*") if p.is_file() and p.name != ".lock"}


def seal(place):
    """Make the digests of a checkpoint those of what it holds now."""
    state = json.loads((place / "state.json").read_text())
    state["files"] = {name: file_digest(place / name) for name in state["files"]}
    state.pop("sha256", None)
    (place / "state.json").write_text(json.dumps({**state, "sha256": state_digest(state)}))


def swap(place, ending):
    one, two = (place / f"policy-{agent}.{ending}.safetensors" for agent in ("summarizer", "elaborator"))
    spare = place / "spare"
    one.rename(spare)
    two.rename(one)
    spare.rename(two)


def change_state(place, key, value):
    state = json.loads((place / "state.json").read_text())
    state[key] = {**state[key], **value} if isinstance(value, dict) else value
    (place / "state.json").write_text(json.dumps(state))


DAMAGE = {
    "models swapped": lambda place: swap(place, "weights"),
    "optimizers swapped": lambda place: swap(place, "optimizer"),
    "an empty optimizer": lambda place: save_file({}, place / "policy-summarizer.optimizer.safetensors"),
    "a missing file": lambda place: (place / "policy-elaborator.weights.safetensors").unlink(),
    "a torn file": lambda place: os.truncate(place / "policy-elaborator.weights.safetensors", 100),
    "no pairs": lambda place: (place / "memory.json").write_text("[]"),
    "rounds edited": lambda place: change_state(place, "counters", {"rounds": 3}),
    "facts edited": lambda place: change_state(place, "facts", {"tasks": "0"}),
    "files edited": lambda place: change_state(place, "files", {"memory.json": "0"}),
    "no state": lambda place: (place / "state.json").unlink(),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of two checkpoints, with pairs to remember."""
    return made(
        tmp_path_factory.mktemp("whole"), MADPOTrainer, checkpoint_every=1, keep_checkpoints=2, **REPLAY
    ).train().folder  # fmt: skip


@pytest.fixture
def copied(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    return run, checkpoints(run / "checkpoints")[-1]


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_was_changed_since_is_refused_and_never_to_be_removed(kind, copied):
    run, place = copied
    DAMAGE[kind](place)
    told = refused(run, "is damaged", MADPOTrainer, **REPLAY)
    assert "Restore it from a copy, or move it elsewhere to go on from round-00000001" in told
    assert "Remove" not in told and "Delete" not in told
    place.rename(run / "aside")
    result = made(run.parent, MADPOTrainer, rounds=3, **REPLAY).train(run)
    assert result.rounds == 3 and [row["round"] for row in rows_of(run)] == [1, 2, 3]


@pytest.mark.parametrize("text", ["{}", "[]", "null", "3", "x", '{"format": "2"}', '{"format": 2}', "[" * 100_000])
def test_a_state_that_is_none_is_refused(text, copied):
    run, place = copied
    (place / "state.json").write_text(text)
    refused(run, "is damaged: state.json", MADPOTrainer, **REPLAY)


@pytest.mark.parametrize(
    "counters",
    [
        {"rounds": "2", "env_steps": 1, "metrics_bytes": 1},
        {"rounds": -3, "env_steps": 1, "metrics_bytes": 1},
        {"rounds": True, "env_steps": 1, "metrics_bytes": 1},
        {"rounds": 2, "env_steps": 1},
        {"rounds": 2, "env_steps": 1, "metrics_bytes": 1, "more": 1},
        None,
        [],
    ],
)
def test_counters_that_are_none_are_refused_even_when_sealed(counters, copied):
    run, place = copied
    state = json.loads((place / "state.json").read_text())
    (place / "state.json").write_text(json.dumps({**state, "counters": counters}))
    seal(place)
    refused(run, "is damaged: state.json", MADPOTrainer, **REPLAY)


def test_another_format_is_named_with_both_numbers(copied):
    run, place = copied
    change_state(place, "format", 1)
    assert "has format 1, this version reads 2" in refused(run, "start a new run", MADPOTrainer, **REPLAY)


@pytest.mark.parametrize("memory", ["null", "[[1]]", "[[{}]]", "3"])
def test_a_memory_that_is_none_is_refused_even_when_sealed(memory, copied):
    run, place = copied
    (place / "memory.json").write_text(memory)
    seal(place)
    refused(run, "is damaged: memory.json", MADPOTrainer, **REPLAY)


def _without(key):
    return lambda tensors: {name: tensor for name, tensor in tensors.items() if name != key}


@pytest.mark.parametrize(
    "change",
    [
        _without("0.exp_avg"),
        _without("0.step"),
        lambda tensors: {**tensors, "999.exp_avg": torch.zeros(1)},
        lambda tensors: {**tensors, "x": torch.zeros(1)},
        lambda tensors: {**tensors, "0.exp_avg": torch.zeros(2)},
        lambda tensors: {**tensors, "0.exp_avg": tensors["0.exp_avg"].double()},
    ],
)
def test_moments_that_fit_no_weight_are_refused_even_when_sealed(change, copied):
    run, place = copied
    file = place / "policy-summarizer.optimizer.safetensors"
    save_file(change(load_file(file)), file)
    seal(place)
    refused(run, "is damaged: policy-summarizer.optimizer", MADPOTrainer, **REPLAY)


def test_other_trained_weights_are_refused_by_name(tmp_path):
    run, _ = stored(tmp_path)
    team = [policy(seed=seed, temperature=1.0, max_new_tokens=8) for seed in (1, 2)]
    team[0].model.get_input_embeddings().weight.requires_grad_(False)
    refused(run, r"trained other weights of policy-summarizer: .*embed_tokens.*requires_grad", policies=team)


def _two(*agents):
    return from_reward(
        [{"id": f"row-{i}", "prompt": "a" * (i + 1)} for i in range(4)],
        lambda one, two: [float(len(a) > len(b)) for a, b in zip(one, two, strict=True)],
        agents=agents,
    )


@pytest.mark.parametrize("agents", [("x", "head-x"), ("a", "a.optimizer"), ("a", "a.weights"), ("x", "critic-x")])
@pytest.mark.parametrize("separate", [False, True])
def test_names_of_agents_never_make_one_file_of_two(agents, separate, tmp_path):
    def one(folder, rounds):
        env = _two(*agents)
        given = {"use_separate_critic": separate, "eval_env": env}
        return made(folder, IACTrainer, rounds, env=env, **given)

    uncut = one(tmp_path / "whole", 3)
    uncut.train()
    first = one(tmp_path / "cut", 1)
    # Of each agent a policy with its optimizer and a head; a separate critic is a model and an optimizer more.
    assert len(first.algorithm.holdings().files) == (10 if separate else 6)
    run = first.train().folder
    second = one(tmp_path / "cut", 3)
    second.train(run)
    assert same_weights(uncut, second)
    for agent, critic in uncut.algorithm.critics.items():
        twin = second.algorithm.critics[agent].head.state_dict()
        assert all(torch.equal(value, twin[name]) for name, value in critic.head.state_dict().items())


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: os.truncate(path, path.stat().st_size // 2),
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"\0" * path.stat().st_size),
        lambda path: path.write_bytes(b"[]\n" * path.stat().st_size),
    ],
)
def test_metrics_that_are_not_what_was_logged_are_refused_untouched(damage, copied):
    run, _ = copied
    damage(run / "metrics.jsonl")
    refused(run, r"cannot go on with .*metrics\.jsonl.*Restore it from a copy", MADPOTrainer, **REPLAY)


@pytest.mark.parametrize(
    "text", ["", "x", "{}", "[]", "null", '{"run_id": 3, "env_step": 1, "metrics": []}', "[" * 100_000]
)
def test_a_note_of_wandb_that_is_none_is_refused_untouched(text, copied):
    pytest.importorskip("wandb")
    run, _ = copied
    (run / "wandb.json").write_text(text)
    refused(run, r"wandb\.json.*Restore it from a copy, or move it", MADPOTrainer, trackers=("wandb",), **REPLAY)
    assert made(run.parent, MADPOTrainer, rounds=3, **REPLAY).train(run).rounds == 3


def test_a_run_that_is_being_trained_is_refused_in_the_same_process_too(copied):
    run, _ = copied
    with held(run):
        refused(run, f"is being trained by process {os.getpid()}", MADPOTrainer, **REPLAY)
        assert (run / ".lock").exists()
    assert not (run / ".lock").exists()
    assert made(run.parent, MADPOTrainer, rounds=3, **REPLAY).train(run).rounds == 3


def test_a_folder_that_is_no_run_gets_no_lock(tmp_path):
    with pytest.raises(ConfigError, match="holds no checkpoint"):
        made(tmp_path).train(tmp_path)
    assert not list(tmp_path.glob(".lock"))


@pytest.mark.slow
def test_two_processes_never_train_one_run_and_a_kill_lets_go_of_it(tmp_path, save_policy):
    model, _ = save_policy(tmp_path / "model")
    arguments = [
        "magrpo", "--env", "writing/length_ratio", "--env.split", "train[:4]", "--policies", model, "--num_epochs", "9",
        "--items_per_rollout", "2", "--num_generations", "2", "--eval_every", "0", "--checkpoint_every", "1",
        "--progress", "false", "--sampling.max_new_tokens", "8", "--transcripts_every", "0", "--cpu_threads", "1",
    ]  # fmt: skip

    def start(name, steps, *more):
        words = command(*arguments, "--output_dir", tmp_path, "--run_name", name, "--max_steps", str(steps), *more)
        return subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    whole, cut = start("whole", 6), tmp_path / "cut"
    assert whole.wait(timeout=300) == 0, whole.stderr.read()
    long = start("cut", 18)
    while long.poll() is None and not checkpoints(cut / "checkpoints"):
        time.sleep(0.01)
    os.kill(long.pid, signal.SIGSTOP)  # It holds the run for as long as this test looks.
    second = start("cut", 6, "--resume", str(cut))
    assert second.wait(timeout=300) == 1
    assert f"being trained by process {long.pid}" in second.stderr.read()
    os.kill(long.pid, signal.SIGKILL)
    long.wait()
    assert (cut / ".lock").read_text() == f"{long.pid}\n"
    last = checkpoints(cut / "checkpoints")[-1]
    steps = json.loads((last / "state.json").read_text())["counters"]["rounds"]
    third = start("cut", max(6, steps), "--resume", str(cut))
    assert third.wait(timeout=300) == 0, third.stderr.read()
    assert measured(rows_of(cut))[:6] == measured(rows_of(tmp_path / "whole"))
