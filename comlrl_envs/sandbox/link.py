"""The tests' end of the link to a candidate: requests, waiting, and the limits of a test.

A wait is watched: from time to time the fork server is asked how much CPU time the candidate has used. A test ends when
the candidate used more than ``cpu_seconds`` in it, or slept longer than ``idle_seconds`` in all. A candidate that would
run but gets no processor is neither, so a loaded machine changes no verdict.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from comlrl_envs.sandbox.wire import Frames, ProtocolError

FIRST_LOOK_SECONDS = 0.05
LOOK_SECONDS = 0.1
MOST_ASKED = 100_000
"""What a candidate may ask of the tests' objects in one test."""
LONGEST_NAP = 0.25
"""Seconds of sleep that one look can count: whoever looks may have been kept waiting itself."""
SERVER_PATIENCE = 60.0
CHUNK = 1 << 16


class Ended(BaseException):
    """A candidate has to be given up: ``kind`` is ``timeout``, ``died`` or ``lost``.

    Not an ``Exception``, so that a test's own ``except Exception`` does not take it for an answer.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class ServerError(BaseException):
    """The fork server fails: nothing can be said about the candidate."""


class Link:
    """One job's connection to its candidate, and to those that take its place after its end.

    Args:
        control: Socket to the fork server.
        folder: The job's scratch folder.
        limits: The fields of ``Limits``.
        first_id: Requests to the fork server are numbered from here.
    """

    def __init__(self, control: socket.socket, folder: str, limits: dict[str, Any], first_id: int) -> None:
        self._control = control
        self._folder = folder
        self._limits = limits
        self._asked = first_id
        self.answer: Callable[[dict[str, Any]], bytes] | None = None
        self.hear: Callable[[str], None] | None = None
        self.output = bytearray()
        self.output_cut = False
        self.generation = 0
        self.ended: Ended | None = None
        self.broken = False
        # Requests that have no reply yet: they nest.
        self.waiting = 0
        self._channel: socket.socket | None = None
        self._poll = select.poll()
        self.spawn()
        self.begin()

    def spawn(self) -> None:
        """Have a fresh candidate process forked."""
        self._hang_up()
        ours, theirs = socket.socketpair()
        self._pipe, pipe_end = os.pipe()
        request = {"op": "spawn", "folder": self._folder, "limits": self._limits}
        socket.send_fds(self._control, [json.dumps(request).encode()], [theirs.fileno(), pipe_end])
        theirs.close()
        os.close(pipe_end)
        ours.setblocking(False)
        self._channel = ours
        self._frames = Frames()
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)
        self._poll.register(self._pipe, select.POLLIN)
        self.generation += 1
        self.ended = None
        self.waiting = 0
        self._cpu_seen = 0.0

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._channel.close()
            os.close(self._pipe)
            self._channel = None

    def begin(self) -> None:
        """A new test begins: its time counts from here."""
        self._since = time.monotonic()
        self._cpu_start: float | None = None
        self._idle = 0.0
        self._answered = 0
        self._waited, self._next_look = 0.0, FIRST_LOOK_SECONDS

    def request(self, message: bytes) -> dict[str, Any]:
        """Send a request and wait for the reply, answering what the candidate asks meanwhile.

        Raises:
            Ended: The candidate died, broke the protocol, or used up the time of the test.
            ServerError: The fork server does not answer.
        """
        if self.ended is not None:
            raise self.ended
        self.waiting += 1
        self._send(message)
        while True:
            reply = self._receive()
            if "ask" not in reply or self.answer is None:
                self.waiting -= 1
                return reply
            self._answered += 1
            if self._answered > MOST_ASKED:
                raise self.give_up("died", f"the program asked the tests for more than {MOST_ASKED} things")
            self._send(self.answer(reply))

    def give_up(self, kind: str, reason: str) -> Ended:
        """Kill the candidate; what is asked of it from now on raises the returned exception."""
        if self.ended is None:
            self.ended = Ended(kind, reason)
            status = self._ask("end")["status"]
            self._drain()
            if kind == "died" and status is not None and reason == "":
                self.ended.reason = _death(status)
            self._hang_up()
        return self.ended

    def _send(self, message: bytes) -> None:
        assert self._channel is not None
        view = memoryview(message)
        while view:
            try:
                view = view[self._channel.send(view) :]
            except BlockingIOError:
                self._wait_to_send()
            except OSError:
                raise self.give_up("died", "") from None

    def _wait_to_send(self) -> None:
        channel = self._channel
        assert channel is not None
        # What the candidate says meanwhile is no reason to wake.
        self._poll.modify(channel, select.POLLOUT)
        while not self._wait():
            pass
        self._poll.modify(channel, select.POLLIN)

    def _wait(self) -> bool:
        """Wait until something happens, and look in between; True if the channel is ready, output is taken in.

        The waits of a test add up to the next look, however many messages and prints of the candidate cut them short.
        When that is, it cannot know, and so not arrange to be at work just then.
        """
        assert self._channel is not None
        number, before = self._channel.fileno(), time.monotonic()
        events = self._poll.poll(1000 * max(0.0, self._next_look - self._waited))
        self._waited += time.monotonic() - before
        ready = any(fd == number for fd, _ in events)
        if self._waited >= self._next_look:
            waited, self._waited = self._waited, 0.0
            self._next_look = LOOK_SECONDS * (0.5 + os.urandom(1)[0] / 255)
            self._look(waited, ready)
        if any(fd == self._pipe for fd, _ in events):
            self._take_output()
        return ready

    def _receive(self) -> dict[str, Any]:
        channel = self._channel
        assert channel is not None
        while True:
            try:
                message = self._frames.take()
                if message is not None:
                    if not isinstance(message[0], dict):
                        raise ProtocolError("a message is no object")
                    return message[0]
            except ProtocolError as error:
                raise self.give_up("died", str(error)) from None
            if not self._wait():
                continue
            try:
                data = channel.recv(CHUNK)
            except BlockingIOError:
                # What a test does with output has asked for something meanwhile, and taken it in.
                continue
            except OSError:
                data = b""
            if not data:
                raise self.give_up("died", "")
            self._frames.feed(data)

    def _look(self, nap: float, heard: bool) -> None:
        """Compare what the candidate has used in this test with the limits; its last words, if any, are heard first."""
        usage = self._ask("usage")
        if not usage["alive"]:
            if heard:
                return
            raise self.give_up("died", "")
        cpu = max(usage["cpu"], self._cpu_seen)
        if self._cpu_start is None:
            # It cannot have used more since the test began than the clock has run.
            self._cpu_start = max(self._cpu_seen, cpu - (time.monotonic() - self._since))
            nap = 0.0 if cpu > self._cpu_start else nap
        if usage["sleeping"]:
            self._idle += max(0.0, min(nap, LONGEST_NAP) - (cpu - self._cpu_seen))
        self._cpu_seen = cpu
        if cpu - self._cpu_start > self._limits["cpu_seconds"]:
            raise self.give_up("timeout", f"used more than {self._limits['cpu_seconds']} s of CPU time")
        if self._idle > self._limits["idle_seconds"]:
            raise self.give_up("timeout", f"slept for more than {self._limits['idle_seconds']} s")

    def _ask(self, op: str) -> dict[str, Any]:
        self._asked += 1
        try:
            return ask(self._control, op, self._asked)
        except ServerError:
            self.broken = True
            raise

    def _take_output(self) -> None:
        data = os.read(self._pipe, CHUNK)
        if not data:
            self._poll.unregister(self._pipe)
            return
        room = self._limits["output_bytes"] - len(self.output)
        self.output_cut = self.output_cut or len(data) > room
        kept = data[: max(0, room)]
        self.output += kept
        if kept and self.hear is not None:
            self.hear(kept.decode("utf-8", "replace"))

    def _drain(self) -> None:
        """Take in what a dead candidate has written."""
        os.set_blocking(self._pipe, False)
        try:
            while select.select([self._pipe], [], [], 0)[0]:
                before = len(self.output)
                data = os.read(self._pipe, CHUNK)
                if not data:
                    return
                room = self._limits["output_bytes"] - before
                self.output_cut = self.output_cut or len(data) > room
                self.output += data[: max(0, room)]
        except OSError:
            return

    def finish(self) -> None:
        """Take the last output and hang up, which ends the candidate."""
        if self.ended is None:
            self._drain()
            self._hang_up()


def ask(control: socket.socket, op: str, number: int) -> dict[str, Any]:
    """Ask the fork server something, and wait for the answer to just this question; raises ``ServerError``."""
    control.send(json.dumps({"op": op, "id": number}).encode())
    limit = time.monotonic() + SERVER_PATIENCE
    while True:
        answered = select.select([control], [], [], max(0.0, limit - time.monotonic()))[0]
        data = control.recv(CHUNK) if answered else b""
        if not data:
            raise ServerError("the fork server is gone" if answered else "the fork server does not answer")
        reply = json.loads(data)
        # Answers to a process that was ended before this one are left over.
        if reply.get("id") == number:
            return dict(reply)


def _death(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"the program ended its process with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the program's process was ended by {name}"
