"""What each backend stops, and what it does not. Tests attack every line, and assert all columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Threat:
    """Something that a candidate program may try.

    Attributes:
        name: Short name.
        what: What it does.
        fork: Whether the backend ``fork`` stops it, with the kernel's filter of system calls.
        unfiltered: Whether ``fork`` stops it where the kernel takes no filter.
        bwrap: Whether the backend ``bwrap`` stops it.
    """

    name: str
    what: str
    fork: bool
    unfiltered: bool
    bwrap: bool


MATRIX = (
    Threat("endless_loop", "runs for ever, also inside `try: ... except Exception`", True, True, True),
    Threat("loop_in_c", "runs for ever in C, in a regular expression or a power", True, True, True),
    Threat("sleep", "sleeps, or waits for what never comes", True, True, True),
    Threat(
        "exit", "ends its process by `sys.exit`, `os._exit` or a fault, to be taken for a success", True, True, True
    ),
    Threat("forge_output", "prints what looks like a result", True, True, True),
    Threat("forge_message", "writes messages of its own into the link to the tests", True, True, True),
    Threat(
        "frames",
        "walks the stack frames and the objects of the garbage collector for expected values",
        True,
        True,
        True,
    ),
    Threat("patch", "replaces built-in functions and the assertion machinery", True, True, True),
    Threat("equality", "returns objects that say they are equal to anything", True, True, True),
    Threat("atexit", "leaves functions, finalizers and threads for later", True, True, True),
    Threat("memory", "allocates 10 GB", True, True, True),
    Threat("recursion", "recurses without end, also past the interpreter's own limit", True, True, True),
    Threat("flood", "prints without end", True, True, True),
    Threat("big_file", "writes a huge file", True, True, True),
    Threat("environment", "reads the environment variables of the caller from its own", True, True, True),
    Threat("fork_bomb", "forks without end", True, False, True),
    Threat("daemon", "leaves a process behind, by two forks and a session of its own", True, True, True),
    Threat("outlive", "outlives the sandbox, if its owner is killed meanwhile", True, False, True),
    Threat("program", "starts another program", True, False, True),
    Threat("kill", "sends signals to other processes", True, False, True),
    Threat("network", "opens sockets", True, False, True),
    Threat("shared_memory", "leaves shared memory of System V behind", True, False, True),
    Threat("write_outside", "writes to files of the machine outside its scratch folder", False, False, True),
    Threat("read_files", "reads files of the caller", False, False, True),
    Threat("see_processes", "looks at other processes in /proc", False, False, True),
    Threat("fill_disk", "fills the disk with many files of the allowed size, until its end", False, False, False),
)
"""``bwrap`` is listed with the filter, which it adds where the kernel takes one."""


def table() -> str:
    """The matrix in Markdown."""
    lines = ["| a program | `fork` | `fork`, no filter | `bwrap` |", "| --- | --- | --- | --- |"]
    for threat in MATRIX:
        marks = ["stopped" if held else "**not stopped**" for held in (threat.fork, threat.unfiltered, threat.bwrap)]
        lines.append(f"| {threat.what} | {' | '.join(marks)} |")
    return "\n".join(lines)
