"""The leaderboard's wheel for tests: where it lies already, or else downloaded once."""

import functools
from pathlib import Path

import pytest

from comlrl_envs.errors import OptionError
from comlrl_envs.sources.tool_sets import BFCL
from comlrl_envs.sources.wheel import fetch, kept


@functools.cache
def _had() -> Path | str:
    try:
        return kept(BFCL) or fetch(BFCL)
    except (ConnectionError, OptionError) as failure:
        return str(failure)


def wheel_path() -> Path:
    """Its path; skips the test where it cannot be had."""
    found = _had()
    if isinstance(found, str):
        pytest.skip(found)
    return found
