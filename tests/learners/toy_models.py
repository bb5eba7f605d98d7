"""Tiny random Qwen2 policies (rotary positions, two layers) with a tokenizer of single characters."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from comlrl_learners import LLMPolicy, SamplingParams

SPECIALS = ("<pad>", "<eos>", "<unk>")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789 .,:-"
VOCABULARY = (*SPECIALS, *LETTERS)
HIDDEN = 16


def toy_tokenizer() -> PreTrainedTokenizerFast:
    """One token per letter, digit or mark; anything else is unknown."""
    made = Tokenizer(models.WordLevel({token: i for i, token in enumerate(VOCABULARY)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    )


def toy_model(seed: int = 0, *, double: bool = False, scale: float = 0.2, hidden: int = HIDDEN) -> Qwen2ForCausalLM:
    """A random model; `scale` is the deviation of its matrices, so that logits are not flat."""
    config = Qwen2Config(
        vocab_size=len(VOCABULARY),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    model = Qwen2ForCausalLM(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() > 1:
                parameter.copy_(noise * scale)
            elif "bias" in name:
                parameter.copy_(noise * 0.05)
            else:
                parameter.copy_(1 + noise * 0.05)
    return with_exact_norms(model).double() if double else model.float()


def with_exact_norms(model: nn.Module) -> nn.Module:
    """Norms that compute in the dtype of their input; those of transformers round to single precision on the way."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__ == "Qwen2RMSNorm":
                exact = nn.RMSNorm(child.weight.shape, eps=child.variance_epsilon)
                exact.weight = child.weight
                setattr(parent, name, exact)
    return model


def toy_policy(
    seed: int = 0, *, double: bool = False, scale: float = 0.2, hidden: int = HIDDEN, **sampling
) -> LLMPolicy:
    """A policy of its own weights; `sampling` overrides temperature 0.7 and six new tokens."""
    params = SamplingParams(**{"max_new_tokens": 6, "temperature": 0.7, **sampling})
    return LLMPolicy(toy_model(seed, double=double, scale=scale, hidden=hidden), toy_tokenizer(), params)


def toy_team(count: int = 2, **options) -> list[LLMPolicy]:
    """Policies of different weights, one per agent."""
    return [toy_policy(seed, **options) for seed in range(1, count + 1)]


def flat_weights(policy: LLMPolicy) -> torch.Tensor:
    """All weights of a policy, copied."""
    return torch.cat([parameter.detach().flatten().clone() for parameter in policy.model.parameters()])


def flat_gradient(policy: LLMPolicy) -> torch.Tensor:
    """All gradients of a policy, copied; zeros where there is none."""
    return torch.cat(
        [
            (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).detach().flatten().clone()
            for parameter in policy.model.parameters()
        ]
    )
