"""The rows of the real sets as the games of the family play them; ``dataset=`` chooses the set of an id."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from comlrl_envs.assemble import Loader
from comlrl_envs.errors import TaskError, one_of
from comlrl_envs.qa.rows import parse
from comlrl_envs.sources import loader
from comlrl_envs.sources.qa_sets import DATASETS
from comlrl_envs.tasks import Row

logger = logging.getLogger("comlrl_envs")

SCORER: Mapping[str, str] = {
    "hotpotqa": "hotpotqa",
    "musique": "musique",
    "2wikimultihopqa": "twowiki",
    "strategyqa": "yesno",
    "gsm8k": "gsm8k",
    "boolq": "yesno",
    "squad": "squad_v1",
    "squad_v2": "squad_v2",
}
"""By set the name of its own scorer."""

_ARTICLES = ("squad", "squad_v2")


def qa_loader(id: str, dataset: str, demo: Callable[[str], Iterable[Row]]) -> Loader:
    """The loader of an environment of the family, for ``build_env``; see ``sources.loader``.

    Args:
        id: Without version.
        dataset: One of ``DATASETS[id]``.
        demo: Rows of the shipped demo set, given the split.

    Raises:
        OptionError: The id has no such set.
    """
    one_of("dataset", dataset, tuple(DATASETS[id]))
    return loader(DATASETS[id][dataset], demo, prepare=functools.partial(playable, id, dataset))


def playable(id: str, dataset: str, rows: Sequence[Row]) -> list[Row]:
    """The parsed rows of a real set that an environment can play; how many cannot be is logged with the reason.

    ``qa/split_context`` plays questions with two supporting paragraphs or more. In ``qa/workers_manager`` a question of
    SQuAD comes with its whole article: the passages of all questions of the same title, in order of first appearance.
    Ids that repeat, such as those of MuSiQue-Full, get a number.

    Args:
        id: Without version.
        dataset: Name of the set.
        rows: Of any form that ``rows.parse`` knows.

    Raises:
        TaskError: None of them can be played.
    """
    found = _parsed(id, dataset, rows)
    if id == "qa/workers_manager" and dataset in _ARTICLES:
        found = with_articles(found)
    if id == "qa/split_context":
        kept = [row for row in found if len({place for place, _ in row["support"]}) > 1]
        if len(kept) < len(found):
            logger.info("%s, %s: %d rows are left out, which fewer than two paragraphs support.",
                        id, dataset, len(found) - len(kept))  # fmt: skip
        found = kept
    if not found:
        raise TaskError(f"{id} can play no row of {dataset}: in none do two paragraphs or more support the answer.")
    return _distinct(found)


def _parsed(id: str, dataset: str, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What can be read of a set: the published ones hold some rows that contradict themselves."""
    found: list[dict[str, Any]] = []
    reasons: list[Exception] = []
    for place, row in enumerate(rows):
        try:
            unnamed = isinstance(row, Mapping) and row.get("id") is None
            read = parse({**row, "id": place} if unnamed else row)
        except (TypeError, ValueError) as bad:
            reasons.append(bad)
        else:
            found.append({**read, "scorer": read["scorer"] if "scorer" in row else SCORER[dataset]})
    if reasons and not found:
        raise TaskError(f"None of the {len(rows)} rows of {dataset} can be read; the first: {reasons[0]}") from reasons[
            0
        ]
    if reasons:
        logger.warning("%s, %s: %d of %d rows are left out, which cannot be read; the first: %s",
                       id, dataset, len(reasons), len(rows), reasons[0])  # fmt: skip
    return found


def with_articles(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of one passage each, with all passages of their article.

    Args:
        rows: Parsed. The title of a row's passage names its article; a row without a title, or with more passages
            than one, stays as it is.

    Returns:
        The rows; ``support`` names the place of a row's own passage, if it has an answer. Rows of an article share one
        list of paragraphs.
    """
    articles: dict[str, tuple[list[Any], dict[tuple[str, ...], int]]] = {}
    joined: list[dict[str, Any]] = []
    for row in rows:
        passage = row["paragraphs"][0] if len(row["paragraphs"]) == 1 else None
        if passage is None or not passage["title"]:
            joined.append(dict(row))
            continue
        paragraphs, places = articles.setdefault(passage["title"], ([], {}))
        text = tuple(passage["sentences"])
        if text not in places:
            places[text] = len(paragraphs)
            paragraphs.append(passage)
        support = [[places[text], sentence] for _, sentence in row["support"]]
        joined.append({**row, "paragraphs": paragraphs, "support": support})
    return joined


def _distinct(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows, an id that was there before with a number that was not."""
    seen: set[str] = set()
    found: list[Row] = []
    for place, row in enumerate(rows):
        own = name = row.get("id", str(place))
        number = 1
        while name in seen:
            number += 1
            name = f"{own}#{number}"
        seen.add(name)
        found.append({**row, "id": name})
    return found
