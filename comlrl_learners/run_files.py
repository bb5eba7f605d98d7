"""What a run folder must hold for its run to go on, and the lock that keeps a second process out of it."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from comlrl_learners.errors import ConfigError

LOCK_FILE, METRICS_FILE, NOTE_FILE = ".lock", "metrics.jsonl", "wandb.json"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WandbNote:
    """What a run folder knows of its W&B run.

    Attributes:
        run_id: The W&B run, or None before there is one.
        env_step: The last step that has arrived for sure, or None.
        metrics: The names that have arrived for this step.
    """

    run_id: str | None = None
    env_step: int | None = None
    metrics: tuple[str, ...] = ()


def earlier_rows(run: Path, length: int) -> list[dict[str, Any]]:
    """The rows that a run had logged when its `metrics.jsonl` was so long; nothing is changed.

    Args:
        run: The run folder.
        length: In bytes.

    Raises:
        ConfigError: The file is gone, shorter, or holds something else.
    """
    path = run / METRICS_FILE
    try:
        with path.open("rb") as file:
            data = file.read(length)
    except OSError as error:
        raise _unusable(path, f"it cannot be read ({error})") from error
    if len(data) < length:
        raise _unusable(path, f"it has {len(data)} bytes, and had {length} when the checkpoint was written")
    try:
        rows = [json.loads(line) for line in data.decode("utf-8").splitlines()]
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"its rows are not what was written ({error})") from error
    if not all(isinstance(row, dict) for row in rows) or not data.endswith(b"\n" if data else b""):
        raise _unusable(path, "its rows are not what was written")
    return rows


def read_note(path: Path) -> WandbNote:
    """What `wandb.json` says; nothing if there is none.

    Raises:
        ConfigError: It is not what this project writes.
    """
    if not path.exists():
        return WandbNote()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        run_id, step, metrics = data["run_id"], data["env_step"], data["metrics"]
        sound = isinstance(run_id, str | None) and (step is None or type(step) is int)
        if not (sound and isinstance(metrics, list) and all(isinstance(name, str) for name in metrics)):
            raise ValueError(f"it holds {data}")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"{str(path)!r} does not say which W&B run to go on with ({error!r}). Restore it from a copy, or move it "
            "elsewhere: all rows are then sent to a new W&B run."
        ) from error
    return WandbNote(run_id, step, tuple(metrics))


def check_run_files(run: Path, metrics_bytes: int, *, wandb: bool) -> None:
    """Hold the files that a run goes on with to what they must be; nothing is changed.

    Args:
        run: The run folder.
        metrics_bytes: How long `metrics.jsonl` was.
        wandb: Whether a W&B run is gone on with.

    Raises:
        ConfigError: With the file and what to do.
    """
    earlier_rows(run, metrics_bytes)
    if wandb:
        read_note(run / NOTE_FILE)


@contextlib.contextmanager
def held(run: Path) -> Iterator[None]:
    """Keep other processes from writing to a run folder; the kernel lets go of it when this one ends, however it ends.

    Raises:
        ConfigError: Another process holds it, or it cannot be written to.
    """
    try:
        fcntl = importlib.import_module("fcntl")
    except ImportError:  # Windows has none.
        yield
        return
    path = run / LOCK_FILE
    while True:
        with _open_lock(path) as file:
            _lock(fcntl, file, path)
            if not _is_there(path, file):
                continue  # Whoever held it has removed it meanwhile.
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _open_lock(path: Path) -> TextIO:
    try:
        return path.open("a+", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"The run folder {str(path.parent)!r} cannot be written to ({error}).") from error


def _lock(fcntl: Any, file: TextIO, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        owner = file.read().strip() or "of unknown number"
        raise ConfigError(
            f"The run {str(path.parent)!r} is being trained by process {owner}. Wait until it has ended or stop it, "
            "then resume; or start a new run."
        ) from error
    except OSError as error:  # some file systems have no locks
        log.warning("%s cannot be locked (%s): let no other process resume this run meanwhile.", path, error)


def _is_there(path: Path, file: TextIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _unusable(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"The run cannot go on with {str(path)!r}: {reason}. Restore it from a copy, or start a new run from its "
        f"policies: policies={str(path.parent)!r}."
    )
