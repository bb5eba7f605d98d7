"""Sets of tasks with stable ids, from rows in memory, a ``datasets`` object, a stream or a JSONL file."""

from __future__ import annotations

import copy
import itertools
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast, overload

import numpy as np

from comlrl_envs.errors import OptionError, TaskError, UnknownIdError, closest

Row: TypeAlias = Mapping[str, Any]
Parse: TypeAlias = Callable[[Row], Row]

_SPLIT = re.compile(r"(?P<name>\w+)(?:\[(?P<start>-?\d+)?:(?P<stop>-?\d+)?\])?")


@dataclass(frozen=True)
class Task:
    """One row to play.

    Attributes:
        id: Stable within a split.
        fields: The parsed row; read only.
    """

    id: str
    fields: Row


class TaskSet:
    """An immutable sequence of tasks.

    Lists, JSONL files and streams are parsed at once (a stream: its first ``window`` rows); other sequences, such
    as a memory-mapped ``datasets.Dataset``, row by row when asked.

    Args:
        rows: Mappings, in a sequence or a stream, or the path of a JSONL file.
        parse: Checks a row and returns the fields to play. It may raise ``KeyError`` for a missing field,
            ``TypeError`` or ``ValueError`` for a bad one; all become a ``TaskError`` that names the row.
        window: Rows taken from a stream.

    A row's id is its field ``id``, or else its position. Integers, strings and slices index the set:
    ``tasks[3]``, ``tasks["bees"]``, ``tasks[:100]``.
    """

    def __init__(self, rows: Iterable[Row] | str | Path, parse: Parse | None = None, window: int = 1000) -> None:
        self._parse = parse
        self._rows: Sequence[Row] | None = None
        self._order: Sequence[int] = ()
        self._tasks: list[Task] = []
        self._places: dict[str, int] | None = None
        if isinstance(rows, str | Path):
            rows = _read_jsonl(Path(rows))
        if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
            raise OptionError(
                f"tasks is a {type(rows).__name__}; expected a list of rows (mappings), a datasets.Dataset or "
                "IterableDataset, or the path of a JSONL file."
            )
        if hasattr(rows, "__len__") and hasattr(rows, "__getitem__") and not isinstance(rows, list | tuple):
            self._rows = cast("Sequence[Row]", rows)
            self._order = range(len(self._rows))
        else:
            taken = rows if isinstance(rows, list | tuple) else itertools.islice(rows, window)
            self._tasks = [self.from_row(row, i) for i, row in enumerate(taken)]
            self._order = range(len(self._tasks))
            self._index()
        if not self._order:
            raise OptionError("tasks holds no rows; pass at least one.")

    def from_row(self, row: Row, position: int | str = "item") -> Task:
        """The one parser of rows; ``position`` is the id of a row that has none."""
        if not isinstance(row, Mapping):
            raise TaskError(
                f"Task {position}: the row is a {type(row).__name__}, expected a mapping such as {{'prompt': '...'}}."
            )
        name = str(row["id"]) if row.get("id") is not None else str(position)
        if self._parse is None:
            return Task(name, row)
        try:
            return Task(name, self._parse(row))
        except KeyError as missing:
            field = missing.args[0]
            raise TaskError(
                f"Task {name!r} has no field {field!r}; it has {sorted(map(str, row))}. Add the field to the row."
                f"{closest(field, map(str, row))}"
            ) from missing
        except (TypeError, ValueError) as bad:
            raise TaskError(f"Task {name!r} cannot be played: {bad}") from bad

    def parsed_by(self, parse: Parse) -> TaskSet:
        """The same tasks, their rows checked by ``parse`` as well."""
        own = self._parse
        checked = copy.copy(self)
        checked._parse = parse if own is None or own is parse else _Both(own, parse)
        checked._tasks = [checked.from_row(task.fields, task.id) for task in self._tasks]
        return checked

    def by_id(self, name: str) -> Task:
        """The task with this id; raises ``UnknownIdError`` with the closest one."""
        places = self._index()
        if name not in places:
            raise UnknownIdError(f"No task {name!r} among {len(self)} tasks.{closest(name, places)}")
        return self[places[name]]

    def draw(self, rng: np.random.Generator) -> Task:
        """A task, each with the same chance."""
        return self[int(rng.integers(len(self)))]

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Task]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int | str) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> TaskSet: ...
    def __getitem__(self, index: int | str | slice) -> Task | TaskSet:
        """A task by position or id, or a part of the set."""
        if isinstance(index, str):
            return self.by_id(index)
        if isinstance(index, slice):
            return self._part(index)
        place = operator.index(index)
        if not -len(self) <= place < len(self):
            raise OptionError(f"Task index {place} is out of range; there are {len(self)} tasks, from 0.")
        at = self._order[place]
        return self._tasks[at] if self._rows is None else self.from_row(self._rows[at], at)

    def __deepcopy__(self, memo: dict[int, Any]) -> TaskSet:
        """The set itself: it never changes, and copying its rows would dominate a copy of an environment."""
        return self

    def __repr__(self) -> str:
        """Short, whatever the rows hold."""
        return f"TaskSet({len(self)} tasks)"

    def _part(self, index: slice) -> TaskSet:
        part = copy.copy(self)
        part._order = self._order[index]
        part._places = None
        if not part._order:
            raise OptionError(f"The slice {index.start}:{index.stop} of {len(self)} tasks is empty; widen it.")
        return part

    def _index(self) -> dict[str, int]:
        if self._places is None:
            places: dict[str, int] = {}
            for place, task in enumerate(self):
                if task.id in places:
                    raise TaskError(
                        f"Task id {task.id!r} stands at {places[task.id]} and at {place}; ids must differ. Rename one."
                    )
                places[task.id] = place
            self._places = places
        return self._places


@dataclass(frozen=True)
class _Both:
    """Two parsers in turn; a class, so that a set that holds it can be pickled."""

    first: Parse
    second: Parse

    def __call__(self, row: Row) -> Row:
        return self.second(self.first(row))


def parse_split(split: str) -> tuple[str, slice]:
    """Split name and slice of ``"train"``, ``"eval"``, ``"train[:1000]"``, ``"eval[10:20]"``."""
    match = _SPLIT.fullmatch(split) if isinstance(split, str) else None
    if match is None or match["name"] not in ("train", "eval"):
        raise OptionError(
            f"split={split!r}; expected 'train' or 'eval', or a slice of one in rows, such as 'train[:1000]'."
            f"{closest(split, ('train', 'eval'))}"
        )
    bounds = [int(match[part]) if match[part] else None for part in ("start", "stop")]
    return match["name"], slice(*bounds)


def _read_jsonl(path: Path) -> list[Row]:
    if not path.is_file():
        raise OptionError(f"tasks={str(path)!r} is no file; expected the path of a JSONL file, one row a line.")
    rows: list[Row] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as bad:
            raise TaskError(f"{path} line {number} is not JSON ({bad}); write one object a line.") from bad
    return rows
