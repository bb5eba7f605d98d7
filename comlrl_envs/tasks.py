"""Sets of tasks with stable ids, from rows in memory, a ``datasets`` object, a stream or a JSONL file."""

from __future__ import annotations

import functools
import itertools
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast, overload

import numpy as np

from comlrl_envs.errors import OptionError, TaskError, UnknownIdError, closest, positive_int

Row: TypeAlias = Mapping[str, Any]
Parse: TypeAlias = Callable[[Row], Row]
Rows: TypeAlias = "Iterable[Row] | Callable[[], Iterable[Row]] | str | Path"
"""What a ``TaskSet`` is made of."""

WINDOW = 1000
"""Rows of a stream that are kept, unless told otherwise."""

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
    """An immutable sequence of tasks; the head of a longer stream, if it is made of one.

    Lists and JSONL files are parsed at once, a stream's first ``window`` rows too. Other sequences, such as a
    memory-mapped ``datasets.Dataset``, are parsed row by row when asked; only their ids are looked at before.

    Args:
        rows: Mappings in a list, another sequence or a stream, or the path of a JSONL file. A stream is any other
            iterable (a ``datasets.IterableDataset``), or a function that returns one; with a ``window``, a JSONL
            file is read as a stream too.
        parse: Checks a row and returns the fields to play. It may raise ``KeyError`` for a missing field,
            ``TypeError`` or ``ValueError`` for a bad one; all become a ``TaskError`` that names the row.
        window: Rows kept of a stream, >= 1; default 1000.
        origin: Where the rows come from, in words.

    Attributes:
        origin: As given; parts and copies keep it.

    A row's id is its field ``id``, a text or an integer, or else its position. Integers, strings and slices index
    the set: ``tasks[3]``, ``tasks["bees"]``, ``tasks[:100]``. ``len``, indices and draws speak of the window;
    ``stream()`` goes on beyond it. A pickled set carries its window alone.

    Raises:
        OptionError: ``rows`` is nothing of the kind, or holds no row.
        TaskError: A row is bad, or two rows (of a stream: of its window) have the same id.
    """

    def __init__(
        self, rows: Rows, parse: Parse | None = None, window: int | None = None, *, origin: str = "given rows"
    ) -> None:
        self.origin = origin
        self._parse = parse
        self._rows: Sequence[Row] | None = None
        self._source: _Source | None = None
        self._order: Sequence[int] = ()
        self._tasks: list[Task] = []
        self._places: dict[str, int] | None = None
        if window is not None:
            positive_int("window", window)
        if isinstance(rows, str | Path):
            rows = list(read_jsonl(Path(rows))) if window is None else functools.partial(read_jsonl, Path(rows))
        # A pandas frame has a length and items too, but its items are columns.
        if isinstance(rows, Mapping) or hasattr(rows, "iterrows") or not (isinstance(rows, Iterable) or callable(rows)):
            raise OptionError(
                f"tasks is a {type(rows).__name__}; expected a list of rows (mappings), a datasets.Dataset or "
                "IterableDataset (one split), a function that returns an iterator of rows, or the path of a JSONL "
                "file. Of a data frame, pass frame.to_dict('records')."
            )
        if hasattr(rows, "__len__") and hasattr(rows, "__getitem__") and not isinstance(rows, list | tuple):
            self._rows = cast("Sequence[Row]", rows)
            self._order = range(len(self._rows))
            _refuse_equal_ids(self._rows)
        else:
            if not isinstance(rows, list | tuple):
                self._source = _Source(rows)
                rows = self._source.head(WINDOW if window is None else window)
            self._tasks = [self.from_row(row, i) for i, row in enumerate(rows)]
            self._order = range(len(self._tasks))
            self._index()
        if not self._order:
            raise OptionError("tasks holds no rows; pass at least one.")

    def from_row(self, row: Row, position: int | str = "item") -> Task:
        """The one parser of rows; ``position`` is the id of a row that has none."""
        if not isinstance(row, Mapping):
            raise TaskError(
                f"Task {position}: the row is a {type(row).__name__}, expected a mapping of its fields, such as a dict."
            )
        name = _own_id(row, position)
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
        checked = self._twin()
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

    def stream(self) -> Iterator[Task]:
        """All tasks, one after the other, those of a stream beyond its window too; memory stays flat.

        Ids beyond the window are not compared. An iterator can be gone through once, everything else again and again.

        Raises:
            OptionError: The rows came from an iterator that was gone through, or this is a copy from another process.
        """
        if self._source is None:
            return iter(self)
        return (self.from_row(row, i) for i, row in enumerate(self._source.all()))

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

    def __getstate__(self) -> dict[str, Any]:
        """All but the source of a stream: an iterator or a function of the caller's may not cross processes."""
        return {**self.__dict__, "_source": None if self._source is None else _Source(None)}

    def _twin(self) -> TaskSet:
        twin = object.__new__(TaskSet)
        twin.__dict__.update(self.__dict__)
        return twin

    def _part(self, index: slice) -> TaskSet:
        part = self._twin()
        part._order = self._order[index]
        part._places = part._source = None
        if not part._order:
            window = " A stream is sliced within its window; pass TaskSet(rows, window=...)." if self._source else ""
            raise OptionError(f"The slice {index.start}:{index.stop} of {len(self)} tasks is empty; widen it.{window}")
        return part

    def _index(self) -> dict[str, int]:
        if self._places is None:
            places: dict[str, int] = {}
            for place, task in enumerate(self):
                if task.id in places:
                    raise _equal_ids(task.id, places[task.id], place)
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


class _Source:
    """Where a stream begins anew: something iterable, or a function that returns it; None where it stayed behind."""

    def __init__(self, rows: Iterable[Row] | Callable[[], Iterable[Row]] | None) -> None:
        self._rows = rows
        self._once = isinstance(rows, Iterator)
        self._head: list[Row] = []

    def head(self, count: int) -> list[Row]:
        """The first ``count`` rows."""
        taken = list(itertools.islice(self._begin(), count))
        if self._once:
            # What an iterator gave is not given again, so its head is kept for whoever wants all.
            self._head = taken
        return taken

    def all(self) -> Iterator[Row]:
        """Every row from the first on."""
        if self._rows is None:
            raise OptionError(
                "These tasks are the window of a stream that is gone: its iterator was gone through, or the set came "
                "from another process. Make the TaskSet anew there, of a function that returns an iterator."
            )
        rows = self._begin()
        if not self._once:
            return rows
        self._rows = None
        return itertools.chain(self._head, rows)

    def _begin(self) -> Iterator[Row]:
        rows = self._rows() if callable(self._rows) else self._rows
        if isinstance(rows, Mapping | str) or not isinstance(rows, Iterable):
            raise OptionError(f"The function in tasks returned a {type(rows).__name__}; return an iterator of rows.")
        return iter(rows)


def _own_id(row: Row, position: int | str) -> str:
    """The row's field ``id`` as text, or its position."""
    given = row.get("id")
    if given is None:
        return str(position)
    whole = hasattr(given, "__index__") and not isinstance(given, bool)
    if given == "" or not (isinstance(given, str) or whole):
        raise TaskError(
            f"Task {position}: the id is {given!r}, a {type(given).__name__}; expected a text or an integer. Turn it "
            "into one with str(), or leave it out, and the row's position is its id."
        )
    return given if isinstance(given, str) else str(operator.index(given))


def _refuse_equal_ids(rows: Sequence[Row]) -> None:
    """Look through the ids of a sequence that is else read row by row; only a number is kept of each."""
    columns: list[str] | None = rows.column_names if hasattr(rows, "column_names") else None
    if not len(rows):
        return
    first = rows[0] if columns is None else dict.fromkeys(columns)
    if not isinstance(first, Mapping) or "id" not in first:
        return
    shown: Any = rows if columns is None else cast("Any", rows).select_columns(["id"])
    hashes = np.fromiter((hash(_own_id(row, i)) for i, row in enumerate(shown)), np.int64, len(rows))
    order = np.argsort(hashes, kind="stable")
    for at in np.flatnonzero(np.diff(hashes[order]) == 0):
        one, other = int(order[at]), int(order[at + 1])
        if _own_id(rows[one], one) == _own_id(rows[other], other):
            raise _equal_ids(_own_id(rows[one], one), one, other)


def _equal_ids(name: str, one: int, other: int) -> TaskError:
    return TaskError(f"Task id {name!r} stands at {one} and at {other}; ids must differ. Rename one.")


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


def read_jsonl(path: Path) -> Iterator[Row]:
    """The rows of a JSONL file, read as they are asked for.

    Raises:
        OptionError: There is no such file.
        TaskError: A line is not JSON, or not UTF-8.
    """
    if not path.is_file():
        raise OptionError(f"tasks={str(path)!r} is no file; expected the path of a JSONL file, one row a line.")
    return _lines(path)


def _lines(path: Path) -> Iterator[Row]:
    # Lines are cut at the byte \n alone: other line separators may stand inside a JSON text.
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except (ValueError, RecursionError) as bad:
                raise TaskError(f"{path} line {number} is not JSON ({bad}); write one object a line (UTF-8).") from bad
