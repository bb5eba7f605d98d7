"""``Sandbox``: settings until the first job, then workers that the whole process shares."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from comlrl_envs.errors import InfrastructureError, OptionError, SandboxError, one_of
from comlrl_envs.sandbox import bubblewrap
from comlrl_envs.sandbox.jobs import Job, Verdict
from comlrl_envs.sandbox.pool import Pool, processors
from comlrl_envs.sandbox.worker import package_files, plan, supported

BACKENDS = ("auto", "bwrap", "fork")
BACKEND_VARIABLE = "COMLRL_SANDBOX"
"""Environment variable that says what ``auto`` is: ``bwrap`` fails where that does not work."""
logger = logging.getLogger("comlrl_envs")
_lock = threading.Lock()
_warned = threading.Event()
_open: dict[Sandbox, Pool] = {}


@dataclass(frozen=True)
class Sandbox:
    """Runs untrusted programs, and trusted tests against them, outside this process.

    A sandbox is settings; workers start at the first job and are shared in the process by all sandboxes with equal
    settings. It may be used from any thread, inside a running event loop, and after a fork. What each backend stops
    is in ``protection.MATRIX``.

    Attributes:
        backend: ``fork`` (limits, sessions, a filter of system calls), ``bwrap`` (the same within namespaces of its
            own), or ``auto``: ``bwrap`` where a try of it works, elsewhere ``fork`` and a warning, once a process.
        workers: Programs that run at once at most; 0: one a processor.
        packages: Import names of installed packages that programs and tests may use, loaded beforehand.
    """

    backend: str = "auto"
    workers: int = 0
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the settings."""
        one_of("backend", self.backend, BACKENDS)
        if isinstance(self.workers, bool) or not isinstance(self.workers, int) or self.workers < 0:
            raise OptionError(f"workers={self.workers!r}; expected a number of workers, or 0 for one a processor.")
        given: object = self.packages
        if isinstance(given, str):
            raise OptionError(f"packages={self.packages!r}; expected a tuple of import names.")
        object.__setattr__(self, "packages", tuple(self.packages))
        for name in self.packages:
            package_files(name)

    def settings(self) -> dict[str, Any]:
        """All settings as JSON values."""
        return {**asdict(self), "packages": list(self.packages)}

    def resolved_backend(self) -> str:
        """``fork`` or ``bwrap``, as it is on this machine.

        Raises:
            SandboxError: There is no sandbox here, or the one that is asked for does not work.
        """
        if not supported():
            raise SandboxError(
                "No sandbox works on this platform: it takes Linux with memfd_create. Programs are never run in the "
                "caller's own process; run the environment on Linux, in a container or a virtual machine."
            )
        backend = self.backend
        if backend == "auto":
            backend = os.environ.get(BACKEND_VARIABLE, "") or "auto"
            one_of(BACKEND_VARIABLE, backend, BACKENDS)
        if backend == "fork":
            return "fork"
        problem = bubblewrap.problem()
        if problem is None:
            return "bwrap"
        if backend == "bwrap":
            raise SandboxError(f"The backend 'bwrap' does not work here: {problem}. Install bubblewrap, or allow it.")
        _warn(problem)
        return "fork"

    def run(self, job: Job) -> Verdict:
        """The verdict on one job; raises what ``run_many`` returns or raises."""
        outcome = self.run_many([job])[0]
        if isinstance(outcome, InfrastructureError):
            raise outcome
        return outcome

    def run_many(self, jobs: Iterable[Job]) -> list[Verdict | InfrastructureError]:
        """Verdicts in the order of the jobs.

        Args:
            jobs: Any number; they are spread over the workers. An iterator is asked for the next job while workers are
                at those before it, so that what prepares jobs costs little time; it must not wait for this sandbox.

        Returns:
            A verdict a job, or the ``InfrastructureError`` that stands in its place.

        Raises:
            SandboxError: There is no sandbox here.
            TaskError: The trusted part of a job, its set-up or its tests, cannot be run.
            OptionError: A job is too long.
        """
        coming = iter(jobs)
        first = next(coming, None)
        return [] if first is None else self._pool().run_many(chain([first], coming))

    def close(self) -> None:
        """End the workers that this process shares under these settings; a later job starts new ones."""
        with _lock:
            pool = _open.pop(self, None)
        if pool is not None:
            pool.close()

    def _pool(self) -> Pool:
        with _lock:
            if self not in _open:
                _open[self] = Pool(plan(self.resolved_backend(), self.packages), self.workers or processors())
            return _open[self]


def _warn(problem: str) -> None:
    """Say, once a process, what is not stopped since ``auto`` came to be ``fork``."""
    if _warned.is_set():
        return
    _warned.set()
    logger.warning(
        "The sandbox takes the backend 'fork', for 'bwrap' does not work here: %s. 'fork' does not keep programs from "
        "reading and writing the files that this user can. Install bubblewrap, or allow it; %s=bwrap makes this an "
        "error, %s=fork or Sandbox(backend='fork') accepts it.",
        problem,
        BACKEND_VARIABLE,
        BACKEND_VARIABLE,
    )


def close_all() -> None:
    """End all workers of this process."""
    with _lock:
        pools = list(_open.values())
        _open.clear()
    for pool in pools:
        pool.close()


def _forget() -> None:
    """In a fork: the workers are the parent's, and a lock that a thread of it held stays held here."""
    global _lock
    _lock = threading.Lock()
    for pool in _open.values():
        pool.abandon()
    _open.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget)
