"""A sequence-classification model as a batched reward function."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch
from transformers import AutoModelForSequenceClassification

from comlrl_learners.errors import ConfigError
from comlrl_learners.loading import load_model, load_tokenizer, writable

Join = Callable[[str, Sequence[str]], str]


def joined(prompt: str, completions: Sequence[str]) -> str:
    """The prompt and each agent's text, separated by blank lines."""
    return "\n\n".join([prompt, *completions])


class ModelReward:
    """A reward function for `from_reward` and `reward=` that asks a model with one output.

    The model loads at the first call, and a copy or pickle carries its settings alone.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        join: Join = joined,
        batch_size: int = 32,
        max_length: int | None = None,
        device: str | None = None,
    ) -> None:
        """Name the model.

        Args:
            path: Folder or hub id of a sequence-classification model with one label, and its tokenizer.
            join: Makes the text that is scored from the prompt and the agents' texts.
            batch_size: Texts per forward.
            max_length: Texts are cut to this many tokens; None takes the tokenizer's limit.
            device: Where the model lies; None takes the first GPU, or the CPU.
        """
        self.path, self.join, self.batch_size = os.fspath(path), join, batch_size
        self.max_length, self.device = max_length, device

    def __call__(self, *completions: Sequence[str], prompts: Sequence[str]) -> list[float]:
        """Score joint actions.

        Args:
            completions: One list of texts per agent, aligned.
            prompts: The prompt of each joint action.

        Returns:
            The model's one logit for each joint action.
        """
        texts = [self.join(prompt, joint) for prompt, *joint in zip(prompts, *completions, strict=True)]
        rewards: list[float] = []
        for start in range(0, len(texts), self.batch_size):
            rewards += self._score(texts[start : start + self.batch_size])
        return rewards

    def __getstate__(self) -> dict[str, object]:
        """Settings only."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @torch.inference_mode()
    def _score(self, texts: list[str]) -> list[float]:
        if "_model" not in vars(self):
            self._load()
        encoded = self._tokenizer(
            [writable(text) for text in texts],
            padding=True,
            truncation=True,
            max_length=self.max_length,
            return_tensors="pt",
        ).to(self._model.device)
        logits: torch.Tensor = self._model(**encoded).logits
        return logits[:, 0].float().tolist()

    def _load(self) -> None:
        tokenizer = load_tokenizer(self.path)
        model = load_model(AutoModelForSequenceClassification, self.path, "sequence classifier", dtype="float32")
        if model.config.num_labels != 1:
            raise ConfigError(
                f"The model {self.path!r} has {model.config.num_labels} outputs, and a reward is one number. Train or "
                "load it with num_labels=1."
            )
        tokenizer.truncation_side = "left"  # the prompt's start goes first, never what the agents wrote
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        if model.config.pad_token_id is None:
            model.config.pad_token_id = tokenizer.pad_token_id
        model.to(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._tokenizer, self._model = tokenizer, model.eval()
