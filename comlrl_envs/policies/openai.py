"""A model behind an OpenAI-compatible endpoint as a player."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from comlrl_envs.errors import InfrastructureError, OptionError
from comlrl_envs.model_client import ModelClient
from comlrl_envs.policies.build import split_settings
from comlrl_envs.policies.protocol import Reply
from comlrl_envs.policies.usage import MeasuredReply, Usage
from comlrl_envs.transcript import Message, as_text

CLIENT_SETTINGS: Mapping[str, type] = {
    "base_url": str,
    "key_variable": str,
    "chat": bool,
    "concurrency": int,
    "max_retries": int,
    "timeout": float,
    "total_timeout": float,
}
PARAMETERS: Mapping[str, type] = {
    "temperature": float,
    "top_p": float,
    "max_tokens": int,
    "max_completion_tokens": int,
    "seed": int,
    "stop": str,
    "reasoning_effort": str,
}


class OpenAIPolicy:
    """Answers each prompt with one request, as a chat or, with ``chat=False``, as one text.

    Args:
        client: The model; a name stands for one with the default settings.
    """

    def __init__(self, client: ModelClient | str) -> None:
        self.client = ModelClient(client) if isinstance(client, str) else client

    def act_chat(self, chats: list[list[Message]], agent: str, rng: np.random.Generator) -> list[Reply]:
        """One reply a chat, with its time and tokens; the server draws, not ``rng``."""
        prompts = chats if self.client.chat else [as_text([turn["content"] for turn in chat]) for chat in chats]
        return [
            answer
            if isinstance(answer, InfrastructureError)
            else MeasuredReply(answer.text, Usage(answer.seconds, answer.prompt_tokens, answer.completion_tokens))
            for answer in self.client.complete_many(prompts)
        ]

    def settings(self) -> dict[str, Any]:
        """The client's settings; no key is among them."""
        return self.client.settings()


def openai_policy(rest: str) -> OpenAIPolicy:
    """The policy ``openai:REST``: ``MODEL``, with settings after a question mark.

    ``CLIENT_SETTINGS`` are those of ``ModelClient``, ``PARAMETERS`` are sent with each request.

    Raises:
        OptionError: A setting is unknown or has a bad value.
    """
    if "key=" in rest.lower():
        raise OptionError(
            "A policy's name must hold no key: it is written into results. Put the key into an environment variable, "
            "OPENAI_API_KEY or another one that key_variable=NAME names."
        )
    model, given = split_settings(rest, {**CLIENT_SETTINGS, **PARAMETERS})
    parameters = {name: value for name, value in given.items() if name in PARAMETERS}
    return OpenAIPolicy(
        ModelClient(model, parameters=parameters, **{k: v for k, v in given.items() if k in CLIENT_SETTINGS})
    )
