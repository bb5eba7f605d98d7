"""A policy: a causal language model, its tokenizer and the distribution it writes from."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from comlrl_envs.errors import closest
from comlrl_envs.seeding import derive
from comlrl_envs.transcript import Message
from comlrl_learners.backbone import Backbone
from comlrl_learners.errors import PolicyError
from comlrl_learners.generation.hf import decode
from comlrl_learners.loading import (
    DTYPES,
    checked_device,
    checked_source,
    embedded_tokens,
    load_model,
    load_tokenizer,
    no_progress_bar,
    writable,
)
from comlrl_learners.logprobs import TokenLogprobs, distinct, sequence_logprobs
from comlrl_learners.samples import Completion, Prompt
from comlrl_learners.sampling import SamplingParams, uniforms
from comlrl_learners.tiny import TINY_PATH

GENERATION_TOKENS = 65_536
"""Prompt and completion positions that one decode may hold; `generate` cuts larger requests into chunks."""


@dataclass(frozen=True, slots=True)
class Request:
    """A completion to write.

    Attributes:
        prompt: The encoded prompt.
        key: Decides every draw of this completion; see `comlrl_envs.seeding.derive`.
    """

    prompt: Prompt
    key: int


class LLMPolicy:
    """A team member's weights; one object given to several agents is shared by them.

    Prompts go through the tokenizer's chat template when it has one, and are plain text otherwise. A prompt longer than
    `max_prompt_tokens` loses its middle: half of the room keeps its start, half its end, so that the role and the
    latest news (and a chat template's frame) stay.

    Attributes:
        model: The language model.
        tokenizer: Its tokenizer.
        sampling: The distribution of its completions.
        backbone: The model's calling conventions.
        max_prompt_tokens: Longest prompt in tokens, or None where the model has no bound.
        folder: Where it was loaded from, or None.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        sampling: SamplingParams | None = None,
        max_prompt_tokens: int | None = None,
    ) -> None:
        """Wrap a loaded model.

        Raises:
            PolicyError: The model has no end token, no room for a prompt, or layers that cannot be used.
        """
        self.model, self.tokenizer = model, tokenizer
        self.inherits_sampling = sampling is None
        self.folder: Path | None = None
        self.backbone = Backbone(model, _eos_ids(model, tokenizer))
        half = (self.backbone.context or 512) // 2
        self.sampling = sampling or SamplingParams(max_new_tokens=min(SamplingParams().max_new_tokens, half))
        self._embedded = embedded_tokens(model)
        self._check_embedded(self.backbone.eos_ids, "The list of end-of-sequence ids")
        room = self._room()
        if max_prompt_tokens is not None and not 1 <= max_prompt_tokens <= (room or max_prompt_tokens):
            raise PolicyError(
                f"max_prompt_tokens={max_prompt_tokens} must lie in [1, {room}]: the context of "
                f"{self.backbone.context} tokens also holds max_new_tokens={self.sampling.max_new_tokens}."
            )
        self.max_prompt_tokens = room if max_prompt_tokens is None else max_prompt_tokens
        self._fills_context = max_prompt_tokens is None

    def __repr__(self) -> str:
        """Model, size and sampling in one line."""
        size = sum(parameter.numel() for parameter in self.model.parameters())
        return f"LLMPolicy({type(self.model).__name__}, {size / 1e6:.1f} M parameters, {self.sampling})"

    def sample_from(self, sampling: SamplingParams) -> None:
        """Write from another distribution; a prompt limit that fills the context moves with `max_new_tokens`.

        Raises:
            PolicyError: `max_new_tokens` leaves no room for a prompt.
        """
        self.sampling = sampling
        if self._fills_context:
            self.max_prompt_tokens = self._room()

    def read_only(self) -> None:
        """Leave the whole context to prompts: this policy never writes."""
        self.sample_from(dataclasses.replace(self.sampling, max_new_tokens=1, min_new_tokens=0))

    @classmethod
    def load(
        cls,
        source: str | os.PathLike[str],
        sampling: SamplingParams | None = None,
        *,
        dtype: str = "float32",
        device: str | None = None,
        max_prompt_tokens: int | None = None,
    ) -> LLMPolicy:
        """Load "tiny" (the model that ships with the project), a local folder or a hub id.

        Args:
            source: What to load.
            sampling: The distribution of its completions; None takes a trainer's, and without one the defaults (at
                most half of the context for a completion).
            dtype: Weights are cast to this, whatever the file holds; "auto" keeps the file's.
            device: For example "cuda:0"; None takes the first GPU if there is one.
            max_prompt_tokens: Longest prompt; None takes what the context leaves beside `max_new_tokens`.

        Raises:
            PolicyError: The folder, its tokenizer or the hub's answer is missing.
        """
        path = str(TINY_PATH) if str(source) == "tiny" else checked_source(os.fspath(source))
        if dtype not in DTYPES:
            raise PolicyError(f"dtype={dtype!r} is none of {', '.join(DTYPES)}.{closest(dtype, DTYPES)}")
        place = checked_device(device)
        tokenizer = load_tokenizer(path)
        model = load_model(AutoModelForCausalLM, path, "causal language model", dtype=dtype)
        model.to(place)
        policy = cls(model, tokenizer, sampling, max_prompt_tokens)
        policy.folder = Path(path)
        return policy

    def settings(self) -> dict[str, object]:
        """What tells it from another policy, as JSON values: its source, its distribution, a sha256 of its weights."""
        return {
            "folder": None if self.folder is None else str(self.folder),
            "sampling": dataclasses.asdict(self.sampling),
            "weights": self.weight_digest(),
        }

    def weight_digest(self) -> str:
        """sha256 of all weights."""
        hasher = hashlib.sha256()
        for parameter in self.model.parameters():
            hasher.update(parameter.detach().float().cpu().numpy().tobytes())
        return hasher.hexdigest()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write weights and tokenizer so that `from_pretrained` opens them."""
        with no_progress_bar():
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @property
    def uses_chat(self) -> bool:
        """Whether prompts go through a chat template."""
        return self.tokenizer.chat_template is not None

    def encode(self, prompt: str | Sequence[Message]) -> Prompt:
        """Token ids of a prompt: messages for a chat template, or text (one user message if there is a template)."""
        if self.uses_chat:
            chat = [Message(role="user", content=prompt)] if isinstance(prompt, str) else prompt
            messages = [{"role": message["role"], "content": writable(message["content"])} for message in chat]
            text = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
            if any(token in message["content"] for token in self.tokenizer.all_special_tokens for message in messages):
                ids = self._encode_apart(messages)
            else:
                ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        else:
            text = prompt if isinstance(prompt, str) else "\n\n".join(message["content"] for message in prompt)
            ids = self.tokenizer(writable(text))["input_ids"]
        if not ids:
            return Prompt(self.backbone.eos_ids[:1])
        self._check_embedded(ids, "A prompt")
        return self._fit(tuple(ids))

    def _encode_apart(self, messages: list[dict[str, str]]) -> list[int]:
        """Ids of a chat whose contents spell control tokens: the template's are control, the contents' are text."""
        marks = [f"\ue000{number}\ue001" for number in range(len(messages))]
        marked = [{**message, "content": mark} for message, mark in zip(messages, marks, strict=True)]
        frame = str(self.tokenizer.apply_chat_template(marked, add_generation_prompt=True, tokenize=False))
        ids: list[int] = []
        for message, mark in zip(messages, marks, strict=True):
            before, found, frame = frame.partition(mark)
            ids += self.tokenizer(before, add_special_tokens=False)["input_ids"]
            if found:
                content = self.tokenizer(message["content"], add_special_tokens=False, split_special_tokens=True)
                ids += content["input_ids"]
        return ids + list(self.tokenizer(frame, add_special_tokens=False)["input_ids"])

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Write one completion per request, in order; large requests are decoded in chunks.

        What is drawn for a request depends on its prompt and key, not on the others.
        """
        completions: list[Completion] = []
        longest = max((len(request.prompt.ids) for request in requests), default=0)
        rows = max(1, GENERATION_TOKENS // (longest + self.sampling.max_new_tokens))
        for start in range(0, len(requests), rows):
            completions.extend(self._generate_chunk(requests[start : start + rows]))
        return completions

    def logprobs(
        self, completions: Sequence[Completion], *, entropy: bool = False, head: nn.Module | None = None
    ) -> TokenLogprobs:
        """Log-probs of completions under this policy's sampling temperature; see `sequence_logprobs`."""
        return sequence_logprobs(self.backbone, completions, self.sampling, entropy=entropy, head=head)

    def act(self, prompts: Sequence[str], agent: str, rng: np.random.Generator) -> list[str]:
        """Replies to plain prompts: the policy protocol of the environments' own tools."""
        keys = [derive("act", agent, int(rng.integers(2**63))) for _ in prompts]
        requests = [Request(self.encode(prompt), key) for prompt, key in zip(prompts, keys, strict=True)]
        return [completion.text for completion in self.generate(requests)]

    def _generate_chunk(self, requests: Sequence[Request]) -> list[Completion]:
        prompts, owners = distinct([request.prompt.ids for request in requests])
        numbers = uniforms([request.key for request in requests], self.sampling.max_new_tokens)
        drawn = decode(self.backbone, prompts, owners, numbers, self.sampling)
        texts = self.tokenizer.batch_decode([list(row.ids) for row in drawn], skip_special_tokens=True)
        return [
            Completion(request.prompt, row.ids, row.logprobs, text, row.finished)
            for request, row, text in zip(requests, drawn, texts, strict=True)
        ]

    def _fit(self, ids: tuple[int, ...]) -> Prompt:
        limit = self.max_prompt_tokens
        if limit is None or len(ids) <= limit:
            return Prompt(ids)
        head, tail = limit - limit // 2, limit // 2
        return Prompt(ids[:head] + ids[len(ids) - tail :], cut=len(ids) - limit)

    def _check_embedded(self, ids: Sequence[int], what: str) -> None:
        if max(ids) >= self._embedded:
            raise PolicyError(
                f"{what} holds the token id {max(ids)}, but the model embeds {self._embedded} tokens. Use its own "
                "tokenizer, or model.resize_token_embeddings(len(tokenizer))."
            )

    def _room(self) -> int | None:
        if self.backbone.context is None:
            return None
        room = self.backbone.context - self.sampling.max_new_tokens
        if room < 2:
            raise PolicyError(
                f"max_new_tokens={self.sampling.max_new_tokens} leaves no room for a prompt in a context of "
                f"{self.backbone.context} tokens. Lower max_new_tokens."
            )
        return room


def _eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """All ids that end a completion: those of the generation config, and the tokenizer's."""
    configured = model.generation_config.eos_token_id if model.generation_config is not None else None
    ids = [configured] if isinstance(configured, int) else list(configured or ())
    if tokenizer.eos_token_id is not None:
        ids.append(tokenizer.eos_token_id)
    return tuple(dict.fromkeys(ids))


def distinct_policies(team: Mapping[str, LLMPolicy]) -> list[tuple[LLMPolicy, tuple[str, ...]]]:
    """Each policy once, with the agents that share it, in agent order."""
    agents: dict[int, list[str]] = {}
    for agent, policy in team.items():
        agents.setdefault(id(policy), []).append(agent)
    return [(team[names[0]], tuple(names)) for names in agents.values()]
