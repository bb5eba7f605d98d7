"""Runs programs that nobody trusts, and says which tests they pass.

>>> from comlrl_envs.sandbox import Job, Sandbox
>>> Sandbox().run(Job("def double(x): return 2 * x", ("assert double(2) == 4", "assert double(2) == 5"), ("double",)))
Verdict(defined=True, problem=None, tests=(TestResult(name='0', outcome='passed', error='', message='', actual=None), \
TestResult(name='1', outcome='failed', error='AssertionError', message='', actual='4')), output='', output_cut=False)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from comlrl_envs.sandbox.jobs import Job, Limits, TestResult, Verdict

if TYPE_CHECKING:
    from comlrl_envs.sandbox.handle import Sandbox

__all__ = ["Job", "Limits", "Sandbox", "TestResult", "Verdict"]


def __getattr__(name: str) -> Any:
    """Load what starts processes when it is asked for."""
    if name == "Sandbox":
        from comlrl_envs.sandbox.handle import Sandbox

        return Sandbox
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
