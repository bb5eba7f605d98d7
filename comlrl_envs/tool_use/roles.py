"""Who issues which calls of a request, and who is shown which functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SELF_SELECT, ODD_EVEN, SPLIT_BY_ORDER, BY_FUNCTION = "self_select", "odd_even", "split_by_order", "by_function"
ROLE_MODES = (SELF_SELECT, ODD_EVEN, SPLIT_BY_ORDER, BY_FUNCTION)


def even_split(count: int, agents: int) -> tuple[int, ...]:
    """How many of ``count`` calls each agent issues in an even split, the remainder with the first ones.

    >>> even_split(5, 2)
    (3, 2)
    """
    return tuple(count // agents + (place < count % agents) for place in range(agents))


def share(mode: str, names: Sequence[str], owners: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """The agent, by its place, that issues each call.

    Args:
        mode: One of ``ROLE_MODES``; ``self_select`` prescribes nothing, and is split as ``split_by_order`` is.
        names: Of the functions called, in the order of the request.
        owners: By agent the names of the functions that it is shown.

    >>> share("odd_even", "abc", ["abc", "abc"]), share("split_by_order", "abc", ["abc", "abc"])
    ((0, 1, 0), (0, 0, 1))
    """
    agents = len(owners)
    if mode == ODD_EVEN:
        return tuple(place % agents for place in range(len(names)))
    if mode == BY_FUNCTION:
        return tuple(next(place for place, own in enumerate(owners) if name in own) for name in names)
    return tuple(place for place, number in enumerate(even_split(len(names), agents)) for _ in range(number))


def deal(functions: Sequence[str], needed: Sequence[str], agents: int, rng: np.random.Generator) -> list[list[str]]:
    """Deal functions so that no agent holds all that are needed, if there are two such; the others go where few are.

    Args:
        functions: Names of all, each once.
        needed: Names of those that gold calls, in any number.
        agents: How many share them.
        rng: Source of the deal.

    Returns:
        By agent the names that it is shown, in the order of ``functions``.
    """
    used = list(dict.fromkeys(needed))
    others = [name for name in functions if name not in needed]
    held: list[set[str]] = [set() for _ in range(agents)]
    start = int(rng.integers(agents))
    for turn, place in enumerate(rng.permutation(len(used))):
        held[(start + turn) % agents].add(used[int(place)])
    for place in rng.permutation(len(others)):
        fewest = min(map(len, held))
        few = [own for own in held if len(own) == fewest]
        few[int(rng.integers(len(few)))].add(others[int(place)])
    return [[name for name in functions if name in own] for own in held]


def role_text(mode: str, place: int, agents: int) -> str:
    """What an agent is told of its part."""
    if agents == 1:
        return "Issue all calls that the request needs."
    if mode == ODD_EVEN:
        numbers = ", ".join(str(place + 1 + step * agents) for step in range(3))
        return f"Number the things that the request asks for, from 1 on. Do those with the numbers {numbers} and so on."
    if mode == SPLIT_BY_ORDER:
        ordinal = f"part {place + 1} of {agents}"
        return f"Part the things that the request asks for, in their order, into {agents} equal runs. Do {ordinal}."
    if mode == BY_FUNCTION:
        return "Each of you is shown functions that the others are not. Do what yours can do, and leave the rest."
    return (
        "Do some of what the request asks for and leave the rest to the others; what two of you do counts against you."
    )
