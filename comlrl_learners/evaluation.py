"""Plays held-out tasks with draws of their own: training is the same whether or not anyone looks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager

import numpy as np

from comlrl_learners.games import Playground
from comlrl_learners.policy import LLMPolicy
from comlrl_learners.rollout import Edge, Node, RolloutPlan, Visit, rollout


@dataclasses.dataclass(frozen=True)
class EvaluationPlan:
    """How to evaluate.

    Attributes:
        samples: Episodes per task.
        temperature: Sampling temperature, or None for each policy's own.
        max_turns: Turns played at most, or None for the game's own.
        discount: Weight of later turns in `return_mean`.
        seed: The run's seed.
    """

    samples: int
    temperature: float | None
    max_turns: int | None
    discount: float
    seed: int


def evaluate_team(
    playground: Playground, team: Mapping[str, LLMPolicy], plan: EvaluationPlan, executor: Executor | None = None
) -> tuple[dict[str, float], list[Node]]:
    """Play every task `plan.samples` times, one trajectory each.

    Returns:
        Metrics, and the roots of the episodes. `reward_mean` is the mean reward of the last turn, `reward_sem` its
        standard error over tasks, `return_mean` the mean discounted sum over turns. Where some episode has several
        turns, `turn_<k>/reward_mean` is the mean reward of turn k, counted from 1, over the episodes that reach it.
    """
    tasks = [playground.tasks[i] for i in range(len(playground.tasks))]
    visits = [Visit(task, number, plan.seed, "eval") for task in tasks for number in range(plan.samples)]
    shape = RolloutPlan(num_generations=1, max_turns=plan.max_turns)
    with temperature(team, plan.temperature):
        roots, stats = rollout(playground.game, team, visits, shape, executor)
    paths = [list(_trajectory(root)) for root in roots]
    last = np.array([path[-1].reward for path in paths]).reshape(len(tasks), plan.samples)
    returns = [sum(edge.reward * plan.discount**turn for turn, edge in enumerate(path)) for path in paths]
    spread = last.mean(axis=1).std(ddof=1) / np.sqrt(len(tasks)) if len(tasks) > 1 else 0.0
    metrics = {
        "reward_mean": float(last.mean()),
        "reward_sem": float(spread),
        "return_mean": float(np.mean(returns)),
        "turns_mean": float(np.mean([len(path) for path in paths])),
        "episodes": float(len(paths)),
        "completion_tokens": stats.tokens / len(paths),
        **turn_means([[edge.reward for edge in path] for path in paths]),
        **score_means([path[-1] for path in paths]),
    }
    return metrics, roots


def turn_means(rewards: Sequence[Sequence[float]]) -> dict[str, float]:
    """Mean reward of each turn over the episodes that reach it; nothing where no episode has a second one.

    Args:
        rewards: By episode and turn.
    """
    longest = max((len(episode) for episode in rewards), default=0)
    if longest < 2:
        return {}
    return {
        f"turn_{turn + 1}/reward_mean": float(np.mean([episode[turn] for episode in rewards if len(episode) > turn]))
        for turn in range(longest)
    }


def score_means(edges: Sequence[Edge]) -> dict[str, float]:
    """Means of all terms and metrics over joint actions; `_num` and `_den` pairs stay as they are."""
    if not edges:
        return {}
    flat = [_flat(edge) for edge in edges]
    return {name: float(np.mean([row[name] for row in flat])) for name in flat[0]}


def _flat(edge: Edge) -> dict[str, float]:
    score = edge.score
    return {
        **{f"term/{name}": value for name, value in score.terms.items()},
        **{f"metric/{name}": value for name, value in score.metrics.items()},
        **{
            f"{agent}/metric/{name}": value
            for name, values in score.agent_metrics.items()
            for agent, value in values.items()
        },
    }


def last_edges(root: Node) -> list[Edge]:
    """The joint actions of a tree that were the last of their episode."""
    return [edge for node in root.subtree() for edge in node.edges if edge.child is None]


def mean_return(node: Node, discount: float) -> float:
    """Mean discounted sum of rewards below a node, each joint action of a node as likely."""
    below = [0.0 if edge.child is None else mean_return(edge.child, discount) for edge in node.edges]
    return float(np.mean([edge.reward + discount * rest for edge, rest in zip(node.edges, below, strict=True)]))


def _trajectory(root: Node) -> Iterator[Edge]:
    node: Node | None = root
    while node is not None:
        edge = node.edges[0]
        yield edge
        node = edge.child


@contextmanager
def temperature(team: Mapping[str, LLMPolicy], value: float | None) -> Iterator[None]:
    """Let the team sample at another temperature for a while."""
    before = {id(policy): (policy, policy.sampling) for policy in team.values()}
    if value is not None:
        for policy, sampling in before.values():
            policy.sampling = dataclasses.replace(sampling, temperature=value)
    try:
        yield
    finally:
        for policy, sampling in before.values():
            policy.sampling = sampling
