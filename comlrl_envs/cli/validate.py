"""`comlrl-envs validate`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comlrl_envs.testing.validation import Validation, validate

_WIDTH = 100


def command(
    id: str,
    split: str = "eval",
    max_tasks: int | None = None,
    golden: Path | None = None,
    env_options: Mapping[str, Any] | None = None,
) -> int:
    """Prove that an environment keeps its promises.

    Args:
        id: The environment, such as `writing/length_ratio`.
        split: `train` or `eval`, or a slice of one, such as `train[:100]`.
        max_tasks: Most tasks to play, the first of the split; all of them if left out.
        golden: A file of golden episodes to compare with.
        env_options: Keyword arguments of the environment.

    Returns:
        0 if every promise is kept, 1 if one is broken.
    """
    found = validate(id, split=split, tasks=max_tasks, kwargs=env_options, golden=golden)
    sys.stdout.write(table(found))
    return 0 if found.passed else 1


def table(found: Validation) -> str:
    """The promises, one a line, with how to mend those that are broken."""
    widest = max(len(line.promise) for line in found.lines)
    rows = [f"{found.id}, split {found.split}, {found.tasks} tasks"]
    for line in found.lines:
        head = f"  {line.promise:<{widest}}  {line.verdict:<6}  "
        told = line.seen if line.verdict != "fail" else f"{line.seen} {line.mend}"
        rows += textwrap.wrap(told, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head)) or [head.rstrip()]
    broken = sum(line.verdict == "fail" for line in found.lines)
    rows.append("All promises are kept." if not broken else f"{broken} of {len(found.lines)} promises are broken.")
    return "\n".join(rows) + "\n"
