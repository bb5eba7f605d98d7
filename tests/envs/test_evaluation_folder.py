"""`evaluate(out=)`: what is kept on disk, and how it goes on."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from comlrl_envs import InfrastructureError, OptionError, TaskSet, TextEnv, TextGame, make
from comlrl_envs.evaluation import evaluate, read_episodes, read_settings, summarise
from comlrl_envs.evaluation.settings import describe

from .evaluations import ENV, ROOT, Flaky, lines, row, stable
from .model_server import says, serving
from .toys import Counting


def test_the_folder_holds_config_episodes_and_summary(tmp_path):
    report = evaluate(ENV, "random", k=(1, 2), out=tmp_path / "a" / "b")
    assert report.folder == tmp_path / "a" / "b"
    assert sorted(os.listdir(report.folder)) == [".lock", "config.yaml", "episodes.jsonl", "summary.json"]
    assert json.loads((report.folder / "summary.json").read_text()) == report.to_json()
    assert yaml.safe_load((report.folder / "config.yaml").read_text()) == report.settings
    assert len(lines(report.folder)) == 60
    again = summarise(read_settings(report.folder), read_episodes(report.folder), report.folder)
    assert again == report


def test_a_finished_folder_is_only_read(tmp_path):
    policy = Flaky()
    first = evaluate(ENV, policy, out=tmp_path)
    asked = policy.asked
    assert evaluate(ENV, policy, out=tmp_path) == first
    assert policy.asked == asked


def test_good_episodes_are_kept_and_failed_ones_are_played_again(tmp_path):
    env = make(ENV, split="eval[:8]")
    policy = Flaky(env.tasks[1].fields["topic"], env.tasks[5].fields["topic"])
    first = evaluate(env, policy, out=tmp_path)
    assert len(first.failed) == 2 and len(lines(tmp_path)) == 8
    kept = {record.key: record.turns for record in first.records}
    policy.words, policy.asked = (), 0
    second = evaluate(env, policy, out=tmp_path)
    assert policy.asked == 4
    assert len(second.failed) == 0 and len(second.records) == len(lines(tmp_path)) == 8
    assert all(r.turns == kept[r.key] for r in second.records if r.key in kept)


def test_a_torn_line_is_an_episode_not_finished(tmp_path):
    whole = evaluate(ENV, "random", out=tmp_path)
    file = tmp_path / "episodes.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    assert stable(evaluate(ENV, "random", out=tmp_path)) == stable(whole)
    assert len(lines(tmp_path)) == 30


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda a: a | {"seed": 1}, "seed: 0 there, 1 here"),
        (lambda a: a | {"policies": "echo"}, "policies.summarizer: 'random' there"),
        (lambda a: a | {"protocol": "pipeline"}, "protocol"),
        (lambda a: a | {"episodes": 2}, r"tasks: 4 there, 2 here.*does not shrink.*episodes=4\)"),
        (lambda a: a | {"episodes": 4, "samples": 2}, r"tasks: 4 there, 2 here.*samples=2, episodes=8\)"),
        (lambda a: a | {"episodes": 10, "seed": 1}, r"\(seed: 0 there, 1 here\)"),
        (lambda a: a | {"env": make(ENV, split="eval", roles=True)}, "env.rules.roles"),
        (lambda a: a | {"env": make(ENV, tasks=[{"prompt": str(i)} for i in range(9)])}, "tasks_sha256"),
    ],
)
def test_a_folder_of_other_settings_is_refused_and_left_alone(tmp_path, change, named):
    arguments = {"env": ENV, "policies": "random", "episodes": 4}
    evaluate(arguments["env"], arguments["policies"], episodes=4, out=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    changed = change(arguments)
    with pytest.raises(OptionError, match=named):
        evaluate(changed.pop("env"), changed.pop("policies"), **changed, out=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_k_and_batch_size_may_change_when_a_run_goes_on(tmp_path):
    evaluate(ENV, "random", samples=4, episodes=40, out=tmp_path)
    assert set(evaluate(ENV, "random", samples=4, episodes=40, k=(1, 4), batch_size=5, out=tmp_path).pass_at_k) == {
        1,
        4,
    }


def test_a_folder_grows_by_samples_and_by_tasks_and_plays_only_what_it_lacks(tmp_path):
    policy = Flaky()
    first = evaluate(ENV, policy, episodes=10, samples=2, out=tmp_path)
    old, policy.asked = lines(tmp_path), 0
    taller = evaluate(ENV, policy, episodes=20, samples=4, k=(1, 4), out=tmp_path)
    assert policy.asked == 2 * 10 and lines(tmp_path)[:10] == old
    wider = evaluate(ENV, policy, episodes=28, samples=4, out=tmp_path)
    assert len(wider.records) == len(lines(tmp_path)) == 28 and wider.settings["tasks"] == 7
    assert {r.key for r in first.records} < {r.key for r in taller.records} < {r.key for r in wider.records}
    seeds = {r.key: r.seed for r in evaluate(ENV, "echo", samples=4, episodes=28).records}
    assert {r.key: r.seed for r in wider.records} == seeds
    stored = read_settings(tmp_path)
    assert (stored["tasks"], stored["samples"], stored["episodes"], stored["k"]) == (7, 4, 28, [1])
    assert stored == wider.settings
    assert summarise(stored, read_episodes(tmp_path), tmp_path) == wider
    with pytest.raises(OptionError, match=r"samples: 4 there, 2 here.*samples=4, episodes=28"):
        evaluate(ENV, policy, episodes=14, samples=2, out=tmp_path)


def test_growth_equals_a_run_of_that_size_and_survives_an_end_in_between(tmp_path):
    evaluate(ENV, "random", episodes=5, out=tmp_path)

    class Ends(RuntimeError):
        pass

    def end(finished, planned, failed):
        raise Ends

    with pytest.raises(Ends):
        evaluate(ENV, "random", episodes=40, samples=4, batch_size=7, out=tmp_path, progress=end)
    assert len(lines(tmp_path)) == 12
    grown = evaluate(ENV, "random", episodes=40, samples=4, out=tmp_path)
    assert stable(grown) == stable(evaluate(ENV, "random", episodes=40, samples=4))


def test_a_folder_does_not_grow_by_other_rows(tmp_path):
    rows = [{"prompt": f"row {i}"} for i in range(40)]
    evaluate(TextEnv(TextGame(Counting()), TaskSet(rows[:4])), "echo", out=tmp_path)
    others = [*rows[:3], {"prompt": "another"}, *rows[4:]]
    with pytest.raises(OptionError, match="tasks_sha256"):
        evaluate(TextEnv(TextGame(Counting()), TaskSet(others)), "echo", out=tmp_path)
    assert len(evaluate(TextEnv(TextGame(Counting()), TaskSet(rows)), "echo", out=tmp_path).records) == 40


class Dying:
    """Answers some prompts; then its server is gone until it is ``mended``."""

    def __init__(self, alive):
        self.alive, self.asked, self.mended = alive, 0, False

    def settings(self):
        return {}

    def act(self, prompts, agent, rng):
        self.asked += len(prompts)
        if self.mended or self.asked <= self.alive:
            return ["x"] * len(prompts)
        raise InfrastructureError("x", "the server is gone")


def test_a_run_whose_server_is_down_stops_and_leaves_the_rest_unplayed(tmp_path):
    policy = Dying(alive=40)
    report = evaluate(ENV, policy, batch_size=10, out=tmp_path)
    assert (len(report.records), len(report.failed), policy.asked) == (20, 10, 60)
    assert report.stopped == ""
    policy.asked = 0
    more = evaluate(ENV, policy, batch_size=10, samples=4, out=tmp_path)
    assert (len(more.records), len(more.failed), policy.asked) == (40, 10, 60)
    assert more.stopped == row(more, "stopped") == "the last 10 episodes all failed"
    assert row(more, "unplayed") == "70" and more.to_json()["failures"] == [more.failed[0].error]
    assert "the server is gone" in more.failed[0].error
    assert len(lines(tmp_path)) == 50
    policy.mended = True
    whole = evaluate(ENV, policy, batch_size=10, samples=4, out=tmp_path)
    assert (len(whole.records), len(whole.failed), whole.stopped) == (120, 0, "")


def test_small_batches_stop_after_eight_failures_in_a_row_and_not_before():
    down = Dying(alive=0)
    report = evaluate(ENV, down, batch_size=3)
    assert (len(report.failed), report.records, report.stopped) == (9, (), "the last 9 episodes all failed")
    # One that finishes among them says that the server is there.
    env = make(ENV, split="eval[:30]")
    words = [env.tasks[i].fields["topic"] for i in range(30) if i % 8 != 7]
    spread = evaluate(env, Flaky(*words), batch_size=1)
    assert (spread.stopped, len(spread.records) + len(spread.failed)) == ("", 30)


def test_damage_is_named_with_its_line(tmp_path):
    evaluate(ENV, "random", episodes=4, out=tmp_path)
    file = tmp_path / "episodes.jsonl"
    good = file.read_bytes().splitlines(keepends=True)
    for bad, named in ((b"{}\n", "line 2"), (b"nonsense\n", "line 2"), (good[0], "line 2 holds task")):
        file.write_bytes(good[0] + bad + good[2])
        with pytest.raises(OptionError, match=named):
            evaluate(ENV, "random", episodes=4, out=tmp_path)
    (tmp_path / "config.yaml").unlink()
    with pytest.raises(OptionError, match=r"without config\.yaml"):
        evaluate(ENV, "random", episodes=4, out=tmp_path)
    with pytest.raises(OptionError, match="out="):
        evaluate(ENV, "random", episodes=4, out=file)


def test_one_writer_a_folder(tmp_path):
    started, go = threading.Event(), threading.Event()

    class Waits:
        def act(self, prompts, agent, rng):
            started.set()
            assert go.wait(60)
            return ["x"] * len(prompts)

    thread = threading.Thread(target=evaluate, args=(ENV, Waits()), kwargs={"out": tmp_path})
    thread.start()
    try:
        assert started.wait(60)
        with pytest.raises(OptionError, match="of this process"):
            evaluate(ENV, Waits(), out=tmp_path)
        code = f"from comlrl_envs.evaluation import evaluate; evaluate({ENV!r}, 'echo', out={str(tmp_path)!r})"
        other = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert "Another process writes" in other.stderr
    finally:
        go.set()
        thread.join(60)
    assert len(lines(tmp_path)) == 30
    evaluate(ENV, Waits(), out=tmp_path)


def test_settings_are_described_without_addresses():
    class Thing:
        pass

    described = describe(
        {"f": str.upper, "c": Thing, "o": Thing(), "rows": [{"a": i} for i in range(30)], "p": Path("x")}
    )
    assert "0x" not in repr(described)
    assert described["rows"]["length"] == 30 and described["p"] == "x"
    assert describe([{"a": 1}]) == [{"a": 1}]
    yaml.safe_dump(described)


def killed(arguments, folder, after):
    """Start the command, kill it by SIGKILL once ``after`` lines are there; returns how many there are."""
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    file = folder / "episodes.jsonl"
    limit = time.monotonic() + 120
    while time.monotonic() < limit and process.poll() is None:
        if file.exists() and file.read_bytes().count(b"\n") >= after:
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.mark.slow
def test_killed_at_any_moment_no_episode_is_lost_or_doubled(tmp_path):
    code = (
        "from comlrl_envs.evaluation import evaluate\n"
        f"evaluate({ENV!r}, 'random', samples=40, batch_size=3, out={str(tmp_path)!r})"
    )
    seen = [0]
    for after in (0, 1, 200, 400, 700):
        seen.append(killed([sys.executable, "-c", code], tmp_path, after))
        good = read_episodes(tmp_path) if (tmp_path / "config.yaml").exists() else []
        assert len({record.key for record in good}) == len(good)
        assert seen[-1] >= seen[-2]
    assert 700 <= seen[-1] < 1200
    again = evaluate(ENV, "random", samples=40, batch_size=3, out=tmp_path)
    assert len(again.records) == len(lines(tmp_path)) == 1200
    assert stable(again) == stable(evaluate(ENV, "random", samples=40))


@pytest.mark.slow
def test_a_client_killed_half_way_goes_on_with_32_requests_in_flight(tmp_path, monkeypatch):
    pytest.importorskip("openai")
    key = "sk-canary-resume"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(says("abc", seconds=0.2)) as server:
        command = [
            sys.executable, "-m", "comlrl_envs", "eval", ENV, "--policies", f"openai:stub?base_url={server.url}",
            "--samples", "8", "--out", str(tmp_path / "run"),
        ]  # fmt: skip
        done = killed(command, tmp_path / "run", 64)
        assert 64 <= done < 240
        assert server.most_flying == 32
        before = {r.key: r for r in read_episodes(tmp_path / "run")}
        asked = len(server.bodies)
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr
        after = {r.key: r for r in read_episodes(tmp_path / "run")}
        # Only what was not finished was asked for again, two requests an episode.
        assert len(server.bodies) - asked == 2 * (240 - done)
    assert len(after) == len(lines(tmp_path / "run")) == 240
    assert all(after[name] == record for name, record in before.items())
    texts = [ran.stdout, ran.stderr, *(p.read_text(encoding="utf-8") for p in (tmp_path / "run").iterdir())]
    assert not [text for text in texts if key in text]
    assert "tokens" in ran.stdout


def test_a_refused_key_stops_the_run_and_keeps_what_is_finished(tmp_path, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-credit")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def rule(handler, body, number):
        if number < 20:
            says("abc")(handler, body, number)
        else:
            handler.send({"error": {"message": "no credit for sk-canary-credit"}}, 402)

    with serving(rule) as server:
        with pytest.raises(OptionError, match="credit") as caught:
            evaluate(ENV, f"openai:stub?base_url={server.url}", out=tmp_path, batch_size=5)
        assert len(server.bodies) < 32
        assert "canary" not in str(caught.value)
        assert len(lines(tmp_path)) == 10
        server.rule = says("abc")
        report = evaluate(ENV, f"openai:stub?base_url={server.url}&timeout=9", out=tmp_path, batch_size=5)
    assert len(report.records) == 30 and report.completion_tokens == 6
    assert report.settings["policies"]["summarizer"]["base_url"] == server.url
    assert report.settings["policies"]["summarizer"]["key_variable"] == "OPENAI_API_KEY"


def test_garbage_time_outs_and_resets_are_failures_with_their_reasons(tmp_path, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-garbage")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def rule(handler, body, number):
        topic = body["messages"][0]["content"]
        if topic == f"Write about {topics[0]}.":
            handler.send("<html>sk-canary-garbage")
        elif topic == f"Write about {topics[1]}.":
            time.sleep(1.0)
            handler.send("late")
        elif topic == f"Write about {topics[2]}.":
            handler.hang_up()
        else:
            says("")(handler, body, number)

    env = make(ENV, split="eval[:5]")
    topics = [env.tasks[i].fields["topic"] for i in range(3)]
    with serving(rule) as server:
        policy = f"openai:stub?base_url={server.url}&timeout=0.5&max_retries=0"
        report = evaluate(env, policy, out=tmp_path)
    reasons = {record.task: record.error for record in report.failed}
    assert len(report.records) == 2 and report.reward.mean == 0.0
    assert [any(word in reasons[env.tasks[i].id] for word in words) for i, words in enumerate(
        [("no JSON",), ("time-out",), ("no connection", "broke off")]
    )] == [True] * 3  # fmt: skip
    assert "canary" not in (tmp_path / "episodes.jsonl").read_text()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_keep_the_folder(tmp_path):
    children = []

    class Forks:
        def act(self, prompts, agent, rng):
            child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(20,), daemon=True)
            child.start()
            children.append(child)
            return ["x"] * len(prompts)

    code = (
        "import sys, pathlib\n"
        "from comlrl_envs.evaluation.results import ResultsFolder, read_settings\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "with ResultsFolder(path, read_settings(path)) as folder:\n"
        "    print(len(folder.records))\n"
    )
    try:
        evaluate(ENV, Forks(), out=tmp_path)
        assert any(child.is_alive() for child in children)
        command = [sys.executable, "-c", code, str(tmp_path)]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert ran.stdout.strip() == "30", ran.stderr
    finally:
        for child in children:
            child.kill()
