"""Who plays which agent of a game in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from comlrl_envs.errors import InfrastructureError, OptionError, closest
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.policies.asking import ask
from comlrl_envs.policies.build import build_policy, parse_policies
from comlrl_envs.policies.human import HumanPolicy, fresh
from comlrl_envs.policies.protocol import Policy
from comlrl_envs.seeding import derive, rng
from comlrl_envs.terminal import BOLD, Terminal

Replies: TypeAlias = dict[str, str]

HUMAN = "human"
DEFAULT_PARTNER = "oracle"


@dataclass(frozen=True)
class Team:
    """A policy for each agent.

    Attributes:
        players: The policies.
        people: The agents that a person plays.
    """

    players: Mapping[str, Policy]
    people: tuple[str, ...]

    def act(self, game: TextGame, episode: Episode, terminal: Terminal) -> Replies:
        """One reply from each acting agent; where nobody plays along, what they read and write is shown."""
        replies: Replies = {}
        for agent in game.acting(episode):
            if not self.people:
                terminal.write(f"\n{agent} is shown:", BOLD)
                terminal.write(fresh(game, episode, agent) or "(nothing new)")
            draws = rng(derive(episode.seed, episode.task_id), episode.turn, f"play/{agent}")
            (reply,) = ask(self.players[agent], game, [episode], agent, draws)
            if isinstance(reply, InfrastructureError):
                raise reply
            if not self.people:
                terminal.write(f"\n{agent} writes:", BOLD)
                terminal.write(reply)
            replies[agent] = reply
        return replies


def seat(game: TextGame, terminal: Terminal, policies: str | None, agents: str | None) -> Team:
    """Give each agent a player.

    Args:
        game: Names the agents.
        terminal: The person's.
        policies: Who plays: one policy for all agents that the person does not play, one an agent in order, or some by
            agent; ``human`` is the person. None: the oracle if the person plays only some.
        agents: The person's agents, separated by commas; None: those that no policy is named for.

    Raises:
        OptionError: An agent or a policy is unknown, or an agent has two players.
    """
    named = None if agents is None else [name.strip() for name in str(agents).split(",") if name.strip()]
    for name in named or ():
        if name not in game.agents:
            raise OptionError(f"--agents {name}; the agents are {', '.join(game.agents)}.{closest(name, game.agents)}")
    chosen = _chosen(policies, game.agents, named or ())
    left = HUMAN if named is None else DEFAULT_PARTNER
    who = {agent: HUMAN if agent in (named or ()) else chosen.get(agent, left) for agent in game.agents}
    people = tuple(agent for agent in game.agents if who[agent] == HUMAN)
    players: dict[str, Policy] = dict.fromkeys(people, HumanPolicy(terminal))
    # Agents whose policies have the same name share one.
    built = {name: build_policy(name) for name in dict.fromkeys(who.values()) if name != HUMAN}
    players |= {agent: built[name] for agent, name in who.items() if name != HUMAN}
    return Team(players, people)


def _chosen(policies: str | None, agents: tuple[str, ...], named: Sequence[str]) -> dict[str, str]:
    """Names of policies by agent; ``named`` are the person's."""
    given = {} if policies is None else parse_policies(policies, agents)
    if isinstance(given, str):
        return dict.fromkeys(agents, given)
    if isinstance(given, list):
        if len(given) != len(agents):
            raise OptionError(
                f"--policies {policies}: {len(given)} policies for {len(agents)} agents ({', '.join(agents)}); give "
                "one each, one for all, or some by agent as in AGENT=POLICY."
            )
        given = dict(zip(agents, given, strict=True))
    for agent in named:
        if given.get(agent, HUMAN) != HUMAN:
            raise OptionError(f"--agents {agent}: --policies gives {agent} to {given[agent]!r}; leave one of them out.")
    return given
