"""The one client of OpenAI-compatible servers: for benchmarks, expert feedback, comparators and generation.

A ``ModelClient`` is settings; connections open at the first use and are shared in the process by all clients with
equal settings. It is synchronous and keeps to threads of its own, so it may be called from any thread, from inside a
running event loop, and after a fork.

What happens to a request:

=============================================  ======================================================================
answer                                         outcome
=============================================  ======================================================================
a text, also an empty one                      a ``Completion``
408, 409, 429, 5xx, time-out, reset            tried again after the server's ``Retry-After``, or after a growing wait
the same, ``max_retries`` or the total is out  ``InfrastructureError``: no reply, and no score
no JSON, no choices, no content, over 16 MiB   ``InfrastructureError`` at once: asking again may cost again
400, 413, 422 and other refusals of a request  ``InfrastructureError`` at once, with the server's words
401, 402, 403, 404, or 429 without credit      ``OptionError``: every request would fail alike, so all of them stop
200 with an ``error`` in place of choices      as the status that its ``code`` names; without one as a refused request
=============================================  ======================================================================

The time-outs hold for all of an attempt: connecting, sending, headers, and bodies, those of errors included. Only the
system's own look-up of a host's name is out of their reach.

The key is read from an environment variable when a connection opens. It is in no setting, ``repr``, pickle, error or
log. A completion's text is handed on as it was written, even if a server puts the key there. Keys of fewer than eight
characters, such as ``EMPTY``, are taken for placeholders and hidden nowhere.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from comlrl_envs.errors import InfrastructureError, OptionError, boolean
from comlrl_envs.model_calls import SHOWN_CHARS, Completion, Connection, Failure, Retries, call_all

Prompt: TypeAlias = "str | Sequence[Mapping[str, Any]]"
"""A text, or chat turns: mappings with ``role`` and ``content``."""

DEFAULT_URL = "https://api.openai.com/v1"
MOST_COUNT = 1_000_000
LONGEST_SECONDS = 604_800.0
"""A week; clocks and sockets take no time-out without bounds."""
_lock = threading.Lock()
_open: dict[ModelClient, Connection] = {}


@dataclass(frozen=True)
class ModelClient:
    """A model behind an OpenAI-compatible server.

    Attributes:
        model: Name that the server gives the model.
        base_url: The server, up to and with ``/v1``; ``""`` takes ``OPENAI_BASE_URL``, or else OpenAI's own.
        key_variable: Environment variable that holds the key; ``""`` for a server that asks for none.
        chat: Whether chat completions are asked for, or plain completions of one text.
        parameters: Sent with each request, such as ``{"temperature": 0.7, "max_tokens": 256}``.
        concurrency: Requests in flight at most, over all clients with these settings in the process.
        max_retries: Further attempts at a request that failed by no fault of its own.
        timeout: Seconds that one attempt may take, at most a week.
        total_timeout: Seconds that all attempts at one request may take, waits included; at most a week.
    """

    model: str
    base_url: str = ""
    key_variable: str = "OPENAI_API_KEY"
    chat: bool = True
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    concurrency: int = 32
    max_retries: int = 6
    timeout: float = 120.0
    total_timeout: float = 600.0

    def __post_init__(self) -> None:
        """Check the settings, and fix the address that the environment gives."""
        if not isinstance(self.model, str) or not self.model:
            raise OptionError(f"model={_shown(self.model)}; expected the name that the server gives the model.")
        if not isinstance(self.base_url, str):
            raise OptionError(f"base_url={_shown(self.base_url)}; expected an address such as {DEFAULT_URL!r}.")
        if not isinstance(self.key_variable, str):
            raise OptionError(
                f"key_variable={_shown(self.key_variable)}; expected the name of an environment variable, such as "
                "'OPENAI_API_KEY', or '' for a server that asks for no key."
            )
        boolean("chat", self.chat)
        url = self.base_url or os.environ.get("OPENAI_BASE_URL", "") or DEFAULT_URL
        object.__setattr__(self, "base_url", _checked_url(url))
        object.__setattr__(self, "parameters", _checked_parameters(self.parameters))
        _checked_count("concurrency", self.concurrency, 1, MOST_COUNT)
        _checked_count("max_retries", self.max_retries, 0, MOST_COUNT)
        _checked_seconds("timeout", self.timeout)
        _checked_seconds("total_timeout", self.total_timeout)

    def settings(self) -> dict[str, Any]:
        """All settings as JSON values; no key is among them."""
        return asdict(self)

    def complete(self, prompt: Prompt, parameters: Mapping[str, Any] | None = None) -> Completion:
        """The model's answer to one prompt; raises what ``complete_many`` returns or raises."""
        answer = self.complete_many([prompt], parameters)[0]
        if isinstance(answer, InfrastructureError):
            raise answer
        return answer

    def complete_many(
        self, prompts: Sequence[Prompt], parameters: Mapping[str, Any] | None = None
    ) -> list[Completion | InfrastructureError]:
        """The model's answers, in order, up to ``concurrency`` requests at once.

        Args:
            prompts: Texts or chats.
            parameters: Added to the client's own for these requests.

        Returns:
            A completion a prompt, or the ``InfrastructureError`` that stands in its place.

        Raises:
            MissingExtraError: The package ``openai`` is not installed.
            OptionError: The server refuses the key, the account, the model or the address; or the key is missing; or
                a prompt or parameter cannot be sent.
        """
        if isinstance(prompts, str) or not isinstance(prompts, Sequence):
            raise OptionError(f"prompts={_shown(prompts)}; expected a list of prompts. For one prompt call complete.")
        shared = {**self.parameters, **_checked_parameters({} if parameters is None else parameters)}
        bodies = [{"model": self.model, **shared, **_sendable(self._content(prompt))} for prompt in prompts]
        if not bodies:
            return []
        connection = self._connection()
        answers = call_all(connection, bodies)
        refused = next((answer for answer in answers if isinstance(answer, Failure) and answer.refused), None)
        if refused is not None:
            # Whoever mends the key or the account goes on in this process with a fresh connection.
            self._drop(connection)
            raise OptionError(self._refusal(refused))
        return [
            InfrastructureError(f"request to {self.model}", answer.reason) if isinstance(answer, Failure) else answer
            for answer in answers
        ]

    def _content(self, prompt: Prompt) -> dict[str, Any]:
        if isinstance(prompt, str):
            return {"messages": [{"role": "user", "content": prompt}]} if self.chat else {"prompt": prompt}
        turns = _checked_chat(prompt)
        if self.chat:
            return {"messages": turns}
        if any(not isinstance(turn.get("content"), str) for turn in turns):
            raise OptionError("A turn's content is no text, and chat=False sends one text. Give texts, or chat=True.")
        return {"prompt": "\n\n".join(turn["content"] for turn in turns)}

    def _connection(self) -> Connection:
        with _lock:
            if self not in _open:
                _open[self] = Connection(
                    self.base_url,
                    self._key(),
                    "/chat/completions" if self.chat else "/completions",
                    self.concurrency,
                    Retries(self.max_retries, float(self.timeout), float(self.total_timeout)),
                )
            return _open[self]

    def _drop(self, connection: Connection) -> None:
        with _lock:
            if _open.get(self) is connection:
                del _open[self]
        connection.close()

    def _key(self) -> str:
        if not self.key_variable:
            return ""
        key = os.environ.get(self.key_variable, "").strip()
        if not key:
            raise OptionError(
                f"The environment variable {self.key_variable} is not set; it holds the key for {self.base_url}. Set "
                "it, name another one by key_variable=, or pass key_variable='' for a server that asks for no key."
            )
        if not key.isascii() or not key.isprintable():
            raise OptionError(
                f"The environment variable {self.key_variable} holds characters that no key has (it is not shown here)."
            )
        return key

    def _refusal(self, failure: Failure) -> str:
        source = self.key_variable or "no key"
        mend = {
            401: f"The key ({source}) is not accepted: set {source} to a valid one.",
            402: f"The account behind the key ({source}) has no credit: top it up, then run again.",
            403: f"The key ({source}) may not use {self.model!r}: use another key or model.",
            404: f"The server knows no model {self.model!r}, or the address is wrong: check model and base_url.",
            429: f"The account behind the key ({source}) has no credit: top it up, then run again.",
        }[failure.status]
        return f"{self.base_url} refused the request ({failure.reason}). {mend} What --out wrote is kept."


def close_clients() -> None:
    """Close all connections of the process; a client that is used again opens a new one."""
    with _lock:
        connections = list(_open.values())
        _open.clear()
    for connection in connections:
        connection.close()


def _shown(value: object) -> str:
    """A value in an error, cut; integers beyond a size, and values that hold one, have no ``repr``."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"(a {type(value).__name__} too large to show)"
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "..."


def _checked_count(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise OptionError(f"{name}={_shown(value)}; expected an integer from {least} to {most}.")


def _checked_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST_SECONDS:
        raise OptionError(
            f"{name}={_shown(value)}; expected a number of seconds above 0 and at most {LONGEST_SECONDS:.0f} (a week)."
        )


def _sendable(content: dict[str, Any]) -> dict[str, Any]:
    """``content``, if it is JSON values in UTF-8."""
    try:
        json.dumps(content, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as bad:
        reason = "it holds lone surrogates" if isinstance(bad, UnicodeError) else str(bad)
        raise OptionError(f"A prompt cannot be sent: {reason}. Give texts, or turns of JSON values.") from None
    return content


def _checked_chat(prompt: object) -> list[dict[str, Any]]:
    """The turns of a chat."""
    expected = "expected a text, or a list of turns such as {'role': 'user', 'content': 'Hello'}"
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes) or not prompt:
        raise OptionError(f"prompt={_shown(prompt)}; {expected}.")
    for turn in prompt:
        if not isinstance(turn, Mapping) or not isinstance(turn.get("role"), str):
            raise OptionError(f"A prompt holds the turn {_shown(turn)}; {expected}.")
    return [dict(turn) for turn in prompt]


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        raise OptionError("base_url is no address; expected one such as 'http://localhost:8000/v1'.") from None
    if parts.username is not None or parts.password is not None or parts.query:
        raise OptionError(
            "base_url holds a user name, a password or a query, which would be written into results. Give the address "
            "alone, and the key by the environment variable that key_variable names."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        raise OptionError(f"base_url={url!r}; expected an address such as 'http://localhost:8000/v1'.")
    return url.rstrip("/")


def _checked_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON has them, so that pickled, stored and sent ones are the same."""
    if not isinstance(parameters, Mapping):
        raise OptionError(f"parameters={_shown(parameters)}; expected a dict such as {{'temperature': 0.7}}.")
    try:
        copied: dict[str, Any] = json.loads(json.dumps(dict(parameters), sort_keys=True, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as bad:
        raise OptionError(f"parameters are no JSON values ({bad}); give numbers, texts, lists and dicts.") from bad
    for name in ("model", "messages", "prompt", "stream", "n"):
        if name in copied:
            raise OptionError(f"parameters hold {name!r}, which the client sets itself. Leave it out.")
    return copied


def _forget_after_fork() -> None:
    # The child has none of the parent's threads, and must not speak over the parent's sockets.
    global _lock
    _lock = threading.Lock()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(close_clients)
