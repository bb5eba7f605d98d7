"""Small random models and a tokenizer for tests: real architectures, two layers."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from comlrl_learners import LLMPolicy, SamplingParams

CHAT = (
    "{% for m in messages %}{% if m['role'] == 'user' %}<u>{{ m['content'] }}{% else %}<b>{{ m['content'] }}<eos>"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<b>{% endif %}"
)


def tokenizer(chat: bool = False, pad: str = "<pad>") -> PreTrainedTokenizerFast:
    """Bytes as tokens after four special ones."""
    specials = ["<pad>", "<eos>", "<u>", "<b>"]
    alphabet = specials + sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(specials)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=made, pad_token=pad, eos_token="<eos>")
    if chat:
        wrapped.chat_template = CHAT
    return wrapped


VOCABULARY = len(tokenizer())
COMMON = {"vocab_size": VOCABULARY, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
LLAMA_LIKE = {
    **COMMON, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256,
}  # fmt: skip
CONFIGS: dict[str, PretrainedConfig] = {
    "qwen2": Qwen2Config(**LLAMA_LIKE),
    "qwen3": Qwen3Config(**LLAMA_LIKE, head_dim=8),
    "llama": LlamaConfig(**LLAMA_LIKE),
    "mistral": MistralConfig(**LLAMA_LIKE, sliding_window=None),
    "mistral-window": MistralConfig(**LLAMA_LIKE, sliding_window=4),
    "gemma3": Gemma3TextConfig(**LLAMA_LIKE, head_dim=8, sliding_window=4),
    "gpt2": GPT2Config(**COMMON, n_embd=32, n_layer=2, n_head=4, n_positions=256),
}
FUSED = ("qwen2", "qwen3", "llama", "mistral")


def policy(
    kind: str = "qwen2",
    seed: int = 0,
    *,
    double: bool = False,
    chat: bool = False,
    pad: str = "<pad>",
    **sampling: float | int,
) -> LLMPolicy:
    """A random policy whose logits are far from flat."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(CONFIGS[kind])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.15)
            elif "bias" in name:
                parameter.normal_(0, 0.05)
    model = model.double() if double else model.float()
    chosen = {"max_new_tokens": 12, "temperature": 0.7, **sampling}
    return LLMPolicy(model, tokenizer(chat, pad), SamplingParams(**chosen))


def save(folder: Path, **options: object) -> str:
    """Write a policy to a folder."""
    policy(**options).save(folder)  # type: ignore[arg-type]
    return str(folder)
