"""The default engine: a decode loop over the model's own forward, or its fused form (see `fused`).

Every distinct prompt is read once and its cache is handed to all rows that continue it; rows leave the batch as they
end. Draws depend on nothing but a row's own uniforms and logits (see `comlrl_learners.sampling`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from comlrl_learners.backbone import Backbone
from comlrl_learners.generation.cache import growing_cache
from comlrl_learners.generation.fused import FusedDecoder, can_fuse
from comlrl_learners.sampling import SamplingParams, draw, shape_logits, wide

COMPACT_BELOW = 0.8
"""Rows are compacted when fewer than this share of them still write."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Token ids of one row, their log-probs, and whether an end-of-sequence token closed it."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finished: bool


@torch.inference_mode()
def decode(
    backbone: Backbone,
    prompts: Sequence[Sequence[int]],
    owners: Sequence[int],
    uniforms: np.ndarray,
    params: SamplingParams,
) -> list[Drawn]:
    """Write one completion per row.

    Args:
        backbone: The model.
        prompts: Distinct prompts, as token ids.
        owners: For each row, the index of its prompt.
        uniforms: (rows, max_new_tokens) numbers in [0, 1).
        params: The sampling distribution.

    Returns:
        One record per row, in order.
    """
    advance = FusedDecoder(backbone.model).step if can_fuse(backbone.model) else backbone.forward
    rows, steps = len(owners), params.max_new_tokens
    device = backbone.device
    width = max(len(prompt) for prompt in prompts)
    cache = growing_cache(backbone.num_layers, width + steps)
    owner = torch.tensor(owners, device=device)
    last, mask = backbone.read_prompts(prompts, cache)
    cache.batch_select_indices(owner)
    logits = last[owner]
    attention = None if mask is None else torch.nn.functional.pad(mask[owner], (0, steps), value=1)
    position = torch.tensor([len(prompt) for prompt in prompts], device=device)[owner]
    numbers = torch.from_numpy(uniforms).to(device)
    ids = torch.zeros((rows, steps), dtype=torch.long, device=device)
    logprobs = torch.zeros((rows, steps), dtype=wide(last), device=device)
    length = torch.full((rows,), steps, device=device)
    finished = torch.zeros(rows, dtype=torch.bool, device=device)
    eos = torch.tensor(backbone.eos_ids, device=device)
    alive = torch.arange(rows, device=device)  # which row each line of the running batch belongs to
    for step in range(steps):
        shaped = shape_logits(logits, params, backbone.eos_ids, step)[:, -1]
        tokens, chosen = draw(shaped, params, numbers[alive, step])
        ids[alive, step], logprobs[alive, step] = tokens, chosen
        ended = torch.isin(tokens, eos) & ~finished[alive]
        if bool(ended.any()):
            length[alive[ended]] = step + 1
            finished[alive[ended]] = True
            keep = (~finished[alive]).nonzero()[:, 0]
            if keep.numel() == 0:
                break
            if keep.numel() < COMPACT_BELOW * alive.numel():
                alive, tokens, position = alive[keep], tokens[keep], position[keep]
                cache.batch_select_indices(keep)
                attention = None if attention is None else attention[keep]
        if step + 1 < steps:
            seen = None if attention is None else attention[:, : width + step + 1]
            logits = advance(tokens[:, None], seen, position[:, None], cache)
            position = position + 1
    return _records(ids, logprobs, length, finished)


def _records(ids: Tensor, logprobs: Tensor, length: Tensor, finished: Tensor) -> list[Drawn]:
    return [
        Drawn(tuple(row[:count]), tuple(values[:count]), ended)
        for row, values, count, ended in zip(
            ids.tolist(), logprobs.tolist(), length.tolist(), finished.tolist(), strict=True
        )
    ]
