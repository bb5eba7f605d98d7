"""Who plays which agent of a game in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from comlrl_envs.errors import InfrastructureError, OptionError, closest
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.policies.asking import ask
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
        policies: Who plays the agents that the person does not; None: the oracle if the person plays only some.
        agents: The person's agents, separated by commas; None: all if no policy, or ``human``, is named, else none.

    Raises:
        OptionError: An agent or a policy is unknown.
    """
    named = None if agents is None else [name.strip() for name in str(agents).split(",") if name.strip()]
    for name in named or ():
        if name not in game.agents:
            raise OptionError(f"--agents {name}; the agents are {', '.join(game.agents)}.{closest(name, game.agents)}")
    if policies == HUMAN or (named is None and policies is None):
        people = game.agents
    else:
        people = tuple(agent for agent in game.agents if agent in (named or ()))
    others = [agent for agent in game.agents if agent not in people]
    players: dict[str, Policy] = dict.fromkeys(people, HumanPolicy(terminal))
    if others:
        from comlrl_envs.policies.build import build_policy

        players |= dict.fromkeys(others, build_policy(policies or DEFAULT_PARTNER))
    return Team(players, people)
