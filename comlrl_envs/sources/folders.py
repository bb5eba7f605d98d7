"""Folders of the local cache."""

from __future__ import annotations

import os
from pathlib import Path

from comlrl_envs.errors import OptionError

CACHE_DIR = "COMLRL_CACHE_DIR"


def folder(name: str) -> Path:
    """Where the set of the environment ``name`` is kept: below ``COMLRL_CACHE_DIR``, or ``~/.cache/comlrl_envs``.

    Raises:
        OptionError: The path begins with the home of a user who has none.
    """
    top = os.environ.get(CACHE_DIR) or "~/.cache/comlrl_envs"
    try:
        # Not every file system takes the colon of ``ID:SET``.
        return Path(top).expanduser().joinpath(*name.replace(":", "--").split("/"))
    except RuntimeError as homeless:
        raise OptionError(
            f"The cache folder {top!r} cannot be found ({homeless}); let {CACHE_DIR} name one by its full path."
        ) from homeless
