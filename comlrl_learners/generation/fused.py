"""One decode step of the Llama family on fused weights.

A step of a small batch is spent in calls, not in arithmetic: transformers' forward makes about fifty a layer, holding
Python's lock in between, so that agents that decode in threads wait for each other. Here one projection gives queries,
keys and values, one gives gate and up, and attention runs on the key-value heads. Any other model decodes through its
own forward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache, PreTrainedModel

FUSED_CLASSES = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})


@dataclass(frozen=True)
class FusedLayer:
    """One layer's weights, copied where they are fused and shared where not."""

    input_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    q_norm: Tensor | None
    k_norm: Tensor | None
    output: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


def can_fuse(model: PreTrainedModel) -> bool:
    """Whether this model's step is the one written here: plain layers of the Llama family, on one device."""
    config = model.config
    if type(model).__name__ not in FUSED_CLASSES or config.hidden_act != "silu" or "hf_device_map" in vars(model):
        return False
    settings = config.to_dict()
    windowed = "sliding_attention" in (settings.get("layer_types") or ())
    if windowed or (config.model_type == "mistral" and settings.get("sliding_window") is not None):
        return False
    # An adapter or a wrapped forward on any part, a norm as much as a projection, is nothing this step knows of.
    untouched = all(
        type(module).__module__.startswith(("torch.nn.", "transformers."))
        and not ("forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks)
        for module in model.modules()
    )
    projections = [module for layer in model.model.layers for module in _projections(layer)]
    if not untouched or any(type(module) is not nn.Linear for module in [*projections, model.lm_head]):
        return False
    return not any(
        module.bias is not None
        for layer in model.model.layers
        for module in (layer.self_attn.o_proj, layer.mlp.gate_proj, layer.mlp.up_proj, layer.mlp.down_proj)
    )


class FusedDecoder:
    """The weights of a model as they are now, ready for decode steps; make one for each decode."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Fuse the weights of a model that `can_fuse`."""
        base, config = model.model, model.config
        self._embed, self._norm, self._head = base.embed_tokens.weight, base.norm.weight, model.lm_head.weight
        self._rotary = base.rotary_emb
        self._eps = float(config.rms_norm_eps)
        attention = base.layers[0].self_attn
        self._size = int(attention.head_dim)
        self._kv_heads = attention.k_proj.out_features // self._size
        self._groups = attention.q_proj.out_features // attention.k_proj.out_features
        self._scale = float(attention.scaling)
        self._layers = [_fuse(layer, config.model_type == "qwen3") for layer in base.layers]

    def step(self, tokens: Tensor, mask: Tensor | None, positions: Tensor, cache: DynamicCache) -> Tensor:
        """Logits (rows, 1, vocabulary) that follow one more token per row.

        Args:
            tokens: (rows, 1).
            mask: (rows, cached + 1), 0 at padding, or None.
            positions: (rows, 1).
            cache: Keys and values so far; grows by one position.
        """
        hidden = functional.embedding(tokens[:, 0], self._embed)
        cosine, sine = self._rotary(hidden, positions)
        half = self._size // 2
        sine = torch.cat((-sine[..., :half], sine[..., half:]), dim=-1)
        bias = None
        if mask is not None:
            bias = torch.zeros(mask.shape, dtype=hidden.dtype, device=hidden.device)
            bias = bias.masked_fill_(mask == 0, torch.finfo(hidden.dtype).min)[:, None, None, :]
        for index, layer in enumerate(self._layers):
            hidden = self._layer(hidden, layer, index, cosine, sine, bias, cache)
        return functional.linear(self._normed(hidden, self._norm), self._head)[:, None]

    def _layer(
        self,
        hidden: Tensor,
        layer: FusedLayer,
        index: int,
        cosine: Tensor,
        sine: Tensor,
        bias: Tensor | None,
        cache: DynamicCache,
    ) -> Tensor:
        rows, heads = hidden.shape[0], self._kv_heads * self._groups
        projected = functional.linear(self._normed(hidden, layer.input_norm), layer.qkv, layer.qkv_bias)
        projected = projected.view(rows, heads + 2 * self._kv_heads, self._size)
        turned, values = projected[:, : heads + self._kv_heads], projected[:, heads + self._kv_heads :]
        if layer.q_norm is not None and layer.k_norm is not None:
            queries = self._normed(turned[:, :heads], layer.q_norm)
            turned = torch.cat((queries, self._normed(turned[:, heads:], layer.k_norm)), dim=1)
        turned = turned * cosine + turned.roll(self._size // 2, dims=-1) * sine
        keys, values = cache.update(turned[:, heads:, None], values[:, :, None], index)
        queries = turned[:, :heads].reshape(rows, self._kv_heads, self._groups, self._size)
        scores = (queries * self._scale) @ keys.transpose(-1, -2)
        if bias is not None:
            scores = scores + bias
        seen = scores.softmax(-1) @ values
        hidden = hidden + functional.linear(seen.reshape(rows, heads * self._size), layer.output)
        gate, up = functional.linear(self._normed(hidden, layer.mlp_norm), layer.gate_up).chunk(2, dim=-1)
        return hidden + functional.linear(functional.silu(gate) * up, layer.down)

    def _normed(self, hidden: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(hidden, weight.shape, weight, self._eps)


def _projections(layer: Any) -> list[Any]:
    attention, mlp = layer.self_attn, layer.mlp
    return [
        attention.q_proj,
        attention.k_proj,
        attention.v_proj,
        attention.o_proj,
        mlp.gate_proj,
        mlp.up_proj,
        mlp.down_proj,
    ]


def _fuse(layer: Any, has_head_norms: bool) -> FusedLayer:
    q, k, v, output, gate, up, down = _projections(layer)
    attention = layer.self_attn
    return FusedLayer(
        layer.input_layernorm.weight,
        torch.cat((q.weight, k.weight, v.weight)),
        None if q.bias is None else torch.cat((q.bias, k.bias, v.bias)),
        attention.q_norm.weight if has_head_norms else None,
        attention.k_norm.weight if has_head_norms else None,
        output.weight,
        layer.post_attention_layernorm.weight,
        torch.cat((gate.weight, up.weight)),
        down.weight,
    )
