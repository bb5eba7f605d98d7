"""A key-value cache that grows in place.

The dynamic cache of transformers copies all it holds at every token; this one reserves the room once. Rows that have
ended are dropped by `batch_select_indices`, which both share.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer


class GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]  # transformers leaves its hooks untyped
    """One layer's keys and values, shape (rows, heads, room, head size), of which the first `length` are filled."""

    def __init__(self, room: int) -> None:
        """Reserve `room` positions at the first update."""
        super().__init__()  # type: ignore[no-untyped-call]  # the same
        self.room = room
        self.length = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate the buffers once the shapes are known."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self._keys = self._reserve(key_states)
        self._values = self._reserve(value_states)
        self.is_initialized = True

    def _reserve(self, states: Tensor) -> Tensor:
        rows, heads, _, size = states.shape
        return states.new_empty((rows, heads, self.room, size))

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append the new positions and return all that is filled."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, self.length = self.length, self.length + key_states.shape[-2]
        self._keys[:, :, start : self.length] = key_states
        self._values[:, :, start : self.length] = value_states
        self.keys = self._keys[:, :, : self.length]
        self.values = self._values[:, :, : self.length]
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """Number of filled positions."""
        return self.length

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep, repeat or reorder rows."""
        self._keys, self._values = self._select(self._keys, indices), self._select(self._values, indices)
        self.keys = self._keys[:, :, : self.length]
        self.values = self._values[:, :, : self.length]

    def _select(self, buffer: Tensor, indices: Tensor) -> Tensor:
        selected = buffer.new_empty((indices.shape[0], *buffer.shape[1:]))
        torch.index_select(buffer[:, :, : self.length], 0, indices, out=selected[:, :, : self.length])
        return selected


def growing_cache(num_layers: int, room: int) -> DynamicCache:
    """A cache of `num_layers` layers with room for `room` positions each."""
    cache = DynamicCache()
    cache.layers = [GrowingLayer(room) for _ in range(num_layers)]
    return cache
