"""Calls at once that an interrupt does not wait for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")


def in_threads(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Results in order; the first exception is raised at once. A single call stays in this thread.

    The threads are daemons, unlike those of ``concurrent.futures``: whoever interrupts the program does not wait for
    a model that takes its time.
    """
    if len(calls) == 1:
        return [calls[0]()]
    done: queue.SimpleQueue[tuple[int, Result | None, BaseException | None]] = queue.SimpleQueue()

    def work(place: int) -> None:
        try:
            done.put((place, calls[place](), None))
        except BaseException as error:
            done.put((place, None, error))

    for place in range(len(calls)):
        threading.Thread(target=work, args=(place,), name="comlrl-policy", daemon=True).start()
    results: dict[int, Result] = {}
    for _ in calls:
        place, result, error = done.get()
        if error is not None:
            raise error
        results[place] = result  # type: ignore[assignment]
    return [results[place] for place in range(len(calls))]
