# ruff: noqa: E501  (programs of one line)
import asyncio
import concurrent.futures
import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from comlrl_envs.errors import InfrastructureError, OptionError, SandboxError, TaskError
from comlrl_envs.sandbox import Job, Limits, Sandbox, bubblewrap, handle, worker
from tests.envs.sandbox.conftest import BACKENDS
from tests.envs.sandbox.processes import alive, below, descriptors, folders, soon, zombies

DOUBLE = Job("def double(x): return 2 * x", ("assert double(2) == 4", "assert double(2) == 5"), ("double",))
SLEEP = Job("import time\ndef f(): time.sleep(60)", ("f()",), ("f",), limits=Limits(idle_seconds=60.0))


def passed_in_child(sandbox: Sandbox) -> int:
    return sandbox.run(DOUBLE).passed


def test_a_verdict_says_what_passed_and_what_came_out(sandbox: Sandbox) -> None:
    verdict = sandbox.run(DOUBLE)
    assert (verdict.defined, verdict.problem, verdict.passed, verdict.total) == (True, None, 1, 2)
    assert [test.outcome for test in verdict.tests] == ["passed", "failed"]
    assert (verdict.tests[1].error, verdict.tests[1].actual) == ("AssertionError", "4")


@pytest.mark.parametrize(
    ("program", "actual"),
    [
        ("def f(x): raise ValueError('no')", None),
        ("def f(x):\n    if x: raise KeyError(3)\n    return 7", None),
        ("def f(x): return None", "None"),
    ],
)
def test_a_call_that_raises_leaves_no_value_at_hand(sandbox: Sandbox, program: str, actual: str | None) -> None:
    verdict = sandbox.run(Job(program, ("assert f(0) == 7 and f(1) == 1",), ("f",)))
    assert verdict.passed == 0 and verdict.tests[0].actual == actual


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("def f(x) return x", "SyntaxError: expected ':' (line 1)"),
        (
            "def f(x):\nreturn x",
            "IndentationError: expected an indented block after function definition on line 1 (line 2)",
        ),
        ("raise SyntaxError", "SyntaxError: invalid syntax"),
        ("raise SyntaxError('x', ('f', 'y', 0, ''))", "SyntaxError: x"),
    ],
)
def test_a_program_that_does_not_parse_says_why_and_where(sandbox: Sandbox, program: str, problem: str) -> None:
    assert sandbox.run(Job(program, ("f(1)",), ("f",))).problem == problem


def test_what_is_no_job_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(OptionError, match="A job is a str; expected Job"):
        sandbox.run("print(1)")  # type: ignore[arg-type]
    assert sandbox.run(DOUBLE).passed == 1


def test_many_jobs_come_back_in_order(sandbox: Sandbox) -> None:
    jobs = [Job(f"def f(): return {n}", (f"assert f() == {n}", f"assert f() > {n}"), ("f",)) for n in range(40)]
    assert [verdict.passed for verdict in sandbox.run_many(jobs)] == [1] * 40  # type: ignore[union-attr]
    assert sandbox.run_many([]) == []


def test_jobs_of_an_iterator_are_asked_for_while_those_before_them_run(sandbox: Sandbox) -> None:
    asked: list[float] = []

    def slow() -> Iterator[Job]:
        for n in range(6):
            asked.append(time.monotonic())
            yield Job(f"import time\ndef f(): time.sleep(0.3); return {n}", (f"assert f() == {n}",), ("f",))

    verdicts = sandbox.run_many(slow())
    assert [verdict.passed for verdict in verdicts] == [1] * 6  # type: ignore[union-attr]
    assert asked[-1] - asked[0] > 0.25


def test_what_an_iterator_of_jobs_raises_comes_through_and_spoils_nothing(sandbox: Sandbox) -> None:
    def broken() -> Iterator[Job]:
        yield DOUBLE
        raise KeyError("no more jobs")

    with pytest.raises(KeyError, match="no more jobs"):
        sandbox.run_many(broken())
    assert sandbox.run(DOUBLE).passed == 1


def test_an_iterator_of_jobs_may_not_use_its_own_sandbox(sandbox: Sandbox) -> None:
    with pytest.raises(OptionError, match="have those verdicts beforehand"):
        sandbox.run_many(DOUBLE for _ in range(2) if sandbox.run(DOUBLE))
    assert sandbox.run(DOUBLE).passed == 1


def test_a_fork_amid_a_batch_does_not_keep_its_workers() -> None:
    sandbox = Sandbox(backend="fork", workers=2, packages=("numpy",))

    def forking() -> Iterator[Job]:
        yield DOUBLE
        child = os.fork()
        if child == 0:
            time.sleep(8)
            os._exit(0)
        children.append(child)
        raise KeyError("no more jobs")

    children: list[int] = []
    sandbox.run(DOUBLE)
    started = time.monotonic()
    with pytest.raises(KeyError):
        sandbox.run_many(forking())
    assert time.monotonic() - started < 6
    os.kill(children[0], signal.SIGKILL)
    os.waitpid(children[0], 0)
    sandbox.close()


def test_an_interrupt_while_a_worker_starts_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = tmp_path / "idle"
    idle.write_text("#!/bin/sh\nexec sleep 60\n")
    idle.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "interpreter", lambda: str(idle))
    monkeypatch.setattr(worker, "CLOSE_SECONDS", 0.5)

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    before, open_before = below(), descriptors(os.getpid())
    handler = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with pytest.raises(KeyboardInterrupt):
            # More than a pipe holds, which nobody reads.
            worker.Worker(worker.Plan("", "x" * 1_000_000))
    finally:
        signal.signal(signal.SIGALRM, handler)
    assert soon(lambda: below() == before) and descriptors(os.getpid()) == open_before


def test_large_jobs_and_large_verdicts_do_not_block_each_other(sandbox: Sandbox) -> None:
    program = f"# {'x' * 300_000}\ndef f():\n    print('y' * 60000)\n    raise ValueError('z' * 1000)"
    jobs = [Job(program, ("f()",) * 400, ("f",)) for _ in range(4)]
    verdicts = sandbox.run_many(jobs)
    assert [verdict.total for verdict in verdicts] == [400] * 4  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("def f(:", "SyntaxError"),
        ("f = 1 / 0", "ZeroDivisionError"),
        ("g = 1", "NameError: the program defines no 'f'"),
        ("while True: pass", "timeout"),
        ("import time; time.sleep(9)", "timeout"),
        ("x = bytearray(10 << 30)", "memory"),
        ("import os; os._exit(3)", "died: the program ended its process with exit code 3"),
        ("raise SystemExit", "SystemExit"),
        ("f = '\ud800'\nraise ValueError(f)", ""),
        ("def f(): pass\n\0", ""),
    ],
)
def test_definitions_that_fail_say_why(sandbox: Sandbox, program: str, problem: str) -> None:
    job = Job(program, ("f()", "f()"), ("f",), limits=Limits(cpu_seconds=0.3, idle_seconds=0.3))
    verdict = sandbox.run(job)
    assert not verdict.defined
    assert verdict.problem is not None and verdict.problem.startswith(problem)
    assert [test.outcome for test in verdict.tests] == ["not_run", "not_run"]


def test_a_trusted_part_that_fails_is_nobodys_failed_test(sandbox: Sandbox) -> None:
    for job in (
        Job("def f(): pass", ("f(",), ("f",), name="row 3"),
        Job("def f(): pass", ("f()",), ("f",), setup="import no_such_module", name="row 3"),
    ):
        with pytest.raises(TaskError, match="row 3"):
            sandbox.run(job)
    assert sandbox.run(DOUBLE).passed == 1


def test_any_thread_may_use_it(sandbox: Sandbox) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        verdicts = list(threads.map(sandbox.run, [DOUBLE] * 24))
    assert {verdict.passed for verdict in verdicts} == {1}


def test_workers_outlive_the_thread_that_started_them() -> None:
    with_own = Sandbox(backend="fork", workers=1)
    first = threading.Thread(target=lambda: with_own.run(DOUBLE))
    first.start()
    first.join()
    before = below()
    assert with_own.run(DOUBLE).passed == 1
    assert before <= below()
    with_own.close()


def test_a_running_event_loop_may_use_it(sandbox: Sandbox) -> None:
    async def play() -> int:
        return sandbox.run(DOUBLE).passed

    assert asyncio.run(play()) == 1


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_another_process_has_workers_of_its_own(sandbox: Sandbox, method: str) -> None:
    assert pickle.loads(pickle.dumps(sandbox)) == sandbox
    assert sandbox.run(DOUBLE).passed == 1
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(passed_in_child, (sandbox,)) == 1
    assert sandbox.run(DOUBLE).passed == 1


def test_equal_settings_share_workers() -> None:
    one, two = Sandbox(backend="fork", workers=1), Sandbox(backend="fork", workers=1)
    assert one.run(DOUBLE) == two.run(DOUBLE)
    assert one._pool() is two._pool()
    two.close()
    two.close()
    assert one.run(DOUBLE).passed == 1
    one.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_closing_leaves_nothing_behind(backend: str, scratch_root: Path) -> None:
    before, open_before = below(), descriptors(os.getpid())
    closing = Sandbox(backend=backend, workers=3)
    closing.run_many([DOUBLE] * 6)
    assert len(below() - before) >= 9
    assert len(folders(scratch_root)) == 3
    closing.close()
    assert (below(), descriptors(os.getpid()), folders(scratch_root)) == (before, open_before, set())


OWNER = """
import os, sys, threading, time
from comlrl_envs.sandbox import Job, Limits, Sandbox
from comlrl_envs.sandbox.server import descendants
if __name__ == "__main__":
    job = Job("import time\\ndef f(): time.sleep(60)", ("f()",), ("f",), limits=Limits(idle_seconds=60.0))
    sandbox = Sandbox(backend=sys.argv[1], workers=2)
    sandbox.run_many([Job("", (), ())] * 4)
    threading.Thread(target=sandbox.run_many, args=([job] * 2,), daemon=True).start()
    time.sleep(1)
    held = os.fork() if sys.argv[2] == "forked" else 1
    if held:
        print(*descendants(os.getpid()), flush=True)
    time.sleep(60)
"""


def is_fork_of_owner(pid: int) -> bool:
    try:
        return alive(pid) and b"time.sleep(60)\n" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        # It ended in between.
        return False


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", ["alone", "forked"])
def test_a_killed_owner_takes_its_workers_along(backend: str, form: str, scratch_root: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, backend, form], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) >= 8 and len(folders(scratch_root)) == 2
    owner.kill()
    owner.wait()
    owner.stdout.close()
    # A fork of the owner is not the sandbox's, and ends by itself.
    others = [pid for pid in pids if not is_fork_of_owner(pid)]
    assert soon(lambda: not any(alive(pid) for pid in others)), [pid for pid in others if alive(pid)]
    assert soon(lambda: not folders(scratch_root))
    for pid in set(pids) - set(others):
        os.kill(pid, signal.SIGKILL)


def test_a_worker_that_is_killed_is_replaced(sandbox: Sandbox) -> None:
    sandbox.run(DOUBLE)
    before = below()
    for pid in before:
        # One that dies may take others along.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if alive(pid) and b"<worker>" in open(f"/proc/{pid}/cmdline", "rb").read():
                os.kill(pid, signal.SIGKILL)
    assert {verdict.passed for verdict in sandbox.run_many([DOUBLE] * 6)} == {1}  # type: ignore[union-attr]


def test_workers_that_keep_failing_are_an_infrastructure_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "interpreter", lambda: "/bin/false")
    with pytest.raises(InfrastructureError):
        Sandbox(backend="fork", workers=7).run(DOUBLE)
    Sandbox(backend="fork", workers=7).close()


def test_closed_while_others_wait() -> None:
    waiting = Sandbox(backend="fork", workers=1)
    errors = []
    others = len(below())

    def play() -> None:
        try:
            waiting.run(SLEEP)
        except InfrastructureError as error:
            errors.append(error)

    threads = [threading.Thread(target=play, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    # Its server and the program: closed before that, there would be nothing to break off.
    assert soon(lambda: len(below()) > others + 1)
    waiting.close()
    assert soon(lambda: len(errors) == 1)


def test_no_sandbox_on_a_platform_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "supported", lambda: False)
    with pytest.raises(SandboxError, match="never run in the caller's own process"):
        Sandbox(backend="fork", workers=5).run(DOUBLE)


def test_bwrap_can_be_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "problem", lambda: "bwrap is not installed")
    assert Sandbox().resolved_backend() == "fork"
    with pytest.raises(SandboxError, match="bwrap is not installed"):
        Sandbox(backend="bwrap").resolved_backend()
    monkeypatch.setenv("COMLRL_SANDBOX", "bwrap")
    with pytest.raises(SandboxError, match="bwrap is not installed"):
        Sandbox().resolved_backend()
    monkeypatch.setenv("COMLRL_SANDBOX", "none")
    with pytest.raises(OptionError, match="COMLRL_SANDBOX"):
        Sandbox().resolved_backend()


@pytest.mark.parametrize(
    "settings",
    [{"backend": "forks"}, {"workers": -1}, {"workers": True}, {"packages": "numpy"}, {"packages": ("nil_x",)}],
)
def test_bad_settings_are_named(settings: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(settings))):
        Sandbox(**settings)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_thousand_timeouts_leave_nothing_behind(backend: str, scratch_root: Path) -> None:
    limits = Limits(cpu_seconds=0.02, idle_seconds=0.02)
    programs = (
        "def f():\n    while True: pass",
        "import time\ndef f(): time.sleep(100)",
        "from time import *\nfrom threading import *\ndef f():\n    Thread(target=sleep, args=(9,)).start()\n    sleep(9)",
        "import os\ndef f():\n    os.makedirs('a' + '/b' * 30)\n    while True: pass",
        "import os\ndef f():\n    open('x', 'w')\n    os.chmod('.', 0)\n    while True: pass",
    )
    tired = Sandbox(backend=backend, workers=2)
    tired.run_many([DOUBLE] * 8)
    before, scratch = below(), folders(scratch_root)
    open_before = {pid: descriptors(pid) for pid in before} | {os.getpid(): descriptors(os.getpid())}
    jobs = [Job(programs[n % len(programs)], ("f()",), ("f",), limits=limits) for n in range(1000)]
    verdicts = tired.run_many(jobs)
    assert {verdict.tests[0].outcome for verdict in verdicts} == {"timeout"}  # type: ignore[union-attr]
    tired.run_many([DOUBLE] * 8)
    # The processes of the tests are renewed from time to time; all others are the same, and no more open.
    assert len(below()) <= len(before) and not zombies(below())
    assert folders(scratch_root) == scratch
    assert all(not os.path.isdir(os.path.join(folder, "job")) for folder in scratch)
    for pid in below() & before | {os.getpid()}:
        assert descriptors(pid) <= open_before[pid]
    tired.close()


BURN = "while True: pass"
NEAR_THE_LIMIT = """
import time
def f(seconds):
    start = time.process_time()
    while time.process_time() - start < seconds: pass
    return 1
"""


@pytest.mark.slow
def test_a_busy_machine_changes_no_verdict(sandbox: Sandbox) -> None:
    near = ("assert f(0.3) == 1", "assert f(3) == 1", "assert f(0.1) == 1")
    jobs = [Job(NEAR_THE_LIMIT, near, ("f",), limits=Limits(cpu_seconds=1.0, idle_seconds=0.5))] * 4
    calm = [[test.outcome for test in verdict.tests] for verdict in sandbox.run_many(jobs)]  # type: ignore[union-attr]
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(4)]
    try:
        busy = [[test.outcome for test in verdict.tests] for verdict in sandbox.run_many(jobs)]  # type: ignore[union-attr]
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert calm == busy == [["passed", "timeout", "passed"]] * 4
