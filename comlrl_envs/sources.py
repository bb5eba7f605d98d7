"""Where the rows of an environment come from: a folder, an installed package, the cache, the hub, or the demo set."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from comlrl_envs.assemble import Loader
from comlrl_envs.errors import OptionError, closest
from comlrl_envs.tasks import Row


def loader(name: str, demo: Callable[[str], Iterable[Row]]) -> Loader:
    """The loader of the environment ``name``, for ``build_env``.

    Args:
        name: Id without version; its real set, if any, stands in the table.
        demo: Rows of the shipped demo set, given the split (``"train"`` or ``"eval"``).
    """

    def load(split: str, source: str, data_dir: str | None) -> Iterable[Row]:
        if source not in ("auto", "demo"):
            raise OptionError(f"source={source!r}.{closest(source, ('auto', 'demo'))}")
        return demo(split)

    return load
