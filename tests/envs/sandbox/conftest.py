"""One pair of workers a backend for all tests of the sandbox."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from comlrl_envs.sandbox import Sandbox, bubblewrap

BACKENDS = [
    "fork",
    pytest.param(
        "bwrap",
        marks=pytest.mark.skipif(
            sys.platform != "linux" or bubblewrap.problem() is not None, reason="bwrap does not work here"
        ),
    ),
]


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
