"""What an agent is shown: its brief, its own past and this turn's news, as chat turns and as one text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, TypedDict

from comlrl_envs.errors import OptionError, closest

Memory: TypeAlias = Literal["full", "last", "none"]
MEMORIES: tuple[Memory, ...] = ("full", "last", "none")

OWN = "--- Your earlier reply ---\n"
END = "\n--- End of your reply ---"


class Message(TypedDict):
    """One chat turn: ``role`` is ``"user"`` (the game) or ``"assistant"`` (the agent's own earlier reply)."""

    role: Literal["user", "assistant"]
    content: str


class Exchange(NamedTuple):
    """One past turn of one agent.

    Attributes:
        news: What it was shown that turn, besides its brief and memory.
        reply: What it said, cleaned and cut; None if it was not its turn.
        cut: Characters cut off the end.
        replaced: Lone surrogates replaced.
    """

    news: str
    reply: str | None
    cut: int
    replaced: int


def clean(text: str, limit: int) -> tuple[str, int, int]:
    """``text`` cut to ``limit`` characters and writable as UTF-8, with the characters cut and replaced.

    Surrogate pairs are joined; a lone surrogate, which no tokenizer and no file takes, becomes U+FFFD.
    """
    if type(text) is not str:
        text = str.__str__(text)
    cut = len(text) - limit
    if cut > 0:
        text = text[:limit]
    else:
        cut = 0
    if text.isascii():
        return text, cut, 0
    try:
        text.encode()
    except UnicodeEncodeError:
        before = text.count("\ufffd")
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text, cut, text.count("\ufffd") - before
    return text, cut, 0


def writable(text: str) -> str:
    """``text`` as UTF-8 can hold it: what a row or a template brings may hold lone surrogates too."""
    return text if text.isascii() else clean(text, len(text))[0]


def check_memory(memory: str) -> Memory:
    """``memory`` if it is one of the three modes."""
    for mode in MEMORIES:
        if memory == mode:
            return mode
    raise OptionError(f"memory={memory!r}; expected one of {MEMORIES}.{closest(memory, MEMORIES)}")


def remembered(past: tuple[Exchange, ...], memory: Memory) -> tuple[Exchange, ...]:
    """The part of ``past`` that stays in sight: all, from its last own reply on, or nothing."""
    if memory == "full":
        return past
    if memory == "none":
        return ()
    for place in range(len(past) - 1, -1, -1):
        if past[place].reply is not None:
            return past[place:]
    return past


def turns(brief: str, past: Sequence[Exchange], news: str) -> list[str]:
    """Texts of the user and of the agent in turn; the first and the last are the user's."""
    texts: list[str] = []
    heard = brief
    for exchange in past:
        heard = _join(heard, exchange.news)
        if exchange.reply is not None:
            texts.append(heard)
            texts.append(exchange.reply)
            heard = ""
    texts.append(_join(heard, news))
    return texts


def as_messages(texts: Sequence[str]) -> list[Message]:
    """Chat form of ``turns``."""
    return [{"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(texts)]


def as_text(texts: Sequence[str]) -> str:
    """``turns`` as one text, the agent's own replies between marks."""
    if len(texts) == 1:
        return texts[0]
    parts = [OWN + text + END if place % 2 else text for place, text in enumerate(texts)]
    return "\n\n".join([part for part in parts if part])


def _join(first: str, second: str) -> str:
    if first and second:
        return first + "\n\n" + second
    return first or second
