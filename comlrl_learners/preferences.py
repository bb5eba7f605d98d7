"""Preference pairs of joint replies: how they are made, chosen, drawn again in later rounds, and remembered."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from comlrl_envs.seeding import rng
from comlrl_learners.config import TrainerConfig
from comlrl_learners.returns import edge_returns
from comlrl_learners.rollout import Node
from comlrl_learners.samples import Completion, Prompt

PairSelection = Literal["reward_gap", "random", "all"]
BINS = 32
"""Most bins of a histogram; it has more than half as many where returns differ."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
Replay = Literal["current", "nearest_k", "all_history", "lambda_decay"]


@dataclass(frozen=True)
class Pair:
    """Two joint replies to the same prompts, the first of which earned more.

    Attributes:
        task_id: The task.
        turn: Joint actions played before.
        prompts: What each acting agent read, as one text.
        chosen: The better reply of each acting agent.
        rejected: The other one.
        chosen_return: Return of the better joint action.
        rejected_return: Return of the other one.
        group_mean: Mean return of all candidates there.
    """

    task_id: str
    turn: int
    prompts: Mapping[str, str]
    chosen: Mapping[str, Completion]
    rejected: Mapping[str, Completion]
    chosen_return: float
    rejected_return: float
    group_mean: float


def select_pairs(
    returns: Sequence[float], how: PairSelection, limit: int | None, draws: np.random.Generator
) -> list[tuple[int, int]]:
    """Pairs (better, worse) among candidates; equal returns make no pair.

    Args:
        returns: One per candidate.
        how: The widest gaps first, in random order, or all of them.
        limit: Most pairs, or None.
        draws: Used by "random".
    """
    found = [(i, j) for i, a in enumerate(returns) for j, b in enumerate(returns) if a > b]
    if how == "random":
        found = [found[place] for place in draws.permutation(len(found))]
    elif how == "reward_gap":
        found.sort(key=lambda pair: returns[pair[1]] - returns[pair[0]])
    return found[:limit]


def node_returns(nodes: Sequence[Node], config: TrainerConfig) -> dict[int, list[float]]:
    """By `id(node)`, the return of each joint action; parents come before children in `nodes`."""
    found: dict[int, list[float]] = {}
    for node in reversed(nodes):
        rewards = [config.reward_scale * edge.reward + config.reward_shift for edge in node.edges]
        below = [None if e.child is None else float(np.mean(found[id(e.child)])) for e in node.edges]
        found[id(node)] = edge_returns(rewards, below, config.discount)
    return found


def pairs_at(
    node: Node,
    returns: Sequence[float],
    how: PairSelection,
    limit: int | None,
    learning: Container[str],
    seed: int,
) -> list[Pair]:
    """The pairs made of the candidates of one point of an episode.

    Args:
        node: The point.
        returns: One per candidate.
        how: See `select_pairs`.
        limit: Most pairs, or None.
        learning: The agents that learn. Candidates that are the same tokens to all of them make no pair: its margin
            would be 0 whatever is learnt.
        seed: The run's seed.
    """
    draws = rng(seed, "pair selection", node.visit.number, node.visit.task.id, *node.branch)
    found = (_pair(node, returns, *places) for places in select_pairs(returns, how, None, draws))
    return list(itertools.islice((pair for pair in found if _teaches(pair, learning)), limit))


def _pair(node: Node, returns: Sequence[float], better: int, worse: int) -> Pair:
    chosen, rejected = (
        {agent: node.completions[agent][k] for agent, k in zip(node.acting, node.edges[place].index, strict=True)}
        for place in (better, worse)
    )
    prompts = {agent: node.prompts[agent] for agent in node.acting}
    mean = math.fsum(returns) / len(returns)
    place = (node.visit.task.id, node.episode.turn)
    return Pair(*place, prompts, chosen, rejected, returns[better], returns[worse], mean)


def _teaches(pair: Pair, learning: Container[str]) -> bool:
    return any(pair.chosen[agent].ids != pair.rejected[agent].ids for agent in pair.chosen if agent in learning)


def replay_shares(ages: Sequence[int], how: Replay, k: int, decay: float) -> list[float]:
    """Share of the training pairs that each earlier round gives, summing to 1.

    Args:
        ages: Rounds since each round's pairs were made, 0 for the newest.
        how: The newest alone, the newest `k` alike, all alike, or in proportion to `decay ** age`.
        k: For "nearest_k".
        decay: For "lambda_decay", in [0, 1]; 0 ** 0 is 1, so 0 takes the newest alone.
    """
    weights = {
        "current": [float(age == 0) for age in ages],
        "nearest_k": [float(age < k) for age in ages],
        "all_history": [1.0 for _ in ages],
        "lambda_decay": [decay**age for age in ages],
    }[how]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def draw_pairs(
    rounds: Sequence[Sequence[Pair]], shares: Sequence[float], count: int, draws: np.random.Generator
) -> list[Pair]:
    """`count` pairs: rounds by their shares, and within a round without repeat until all were drawn."""
    chosen: list[Pair] = []
    filled = [place for place, pairs in enumerate(rounds) if pairs]
    weights = np.array([shares[place] for place in filled])
    if not filled or weights.sum() == 0:
        return chosen
    numbers = draws.multinomial(count, weights / weights.sum())
    for place, number in zip(filled, numbers.tolist(), strict=True):
        pairs = rounds[place]
        order = [i for _ in range(math.ceil(number / len(pairs))) for i in draws.permutation(len(pairs)).tolist()]
        chosen += [pairs[i] for i in order[:number]]
    return chosen


def histogram(values: Sequence[float]) -> dict[str, Any]:
    """How a round's returns lie: count, mean, extremes, quantiles, and counts in equal bins.

    Bins are as wide as a power of two and lie at multiples of their width, so those of two rounds or runs are equal or
    nested: `drift` joins them without loss.
    """
    if not values:
        return {"count": 0}
    width = bin_width(min(values), max(values))
    places = np.floor(np.asarray(values) / width).astype(int)
    first = int(places.min())
    counts = np.bincount(places - first)
    return {
        "count": len(values),
        "mean": float(np.mean(values)),
        "low": min(values),
        "high": max(values),
        "quantiles": dict(zip(map(str, QUANTILES), np.quantile(values, QUANTILES).tolist(), strict=True)),
        "counts": counts.tolist(),
        "edges": [(first + place) * width for place in range(len(counts) + 1)],
    }


def bin_width(low: float, high: float) -> float:
    """The smallest power of two that cuts [low, high] into at most `BINS` bins which start at its multiples."""
    # What differs by less than a hundredth is nearly one value, however small a bin might be.
    least = max(high - low, 0.01 * max(abs(low), abs(high))) or 1.0
    width = 2.0 ** math.floor(math.log2(least / BINS))
    while math.floor(high / width) - math.floor(low / width) >= BINS:
        width *= 2
    return width


def to_json(pair: Pair) -> dict[str, Any]:
    """A pair as JSON values with all its token ids, to be remembered without loss."""
    halves = {
        name: {agent: [list(c.prompt.ids), list(c.ids), c.text, c.finished] for agent, c in half.items()}
        for name, half in (("chosen", pair.chosen), ("rejected", pair.rejected))
    }
    returns = [pair.chosen_return, pair.rejected_return, pair.group_mean]
    return {"task": pair.task_id, "turn": pair.turn, "prompts": dict(pair.prompts), "returns": returns, **halves}


def from_json(data: Mapping[str, Any]) -> Pair:
    """The pair that `to_json` wrote."""
    chosen, rejected = (
        {
            agent: Completion(Prompt(tuple(prompt)), tuple(ids), (math.nan,) * len(ids), text, finished)
            for agent, (prompt, ids, text, finished) in data[name].items()
        }
        for name in ("chosen", "rejected")
    )
    return Pair(data["task"], data["turn"], data["prompts"], chosen, rejected, *data["returns"])
