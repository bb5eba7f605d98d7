"""Frames of JSON over a socket or a pipe, the same at every joint of the sandbox.

A frame is four bytes of length, big end first, then JSON in UTF-8. JSON and nothing richer: what a candidate program
sends is data, and reading it can neither run code nor build an object of a class that it chose.
"""

from __future__ import annotations

import json
import struct
from typing import Any

MOST_BYTES = 16 << 20
"""Longest frame; a longer one breaks the protocol."""
_LENGTH = struct.Struct("!I")
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


class ProtocolError(Exception):
    """What came over the wire is no message."""


def pack(message: Any) -> bytes:
    """One frame; raises ``ProtocolError`` if the message is longer than ``MOST_BYTES``."""
    body = _encode(message).encode()
    if len(body) > MOST_BYTES:
        raise ProtocolError(f"a message of {len(body)} bytes is longer than {MOST_BYTES}")
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Puts the bytes of a stream together to messages."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        """Take in what was read."""
        self._held += data

    def take(self) -> tuple[Any] | None:
        """The next whole message in a tuple of one, or None if more bytes are needed; raises ``ProtocolError``."""
        frame = self.take_frame()
        if frame is None:
            return None
        try:
            return (json.loads(frame[4:]),)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"a frame is no JSON: {type(error).__name__}") from None

    def take_frame(self) -> bytes | None:
        """The next whole frame as it came, its length included; raises ``ProtocolError``."""
        held = self._held
        if len(held) < 4:
            return None
        (length,) = _LENGTH.unpack_from(held)
        if length > MOST_BYTES:
            raise ProtocolError(f"a frame of {length} bytes was announced; {MOST_BYTES} are allowed")
        if len(held) < 4 + length:
            return None
        frame = bytes(held[: 4 + length])
        del held[: 4 + length]
        return frame
