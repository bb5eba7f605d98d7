"""Looks at processes, descriptors and folders from outside."""

import glob
import os
import time
from collections.abc import Callable
from pathlib import Path

from comlrl_envs.sandbox.server import descendants


def folders(root: Path) -> set[str]:
    """Scratch folders of the workers that have theirs in ``root``."""
    return set(glob.glob(str(root.resolve() / "comlrl-sandbox-*")))


def below(pid: int | None = None) -> set[int]:
    """Processes below this one, or another."""
    return set(descendants(os.getpid() if pid is None else pid))


def zombies(pids: set[int]) -> set[int]:
    """Those that have ended and wait to be collected."""
    found = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    found.add(pid)
        except FileNotFoundError:
            continue
    return found


def descriptors(pid: int) -> int:
    """Number of open descriptors."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def soon(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether a condition comes true within the time."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if condition():
            return True
        time.sleep(0.05)
    return condition()
