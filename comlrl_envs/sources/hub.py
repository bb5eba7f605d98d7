"""The hub, read through ``datasets``: only the rows that are played are transferred."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from comlrl_envs.errors import OptionError
from comlrl_envs.sources import cache
from comlrl_envs.sources.patience import gathered
from comlrl_envs.sources.table import RealSet
from comlrl_envs.tasks import Row

TIMEOUT = 5.0
"""Seconds until a hub that does not answer counts as out of reach."""
ANSWER = 20.0
"""Seconds for its whole answer about a set, however it comes."""
STALL = 60.0
"""Seconds without a new row after which a download is given up; the first row comes with a whole block of a file."""
TOTAL = 900.0
"""Seconds for all rows of a split."""


def download(name: str, real: RealSet, splits: tuple[str, ...]) -> tuple[str, dict[str, list[Row]]]:
    """Read the published slices of a set.

    Args:
        name: Id without version.
        real: Its set.
        splits: ``"train"``, ``"eval"`` or both.

    Returns:
        The commit, and the rows by split.

    Raises:
        ConnectionError: The hub is out of reach, does not have the set, broke off, or stalled.
        OptionError: The hub's commit is not the one to keep to.
        TaskError: The cache's record is broken.
    """
    commit = _commit(name, real)
    return commit, {split: _read(real, commit, split) for split in splits}


def _commit(name: str, real: RealSet) -> str:
    """The commit to read: the pinned one if the hub has it, or else the newest if it is the one written down."""
    import huggingface_hub

    try:
        found = gathered(lambda: [_sha(real, huggingface_hub)], ANSWER, ANSWER, "the set's commit")[0]
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


def _sha(real: RealSet, huggingface_hub: Any) -> str | None:
    sha: str | None = huggingface_hub.HfApi().dataset_info(real.repo, revision=real.revision, timeout=TIMEOUT).sha
    return sha


def _read(real: RealSet, commit: str, split: str) -> list[Row]:
    if os.path.exists(real.repo):
        raise OptionError(
            f"The working directory has a folder {real.repo!r}, which would be read in place of the hub's set of that "
            "name. Work elsewhere, or pass the folder's rows as tasks=."
        )
    theirs, part = real.part(split)
    bounds = ["" if bound is None else str(bound) for bound in (part.start, part.stop)]
    which = (real.repo, real.config or "", theirs, commit, *bounds)
    command = [sys.executable, "-m", "comlrl_envs.sources.stream", *which]
    try:
        with _running(command) as lines:
            answers = [json.loads(line) for line in gathered(lambda: lines, STALL, TOTAL, real.published[split])]
    except (OSError, ValueError) as failure:
        raise _out_of_reach(real, failure) from failure
    if not answers or "done" not in answers[-1]:
        told = answers[-1].get("failure") if answers else None
        raise ConnectionError(f"the hub gave no {real.repo} ({_short(told or 'the process that read it broke off')})")
    rows: list[Row] = [answer["row"] for answer in answers[:-1]]
    if not rows:
        raise ConnectionError(f"the hub's {real.repo} has no rows in {real.published[split]}")
    return rows


@contextmanager
def _running(command: list[str]) -> Iterator[Iterable[bytes]]:
    """Lines of a process that is ended with the block: a thread that reads from the hub could not be."""
    places = os.pathsep.join(place for place in sys.path if place)
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": places}
    )
    assert process.stdout is not None
    try:
        yield _each(process.stdout)
    finally:
        process.kill()
        process.wait()


def _each(pipe: IO[bytes]) -> Iterator[bytes]:
    with pipe:
        yield from pipe


def _out_of_reach(real: RealSet, failure: Exception) -> ConnectionError:
    return ConnectionError(f"the hub gave no {real.repo} ({_short(f'{type(failure).__name__}: {failure}')})")


def _short(message: str) -> str:
    return " ".join(message.split())[:300]
