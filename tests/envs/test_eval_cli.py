"""`comlrl-envs eval` and `report` as a user types them."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from comlrl_envs.cli import main
from comlrl_envs.cli.eval import Progress
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


def test_the_same_command_with_more_samples_goes_on(tmp_path, capsys):
    command = ["eval", ENV, "--policies", "random", "--out", str(tmp_path), "--samples"]
    assert main([*command, "2"]) == main([*command, "3"]) == 0
    assert "30 x 3" in capsys.readouterr().out
    assert main([*command, "2"]) == 1
    assert "does not shrink" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 0
    assert re.search(r"episodes +90", capsys.readouterr().out)


def test_columns_tell_their_rules_apart_and_short_leaves_out_the_details(tmp_path, capsys):
    command = ["eval", ENV, "--policies", "random", "--episodes", "4", "--short", "--out"]
    assert main([*command, str(tmp_path / "a")]) == 0
    assert main([*command, str(tmp_path / "b"), "--env.roles", "true", "--env.split", "train"]) == 0
    shown = capsys.readouterr().out
    assert "term ratio_reward" in shown and "seconds" not in shown and "metric" not in shown
    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(["report", *folders, "--short"]) == 0
    rows = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert re.fullmatch(r"rows +eval, demo set +train, demo set", rows["rows"])
    assert re.fullmatch(r"settings +- +roles=True", rows["settings"]) and "metric length_ratio" not in rows
    assert main(["report", *folders]) == 0
    assert "metric length_ratio" in capsys.readouterr().out


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal():
    often, seldom = io.StringIO(), io.StringIO()
    for stream, every in ((often, 0.0), (seldom, 60.0)):
        tell = Progress(stream, every)
        tell(3, 9, 0)
        tell(6, 9, 2)
    assert often.getvalue() == "3 of 9 episodes\n6 of 9 episodes, 2 failed\n"
    assert seldom.getvalue() == ""


def test_progress_is_one_line_of_a_terminal():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        tell = Progress(stream)
        tell(3, 9, 0)
        tell(7, 9, 2)
        # A read may give what was written up to now.
        shown = b""
        while not shown.endswith(b"\n"):
            shown += os.read(ours, 1000)
    os.close(ours)
    assert shown == b"\r3 of 9 episodes\r7 of 9 episodes, 2 failed\r\n"


def started(*words, errors=subprocess.PIPE):
    """The command as a process, on more episodes than anybody waits for."""
    command = [sys.executable, "-m", "comlrl_envs", "eval", ENV, "--policies", "random", "--samples", "3000", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, text=True)


def test_an_interrupt_says_what_is_kept(tmp_path):
    file = tmp_path / "run" / "episodes.jsonl"
    process = started("--out", str(tmp_path / "run"))
    limit = time.monotonic() + 60
    while not (file.exists() and file.stat().st_size > 9999) and time.monotonic() < limit:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    kept = file.read_bytes().count(b"\n")
    assert process.returncode == 130 and 0 < kept < 90_000
    assert said == f"stopped; {kept} episodes are kept in {tmp_path / 'run'}, the same command goes on\n"


def test_an_interrupt_says_that_nothing_is_kept_without_a_folder():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = started(errors=theirs)
    os.close(theirs)
    shown = os.read(ours, 1000)
    assert shown.startswith(b"\r32 of 90000 episodes")
    process.send_signal(signal.SIGINT)
    # Linux ends a terminal that nobody writes to any more by an error, other systems by an empty answer.
    with contextlib.suppress(OSError):
        while part := os.read(ours, 1000):
            shown += part
    os.close(ours)
    assert process.wait(60) == 130
    assert shown.endswith(b"\r\nstopped; nothing is kept; --out FOLDER keeps what is finished\r\n")


@pytest.mark.parametrize("kept", [True, False])
def test_a_server_that_is_gone_stops_the_run_with_a_message(kept, tmp_path, capsys, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    policy = "openai:m?base_url=http://127.0.0.1:9/v1&key_variable=&max_retries=0"
    out = ["--out", str(tmp_path / "run")] if kept else []
    assert main(["eval", ENV, "--policies", policy, "--batch_size", "10", *out]) == 1
    shown = capsys.readouterr()
    assert "stopped, since the last 10 episodes all failed" in shown.err and "no connection" in shown.err
    assert (f"0 episodes are kept in {tmp_path / 'run'}" if kept else "nothing is kept; --out") in shown.err
    assert re.search(r"unplayed +20", shown.out)


def test_a_folder_without_results(tmp_path, capsys):
    assert main(["report", f"[{tmp_path}]"]) == 1
    assert "config.yaml" in capsys.readouterr().err
