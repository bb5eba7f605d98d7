"""Preference pairs of joint replies: how they are chosen, drawn again in later rounds, and written as JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from comlrl_learners.errors import ConfigError
from comlrl_learners.policy import LLMPolicy
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


def to_record(pair: Pair) -> dict[str, Any]:
    """A pair in the form that CoMLRL writes, with the agents' names, task, turn and token ids besides."""
    agents = list(pair.chosen)
    return {
        "prompts": [pair.prompts[agent] for agent in agents],
        "winner_completions": [pair.chosen[agent].text for agent in agents],
        "loser_completions": [pair.rejected[agent].text for agent in agents],
        "winner_reward": pair.chosen_return,
        "loser_reward": pair.rejected_return,
        "candidate_reward_mean": pair.group_mean,
        "agents": agents,
        "task": pair.task_id,
        "turn": pair.turn,
    }


def read_pairs(path: str | os.PathLike[str], team: Mapping[str, LLMPolicy]) -> list[Pair]:
    """Read pairs that this project or CoMLRL wrote, or people did; texts are tokenised, an end token appended.

    Args:
        path: JSON: a list of records, or an object with `pairs`.
        team: Gives tokenizers, and the agents of records that name none.

    Raises:
        ConfigError: The file or a record cannot be used; the message names it.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"pairs_file={os.fspath(path)!r} cannot be read ({error}). Give a JSON file of pairs."
        ) from error
    records = data.get("pairs") if isinstance(data, dict) else data
    if not isinstance(records, list) or not records:
        raise ConfigError(f"pairs_file={os.fspath(path)!r} holds no list of pairs.")
    return [_from_record(record, number, team) for number, record in enumerate(records)]


def _from_record(record: Any, number: int, team: Mapping[str, LLMPolicy]) -> Pair:
    needed = ("prompts", "winner_completions", "loser_completions")
    agents = list(record.get("agents", team)) if isinstance(record, dict) else []
    for name in needed:
        texts = record.get(name) if isinstance(record, dict) else None
        if not isinstance(texts, list) or len(texts) != len(agents) or not all(isinstance(t, str) for t in texts):
            raise ConfigError(f"Pair {number} needs {name!r}: a list of {len(agents)} texts, one for each of {agents}.")
    if strangers := [agent for agent in agents if agent not in team]:
        raise ConfigError(f"Pair {number} names the agents {strangers}, and the team is {list(team)}.")
    prompts, chosen, rejected = (dict(zip(agents, record[name], strict=True)) for name in needed)
    encoded = {agent: team[agent].encode(prompts[agent]) for agent in agents}
    return Pair(
        str(record.get("task", number)),
        int(record.get("turn", 0)),
        prompts,
        {agent: _written(team[agent], encoded[agent], text) for agent, text in chosen.items()},
        {agent: _written(team[agent], encoded[agent], text) for agent, text in rejected.items()},
        float(record.get("winner_reward", 1.0)),
        float(record.get("loser_reward", 0.0)),
        float(record.get("candidate_reward_mean", 0.5)),
    )


def _written(policy: LLMPolicy, prompt: Prompt, text: str) -> Completion:
    """A text as if the policy had written it, without log-probs of its own."""
    ids = policy.tokenizer(text, add_special_tokens=False)["input_ids"][: policy.sampling.max_new_tokens - 1]
    ended = (*ids, policy.backbone.eos_ids[0])
    return Completion(prompt, ended, (math.nan,) * len(ended), text, True)


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
    """A pair with its token ids, to be read back without loss."""
    halves = {
        name: {agent: [list(c.prompt.ids), list(c.ids), c.text, c.finished] for agent, c in half.items()}
        for name, half in (("chosen", pair.chosen), ("rejected", pair.rejected))
    }
    return {**to_record(pair), **halves}


def from_json(data: Mapping[str, Any]) -> Pair:
    """The pair that `to_json` wrote."""
    chosen, rejected = (
        {
            agent: Completion(Prompt(tuple(prompt)), tuple(ids), (math.nan,) * len(ids), text, finished)
            for agent, (prompt, ids, text, finished) in data[name].items()
        }
        for name in ("chosen", "rejected")
    )
    return Pair(
        data["task"],
        data["turn"],
        dict(zip(data["agents"], data["prompts"], strict=True)),
        chosen,
        rejected,
        data["winner_reward"],
        data["loser_reward"],
        data["candidate_reward_mean"],
    )
