"""Cuts a batch of completions into parts that fit a token budget (pure functions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from comlrl_learners.samples import Completion

T = TypeVar("T")


def plan(items: Sequence[T], completion: Callable[[T], Completion], token_budget: int) -> list[list[T]]:
    """Cut `items` into micro-batches of at most `token_budget` padded tokens each (one item at least).

    Two orders are tried, by length (least padding) and by prompt (most sharing); the one that computes fewer padded
    tokens is taken. The order is a function of the items alone.
    """
    orders: list[Callable[[Completion], tuple[object, ...]]] = [
        lambda c: (len(c.ids), len(c.prompt.ids), c.prompt.ids),
        lambda c: (len(c.prompt.ids), c.prompt.ids, len(c.ids)),
    ]
    plans = [_fill(sorted(items, key=lambda item: key(completion(item))), completion, token_budget) for key in orders]
    return min(plans, key=lambda parts: sum(padded_tokens([completion(item) for item in part]) for part in parts))


def padded_tokens(completions: Sequence[Completion]) -> int:
    """Token positions a micro-batch computes: distinct prompts once, completions padded to the longest."""
    prompts = {completion.prompt.ids for completion in completions}
    return len(prompts) * max(map(len, prompts)) + len(completions) * max(len(c.ids) for c in completions)


def _fill(ordered: Sequence[T], completion: Callable[[T], Completion], token_budget: int) -> list[list[T]]:
    parts: list[list[T]] = []
    prompts: set[tuple[int, ...]] = set()
    longest_prompt = longest = 0
    for item in ordered:
        candidate = completion(item)
        grown = prompts | {candidate.prompt.ids}
        prompt_width = max(longest_prompt, len(candidate.prompt.ids))
        width = max(longest, len(candidate.ids))
        rows = len(parts[-1]) + 1 if parts else 1
        if not parts or len(grown) * prompt_width + rows * width > token_budget:
            parts.append([])
            grown, prompt_width, width = {candidate.prompt.ids}, len(candidate.prompt.ids), len(candidate.ids)
        parts[-1].append(item)
        prompts, longest_prompt, longest = grown, prompt_width, width
    return parts
