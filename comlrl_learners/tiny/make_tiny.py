"""Makes the shipped tiny policy: a tokenizer and a model, both trained on :mod:`comlrl_learners.tiny.corpus`.

Run ``python -m comlrl_learners.tiny.make_tiny --out DIR --steps N``. The loss counts the assistant's turns only,
each with the end token, so that a text learns to stop. Every dialogue of a batch starts at position 0; a batch
holds dialogues of about the same length, padded on the right.
"""

from __future__ import annotations

import argparse
import logging
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch.nn import functional
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from comlrl_learners.tiny.corpus import Dialogue, dialogues

PAD, EOS, USER, BOT = SPECIALS = ("<pad>", "<eos>", "<user>", "<bot>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}<bot>{{ message['content'] }}<eos>"
    "{% else %}<user>{{ message['content'] }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<bot>{% endif %}"
)
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How text is cut before the merges: as in Qwen2's tokenizer, which ``AutoTokenizer`` puts beside a Qwen2 model."""
IGNORED = -100
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the trained weights.

    Attributes:
        steps: Updates.
        seed: Seed of the corpus, the first weights and the order of the batches.
        batch: Dialogues in one update.
        peak: Highest learning rate.
        warmup: Updates until the highest learning rate.
        floor: Last learning rate as a share of the highest.
        decay: Weight decay of the matrices.
        vocabulary: Tokens, the bytes and the special ones included.
        tokenizer_sample: Dialogues that the tokenizer is trained on.
    """

    steps: int
    seed: int = 0
    batch: int = 32
    peak: float = 2e-3
    warmup: int = 200
    floor: float = 0.02
    decay: float = 0.05
    vocabulary: int = 1024
    tokenizer_sample: int = 30_000


@dataclass(frozen=True)
class Example:
    """One dialogue as tokens.

    Attributes:
        ids: The tokens of the rendered dialogue.
        labels: The same, with :data:`IGNORED` where the loss does not count.
    """

    ids: list[int]
    labels: list[int]


def train_tokenizer(recipe: Recipe) -> PreTrainedTokenizerFast:
    """Trains the byte-level BPE tokenizer.

    Args:
        recipe: Size, seed and sample.

    Returns:
        A tokenizer with the chat template; any text can be encoded, digits are single tokens.
    """
    core = Tokenizer(models.BPE())
    core.normalizer = normalizers.NFC()
    words = pre_tokenizers.Split(Regex(WORDS), "isolated")
    core.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(False, use_regex=False)])
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocabulary,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    sample = dialogues(recipe.seed, recipe.tokenizer_sample)
    core.train_from_iterator((text for dialogue in sample for _, text in dialogue), trainer)
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=PAD,
        model_max_length=1024,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def new_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Makes the untrained model.

    Args:
        tokenizer: Gives the vocabulary and the special ids.

    Returns:
        A model of about 1.9 million parameters.
    """
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=192,
        intermediate_size=560,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        initializer_range=0.05,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id
    )
    return model


def encode(tokenizer: PreTrainedTokenizerFast, dialogue: Dialogue) -> Example:
    """Turns a dialogue into tokens and labels, as the chat template renders it.

    Args:
        tokenizer: The trained tokenizer.
        dialogue: Its turns.

    Returns:
        The tokens, and the labels of the assistant's turns with their end tokens.
    """
    user, bot, eos = tokenizer.encode(USER + BOT + EOS, add_special_tokens=False)
    ids: list[int] = []
    labels: list[int] = []
    for role, text in dialogue:
        words = tokenizer.encode(text, add_special_tokens=False)
        if role == "assistant":
            ids += [bot, *words, eos]
            labels += [IGNORED, *words, eos]
        else:
            ids += [user, *words]
            labels += [IGNORED] * (len(words) + 1)
    return Example(ids, labels)


def batches(examples: list[Example], size: int, rng: random.Random, pool: int = 6) -> Iterator[list[Example]]:
    """Groups examples of about the same length.

    Args:
        examples: All of them, in the order of the corpus.
        size: Examples in a batch.
        rng: Decides the order of the batches of a pool.
        pool: Batches that are sorted by length together.

    Yields:
        The batches; a last one that is not full is left out.
    """
    for start in range(0, len(examples), size * pool):
        chunk = sorted(examples[start : start + size * pool], key=lambda example: len(example.ids))
        groups = [chunk[at : at + size] for at in range(0, len(chunk) - size + 1, size)]
        rng.shuffle(groups)
        yield from groups


def _padded(rows: list[list[int]], fill: int) -> torch.Tensor:
    width = max(len(row) for row in rows)
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows])


def completion_loss(model: Qwen2ForCausalLM, batch: list[Example], pad: int) -> torch.Tensor:
    """The mean cross-entropy of the labelled tokens.

    Args:
        model: The model.
        batch: Examples; padding stands on the right, where a causal model needs no mask for it.
        pad: Token to fill with.

    Returns:
        A scalar.
    """
    ids = _padded([example.ids for example in batch], pad)
    labels = _padded([example.labels for example in batch], IGNORED)[:, 1:]
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    wanted = labels != IGNORED
    return functional.cross_entropy(model.lm_head(hidden[wanted]), labels[wanted])


def rate(recipe: Recipe, step: int) -> float:
    """The learning rate of an update: a linear rise, then a cosine down to the floor.

    Args:
        recipe: Peak, warm-up, floor and number of updates.
        step: Number of the update, from 0.

    Returns:
        The learning rate.
    """
    if step < recipe.warmup:
        return recipe.peak * (step + 1) / recipe.warmup
    along = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return recipe.peak * (recipe.floor + (1 - recipe.floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, along))))


def _optimizer(model: Qwen2ForCausalLM, recipe: Recipe) -> torch.optim.Optimizer:
    matrices = [weight for weight in model.parameters() if weight.ndim > 1]
    others = [weight for weight in model.parameters() if weight.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": recipe.decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.peak, betas=(0.9, 0.98), fused=True)


def train(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, recipe: Recipe) -> float:
    """Trains the model on a corpus in which no dialogue is shown twice on purpose.

    Args:
        model: Changed in place.
        tokenizer: The trained tokenizer.
        recipe: The settings.

    Returns:
        The mean loss of the last hundred updates.
    """
    examples = [encode(tokenizer, dialogue) for dialogue in dialogues(recipe.seed, recipe.steps * recipe.batch)]
    optimizer = _optimizer(model, recipe)
    losses: list[float] = []
    start = time.perf_counter()
    model.train()
    for step, batch in enumerate(batches(examples, recipe.batch, random.Random(recipe.seed))):
        for group in optimizer.param_groups:
            group["lr"] = rate(recipe, step)
        loss = completion_loss(model, batch, tokenizer.pad_token_id)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses = [*losses[-99:], loss.item()]
        if step % 100 == 99:
            seconds = time.perf_counter() - start
            _LOG.info("step %d loss %.4f after %.0f s", step + 1, sum(losses) / len(losses), seconds)
    return sum(losses) / max(1, len(losses))


def save(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Writes the model in half precision, and its tokenizer.

    Args:
        model: The trained model; it is left in half precision.
        tokenizer: The trained tokenizer.
        folder: Made where it is missing.
    """
    model.to(torch.float16).save_pretrained(folder)  # type: ignore[arg-type]
    tokenizer.save_pretrained(folder)


def make(recipe: Recipe, folder: Path) -> float:
    """Trains and writes the tiny policy.

    Args:
        recipe: The settings.
        folder: Where the files go.

    Returns:
        The final loss.
    """
    torch.manual_seed(recipe.seed)
    tokenizer = train_tokenizer(recipe)
    model = new_model(tokenizer)
    loss = train(model, tokenizer, recipe)
    save(model, tokenizer, folder)
    return loss


def main() -> None:
    """Reads the command line and makes the policy with one thread, so that the result can be had again."""
    parser = argparse.ArgumentParser(description="Train the tiny policy.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the files")
    parser.add_argument("--steps", type=int, default=4800, help="number of updates")
    parser.add_argument("--seed", type=int, default=0, help="seed of the corpus and the weights")
    parser.add_argument("--batch", type=int, default=32, help="dialogues in one update")
    parser.add_argument("--peak", type=float, default=2e-3, help="highest learning rate")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    recipe = Recipe(steps=arguments.steps, seed=arguments.seed, batch=arguments.batch, peak=arguments.peak)
    loss = make(recipe, arguments.out)
    _LOG.info("final loss %.4f, %d bytes", loss, sum(file.stat().st_size for file in arguments.out.iterdir()))


if __name__ == "__main__":
    main()
