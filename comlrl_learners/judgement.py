"""What critics' estimates say about a tree: targets and advantages of every joint action, from the leaves up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from comlrl_learners.rollout import Node
from comlrl_learners.values import action_targets, counterfactual, edge_advantages, idle_value

Rewards = Mapping[int, Sequence[float]]
"""By `id(node)`, the reward of each of its joint actions."""


@dataclass(frozen=True)
class Judgement:
    """One node in the eyes of a critic; lists hold one entry per joint action.

    Attributes:
        estimates: What the critic said.
        targets: What it should have said.
        advantages: How much better each joint action did than expected.
    """

    estimates: list[float]
    targets: list[float]
    advantages: list[float]


def judge_situations(
    nodes: Sequence[Node], rewards: Rewards, values: Mapping[int, float], discount: float, gae_lambda: float
) -> dict[int, Judgement]:
    """Targets and generalised advantages from values of situations.

    Args:
        nodes: Whole trees, parents before children.
        rewards: Rewards to learn from.
        values: By `id(node)`, the critic's value; where there is none, the agent only watches.
        discount: In [0, 1].
        gae_lambda: In [0, 1].

    Returns:
        By `id(node)`, the judgement of each node that has a value.
    """
    known: dict[int, float] = {}
    ahead: dict[int, float] = {}
    judged: dict[int, Judgement] = {}
    for node in reversed(nodes):
        after = [None if edge.child is None else known[id(edge.child)] for edge in node.edges]
        further = [None if edge.child is None else ahead[id(edge.child)] for edge in node.edges]
        there = rewards[id(node)]
        watched = id(node) not in values
        value = idle_value(there, after, discount) if watched else values[id(node)]
        advantages = edge_advantages(there, value, after, further, discount, gae_lambda)
        known[id(node)], ahead[id(node)] = value, math.fsum(advantages) / len(advantages)
        if not watched:
            targets = [value + advantage for advantage in advantages]
            judged[id(node)] = Judgement([value] * len(targets), targets, advantages)
    return judged


def judge_actions(
    nodes: Sequence[Node], rewards: Rewards, estimate: Callable[[Node, tuple[int, ...]], float | None], discount: float
) -> dict[int, Judgement]:
    """One-step targets from values of situations with what was written in them; advantages are target less estimate.

    Args:
        nodes: Whole trees, parents before children.
        rewards: Rewards to learn from.
        estimate: Q of a node's joint action, given as completion indices; None where the agent only watches.
        discount: In [0, 1].
    """
    means: dict[int, float] = {}
    judged: dict[int, Judgement] = {}
    for node in reversed(nodes):
        after = [None if edge.child is None else means[id(edge.child)] for edge in node.edges]
        targets = action_targets(rewards[id(node)], after, discount)
        found = [estimate(node, edge.index) for edge in node.edges]
        estimates = [value for value in found if value is not None]
        means[id(node)] = math.fsum(estimates or targets) / len(targets)
        if estimates:
            advantages = [target - value for target, value in zip(targets, estimates, strict=True)]
            judged[id(node)] = Judgement(estimates, targets, advantages)
    return judged


def counterfactual_advantages(
    node: Node, place: int, count: int, estimate: Callable[[Node, tuple[int, ...]], float | None]
) -> list[float]:
    """For each joint action, Q less its mean over the completions that one agent might have given instead.

    Args:
        node: A node at which the agent acts.
        place: The agent's place among those that act.
        count: Its completions K, at least 2.
        estimate: Q of a joint action.
    """
    advantages: list[float] = []
    for edge in node.edges:
        others = [estimate(node, replaced(edge.index, place, k)) for k in range(count)]
        advantages.append(counterfactual([value for value in others if value is not None], edge.index[place]))
    return advantages


def replaced(index: tuple[int, ...], place: int, k: int) -> tuple[int, ...]:
    """A joint action with another completion at one place."""
    return (*index[:place], k, *index[place + 1 :])
