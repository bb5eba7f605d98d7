"""Who is asked when within one turn of a game, and what they see of each other's texts.

The untrained baselines of multi-agent writing, for any environment. A protocol adds notes to what an agent is shown;
rules, scoring and memory are the environment's own, and the notes stay in the agents' memory like other news.

==============  =============================================================  ========================
protocol        one turn                                                       time of the turn
==============  =============================================================  ========================
``parallel``    all acting agents at once, the environment as it is            the slowest agent's
``single``      the same, in the id's variant with one agent                   that agent's
``pipeline``    in agent order, each shown the texts of those before           sum over agents
``discussion``  all draft, then all see all drafts and write again; only the   slowest draft, plus the
                second texts are scored                                        slowest second text
==============  =============================================================  ========================

Tokens are summed over everything that was written, drafts included.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Literal, TypeAlias

from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError, closest
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.registry import make, spec

Protocol: TypeAlias = Literal["parallel", "single", "pipeline", "discussion"]
PROTOCOLS: tuple[Protocol, ...] = ("parallel", "single", "pipeline", "discussion")

PIPELINE_NOTE = "These texts of your team are finished; yours comes next and has to go with them."
DISCUSSION_NOTE = "These are the drafts of the whole team, yours among them. Now write your final text."


def check_protocol(protocol: str) -> Protocol:
    """``protocol`` if it is one of the four."""
    for known in PROTOCOLS:
        if protocol == known:
            return known
    raise OptionError(f"protocol={protocol!r}; expected one of {PROTOCOLS}.{closest(protocol, PROTOCOLS)}")


def rounds(protocol: Protocol, acting: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The agents asked at once, round after round, in one turn of the game; an agent's last text is its action."""
    if protocol == "pipeline":
        return [(agent,) for agent in acting]
    if protocol == "discussion" and acting:
        return [acting, acting]
    return [acting]


def note(protocol: Protocol, said: Mapping[str, str]) -> str:
    """What an agent is shown besides the game's own news.

    Args:
        protocol: Which one.
        said: The texts of the turn's earlier rounds, by agent.
    """
    if not said or protocol not in ("pipeline", "discussion"):
        return ""
    head = PIPELINE_NOTE if protocol == "pipeline" else DISCUSSION_NOTE
    return "\n\n".join([head, *(f"[{agent}]\n{text}" for agent, text in said.items())])


def with_notes(game: TextGame, episode: Episode, notes: Mapping[str, str]) -> Episode:
    """The episode with notes at the end of the news of the agents named."""
    news = tuple(
        "\n\n".join([text for text in (own, notes.get(agent, "")) if text])
        for agent, own in zip(game.agents, episode.news, strict=True)
    )
    return dataclasses.replace(episode, news=news)


def single_agent(env: TextEnv) -> TextEnv:
    """The variant of ``env`` that one agent plays.

    Raises:
        OptionError: It has none, or was not built from an id.
    """
    if len(env.possible_agents) == 1:
        return env
    name = env.metadata["name"]
    if env.spec is None:
        raise OptionError(f"protocol='single': {name} was not made from an id. Pass its own variant with one agent.")
    known = spec(env.spec.id)
    parameters = inspect.signature(known.load()).parameters.values()
    takes = any(p.name == "num_agents" or p.kind is p.VAR_KEYWORD for p in parameters)
    refusal = f"protocol='single': {known.id} has no variant with one agent; its agents are {env.possible_agents}."
    if not takes:
        raise OptionError(refusal)
    try:
        alone = make(known.id, **{**env.spec.kwargs, "num_agents": 1})
    except OptionError as refused:
        raise OptionError(f"{refusal} ({refused})") from refused
    if len(alone.possible_agents) != 1:
        raise OptionError(refusal)
    return alone
