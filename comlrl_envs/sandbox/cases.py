"""Runs the ``unittest.TestCase`` classes of a job against the stand-ins of its program."""

from __future__ import annotations

import ast
import types
import unittest
from typing import Any, TypeAlias
from unittest import mock

from comlrl_envs.sandbox.link import ServerError
from comlrl_envs.sandbox.offered import TESTS
from comlrl_envs.sandbox.trial import MESSAGE_CHARS, FaultyTestsError, Result, Trial, compiled, not_run

Raised: TypeAlias = "tuple[type[BaseException], BaseException, types.TracebackType | None] | tuple[None, None, None]"


class Recorder(unittest.TestResult):
    """Writes down how each test of one class went."""

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        self._trial = trial
        self.results: dict[str, Result] = {}
        self.current: Result | None = None
        self.fixture_error = ""

    def startTest(self, test: unittest.TestCase) -> None:
        """A test begins."""
        super().startTest(test)
        self._trial.ready()
        self.current = self.results[_name(test)] = not_run(_name(test))
        # Until the runner says how it went: an exception may leave the runner without a word.
        self.current.update(outcome="error", error="")
        self._trial.arm()

    def stopTest(self, test: unittest.TestCase) -> None:
        """A test is over."""
        super().stopTest(test)
        self.close()

    def close(self) -> None:
        """The current test is over."""
        self._trial.disarm()
        if self.current is None:
            return
        result, self.current = self.current, None
        self._trial.settle(result)
        # What stands between this test and the next, such as fixtures of a class, has time of its own.
        self._trial.link.begin()
        if self._trial.exhausted():
            self.stop()

    def addSuccess(self, test: unittest.TestCase) -> None:
        """The test passed."""
        self._set(outcome="passed")

    def addError(self, test: unittest.TestCase, err: Raised) -> None:
        """Something was raised, in the test or in a fixture."""
        self._take(err)

    def addFailure(self, test: unittest.TestCase, err: Raised) -> None:
        """An assertion does not hold."""
        self._take(err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Raised | None) -> None:
        """A part of the test is over."""
        if err is not None:
            self._take(err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """The test does not want to run."""
        self._set(outcome="not_run", message=f"skipped: {self._trial.text(reason)}"[:MESSAGE_CHARS])

    def addExpectedFailure(self, test: unittest.TestCase, err: Raised) -> None:
        """The test failed, as it said it would."""
        self._set(outcome="passed")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """A test that was to fail did not."""
        self._set(outcome="failed", error="AssertionError", message="unexpected success")

    def _set(self, **outcome: str) -> None:
        if self.current is not None:
            self.current.update(outcome)

    def _take(self, err: Raised) -> None:
        error = err[1]
        if error is None:
            return
        if self.current is None:
            self.fixture_error = described(self._trial, error)
        elif self.current["error"] == "":
            self._trial.describe(self.current, error)


def run_cases(trial: Trial) -> None:
    """Run and report every test method of the job's one source, in the order of the source."""
    (source,) = trial.job["tests"]
    code = compiled(source, "test source")
    if trial.problem is None:
        before = trial.remote.requests
        try:
            exec(code, trial.module.__dict__)
        except ServerError:
            raise
        except BaseException as error:
            if trial.remote.requests == before and _fails_by_itself(trial, code):
                raise FaultyTestsError(f"the test source of the job fails: {described(trial, error)}") from None
            trial.problem = f"{type(error).__name__} while the tests were set up: {trial.text(error)}"[:MESSAGE_CHARS]
    if trial.problem is not None:
        for name in written_tests(source):
            trial.report(not_run(name))
        return
    classes = [value for value in trial.module.__dict__.values() if _is_case(value)]
    if not classes:
        raise FaultyTestsError("the test source of the job defines no unittest.TestCase")
    for case in dict.fromkeys(classes):
        _run_class(trial, case)


def described(trial: Trial, error: BaseException) -> str:
    """Type and text of an exception."""
    return f"{type(error).__name__}: {trial.text(error)}"[:MESSAGE_CHARS]


class _Neutral(type):
    """Class of a class that can be derived from, called, and has every attribute."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return mock.MagicMock()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock()


def _fails_by_itself(trial: Trial, code: types.CodeType) -> bool:
    """Whether a test source fails whatever the program is: a program of another shape may be what it fails at."""
    neutral = {name: _Neutral(name, (), {}) for name in trial.job["entry_points"]}
    try:
        exec(code, {**vars(trial.module), **neutral})
    except BaseException:
        return True
    return False


def _is_case(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == TESTS


def _run_class(trial: Trial, case: type[unittest.TestCase]) -> None:
    loader = unittest.TestLoader()
    loader.sortTestMethodsUsing = None  # type: ignore[assignment]
    names = list(loader.getTestCaseNames(case))
    recorder = Recorder(trial)
    pending = names
    while pending and not trial.exhausted():
        try:
            unittest.TestSuite([case(name) for name in pending]).run(recorder)
        except BaseException as error:
            # KeyboardInterrupt, above all, which the runner lets through.
            if isinstance(error, ServerError):
                raise
            interrupted = recorder.results[next(reversed(recorder.results))] if recorder.results else None
            if interrupted is not None and interrupted["outcome"] == "error" and interrupted["error"] == "":
                trial.describe(interrupted, error)
            else:
                recorder.fixture_error = described(trial, error)
            recorder.close()
        left = [name for name in pending if f"{case.__name__}.{name}" not in recorder.results]
        if left == pending:
            break
        pending = left
    for name in names:
        full = f"{case.__name__}.{name}"
        result = recorder.results.get(full) or not_run(full)
        if full not in recorder.results and recorder.fixture_error:
            result.update(outcome="error", error="FixtureError", message=recorder.fixture_error)
        trial.report(result)


def _name(test: unittest.TestCase) -> str:
    return f"{type(test).__name__}.{test._testMethodName}"


def written_tests(source: str) -> list[str]:
    """Names of the test methods as they stand in a source, for a program that they cannot run against."""
    return [
        f"{kind.name}.{method.name}"
        for kind in ast.parse(source).body
        if isinstance(kind, ast.ClassDef)
        for method in kind.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name.startswith("test")
    ]
