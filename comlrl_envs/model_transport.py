"""How answers of a model's server reach this process: none for longer than its deadline, none larger than its cap.

The HTTP libraries count a time-out anew at each read, and read bodies of any size. A server that sends a byte now and
then, be it of its headers, of an answer or of an error, would hold a request for ever. So each read from a socket,
connecting and TLS included, is given what is left of its attempt's ``Allowance``, and whole answers are handed on.
"""

from __future__ import annotations

import importlib
import threading
import time
import urllib.request
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

MOST_BYTES = 16 * 2**20
"""Most bytes of an answer, headers included, packed and unpacked."""
_PIECE = 65536
_FRAMING = (b"content-encoding", b"content-length", b"transfer-encoding")


class AnswerTooLargeError(Exception):
    """A server sent more than the allowance."""


class Allowance:
    """What one attempt may still use.

    Args:
        deadline: Its end on the monotonic clock, in seconds.
        size: Bytes that it may read.
    """

    def __init__(self, deadline: float, size: int = MOST_BYTES) -> None:
        self._deadline, self._size = deadline, size
        self.overrun = False

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self._deadline

    def seconds(self, asked: float | None = None) -> float:
        """Seconds for the next wait, at most those asked for; raises ``TimeoutError`` past the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time of the attempt is over")
        return left if asked is None else min(left, asked)

    def use(self, size: int) -> None:
        """Count bytes that were read; raises ``AnswerTooLargeError`` beyond the allowance."""
        self._size -= size
        if self._size < 0:
            self.refuse()

    def refuse(self) -> None:
        """Mark the answer as too large, since callers in between may replace the error."""
        self.overrun = True
        raise AnswerTooLargeError


class _Current(threading.local):
    """The allowance of the attempt that this thread is making."""

    allowance: Allowance | None = None

    def get(self) -> Allowance:
        if self.allowance is None:
            raise RuntimeError("A request was sent outside of Transport.within(allowance).")
        return self.allowance


class Transport:
    """Sends requests of an ``httpx`` client and reads their answers within the thread's allowance.

    It follows the interface of ``httpx.BaseTransport`` without being one, as two generations of the library exist.

    Args:
        http: The module ``httpx`` or ``httpx2``.
        base_url: The server; decides about the proxy that the environment names.
    """

    def __init__(self, http: Any, base_url: str) -> None:
        self._http = http
        self._core = importlib.import_module(http.__name__.replace("httpx", "httpcore"))
        self._current = _Current()
        self._pool = _pool(http, self._core, _proxy(base_url), _Backend(self._core.SyncBackend(), self._current))

    @contextmanager
    def within(self, allowance: Allowance) -> Iterator[None]:
        """Requests that this thread makes in the block share ``allowance``."""
        self._current.allowance = allowance
        try:
            yield
        finally:
            self._current.allowance = None

    def handle_request(self, request: Any) -> Any:
        """The whole answer to a request of the client, unpacked."""
        allowance = self._current.get()
        # An answer that is packed may unpack to a thousand times its size, and a chat's answer is small anyway.
        headers = [pair for pair in request.headers.raw if pair[0].lower() != b"accept-encoding"]
        url = request.url
        answer = self._pool.handle_request(
            self._core.Request(
                method=request.method,
                url=self._core.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=[*headers, (b"accept-encoding", b"identity")],
                content=request.stream,
                extensions=request.extensions,
            )
        )
        try:
            packing = b",".join(value for name, value in answer.headers if name.lower() == b"content-encoding")
            body = b"".join(_unpacked(answer.stream, packing.strip().lower(), allowance))
        finally:
            answer.close()
        kept = [pair for pair in answer.headers if pair[0].lower() not in _FRAMING]
        return self._http.Response(answer.status, headers=kept, content=body, extensions=answer.extensions)

    def close(self) -> None:
        """Give the sockets back."""
        self._pool.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Backend:
    """Opens sockets; follows ``httpcore.NetworkBackend``."""

    def __init__(self, inner: Any, current: _Current) -> None:
        self._inner, self._current = inner, current

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _Stream:
        seconds = self._current.get().seconds(timeout)
        return _Stream(self._inner.connect_tcp(host, port, timeout=seconds, **options), self._current)


class _Stream:
    """A socket; follows ``httpcore.NetworkStream``."""

    def __init__(self, inner: Any, current: _Current) -> None:
        self._inner, self._current = inner, current

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        allowance = self._current.get()
        data: bytes = self._inner.read(max_bytes, timeout=allowance.seconds(timeout))
        allowance.use(len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # In pieces, since a server may also take its time to read.
        for start in range(0, len(buffer), _PIECE):
            self._inner.write(buffer[start : start + _PIECE], timeout=self._current.get().seconds(timeout))

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:
        seconds = self._current.get().seconds(timeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, timeout=seconds), self._current)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    def close(self) -> None:
        self._inner.close()


def _unpacked(parts: Iterable[bytes], packing: bytes, allowance: Allowance) -> Iterator[bytes]:
    """The body's parts as they were before packing; servers may pack what nobody asked them to."""
    if packing in (b"", b"identity"):
        yield from parts
        return
    if packing not in (b"gzip", b"x-gzip", b"deflate"):
        raise ValueError(f"it is packed as {packing.decode('ascii', 'replace')[:40]!r}, which was not asked for")
    left = MOST_BYTES
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
    for part in parts:
        plain = unpack.decompress(part, left + 1)
        left -= len(plain)
        if left < 0:
            allowance.refuse()
        yield plain


def _proxy(base_url: str) -> str:
    """The proxy that the environment names for a server, or ``""``."""
    parts = urlsplit(base_url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return ""
    proxies = urllib.request.getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all", "")
    return found if not found or "://" in found else f"http://{found}"


def _pool(http: Any, core: Any, proxy: str, backend: _Backend) -> Any:
    # The client's own semaphore bounds the requests in flight.
    options = {"ssl_context": http.create_ssl_context(), "max_connections": None, "network_backend": backend}
    if not proxy:
        return core.ConnectionPool(**options)
    named = http.Proxy(proxy)
    address = core.URL(
        scheme=named.url.raw_scheme, host=named.url.raw_host, port=named.url.port, target=named.url.raw_path
    )
    kind = core.SOCKSProxy if named.url.scheme.startswith("socks") else core.HTTPProxy
    return kind(proxy_url=address, proxy_auth=named.raw_auth, **options)
