"""The best assignment, beside trying all and beside scipy."""

import itertools
import random

import pytest

from comlrl_envs.tool_use.assignment import best_pairs


def worth_of(pairs, worth):
    rows, columns = {row for row, _ in pairs}, {column for _, column in pairs}
    assert len(rows) == len(columns) == len(pairs) == min(len(worth), len(worth[0]))
    return sum(worth[row][column] for row, column in pairs)


def table(draws, rows, columns):
    values = [0.0, 0.25, 0.5, 1.0, draws.random()]
    return [[draws.choice(values) for _ in range(columns)] for _ in range(rows)]


def test_it_is_the_best_of_all():
    draws = random.Random(0)
    for _ in range(500):
        rows, columns = draws.randint(1, 5), draws.randint(1, 5)
        worth = table(draws, rows, columns)
        short, long = sorted((rows, columns))
        best = max(
            sum(worth[place][other] if rows <= columns else worth[other][place] for place, other in enumerate(order))
            for order in itertools.permutations(range(long), short)
        )
        assert worth_of(best_pairs(worth), worth) == pytest.approx(best)


def test_it_is_what_scipy_finds():
    optimize = pytest.importorskip("scipy.optimize")
    draws = random.Random(1)
    for _ in range(300):
        worth = table(draws, draws.randint(1, 64), draws.randint(1, 12))
        rows, columns = optimize.linear_sum_assignment(worth, maximize=True)
        best = sum(worth[row][column] for row, column in zip(rows, columns, strict=True))
        assert worth_of(best_pairs(worth), worth) == pytest.approx(best)


def test_nothing_is_paired_with_nothing():
    assert best_pairs([]) == [] == best_pairs([[], []])
