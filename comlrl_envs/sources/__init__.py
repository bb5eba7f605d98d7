"""Where the rows of an environment come from: a folder, an installed package, the cache, the hub, or the demo set."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from comlrl_envs.assemble import DEMO, Loader
from comlrl_envs.errors import OptionError, closest
from comlrl_envs.sources import cache, files, hub, wheel
from comlrl_envs.sources.found import Found, Look
from comlrl_envs.sources.real_set import DataFile, RealSet
from comlrl_envs.sources.table import REAL_SETS
from comlrl_envs.tasks import Row, TaskSet

__all__ = ["REAL_SETS", "SOURCES", "DataFile", "RealSet", "loader"]

SOURCES = ("auto", "demo", "local", "package", "cache", "hub")

logger = logging.getLogger("comlrl_envs")


def loader(
    name: str,
    demo: Callable[[str], Iterable[Row]],
    real: RealSet | None = None,
    prepare: Callable[[Sequence[Row]], Sequence[Row]] | None = None,
) -> Loader:
    """The loader of the environment ``name``, for ``build_env``.

    Its sources are ``"demo"``, ``"local"`` (a data folder), ``"package"``, ``"cache"``, ``"hub"``, and ``"auto"``: the
    first of local, package, cache and hub that has the rows; for an id without a real set, the demo set.

    Args:
        name: Id without version.
        demo: Rows of the shipped demo set, given the split (``"train"`` or ``"eval"``).
        real: The real set; default: that of the table, if any.
        prepare: Makes rows to play of those of the real set, where these are more than each row by itself.

    Returns:
        A loader. It raises ``OptionError`` if the source is unknown or has no rows, and ``TaskError`` if a file or the
        cache is broken; a hub that is out of reach is given up after seconds, one that stalls after a minute.
    """
    public = REAL_SETS.get(name) if real is None else real

    def load(split: str, source: str, data_dir: str | None) -> TaskSet:
        known = SOURCES if public is not None else ("auto", "demo")
        if source not in known:
            near = closest(source, known)
            raise OptionError(f"source={source!r}; {name} has {', '.join(map(repr, known))}.{near}")
        if public is None and data_dir is not None:
            logger.warning("data_dir=%r is not looked into: %s has the demo set alone.", data_dir, name)
        if source == "demo" or public is None:
            found = Found(list(demo(split)), DEMO)
        else:
            found = _playable(name, public, _find(name, public, split, source, data_dir))
            if prepare is not None:
                found = Found(prepare(found.rows), found.origin)
        logger.info("%s, %s: %d rows, %s", name, split, len(found.rows), found.origin)
        return TaskSet(found.rows, origin=found.origin)

    return load


def _playable(name: str, real: RealSet, found: Found) -> Found:
    """The rows with their names as ids, without those that cannot be played."""
    field = real.id_field
    if field is None:
        return found
    # What is no object, or has no name, is left to the one parser of rows, which tells.
    named = [{"id": row[field], **row} if isinstance(row, Mapping) and field in row else row for row in found.rows]
    kept = [row for row in named if not (isinstance(row, Mapping) and str(row.get("id")) in real.excluded)]
    if len(kept) < len(named):
        logger.info("%s: %d rows are left out, which cannot be played.", name, len(named) - len(kept))
    return Found(kept, found.origin)


def _find(name: str, real: RealSet, split: str, source: str, data_dir: str | None) -> Found:
    places: dict[str, Callable[[], Look]] = {
        "local": lambda: files.in_folder(real, split, data_dir),
        "package": lambda: files.in_package(real, split),
        "cache": lambda: _cached(name, real, split),
    }
    reasons: list[str] = []
    for place, look in places.items():
        if source in ("auto", place):
            found = look()
            if isinstance(found, Found):
                return found
            reasons.append(found)
            if place == "local" and data_dir is not None:
                logger.warning("%s, %s: %s.", name, split, found)
    if source in ("auto", "hub") and not real.repo:
        reasons.append("the hub does not have it")
    elif source in ("auto", "hub"):
        try:
            return _from_hub(name, real, split)
        except ConnectionError as failure:
            reasons.append(str(failure))
            raise _nothing(name, source, split, reasons) from failure
    raise _nothing(name, source, split, reasons)


def _cached(name: str, real: RealSet, split: str) -> Look:
    found = cache.look(name, real, split) if real.repo else f"the cache has no {name}"
    if real.wheel is None or isinstance(found, Found):
        return found
    return files.in_wheel(real, split, wheel.kept(real.wheel))


def _from_hub(name: str, real: RealSet, split: str) -> Found:
    """Download a split and keep it in the cache, where that can be written."""
    commit, slices = hub.download(name, real, (split,))
    try:
        cache.write(name, real, commit, slices)
    except OSError as unwritable:
        logger.warning("%s was not kept in %s (%s); set %s.", name, cache.folder(name), unwritable, cache.CACHE_DIR)
    return Found(slices[split], f"hub {real.repo}@{commit}")


def _nothing(name: str, source: str, split: str, reasons: list[str]) -> OptionError:
    return OptionError(
        f"No rows of {name}, split {split!r}, source={source!r}: {'; '.join(reasons)}. Ways out: source='demo' plays "
        f"the shipped rows; `comlrl-envs fetch {name}` downloads the set where there is a network (its cache folder "
        f"may be copied, {cache.CACHE_DIR} names it); data_dir= or {files.DATA_DIR} names a folder with the set's "
        "files; tasks= takes rows of your own."
    )
