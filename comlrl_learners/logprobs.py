"""The one log-prob routine: sampling, training, references and evaluation all read it.

Masks come from lengths, never from token ids, so a pad id that equals an end id does no harm. Every sampled token
counts, the end token included; no padding does. Each distinct prompt is computed once and its keys and values serve all
completions that continue it, in the forward and in the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from comlrl_learners.backbone import Backbone
from comlrl_learners.samples import Completion
from comlrl_learners.sampling import SamplingParams, shape_logits


@dataclass(frozen=True)
class TokenLogprobs:
    """Log-probs of a padded batch of completions.

    Attributes:
        logprobs: (B, C) log-prob of each token under the policy's sampling temperature.
        mask: (B, C), True where a token was sampled.
        entropy: (B, C) entropy in nats of the distribution at each position, or None.
        values: (B,) what a value head says about each prompt, or None.
    """

    logprobs: Tensor
    mask: Tensor
    entropy: Tensor | None
    values: Tensor | None = None


def sequence_logprobs(
    backbone: Backbone,
    completions: Sequence[Completion],
    params: SamplingParams,
    *,
    entropy: bool = False,
    head: nn.Module | None = None,
) -> TokenLogprobs:
    """Log-probs of the tokens of completions, with gradient unless it is switched off around the call.

    Args:
        backbone: The model.
        completions: B completions, at least one token each.
        params: Gives the temperature; truncation is not applied.
        entropy: Also return the entropy at each position (with gradient).
        head: Also return its values of the prompts, read from the same forward (with gradient).
    """
    device = backbone.device
    prompts, owners = distinct([completion.prompt.ids for completion in completions])
    owner = torch.tensor(owners, device=device)
    lengths = torch.tensor([len(completion.ids) for completion in completions], device=device)
    width = int(lengths.max())
    ids = torch.tensor([list(c.ids) + [0] * (width - len(c.ids)) for c in completions], device=device)
    forward = _recomputed_logits if backbone.recomputes else _completion_logits
    logits, hidden = forward(backbone, prompts, owner, ids)
    logits = shape_logits(logits, params, backbone.eos_ids, 0)
    mask = torch.arange(width, device=device) < lengths[:, None]
    normaliser = logits.logsumexp(-1)
    logprobs = logits.gather(-1, ids[..., None])[..., 0] - normaliser
    values = None if head is None else head(hidden)
    return TokenLogprobs(logprobs, mask, _entropy(logits, normaliser) if entropy else None, values)


def _completion_logits(
    backbone: Backbone, prompts: list[tuple[int, ...]], owner: Tensor, ids: Tensor
) -> tuple[Tensor, Tensor]:
    """Logits (B, C, vocabulary) at which each token was drawn, and the last hidden state (B, width) of its prompt."""
    cache = DynamicCache()
    with backbone.hidden_states() as seen:
        first, prompt_mask = backbone.read_prompts(prompts, cache)
    hidden = seen[0][:, -1][owner]
    if ids.shape[1] == 1:
        return first[owner], hidden
    cache.batch_select_indices(owner)
    inputs = ids[:, :-1]
    start = torch.tensor([len(prompt) for prompt in prompts], device=ids.device)[owner]
    positions = start[:, None] + torch.arange(inputs.shape[1], device=ids.device)
    mask = None if prompt_mask is None else torch.nn.functional.pad(prompt_mask[owner], (0, inputs.shape[1]), value=1)
    rest = backbone.forward(inputs, mask, positions, cache)
    return torch.cat([first[owner], rest], dim=1), hidden


def _recomputed_logits(
    backbone: Backbone, prompts: list[tuple[int, ...]], owner: Tensor, ids: Tensor
) -> tuple[Tensor, Tensor]:
    """The same in one pass over whole sequences, without a cache and without keeping the layers' activations."""
    prompt_ids, positions, mask = backbone.padded(prompts)
    inputs, width = ids[:, :-1], ids.shape[1]
    start = torch.tensor([len(prompt) for prompt in prompts], device=ids.device)[owner]
    later = start[:, None] + torch.arange(width - 1, device=ids.device)
    whole_mask = None if mask is None else torch.nn.functional.pad(mask[owner], (0, width - 1), value=1)
    with backbone.hidden_states() as seen, backbone.recomputed():
        logits = backbone.forward(
            torch.cat([prompt_ids[owner], inputs], dim=1),
            whole_mask,
            torch.cat([positions[owner], later], dim=1),
            None,
            keep=width,
        )
    return logits, seen[0][:, 0]


def _entropy(logits: Tensor, normaliser: Tensor) -> Tensor:
    logprobs = logits - normaliser[..., None]
    return -(logprobs.exp() * logprobs.clamp(min=torch.finfo(logprobs.dtype).min)).sum(-1)


def distinct(prompts: Sequence[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], list[int]]:
    """The distinct prompts in order of appearance, and for each given prompt the index of its own."""
    index: dict[tuple[int, ...], int] = {}
    owners = [index.setdefault(prompt, len(index)) for prompt in prompts]
    return list(index), owners
