"""A progress bar that shows the reward as it changes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping


@contextlib.contextmanager
def progress_bar(enabled: bool, total: int) -> Iterator[Callable[[Mapping[str, float]], None]]:
    """Yield a function that takes each logged row; it does nothing unless enabled."""
    if not enabled:
        yield lambda row: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    shown = {"train": "   -", "eval": "   -"}
    columns = (
        TextColumn("round"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("training {task.fields[train]}  held out {task.fields[eval]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as progress:
        task = progress.add_task("train", total=total, train=shown["train"], eval=shown["eval"])

        def show(row: Mapping[str, float]) -> None:
            for kind in shown:
                if f"{kind}/reward_mean" in row:
                    shown[kind] = f"{row[f'{kind}/reward_mean']:.3f}"
            progress.update(task, completed=row["round"], train=shown["train"], eval=shown["eval"])

        yield show
