"""Who holds which functions of a world: classes, functions of one class, or all of them in turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comlrl_envs.tool_use.roles import deal
from comlrl_envs.tool_use.story import Story

BY_TURN, BY_FUNCTION = "turn", "function"
SINGLE = (BY_TURN, BY_FUNCTION)


def shares(told: Story, agents: int, single: str, rng: np.random.Generator) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Deal the functions of a task.

    Classes that gold calls go to different agents, if there are two of them at least; what the other classes hold goes
    to whoever holds least.

    Args:
        told: The task.
        agents: How many share the functions.
        single: What is done with one class: ``"turn"``: everybody holds everything, and one at a time may call;
            ``"function"``: its functions are dealt.
        rng: Source of the deal.

    Returns:
        By agent the names that it holds; and the place of the agent who may call first, -1 where all may.
    """
    everything = tuple(told.functions)
    if agents == 1:
        return (everything,), -1
    used = [told.call(text).name for calls in told.gold for text in calls]
    classes = list(dict.fromkeys(told.class_of[name] for name in used))
    if len(classes) > 1:
        dealt = deal(list(dict.fromkeys(told.class_of.values())), classes, agents, rng)
        return tuple(tuple(n for n in everything if told.class_of[n] in own) for own in dealt), -1
    if single == BY_TURN:
        return (everything,) * agents, int(rng.integers(agents))
    return tuple(map(tuple, deal(list(everything), used, agents, rng))), -1


def in_order(owners: Sequence[int], classes: Sequence[str], known: Sequence[bool]) -> list[int]:
    """Which of the calls that are left can run in one turn, in which agents run one after the other.

    Calls of a class keep their order, so one waits for those before it; calls of other classes do not touch them.

    Args:
        owners: By call the place of the agent that makes it.
        classes: By call the class that has it.
        known: By call whether its agent knows that it is asked for.

    >>> in_order([1, 0, 0], ["a", "a", "b"], [True, True, True])
    [0, 2]
    """
    latest: dict[str, int] = {}
    waiting: set[str] = set()
    now = []
    for place, (owner, name) in enumerate(zip(owners, classes, strict=True)):
        if name in waiting or owner < latest.get(name, 0) or not known[place]:
            waiting.add(name)
        else:
            latest[name] = owner
            now.append(place)
    return now
