"""A causal language model as sampling and training see it: token ids in, logits out.

This is the one place that knows how transformers' models are called: left-padded prompts, explicit positions (right for
absolute and rotary embeddings), a cache passed in, logits only where they are asked for.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from comlrl_learners.errors import PolicyError

ATTENTION_LAYERS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})


class Backbone:
    """A model and the conventions of its calls.

    Attributes:
        model: The causal language model, in evaluation mode (no dropout).
        eos_ids: All ids that end a completion.
        context: Longest sequence the model has positions for, or None.
    """

    def __init__(self, model: PreTrainedModel, eos_ids: Sequence[int]) -> None:
        """Look at the model once.

        Raises:
            PolicyError: The model keeps a state other than attention keys and values, or has no end token.
        """
        self.model = model.train(False)
        self.eos_ids = tuple(eos_ids)
        self._layers: list[nn.Module] = []
        config = model.config.get_text_config()
        settings = config.to_dict()
        self.num_layers = int(config.num_hidden_layers)
        self.context: int | None = settings.get("max_position_embeddings") or settings.get("n_positions")
        others = set(settings.get("layer_types") or ()) - ATTENTION_LAYERS
        if others:
            raise PolicyError(
                f"{type(model).__name__} has layers of type {sorted(others)}, and only attention layers share their "
                "cache between completions. Use a model whose layers are all attention."
            )
        if not self.eos_ids:
            raise PolicyError(
                f"{type(model).__name__} has no end-of-sequence id, so a completion could never end. Set "
                "`eos_token_id` in its generation_config, or `eos_token` in its tokenizer."
            )
        # PEFT's wrapper hands all keywords on, and its own signature names few of them.
        wrapped = any("get_base_model" in vars(base) for base in type(model).__mro__)
        inner = model.get_base_model() if wrapped else model  # type: ignore[operator]  # a method of PEFT's
        accepted = inspect.signature(inner.forward).parameters
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"
        self._takes_positions = "position_ids" in accepted

    @property
    def device(self) -> torch.device:
        """Where the model lies."""
        device: torch.device = self.model.device
        return device

    @property
    def output_layer(self) -> nn.Linear:
        """The layer that turns hidden states into logits."""
        return cast(nn.Linear, self.model.get_output_embeddings())

    @contextlib.contextmanager
    def hidden_states(self) -> Iterator[list[Tensor]]:
        """Collect what the output layer is given: one (rows, kept positions, width) tensor per forward inside."""
        seen: list[Tensor] = []
        handle = self.output_layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
        try:
            yield seen
        finally:
            handle.remove()

    def recompute_layers(self) -> None:
        """From now on, passes that need a gradient keep no activations of the layers and compute them again backwards.

        Raises:
            PolicyError: The model's layers are none that can be run by themselves.
        """
        self._layers = [module for module in self.model.modules() if isinstance(module, GradientCheckpointingLayer)]
        if not self._layers:
            raise PolicyError(
                f"{type(self.model).__name__} has no layers that can be computed again. Use "
                "gradient_checkpointing=False, and lower microbatch_tokens to save memory."
            )

    @property
    def recomputes(self) -> bool:
        """Whether a pass that runs now keeps no activations of the layers."""
        return bool(self._layers) and torch.is_grad_enabled()

    @contextlib.contextmanager
    def recomputed(self) -> Iterator[None]:
        """Inside, layers keep no activations; a cache, which would grow a second time, must not be passed to them."""
        for layer in self._layers:
            layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
        try:
            yield
        finally:
            for layer in self._layers:
                del layer.forward

    def forward(
        self, ids: Tensor, mask: Tensor | None, positions: Tensor, cache: DynamicCache | None, keep: int = 0
    ) -> Tensor:
        """Logits of `ids` (rows, length) that continue `cache`, which grows by them.

        Args:
            ids: Token ids.
            mask: (rows, cached + length), 0 at padding, or None where there is none.
            positions: (rows, length) position of each id in its own sequence.
            cache: What came before, or None if nothing did and nothing follows.
            keep: Logits of the last `keep` positions only; 0 gives all.
        """
        arguments: dict[str, Any] = {} if cache is None else {self._cache_name: cache}
        if self._takes_positions:
            arguments["position_ids"] = positions
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            use_cache=cache is not None,
            logits_to_keep=keep,
            return_dict=True,
            **arguments,
        )
        logits: Tensor = output.logits
        return logits

    def read_prompts(
        self, prompts: Sequence[Sequence[int]], cache: DynamicCache | None
    ) -> tuple[Tensor, Tensor | None]:
        """Run prompts through the model, filling `cache`, or none where nothing follows them.

        Returns:
            The logits that follow each prompt, (prompts, 1, vocabulary), and the padding mask (prompts, width), 0 on
            the left where a prompt is shorter than the longest, or None where all are equally long.
        """
        ids, positions, mask = self.padded(prompts)
        with self.recomputed() if cache is None and self.recomputes else contextlib.nullcontext():
            return self.forward(ids, mask, positions, cache, keep=1), mask

    def padded(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Ids, positions and mask, (prompts, width) each, of prompts padded on the left; no mask if all are as long."""
        width = max(len(prompt) for prompt in prompts)
        ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts], device=self.device)
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        positions = torch.arange(width, device=self.device) - (width - lengths)[:, None]
        mask = None if bool((lengths == width).all()) else (positions >= 0).long()
        return ids, positions.clamp(min=0), mask
