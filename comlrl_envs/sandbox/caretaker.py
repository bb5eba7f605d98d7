"""Starts the two processes of a worker and sees to it that they end with their owner, however it ends.

Its owner may be a trainer with threads, killed at any moment; this process is small, has one thread, and does nothing
else. It holds the scratch folder and removes it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import tempfile
from typing import Any

from comlrl_envs.sandbox.removal import remove

TICK_MS = 500


def main(owner: int, parent: int, spec: dict[str, Any]) -> None:
    """Start, watch, and clean up. The standard input is a leash: its end means the owner's.

    Args:
        owner: Descriptor over which the owner and the judge talk.
        parent: Process id of the owner.
        spec: ``judge`` and ``server``: a ``command`` each, and the ``source`` that it reads; ``environment``;
            ``visible``, whether they see this process; ``temporary``, where the scratch folder is made.
    """
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        # A Ctrl-C in a terminal reaches the whole group; the owner decides what it means.
        signal.signal(ignored, signal.SIG_IGN)
    folder = tempfile.mkdtemp(prefix="comlrl-sandbox-", dir=spec["temporary"])
    try:
        _hold(owner, parent, folder, spec)
    finally:
        remove(folder, as_far_as_possible=True)


def _hold(owner: int, parent: int, folder: str, spec: dict[str, Any]) -> None:
    judge_end, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    known = {"folder": folder, "parent": os.getpid() if spec["visible"] else 0, "owner": owner}
    children = [
        _start(spec, "server", server_end.fileno(), [], known),
        _start(spec, "judge", judge_end.fileno(), [owner], known),
    ]
    os.close(owner)
    judge_end.close()
    server_end.close()
    poll = select.poll()
    poll.register(0, select.POLLIN)
    if hasattr(os, "pidfd_open"):
        for child in children:
            poll.register(os.pidfd_open(child.pid), select.POLLIN)
    # A fork of the owner may hold the leash as well, so the owner's process is looked at, too.
    while not poll.poll(TICK_MS) and os.getppid() == parent and all(child.poll() is None for child in children):
        pass
    for child in children:
        child.kill()
    for child in children:
        child.wait()


def _start(
    spec: dict[str, Any], role: str, control: int, more: list[int], known: dict[str, Any]
) -> subprocess.Popen[bytes]:
    """Start one process, with its program in a file that has no name."""
    source = os.memfd_create(role)
    os.write(source, spec[role]["source"].encode())
    filled = {**known, "control": control, "source": source}
    command = [part.format_map(filled) if "{" in part else part for part in spec[role]["command"]]
    started = subprocess.Popen(
        command,
        pass_fds=[control, source, *more],
        env=spec["environment"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    os.close(source)
    return started
