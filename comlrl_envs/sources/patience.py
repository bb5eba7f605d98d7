"""Deadlines for reads whose own time-outs a slow server can evade, as one that sends a byte now and then does."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def gathered(begin: Callable[[], Iterable[T]], stall: float, total: float, what: str) -> list[T]:
    """All items of an iterable, unless it keeps one waiting for too long.

    It is gone through in a thread of its own. A thread cannot be ended from outside: one that is given up ends at its
    next item, and never holds up the end of the program.

    Args:
        begin: Returns the iterable; called in that thread.
        stall: Most seconds until the first item, and between two.
        total: Most seconds for all of them.
        what: What is awaited, for the message.

    Raises:
        TimeoutError: Too long a wait.
        Exception: What the iterable raised.
    """
    items: queue.SimpleQueue[tuple[T] | BaseException | None] = queue.SimpleQueue()
    given_up = threading.Event()

    def work() -> None:
        try:
            for item in begin():
                items.put((item,))
                if given_up.is_set():
                    return
        except BaseException as failure:
            items.put(failure)
        else:
            items.put(None)

    threading.Thread(target=work, name=f"comlrl_envs: {what}", daemon=True).start()
    ends = time.monotonic() + total
    found: list[T] = []
    try:
        while True:
            item = items.get(timeout=max(0.0, min(stall, ends - time.monotonic())))
            if item is None:
                return found
            if isinstance(item, BaseException):
                raise item
            found.append(item[0])
    except queue.Empty:
        waited = f"{total:g} s were not enough" if time.monotonic() >= ends else f"nothing came for {stall:g} s"
        raise TimeoutError(f"{waited} ({what})") from None
    finally:
        given_up.set()
