"""The fork server of candidate programs: a bare interpreter with the usual modules loaded, one fork a program.

It runs no candidate code itself. It answers three requests on a socket: ``spawn`` (with the candidate's end of the link
and its output pipe), ``usage`` and ``end``.
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
from typing import Any

from comlrl_envs.sandbox import candidate, confine, seccomp

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


class Server:
    """One candidate at a time, its process tree, and its end."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
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
            else:
                self._end()
                self._say({"id": request["id"], "status": self._status})

    def _say(self, message: dict[str, Any]) -> None:
        self._control.send(json.dumps(message).encode())

    def _spawn(self, request: dict[str, Any], descriptors: list[int]) -> None:
        self._end()
        self._status = None
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
    Server(socket.socket(fileno=control)).serve()
