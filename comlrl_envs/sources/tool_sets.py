"""The sets of the tool-use family: the Berkeley Function Calling Leaderboard, in its package ``bfcl-eval``."""

from __future__ import annotations

import itertools
import json
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from comlrl_envs.sources.real_set import DataFile, RealSet
from comlrl_envs.sources.wheel import Wheel, checked
from comlrl_envs.tasks import Row

BFCL = Wheel(
    project="bfcl-eval",
    version="2026.3.23",
    sha256="3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a",
    size=1_925_664,
)
CLASS_FILES: Mapping[str, str] = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""By class the file that documents its functions."""

_DISPUTED = "its gold calls are disputed: bfcl issue 1133"
KNOWN_WRONG: Mapping[str, str] = {
    "parallel_84": f"three of its four calls are wrong; {_DISPUTED}",
    "parallel_155": f"a default must be given; {_DISPUTED}",
    "parallel_158": f"two of its four calls are wrong; {_DISPUTED}",
    "parallel_170": _DISPUTED,
    "multi_turn_base_198": "its booking id stands in no request: bfcl issues 771 to 1267",
    "multi_turn_long_context_198": "its booking id stands in no request, as in multi_turn_base_198",
    "multi_turn_miss_func_198": "its booking id stands in no request, as in multi_turn_base_198",
    "multi_turn_miss_param_198": "its booking id stands in no request, as in multi_turn_base_198",
}
"""Rows whose gold is known to be wrong, with the reason; they are left out."""


def official_rows(place: Path, category: str) -> Iterator[Row]:
    """All rows of a category, those of ``KNOWN_WRONG`` too, each with its gold calls.

    Args:
        place: The wheel, or the package's folder.
        category: Such as ``"parallel_multiple"`` or ``"multi_turn_base"``.

    Yields:
        The question's fields, ``ground_truth`` where the category has gold calls, and in multi-turn categories
        ``function_documents``, by class.
    """
    answers = {}
    if category != "irrelevance":
        lines = _lines(place, f"possible_answer/BFCL_v4_{category}.json")
        answers = {row["id"]: row["ground_truth"] for row in lines}
    for row in _lines(place, f"BFCL_v4_{category}.json"):
        gold = {"ground_truth": answers[row["id"]]} if answers else {}
        if "involved_classes" in row:
            gold["function_documents"] = {
                name: list(_lines(place, f"multi_turn_func_doc/{CLASS_FILES[name]}.json"))
                for name in row["involved_classes"]
            }
        yield {**row, **gold}


def _lines(place: Path, name: str) -> Iterator[Row]:
    if place.suffix == ".whl":
        with zipfile.ZipFile(place) as packed:
            text = packed.read(f"{BFCL.package}/data/{name}").decode("utf-8")
    else:
        text = (place / "data" / name).read_text(encoding="utf-8")
    return (json.loads(line) for line in text.splitlines() if line.strip())


def _read(path: Path, categories: tuple[str, ...], percent: tuple[int, int]) -> Iterator[Row]:
    """A part of each category, a row of each in turn, from the wheel or from the file that begins the package."""
    place = checked(path, BFCL) if path.suffix == ".whl" else path.parent
    parts = []
    for category in categories:
        rows = list(official_rows(place, category))
        first, last = (len(rows) * bound // 100 for bound in percent)
        parts.append(rows[first:last])
    for turn in itertools.zip_longest(*parts):
        yield from (row for row in turn if row is not None)


_PARTS = {"train": (0, 80), "eval": (80, 100)}
"""Per cent of each category: the leaderboard has no training rows."""


def _real(categories: tuple[str, ...], size: str, repo: str = "", rows: tuple[int, int] | None = None) -> RealSet:
    readers = {split: partial(_read, categories=categories, percent=part) for split, part in _PARTS.items()}
    train, held_out = ("", "") if rows is None else map(str, rows)
    return RealSet(
        repo=repo,
        revision=None,
        licence="Apache-2.0",
        size=size,
        published={"train": f"train[:{train}]", "eval": f"eval[:{held_out}]"},
        files={
            split: (DataFile(BFCL.data_path, read=read), DataFile("bfcl/bfcl_eval/__init__.py", read=read))
            for split, read in readers.items()
        },
        wheel=BFCL,
        package=BFCL.package,
        package_files={split: DataFile("__init__.py", read=read) for split, read in readers.items()},
        id_field="id",
        excluded=KNOWN_WRONG,
        remark="The first four fifths of each category are for training, the rest is held out.",
    )


_SETS: Mapping[str, Mapping[str, RealSet]] = {
    "tool_use/parallel": {
        "native": _real(
            ("parallel", "parallel_multiple"),
            "400 rows, of which 160 and 40 are played: as many as published, which ones is not known",
            repo="OpenMLRL/BFCL-V4-Parallel-Native",
            rows=(160, 40),
        ),
        "parallel": _real(("parallel",), "200 rows"),
        "parallel_multiple": _real(("parallel_multiple",), "200 rows"),
        "live": _real(("live_parallel", "live_parallel_multiple"), "40 rows"),
        "multiple": _real(("multiple",), "200 rows"),
        "simple_python": _real(("simple_python",), "400 rows"),
        "irrelevance": _real(("irrelevance",), "240 rows"),
    },
    "tool_use/multi_turn": {
        name: _real((f"multi_turn_{name}",), "200 rows; twins of a row in other sets are in the same split")
        for name in ("base", "miss_func", "miss_param", "long_context")
    },
}

TOOL_DATASETS: Mapping[str, Mapping[str, str]] = {
    id: {dataset: f"{id}:{dataset}" if place else id for place, dataset in enumerate(sets)}
    for id, sets in _SETS.items()
}
"""By id what ``dataset=`` takes, the default first, and under which name the set is known."""

TOOL_SETS: Mapping[str, RealSet] = {
    TOOL_DATASETS[id][dataset]: real for id, sets in _SETS.items() for dataset, real in sets.items()
}
