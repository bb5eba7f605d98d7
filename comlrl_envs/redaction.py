"""Keeps a key out of everything that is shown, written or logged."""

from __future__ import annotations

import json
import logging
from urllib.parse import quote

HIDDEN = "[key hidden]"
SHORTEST = 8
"""Characters from which on a key is one; ``EMPTY``, ``x`` and the like are no secret, and common in texts."""
_FAMILIES = ("openai", "httpx", "httpcore", "httpx2", "httpcore2")


class Redactor:
    """Replaces a key in texts, in the forms in which servers and libraries repeat it.

    Args:
        secret: The key; one of less than ``SHORTEST`` characters hides nothing.
    """

    def __init__(self, secret: str) -> None:
        forms = {secret, quote(secret, safe=""), json.dumps(secret)[1:-1]} if len(secret) >= SHORTEST else {""}
        self._forms = sorted(forms - {""}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """``text`` without the key."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text

    def __repr__(self) -> str:
        return "Redactor()"

    def guard_logs(self) -> None:
        """Hide the key in what the libraries below log, whatever level someone turns on."""
        names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _FAMILIES]
        for name in {*names, *_FAMILIES}:
            logging.getLogger(name).addFilter(_LogFilter(self))


class _LogFilter(logging.Filter):
    """Rewrites records that hold the key."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        clean = self._redact(message)
        if clean != message:
            record.msg, record.args = clean, ()
        if record.exc_info:
            record.exc_text = self._redact(logging.Formatter().formatException(record.exc_info))
        return True
