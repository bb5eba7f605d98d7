"""Runs the tests of one job, in a process of its own that holds no candidate code."""

from __future__ import annotations

import functools
import random
import signal
import sys
import types
from collections.abc import Callable
from typing import Any

from comlrl_envs.sandbox.link import Ended, Link, ServerError
from comlrl_envs.sandbox.offered import TESTS
from comlrl_envs.sandbox.proxies import RemoteMethod, RemoteObject
from comlrl_envs.sandbox.remote import Remote
from comlrl_envs.sandbox.values import no_text, text_of

MESSAGE_CHARS = 500
NAME_CHARS = 100
ACTUAL_CHARS = 200
TEXT_SECONDS = 0.5
"""CPU time for the text of a value: one that holds itself many times over would never be written."""
TESTS_FILE = "<tests>"
Result = dict[str, Any]


class FaultyTestsError(Exception):
    """The job's trusted part cannot be run: nobody's program is to blame."""


class Trial:
    """One job and its verdict so far.

    Args:
        job: The fields of a ``Job``.
        link: Connection to a candidate that has just been spawned.
        report: Takes each result as it is known.
    """

    def __init__(self, job: dict[str, Any], link: Link, report: Callable[[Result], None]) -> None:
        self.job = job
        self.link = link
        self.report = report
        self.remote = Remote(link, objects=job["kind"] == "unittest")
        self.module = types.ModuleType(TESTS)
        self.timeouts = 0
        self._armed = self._overran = False
        self.problem: str | None = None

    def run(self) -> None:
        """Define the program, run each test, and report; raises ``FaultyTestsError`` and ``ServerError``."""
        random.seed(0)
        signal.signal(signal.SIGPROF, self._overrun)
        entries, self.problem = self.remote.define(self.job["program"], self.job["entry_points"])
        sys.modules[TESTS] = self.module
        self.module.__dict__["__file__"] = TESTS_FILE
        self._run_setup()
        self.module.__dict__.update(entries)
        self.link.hear = _hear
        if self.job["kind"] == "unittest":
            # Imported here: jobs of the other kind do without.
            from comlrl_envs.sandbox.cases import run_cases

            run_cases(self)
        else:
            self._run_blocks()

    def _run_setup(self) -> None:
        code = compiled(self.job["setup"], "setup")
        try:
            exec(code, self.module.__dict__)
        except BaseException as error:
            raise FaultyTestsError(f"the setup of the job fails: {type(error).__name__}: {text_of(error)}") from None

    def _run_blocks(self) -> None:
        blocks = [compiled(block, f"test {number}") for number, block in enumerate(self.job["tests"])]
        for number, code in enumerate(blocks):
            result = not_run(str(number))
            if self.ready():
                self._attempt(result, functools.partial(exec, code, self.module.__dict__))
            self.report(result)

    def ready(self) -> bool:
        """Whether the next test can run; a candidate that was ended is replaced by a fresh one."""
        if self.problem is not None or self.exhausted():
            return False
        if self.link.ended is not None:
            self.link.spawn()
            self.link.begin()
            _, problem = self.remote.define(self.job["program"], self.job["entry_points"])
            if problem is not None:
                self.timeouts = self.job["limits"]["timeouts"]
                return False
        self.link.begin()
        self.remote.forget()
        return True

    def exhausted(self) -> bool:
        """Whether so many tests ran out of time that no more are tried."""
        return bool(self.timeouts >= self.job["limits"]["timeouts"])

    def _attempt(self, result: Result, test: Callable[[], Any]) -> None:
        """Run one test and write into ``result`` how it went."""
        error = self._timed(test, self.job["limits"]["cpu_seconds"])
        if error is None:
            result["outcome"] = "passed"
        else:
            self.describe(result, error)
        self.settle(result)

    def _timed(self, action: Callable[[], Any], seconds: float) -> BaseException | None:
        """What the action raises, if anything, within its CPU time; the clock may raise at any place in here."""
        try:
            try:
                self.arm(seconds)
                action()
            finally:
                self.disarm()
        except BaseException as error:
            self.disarm()
            return error
        return None

    def arm(self, seconds: float | None = None) -> None:
        """From now on the tests' own CPU time counts."""
        self._overran = False
        self._armed = True
        signal.setitimer(signal.ITIMER_PROF, seconds or self.job["limits"]["cpu_seconds"], 1.0)

    def disarm(self) -> None:
        """The test is over."""
        self._armed = False
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _overrun(self, signum: int, frame: types.FrameType | None) -> None:
        if self._armed:
            self._overran = True
            raise Ended("timeout", "the test itself used up its CPU time")

    def describe(self, result: Result, error: BaseException) -> None:
        """Write what was raised into ``result``."""
        result["outcome"] = "failed" if isinstance(error, AssertionError) else "error"
        result["error"] = type(error).__name__[:NAME_CHARS]
        if self._overran or self.link.ended is not None or self.link.broken:
            # There is more to say than what was raised, and nobody to be asked for texts.
            return
        result["message"] = self.text(error)[:MESSAGE_CHARS]
        result["actual"] = self._actual()

    def text(self, value: Any, write: Callable[[Any], str] = str) -> str:
        """The text of a value in which the program may have a part, whatever that does."""
        words = ""

        def attempt() -> None:
            nonlocal words
            words = write(value)

        armed, overran, left = self._armed, self._overran, signal.getitimer(signal.ITIMER_PROF)[0]
        error = self._timed(attempt, TEXT_SECONDS)
        if self._overran:
            error = TimeoutError()
            # Cut off in the middle of a request, the program cannot be understood any more.
            overran = overran or self.link.waiting > 0
        if armed:
            self.arm(max(left, 0.01))
        self._overran = overran
        return words if error is None else no_text(error)

    def settle(self, result: Result) -> None:
        """A test during which the candidate was given up has not passed, whatever the test made of it."""
        if self.link.broken:
            raise ServerError("the fork server failed during a test")
        if self._overran:
            self.link.give_up("timeout", "the test itself used up its CPU time")
        ended = self.link.ended
        if ended is None:
            return
        timed_out = ended.kind == "timeout"
        self.timeouts += timed_out
        result["outcome"] = "timeout" if timed_out else "error"
        result["error"] = "TimeoutError" if timed_out else "ProcessDied"
        result["message"] = ended.reason[:MESSAGE_CHARS]
        result["actual"] = None

    def _actual(self) -> str | None:
        """The last value that the program gave, if it is at hand."""
        value = self.remote.last
        if value is NotImplemented or isinstance(value, RemoteMethod):
            return None
        if isinstance(value, RemoteObject):
            return f"<{type(value).__name__[:NAME_CHARS]} object>"
        words = self.text(value, repr)
        return words if len(words) <= ACTUAL_CHARS else words[: ACTUAL_CHARS - 3] + "..."


def not_run(name: str) -> Result:
    """The result of a test that has not run."""
    return {"name": name, "outcome": "not_run", "error": "", "message": "", "actual": None}


def compiled(source: str, what: str) -> types.CodeType:
    """Code of a trusted source; raises ``FaultyTestsError`` if it does not parse."""
    try:
        return compile(source, f"<{what}>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise FaultyTestsError(f"the {what} of the job does not parse: {error}") from None


def _hear(words: str) -> None:
    """What the program prints appears where the tests' own prints go, which a test may have redirected."""
    sys.stdout.write(words)
