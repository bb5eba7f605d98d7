import logging
import os
import signal
import site
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from comlrl_envs.errors import InfrastructureError, OptionError
from comlrl_envs.sandbox import Job, Limits, Sandbox, bubblewrap, handle, jobs
from comlrl_envs.sandbox.jobs import Verdict
from comlrl_envs.sandbox.protection import MATRIX, table
from tests.envs.sandbox.attacks import ATTACKS, OUTLIVING, Attack
from tests.envs.sandbox.conftest import BACKENDS, Unfiltered
from tests.envs.sandbox.processes import folders, soon

THREATS = {threat.name: threat for threat in MATRIX}
HONEST = Job("def f(): return 4", ("assert f() == 4",), ("f",))


def processes_left() -> list[int]:
    """Processes that bear the name that an attack of this process gives to those it leaves behind."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{pid}/comm").read_text() == f"left-{os.getpid()}\n":
                found.append(int(pid))
        except OSError:
            continue
    return found


@dataclass
class Surroundings:
    """What an attack may find outside the sandbox."""

    folder: Path
    victim: subprocess.Popen[bytes]
    letters: tuple[socket.socket, ...]
    port: int

    def filled(self, program: str) -> str:
        known: dict[str, object] = {"pid": os.getpid(), "victim": self.victim.pid, "port": self.port}
        known |= {name: str(self.folder / name) for name in ("outside", "secret", "listener")}
        for name, value in known.items():
            program = program.replace(f"{{{name}!r}}", repr(value)).replace(f"{{{name}}}", str(value))
        return program

    def traces(self) -> set[str]:
        """What attacks have left here."""
        seen: dict[str, Callable[[], object]] = {
            "outside": (self.folder / "outside").exists,
            "victim": self._victim_ended,
            "letter": lambda: any(map(_received, self.letters)),
            "process": processes_left,
        }
        return {name for name, look in seen.items() if look()}

    def _victim_ended(self) -> bool:
        with open(f"/proc/{self.victim.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"


def _received(letters: socket.socket) -> bool:
    try:
        return bool(letters.recv(10, socket.MSG_PEEK))
    except BlockingIOError:
        return False


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    (tmp_path / "secret").write_text("x")
    tmp_path.chmod(0o755)
    monkeypatch.setenv("COMLRL_TEST_SECRET", "x")
    letters = tuple(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) for _ in range(2))
    with socket.create_server(("127.0.0.1", 0)) as server, letters[0], letters[1]:
        letters[0].bind(str(tmp_path / "listener"))
        letters[1].bind(f"\0left-{os.getpid()}")
        with subprocess.Popen(["sleep", "600"]) as victim:
            yield Surroundings(tmp_path, victim, letters, server.getsockname()[1])
            victim.kill()


@pytest.fixture(scope="module", params=[*BACKENDS, "unfiltered"])
def protection(request: pytest.FixtureRequest) -> Iterator[Sandbox | Unfiltered]:
    """What a column of the matrix is about."""
    made = Unfiltered() if request.param == "unfiltered" else Sandbox(backend=request.param, workers=2)
    yield made
    made.close()


def judged(protection: Sandbox | Unfiltered, job: Job) -> Verdict | None:
    """None if the program ended what was to contain it."""
    try:
        return protection.run(job)
    except InfrastructureError:
        return None


@pytest.mark.parametrize("name", ATTACKS)
def test_what_the_matrix_says_is_so(protection: Sandbox | Unfiltered, name: str, surroundings: Surroundings) -> None:
    attack = ATTACKS[name]
    unfiltered = isinstance(protection, Unfiltered)
    if unfiltered and name == "fork_bomb":
        pytest.skip("it would take all processes of the machine; others show that forks are not stopped")
    verdict = judged(protection, Job(surroundings.filled(attack.program), (attack.test,), ("f",), limits=attack.limits))
    stopped = getattr(THREATS[attack.threat], protection.backend) or (unfiltered and attack.held)
    assert (verdict is not None and verdict.passed == 0) == stopped, verdict
    expected = {attack.trace} if attack.trace and not stopped else set()
    # A process that was sent a signal ends a moment after the verdict.
    assert soon(lambda: surroundings.traces() >= expected, 5.0), (surroundings.traces(), expected)
    assert surroundings.traces() == expected
    if verdict is not None:
        _check_verdict(verdict, attack)
    # Whatever happened, the next program is judged as if nothing had been.
    assert protection.run(HONEST).passed == 1


def _check_verdict(verdict: Verdict, attack: Attack) -> None:
    # Who breaks the built-in functions of its own process may not even get to its tests.
    assert verdict.defined or attack.threat == "patch", verdict.problem
    if attack.outcome:
        assert verdict.tests[0].outcome == attack.outcome, verdict
    assert len(verdict.output) <= attack.limits.output_bytes


def test_every_threat_of_the_matrix_is_tried() -> None:
    assert {attack.threat for attack in ATTACKS.values()} == set(THREATS)
    without = {attack.threat for name, attack in ATTACKS.items() if not attack.held and name != "fork_bomb"}
    assert without == set(THREATS)


def test_workers_without_a_filter_have_none() -> None:
    with_none = Unfiltered()
    assert with_none.run(
        Job("import os\ndef f(): return os.kill(os.getpid(), 0)", ("assert f() is None",), ("f",))
    ).passed
    with_none.close()


def test_the_documentation_holds_the_matrix() -> None:
    page = Path(__file__).parents[3] / "docs" / "sandbox.md"
    assert table() in page.read_text(encoding="utf-8")


KILLED_OWNER = """
import sys
from comlrl_envs.sandbox import Job, Limits, Sandbox
Sandbox(backend=sys.argv[1], workers=1).run(Job(sys.argv[2], ("f()",), ("f",), limits=Limits(idle_seconds=60.0)))
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_program_that_does_not_want_to_end_with_its_parent_ends(backend: str, scratch_root: Path) -> None:
    program = OUTLIVING.replace("{pid}", str(os.getpid()))
    with subprocess.Popen([sys.executable, "-B", "-c", KILLED_OWNER, backend, program]) as owner:
        assert soon(lambda: bool(processes_left()))
        owner.kill()
    try:
        assert soon(lambda: not processes_left(), 5.0)
    finally:
        for pid in processes_left():
            os.kill(pid, signal.SIGKILL)
    # The caretaker removes it last.
    assert soon(lambda: not folders(scratch_root))


ASYNCHRONOUS = """
import asyncio, time
async def part(n):
    await asyncio.sleep(0.01)
    return n + await asyncio.get_running_loop().run_in_executor(None, lambda: n)
async def whole(n):
    return sum(await asyncio.gather(*map(part, range(n))))
def f(n): return asyncio.run(whole(n))
"""


def test_an_event_loop_with_threads_works(protection: Sandbox | Unfiltered) -> None:
    verdict = protection.run(Job(ASYNCHRONOUS, ("assert f(3) == 6",), ("f",)))
    assert verdict.passed == 1, verdict


FILL = """
import os
def f(place):
    written = 0
    try:
        while written < 100:
            with open(f'{place}/{written}', 'wb') as file: file.write(b'x' * 1_000_000)
            written += 1
    except OSError as error:
        return written, error.strerror
    return written, 'no end'
"""


@pytest.mark.skipif(bubblewrap.problem() is not None, reason="bwrap does not work here")
def test_memory_that_counts_as_files_has_a_limit_inside_bwrap() -> None:
    full, closed = "No space left on device", "Read-only file system"
    small = bubblewrap._takes_sizes()
    tests = [
        f"assert f({place!r}) == ({16 if small else 100}, {full if small else 'no end'!r})"
        for place in ("/tmp", "/dev/shm")
    ]
    tests += [f"assert f({place!r}) == (0, {closed!r})" for place in ("/", "/dev", *bubblewrap._installed_packages())]
    verdict = Sandbox(backend="bwrap", workers=2).run(Job(FILL, tuple(tests), ("f",)))
    assert verdict.passed == verdict.total >= 4, verdict


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("memory_mb", 10**30, "a positive integer, at most 8796093022207"),
        ("memory_mb", jobs.MOST_MEMORY_MB + 1, "at most 8796093022207"),
        ("memory_mb", 0, "a positive integer"),
        ("memory_mb", 2.5, "a positive integer"),
        ("file_bytes", 10**30, "at most 9223372036854775807"),
        # Too long to be written out.
        pytest.param("output_bytes", 10**5000, "an integer of 16610 bits", id="output_bytes-long"),
        ("timeouts", True, "a positive integer"),
        ("cpu_seconds", 3600.5, "at most 3600"),
        ("cpu_seconds", float("nan"), "a positive number"),
        pytest.param("idle_seconds", 10**400, "at most 3600", id="idle_seconds-long"),
        ("idle_seconds", "1", "a positive number"),
    ],
)
def test_limits_that_no_process_can_have_are_refused(name: str, value: object, expected: str) -> None:
    with pytest.raises(OptionError, match=name) as refused:
        Limits(**{name: value})  # type: ignore[arg-type]
    assert expected in str(refused.value)


def test_the_largest_limits_work(sandbox: Sandbox) -> None:
    largest = Limits(memory_mb=jobs.MOST_MEMORY_MB, file_bytes=jobs.MOST_BYTES)
    program = "def f():\n    with open('x', 'wb') as file: return file.write(b'x' * 5_000_000)"
    assert sandbox.run(Job(program, ("assert f() == 5_000_000",), ("f",), limits=largest)).passed == 1


LIMITED_OWNER = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))
from comlrl_envs.sandbox import Job, Sandbox
program = "def f(n):\\n    with open('x', 'wb') as file: return file.write(b'x' * n)"
verdict = Sandbox(backend="fork", workers=1).run(Job(program, ("assert f(1000) == 1000", "f(700_000)"), ("f",)))
print(verdict.problem, *[test.outcome for test in verdict.tests])
"""


def test_a_lower_limit_of_the_machine_holds() -> None:
    done = subprocess.run([sys.executable, "-B", "-c", LIMITED_OWNER], capture_output=True, text=True)
    assert done.stdout == "None passed error\n", done


def test_auto_says_once_what_it_does_without(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(bubblewrap, "problem", lambda: "bwrap is not installed")
    monkeypatch.setattr(handle, "_warned", threading.Event())
    monkeypatch.setenv("COMLRL_SANDBOX", "fork")
    assert Sandbox().resolved_backend() == "fork"
    monkeypatch.delenv("COMLRL_SANDBOX")
    assert Sandbox(backend="fork").resolved_backend() == "fork"
    assert not caplog.records
    for workers in (1, 2):
        assert Sandbox(workers=workers).resolved_backend() == "fork"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for part in (
        "bwrap is not installed",
        "reading and writing the files",
        "COMLRL_SANDBOX=bwrap",
        "COMLRL_SANDBOX=fork",
    ):
        assert part in record.getMessage()


def test_auto_says_nothing_where_bwrap_works(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(bubblewrap, "problem", lambda: None)
    monkeypatch.setattr(handle, "_warned", threading.Event())
    monkeypatch.delenv("COMLRL_SANDBOX", raising=False)
    assert Sandbox().resolved_backend() == "bwrap"
    assert not caplog.records


@pytest.mark.skipif(bubblewrap.problem() is not None, reason="bwrap does not work here")
def test_bwrap_works_from_a_virtual_environment_below_a_folder_in_memory(tmp_path: Path) -> None:
    if not str(tmp_path).startswith("/tmp/"):
        pytest.skip("the temporary folder of the tests lies elsewhere")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    asked = "from comlrl_envs.sandbox import bubblewrap; print(bubblewrap.problem())"
    root = str(Path(__file__).resolve().parents[3])
    done = subprocess.run(
        [tmp_path / "venv/bin/python", "-c", asked],
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, *site.getsitepackages()])},
    )
    assert done.stdout.strip() == "None", done.stdout + done.stderr
