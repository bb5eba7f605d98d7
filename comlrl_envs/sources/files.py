"""Sets in files: a data folder of the caller's, or an installed package that carries them."""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from comlrl_envs.errors import OptionError, TaskError
from comlrl_envs.sources import wheel
from comlrl_envs.sources.found import Found, Look
from comlrl_envs.sources.table import DataFile, RealSet
from comlrl_envs.tasks import Row, read_jsonl

DATA_DIR = "COMLRL_DATA_DIR"


def in_folder(real: RealSet, split: str, data_dir: str | None) -> Look:
    """Look into ``data_dir``, or else into the folder that the variable ``COMLRL_DATA_DIR`` names.

    Raises:
        OptionError: The folder does not exist.
        TaskError: A file in it is broken.
    """
    given = data_dir if data_dir is not None else os.environ.get(DATA_DIR)
    if not given:
        return f"no data_dir= and no {DATA_DIR}"
    # Unlike the method of a path, this leaves the home of an unknown user as it is.
    folder = Path(os.path.expanduser(given))
    if not folder.is_dir():
        name = "data_dir" if data_dir is not None else DATA_DIR
        raise OptionError(f"{name}={str(given)!r} is no folder; give the one that holds the sets, or leave it out.")
    files = real.files.get(split, ())
    for file in files:
        path = folder / file.path
        if path.is_file():
            rows = _published(_read(path, file), real, split, file)
            if not rows:
                raise TaskError(f"{path} holds no rows of {real.published[split]}; fill it, or take it away.")
            return Found(rows, f"local {path}{' (stand-in)' if file.stand_in else ''}")
    return f"{folder} holds no {' or '.join(file.path for file in files) or 'file of this set'}"


def in_package(real: RealSet, split: str) -> Look:
    """Look into the installed package that carries the set; nothing of it is imported."""
    file = real.package_files.get(split)
    if real.package is None or file is None:
        return "no package carries this set"
    wanted = real.package.replace("_", "-") if real.wheel is None else f"--no-deps {real.wheel.requirement}"
    absent = f"the package {real.package!r} is not installed (pip install {wanted})"
    # A module that was loaded from a wheel can be found too, and is not installed.
    if real.wheel is not None and not wheel.installed(real.wheel):
        return absent
    found = importlib.util.find_spec(real.package)
    if found is None or not found.submodule_search_locations:
        return absent
    path = Path(next(iter(found.submodule_search_locations))) / file.path
    if not path.is_file():
        return f"the package {real.package!r} has no {file.path}"
    return Found(_published(_read(path, file), real, split, file), f"package {real.package} ({file.path})")


def in_wheel(real: RealSet, split: str, path: Path | None) -> Look:
    """Look into the wheel of the package that carries the set, given its path."""
    if path is None:
        return f"the wheel of {real.origin} is not in the cache"
    return Found(_published(_read(path, file := real.package_files[split]), real, split, file), f"wheel {path}")


def _read(path: Path, file: DataFile) -> Iterator[Row]:
    try:
        if file.read is not None:
            yield from file.read(path)
        elif path.suffix == ".json":
            yield from _listed(path)
        else:
            yield from _gunzipped(path) if path.suffix == ".gz" else read_jsonl(path)
    except TaskError:
        raise
    except (EOFError, OSError, ValueError, RecursionError, zlib.error, LookupError, TypeError) as bad:
        raise TaskError(f"{path} cannot be read ({type(bad).__name__}: {bad}); put a good copy in its place.") from bad


def _gunzipped(path: Path) -> list[Row]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [json.loads(line) for line in file if line.strip()]


def _listed(path: Path) -> list[Row]:
    rows = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(rows, list):
        raise ValueError(f"it holds a {type(rows).__name__}, expected a list of rows")
    return rows


def _published(rows: Iterable[Row], real: RealSet, split: str, file: DataFile) -> list[Row]:
    part = real.part(split)[1]
    return [_renamed(row, file) for row in itertools.islice(_taken(rows, file), part.start, part.stop)]


def _taken(rows: Iterable[Row], file: DataFile) -> Iterable[Row]:
    """The part of a file that a split has, whole groups of rows."""
    if file.percent == (0, 100):
        return rows
    listed = list(rows)
    groups = [
        str(row[file.group]) if file.group is not None and isinstance(row, dict) and file.group in row else place
        for place, row in enumerate(listed)
    ]
    distinct = list(dict.fromkeys(groups))
    first, last = (len(distinct) * bound // 100 for bound in file.percent)
    kept = set(distinct[first:last])
    return [row for row, group in zip(listed, groups, strict=True) if group in kept]


def _renamed(row: Row, file: DataFile) -> Row:
    # What is no object is left to the one parser of rows, which names it.
    if not file.fields or not isinstance(row, dict):
        return row
    return {**row, **{name: row[there] for name, there in file.fields.items() if there in row}}
