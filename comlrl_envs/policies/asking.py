"""The one way to ask a policy, whichever of the three forms it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from comlrl_envs.errors import ActionError, InfrastructureError, OptionError
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.policies.protocol import ChatPolicy, EpisodePolicy, Policy, Reply, TextPolicy


def ask(
    policy: Policy, game: TextGame, episodes: Sequence[Episode], agent: str, rng: np.random.Generator
) -> list[Reply]:
    """One reply an episode; a policy of several forms is asked in the one that is told most.

    An ``InfrastructureError`` that the policy raises stands in place of each reply.

    Raises:
        ActionError: A reply is no text.
        OptionError: The policy has none of the forms, or gives another number of replies.
    """
    try:
        replies = list(_call(policy, game, list(episodes), agent, rng))
    except InfrastructureError as failure:
        return [failure] * len(episodes)
    if len(replies) != len(episodes):
        raise OptionError(
            f"The policy of {agent!r} ({type(policy).__name__}) gave {len(replies)} replies to {len(episodes)} "
            "prompts; it has to give one each, in order."
        )
    for reply in replies:
        if not isinstance(reply, str | InfrastructureError):
            raise ActionError(
                f"The policy of {agent!r} ({type(policy).__name__}) gave a {type(reply).__name__}; expected a str, or "
                "an InfrastructureError where a machine failed."
            )
    return replies


def is_policy(candidate: Any) -> bool:
    """Whether an object has one of the three forms."""
    return isinstance(candidate, TextPolicy | ChatPolicy | EpisodePolicy)


def _call(
    policy: Policy, game: TextGame, episodes: list[Episode], agent: str, rng: np.random.Generator
) -> Sequence[Reply]:
    if isinstance(policy, EpisodePolicy):
        return policy.act_episodes(game, episodes, agent, rng)
    if isinstance(policy, ChatPolicy):
        return policy.act_chat([game.messages(episode)[agent] for episode in episodes], agent, rng)
    if isinstance(policy, TextPolicy):
        return policy.act([game.prompts(episode)[agent] for episode in episodes], agent, rng)
    raise OptionError(
        f"The policy of {agent!r} is a {type(policy).__name__}, which has none of act, act_chat and act_episodes. "
        "Wrap a function of one prompt by per_prompt(...)."
    )
