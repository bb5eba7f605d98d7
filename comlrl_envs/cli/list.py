"""`comlrl-envs list`."""

from __future__ import annotations

import sys

from comlrl_envs.registry import list_envs


def command(family: str | None = None) -> int:
    """Name the environments, one a line.

    Args:
        family: Only those of this family, such as `writing`.
    """
    names = [id for id in list_envs() if family is None or id.startswith(f"{family}/")]
    sys.stdout.write("".join(f"{id}\n" for id in names))
    return 0
