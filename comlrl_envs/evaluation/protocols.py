"""Who is asked when within one turn of a game, and what they see of each other's texts.

The untrained baselines of a team, for any environment that they fit. A protocol adds notes to what an agent is shown,
or decides what of the texts written is played; rules, scoring and memory are the environment's own, and the notes stay
in the agents' memory like other news.

==============  =============================================================  ========================
protocol        one turn                                                       time of the turn
==============  =============================================================  ========================
``parallel``    all acting agents at once, the environment as it is            the slowest agent's
``single``      the same, in the id's variant with one agent                   that agent's
``pipeline``    in agent order, each shown the texts of those before           sum over agents
``discussion``  all draft, then all see all drafts and write again; only the   slowest draft, plus the
                second texts are scored                                        slowest second text
``solo``        all at once, each with its own view alone: what teammates are  the slowest agent's
                shown of a reply is emptied before it is scored and remembered
``majority``    one agent, one turn, as many texts as the team would write     the slowest draw
                (agents times turns); the one most agree with is played
==============  =============================================================  ========================

Tokens are summed over everything that was written, drafts included.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from comlrl_envs.env import TextEnv
from comlrl_envs.errors import ActionError, OptionError, closest
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.registry import make, spec
from comlrl_envs.scenario import Scenario, State
from comlrl_envs.seeding import derive

Protocol: TypeAlias = Literal["parallel", "single", "pipeline", "discussion", "solo", "majority"]
PROTOCOLS: tuple[Protocol, ...] = ("parallel", "single", "pipeline", "discussion", "solo", "majority")

PIPELINE_NOTE = "These texts of your team are finished; yours comes next and has to go with them."
DISCUSSION_NOTE = "These are the drafts of the whole team, yours among them. Now write your final text."


def check_protocol(protocol: str) -> Protocol:
    """``protocol`` if it is one of ``PROTOCOLS``."""
    for known in PROTOCOLS:
        if protocol == known:
            return known
    raise OptionError(f"protocol={protocol!r}; expected one of {PROTOCOLS}.{closest(protocol, PROTOCOLS)}")


def rounds(protocol: Protocol, acting: tuple[str, ...], draws: int = 1) -> list[tuple[str, ...]]:
    """The agents asked at once, round after round, in one turn of the game; with ``majority``, a round is a draw."""
    if protocol == "pipeline":
        return [(agent,) for agent in acting]
    if protocol == "discussion" and acting:
        return [acting, acting]
    if protocol == "majority" and acting:
        return [acting] * draws
    return [acting]


def asked_with(protocol: Protocol, episode: Episode, number: int) -> Episode:
    """The episode that a policy is shown in a round: for each draw of ``majority`` one of another seed.

    Policies draw by the episode's seed; what the agent is shown and how the game goes on stay the same.
    """
    if protocol != "majority":
        return episode
    return dataclasses.replace(episode, seed=derive(episode.seed, "majority", number))


def settle(
    protocol: Protocol, scenario: Scenario, state: State, written: Mapping[str, Sequence[str]]
) -> tuple[dict[str, str], dict[str, str]]:
    """What is played of the texts of a turn, and what else is kept of them (see ``Turn.drafts``).

    Args:
        protocol: Which one.
        scenario: The rules.
        state: Where the turn was played.
        written: By agent, its texts of all rounds.

    Raises:
        ActionError: ``Scenario.majority`` gave back none of the replies.
    """
    last = {agent: texts[-1] for agent, texts in written.items()}
    if protocol == "solo":
        return {agent: scenario.blank(text) for agent, text in last.items()}, last
    if protocol == "majority":
        numbered = {f"{agent} {n}": text for agent, texts in written.items() for n, text in enumerate(texts, start=1)}
        return {agent: _vote(scenario, state, texts) for agent, texts in written.items()}, numbered
    return last, {agent: texts[0] for agent, texts in written.items() if len(texts) > 1}


def _vote(scenario: Scenario, state: State, replies: Sequence[str]) -> str:
    picked = scenario.majority(state, replies)
    if picked not in replies:
        raise ActionError(
            f"{type(scenario).__name__}.majority gave back {picked!r:.200}; expected one of the {len(replies)} replies."
        )
    return picked


def duration(protocol: Protocol, seconds: Sequence[float]) -> float:
    """Time of a turn, from the times of its rounds: draws of ``majority`` do not wait for each other."""
    return max(seconds, default=0.0) if protocol == "majority" else sum(seconds)


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


def variant(protocol: Protocol, env: TextEnv) -> TextEnv:
    """The environment that ``protocol`` plays where ``env`` is given.

    Raises:
        OptionError: The protocol makes no sense there, or there is no such variant.
    """
    if protocol == "single":
        return single_agent(env)
    if protocol == "majority":
        return _voter(env)
    if protocol == "solo":
        _require_channel(env)
    return env


def budget(protocol: Protocol, env: TextEnv) -> int:
    """How many texts one agent is asked for in a turn: with ``majority``, as many as the team of ``env`` writes."""
    if protocol != "majority":
        return 1
    turns = env.game.max_turns if env.max_cycles is None else min(env.game.max_turns, env.max_cycles)
    return len(env.possible_agents) * turns


def single_agent(env: TextEnv, protocol: Protocol = "single", one_turn: bool = False) -> TextEnv:
    """The variant of ``env`` that one agent plays; with ``one_turn``, in a single turn.

    Raises:
        OptionError: It has none, or was not built from an id; the message names ``protocol``.
    """
    changes = {"num_agents": 1} if len(env.possible_agents) > 1 else {}
    if one_turn and env.game.max_turns > 1:
        changes["max_turns"] = 1
    if not changes:
        return env
    sought = "one agent and one turn" if one_turn else "one agent"
    if env.spec is None:
        name = env.metadata["name"]
        raise OptionError(f"protocol={protocol!r}: {name} was not made from an id. Pass its own variant with {sought}.")
    known = spec(env.spec.id)
    refusal = f"protocol={protocol!r}: {known.id} has no variant with {sought}; its agents are {env.possible_agents}."
    if not _takes(known.load(), changes):
        raise OptionError(refusal)
    try:
        alone = make(known.id, **{**env.spec.kwargs, **changes})
    except OptionError as refused:
        raise OptionError(f"{refusal} ({refused})") from refused
    if len(alone.possible_agents) != 1 or (one_turn and alone.game.max_turns != 1):
        raise OptionError(refusal)
    return alone


def _takes(factory: Callable[..., Any], names: Iterable[str]) -> bool:
    parameters = inspect.signature(factory).parameters
    return any(p.kind is p.VAR_KEYWORD for p in parameters.values()) or parameters.keys() >= set(names)


def _voter(env: TextEnv) -> TextEnv:
    """The variant with one agent and one turn, whose replies can vote."""
    alone = single_agent(env, "majority", one_turn=True)
    if type(alone.game.scenario).majority is Scenario.majority:
        raise OptionError(
            f"protocol='majority': {env.metadata['name']} has no majority of replies; its rules "
            f"({type(alone.game.scenario).__name__}) do not define Scenario.majority. Choose another protocol, such as "
            "'single'."
        )
    return alone


def _require_channel(env: TextEnv) -> None:
    """Raise ``OptionError`` if there is nothing to close."""
    scenario, name = env.game.scenario, env.metadata["name"]
    if not scenario.channel or len(env.possible_agents) == 1:
        raise OptionError(
            f"protocol='solo': {name} has no channel, its agents are shown nothing of each other's replies, so 'solo' "
            "equals 'parallel'. Choose that."
        )
    if type(scenario).blank is Scenario.blank:
        raise OptionError(
            f"protocol='solo': {name} has a channel, but its rules ({type(scenario).__name__}) do not say what of a "
            "reply teammates are shown. Define Scenario.blank."
        )
