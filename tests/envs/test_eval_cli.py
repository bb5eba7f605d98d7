"""`comlrl-envs eval` and `report` as a user types them."""

import json

import pytest

from comlrl_envs.cli import main
from comlrl_envs.cli.report import command as report

ENV = "writing/length_ratio"


def test_a_table_and_a_folder(tmp_path, capsys):
    out = tmp_path / "run"
    given = ["--policies", "random", "--episodes", "20", "--samples", "4", "--k", "1,4", "--seed", "3"]
    assert main(["eval", ENV, *given, "--out", str(out), "--env.max_turns", "2"]) == 0
    shown = capsys.readouterr().out
    assert "pass@4" in shown and "reward" in shown and "5 x 4" in shown and "return" in shown
    assert json.loads((out / "summary.json").read_text())["episodes"] == 20
    assert (out / "config.yaml").read_text().count("max_turns: 2") == 3
    assert main(["eval", ENV, *given, "--out", str(out), "--env.max_turns", "2"]) == 0
    assert capsys.readouterr().out == shown


def test_reports_stand_side_by_side_and_are_computed_from_the_episodes(tmp_path, capsys):
    for name in ("random", "oracle"):
        assert main(["eval", ENV, "--policies", name, "--out", str(tmp_path / name)]) == 0
    capsys.readouterr()
    (tmp_path / "oracle" / "summary.json").unlink()
    assert report([str(tmp_path / "random"), str(tmp_path / "oracle")]) == 0
    rows = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "random" in rows["policies"] and "oracle" in rows["policies"]
    assert "1.000 [0.878, 1.000]" in rows["reward"]


def test_policies_by_agent(capsys):
    for text in ("empty,echo", "elaborator=echo,summarizer=empty"):
        assert main(["eval", ENV, "--policies", text, "--episodes", "2"]) == 0
        assert "summarizer=empty, elaborator=echo" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--policies"),
        (["--policies", "randm"], "Did you mean 'random'"),
        (["--policies", "summariser=random,elaborator=echo"], "Did you mean 'summarizer'"),
        (["--policies", "echo", "--k", "one"], "--k one"),
        (["--policies", "echo", "--k", "5", "--samples", "2"], "pass@5"),
        (["--policies", "echo", "--protocol", "pipe"], "Did you mean 'pipeline'"),
        (["--policies", "echo", "--episodes", "many"], "episodes"),
        (["--policies", "echo", "--env.max_turn", "2"], "max_turns"),
    ],
)
def test_slips_are_named(words, said, capsys):
    assert main(["eval", ENV, *words]) == 1
    assert said in capsys.readouterr().err


def test_a_folder_without_results(tmp_path, capsys):
    assert main(["report", f"[{tmp_path}]"]) == 1
    assert "config.yaml" in capsys.readouterr().err
