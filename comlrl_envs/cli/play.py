"""`comlrl-envs play`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from comlrl_envs.cli.players import Replies, Team, seat
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import InfrastructureError
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.policies.human import PlayerLeft
from comlrl_envs.registry import make
from comlrl_envs.terminal import BOLD, DIM, Terminal


def command(
    id: str,
    task: int | str | None = None,
    seed: int | None = None,
    policies: str | None = None,
    agents: str | None = None,
    env_options: Mapping[str, Any] | None = None,
) -> int:
    """Play an episode yourself, or watch policies play one.

    Args:
        id: The environment, such as `writing/length_ratio`.
        task: Position (a whole number) or id of a task; drawn by the seed if left out.
        seed: Makes the episode the same each time.
        policies: Who plays the agents that you do not, as in `eval`: `oracle` for all of them, `human,oracle` in the
            agents' order, or `elaborator=random` for some.
        agents: Which agents you play, separated by commas; those that no policy is named for, if left out.
        env_options: Keyword arguments of the environment.
    """
    terminal = Terminal()
    env = make(id, **(env_options or {}))
    try:
        team = seat(env.game, terminal, policies, agents)
        env.reset(seed=seed, options=None if task is None else {"task": task})
        while True:
            _play(env, team, terminal)
            if not team.people or not _agreed(terminal, "Play another? [y/N] ", default=False):
                return 0
            env.reset()
    except PlayerLeft as left:
        terminal.write(str(left), DIM)
        # A script whose input was too short must notice; a person who presses Ctrl-D has left on purpose.
        return 0 if left.asked or terminal.interactive else 1
    except KeyboardInterrupt:
        terminal.write("")
        raise
    finally:
        env.close()


def _play(env: TextEnv, team: Team, terminal: Terminal) -> None:
    """Play the current episode of ``env`` to its end."""
    game = env.game
    terminal.write(f"Task {env.episode.task_id}, seed {env.episode.seed}; agents: {', '.join(game.agents)}", BOLD)
    while env.agents:
        before = env.episode
        replies = team.act(game, before, terminal)
        step(env, replies, terminal)
        _show_outcome(game, env.episode, terminal)
    _show_end(game, env.episode, team, terminal)


def step(env: TextEnv, replies: Replies, terminal: Terminal) -> None:
    """Score the replies; a failed machine may be asked again, so that nothing typed is lost."""
    while True:
        try:
            env.step(replies)
        except InfrastructureError as failure:
            if not terminal.interactive:
                raise
            terminal.write(str(failure))
            if not _agreed(terminal, "Try again? [Y/n] ", default=True):
                raise PlayerLeft("The player left.", asked=True) from failure
        else:
            return


def _show_outcome(game: TextGame, episode: Episode, terminal: Terminal) -> None:
    terminal.write(f"\nTurn {episode.turn} of {game.max_turns}: reward {episode.reward:g}", BOLD)
    score = episode.score
    if score is None:
        return
    rows = [("term", name, number) for name, number in score.terms.items() if name != "clip" or number]
    rows += [("metric", name, number) for name, number in score.metrics.items()]
    rows += [(agent, name, by_agent[agent]) for name, by_agent in score.agent_metrics.items() for agent in game.agents]
    kinds = max((len(kind) for kind, _, _ in rows), default=0)
    names = max((len(name) for _, name, _ in rows), default=0)
    for kind, name, number in rows:
        terminal.write(f"  {kind:<{kinds}}  {name:<{names}}  {number:g}")


def _show_end(game: TextGame, episode: Episode, team: Team, terminal: Terminal) -> None:
    if team.people and len(team.people) < len(game.agents):
        for agent, past in zip(game.agents, episode.past, strict=True):
            for turn, exchange in enumerate(past, start=1):
                if agent not in team.people and exchange.reply is not None:
                    terminal.write(f"\n{agent} wrote in turn {turn}:", BOLD)
                    terminal.write(exchange.reply)
    turns = "1 turn" if episode.turn == 1 else f"{episode.turn} turns"
    terminal.write(f"\nThe episode is over after {turns}: sum of rewards {sum(episode.rewards):g}.", BOLD)


def _agreed(terminal: Terminal, question: str, default: bool) -> bool:
    answer = terminal.read_line(question)
    if answer is None:
        return False
    return answer.strip().lower() in ("y", "yes") if answer.strip() else default
