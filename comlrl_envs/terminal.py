"""A person's terminal: lines in, texts out, and nothing that a text holds may drive it."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections import deque
from typing import TextIO

BOLD, DIM = "1", "2"

_CONTROLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_CONTROLS |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD) | dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)


def visible(text: str) -> str:
    """``text`` with control characters replaced by signs that stand for them; line ends and tabs stay.

    Escape sequences, carriage returns and bells then show up instead of acting on the terminal.

    >>> visible("a" + chr(27) + "[31mred")
    'a␛[31mred'
    """
    return text.replace("\r\n", "\n").translate(_CONTROLS)


class Terminal:
    """Reads lines from a person and writes texts to them; works on pipes too, then without colours.

    Args:
        stdin: Default ``sys.stdin``.
        stdout: Default ``sys.stdout``.

    Attributes:
        interactive: Whether a person can be asked: both ends are terminals.
    """

    def __init__(self, stdin: TextIO | None = None, stdout: TextIO | None = None) -> None:
        self._in = sys.stdin if stdin is None else stdin
        self._out = sys.stdout if stdout is None else stdout
        self.interactive = self._in.isatty() and self._out.isatty()
        # See https://no-color.org: any non-empty value switches colours off.
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
        self._styled = self._out.isatty() and not plain
        # A paste may bring several lines at once.
        self._waiting: deque[str] = deque()
        self._edits = self.interactive and self._in is sys.stdin and self._out is sys.stdout
        if self._edits:
            _prepare_line_editing()

    def write(self, text: str, style: str = "") -> None:
        """Write ``text`` and a line end; ``style`` is an SGR code such as ``BOLD``."""
        text = visible(text)
        if style and self._styled and text:
            text = f"\x1b[{style}m{text}\x1b[0m"
        self._put(f"{text}\n")

    def read_line(self, prompt: str) -> str | None:
        """The next line without its end, bytes that are no UTF-8 replaced; None at the end of the input."""
        if self._waiting:
            return self._waiting.popleft()
        line = self._edited_line(prompt) if self._edits else self._plain_line(prompt)
        if line is None:
            return None
        first, *more = line.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._waiting.extend(more)
        return first

    def _edited_line(self, prompt: str) -> str | None:
        self._out.flush()
        try:
            return input(prompt)
        except EOFError:
            self._put("\n")
            return None

    def _plain_line(self, prompt: str) -> str | None:
        if self.interactive:
            self._put(prompt)
        if isinstance(self._in, io.TextIOWrapper):
            line = self._in.buffer.readline().decode("utf-8", "replace")
        else:
            line = self._in.readline()
        return line.rstrip("\r\n") if line else None

    def _put(self, text: str) -> None:
        # A terminal whose encoding lacks a character gets a question mark for it.
        encoding = self._out.encoding or "utf-8"
        self._out.write(text.encode(encoding, "replace").decode(encoding))
        self._out.flush()


def _prepare_line_editing() -> None:
    """Let ``input`` edit lines of any length, take tabs as text, and replace bytes that are no UTF-8."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    try:
        readline = importlib.import_module("readline")
    except ImportError:
        return  # lines are then those of the terminal driver: plain, at most some 4,000 bytes long
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I ed-insert" if libedit else "tab: self-insert")
