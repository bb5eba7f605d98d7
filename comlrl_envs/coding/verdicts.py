"""Verdicts by job: each distinct job is run once while it is remembered."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from comlrl_envs.errors import InfrastructureError
from comlrl_envs.sandbox import Job, Sandbox, Verdict

Outcomes: TypeAlias = Mapping[Job, "Verdict | InfrastructureError"]

REMEMBERED = 4096
"""Verdicts that a process keeps."""
_lock = threading.Lock()
_known: OrderedDict[tuple[Sandbox, Job], Verdict] = OrderedDict()


def judge(sandbox: Sandbox, jobs: Iterable[Job]) -> Outcomes:
    """The verdict on each job, or the failure of a machine that stands in its place; equal jobs share one.

    Jobs are taken from an iterator one by one, while the sandbox is at those before them.
    """
    found: dict[Job, Verdict | InfrastructureError] = {}
    fresh: dict[Job, None] = {}

    def unknown() -> Iterator[Job]:
        for job in jobs:
            if job in found or job in fresh:
                continue
            with _lock:
                verdict = _known.get((sandbox, job))
            if verdict is None:
                fresh[job] = None
                yield job
            else:
                found[job] = verdict

    outcomes = sandbox.run_many(unknown())
    with _lock:
        for job, outcome in zip(fresh, outcomes, strict=True):
            found[job] = outcome
            if isinstance(outcome, Verdict) and _certain(outcome):
                _known[sandbox, job] = outcome
        while len(_known) > REMEMBERED:
            _known.popitem(last=False)
    return found


def _certain(verdict: Verdict) -> bool:
    """Whether another run would give the same: time is measured, everything else follows from the program."""
    return not any(test.outcome in ("timeout", "not_run") for test in verdict.tests)
