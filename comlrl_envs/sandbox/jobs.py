"""The values that go into the sandbox and come out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from comlrl_envs.errors import OptionError, one_of

Kind = Literal["functions", "unittest"]
Outcome = Literal["passed", "failed", "error", "timeout", "not_run"]
KINDS = ("functions", "unittest")
MOST_SECONDS = 3600
MOST_BYTES = (1 << 63) - 1
"""Above this the kernel's limits of a process take no number."""
MOST_MEMORY_MB = MOST_BYTES >> 20
SHOWN_BITS = 128


@dataclass(frozen=True)
class Limits:
    """What a program may use.

    Attributes:
        cpu_seconds: CPU time of the program's process in one test, and in its definitions, up to an hour.
        idle_seconds: Time that it may sleep in one test, in all, up to an hour; waiting for a free processor is not
            sleep.
        timeouts: After so many tests that ran out of time the others are not run.
        memory_mb: Address space, in MiB, up to ``MOST_MEMORY_MB``. A lower hard limit of the machine holds, too.
        output_bytes: Printed text that is kept; the rest is dropped.
        file_bytes: Size of a file that it writes, up to ``MOST_BYTES``. A lower hard limit of the machine holds, too.
    """

    cpu_seconds: float = 3.0
    idle_seconds: float = 2.0
    timeouts: int = 3
    memory_mb: int = 512
    output_bytes: int = 65_536
    file_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        """Refuse what is no limit, and what the kernel takes for none."""
        for name, value in vars(self).items():
            seconds = name.endswith("seconds")
            kinds = int | float if seconds else int
            most = MOST_SECONDS if seconds else MOST_MEMORY_MB if name == "memory_mb" else MOST_BYTES
            if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value <= most:
                kind = "number" if seconds else "integer"
                raise OptionError(f"Limits({name}={_shown(value)}); expected a positive {kind}, at most {most}.")


def _shown(value: object) -> str:
    """As a message shows it: Python refuses to write out the longest integers."""
    if isinstance(value, int) and value.bit_length() > SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    return f"{value!r:.100}"


@dataclass(frozen=True)
class Job:
    """A program and the tests it is put to.

    Attributes:
        program: Untrusted source. It defines the entry points.
        tests: Trusted blocks of statements, run once each, in order, in one namespace; or, for ``kind="unittest"``,
            one source with ``unittest.TestCase`` classes.
        entry_points: Names of functions or classes that the tests use.
        setup: Trusted source that runs first in the tests' namespace: imports, helpers of the problem.
        limits: What the program may use.
        kind: Form of ``tests``.
        name: Names the job in errors.
    """

    program: str
    tests: tuple[str, ...]
    entry_points: tuple[str, ...]
    setup: str = ""
    limits: Limits = field(default_factory=Limits)
    kind: Kind = "functions"
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse what no worker could run."""
        one_of("kind", self.kind, KINDS)
        for name in ("program", "setup", "name"):
            if not isinstance(vars(self)[name], str):
                raise OptionError(f"{name} of a job is a {type(vars(self)[name]).__name__}; expected a str.")
        for name in ("tests", "entry_points"):
            value = vars(self)[name]
            if isinstance(value, str) or not all(isinstance(part, str) for part in value):
                raise OptionError(f"{name} of a job: {value!r:.100}; expected a tuple of str.")
            object.__setattr__(self, name, tuple(value))
        if self.kind == "unittest" and len(self.tests) != 1:
            raise OptionError(f"A job of kind 'unittest' has {len(self.tests)} sources of tests; expected one.")

    def message(self) -> dict[str, Any]:
        """The job as JSON values."""
        lists = {"tests": list(self.tests), "entry_points": list(self.entry_points)}
        return {**vars(self), **lists, "limits": dict(vars(self.limits))}


@dataclass(frozen=True)
class TestResult:
    """How one test went.

    Attributes:
        name: Place of the block, from "0"; or ``Class.method`` of a unittest.
        outcome: ``failed`` is an ``AssertionError``, ``error`` any other exception or the process's end.
        error: Type of the exception, or "".
        message: Its text, cut.
        actual: The last value that the program gave in the test, as text, where it is at hand.
    """

    # Not a test class of this project's own test runner.
    __test__ = False

    name: str
    outcome: Outcome
    error: str = ""
    message: str = ""
    actual: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What a job came to.

    Attributes:
        defined: Whether the definitions ran and every entry point exists.
        problem: Why not: exception and message, or ``timeout: …``, ``memory: …``, ``died: …``.
        tests: One result a test, in order.
        output: What the program printed, cut at ``output_bytes``.
        output_cut: Whether it printed more.
    """

    defined: bool
    problem: str | None
    tests: tuple[TestResult, ...]
    output: str
    output_cut: bool

    @property
    def passed(self) -> int:
        """Number of tests that passed."""
        return sum(test.outcome == "passed" for test in self.tests)

    @property
    def total(self) -> int:
        """Number of tests."""
        return len(self.tests)

    @classmethod
    def of(cls, message: dict[str, Any]) -> Verdict:
        """The verdict that a worker sent."""
        tests = tuple(TestResult(**test) for test in message["tests"])
        return cls(message["problem"] is None, message["problem"], tests, message["output"], message["cut"])
