"""What is known of a public data set: where it lies, at which commit, under which licence, which of it is played."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from comlrl_envs.errors import OptionError
from comlrl_envs.sources.wheel import Wheel
from comlrl_envs.tasks import Row

SPLITS = ("train", "eval")
_PUBLISHED = re.compile(r"(?P<split>\w+)\[(?P<start>\d*):(?P<stop>\d*)\]")


@dataclass(frozen=True)
class DataFile:
    """A file that holds rows of a set: JSONL, packed with gzip or not, or a list in JSON.

    Attributes:
        path: Below the data folder, or within the package.
        stand_in: Whether it holds other rows than the published ones, good for trying things.
        fields: Where the file calls a field otherwise, ``{name in the set: name in the file}``.
        read: Reads a file of another kind, such as a tree of articles, given its path; default: by its ending.
        percent: Where one file serves both splits, the part of it that is taken before the published slice is.
        group: Field whose equal values stay together when a part is taken; default: rows by themselves.
    """

    path: str
    stand_in: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[Path], Iterable[Row]] | None = None
    percent: tuple[int, int] = (0, 100)
    group: str | None = None


@dataclass(frozen=True)
class RealSet:
    """A public data set and the parts of it that an environment plays.

    Attributes:
        repo: On the hub; ``""`` if it is not there.
        revision: Commit, 40 hex digits; None if none is known, and then the first one fetched is kept to.
        licence: As its publishers state it.
        size: In words, of the whole set.
        published: Slice of the set for each of ``"train"`` and ``"eval"``, such as ``"test[:1000]"``.
        files: For each split the files that a data folder may hold, the first found is read.
        package: Name of an importable package that carries the rows; None if there is none.
        package_files: For each split the file within it; of a wheel the wheel itself is read in its place.
        wheel: Release of that package, which is read in the cache too; None if only an installed one is.
        config: Which of the set's configurations on the hub; None where it has one.
        id_field: Field that names a row, where rows have no ``id``.
        excluded: Rows that cannot be played, by that name, with the reason; they are left out of the published slice,
            whose bounds stay.
        remark: What else a reader should know.
    """

    repo: str
    revision: str | None
    licence: str
    size: str
    published: Mapping[str, str]
    files: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)
    package: str | None = None
    package_files: Mapping[str, DataFile] = field(default_factory=dict)
    wheel: Wheel | None = None
    config: str | None = None
    id_field: str | None = None
    excluded: Mapping[str, str] = field(default_factory=dict)
    remark: str = ""

    def __post_init__(self) -> None:
        """Check the commit and the slices."""
        if self.revision is not None and not re.fullmatch(r"[0-9a-f]{40}", self.revision):
            raise OptionError(f"revision={self.revision!r}; expected a commit of 40 hex digits: names move.")
        if tuple(self.published) != SPLITS or not all(_PUBLISHED.fullmatch(part) for part in self.published.values()):
            raise OptionError(f"published={dict(self.published)}; expected slices 'name[start:stop]' of {SPLITS}.")

    @property
    def origin(self) -> str:
        """What it is known by: its name on the hub, or the release that carries it."""
        return self.repo if self.wheel is None else self.wheel.requirement

    def part(self, split: str) -> tuple[str, slice]:
        """The set's own name of a split, and the rows of it that are played."""
        match = _PUBLISHED.fullmatch(self.published[split])
        assert match is not None
        start, stop = (int(match[bound]) if match[bound] else None for bound in ("start", "stop"))
        return match["split"], slice(start, stop)


UNPINNED = "No commit is pinned: the one of the first fetch is written down, and another one is refused later."
