import json
import os
import pty
import subprocess
import sys

import pytest

from comlrl_envs.cli import main
from comlrl_envs.sources import REAL_SETS, cache

from .hub import environ, running
from .test_sources import COMMIT, TLDR, arxiv_files, load, rows_of

COMMAND = [sys.executable, "-c", "import sys; from comlrl_envs.cli import main; sys.exit(main())", "fetch"]


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("COMLRL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("COMLRL_DATA_DIR", raising=False)


def jsonl(tag, count):
    return "".join(json.dumps(row) + "\n" for row in rows_of(tag, count)).encode()


def fetch(environment, tmp_path, *words, stdin=subprocess.DEVNULL):
    return subprocess.run(
        [*COMMAND, *words], env=environment, cwd=tmp_path, stdin=stdin, capture_output=True, text=True, timeout=120
    )


def test_the_terms_stand_before_the_rows(tmp_path):
    files = {"train.jsonl": jsonl("train", 7), "test.jsonl": jsonl("test", 4)}
    with running({"trl-lib/tldr": (COMMIT, files)}) as hub:
        ran = fetch(environ(hub.url, tmp_path), tmp_path, "writing/tldr", "--yes=true")
    assert ran.returncode == 0, ran.stderr
    shown = ran.stdout
    for fact in ("trl-lib/tldr", COMMIT, "CC BY 4.0", "117,000", str(tmp_path / "cache/writing/tldr"), "test[:1000]"):
        assert fact in shown and shown.index(fact) < shown.index("train: 7 rows")
    assert "eval: 4 rows" in shown
    record = json.loads((tmp_path / "cache/writing/tldr/provenance.json").read_text())
    assert record["commit"] == COMMIT and set(record["files"]) == {"train.jsonl", "eval.jsonl"} and record["date"]
    assert len(load()) == 7 and load(split="eval").origin == f"cache trl-lib/tldr@{COMMIT}"


def test_nothing_is_downloaded_unasked(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", open(os.devnull))
    assert main(["fetch", "writing/tldr"]) == 1
    said = capsys.readouterr()
    assert "CC BY 4.0" in said.out and "pass --yes" in said.err
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
@pytest.mark.parametrize("answer, code", [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_a_person_is_asked(tmp_path, answer, code):
    ours, theirs = pty.openpty()
    with running({"OpenMLRL/arXiv_abstract": ("a" * 40, arxiv_files("x"))}) as hub:
        os.write(ours, answer.encode())
        ran = fetch(environ(hub.url, tmp_path), tmp_path, "writing/arxiv", "--split", "eval", stdin=theirs)
        assert (hub.seen != []) == (code == 0)
    os.close(ours)
    os.close(theirs)
    assert ran.returncode == code, ran.stderr
    assert "Download? [y/N]" in ran.stdout and "not pinned" in ran.stdout
    files = {path.name for path in tmp_path.glob("cache/writing/arxiv/*")}
    assert files == ({"eval.jsonl", "provenance.json"} if code == 0 else set())


def test_what_is_there_is_not_fetched_again(capsys):
    cache.write("writing/tldr", TLDR, COMMIT, {"train": rows_of("a", 2), "eval": rows_of("b", 2)})
    assert main(["fetch", "writing/tldr"]) == 0
    assert "in the cache already" in capsys.readouterr().out


def test_a_broken_cache_is_not_written_over(capsys):
    here = cache.write("writing/tldr", TLDR, COMMIT, {"train": rows_of("a", 2), "eval": rows_of("b", 2)})
    (here / "eval.jsonl").write_text("{}\n")
    assert main(["fetch", "writing/tldr", "--yes=true"]) == 1
    assert "Remove the folder" in capsys.readouterr().err and (here / "eval.jsonl").read_text() == "{}\n"


def test_words_that_lead_nowhere(capsys):
    for words, message in [
        (["writing/length_ratio"], "no real set to fetch"),
        (["writing/length_ratoi"], "Did you mean 'writing/length_ratio'"),
        (["writing/tldr", "--split", "evla"], "Did you mean 'eval'"),
        ([], "needs id"),
    ]:
        assert main(["fetch", *words]) == 1
        assert message in capsys.readouterr().err


def test_a_hub_out_of_reach_is_told(capsys):
    assert main(["fetch", "writing/tldr", "--yes=true"]) == 1
    assert "Nothing was fetched: the hub gave no trl-lib/tldr" in capsys.readouterr().err
    assert not cache.folder("writing/tldr").exists() and REAL_SETS["writing/tldr"] is TLDR
