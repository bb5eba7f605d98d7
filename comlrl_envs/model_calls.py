"""Requests of ``ModelClient``: one connection, its retries, and threads that send many bodies at once."""

from __future__ import annotations

import importlib
import itertools
import json
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias

from comlrl_envs.errors import MissingExtraError
from comlrl_envs.model_transport import MOST_BYTES, Allowance, Transport
from comlrl_envs.redaction import Redactor
from comlrl_envs.seeding import rng

REFUSED = (401, 402, 403, 404)
"""Statuses that every other request would get as well."""
RETRIED = (408, 409, 429)
"""Statuses below 500 that say "later"."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
SHOWN_CHARS = 300
"""Most characters of a server's words in an error."""
NO_CREDIT = "insufficient_quota"
MOST_TOKENS = 10**12
"""A server that counts more than this does not count."""
_STEEPEST = 10
_BELOW = ("httpx", "httpx2", "httpcore", "httpcore2")

Body: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer.

    Attributes:
        text: What it wrote, unchanged.
        finish_reason: Why it stopped, such as ``"stop"`` or ``"length"``; ``""`` if the server does not tell.
        prompt_tokens: Tokens read; None if the server does not tell, or tells no count.
        completion_tokens: Tokens written; None if the server does not tell, or tells no count.
        seconds: From the first attempt to the answer.
        attempts: Requests that it took.
    """

    text: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    attempts: int


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt, or all of them, without an answer.

    Attributes:
        reason: What happened, without the key.
        retry: Whether another attempt may help.
        refused: Whether every other request would fail alike.
        status: HTTP status; 0 without one.
        wait: Seconds that the server asks to wait; None if it does not.
    """

    reason: str
    retry: bool = False
    refused: bool = False
    status: int = 0
    wait: float | None = None


@dataclass(frozen=True, slots=True)
class Retries:
    """How long a request is worth: see ``ModelClient``."""

    max_retries: int
    timeout: float
    total_timeout: float


Answer: TypeAlias = "Completion | Failure"


class Connection:
    """An open client of one server; may be used by many threads at once."""

    def __init__(self, base_url: str, key: str, path: str, concurrency: int, retries: Retries) -> None:
        try:
            self._sdk = importlib.import_module("openai")
        except ImportError as missing:
            raise MissingExtraError("openai", f"A model at {base_url}") from missing
        self.concurrency = concurrency
        self.slots = threading.BoundedSemaphore(concurrency)
        self._path, self._retries = path, retries
        self._redact = Redactor(key)
        http = importlib.import_module(_http_library(self._sdk.DefaultHttpxClient))
        self._transport = Transport(http, base_url)
        # The library insists on some key; a server that asks for none ignores this one.
        self._client = self._sdk.OpenAI(
            api_key=key or "none",
            base_url=base_url,
            max_retries=0,
            timeout=retries.timeout,
            http_client=self._sdk.DefaultHttpxClient(transport=self._transport),
        )
        self._redact.guard_logs()

    def close(self) -> None:
        """Give the sockets back."""
        self._client.close()

    def answer(self, body: Body, number: int, stop: threading.Event) -> Answer:
        """Send one body until it is answered, refused, out of attempts or out of time.

        Args:
            body: The request.
            number: Its place in the batch; spreads the waits, so that a batch does not come back in one wave.
            stop: Ends waits and further attempts.
        """
        began = time.monotonic()
        deadline = began + self._retries.total_timeout
        for attempt in itertools.count(1):
            outcome = self._attempt(body, min(deadline, time.monotonic() + self._retries.timeout))
            if not isinstance(outcome, Failure):
                text, finish, usage = outcome
                return Completion(text, finish, *usage, time.monotonic() - began, attempt)
            if not outcome.retry:
                return outcome
            wait = _wait(outcome, attempt, number)
            left = deadline - time.monotonic()
            if attempt > self._retries.max_retries or wait >= left or stop.is_set() or stop.wait(wait):
                return self._given_up(outcome, attempt, time.monotonic() - began, wait)
        raise AssertionError("unreachable")

    def _given_up(self, last: Failure, attempts: int, seconds: float, wait: float) -> Failure:
        asked = f", and the next was due in {wait:.3g} s" if wait >= self._retries.total_timeout - seconds else ""
        return Failure(
            f"no answer after {attempts} attempts (max_retries={self._retries.max_retries}) in {seconds:.3g} s "
            f"(total_timeout={self._retries.total_timeout:g} s){asked}; the last one: {last.reason}",
            status=last.status,
        )

    def _attempt(self, body: Body, deadline: float) -> tuple[str, str, tuple[int | None, int | None]] | Failure:
        allowance = Allowance(deadline)
        # Errors are turned into values here and raised elsewhere, so that no traceback carries the library's own,
        # whose texts and requests hold the key.
        try:
            with self._transport.within(allowance):
                raw = self._send(body, allowance)
            return self._read(raw)
        except self._sdk.APIStatusError as error:
            return self._refusal(error)
        except Exception as error:
            return self._broken(error, allowance)

    def _send(self, body: Body, allowance: Allowance) -> bytes:
        """The body of the answer."""
        create = (
            self._client.chat.completions.with_streaming_response.create
            if "messages" in body
            else self._client.completions.with_streaming_response.create
        )
        known = {name: body[name] for name in ("model", "messages", "prompt") if name in body}
        extra = {name: value for name, value in body.items() if name not in known}
        with create(**known, extra_body=extra, timeout=allowance.seconds()) as response:
            raw: bytes = response.read()
        return raw

    def _broken(self, error: Exception, allowance: Allowance) -> Failure:
        """What an attempt without a status came to; whatever a server sends, the caller gets no other error."""
        sdk = self._sdk
        if allowance.overrun:
            return Failure(f"the answer is larger than {MOST_BYTES // 2**20} MiB")
        if allowance.over or isinstance(error, sdk.APITimeoutError):
            return Failure(f"time-out after {self._retries.timeout:g} s (timeout)", retry=True)
        if isinstance(error, RecursionError):
            return Failure("the answer is nested too deeply to be read")
        if isinstance(error, sdk.APIConnectionError):
            return Failure(self._words("no connection", error.__cause__ or error), retry=True)
        if isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _BELOW:
            return Failure(self._words("no connection", error), retry=True)
        return Failure(self._words(f"the answer could not be read ({type(error).__name__})", error))

    def _refusal(self, error: Any) -> Failure:
        status = int(error.status_code)
        try:
            credit = status == 429 and NO_CREDIT in str(error.body)
        except RecursionError:
            credit = False
        return self._judged(status, self._words(f"status {status}", error), credit, error.response.headers)

    def _judged(self, status: int, words: str, credit: bool, headers: Mapping[str, str]) -> Failure:
        refused = status in REFUSED or credit
        retry = not refused and (status in RETRIED or status >= 500)
        return Failure(words, retry, refused, status, _retry_after(headers) if retry else None)

    def _reported(self, data: Mapping[str, Any]) -> Failure | None:
        """An error that a server sends as if it were an answer, with status 200; None if there is none."""
        error = data if data.get("object") == "error" else data.get("error")
        if not error:
            return None
        fields = error if isinstance(error, dict) else {}
        credit = NO_CREDIT in (fields.get("code"), fields.get("type"))
        code = fields.get("code")
        status = 429 if credit else code if isinstance(code, int) and 400 <= code < 600 else 0
        message = fields.get("message") or (error if isinstance(error, str) else json.dumps(error))
        return self._judged(status, self._cut(f"the server reports an error: {message}"), credit, {})

    def _words(self, what: str, error: BaseException) -> str:
        return f"{what}: {self._cut(str(error) or type(error).__name__)}"

    def _cut(self, text: str) -> str:
        # First the key, then the cut: half a key would be found by no search.
        words = " ".join(self._redact(text).split())
        return f"{words[:SHOWN_CHARS]}{'...' if len(words) > SHOWN_CHARS else ''}"

    def _read(self, raw: bytes) -> tuple[str, str, tuple[int | None, int | None]] | Failure:
        try:
            data = json.loads(raw)
        except ValueError:
            start = self._redact(raw.decode("utf-8", "replace"))[:80]
            return Failure(f"the answer is no JSON: {start!r}")
        if not isinstance(data, dict):
            return Failure("the answer holds no choices")
        choices = data.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return self._reported(data) or Failure("the answer holds no choices")
        choice = choices[0]
        message = choice.get("message")
        text = message.get("content") if isinstance(message, dict) else choice.get("text")
        finish = choice.get("finish_reason")
        finish = self._cut(finish) if isinstance(finish, str) else ""
        if not isinstance(text, str):
            hint = "; raise max_tokens, the model stopped before it wrote" if finish == "length" else ""
            missing = f"the answer holds no content (finish_reason={finish!r}{hint})"
            return self._reported(data) or Failure(missing)
        usage = data.get("usage")
        # The text is what a player wrote and is scored as written, whatever key it resembles.
        return text, finish, (_count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))


def call_all(connection: Connection, bodies: Sequence[Body]) -> list[Answer]:
    """Answers in order; the first refusal ends the batch at once, and what had no answer by then counts as failed.

    The threads are daemons: a caller that is interrupted, or refused, does not wait for answers still under way.
    """
    answers: list[Answer] = [Failure("stopped before it was answered")] * len(bodies)
    stop = threading.Event()
    results: queue.SimpleQueue[tuple[int, Answer | BaseException]] = queue.SimpleQueue()
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(bodies)):
        waiting.put(number)

    def work() -> None:
        while not stop.is_set():
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                with connection.slots:
                    results.put((number, connection.answer(bodies[number], number, stop)))
            except BaseException as error:
                results.put((number, error))

    for _ in range(min(connection.concurrency, len(bodies))):
        threading.Thread(target=work, name="comlrl-model-client", daemon=True).start()
    try:
        for _ in bodies:
            number, answer = results.get()
            if isinstance(answer, BaseException):
                raise answer
            answers[number] = answer
            if isinstance(answer, Failure) and answer.refused:
                break
    finally:
        stop.set()
    return answers


def _wait(failure: Failure, attempt: int, number: int) -> float:
    """Seconds before the next attempt: what the server asks for, or a growing wait, spread by a half."""
    grown = min(FIRST_WAIT * 2 ** min(attempt - 1, _STEEPEST), LONGEST_WAIT)
    spread = float(rng("model client", number, attempt).uniform(0.5, 1.0))
    return grown * spread if failure.wait is None else failure.wait


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of ``Retry-After``, given as a number or as a date; None without it."""
    given = headers.get("retry-after")
    if given is None:
        return None
    try:
        seconds = float(given) if given.replace(".", "", 1).isdigit() else _until(given)
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, seconds)


def _until(date: str) -> float:
    return parsedate_to_datetime(date).timestamp() - time.time()


def _count(usage: object, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TOKENS:
        return None
    return value


def _http_library(client: type) -> str:
    """``httpx`` or ``httpx2``, whichever the library's own client is built on."""
    modules = (base.__module__.partition(".")[0] for base in client.__mro__)
    return next(module for module in modules if module in _BELOW)
