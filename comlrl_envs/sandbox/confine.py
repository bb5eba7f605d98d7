"""What a process does to itself before it runs a candidate program, and what a worker's process does at its start."""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import signal
from typing import Any

from comlrl_envs.sandbox import seccomp

SET_PARENT_DEATH_SIGNAL, SET_DUMPABLE, SET_SUBREAPER = 1, 4, 36
CAPABILITY_VERSION = 0x20080522
MOST_FILES = 64
CHANNEL = 3
"""File descriptor of a candidate's end of the link."""


@functools.lru_cache(maxsize=1)
def libc() -> ctypes.CDLL:
    """The C library, loaded once."""
    return ctypes.CDLL(None, use_errno=True)


def follow_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    libc().prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def settle(parent: int) -> None:
    """Tie this process to its parent, keep others out of its memory, and adopt what its children leave behind.

    Args:
        parent: Process id of the parent; 0 if the parent is out of sight, in another namespace.
    """
    follow_parent()
    libc().prctl(SET_DUMPABLE, 0, 0, 0, 0)
    libc().prctl(SET_SUBREAPER, 1, 0, 0, 0)
    if parent and os.getppid() != parent:
        # The parent died before the signal was asked for.
        os._exit(1)


def drop_capabilities() -> None:
    """Leave a process of the superuser without its powers over others; any other process has none to drop."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    libc().capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


def prepare(folder: str) -> None:
    """Settle, in the fork server, what its forks inherit and need not spend time on.

    Args:
        folder: Scratch folder of the candidates: ``HOME`` and the place for temporary files.
    """
    os.environ.clear()
    os.environ.update({"HOME": folder, "TMPDIR": folder, "PATH": "", "LANG": "C.UTF-8"})
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, MOST_FILES),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        resource.setrlimit(what, (most, most))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    drop_capabilities()


def enter(channel: int, output: int, folder: str, limits: dict[str, Any], filtered: bool) -> None:
    """Make this freshly forked process a confined one.

    Args:
        channel: The link to the tests; moves to descriptor 3, and no other but the standard ones stays open.
        output: Pipe that takes what is written to the standard output and error.
        folder: Becomes the working folder.
        limits: ``memory_mb`` and ``file_bytes``; CPU time per test is watched from outside.
        filtered: Whether the filter of system calls is installed.
    """
    follow_parent()
    os.setsid()
    channel, output = os.dup(channel), os.dup(output)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(channel, CHANNEL)
    os.closerange(CHANNEL + 1, MOST_FILES)
    os.chdir(folder)
    _limit(resource.RLIMIT_AS, int(limits["memory_mb"]) << 20)
    # Past this limit a write raises OSError: Python ignores the signal.
    _limit(resource.RLIMIT_FSIZE, int(limits["file_bytes"]))
    # Last, for it forbids what went before: among that, to take back the signal of the parent's death.
    if filtered and not seccomp.install(libc()):
        os._exit(98)


def _limit(what: int, most: int) -> None:
    """Set a limit of this process for good; one of the machine that is lower cannot be raised, and stays."""
    hard = resource.getrlimit(what)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(what, (most, most))
