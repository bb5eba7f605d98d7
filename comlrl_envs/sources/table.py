"""The real sets that the environments are published on: where each lies, at which commit, under which licence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from comlrl_envs.errors import OptionError

SPLITS = ("train", "eval")
_PUBLISHED = re.compile(r"(?P<split>\w+)\[(?P<start>\d*):(?P<stop>\d*)\]")


@dataclass(frozen=True)
class DataFile:
    """A JSONL file that holds rows of a set.

    Attributes:
        path: Below the data folder, or within the package.
        stand_in: Whether it holds other rows than the published ones, good for trying things.
        fields: Where the file calls a field otherwise, ``{name in the set: name in the file}``.
    """

    path: str
    stand_in: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RealSet:
    """A public data set and the parts of it that an environment plays.

    Attributes:
        repo: On the hub.
        revision: Commit, 40 hex digits; None if none is known, and then the first one fetched is kept to.
        licence: As its publishers state it.
        size: In words, of the whole set.
        published: Slice of the set for each of ``"train"`` and ``"eval"``, such as ``"test[:1000]"``.
        files: For each split the files that a data folder may hold, the first found is read.
        package: Name of an importable package that carries the rows; None if there is none.
        package_files: For each split the file within it.
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
    remark: str = ""

    def __post_init__(self) -> None:
        """Check the commit and the slices."""
        if self.revision is not None and not re.fullmatch(r"[0-9a-f]{40}", self.revision):
            raise OptionError(f"revision={self.revision!r}; expected a commit of 40 hex digits: names move.")
        if tuple(self.published) != SPLITS or not all(_PUBLISHED.fullmatch(part) for part in self.published.values()):
            raise OptionError(f"published={dict(self.published)}; expected slices 'name[start:stop]' of {SPLITS}.")

    def part(self, split: str) -> tuple[str, slice]:
        """The set's own name of a split, and the rows of it that are played."""
        match = _PUBLISHED.fullmatch(self.published[split])
        assert match is not None
        start, stop = (int(match[bound]) if match[bound] else None for bound in ("start", "stop"))
        return match["split"], slice(start, stop)


REAL_SETS: Mapping[str, RealSet] = {
    "writing/tldr": RealSet(
        repo="trl-lib/tldr",
        revision="21233da376667088e6eb1ce4ce19ed832c2935d3",
        licence="CC BY 4.0 (Webis-TLDR-17)",
        size="about 117,000 train rows, of which the first 1,000 are played",
        published={"train": "train[:1000]", "eval": "test[:1000]"},
        files={
            "train": (DataFile("tldr/train.jsonl"),),
            "eval": (DataFile("tldr/eval.jsonl"), DataFile("tldr/tldr_200.jsonl", stand_in=True)),
        },
        remark="Posts of people; names and addresses may stand in them.",
    ),
    "writing/arxiv": RealSet(
        repo="OpenMLRL/arXiv_abstract",
        revision=None,
        licence="not stated; abstracts of arXiv papers, whose rights are their authors'",
        size="abstracts of 100 to 300 tokens, of which the first 1,000 of each split are played",
        published={"train": "train[:1000]", "eval": "val[:1000]"},
        files={
            "train": (DataFile("arxiv/train.jsonl"),),
            "eval": (
                DataFile("arxiv/eval.jsonl"),
                DataFile("scitldr/dev.jsonl", stand_in=True, fields={"abstract_text": "source"}),
            ),
        },
        remark="No commit is pinned: the one of the first fetch is written down, and another one is refused later.",
    ),
}
"""By id without version."""
