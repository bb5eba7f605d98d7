"""The workers of one setting in one process, shared by all its threads."""

from __future__ import annotations

import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any
from weakref import WeakSet

from comlrl_envs.errors import InfrastructureError, OptionError, TaskError
from comlrl_envs.sandbox.jobs import Job, Verdict
from comlrl_envs.sandbox.worker import Plan, Worker, WorkerError, framed

AHEAD_BYTES = 1 << 16
"""A frame up to this long waits in a worker's socket, so that the worker never waits for its owner."""
ATTEMPTS = 3
TICK_SECONDS = 5.0
PATIENCE_SECONDS = 300.0
Outcome = Verdict | InfrastructureError


class Pool:
    """Up to ``size`` workers, started when they are needed.

    Args:
        how: The plan of a worker's start.
        size: Most workers.
    """

    def __init__(self, how: Plan, size: int) -> None:
        self._how = how
        self._size = size
        self._free: list[Worker] = []
        self._alive: WeakSet[Worker] = WeakSet()
        self._running: set[int] = set()
        self._count = 0
        self._change = threading.Condition()
        self._closed = False

    def run_many(self, jobs: Iterable[Job]) -> list[Outcome]:
        """Verdicts in the order of the jobs; what no worker could judge has an error in its place.

        The jobs are asked for one by one, while workers are at those before them.

        Raises:
            TaskError: The trusted part of a job cannot be run.
        """
        me = threading.get_ident()
        if me in self._running:
            raise OptionError("The iterator of jobs runs jobs in the same sandbox; have those verdicts beforehand.")
        batch = _Batch(jobs)
        self._running.add(me)
        try:
            while batch.unfinished:
                self._join(batch)
                batch.feed()
                batch.collect()
                self._part(batch)
            return batch.outcomes()
        finally:
            self._running.discard(me)
            for worker in batch.left():
                # Verdicts of this batch would be taken for those of the next.
                worker.close()
                self._give_back(worker)

    def _join(self, batch: _Batch) -> None:
        """Let free workers join a batch that can use more; wait for one if it has none."""
        while batch.wants_worker():
            self._part(batch)
            try:
                worker = self._take(wait=not batch.has_workers())
            except WorkerError as error:
                # Those that are at it go on without one more.
                if not batch.has_workers():
                    batch.give_up(str(error))
                return
            if worker is None:
                return
            batch.join(worker)

    def _part(self, batch: _Batch) -> None:
        """Take back the workers that a batch has no use for, and those that failed in it."""
        for worker in batch.parted():
            self._give_back(worker)

    def _take(self, wait: bool) -> Worker | None:
        with self._change:
            while True:
                if self._closed:
                    raise WorkerError("the sandbox was closed")
                if self._free:
                    return self._free.pop()
                if self._count < self._size:
                    self._count += 1
                    break
                if not wait:
                    return None
                self._change.wait()
        try:
            worker = Worker(self._how)
            self._alive.add(worker)
            return worker
        except BaseException as error:
            with self._change:
                self._count -= 1
                self._change.notify()
            if isinstance(error, OSError | WorkerError):
                raise WorkerError(f"a worker does not start: {error}") from error
            raise

    def _give_back(self, worker: Worker) -> None:
        with self._change:
            if worker.fileno() < 0 or self._closed:
                self._count -= 1
            else:
                self._free.append(worker)
            self._change.notify()
        if self._closed:
            worker.close()

    def close(self) -> None:
        """End the workers: the free ones now, the others when their batch is done."""
        with self._change:
            self._closed = True
            free, self._free = self._free, []
            self._count -= len(free)
            self._change.notify_all()
        for worker in free:
            worker.close()

    def abandon(self) -> None:
        """In a fork of the owner: let go of the workers, which are not this process's; those at work too."""
        for worker in self._alive:
            worker.abandon()
        self._free = []


class _Batch:
    """The jobs of one call, and the workers that are at it."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._coming = iter(jobs)
        self._jobs: list[Job] = []
        self._frames: list[bytes] = []
        self._outcomes: dict[int, Outcome] = {}
        self._attempts: list[int] = []
        self._waiting: deque[int] = deque()
        self._at: dict[Worker, deque[int]] = {}
        self._since: dict[Worker, float] = {}
        self._lost: list[Worker] = []
        self._selector = selectors.DefaultSelector()

    @property
    def unfinished(self) -> bool:
        """Whether a job has no outcome yet."""
        return len(self._outcomes) < len(self._jobs) or self._one_waits()

    def outcomes(self) -> list[Outcome]:
        """One a job."""
        return [self._outcomes[number] for number in range(len(self._jobs))]

    def wants_worker(self) -> bool:
        """Whether a further worker would have something to do."""
        return self._one_waits()

    def _one_waits(self) -> bool:
        """Whether there is a job for a worker; the next one is asked for if none waits."""
        if not self._waiting:
            for job in islice(self._coming, 1):
                if not isinstance(job, Job):
                    raise OptionError(f"A job is a {type(job).__name__}; expected Job(program, tests, entry_points).")
                self._waiting.append(len(self._jobs))
                self._jobs.append(job)
                self._frames.append(framed(job.message()))
                self._attempts.append(0)
        return bool(self._waiting)

    def has_workers(self) -> bool:
        """Whether any worker is at it."""
        return bool(self._at)

    def join(self, worker: Worker) -> None:
        """A worker takes part, with one job to begin with."""
        self._at[worker] = deque()
        self._selector.register(worker, selectors.EVENT_READ)
        self._hand(worker)

    def feed(self) -> None:
        """Give each worker a job, and a second one to begin with when it is done."""
        for depth in (1, 2):
            for worker in list(self._at):
                queue = self._at.get(worker)
                if queue is None or len(queue) >= depth or not self._one_waits():
                    continue
                if not queue or len(self._frames[self._waiting[0]]) <= AHEAD_BYTES:
                    self._hand(worker)

    def _hand(self, worker: Worker) -> None:
        number = self._waiting.popleft()
        self._at[worker].append(number)
        if len(self._at[worker]) == 1:
            self._since[worker] = time.monotonic()
        try:
            worker.send(self._frames[number])
        except WorkerError as error:
            self._lose(worker, str(error))

    def collect(self) -> None:
        """Take in what has come, for a few seconds at most."""
        for key, _ in self._selector.select(TICK_SECONDS):
            worker: Any = key.fileobj
            if worker not in self._at:
                continue
            try:
                for message in worker.receive():
                    # Once it broke, what else it had to say is about jobs that others are at now.
                    if worker in self._at:
                        self._settle(worker, message)
            except WorkerError as error:
                self._lose(worker, str(error))
        for worker in list(self._at):
            if self._at[worker] and time.monotonic() - self._since[worker] > self._patience(self._at[worker][0]):
                worker.close()
                self._lose(worker, "it gives no verdict")

    def parted(self) -> list[Worker]:
        """The workers that have nothing left to do, and those that failed; they are no longer at it."""
        done = [worker for worker, queue in self._at.items() if not queue and not self._one_waits()]
        lost, self._lost = self._lost, []
        for worker in done:
            self._part(worker)
        return done + lost

    def _patience(self, number: int) -> float:
        job = self._jobs[number]
        return PATIENCE_SECONDS + 30 * (len(job.tests) + 2) * (job.limits.cpu_seconds + job.limits.idle_seconds)

    def _settle(self, worker: Worker, message: dict[str, Any]) -> None:
        number = self._at[worker].popleft()
        self._since[worker] = time.monotonic()
        if "faulty" in message:
            name = self._jobs[number].name or f"job {number}"
            raise TaskError(f"{name!r} cannot be judged: {message['faulty']}. Mend its tests and their set-up.")
        if "broken" in message:
            self._at[worker].appendleft(number)
            worker.close()
            self._lose(worker, message["broken"])
            return
        self._outcomes[number] = Verdict.of(message)

    def _lose(self, worker: Worker, reason: str) -> None:
        """A worker failed: its jobs go to another, and the one it was at counts an attempt."""
        queue = self._at.get(worker, deque())
        self._part(worker)
        for place, number in enumerate(reversed(queue)):
            if place == len(queue) - 1:
                self._attempts[number] += 1
                if self._attempts[number] >= ATTEMPTS:
                    self._outcomes[number] = self._failed(number, f"{ATTEMPTS} workers failed: {reason}")
                    continue
            self._waiting.appendleft(number)
        self._lost.append(worker)

    def _part(self, worker: Worker) -> None:
        if worker in self._at:
            del self._at[worker]
            # By key: a closed worker has no descriptor to be found by.
            for key in list(self._selector.get_map().values()):
                if key.fileobj is worker:
                    self._selector.unregister(worker)

    def give_up(self, reason: str) -> None:
        """There is no worker for what is not judged yet."""
        while self._one_waits():
            number = self._waiting.popleft()
            self._outcomes[number] = self._failed(number, reason)

    def _failed(self, number: int, reason: str) -> InfrastructureError:
        return InfrastructureError(self._jobs[number].name or "sandbox job", reason)

    def left(self) -> list[Worker]:
        """Workers that are still at it, when the batch is given up."""
        self._selector.close()
        return [*self._at, *self._lost]


def processors() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
