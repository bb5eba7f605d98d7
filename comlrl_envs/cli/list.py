"""`comlrl-envs list`."""

from __future__ import annotations

import sys

from comlrl_envs.errors import OptionError, closest
from comlrl_envs.registry import list_envs


def command(family: str | None = None) -> int:
    """Name the environments, one a line.

    Args:
        family: Only those of this family, such as `writing`; the option's name may be left out.
    """
    by_family: dict[str, list[str]] = {}
    for id in list_envs():
        by_family.setdefault(id.partition("/")[0], []).append(id)
    if family is not None and family not in by_family:
        raise OptionError(f"No family {family!r}.{closest(family, by_family)} There are {', '.join(by_family)}.")
    chosen = by_family.values() if family is None else [by_family[family]]
    sys.stdout.write("".join(f"{id}\n" for ids in chosen for id in ids))
    return 0
