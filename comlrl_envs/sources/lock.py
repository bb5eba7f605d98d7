"""One writer at a time, among threads and processes of a machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until nobody else holds the lock file ``path``, and hold it; it is freed when its holder dies, too.

    Args:
        path: Is created if it is not there, and stays.

    Raises:
        OSError: The file cannot be opened or locked.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        # Closing the file frees it, whatever happened.
        os.close(handle)
