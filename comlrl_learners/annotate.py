"""Adds to sampled completions what one no-grad pass per distinct sequence can tell: how far a reference is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

import numpy as np
import torch

from comlrl_learners.microbatches import plan
from comlrl_learners.policy import LLMPolicy, distinct_policies
from comlrl_learners.rollout import Node, run_each
from comlrl_learners.samples import Completion, Reference

References = dict[tuple[tuple[int, ...], tuple[int, ...]], Reference]
"""By (prompt ids, completion ids)."""


def score_references(
    references: Mapping[str, LLMPolicy],
    team: Mapping[str, LLMPolicy],
    nodes: Sequence[Node],
    token_budget: int,
    executor: Executor | None,
) -> dict[str, References]:
    """What each agent's reference says about its completions, every distinct one read once.

    A policy that still has the weights of its reference is 0 away from it, to the last bit; nothing is computed.
    """

    def annotate(reference: LLMPolicy, agents: tuple[str, ...]) -> dict[str, References]:
        found: dict[str, References] = {}
        for policy, sharing in distinct_policies({agent: team[agent] for agent in agents}):
            written = [c for node in nodes for agent in sharing for c in node.completions.get(agent, ())]
            unique = list({(c.prompt.ids, c.ids): c for c in written}.values())
            if same_weights(reference, policy):
                scored = {(c.prompt.ids, c.ids): Reference(c.logprobs, 0.0) for c in unique}
            else:
                scored = score_distinct(reference, unique, token_budget)
            found.update(dict.fromkeys(sharing, scored))
        return found

    results = run_each(distinct_policies(references), annotate, executor)
    return {agent: scored for found in results for agent, scored in found.items()}


@torch.no_grad()
def score_distinct(reference: LLMPolicy, completions: Sequence[Completion], token_budget: int) -> References:
    """What a reference says about distinct completions."""
    found: References = {}
    for part in plan(completions, lambda completion: completion, token_budget):
        rows = reference.logprobs(part).logprobs.tolist()
        for completion, row in zip(part, rows, strict=True):
            there = tuple(row[: len(completion.ids)])
            found[completion.prompt.ids, completion.ids] = Reference(there, sequence_kl(completion.logprobs, there))
    return found


def same_weights(one: LLMPolicy, other: LLMPolicy) -> bool:
    """Whether two policies have equal weights; the first that differs ends the comparison."""
    pairs = zip(one.model.parameters(), other.model.parameters(), strict=False)
    same_kind = type(one.model) is type(other.model) and one.sampling == other.sampling
    return same_kind and all(a.shape == b.shape and torch.equal(a, b.to(a.device)) for a, b in pairs)


def sequence_kl(logprobs: Sequence[float], reference_logprobs: Sequence[float]) -> float:
    """Sum over tokens of the k3 estimate (see `losses.kl_k3`), in nats."""
    differences = np.asarray(reference_logprobs) - np.asarray(logprobs)
    with np.errstate(over="ignore"):  # a reference too far away gives infinity, which the loss refuses by name
        return float(np.sum(np.expm1(differences) - differences))
