"""A local model as a player of the environments' own tools: ``hf:PATH`` of `comlrl-envs eval` and `play`."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from comlrl_envs.game import Episode, TextGame
from comlrl_envs.policies import MeasuredReply, Reply, Usage, split_settings
from comlrl_envs.seeding import derive
from comlrl_envs.transcript import Message
from comlrl_learners.policy import LLMPolicy, Request
from comlrl_learners.sampling import SamplingParams

SAMPLING = {"temperature": float, "top_p": float, "top_k": int, "max_new_tokens": int, "min_new_tokens": int}
LOADING = {"device": str, "dtype": str, "max_prompt_tokens": int}


class HostedPolicy:
    """Answers chats by an `LLMPolicy`, through the tokenizer's chat template where it has one.

    In an episode the draws belong to the episode, the turn, the agent and what is new to it, so that a reply does not
    depend on what else is played in the same batch.

    Args:
        model: The loaded policy.
        source: What it was loaded from, for the record.
    """

    def __init__(self, model: LLMPolicy, source: str = "") -> None:
        self.model = model
        self.source = source
        # A model is asked by one thread at a time; two agents may be played by two wrappers of one model.
        self._busy = threading.Lock()

    def act_chat(self, chats: list[list[Message]], agent: str, rng: np.random.Generator) -> list[Reply]:
        """One reply a chat, drawn from ``rng``."""
        return self._write(chats, [derive("hosted", int(rng.integers(2**63))) for _ in chats])

    def act_episodes(
        self, game: TextGame, episodes: list[Episode], agent: str, rng: np.random.Generator
    ) -> list[Reply]:
        """One reply an episode, drawn for the episode."""
        place = game.agents.index(agent)
        chats = [game.messages(episode)[agent] for episode in episodes]
        keys = [derive("hosted", e.seed, e.task_id, e.turn, agent, e.news[place]) for e in episodes]
        return self._write(chats, keys)

    def settings(self) -> dict[str, Any]:
        """Source and sampling."""
        return {"source": self.source, **dataclasses.asdict(self.model.sampling)}

    def _write(self, chats: Sequence[Sequence[Message]], keys: Sequence[int]) -> list[Reply]:
        if not chats:
            return []
        began = time.perf_counter()
        with self._busy:
            requests = [Request(self.model.encode(chat), key) for chat, key in zip(chats, keys, strict=True)]
            written = self.model.generate(requests)
        seconds = (time.perf_counter() - began) / len(chats)
        return [MeasuredReply(one.text, Usage(seconds, len(one.prompt.ids), len(one.ids))) for one in written]


def policy(rest: str) -> HostedPolicy:
    """The policy ``hf:REST``: ``tiny``, a folder or a hub id, with settings after a question mark.

    Settings are those of `SamplingParams`, and ``device``, ``dtype`` and ``max_prompt_tokens`` of `LLMPolicy.load`:
    ``hf:tiny?temperature=0.7&max_new_tokens=64``.

    Raises:
        OptionError: A setting is unknown or has a bad value.
        PolicyError: The model cannot be loaded.
        ConfigError: A sampling setting lies outside its range.
    """
    source, given = split_settings(rest, {**SAMPLING, **LOADING})
    sampling = {name: value for name, value in given.items() if name in SAMPLING}
    loading = {name: value for name, value in given.items() if name in LOADING}
    return HostedPolicy(LLMPolicy.load(source, SamplingParams(**sampling) if sampling else None, **loading), source)
