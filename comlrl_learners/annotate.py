"""Adds to sampled completions what one no-grad pass per distinct sequence can tell: log-probs of a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

import torch

from comlrl_learners.microbatches import plan
from comlrl_learners.policy import LLMPolicy, distinct_policies
from comlrl_learners.rollout import Node, run_each
from comlrl_learners.samples import Completion

Sequences = dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[float, ...]]


def reference_logprobs(
    references: Mapping[str, LLMPolicy], nodes: Sequence[Node], token_budget: int, executor: Executor | None
) -> dict[str, Sequences]:
    """Log-probs of every completion under its agent's reference.

    Returns:
        For each agent, a mapping from (prompt ids, completion ids) to log-probs.
    """

    def annotate(policy: LLMPolicy, agents: tuple[str, ...]) -> Sequences:
        written = [c for node in nodes for agent in agents for c in node.completions.get(agent, ())]
        unique = list({(c.prompt.ids, c.ids): c for c in written}.values())
        return score_sequences(policy, unique, token_budget)

    policies = distinct_policies(references)
    results = run_each(policies, annotate, executor)
    return {agent: found for (_, agents), found in zip(policies, results, strict=True) for agent in agents}


@torch.no_grad()
def score_sequences(policy: LLMPolicy, completions: Sequence[Completion], token_budget: int) -> Sequences:
    """Log-probs of distinct completions under a policy, keyed by their token ids."""
    found: Sequences = {}
    for part in plan(completions, lambda completion: completion, token_budget):
        rows = policy.logprobs(part).logprobs.tolist()
        found.update({(c.prompt.ids, c.ids): tuple(row[: len(c.ids)]) for c, row in zip(part, rows, strict=True)})
    return found
