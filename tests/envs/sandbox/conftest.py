"""One pair of workers a backend for all tests of the sandbox."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from comlrl_envs.errors import InfrastructureError
from comlrl_envs.sandbox import Job, Sandbox, boot, bubblewrap
from comlrl_envs.sandbox.jobs import Verdict
from comlrl_envs.sandbox.pool import Pool
from comlrl_envs.sandbox.worker import plan

BACKENDS = [
    "fork",
    pytest.param(
        "bwrap",
        marks=pytest.mark.skipif(
            sys.platform != "linux" or bubblewrap.problem() is not None, reason="bwrap does not work here"
        ),
    ),
]


class Unfiltered:
    """One worker of the backend ``fork`` as it is where the kernel takes no filter of system calls."""

    backend = "unfiltered"

    def __init__(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(boot, "program", _program_without_filter)
            self._pool = Pool(plan("fork", ()), 1)

    def run(self, job: Job) -> Verdict:
        """The verdict on one job, or the error in its place, raised."""
        (outcome,) = self._pool.run_many([job])
        if isinstance(outcome, InfrastructureError):
            raise outcome
        return outcome

    def close(self) -> None:
        """End the worker."""
        self._pool.close()


_program = boot.program


def _program_without_filter(modules: tuple[str, ...], call: str, places: list[str]) -> str:
    """A worker's program, to which this machine is one that has no filter."""
    missing = f"sys.modules['{boot.PACKAGE}.seccomp'].prepared = lambda: None\n" if "seccomp" in modules else ""
    return _program(modules, missing + call, places)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if sys.platform != "linux":
        for item in items:
            if "/sandbox/" in str(item.path):
                item.add_marker(pytest.mark.skip(reason="the sandbox takes Linux"))


@pytest.fixture(scope="session", params=BACKENDS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Each backend that works here."""
    made = Sandbox(backend=request.param, workers=2)
    yield made
    made.close()


@pytest.fixture
def scratch_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workers that are started in this test have their folders; nobody else's are there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path
