"""Environments by name: ``family/name-vN``; without a version, the newest."""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeAlias

import pettingzoo

from comlrl_envs.errors import OptionError, UnknownIdError, nearest

if TYPE_CHECKING:
    from comlrl_envs.env import TextEnv
    from comlrl_envs.vector import VectorTextEnv

EntryPoint: TypeAlias = "str | Callable[..., Any]"
PLUGINS = "comlrl_envs.plugins"

logger = logging.getLogger("comlrl_envs")

_ID = re.compile(r"(?P<name>[\w.-]+/[\w.-]+?)(?:-v(?P<version>\d+))?")
_SPECS: dict[str, EnvSpec] = {}
_plugins: dict[str, str] | None = None
"""Plug-ins loaded, and what went wrong with each (``""`` if nothing); None before the first look-up."""


@dataclass(frozen=True)
class EnvSpec:
    """How to build an environment.

    Attributes:
        id: ``family/name-vN``.
        entry_point: ``"package.module:function"``, imported on use, or the function itself.
        kwargs: Keyword arguments given to it before the caller's own.
        deterministic: False if a model is asked, so that equal actions may lead to different steps. Of an id: of every
            mode that it has; of an environment's own spec: in the mode that it is in (``Scenario.deterministic``).
    """

    id: str
    entry_point: EntryPoint
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    deterministic: bool = True

    @property
    def name(self) -> str:
        """The id without its version."""
        return _parse(self.id)[0]

    @property
    def version(self) -> int | None:
        """N of ``-vN``; None without one."""
        return _parse(self.id)[1]

    def load(self) -> Callable[..., Any]:
        """The entry point, imported if it is a string."""
        if not isinstance(self.entry_point, str):
            return self.entry_point
        module, _, name = self.entry_point.partition(":")
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return found


def register(
    id: str,
    entry_point: EntryPoint,
    *,
    kwargs: Mapping[str, Any] | None = None,
    deterministic: bool = True,
    overwrite: bool = False,
) -> EnvSpec:
    """Make an environment known under ``id``.

    A versioned id with a string entry point also enters PettingZoo's own registry, where that exists.

    Raises:
        OptionError: The id does not follow the grammar, or stands for something else already.
    """
    _parse(id)
    if isinstance(entry_point, str) and not re.fullmatch(r"[\w.]+:\w+", entry_point):
        raise OptionError(f"entry_point={entry_point!r}; expected 'package.module:function', or a callable.")
    new = EnvSpec(id, entry_point, dict(kwargs or {}), deterministic)
    if id in _SPECS and _SPECS[id] != new and not overwrite:
        raise OptionError(
            f"{id!r} is registered already, for {_SPECS[id].entry_point!r}. Raise the version, or pass overwrite=True."
        )
    _SPECS[id] = new
    _mirror(new)
    return new


def spec(id: str) -> EnvSpec:
    """The spec of ``id``, of the newest version if it names none; raises ``UnknownIdError`` with the closest id."""
    _load_plugins()
    name, version = _parse(id)
    if id in _SPECS:
        return _SPECS[id]
    versions = sorted((s.version or 0, s.id) for s in _SPECS.values() if s.name == name)
    if version is None and versions:
        return _SPECS[versions[-1][1]]
    if versions:
        raise UnknownIdError(f"{name!r} has no version {version}; there are {[i for _, i in versions]}.")
    raise UnknownIdError(
        f"No environment {id!r}.{_near(name)} list_envs(), or `comlrl-envs list`, names all {len(_SPECS)}."
        f"{_plugin_failures()}"
    )


def list_envs() -> list[str]:
    """All ids, sorted."""
    _load_plugins()
    return sorted(_SPECS)


def make(id: str, **kwargs: Any) -> TextEnv:
    """Build an environment; the keyword arguments are those of its ``parallel_env``.

    Raises:
        UnknownIdError: No environment has this id.
        OptionError: A keyword argument is unknown or has a bad value.
    """
    found = spec(id)
    merged = {**found.kwargs, **kwargs}
    env: TextEnv = found.load()(**merged)
    env.spec = replace(found, kwargs=merged, deterministic=found.deterministic and _is_deterministic(env))
    return env


def _is_deterministic(env: object) -> bool:
    """What the rules say in the mode they are in; a registered environment of another kind says nothing."""
    from comlrl_envs.env import TextEnv

    return env.game.scenario.deterministic if isinstance(env, TextEnv) else True


def make_vec(id: str, num_envs: int, **kwargs: Any) -> VectorTextEnv:
    """Build ``num_envs`` environments that are stepped together; see ``VectorTextEnv``."""
    from comlrl_envs.vector import VectorTextEnv

    return VectorTextEnv(make(id, **kwargs), num_envs)


def _parse(id: str) -> tuple[str, int | None]:
    match = _ID.fullmatch(id) if isinstance(id, str) else None
    if match is None:
        raise UnknownIdError(f"{id!r} is no environment id; expected 'family/name' or 'family/name-v0'.{_near(id)}")
    return match["name"], None if match["version"] is None else int(match["version"])


def _near(id: object) -> str:
    """Suffix that names the environment nearest to ``id``, a word without a family looked up in all families."""
    names = sorted({known.name for known in _SPECS.values()})
    if "/" in str(id):
        found = nearest(id, names)
    else:
        by_last_part = {name.partition("/")[2]: name for name in names}
        word = nearest(id, by_last_part)
        found = nearest(id, names) if word is None else by_last_part[word]
    return "" if found is None else f" Did you mean {found!r}?"


def _mirror(new: EnvSpec) -> None:
    if not hasattr(pettingzoo, "register") or new.version is None or not isinstance(new.entry_point, str):
        return
    # An entry is replaced quietly: their register warns, and a warning here would be noise of our own making.
    pettingzoo.parallel_registry.pop(new.id, None)
    pettingzoo.register("parallel", new.id, new.entry_point, kwargs=dict(new.kwargs))


def _load_plugins() -> None:
    global _plugins
    if _plugins is not None:
        return
    _plugins = {}
    for point in metadata.entry_points(group=PLUGINS):
        try:
            loaded = point.load()
            if callable(loaded):
                loaded()
            _plugins[point.name] = ""
        except Exception as failure:
            # One broken plug-in must not take the shipped environments away; its ids' look-up names the failure.
            logger.exception("The plug-in %r of comlrl_envs could not be loaded", point.name)
            _plugins[point.name] = f"{type(failure).__name__}: {failure}"


def _plugin_failures() -> str:
    failed = {name: reason for name, reason in (_plugins or {}).items() if reason}
    return f" These plug-ins could not be loaded: {failed}." if failed else ""
