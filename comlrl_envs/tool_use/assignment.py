"""The best one-to-one assignment, for a handful of rows and columns."""

from __future__ import annotations

import math
from collections.abc import Sequence


def best_pairs(worth: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Pairs of rows and columns, each in one at most, whose worths sum to the most.

    The Hungarian method with potentials: row after row is placed along the cheapest path of changes (H. W. Kuhn,
    1955; J. Munkres, 1957), in time rows^2 x columns.

    Args:
        worth: A number >= 0 for each row and column.

    Returns:
        As many pairs as the shorter side has, by row.

    >>> best_pairs([[1.0, 1.0], [1.0, 0.0]])
    [(0, 1), (1, 0)]
    """
    if not worth or not worth[0]:
        return []
    if len(worth) > len(worth[0]):
        turned = best_pairs(list(zip(*worth, strict=True)))
        return sorted((row, column) for column, row in turned)
    cost = [[-value for value in row] for row in worth]
    taken_by: list[int | None] = [None] * len(cost[0])
    row_potential, column_potential = [0.0] * len(cost), [0.0] * len(cost[0])
    for row in range(len(cost)):
        _place(row, cost, taken_by, row_potential, column_potential)
    return sorted((row, column) for column, row in enumerate(taken_by) if row is not None)


def _place(
    row: int,
    cost: Sequence[Sequence[float]],
    taken_by: list[int | None],
    row_potential: list[float],
    column_potential: list[float],
) -> None:
    """Give a row a column, moving those before it where that is cheaper."""
    columns = range(len(taken_by))
    distance = [math.inf] * len(taken_by)
    came_from: list[int | None] = [None] * len(taken_by)
    done: list[int] = []
    current, column = row, None
    while True:
        for other in columns:
            if other not in done:
                length = cost[current][other] - row_potential[current] - column_potential[other]
                if length < distance[other]:
                    distance[other], came_from[other] = length, column
        column = min((other for other in columns if other not in done), key=distance.__getitem__)
        step = distance[column]
        row_potential[row] += step
        for other in columns:
            if other in done:
                holder = taken_by[other]
                assert holder is not None
                row_potential[holder] += step
                column_potential[other] -= step
            else:
                distance[other] -= step
        done.append(column)
        holder = taken_by[column]
        if holder is None:
            break
        current = holder
    while column is not None:
        before = came_from[column]
        taken_by[column] = row if before is None else taken_by[before]
        column = before
