"""Episodes played by script: who says what, as a function of the episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from comlrl_envs.game import Episode, TextGame
from comlrl_envs.policies.scripted import RandomPolicy
from comlrl_envs.seeding import rng
from comlrl_envs.tasks import Task
from comlrl_envs.testing.hostile import hostile_text

Chooser: TypeAlias = Callable[[TextGame, Episode], Mapping[str, str]]
"""A team: the acting agents' replies in an episode, a function of the two alone."""


def empty(game: TextGame, episode: Episode) -> dict[str, str]:
    """Nobody says anything."""
    return dict.fromkeys(game.acting(episode), "")


def echo(game: TextGame, episode: Episode) -> dict[str, str]:
    """Each repeats what it is shown."""
    prompts = game.prompts(episode)
    return {agent: prompts[agent] for agent in game.acting(episode)}


def random(game: TextGame, episode: Episode) -> dict[str, str]:
    """Each writes up to 64 random characters, as the policy of that name does in evaluations."""
    policy, unused = RandomPolicy(), rng("episodes bring their own draws")
    replies = {}
    for agent in game.acting(episode):
        (reply,) = policy.act_episodes(game, [episode], agent, unused)
        replies[agent] = str(reply)
    return replies


def hostile(game: TextGame, episode: Episode) -> dict[str, str]:
    """Each says what a parser likes least; see ``hostile_text``."""
    prompts = game.prompts(episode)
    # Gold may take a search to find, so that only some replies are made from it.
    with_gold = rng(episode.state.key, episode.turn, "hostile").random() < 0.25
    gold = (game.oracle(episode) or {}) if with_gold else {}
    replies = {}
    for agent in game.acting(episode):
        draws = rng(episode.state.key, episode.turn, agent, "hostile")
        replies[agent] = hostile_text(draws, (prompts[agent], gold.get(agent, "")))
    return replies


def oracle(game: TextGame, episode: Episode) -> dict[str, str]:
    """The scenario's gold joint action; silence where it knows none."""
    gold = game.oracle(episode) or {}
    return {agent: gold.get(agent, "") for agent in game.acting(episode)}


TURNS = 100
"""Most joint actions of an episode that are played: one that is meant never to end is measured so far."""

FLOORS: Mapping[str, Chooser] = {"empty": empty, "echo": echo, "random": random}
"""The floor policies that every scenario may bound by name."""


def start(game: TextGame, tasks: Sequence[Task], seed: int = 0) -> list[Episode]:
    """One episode for each task, all of the same seed."""
    return game.start_many(tasks, [seed] * len(tasks))


def rounds(
    game: TextGame, episodes: Sequence[Episode], choose: Chooser
) -> Iterator[list[tuple[int, Episode, Episode]]]:
    """Play all episodes to their end, or for ``TURNS`` turns, a joint action of each at a time.

    Yields:
        For each episode that was not over: its place, and the episode before and after the joint action.
    """
    now = list(episodes)
    while live := [place for place, episode in enumerate(now) if not episode.done and episode.turn < TURNS]:
        before = [now[place] for place in live]
        after = game.step_many([(episode, choose(game, episode)) for episode in before])
        for place, stepped in zip(live, after, strict=True):
            now[place] = stepped
        yield list(zip(live, before, after, strict=True))


def play(game: TextGame, episodes: Sequence[Episode], choose: Chooser) -> list[Episode]:
    """The same, its last episodes only."""
    ended = list(episodes)
    for moves in rounds(game, episodes, choose):
        for place, _, after in moves:
            ended[place] = after
    return ended


def mean_reward(episode: Episode) -> float:
    """Mean reward over the turns played: finding late what was due early costs."""
    return sum(episode.rewards) / len(episode.rewards)
