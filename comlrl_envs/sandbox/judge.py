"""The judge of a worker: takes jobs from its owner, forks a process for each job's tests, and sends verdicts back.

The process that runs the tests is trusted, yet what a candidate returns can keep it busy without end (a set of
colliding numbers, a power of a huge one) where no signal handler runs. This process sees that and ends it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Any

from comlrl_envs.sandbox import confine, trial
from comlrl_envs.sandbox.link import Link, ServerError, ask
from comlrl_envs.sandbox.wire import Frames, pack

LOOK_MS = 250
HUNG_SECONDS = 60.0
MEMORY_BYTES = 4 << 30
CHUNK = 1 << 16
JOBS_PER_BENCH = 256
IDS_PER_JOB = 1 << 24
"""Requests of one job are numbered apart from those of the next."""


class Bench:
    """A process that runs tests, job after job: blocks of asserts leave nothing behind that the next would notice."""

    def __init__(self, pid: int, stream: socket.socket) -> None:
        self.pid = pid
        self.stream = stream
        self.jobs = 0


class Judge:
    """Serves one owner with one fork server.

    Args:
        owner: Stream to the process that sends jobs.
        control: Socket to the fork server of candidates.
        folder: Root of the scratch folders.
    """

    def __init__(self, owner: socket.socket, control: socket.socket, folder: str) -> None:
        self._owner = owner
        self._control = control
        self._folder = os.path.join(folder, "job")
        self._results = os.memfd_create("results")
        self._jobs = 0
        self._fit = True
        self._bench: Bench | None = None

    def serve(self) -> None:
        """Judge until the owner hangs up, or a job leaves this worker unfit for the next one."""
        ready = json.loads(self._control.recv(CHUNK))
        self._owner.sendall(pack({"ready": os.path.dirname(self._folder), "seccomp": ready["seccomp"]}))
        frames = Frames()
        while self._fit:
            frame = frames.take_frame()
            if frame is not None:
                self._owner.sendall(pack(self._verdict(frame)))
                continue
            data = self._owner.recv(CHUNK)
            if not data:
                return
            frames.feed(data)

    def _verdict(self, frame: bytes) -> dict[str, Any]:
        job = json.loads(frame[4:])
        self._jobs += 1
        os.mkdir(self._folder, 0o700)
        os.ftruncate(self._results, 0)
        os.lseek(self._results, 0, os.SEEK_SET)
        fresh = job["kind"] == "unittest"
        bench = self._seat(fresh)
        bench.stream.sendall(frame)
        stuck = self._watch(bench, job["limits"]["cpu_seconds"])
        bench.jobs += 1
        if stuck or fresh or bench.jobs >= JOBS_PER_BENCH:
            self._dismiss()
        verdict = self._read(job, stuck)
        try:
            left = ask(self._control, "clear", (self._jobs + 1) * IDS_PER_JOB - 1)["left"]
        except ServerError as error:
            return {"broken": str(error)}
        # The verdict stands; what could not be removed must not meet the next program.
        self._fit = left is None
        return verdict

    def _seat(self, fresh: bool) -> Bench:
        """The process that runs the tests of the next job."""
        if fresh:
            self._dismiss()
        if self._bench is None:
            ours, theirs = socket.socketpair()
            pid = os.fork()
            if pid == 0:
                try:
                    ours.close()
                    self._owner.close()
                    self._sit(theirs)
                finally:
                    os._exit(0)
            theirs.close()
            self._bench = Bench(pid, ours)
        return self._bench

    def _dismiss(self) -> None:
        if self._bench is not None:
            os.kill(self._bench.pid, signal.SIGKILL)
            os.waitpid(self._bench.pid, 0)
            self._bench.stream.close()
            self._bench = None

    def _sit(self, stream: socket.socket) -> None:
        """In the forked process: run jobs one by one, and say when each is done."""
        confine.follow_parent()
        os.environ.update({"HOME": self._folder, "TMPDIR": self._folder})
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        frames = Frames()
        first_id = self._jobs * IDS_PER_JOB
        while True:
            message = frames.take()
            if message is not None:
                self._try(message[0], first_id)
                first_id += IDS_PER_JOB
                stream.send(b"d")
                continue
            data = stream.recv(CHUNK)
            if not data:
                return
            frames.feed(data)

    def _try(self, job: dict[str, Any], first_id: int) -> None:
        os.chdir(self._folder)
        try:
            link = Link(self._control, self._folder, job["limits"], first_id)
            held = trial.Trial(job, link, self._write)
            try:
                held.run()
                end = {"problem": held.problem, "output": bytes(link.output).decode("utf-8", "replace")}
                self._write({"end": {**end, "cut": link.output_cut}})
            except trial.FaultyTestsError as error:
                self._write({"faulty": str(error)})
            link.finish()
        except ServerError as error:
            self._write({"broken": str(error)})
        except BaseException as error:
            self._write({"broken": f"{type(error).__name__}: {error}"})

    def _write(self, result: dict[str, Any]) -> None:
        os.write(self._results, json.dumps(result).encode() + b"\n")

    def _watch(self, bench: Bench, cpu_seconds: float) -> bool:
        """Wait for the end of a job's tests; True if they did not move and are to be ended."""
        clock = (~bench.pid << 3) | 2
        poll = select.poll()
        poll.register(bench.stream, select.POLLIN)
        size, since_cpu, seen_cpu, since = -1, 0.0, 0.0, time.monotonic()
        while not poll.poll(LOOK_MS):
            now, cpu, grown = time.monotonic(), time.clock_gettime(clock), os.fstat(self._results).st_size
            if grown != size:
                size, since_cpu = grown, cpu
            if cpu != seen_cpu:
                seen_cpu, since = cpu, now
            if cpu - since_cpu > 2 * cpu_seconds + 1 or now - since > HUNG_SECONDS:
                return True
        if not bench.stream.recv(1):
            # It ended by itself, with or without a last word.
            self._dismiss()
        return False

    def _read(self, job: dict[str, Any], stuck: bool) -> dict[str, Any]:
        lines = os.pread(self._results, os.fstat(self._results).st_size, 0).split(b"\n")
        # The last line is empty, or one whose writer was ended in the midst of it.
        records = [json.loads(line) for line in lines[:-1]]
        last = records[-1] if records else {}
        if "faulty" in last or "broken" in last:
            return last
        if "end" in last:
            return {"tests": records[:-1], **last["end"]}
        if not stuck:
            return {"broken": "the process of the tests ended without a verdict"}
        tests = records
        names = _names(job)[len(tests) :]
        for place, name in enumerate(names):
            tests.append(trial.not_run(name))
            if place == 0:
                reason = "the test itself used up its time on what the program returned"
                tests[-1].update(outcome="timeout", error="TimeoutError", message=reason)
        return {"tests": tests, "problem": None, "output": "", "cut": False}


def _names(job: dict[str, Any]) -> list[str]:
    if job["kind"] == "functions":
        return [str(number) for number in range(len(job["tests"]))]
    from comlrl_envs.sandbox.cases import written_tests

    return written_tests(job["tests"][0])


def main(owner: int, control: int, parent: int, folder: str, packages: list[str]) -> None:
    """Load what tests use, then serve."""
    confine.settle(parent)
    for name in packages:
        importlib.import_module(name)
    sys.argv = [""]
    gc.collect()
    gc.freeze()
    Judge(socket.socket(fileno=owner), socket.socket(fileno=control), folder).serve()
