"""The rows of the real sets, and of the demo sets, as the family's games play them; ``dataset=`` chooses the set."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from comlrl_envs.assemble import Loader
from comlrl_envs.errors import TaskError, one_of
from comlrl_envs.sources import loader
from comlrl_envs.sources.tool_sets import TOOL_DATASETS
from comlrl_envs.tasks import Row

logger = logging.getLogger("comlrl_envs")


def tool_loader(
    id: str,
    dataset: str,
    demo: Callable[[str], Iterable[Row]],
    playable: Callable[[Mapping[str, Any]], bool] | None = None,
) -> Loader:
    """The loader of an environment of the family, for ``build_env``; see ``sources.loader``.

    Args:
        id: Without version.
        dataset: One of ``TOOL_DATASETS[id]``.
        demo: Rows of the shipped demo set, given the split.
        playable: Says which rows of the real set are played; default: all.

    Raises:
        OptionError: The id has no such set.
    """
    one_of("dataset", dataset, tuple(TOOL_DATASETS[id]))

    def kept(rows: Sequence[Row]) -> Sequence[Row]:
        found = [row for row in rows if playable is None or playable(row)]
        if not found:
            raise TaskError(f"{id} can play no row of {dataset} with these settings; choose another dataset.")
        if len(found) < len(rows):
            logger.info("%s, %s: %d rows are left out, which these settings cannot play.",
                        id, dataset, len(rows) - len(found))  # fmt: skip
        return found

    return loader(TOOL_DATASETS[id][dataset], demo, prepare=kept)
