import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from comlrl_envs import make
from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, SamplingParams
from comlrl_learners.cli import main

from .small import save

ROOT = Path(__file__).resolve().parents[2]
SHORT = [
    "--num_generations", "2", "--items_per_rollout", "2", "--max_steps", "1", "--eval_samples", "1",
    "--sampling.max_new_tokens", "6", "--progress", "false", "--env.tasks", "[{prompt: a}, {prompt: b}]",
]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save(tmp_path_factory.mktemp("model"))


def command(model, folder, *more, env="writing/length_ratio", name="run"):
    return ["magrpo", "--env", env, "--policies", model, "--output_dir", str(folder), "--run_name", name, *more]


def metrics(folder, name="run"):
    lines = (folder / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def untimed(rows):
    return [{k: v for k, v in row.items() if "time" not in k and "tokens_per_s" not in k} for row in rows]


def test_a_run_from_the_command_line(model, tmp_path, capsys):
    assert main(command(model, tmp_path, *SHORT[:-2], "--env.max_turns", "2")) == 0
    assert "seed 0: 12 joint actions, held-out reward" in capsys.readouterr().out
    written = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert written["policies"] == [model]
    assert written["env_options"]["max_turns"] == 2


def test_the_written_configuration_gives_the_same_run(model, tmp_path):
    assert main(command(model, tmp_path, *SHORT, "--learning_rate", "1e-3", "--schedule", "cosine")) == 0
    config = str(tmp_path / "run" / "config.yaml")
    assert main(["magrpo", "--config", config, "--run_name", "again"]) == 0
    assert untimed(metrics(tmp_path, "again")) == untimed(metrics(tmp_path))
    assert main(["marloo", "--config", config]) == 1


def test_every_algorithm_and_several_seeds(model, tmp_path):
    for algorithm in ("mareinforce", "marloo", "maremax"):
        given = [algorithm, *command(model, tmp_path, *SHORT, "--env.split", "train", name=algorithm)[1:]]
        assert main([*given, "--seeds", "0,3"]) == 0
        seeds = [yaml.safe_load((tmp_path / name / "config.yaml").read_text())["seed"]
                 for name in (algorithm, f"{algorithm}-2")]  # fmt: skip
        assert seeds == [0, 3]


def test_seeds_are_independent_of_those_before_them(model, tmp_path):
    assert main(command(model, tmp_path, *SHORT, "--seeds", "[0, 3]")) == 0
    assert main(command(model, tmp_path, *SHORT, "--seed", "3", name="three")) == 0
    assert untimed(metrics(tmp_path, "run-2")) == untimed(metrics(tmp_path, "three"))


FACTORY = """
from learners.strangers import Relay

def relay(uneven=0.0):
    env = Relay()
    env.uneven = uneven
    return env
"""


def test_a_factory_is_imported_from_here_and_its_configuration_opens_it_again(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_games.py").write_text(FACTORY)
    short = [*SHORT[:-2], "--tasks_per_epoch", "2", "--max_turns", "1", "--env.uneven", "0.5", "--team_reward", "mean"]
    assert main(command(model, tmp_path, *short, env="my_games:relay")) == 0
    assert main(["magrpo", "--config", str(tmp_path / "run" / "config.yaml"), "--run_name", "again"]) == 0
    assert untimed(metrics(tmp_path, "again")) == untimed(metrics(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["magrp", "--env", "x"], ["'magrp'", "Did you mean 'magrpo'"]),
        (["magrpo", "--max_step", "3"], ["--max_step", "Did you mean '--max_steps'"]),
        (["magrpo", "--samplin.top_p=0.5"], ["--samplin.top_p", "--sampling.top_p"]),
        (["magrpo", "--max_steps", "many"], ["max_steps", "many"]),
        (["magrpo", "--seeds", "a,b"], ["--seeds a,b", "0,1,2"]),
        (["magrpo", "--num_generations", "1"], ["num_generations=1", "baseline='none'"]),
        (["magrpo", "--clip_range", "0.2", "--sampling.top_p", "0.9"], ["top_p=1"]),
        (["magrpo", "--minibatch_size", "2"], ["clip_range"]),
        (["magrpo", "--schedule", "lineer"], ["schedule", "lineer", "linear"]),
        (["magrpo", "--env", "writing/lenght_ratio"], ["lenght_ratio", "Did you mean 'writing/length_ratio'"]),
        (["magrpo", "--env.max_turn", "2"], ["'max_turn'", "Did you mean 'max_turns'"]),
        (["magrpo", "--env", "no_module_here:make"], ["no_module_here", "cannot be imported"]),
        (["magrpo", "--env", "learners.strangers:Relai"], ["'Relai'", "Did you mean 'Relay'"]),
        (["magrpo", "--env", "learners.strangers:threading"], ["is a module", "function or class"]),
        (["magrpo", "--env", ":Relay"], [":Relay", "package.module:name"]),
        (["magrpo", "--env", "learners.strangers:Relay", "--env.uneven", "1"], ["no keyword 'uneven'"]),
        (["magrpo", "--env.roles", "["], ["--env.roles [", "no YAML value"]),
        (["magrpo", "--seeds", ""], ["--seeds", "0,1,2"]),
        (["magrpo", "more"], ["unrecognized", "more"]),
        (["magrpo", "--config", "/nowhere.yaml"], ["/nowhere.yaml"]),
        (["magrpo", "--policies", "/nowhere/at/all"], ["/nowhere/at/all", "does not exist"]),
        (["magrpo", "--policies", "MODEL", "MODEL", "MODEL"], ["3 entries for a team of 2"]),
    ],
)
def test_bad_input_names_the_culprit_and_the_mend(arguments, words, model, tmp_path, capsys):
    given = [model if word == "MODEL" else word for word in arguments]
    for option, value in (("--env", "writing/length_ratio"), ("--policies", model)):
        given += [] if option in given else [option, value]
    assert main([*given, "--output_dir", str(tmp_path), "--progress", "false"]) == 1
    told = capsys.readouterr().err
    assert all(word in told for word in words), told
    assert "Traceback" not in told
    assert "\n\n" not in told.strip()
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_key_of_a_file_is_named_with_the_closest(model, tmp_path, capsys):
    (tmp_path / "bad.yaml").write_text("env: writing/length_ratio\nmax_step: 3\n")
    assert main(["magrpo", "--config", str(tmp_path / "bad.yaml"), "--policies", model]) == 1
    told = capsys.readouterr().err
    assert "'max_step'" in told and "'max_steps'" in told


@pytest.mark.parametrize("given", ["1", "[1]"])
def test_one_seed_may_be_given_as_seeds(given, model, tmp_path):
    assert main(command(model, tmp_path, *SHORT, "--seeds", given)) == 0
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["seed"] == 1


def test_an_options_value_is_read_as_yaml_and_reaches_the_environment(model, tmp_path):
    shown = {}
    for word, value in (("true", True), ("false", False)):
        assert main(command(model, tmp_path, *SHORT, f"--env.roles={word}", name=word)) == 0
        assert yaml.safe_load((tmp_path / word / "config.yaml").read_text())["env_options"]["roles"] is value
        (row,) = [row for row in metrics(tmp_path, word) if "train/reward_mean" in row]
        shown[value] = row["train/elaborator/prompt_tokens"]
    assert shown[True] - shown[False] == len(" Answer in detail.")


def test_a_file_may_hold_seeds_and_options_and_the_command_line_overrides_them(model, tmp_path, capsys):
    file = tmp_path / "run.yaml"
    file.write_text(
        f"env: writing/length_ratio\nenv_options: {{roles: true, split: 'train[:2]'}}\npolicies: [{model}]\n"
        f"seeds: [4, 5]\nmax_steps: 1\nnum_generations: 2\neval_samples: 1\nsampling: {{max_new_tokens: 4}}\n"
        f"output_dir: {tmp_path}\nrun_name: run\nprogress: false\n"
    )
    assert main(["magrpo", "--config", str(file)]) == 0
    assert main(["magrpo", "--config", str(file), "--seeds", "6", "--env.roles", "false"]) == 0
    written = [yaml.safe_load((tmp_path / name / "config.yaml").read_text()) for name in ("run", "run-2", "run-3")]
    assert [(one["seed"], one["env_options"]["roles"]) for one in written] == [(4, True), (5, True), (6, False)]
    assert capsys.readouterr().out.count("joint actions") == 3


def test_a_run_started_in_python_is_repeated_from_its_configuration(model, tmp_path):
    settings = MAGRPOConfig(
        seed=3, max_steps=2, items_per_rollout=2, num_generations=2, eval_samples=1, learning_rate=1e-3,
        sampling=SamplingParams(temperature=0.9, max_new_tokens=6), output_dir=str(tmp_path), run_name="run",
    )  # fmt: skip
    env = make("writing/length_ratio", roles=True, max_turns=2, split="train[:4]")
    MAGRPOTrainer(env=env, policies={"elaborator": model, "summarizer": "tiny"}, config=settings).train()
    again = ["magrpo", "--config", str(tmp_path / "run" / "config.yaml"), "--run_name", "again", "--progress", "false"]
    assert main(again) == 0
    assert untimed(metrics(tmp_path, "again")) == untimed(metrics(tmp_path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("env: x\npolicies: tiny\n", ["policies: [tiny]"]),
        (
            "env: x\npolicies: [tiny]\nsampling:\n  max_new_token: 4\n",
            ["sampling.max_new_token", "Did you mean 'sampling.max_new_tokens'"],
        ),
        ("env: x\npolicies: [tiny]\nlearning_rat: 1\n", ["learning_rat", "Did you mean 'learning_rate'"]),
        ("env: [\n", ["line 2"]),
        ("env: x\npolicies: [tiny]\nalgorithm: marloo\n", ["'marloo'", "'magrpo'"]),
    ],
)
def test_a_file_that_cannot_be_used_is_told_so_in_one_paragraph(text, words, tmp_path, capsys):
    (tmp_path / "bad.yaml").write_text(text)
    assert main(["magrpo", "--config", str(tmp_path / "bad.yaml")]) == 1
    told = capsys.readouterr().err
    assert all(word in told for word in words), told
    assert "\n\n" not in told.strip()


@pytest.mark.parametrize("missing", ["--env", "--policies"])
def test_a_required_option_is_asked_for(missing, capsys):
    given = {"--env": "writing/length_ratio", "--policies": "tiny"}
    del given[missing]
    assert main(["magrpo", *(word for pair in given.items() for word in pair)]) == 1
    assert missing.strip("-") in capsys.readouterr().err


def test_a_process_ends_with_the_status_and_one_line(tmp_path):
    words = ["magrpo", "--env", "writing/length_ratoi", "--policies", "tiny", "--output_dir", str(tmp_path)]
    ran = subprocess.run([sys.executable, "-m", "comlrl_learners", *words], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("UnknownIdError: ")
    assert "Did you mean 'writing/length_ratio'?" in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


def test_a_factorys_typo_gets_the_closest_name_of_its_module_and_of_its_options(model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "temporary_games.py").write_text(FACTORY)
    for env, option, meant in (("rely", "uneven", "relay"), ("relay", "unevn", "uneven")):
        assert main(command(model, tmp_path, f"--env.{option}", "1", env=f"temporary_games:{env}")) == 1
        assert f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_usage_names_the_algorithms_and_help_every_setting(capsys):
    assert main(["--help"]) == 0
    assert "magrpo, mareinforce, marloo, maremax" in capsys.readouterr().out
    assert main([]) == 2
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(["magrpo", "--help"])
    assert left.value.code == 0
    told = capsys.readouterr().out
    assert all(f"--{name} " in told for name in ("num_generations", "kl_coef", "sampling.top_p", "seeds"))
    assert "Completions K per agent and turn" in " ".join(told.split())


@contextlib.contextmanager
def running(model, folder):
    """A long run in a process of its own, yielded after its first round."""
    words = command(model, folder, *SHORT, "--num_epochs", "100000", "--eval_every", "100000")
    place = words.index("--max_steps")
    del words[place : place + 2]
    process = subprocess.Popen(
        [sys.executable, "-m", "comlrl_learners", *words], cwd=ROOT, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    file = folder / "run" / "metrics.jsonl"
    try:
        deadline = time.monotonic() + 90
        while not (file.exists() and "train/" in file.read_text()):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def check_left(folder):
    """Whole metrics lines, and checkpoints whose weights load and moved."""
    text = (folder / "run" / "metrics.jsonl").read_text()
    assert text.endswith("\n")
    assert all("env_step" in json.loads(line) for line in text.splitlines())
    for agent in ("summarizer", "elaborator"):
        saved = folder / "run" / "checkpoints" / "final" / agent
        weights = torch.cat([p.flatten() for p in AutoModelForCausalLM.from_pretrained(saved).parameters()])
        assert torch.isfinite(weights).all()
        assert len(AutoTokenizer.from_pretrained(saved)) > 256


@pytest.mark.slow
def test_ctrl_c_finishes_the_round_saves_and_exits_with_130(model, tmp_path):
    with running(model, tmp_path) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "Stopping after this round" in process.stderr.read()
    check_left(tmp_path)


@pytest.mark.slow
def test_ctrl_c_twice_leaves_whole_weights_or_none(model, tmp_path):
    with running(model, tmp_path) as process:
        process.send_signal(signal.SIGINT)
        time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (130, -signal.SIGINT)
    # The second one may fall into the round, which is then left and saved, or into the save, which leaves no "final".
    if (tmp_path / "run" / "checkpoints" / "final").exists():
        check_left(tmp_path)


def test_an_algorithm_of_ones_own_is_named_by_its_class(model, tmp_path, capsys):
    import yaml

    assert main(["comlrl_learners:MAGRPOTrainer", *command(model, tmp_path, *SHORT)[1:]]) == 0
    folder = tmp_path / "run"
    assert yaml.safe_load((folder / "config.yaml").read_text())["algorithm"] == "magrpo"
    assert main(["comlrl_learners:LLMPolicy", *command(model, tmp_path, *SHORT)[1:]]) == 1
    assert "is no trainer" in capsys.readouterr().err


def test_critics_and_references_are_given_by_name(model, tmp_path):
    import yaml

    given = command(model, tmp_path, *SHORT, "--critics", str(model))
    assert main(["maac", *given[1:]]) == 0
    folder = tmp_path / "run"
    assert yaml.safe_load((folder / "config.yaml").read_text())["critics"] == [str(model)]
    assert main(["maac", "--config", str(folder / "config.yaml"), "--run_name", "again"]) == 0
    assert main(["maac", "--resume", str(folder), "--max_steps", "2"]) == 0
