"""A person at a real terminal: a program behind a pseudo-terminal, what it shows, and what is typed into it."""

from __future__ import annotations

import os
import re
import select
import signal
import struct
import sys
import time
from types import TracebackType

import pytest

pty = pytest.importorskip("pty")
termios = pytest.importorskip("termios")
fcntl = pytest.importorskip("fcntl")

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Person:
    """Runs ``python -m comlrl_envs ARGUMENTS`` on a terminal of ``size`` (lines, columns)."""

    def __init__(self, *arguments: str, size: tuple[int, int] = (24, 80), **environment: str) -> None:
        self.raw = b""
        self._mark = 0
        variables = {**os.environ, "TERM": "xterm-256color", **environment}
        if "NO_COLOR" not in environment:
            variables.pop("NO_COLOR", None)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            os.execve(sys.executable, [sys.executable, "-m", "comlrl_envs", *arguments], variables)

    def __enter__(self) -> Person:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.hangs_up()
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    @property
    def screen(self) -> str:
        """All that was shown, without colours."""
        return ESCAPES.sub("", self.raw.decode("utf-8", "replace")).replace("\r\n", "\n")

    def sees(self, text: str, timeout: float = 60.0) -> None:
        """Wait until ``text`` shows up behind what was seen before."""
        deadline = time.monotonic() + timeout
        while True:
            place = self.screen.find(text, self._mark)
            if place >= 0:
                self._mark = place + len(text)
                return
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} did not show up behind:\n{self.screen[-2000:]}")

    def types(self, text: str | bytes) -> None:
        """Type, as the keyboard would."""
        os.write(self.fd, text if isinstance(text, bytes) else text.encode())

    def hangs_up(self) -> None:
        """Close the terminal."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def interrupts(self) -> None:
        """Press Ctrl-C; Python misses one that comes just before it begins to wait for a key, so leave it a moment."""
        time.sleep(0.3)
        self.types(b"\x03")

    def leaves(self, timeout: float = 60.0) -> int:
        """Wait for the program to end; its exit status."""
        deadline = time.monotonic() + timeout
        while self._read(deadline - time.monotonic()):
            pass
        while time.monotonic() < deadline:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        raise AssertionError(f"The program still runs; it showed:\n{self.screen[-2000:]}")

    def _read(self, seconds: float) -> bool:
        if self.fd < 0:
            return False
        ready, _, _ = select.select([self.fd], [], [], max(seconds, 0.0))
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # Linux says so where others give an empty read: the program has closed its end
            return False
        self.raw += data
        return bool(data)
