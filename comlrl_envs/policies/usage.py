"""What a reply cost: a text that also knows its time and its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of one reply; None where nobody counted.

    Attributes:
        seconds: From the request to the reply, waiting in line and repeated attempts included.
        prompt_tokens: Tokens read.
        completion_tokens: Tokens written.
    """

    seconds: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class MeasuredReply(str):
    """A reply with its ``usage``; a ``str`` in everything else, so that every policy may return it.

    >>> MeasuredReply("yes", Usage(completion_tokens=1)).usage.completion_tokens
    1
    """

    usage: Usage

    def __new__(cls, text: str, usage: Usage) -> MeasuredReply:
        """A text with its cost."""
        reply = super().__new__(cls, text)
        reply.usage = usage
        return reply

    def __getnewargs__(self) -> Any:
        return str(self), self.usage


def usage_of(reply: str) -> Usage:
    """The cost of a reply, as far as its policy told."""
    return reply.usage if isinstance(reply, MeasuredReply) else Usage()
