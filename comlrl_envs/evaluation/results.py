"""The folder of an evaluation: ``config.yaml``, ``episodes.jsonl``, ``summary.json``.

A process that is killed at any moment leaves a folder that can be continued: each episode is one line, written whole,
and a line that was torn is an episode that was not finished. Only one process writes to a folder at a time.

A folder may grow by tasks and by samples, since the episodes that it holds are also those of the larger evaluation. It
does not shrink.
"""

from __future__ import annotations

import importlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from comlrl_envs.errors import OptionError
from comlrl_envs.evaluation.records import EpisodeRecord
from comlrl_envs.evaluation.settings import GROWING, before_growth, differences, shrunk

CONFIG, EPISODES, SUMMARY, LOCK = "config.yaml", "episodes.jsonl", "summary.json", ".lock"

_held: set[str] = set()
_held_lock = threading.Lock()


class ResultsFolder:
    """Writes results; use it as a context.

    Args:
        path: The folder; it is made if it does not exist.
        settings: What is evaluated. A folder that holds other settings is refused.
        head_digest: The ``task_digest`` of the first n tasks, by which a folder with fewer is known; None if the folder
            has to have as many.

    Attributes:
        records: The finished episodes that the folder holds; failed ones are dropped, so that they are played again.

    Raises:
        OptionError: Another process writes there, the folder holds other settings, or it cannot be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: Mapping[str, Any],
        head_digest: Callable[[int], str] | None = None,
    ) -> None:
        self.path = Path(path)
        self._head_digest = head_digest
        self.records: list[EpisodeRecord] = []
        self._settings = settings
        self._lock: _FolderLock | None = None
        self._file: int | None = None

    def __enter__(self) -> ResultsFolder:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"out={str(self.path)!r} cannot be made a folder ({error}). Name another one.") from error
        self._lock = _FolderLock(self.path)
        try:
            self._continue()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._file is not None and self._lock is not None
        os.close(self._file)
        self._lock.release()

    def add(self, record: EpisodeRecord) -> None:
        """Append an episode: whole, and out of this process's hands when the call returns."""
        assert self._file is not None
        line = memoryview(record.to_line())
        while line:
            line = line[os.write(self._file, line) :]

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the summary."""
        _replace(self.path / SUMMARY, json.dumps(summary, indent=2, allow_nan=False) + "\n")

    def _continue(self) -> None:
        yaml = importlib.import_module("yaml")
        config, episodes = self.path / CONFIG, self.path / EPISODES
        text = yaml.safe_dump(dict(self._settings), sort_keys=False)
        if config.exists():
            grown = self._grown(read_settings(self.path), yaml.safe_load(text))
            _replace(config, yaml.safe_dump(grown, sort_keys=False))
        elif episodes.exists():
            raise OptionError(f"{self.path} holds {EPISODES} without {CONFIG}. Name another folder.")
        else:
            _replace(config, text)
        self.records = [record for record in read_episodes(self.path) if not record.error]
        # What was torn or failed goes away before anything is appended behind it.
        _replace(episodes, b"".join(record.to_line() for record in self.records))
        self._file = os.open(episodes, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def _grown(self, there: dict[str, Any], here: dict[str, Any]) -> dict[str, Any]:
        """The folder's settings with the counts that it is to have; raises ``OptionError`` if it is another's."""
        growing = self._head_digest is not None
        other = differences(there, before_growth(here, there, self._head_digest) if self._head_digest else here)
        if not other:
            return {**there, **{name: here[name] for name in (*GROWING, "episodes", "tasks_sha256", "k")}}
        mend = "Name another folder, or evaluate with the settings of that one."
        if growing and shrunk(here, there):
            tasks, samples = (max(here[name], there[name]) for name in GROWING)
            mend = (
                f"A folder grows and does not shrink: name another one, or play {tasks} tasks or more with samples of "
                f"{samples} or more (samples={samples}, episodes={tasks * samples})."
            )
        raise OptionError(f"{self.path} holds an evaluation with other settings ({'; '.join(other)}). {mend}")


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a folder; raises ``OptionError`` if there are none."""
    yaml = importlib.import_module("yaml")
    try:
        settings = yaml.safe_load((path / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError as missing:
        raise OptionError(f"{path} holds no {CONFIG}; expected the folder of an evaluation.") from missing
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as bad:
        raise OptionError(f"{path / CONFIG} cannot be read ({bad}).") from bad
    if not isinstance(settings, dict) or not {"env", "policies", "reward_range"} <= settings.keys():
        raise OptionError(f"{path / CONFIG} holds no settings of an evaluation.")
    return settings


def read_episodes(path: Path) -> list[EpisodeRecord]:
    """All episodes in a folder, the failed ones too, in the order of the file; a torn last line is left out.

    Raises:
        OptionError: A line is no episode, or an episode stands there twice.
    """
    file = path / EPISODES
    if not file.exists():
        return []
    *lines, _torn = file.read_bytes().split(b"\n")
    records: dict[tuple[str, int], EpisodeRecord] = {}
    for number, line in enumerate(lines, start=1):
        try:
            record = EpisodeRecord.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as bad:
            raise OptionError(f"{file} line {number} is no episode ({bad}). Remove it; it is played again.") from bad
        if record.key in records:
            raise OptionError(f"{file} line {number} holds task {record.task!r}, sample {record.sample} again.")
        records[record.key] = record
    return list(records.values())


def _replace(path: Path, content: str | bytes) -> None:
    """Write a file so that it holds, at any moment, all of the old or all of the new content."""
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


class _FolderLock:
    """Held by one writer; the system lets go of it when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        fcntl = importlib.import_module("fcntl")
        self._name = os.path.realpath(folder)
        # The system's lock belongs to the process, which keeps forked workers from holding on to it; so threads of
        # one process are told apart here.
        with _held_lock:
            if self._name in _held:
                raise OptionError(f"Another evaluation of this process writes to {folder}. Name another folder.")
            _held.add(self._name)
        self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as taken:
            self.release()
            raise OptionError(
                f"Another process writes to {folder}. Wait until it has ended, or name another folder."
            ) from taken

    def release(self) -> None:
        """Let go."""
        os.close(self._file)
        with _held_lock:
            _held.discard(self._name)
