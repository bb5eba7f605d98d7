"""The owner's end of one worker: a caretaker with a judge and a fork server below it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from comlrl_envs.errors import OptionError
from comlrl_envs.sandbox import boot, bubblewrap
from comlrl_envs.sandbox.removal import remove
from comlrl_envs.sandbox.wire import Frames, ProtocolError, pack

CHUNK = 1 << 16
CLOSE_SECONDS = 20
NOTED_CHARS = 1000
_BARE = ("-s", "-S", "-B")
"""Options of the interpreters. Not ``-I``: it would ignore the hash seed, and sets would iterate by chance."""
_KEPT_VARIABLES = ("LD_LIBRARY_PATH",)


class WorkerError(Exception):
    """A worker does not work (any more)."""


@dataclass(frozen=True)
class Plan:
    """How a worker is started."""

    caretaker: str
    spec: str


def plan(backend: str, packages: tuple[str, ...]) -> Plan:
    """Put together what starts a worker of a backend, ``fork`` or ``bwrap``."""
    python = bubblewrap.interpreter()
    found = {name: path for package in packages for name, path in package_files(package).items()}
    inside = backend == "bwrap"
    places = [bubblewrap.PACKAGES] if inside else sorted({str(Path(path).parent) for path in found.values()})
    wrap = bubblewrap.prefix("{folder}", found) if inside else []
    spec: dict[str, Any] = {
        "environment": {
            **{name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
            "PYTHONHASHSEED": "0",
            "PYTHONUTF8": "1",
            "LANG": "C.UTF-8",
            "PATH": "",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
        },
        "visible": not inside,
        "temporary": os.path.realpath(tempfile.gettempdir()),
    }
    calls = {
        "server": (
            boot.SERVER,
            f"module.main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] + '/job', {list(packages)!r})",
        ),
        "judge": (
            boot.JUDGE,
            f"module.main(int(sys.argv[4]), int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], {list(packages)!r})",
        ),
    }
    for role, (modules, call) in calls.items():
        command = [*wrap, python, *_BARE, "-c", boot.READ_AND_RUN, "{control}", "{parent}", "{folder}", "{owner}"]
        spec[role] = {"command": command, "source": boot.program(modules, call, places)}
    call = "import json; module.main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.stdin.buffer.readline()))"
    return Plan(boot.program(boot.CARETAKER, call, []), json.dumps(spec))


def package_files(name: str) -> dict[str, str]:
    """Files and folders of an installed package, by name; raises ``OptionError`` if it is not installed."""
    found = find_spec(name) if name.isidentifier() else None
    if found is None or found.origin is None:
        raise OptionError(f"packages={name!r}; expected the import name of an installed package, such as 'numpy'.")
    path = Path(found.origin).resolve()
    if found.submodule_search_locations:
        path = path.parent
    libraries = path.with_name(f"{name}.libs")
    return {each.name: str(each) for each in (path, libraries) if each.exists()}


class Worker:
    """One worker: takes jobs, gives verdicts, in order.

    Args:
        how: The plan of its start.
    """

    def __init__(self, how: Plan) -> None:
        self._notes = tempfile.TemporaryFile()
        ours, theirs = socket.socketpair()
        source = os.memfd_create("caretaker")
        os.write(source, how.caretaker.encode())
        starter = boot.READ_AND_RUN.format(source=source)
        command = [bubblewrap.interpreter(), *_BARE, "-c", starter, str(theirs.fileno()), str(os.getpid())]
        try:
            self._caretaker = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._notes,
                pass_fds=[theirs.fileno(), source],
                env={**os.environ, "PYTHONHASHSEED": "0"},
                # A Ctrl-C in a terminal is for the owner alone.
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            self._notes.close()
            raise
        finally:
            theirs.close()
            os.close(source)
        self._stream = ours
        self._frames = Frames()
        self.filtered: bool | None = None
        self._folder = ""
        self._last_words = ""
        assert self._caretaker.stdin is not None
        self._leash = self._caretaker.stdin
        try:
            self._leash.write(how.spec.encode() + b"\n")
            self._leash.flush()
        except OSError as error:
            raise self.failed(f"it did not start: {error}") from None
        except BaseException:
            # An interrupt; nobody else knows of this worker yet.
            self.close()
            raise

    def fileno(self) -> int:
        """Descriptor to wait on for verdicts."""
        return self._stream.fileno()

    def send(self, job: bytes) -> None:
        """Hand over a job's frame; raises ``WorkerError``."""
        try:
            self._stream.sendall(job)
        except OSError as error:
            raise self.failed(str(error)) from None

    def receive(self) -> list[dict[str, Any]]:
        """The messages that are there, after waiting for bytes; raises ``WorkerError``."""
        try:
            data = self._stream.recv(CHUNK)
            if not data:
                raise self.failed("its processes ended")
            self._frames.feed(data)
            messages = []
            while (message := self._frames.take()) is not None:
                if "ready" in message[0]:
                    self.filtered = bool(message[0]["seccomp"])
                    self._folder = str(message[0]["ready"])
                    continue
                messages.append(message[0])
            return messages
        except (OSError, ProtocolError) as error:
            raise self.failed(str(error)) from None

    def failed(self, reason: str) -> WorkerError:
        """Close this worker, and the error to raise for it."""
        self.close()
        return WorkerError(f"{reason}{self._last_words}")

    def close(self) -> None:
        """End its processes and remove its folder; returns when that is done."""
        if self._stream.fileno() < 0:
            return
        self.abandon()
        try:
            self._caretaker.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            # Its children die with it.
            self._caretaker.kill()
            self._caretaker.wait()
        if self._folder:
            # Its own last act, unless it was killed itself.
            remove(self._folder, as_far_as_possible=True)
        self._notes.seek(0)
        words = self._notes.read().decode(errors="replace").strip()[-NOTED_CHARS:]
        self._last_words = f"; it said: {words}" if words else ""
        self._notes.close()

    def abandon(self) -> None:
        """Let go of the descriptors: all that a fork of the owner may do with a worker of its parent."""
        self._stream.close()
        try:
            self._leash.close()
        except BrokenPipeError:
            # What was not read by a caretaker that is gone.
            pass


def supported() -> bool:
    """Whether this platform has what the workers are made of."""
    return sys.platform == "linux" and hasattr(os, "memfd_create") and bool(sys.executable)


def framed(job: dict[str, Any]) -> bytes:
    """A job's frame; raises ``OptionError`` if it is too long."""
    try:
        return pack(job)
    except ProtocolError as error:
        raise OptionError(f"The job {job['name']!r} is too long: {error}.") from None
