"""`comlrl-envs report`."""

from __future__ import annotations

import sys
from pathlib import Path

from comlrl_envs.evaluation import read_episodes, read_settings, summarise, table


def command(folders: list[str], short: bool = False) -> int:
    """Show stored evaluations side by side, computed anew from their episodes.

    Args:
        folders: Folders that `eval --out` wrote.
        short: Show rewards, success and terms alone.
    """
    reports = [summarise(read_settings(Path(folder)), read_episodes(Path(folder)), Path(folder)) for folder in folders]
    sys.stdout.write(f"{table(reports, short)}\n")
    return 0
