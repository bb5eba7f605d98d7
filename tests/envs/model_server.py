"""An OpenAI-compatible server on loopback: real sockets, answers by rule, and a count of what it saw.

Run as a program it serves until it is killed: ``python model_server.py PORT_FILE SECONDS``.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Rule = Callable[["Handler", dict[str, Any], int], None]
"""Answers a request, given its body and its number (from 0)."""


class Server(ThreadingHTTPServer):
    """Counts requests; ``rule`` answers them."""

    daemon_threads = True
    request_queue_size = 256
    allow_reuse_address = True

    def __init__(self, rule: Rule) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.rule = rule
        self.lock = threading.Lock()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.flying = self.most_flying = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up, or is killed, is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        with server.lock:
            number = len(server.bodies)
            server.bodies.append(body)
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.paths.append(self.path)
            server.flying += 1
            server.most_flying = max(server.most_flying, server.flying)
        try:
            server.rule(self, body, number)
        finally:
            with server.lock:
                server.flying -= 1

    def send(self, payload: Any, status: int = 200, **headers: str) -> None:
        """A whole answer; what is no str is sent as JSON."""
        data = (payload if isinstance(payload, str) else json.dumps(payload)).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def send_raw(self, *parts: bytes, pause: float = 0.0) -> None:
        """Bytes as they are, with a pause after each part, until the client is gone."""
        self.close_connection = True
        try:
            for part in parts:
                self.wfile.write(part)
                self.wfile.flush()
                time.sleep(pause)
        except OSError:
            return

    def hang_up(self) -> None:
        """Reset the connection."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.connection.shutdown(socket.SHUT_RDWR)


def chat(text: str | None, finish: str = "stop", tokens: int = 3) -> dict[str, Any]:
    """A chat completion."""
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "stub",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": tokens, "total_tokens": 7 + tokens},
    }


def says(text: str, seconds: float = 0.0) -> Rule:
    """Always the same answer, after a while."""

    def rule(handler: Handler, body: dict[str, Any], number: int) -> None:
        time.sleep(seconds)
        handler.send(chat(text))

    return rule


def first(count: int, other: Rule, then: Rule) -> Rule:
    """``other`` for the first requests, ``then`` for the rest."""
    return lambda handler, body, number: (other if number < count else then)(handler, body, number)


def status(code: int, message: str = "no", **headers: str) -> Rule:
    """An error in the form of the API."""
    return lambda handler, body, number: handler.send({"error": {"message": message, "code": None}}, code, **headers)


@contextmanager
def serving(rule: Rule) -> Iterator[Server]:
    """A server in a thread of this process."""
    server = Server(rule)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    alone = Server(says("abc", float(sys.argv[2])))
    Path(sys.argv[1]).write_text(alone.url, encoding="utf-8")
    alone.serve_forever()
