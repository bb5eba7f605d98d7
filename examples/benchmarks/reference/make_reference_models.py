"""Build the two small models that the paired benchmark starts from.

    python make_reference_models.py DIR

``DIR/random`` is a randomly initialised Qwen2 of about one million parameters. ``DIR/warm`` is the same model after
75 seconds of CPU time of language modelling: a benchmark prompt, then a sentence of the standard library's docstrings
and the end-of-sequence token, so that the model writes words and often stops by itself. The corpus lies on every
machine that has Python. The budget is CPU time, not steps, so two machines end at slightly different weights: compare
runs that start from the same folder.

Needs torch, transformers and tokenizers; takes about a minute and a half on one core.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from prompts import PROMPTS
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

VOCABULARY = 2048
CONTEXT = 1024
SEED = 0
BATCH = 32
LEARNING_RATE = 2e-3
MAX_SENTENCE_TOKENS = 60
SENTENCE_CHARS = range(16, 240)
IGNORED_LABEL = -100


def docstrings() -> Iterator[str]:
    """Yield the docstrings of the standard library's top-level modules, in a fixed order."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, documented) and (text := ast.get_docstring(node)):
                yield text


def sentences(texts: list[str]) -> list[str]:
    """Split texts into one-line sentences and keep those of a middling length."""
    lines = (line.strip().replace("\n", " ") for text in texts for line in re.split(r"(?<=[.!?])\s+", text))
    return [line for line in lines if len(line) in SENTENCE_CHARS]


def build_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer on ``texts``."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=["<pad>", "<eos>", "<|im_start|>", "<|im_end|>"],
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        model_max_length=CONTEXT,
        padding_side="left",
    )


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Return a randomly initialised float32 model for ``tokenizer``."""
    special = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        **special,
    )
    model = Qwen2ForCausalLM(config).float()
    model.generation_config = GenerationConfig(**special)
    return model


def warm_up(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, lines: list[str], cpu_seconds: float
) -> tuple[int, float]:
    """Train ``model`` on prompt and sentence pairs until the CPU time is spent.

    Returns:
        The number of optimizer steps taken and the last loss.
    """
    prompts = [tokenizer(prompt)["input_ids"] for prompt in PROMPTS]
    targets = [[*tokenizer(line)["input_ids"][:MAX_SENTENCE_TOKENS], tokenizer.eos_token_id] for line in lines]
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    end = time.process_time() + cpu_seconds
    steps, last = 0, float("nan")
    while time.process_time() < end:
        pairs = [(random.choice(prompts), target) for target in random.sample(targets, BATCH)]
        width = max(len(prompt) + len(target) for prompt, target in pairs)
        ids = torch.full((BATCH, width), tokenizer.pad_token_id)
        labels = torch.full((BATCH, width), IGNORED_LABEL)
        mask = torch.zeros((BATCH, width), dtype=torch.long)
        for row, (prompt, target) in enumerate(pairs):
            length = len(prompt) + len(target)
            ids[row, :length] = torch.tensor(prompt + target)
            labels[row, len(prompt) : length] = torch.tensor(target)
            mask[row, :length] = 1
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps, last = steps + 1, loss.item()
    return steps, last


def main() -> None:
    """Build both models under the folder named on the command line."""
    parser = argparse.ArgumentParser(description="Build the models of the paired benchmark.")
    parser.add_argument("folder", type=Path, help="gets the subfolders random and warm")
    parser.add_argument("--cpu-seconds", type=float, default=75.0, help="training time of the warm model")
    options = parser.parse_args()

    torch.set_num_threads(1)
    random.seed(SEED)
    torch.manual_seed(SEED)
    texts = list(docstrings())
    lines = sentences(texts)
    tokenizer = build_tokenizer(texts)
    model = build_model(tokenizer)

    def save(name: str) -> None:
        model.save_pretrained(options.folder / name)
        tokenizer.save_pretrained(options.folder / name)

    save("random")
    steps, loss = warm_up(model, tokenizer, lines, options.cpu_seconds)
    save("warm")
    print(
        f"{sum(weight.numel() for weight in model.parameters())} parameters, vocabulary {len(tokenizer)}, "
        f"{len(lines)} sentences, {steps} steps, last loss {loss:.3f}"
    )


if __name__ == "__main__":
    main()
