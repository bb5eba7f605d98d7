"""The fork server of candidate programs: a bare interpreter with the usual modules loaded, one fork a program.

It runs no candidate code itself. It answers four requests on a socket: ``spawn`` (with the candidate's end of the link
and its output pipe), ``usage``, ``end``, and ``clear`` after a job: to remove all that its programs left in files.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable
from typing import Any

from comlrl_envs.sandbox import candidate, confine, seccomp
from comlrl_envs.sandbox.removal import is_folder, remove, unlocked

USUAL = (
    *(
        "abc",
        "array",
        "ast",
        "base64",
        "bisect",
        "calendar",
        "cmath",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
    ),
    *("datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "inspect", "io", "itertools"),
    *(
        "json",
        "keyword",
        "logging",
        "math",
        "numbers",
        "operator",
        "os",
        "queue",
        "random",
        "re",
        "statistics",
        "string",
    ),
    *(
        "struct",
        "tempfile",
        "textwrap",
        "threading",
        "time",
        "traceback",
        "types",
        "typing",
        "unicodedata",
        "urllib.parse",
    ),
)
"""Loaded before the first fork, so that no program pays for them."""
MOST_BYTES = 1 << 16
SWEEP_SECONDS = 10.0
SHARED_PLACES = ("/tmp", "/dev/shm")
"""Where a program can write besides its worker's folder, if the worker has a namespace with such places of its own."""


class Server:
    """One candidate at a time, its process tree, its end, and what it leaves behind.

    Args:
        control: Socket to the judge.
        folder: Scratch folder of the candidates.
        enclosed: Whether this process has a namespace with file systems of its own.
    """

    def __init__(self, control: socket.socket, folder: str, enclosed: bool) -> None:
        self._control = control
        self._folder = folder
        self._enclosed = enclosed
        self._places = places(os.path.dirname(folder), SHARED_PLACES if enclosed else ())
        self._pid = 0
        self._status: int | None = None
        self._filtered = _filter_works()

    def serve(self) -> None:
        """Answer until the other end hangs up."""
        self._say({"ready": os.getpid(), "seccomp": self._filtered})
        while True:
            data, descriptors, _, _ = socket.recv_fds(self._control, MOST_BYTES, 2)
            if not data:
                self._end()
                return
            request = json.loads(data)
            if request["op"] == "spawn":
                self._spawn(request, descriptors)
            elif request["op"] == "usage":
                self._say({"id": request["id"], **self._usage()})
            elif request["op"] == "clear":
                self._end()
                self._say({"id": request["id"], "left": self._clear()})
            else:
                self._end()
                self._say({"id": request["id"], "status": self._status})

    def _clear(self) -> str | None:
        """Remove what the job's programs left; why that failed, or None."""
        try:
            self._mend_root()
            for place, kept in self._places:
                empty(place, kept)
        except OSError as error:
            return str(error)
        return None

    def _mend_root(self) -> None:
        root = os.path.dirname(self._folder)
        if not self._enclosed and not is_folder(root):
            # Without a namespace the folder of the worker itself can be moved away.
            remove(root)
            os.mkdir(root, 0o700)

    def _mend_folder(self) -> None:
        """Put the scratch folder back in its place, if a program before the next one took it away or locked it."""
        if is_folder(self._folder) and os.access(self._folder, os.R_OK | os.W_OK | os.X_OK):
            return
        try:
            self._mend_root()
            os.chmod(os.path.dirname(self._folder), 0o700)
            if not is_folder(self._folder):
                remove(self._folder)
                os.mkdir(self._folder)
            os.chmod(self._folder, 0o700)
        except OSError:
            # The next program does not get into it, and ends.
            return

    def _say(self, message: dict[str, Any]) -> None:
        self._control.send(json.dumps(message).encode())

    def _spawn(self, request: dict[str, Any], descriptors: list[int]) -> None:
        self._end()
        self._status = None
        self._mend_folder()
        pid = os.fork()
        if pid == 0:
            try:
                channel, output = descriptors
                confine.enter(channel, output, request["folder"], request["limits"], self._filtered)
                candidate.run(socket.socket(fileno=confine.CHANNEL))
            finally:
                os._exit(97)
        self._pid = pid
        for descriptor in descriptors:
            os.close(descriptor)

    def _usage(self) -> dict[str, Any]:
        """CPU seconds of the candidate's processes, and whether all of them sleep."""
        if not self._pid or self._status is not None:
            return {"alive": False, "cpu": 0.0, "sleeping": False}
        try:
            cpu, sleeping = 0.0, True
            for pid in [self._pid, *([] if self._filtered else descendants(self._pid))]:
                # The clock of another process, as clock_getcpuclockid(3) names it.
                cpu += time.clock_gettime((~pid << 3) | 2)
                sleeping = sleeping and all(state not in "RD" for state in _states(pid))
        except OSError:
            # A process went away meanwhile; the next look finds the rest.
            return {"alive": True, "cpu": 0.0, "sleeping": False}
        return {"alive": True, "cpu": cpu, "sleeping": sleeping}

    def _end(self) -> None:
        """Kill the candidate with all that descends from it, and leave no zombie."""
        if not self._pid:
            return
        limit = time.monotonic() + SWEEP_SECONDS
        for kill in (os.killpg, os.kill):
            try:
                kill(self._pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        while True:
            try:
                pid, status = os.waitpid(-1, 0 if self._filtered else os.WNOHANG)
            except ChildProcessError:
                break
            if pid == self._pid:
                self._status = status
            if pid == 0:
                for stray in descendants(os.getpid()):
                    try:
                        os.kill(stray, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                if time.monotonic() > limit:
                    # Whoever started this server starts a new one; inside a namespace the kernel ends the rest.
                    os._exit(96)
                time.sleep(0.0005)
        self._pid = 0


def places(root: str, shared: Iterable[str]) -> list[tuple[str, frozenset[str]]]:
    """Folders to be emptied after a job, each with the names in it that stay: those on the way to ``root``."""
    found: list[tuple[str, frozenset[str]]] = [(root, frozenset())]
    for place in shared:
        if os.path.ismount(place) and root != place:
            way = os.path.relpath(root, place).split("/") if root.startswith(f"{place}/") else []
            for depth, name in enumerate(way):
                found.append(("/".join([place, *way[:depth]]), frozenset([name])))
            if not way:
                found.append((place, frozenset()))
    return found


def empty(place: str, kept: frozenset[str] = frozenset()) -> None:
    """Remove what lies in a folder, save the names ``kept``."""
    for name in unlocked(place):
        if name not in kept:
            remove(f"{place}/{name}")


def descendants(root: int) -> list[int]:
    """Ids of all processes below ``root``, nearest first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def _states(pid: int) -> list[str]:
    states = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", "rb") as file:
            states.append(file.read().rpartition(b")")[2].split()[0].decode())
    return states


def _filter_works() -> bool:
    """Whether a process of this machine can be filtered, tried in one."""
    # Here and not in each fork.
    seccomp.prepared()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if seccomp.install(confine.libc()) else 1)
    return os.waitpid(pid, 0)[1] == 0


def main(control: int, parent: int, folder: str, packages: list[str]) -> None:
    """Load what programs use, then serve on the socket ``control``; ``folder`` is the candidates' scratch folder."""
    confine.settle(parent)
    for name in (*USUAL, *packages):
        importlib.import_module(name)
    sys.argv = [""]
    confine.prepare(folder)
    candidate.rehearse()
    gc.collect()
    # Pages of objects that no collection touches stay shared with the forks.
    gc.freeze()
    # Only a worker in namespaces does not see its parent, and is the first process there.
    enclosed = parent == 0 and os.getpid() == 1
    Server(socket.socket(fileno=control), folder, enclosed).serve()
