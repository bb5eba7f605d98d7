"""Everything this package raises on purpose.

Each message says what was given, what is expected and how to mend it. One base class, so that a caller can
catch all of them; where a built-in exception means the same, the class is one of those too.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


class ComlrlError(Exception):
    """Base of every error of this package."""


class UnknownIdError(ComlrlError, LookupError):
    """No environment or task has this id."""


class OptionError(ComlrlError, ValueError):
    """A keyword argument, a reset option or a setting is unknown or has a bad value."""


class ActionError(ComlrlError, ValueError):
    """An agent's action is missing, is not a ``str``, or belongs to no agent of the game."""


class TaskError(ComlrlError, ValueError):
    """A row of a task set cannot be played; the message names the row and the field."""


class RewardError(ComlrlError, ValueError):
    """A reward is not finite, has the wrong length, or carries undeclared names."""


class EpisodeError(ComlrlError, RuntimeError):
    """A step was asked of an episode that is over, or has not begun."""


class InfrastructureError(ComlrlError, RuntimeError):
    """A machine failed, not a player: the same move can be played again.

    Args:
        task: Id of the task whose move could not be scored.
        reason: What went wrong.
    """

    def __init__(self, task: str, reason: str = "no result came back") -> None:
        super().__init__(task, reason)
        self.task = task
        self.reason = reason

    def __str__(self) -> str:
        """One line that names the task."""
        return f"Task {self.task!r} could not be scored: {self.reason}. Nothing was lost: play the same move again."


class SandboxError(ComlrlError, RuntimeError):
    """Untrusted programs cannot be run on this machine, or not with the protection that was asked for."""


class MissingExtraError(ComlrlError, ImportError):
    """An optional dependency is not installed.

    Args:
        extra: Name of the extra that brings it.
        purpose: What needs it.
    """

    def __init__(self, extra: str, purpose: str = "This") -> None:
        super().__init__(extra, purpose)
        self.extra = extra
        self.purpose = purpose

    def __str__(self) -> str:
        """One line with the command that mends it."""
        return f'{self.purpose} needs the extra {self.extra!r}: pip install "comlrl-envs[{self.extra}]"'


def one_of(name: str, value: object, options: Collection[str]) -> None:
    """Raise ``OptionError``, with the closest of them, unless ``value`` is one of ``options``."""
    if value not in options:
        raise OptionError(f"{name}={value!r}; expected one of {tuple(options)}.{closest(str(value), options)}")


def positive_int(name: str, value: object) -> int:
    """``value`` if it is an integer >= 1; raises ``OptionError`` naming the argument."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(f"{name}={value!r}; expected a positive integer.")
    return value


def boolean(name: str, value: object) -> bool:
    """``value`` if it is True or False; raises ``OptionError`` naming the argument."""
    if not isinstance(value, bool):
        raise OptionError(f"{name}={value!r}; expected True or False.")
    return value


def closest(word: object, options: Iterable[str]) -> str:
    """Suffix that names the nearest of ``options``, or ``""`` if none is near.

    >>> closest("lenght", ["length", "width"])
    " Did you mean 'length'?"
    """
    found = nearest(word, options)
    return f" Did you mean {found!r}?" if found is not None else ""


def nearest(word: object, options: Iterable[str]) -> str | None:
    """The nearest of ``options``, or None if none is near."""
    found = difflib.get_close_matches(str(word), list(options), n=1, cutoff=0.5)
    return found[0] if found else None
