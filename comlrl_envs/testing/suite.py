"""The checks by name, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from comlrl_envs.errors import OptionError, closest
from comlrl_envs.testing import api, determinism, gold, golden, keywords, proof, signals, texts, wrappers
from comlrl_envs.testing.subject import CheckError, Maker, Subject

Check: TypeAlias = Callable[[Subject], "str | None"]

CHECKS: Mapping[str, Check] = {
    "attributes": api.check_attributes,
    "parallel_api": api.check_parallel_api,
    "seed_suites": api.check_seed_suites,
    "aec_api": api.check_aec_api,
    "state_suite": api.check_state_suite,
    "spaces": api.check_spaces,
    "rewards": signals.check_rewards,
    "endings": signals.check_endings,
    "infos": signals.check_infos,
    "bad_actions": texts.check_bad_actions,
    "hostile_replies": texts.check_hostile_replies,
    "resets": determinism.check_resets,
    "replay": determinism.check_replay,
    "fork": determinism.check_fork,
    "saved_state": determinism.check_saved_state,
    "pickle": determinism.check_pickle,
    "global_generators": determinism.check_global_generators,
    "pure_reads": determinism.check_pure_reads,
    "keyword_arguments": keywords.check_keyword_arguments,
    "gold": gold.check_gold,
    "oracle": proof.check_oracle,
    "floors": proof.check_floors,
    "channel": proof.check_channel,
    "golden": golden.check_golden_file,
    "supersuit": wrappers.check_supersuit,
}
"""Each raises ``CheckError``, or what the environment raised; it returns why it could not check all, or None."""


@dataclass(frozen=True)
class Failure:
    """A check that did not pass.

    Attributes:
        check: Its name in ``CHECKS``.
        what: What was seen.
        mend: How to put it right.
    """

    check: str
    what: str
    mend: str


class ConformanceError(AssertionError):
    """An environment breaks promises.

    Args:
        name: What was checked.
        failures: All of them.
    """

    def __init__(self, name: str, failures: tuple[Failure, ...]) -> None:
        super().__init__(name, failures)
        self.name = name
        self.failures = failures

    def __str__(self) -> str:
        """One paragraph a failure."""
        told = "".join(f"\n- {one.check}: {one.what}\n  {one.mend}" for one in self.failures)
        return f"{self.name} fails {len(self.failures)} of {len(CHECKS)} checks:{told}"


def run_check(name: str, subject: Subject) -> str | None:
    """Run one check.

    Returns:
        Why it could not check all, or None.

    Raises:
        CheckError: A promise is not kept, or the environment raised something.
        OptionError: There is no such check.
    """
    if name not in CHECKS:
        raise OptionError(f"There is no check {name!r}; there are {', '.join(CHECKS)}.{closest(name, CHECKS)}")
    try:
        return CHECKS[name](subject)
    except CheckError:
        raise
    except Exception as crash:
        raise CheckError(f"{type(crash).__name__}: {crash}.", "The traceback of CHECKS[name] shows where.") from crash


def check_env(make: Maker | Subject, *, skip: Iterable[str] = (), **options: Any) -> dict[str, str]:
    """Run every check on an environment.

    Args:
        make: An id, ``"package.module:function"``, a callable that builds the environment, or a ``Subject``.
        skip: Names of checks that are left out.
        options: Fields of ``Subject``, such as ``kwargs``, ``gold``, ``golden`` or ``replies``.

    Returns:
        For each check that could not check all: why.

    Raises:
        ConformanceError: Some check failed; it lists all that did.
        OptionError: An option or a skipped check is unknown.

    Example:
        >>> from comlrl_envs.testing import check_env
        >>> check_env("writing/length_ratio", skip=["supersuit"])["golden"]
        'no file of golden episodes was given'
    """
    subject = make.replaced(**options) if isinstance(make, Subject) else _subject(make, options)
    left_out = set(skip)
    for name in left_out - set(CHECKS):
        raise OptionError(f"skip names {name!r}, which is no check.{closest(name, CHECKS)}")
    notes: dict[str, str] = {}
    failures = []
    for name in CHECKS:
        if name in left_out:
            continue
        try:
            note = run_check(name, subject)
        except CheckError as broken:
            failures.append(Failure(name, broken.what, broken.mend))
        else:
            if note:
                notes[name] = note
    if failures:
        raise ConformanceError(str(subject.make), tuple(failures))
    return notes


def _subject(make: Maker, options: Mapping[str, Any]) -> Subject:
    known = [name for name in Subject.__dataclass_fields__ if name != "make"]
    for name in options:
        if name not in known:
            raise OptionError(f"check_env takes no option {name!r}; it takes {', '.join(known)}.{closest(name, known)}")
    return Subject(make, **options)
