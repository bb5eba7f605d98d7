"""One pair of workers a backend for all tests of the sandbox."""

import sys
from collections.abc import Iterator

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
