"""What a check looks at, and how it says what it found."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError
from comlrl_envs.registry import make as make_by_id
from comlrl_envs.tasks import Task
from comlrl_envs.testing.play import Chooser

Maker: TypeAlias = "str | Callable[..., TextEnv]"


class CheckError(AssertionError):
    """A promise that an environment does not keep.

    Args:
        what: What was seen, and what was expected.
        mend: How to put it right.
    """

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(what, mend)
        self.what = what
        self.mend = mend

    def __str__(self) -> str:
        """Both parts on one line."""
        return f"{self.what} {self.mend}"


def fail(what: str, mend: str) -> NoReturn:
    """Raise ``CheckError``."""
    raise CheckError(what, mend)


def expect(kept: bool, what: str, mend: str) -> None:
    """Raise ``CheckError`` unless the promise is kept."""
    if not kept:
        raise CheckError(what, mend)


@dataclass(frozen=True)
class Subject:
    """An environment under test: how it is built, and how thoroughly it is looked at.

    Attributes:
        make: An id, ``"package.module:function"``, or a callable that builds the environment afresh. What is checked
            in other processes or through keyword arguments needs one of the first two, or a function of a module.
        kwargs: Keyword arguments of every build.
        tasks: Most tasks that a check plays, the first of the set; None for all.
        replies: Number of hostile replies.
        step_seconds: Longest that a step may take under a hostile reply.
        gold: Row fields that no agent may be shown. None takes those that the first prompts do not depend on, which
            finds a leak in feedback but not one in a brief: name the fields where a set has any.
        items: Rows as their source has them, gold included, that the gold check plays through the parser. None takes
            the first rows of the set as the parser left them, which may be without gold.
        golden: File of golden episodes (see ``record_golden``).
        policies: Floor policies of the scenario's own, by the names in ``Scenario.floors``.
    """

    make: Maker
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    tasks: int | None = None
    replies: int = 300
    step_seconds: float = 2.0
    gold: Sequence[str] | None = None
    items: Sequence[Mapping[str, Any]] = ()
    golden: str | Path | None = None
    policies: Mapping[str, Chooser] = field(default_factory=dict)

    def env(self, **kwargs: Any) -> TextEnv:
        """The environment, built afresh; ``kwargs`` go before those of the subject.

        Raises:
            OptionError: ``make`` names nothing, or gives something else than a ``TextEnv``.
        """
        settings = {**self.kwargs, **kwargs}
        if callable(self.make):
            env = self.make(**settings)
        elif ":" in self.make:
            env = _imported(self.make)(**settings)
        else:
            env = make_by_id(self.make, **settings)
        if not isinstance(env, TextEnv):
            raise OptionError(f"make={self.make!r} gave a {type(env).__name__}; expected a comlrl_envs.TextEnv.")
        return env

    def some_tasks(self, env: TextEnv, most: int | None = None) -> list[Task]:
        """The first tasks of the set, as many as the subject and ``most`` allow."""
        limits = [limit for limit in (self.tasks, most) if limit is not None]
        return [env.tasks[place] for place in range(min([len(env.tasks), *limits]))]

    @property
    def named(self) -> bool:
        """Whether the environment is built by name, so that its keyword arguments are its module's own."""
        return isinstance(self.make, str)

    def replaced(self, **changes: Any) -> Subject:
        """A copy with other settings."""
        return dataclasses.replace(self, **changes)


def _imported(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    try:
        found: Callable[..., Any] = vars(importlib.import_module(module))[function]
    except (ImportError, KeyError) as missing:
        raise OptionError(
            f"make={name!r} cannot be imported ({missing!r}); expected an id, or 'package.module:function'."
        ) from missing
    return found
