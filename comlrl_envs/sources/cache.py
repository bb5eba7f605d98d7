"""The local cache: published slices as JSONL, each folder with a record of what was fetched and when."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from comlrl_envs.errors import TaskError
from comlrl_envs.sources.folders import CACHE_DIR as CACHE_DIR
from comlrl_envs.sources.folders import folder as folder
from comlrl_envs.sources.found import Found, Look
from comlrl_envs.sources.lock import locked
from comlrl_envs.sources.real_set import RealSet
from comlrl_envs.tasks import Row, read_jsonl

RECORD = "provenance.json"


def look(name: str, real: RealSet, split: str) -> Look:
    """Look into the cache.

    Raises:
        TaskError: The record or the file is not what was written.
    """
    here = folder(name)
    record = read_record(here)
    if record is None:
        return f"the cache {here} is empty"
    if record["repo"] != real.repo or real.revision not in (None, record["commit"]):
        wanted = f"{real.repo}@{real.revision or 'any'}"
        return f"the cache {here} is of {record['repo']}@{record['commit']}, wanted is {wanted}"
    entry = record["files"].get(f"{split}.jsonl")
    if entry is None or entry["slice"] != real.published[split]:
        return f"the cache {here} has no {real.published[split]}"
    path = here / f"{split}.jsonl"
    if not path.is_file():
        return f"{path} is gone"
    if _sha256(path.read_bytes()) != entry["sha256"]:
        raise TaskError(
            f"{path} is not what was fetched (its sha256 differs from {RECORD}). Remove the folder {here} and run "
            f"`comlrl-envs fetch {name}`."
        )
    return Found(list(read_jsonl(path)), f"cache {real.repo}@{record['commit']}")


def read_record(here: Path) -> dict[str, Any] | None:
    """What was fetched into a folder; None if nothing was.

    Raises:
        TaskError: The record cannot be read.
    """
    try:
        record = json.loads((here / RECORD).read_text(encoding="utf-8"))
        complete = _is_complete(record)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as bad:
        raise TaskError(f"{here / RECORD} cannot be read ({bad}). Remove the folder {here} and fetch anew.") from bad
    if not complete:
        raise TaskError(f"{here / RECORD} is not what was written. Remove the folder {here} and fetch anew.")
    return dict(record)


def _is_complete(record: object) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("files"), dict):
        return False
    texts = [record.get("repo"), record.get("commit")]
    for entry in record["files"].values():
        texts += [entry.get("sha256"), entry.get("slice")] if isinstance(entry, dict) else [None]
    return all(isinstance(text, str) for text in texts)


def write(name: str, real: RealSet, commit: str, slices: Mapping[str, Iterable[Row]]) -> Path:
    """Write fetched slices and their record; a reader never meets half a file, and no writer loses another's split.

    Args:
        name: Id without version.
        real: The set.
        commit: What the rows were read at.
        slices: Rows by split.

    Returns:
        The folder.

    Raises:
        OSError: The folder cannot be written.
        TaskError: The record in it is broken.
    """
    here = folder(name)
    here.mkdir(parents=True, exist_ok=True)
    # Beside the folder, so that who removes the folder under a writer takes no lock away.
    with locked(here.parent / f".{here.name}.lock"):
        here.mkdir(exist_ok=True)
        _write(here, real, commit, slices)
    return here


def _write(here: Path, real: RealSet, commit: str, slices: Mapping[str, Iterable[Row]]) -> None:
    old = read_record(here)
    kept = old["files"] if old is not None and (old["repo"], old["commit"]) == (real.repo, commit) else {}
    files: dict[str, Any] = dict(kept)
    for split, rows in slices.items():
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
        _replace(here / f"{split}.jsonl", data)
        files[f"{split}.jsonl"] = {"sha256": _sha256(data), "rows": len(lines), "slice": real.published[split]}
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    record = {"repo": real.repo, "commit": commit, "licence": real.licence, "date": today, "files": files}
    _replace(here / RECORD, json.dumps(record, indent=2).encode() + b"\n")


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # The maker of temporary files lets only their owner read them; a cache may be shared.
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
