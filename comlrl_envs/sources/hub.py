"""The hub, read through ``datasets``: only the rows that are played are transferred."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from comlrl_envs.errors import OptionError
from comlrl_envs.sources import cache
from comlrl_envs.sources.table import RealSet
from comlrl_envs.tasks import Row

TIMEOUT = 5.0
"""Seconds until a hub that does not answer counts as out of reach."""


def download(name: str, real: RealSet, splits: tuple[str, ...]) -> tuple[str, dict[str, list[Row]]]:
    """Read the published slices of a set.

    Args:
        name: Id without version.
        real: Its set.
        splits: ``"train"``, ``"eval"`` or both.

    Returns:
        The commit, and the rows by split.

    Raises:
        ConnectionError: The hub is out of reach, does not have the set, or broke off.
        OptionError: The hub's commit is not the one to keep to.
        TaskError: The cache's record is broken.
    """
    commit = _commit(name, real)
    return commit, {split: _read(real, commit, split) for split in splits}


def _commit(name: str, real: RealSet) -> str:
    """The commit to read: the pinned one if the hub has it, or else the newest if it is the one written down."""
    import huggingface_hub

    try:
        found = huggingface_hub.HfApi().dataset_info(real.repo, revision=real.revision, timeout=TIMEOUT).sha
    except Exception as failure:
        # The hub's client raises what its HTTP library raises, and that library differs from version to version.
        raise _out_of_reach(real, failure) from failure
    record = cache.read_record(cache.folder(name))
    known = record["commit"] if record is not None and record["repo"] == real.repo else None
    wanted = real.revision or known
    if not found or wanted not in (None, found):
        whose = "pinned" if real.revision else "the one first fetched"
        raise OptionError(
            f"{real.repo} is at commit {found}; {whose} is {wanted}. Rows of another commit would not be comparable: "
            f"use the cache, or, to move on to the new commit, remove the folder {cache.folder(name)}."
        )
    return str(found)


def _read(real: RealSet, commit: str, split: str) -> list[Row]:
    import datasets

    if os.path.exists(real.repo):
        raise OptionError(
            f"The working directory has a folder {real.repo!r}, which would be read in place of the hub's set of that "
            "name. Work elsewhere, or pass the folder's rows as tasks=."
        )
    theirs, part = real.part(split)
    try:
        with _few_retries(datasets):
            stream = datasets.load_dataset(real.repo, split=theirs, revision=commit, streaming=True)
            rows: list[Row] = list(itertools.islice(stream, part.start, part.stop))
    except Exception as failure:
        # As above; and a broken file raises what its format's reader raises.
        raise _out_of_reach(real, failure) from failure
    if not rows:
        raise ConnectionError(f"the hub's {real.repo} has no rows in {real.published[split]}")
    return rows


@contextmanager
def _few_retries(datasets: Any) -> Iterator[None]:
    """Give up on a dead server in half a minute; by itself ``datasets`` tries on for many."""
    config = datasets.config
    names = ("STREAMING_READ_MAX_RETRIES", "STREAMING_OPEN_MAX_RETRIES")
    before = {name: getattr(config, name) for name in names if hasattr(config, name)}
    for name in before:
        setattr(config, name, 1)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def _out_of_reach(real: RealSet, failure: Exception) -> ConnectionError:
    message = " ".join(str(failure).split())
    return ConnectionError(f"the hub gave no {real.repo} ({type(failure).__name__}: {message[:300]})")
