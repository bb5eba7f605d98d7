import gzip
import json
import logging
import shutil
import socket
import subprocess
import sys
import threading
import time

import pytest

import comlrl_envs
from comlrl_envs import OptionError, TaskError
from comlrl_envs.sources import REAL_SETS, DataFile, RealSet, cache, loader
from comlrl_envs.sources.patience import gathered
from comlrl_envs.sources.qa_sets import QA_SETS
from comlrl_envs.sources.tool_sets import TOOL_SETS

from .hub import environ, parquet, running

TLDR = REAL_SETS["writing/tldr"]
COMMIT = TLDR.revision
DEMO = {"train": [{"prompt": "demo"}], "eval": [{"prompt": "demo eval"}]}


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch, request):
    """A cache of the test's own, and no data folder of the machine's but where a test asks for it."""
    if "data_dir" in request.fixturenames:
        request.getfixturevalue("data_dir")
    monkeypatch.setenv("COMLRL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("COMLRL_DATA_DIR", raising=False)


def load(name="writing/tldr", split="train", source="auto", data_dir=None, real=None):
    return loader(name, DEMO.__getitem__, real)(split, source, data_dir)


def rows_of(tag, count):
    return [{"prompt": f"{tag} {i}\u2028", "completion": "c"} for i in range(count)]


def write_jsonl(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def tldr_files():
    return {
        "README.md": b"---\nlicense: cc-by-4.0\n---\n",
        "data/train-00000-of-00001.parquet": parquet(rows_of("train", 1200)),
        "data/test-00000-of-00001.parquet": parquet(rows_of("test", 1100)),
    }


def arxiv_files(tag):
    lines = [json.dumps({"article_id": f"{tag}{i}", "abstract_text": f"{tag} {i}"}) for i in range(5)]
    data = ("\n".join(lines) + "\n").encode()
    return {f"data/{split}-00000-of-00001.jsonl": data for split in ("train", "val")}


LOAD = """
import json, logging, sys
from comlrl_envs.errors import ComlrlError
from comlrl_envs.sources import loader
logging.basicConfig(level=logging.INFO)
name, split, source = sys.argv[1:]
try:
    tasks = loader(name, lambda split: [])(split, source, None)
    first, last = tasks[0], tasks[-1]
    print(json.dumps([len(tasks), tasks.origin, first.id, dict(first.fields), last.id, dict(last.fields)]))
except ComlrlError as error:
    print(json.dumps(f"{type(error).__name__}: {error}"))
"""


def load_elsewhere(environment, tmp_path, name="writing/tldr", split="train", source="auto"):
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-c", LOAD, name, split, source],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout), ran.stderr, time.monotonic() - began


def test_the_table_is_pinned_and_says_what_it_holds():
    coding = {f"coding/{name}" for name in ("humaneval", "coop_humaneval", "mbpp", "classeval")}
    assert set(REAL_SETS) == {"writing/tldr", "writing/arxiv", *coding, *QA_SETS, *TOOL_SETS}
    assert TLDR.part("train") == ("train", slice(None, 1000)) and TLDR.part("eval") == ("test", slice(None, 1000))
    assert REAL_SETS["writing/arxiv"].part("eval")[0] == "val"
    for real in REAL_SETS.values():
        assert real.licence and real.size and (real.revision or real.wheel or "No commit is pinned" in real.remark)
        assert not real.excluded or real.id_field is not None
        assert {*real.files} == {"train", "eval"}
    published = {"train": "train[:5]", "eval": "test[:5]"}
    with pytest.raises(OptionError, match="40 hex"):
        RealSet("a/b", "main", "MIT", "small", published)
    with pytest.raises(OptionError, match="slices"):
        RealSet("a/b", None, "MIT", "small", {"train": "train[:5]"})


def test_a_data_folder_comes_first_and_is_cut_to_the_published_slice(tmp_path, monkeypatch, caplog):
    write_jsonl(tmp_path / "data/tldr/train.jsonl", rows_of("mine", 1500))
    with caplog.at_level(logging.INFO, "comlrl_envs"):
        tasks = load(data_dir=str(tmp_path / "data"))
    assert len(tasks) == 1000 and tasks[-1].fields["prompt"] == "mine 999\u2028"
    assert tasks.origin == f"local {tmp_path / 'data/tldr/train.jsonl'}"
    assert f"writing/tldr, train: 1000 rows, {tasks.origin}" in caplog.text
    monkeypatch.setenv("COMLRL_DATA_DIR", str(tmp_path / "data"))
    assert load().origin == load(source="local").origin == tasks.origin
    with pytest.raises(OptionError, match=r"tldr/eval.jsonl or tldr/tldr_200.jsonl.*Ways out"):
        load(split="eval", source="local")


def test_stand_ins_are_named_and_speak_the_set_s_language(tmp_path):
    write_jsonl(tmp_path / "tldr/tldr_200.jsonl", rows_of("few", 3))
    assert load(split="eval", data_dir=str(tmp_path)).origin.endswith("tldr_200.jsonl (stand-in)")
    write_jsonl(tmp_path / "tldr/eval.jsonl", rows_of("all", 3))
    assert load(split="eval", data_dir=str(tmp_path)).origin.endswith("eval.jsonl")
    write_jsonl(tmp_path / "scitldr/dev.jsonl", [{"source": ["One.", "Two."], "title": "t"}])
    fields = load("writing/arxiv", "eval", data_dir=str(tmp_path))[0].fields
    assert fields["abstract_text"] == ["One.", "Two."] and fields["title"] == "t"


def test_folders_that_are_none_and_files_that_are_broken(tmp_path, caplog):
    with pytest.raises(OptionError, match=r"data_dir='.*nowhere' is no folder"):
        load(data_dir=str(tmp_path / "nowhere"))
    (tmp_path / "tldr").mkdir()
    (tmp_path / "tldr/train.jsonl").write_text('{"prompt": "a"}\nnot json\n')
    with pytest.raises(TaskError, match="line 2 is not JSON"):
        load(data_dir=str(tmp_path))
    (tmp_path / "tldr/train.jsonl").write_text("")
    with pytest.raises(TaskError, match="no rows"):
        load(data_dir=str(tmp_path))
    with pytest.raises(OptionError, match="No rows"):
        load("writing/arxiv", data_dir=str(tmp_path))
    assert "arxiv/train.jsonl" in caplog.text


@pytest.mark.needs_data("tldr/tldr_200.jsonl", "scitldr/dev.jsonl")
def test_real_stand_ins(data_dir):
    posts = load(split="eval", data_dir=str(data_dir))
    abstracts = load("writing/arxiv", "eval", data_dir=str(data_dir))
    assert len(posts) == 200 and len(abstracts) == 619
    assert all(post.fields["prompt"].startswith("SUBREDDIT") for post in posts)
    assert all(isinstance(paper.fields["abstract_text"], list) for paper in abstracts)


@pytest.mark.parametrize("packed", [False, True])
def test_an_installed_package_may_carry_the_rows(tmp_path, monkeypatch, packed):
    package = tmp_path / "site" / f"carrier{packed}"
    write_jsonl(package / "rows.jsonl", rows_of("carried", 8))
    (package / "__init__.py").write_text("raise RuntimeError('not to be imported')")
    if packed:
        (package / "rows.jsonl.gz").write_bytes(gzip.compress((package / "rows.jsonl").read_bytes()))
    monkeypatch.syspath_prepend(tmp_path / "site")
    file = DataFile("rows.jsonl.gz" if packed else "rows.jsonl", fields={"text": "prompt"})
    published = {"train": "train[2:5]", "eval": "test[:]"}
    real = RealSet("a/b", None, "MIT", "small", published, package=package.name, package_files={"train": file})
    tasks = load(real=real)
    assert [task.fields["text"] for task in tasks] == [f"carried {i}\u2028" for i in (2, 3, 4)]
    assert tasks.origin == f"package {package.name} ({file.path})" == load(source="package", real=real).origin
    with pytest.raises(OptionError, match="no package carries"):
        load(split="eval", source="package", real=real)


def test_sources_are_spelt_and_ids_without_a_real_set_have_the_demo_set(caplog):
    with pytest.raises(OptionError, match=r"source='hbu'.*'local'.*Did you mean 'hub'"):
        load(source="hbu")
    with pytest.raises(OptionError, match="has 'auto', 'demo'"):
        load("writing/length_ratio", source="hub")
    assert load("writing/length_ratio").origin == load(source="demo").origin == "demo set"
    load("writing/length_ratio", data_dir="somewhere")
    assert "not looked into" in caplog.text


def test_without_network_and_data_the_ways_out_are_named_at_once():
    began = time.monotonic()
    for source in ("auto", "hub", "cache"):
        with pytest.raises(OptionError) as caught:
            load(source=source)
        for way in ("source='demo'", "comlrl-envs fetch writing/tldr", "COMLRL_DATA_DIR", "COMLRL_CACHE_DIR", "tasks="):
            assert way in str(caught.value)
    assert time.monotonic() - began < 20


def test_the_cache_gives_back_what_was_written(tmp_path):
    here = cache.write("writing/tldr", TLDR, COMMIT, {"train": rows_of("kept", 3)})
    assert here == tmp_path / "cache/writing/tldr"
    tasks = load()
    assert [task.fields["prompt"] for task in tasks] == [f"kept {i}\u2028" for i in range(3)]
    assert tasks.origin == load(source="cache").origin == f"cache trl-lib/tldr@{COMMIT}"
    cache.write("writing/tldr", TLDR, COMMIT, {"eval": rows_of("other", 2)})
    assert len(load()) == 3 and len(load(split="eval")) == 2
    record = json.loads((here / "provenance.json").read_text())
    assert record["repo"] == "trl-lib/tldr" and record["commit"] == COMMIT and record["licence"].startswith("CC BY 4.0")
    assert record["files"]["train.jsonl"]["rows"] == 3 and len(record["files"]["eval.jsonl"]["sha256"]) == 64
    assert sorted(path.name for path in here.iterdir()) == ["eval.jsonl", "provenance.json", "train.jsonl"]


def test_a_cache_of_another_commit_is_not_played_and_a_new_one_replaces_it():
    cache.write("writing/tldr", TLDR, "0" * 40, {"train": rows_of("old", 3), "eval": rows_of("old", 3)})
    with pytest.raises(OptionError, match=f"is of trl-lib/tldr@{'0' * 40}"):
        load(source="cache")
    cache.write("writing/tldr", TLDR, COMMIT, {"train": rows_of("new", 3)})
    assert load()[0].fields["prompt"].startswith("new")
    with pytest.raises(OptionError, match="has no test"):
        load(split="eval", source="cache")


@pytest.mark.parametrize(
    "name, text", [("train.jsonl", '{"prompt": "forged"}\n'), ("provenance.json", "{"), ("provenance.json", "[]")]
)
def test_a_broken_cache_is_refused(name, text):
    here = cache.write("writing/tldr", TLDR, COMMIT, {"train": rows_of("kept", 3)})
    (here / name).write_text(text)
    with pytest.raises(TaskError, match=f"(?s){name}.*Remove the folder"):
        load()


def test_the_hub_is_read_at_the_pinned_commit_and_kept(tmp_path, tldr_files):
    with running({"trl-lib/tldr": (COMMIT, tldr_files)}) as hub:
        environment = environ(hub.url, tmp_path)
        got, log, _ = load_elsewhere(environment, tmp_path)
        assert got == [
            1000,
            f"hub trl-lib/tldr@{COMMIT}",
            "0",
            rows_of("train", 1)[0],
            "999",
            rows_of("train", 1000)[-1],
        ]
        assert "INFO:comlrl_envs:writing/tldr, train: 1000 rows, hub trl-lib/tldr" in log
        assert all(COMMIT in seen for seen in hub.seen if "/resolve/" in seen)
    again = load()
    assert again.origin == f"cache trl-lib/tldr@{COMMIT}" and dict(again[-1].fields) == got[-1]


@pytest.mark.slow
def test_splits_are_fetched_one_by_one_and_the_cache_asks_no_hub(tmp_path, tldr_files):
    with running({"trl-lib/tldr": (COMMIT, tldr_files)}) as hub:
        environment = environ(hub.url, tmp_path)
        load_elsewhere(environment, tmp_path)
        hub.seen.clear()
        assert load_elsewhere(environment, tmp_path)[0][1].startswith("cache") and hub.seen == []
        assert load_elsewhere(environment, tmp_path, split="eval", source="hub")[0][3] == rows_of("test", 1)[0]
        assert hub.seen != []
    assert load(split="eval").origin == load().origin == f"cache trl-lib/tldr@{COMMIT}"


def test_a_hub_without_the_pinned_commit_is_refused(tmp_path, tldr_files):
    with running({"trl-lib/tldr": ("f" * 40, tldr_files)}) as hub:
        got, _, _ = load_elsewhere(environ(hub.url, tmp_path), tmp_path)
    assert "RevisionNotFound" in got and "Ways out" in got


@pytest.mark.slow
def test_the_first_commit_of_an_unpinned_set_is_kept_to(tmp_path):
    name = "writing/arxiv"
    with running({"OpenMLRL/arXiv_abstract": ("a" * 40, arxiv_files("old"))}) as hub:
        environment = environ(hub.url, tmp_path)
        got, _, _ = load_elsewhere(environment, tmp_path, name)
        assert got[:2] == [5, f"hub OpenMLRL/arXiv_abstract@{'a' * 40}"]
        hub.repos["OpenMLRL/arXiv_abstract"] = ("b" * 40, arxiv_files("new"))
        assert load_elsewhere(environment, tmp_path, name)[0][1].startswith("cache")
        for split, source in (("train", "hub"), ("eval", "auto")):
            got, _, _ = load_elsewhere(environment, tmp_path, name, split, source)
            assert "b" * 40 in got and "a" * 40 in got and "remove the folder" in got
        for path in (tmp_path / "cache/writing/arxiv").iterdir():
            path.unlink()
        assert load_elsewhere(environment, tmp_path, name)[0][1].endswith("b" * 40)


@pytest.mark.parametrize("fault", ["404", "500", "refused", "offline"])
def test_a_hub_out_of_reach_fails_in_seconds(tmp_path, tldr_files, fault):
    repo = "someone/else" if fault == "404" else "trl-lib/tldr"
    with running({repo: (COMMIT, tldr_files)}) as hub:
        hub.fault = fault if fault == "500" else ""
        url = hub.url
        if fault == "refused":
            with socket.create_server(("127.0.0.1", 0)) as unused:
                url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        more = {"HF_HUB_OFFLINE": "1"} if fault == "offline" else {}
        got, _, seconds = load_elsewhere(environ(url, tmp_path, **more), tmp_path)
        assert got.startswith("OptionError: No rows of writing/tldr") and "the hub gave no trl-lib/tldr" in got
        assert seconds < 15
        if fault == "offline":
            assert hub.seen == []
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["cut", "gone"])
def test_a_server_that_dies_is_given_up_and_leaves_no_half_file(tmp_path, tldr_files, fault):
    with running({"trl-lib/tldr": (COMMIT, tldr_files)}) as hub:
        hub.fault = fault
        got, _, seconds = load_elsewhere(environ(hub.url, tmp_path), tmp_path)
        assert "the hub gave no trl-lib/tldr" in got and seconds < 60
        assert not (tmp_path / "cache").exists()
        hub.fault, hub.died = "", False
        assert load_elsewhere(environ(hub.url, tmp_path), tmp_path)[0][0] == 1000


def test_a_folder_of_the_set_s_name_is_not_taken_for_it(tmp_path, tldr_files):
    write_jsonl(tmp_path / "trl-lib/tldr/train.jsonl", rows_of("mine", 3))
    with running({"trl-lib/tldr": (COMMIT, tldr_files)}) as hub:
        got, _, _ = load_elsewhere(environ(hub.url, tmp_path), tmp_path)
    assert "working directory has a folder" in got


def test_a_cache_that_cannot_be_written_is_no_loss(tmp_path, tldr_files):
    (tmp_path / "cache").write_text("a file")
    with running({"trl-lib/tldr": (COMMIT, tldr_files)}) as hub:
        got, log, _ = load_elsewhere(environ(hub.url, tmp_path), tmp_path, source="hub")
    assert got[0] == 1000 and "was not kept" in log


def make_or_skip(name, **kwargs):
    if not any(id.startswith(name) for id in comlrl_envs.list_envs()):
        pytest.skip(f"{name} is not registered")
    return comlrl_envs.make(name, **kwargs)


@pytest.mark.parametrize("name", [name for name in sorted(REAL_SETS) if name.startswith("writing/")])
def test_environments_play_the_rows_of_their_source(tmp_path, name):
    for split in ("train", "eval"):
        assert make_or_skip(name, split=split, source="demo").tasks.origin == "demo set"
    with pytest.raises(OptionError, match="Ways out"):
        comlrl_envs.make(name)
    file = REAL_SETS[name].files["train"][0].path
    text = "The study of bees shows that they dance to tell each other where flowers stand. " * 12
    write_jsonl(tmp_path / file, [{"prompt": f"{i} {text}", "abstract_text": f"{i} {text}"} for i in range(30)])
    env = comlrl_envs.make(name, data_dir=str(tmp_path), split="train[5:25]")
    assert env.tasks.origin.startswith("local") and len(env.tasks) == 20 and env.tasks[0].id == "5"
    observations, _ = env.reset(seed=0, options={"task": "7"})
    assert all("7 The study of bees" in text for text in observations.values())


@pytest.mark.slow
@pytest.mark.parametrize("where", ["drip", "drip data"])
def test_a_hub_that_drips_its_body_is_given_up(tmp_path, tldr_files, where):
    code = "from comlrl_envs.sources import hub\nhub.ANSWER, hub.STALL = 3.0, 5.0\n" + LOAD
    with running({"trl-lib/tldr": (COMMIT, tldr_files)}) as hub:
        hub.fault = where
        began = time.monotonic()
        ran = subprocess.run(
            [sys.executable, "-c", code, "writing/tldr", "train", "auto"],
            env=environ(hub.url, tmp_path),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stderr
        got = json.loads(ran.stdout)
        assert "the hub gave no trl-lib/tldr (TimeoutError" in got and "Ways out" in got
        assert time.monotonic() - began < 60
    assert not (tmp_path / "cache").exists()


def test_rows_that_keep_coming_are_waited_for_but_not_for_ever():
    def rows(count, pause):
        for number in range(count):
            time.sleep(pause)
            yield number

    assert gathered(lambda: rows(5, 0.1), 5.0, 30.0, "rows") == [0, 1, 2, 3, 4]
    assert gathered(list, 5.0, 30.0, "rows") == []
    with pytest.raises(TimeoutError, match=r"0.6 s were not enough"):
        gathered(lambda: rows(100, 0.1), 0.5, 0.6, "rows")
    with pytest.raises(TimeoutError, match=r"nothing came for 0.2 s \(rows\)"):
        gathered(lambda: rows(2, 1.0), 0.2, 30.0, "rows")
    with pytest.raises(ZeroDivisionError):
        gathered(lambda: (1 // n for n in (1, 0)), 5.0, 30.0, "rows")


WRITE = """
import sys
from comlrl_envs.sources import REAL_SETS, cache
real = REAL_SETS["writing/tldr"]
cache.write("writing/tldr", real, real.revision, {sys.argv[1]: [{"prompt": sys.argv[1]}] * 50})
"""


def test_writers_at_once_lose_no_split():
    for _ in range(25):
        writers = [
            threading.Thread(target=cache.write, args=("writing/tldr", TLDR, COMMIT, {split: rows_of(split, 3)}))
            for split in ("train", "eval", "train", "eval")
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        here = cache.folder("writing/tldr")
        assert set(cache.read_record(here)["files"]) == {"train.jsonl", "eval.jsonl"}
        assert len(load()) == len(load(split="eval")) == 3
        shutil.rmtree(here)
    processes = [subprocess.Popen([sys.executable, "-c", WRITE, split]) for split in ("train", "eval")]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert len(load()) == len(load(split="eval")) == 50


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"train.jsonl": "x"}},
        {"files": {"train.jsonl": {}}},
        {"files": {"train.jsonl": {"slice": "train[:1000]"}}},
        {"files": {"train.jsonl": {"slice": 5, "sha256": "0"}}},
        {"files": []},
        {"repo": None},
        {"commit": ["a"]},
    ],
)
def test_a_record_with_other_entries_is_refused(change):
    here = cache.write("writing/tldr", TLDR, COMMIT, {"train": rows_of("kept", 3)})
    record = json.loads((here / "provenance.json").read_text())
    (here / "provenance.json").write_text(json.dumps({**record, **change}))
    with pytest.raises(TaskError, match=r"(?s)provenance.json.*Remove the folder"):
        load()


def test_deeply_nested_files_are_refused(tmp_path):
    here = cache.write("writing/tldr", TLDR, COMMIT, {"train": rows_of("kept", 3)})
    (here / "provenance.json").write_bytes(b"[" * 200_000)
    with pytest.raises(TaskError, match=r"(?s)provenance.json.*Remove the folder"):
        load()
    (tmp_path / "tldr").mkdir()
    (tmp_path / "tldr/train.jsonl").write_bytes(b"[" * 200_000)
    with pytest.raises(TaskError, match=r"train.jsonl.*(RecursionError|not JSON|nested)"):
        load(data_dir=str(tmp_path))


@pytest.mark.parametrize(
    "data", [b"no gzip", gzip.compress(b"{}\n" * 50, mtime=0)[:-12], gzip.compress(b"[" * 200_000)]
)
def test_a_broken_file_of_a_package_is_named(tmp_path, monkeypatch, data):
    package = tmp_path / "site" / f"broken{len(data)}"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "rows.jsonl.gz").write_bytes(data)
    monkeypatch.syspath_prepend(tmp_path / "site")
    files = {"train": DataFile("rows.jsonl.gz")}
    published = {"train": "train[:]", "eval": "test[:]"}
    real = RealSet("a/b", None, "MIT", "small", published, package=package.name, package_files=files)
    with pytest.raises(TaskError, match=r"rows.jsonl.gz cannot be read"):
        load(real=real)


def test_homes_of_nobody_are_named(monkeypatch):
    with pytest.raises(OptionError, match="is no folder"):
        load(data_dir="~nobody-of-this-name/x")
    monkeypatch.setenv("COMLRL_CACHE_DIR", "~nobody-of-this-name/x")
    with pytest.raises(OptionError, match="COMLRL_CACHE_DIR"):
        load()
