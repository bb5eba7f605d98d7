"""A hub on loopback: as much of the Hugging Face hub's protocol as `datasets` needs to read a repository of files.

Give a child process `HF_ENDPOINT=<Hub.url>`; the libraries read it once, at import.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

_API = re.compile(r"/api/datasets/(?P<repo>[^/]+/[^/]+)(?:/(?P<verb>revision|tree|paths-info)/(?P<rest>.+))?")
_FILE = re.compile(r"/datasets/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")


class Hub(ThreadingHTTPServer):
    """Repositories of data sets, each a commit and its files.

    Attributes:
        repos: `{repo: (commit, {path: bytes})}`; may be changed between requests.
        fault: What goes wrong: `""` nothing, `"500"` every request, `"cut"` each data file breaks off half-way,
            `"gone"` the server falls silent for good when a data file is asked for, `"drip"` every body comes a byte
            at a time for ever, `"drip data"` each data file's body does.
        seen: Method and path of each request.
    """

    daemon_threads = True

    def __init__(self, repos: Mapping[str, tuple[str, Mapping[str, bytes]]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repos = dict(repos)
        self.fault = ""
        self.died = False
        self.seen: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the tests."""


@contextmanager
def running(repos: Mapping[str, tuple[str, Mapping[str, bytes]]]) -> Iterator[Hub]:
    """A hub that answers until the block ends."""
    hub = Hub(repos)
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()


def environ(url: str, folder: Path, **more: str) -> dict[str, str]:
    """Variables of a process that takes `url` for the hub and keeps its files below `folder`."""
    given = {"HF_ENDPOINT": url, "HF_HUB_OFFLINE": "0", "HF_HOME": str(folder / "hf"), "NO_PROXY": "127.0.0.1"}
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), **given, **more}


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """The bytes of a parquet file of rows."""
    table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
    buffer = io.BytesIO()
    importlib.import_module("pyarrow.parquet").write_table(table, buffer)
    return buffer.getvalue()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub  # type: ignore[assignment]

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}"))

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def _answer(self, body: Any = None) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.seen.append(f"{self.command} {path}")
        if self.server.fault == "gone" and (self.server.died or _is_data(path)):
            self.server.died = self.close_connection = True
        elif self.server.fault == "500":
            self._send(500, b"{}")
        elif match := _API.fullmatch(path):
            self._api(match["repo"], match["verb"], match["rest"] or "main", body)
        elif match := _FILE.fullmatch(path):
            self._file(match["repo"], match["revision"], match["path"])
        else:
            self._missing("EntryNotFound")

    def _api(self, repo: str, verb: str | None, rest: str, body: Any) -> None:
        revision, _, folder = rest.partition("/")
        files = self._files(repo, revision)
        if files is None:
            return
        if verb in (None, "revision"):
            commit = self.server.repos[repo][0]
            siblings = [{"rfilename": name} for name in files]
            self._json({"_id": "0", "id": repo, "sha": commit, "siblings": siblings, "tags": [], "downloads": 0})
        elif verb == "tree":
            self._json(_tree(files, folder, recursive="recursive=true" in self.path.lower()))
        else:
            self._json([_entry(name, files[name]) for name in body["paths"] if name in files])

    def _file(self, repo: str, revision: str, path: str) -> None:
        files = self._files(repo, revision)
        if files is None:
            return
        if path not in files:
            self._missing("EntryNotFound")
            return
        data = files[path]
        headers = {"ETag": f'"{_digest(data)}"', "X-Repo-Commit": self.server.repos[repo][0], "Accept-Ranges": "bytes"}
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            self._send(206, data[first : last + 1], headers)
        else:
            self._send(200, data, headers)

    def _files(self, repo: str, revision: str) -> Mapping[str, bytes] | None:
        """The files at a revision; None if that was answered with an error already."""
        if repo not in self.server.repos:
            self._missing("RepoNotFound")
            return None
        commit, files = self.server.repos[repo]
        if revision not in ("main", commit):
            self._missing("RevisionNotFound")
            return None
        return files

    def _missing(self, code: str) -> None:
        self._send(404, json.dumps({"error": code}).encode(), {"X-Error-Code": code, "X-Error-Message": code})

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.server.fault == "drip" or (self.server.fault == "drip data" and _is_data(self.path)):
            self._drip(data)
            return
        cut = self.server.fault == "cut" and _is_data(self.path)
        self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            self.close_connection = True

    def _drip(self, data: bytes) -> None:
        for byte in data:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(0.5)


def _is_data(path: str) -> bool:
    return urlsplit(path).path.endswith((".parquet", ".jsonl"))


def _digest(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def _tree(files: Mapping[str, bytes], folder: str, recursive: bool) -> list[dict[str, Any]]:
    """Files and folders below `folder`, or only those directly in it."""
    start = f"{folder}/" if folder else ""
    inside = {name: data for name, data in files.items() if name.startswith(start)}
    parents = {name[: at.start()] for name in inside for at in re.finditer("/", name) if at.start() >= len(start)}
    entries = [{"type": "directory", "path": name, "size": 0, "oid": "0" * 40} for name in sorted(parents)]
    entries += [_entry(name, data) for name, data in inside.items()]
    return [entry for entry in entries if recursive or "/" not in entry["path"][len(start) :]]


def _entry(name: str, data: bytes) -> dict[str, Any]:
    return {"type": "file", "path": name, "size": len(data), "oid": _digest(data)}
