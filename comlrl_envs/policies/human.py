"""A person as a player."""

from __future__ import annotations

import re

import numpy as np

from comlrl_envs.errors import ComlrlError, closest
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.policies.protocol import Reply
from comlrl_envs.terminal import BOLD, DIM, Terminal

HINT = "Write your reply; a line with a single dot, or Ctrl-D, ends it. /help lists more."
HELP = """\
.        alone on a line ends your reply (so does Ctrl-D); at once, it gives an empty one
/full    shows all that a model would be shown in your place, your earlier replies included
/help    shows this
/quit    leaves the game
A line that should read like one of these, or a first line like /word, takes one more of its first sign: .. or //help"""
_COMMANDS = (".", "/full", "/help", "/quit")
_LIKE_A_COMMAND = re.compile(r"/[a-zA-Z]+")


class PlayerLeft(ComlrlError):
    """The person left, or the input ended, in the middle of an episode.

    Args:
        reason: How.
        asked: Whether the person asked to leave.
    """

    def __init__(self, reason: str, asked: bool) -> None:
        super().__init__(reason)
        self.asked = asked


class HumanPolicy:
    """Asks a person in a terminal, one episode after another.

    Each turn shows what is new to the agent since its last reply: its brief at first, then the news.

    Args:
        terminal: Default: the process's own, taken when the first reply is due.
    """

    def __init__(self, terminal: Terminal | None = None) -> None:
        self._terminal = terminal
        self._hinted = False

    def act_episodes(
        self, game: TextGame, episodes: list[Episode], agent: str, rng: np.random.Generator
    ) -> list[Reply]:
        """One typed reply an episode.

        Raises:
            PlayerLeft: The person left, or the input ended before a reply began.
        """
        if self._terminal is None:
            self._terminal = Terminal()
        return [self._ask(self._terminal, game, episode, agent) for episode in episodes]

    def _ask(self, terminal: Terminal, game: TextGame, episode: Episode, agent: str) -> str:
        terminal.write(f"\n{agent}, turn {episode.turn + 1} of {game.max_turns}, task {episode.task_id}", BOLD)
        terminal.write(fresh(game, episode, agent) or "(nothing new)")
        if not self._hinted:
            terminal.write(HINT, DIM)
            self._hinted = True
        lines: list[str] = []
        while True:
            line = terminal.read_line("> ")
            if line is None and not lines:
                raise PlayerLeft(f"The input ended before {agent} replied in turn {episode.turn + 1}.", asked=False)
            command = "." if line is None else line.strip()
            if line is None or command == ".":
                return "\n".join(lines)
            if command == "/quit":
                raise PlayerLeft("The player left.", asked=True)
            if command == "/help":
                terminal.write(HELP, DIM)
            elif command == "/full":
                terminal.write(game.prompts(episode)[agent])
            elif not lines and _LIKE_A_COMMAND.fullmatch(command):
                terminal.write(f"No command {command}; /{command} writes it.{closest(command, _COMMANDS)}", DIM)
            else:
                lines.append(line[1:] if _escaped(line, first=not lines) else line)


def _escaped(line: str, first: bool) -> bool:
    """Whether a line begins with one sign more than it should; within a reply, ``//word`` may be a comment in code."""
    meant = line[1:]
    if not meant or meant[0] != line[0]:
        return False
    return meant in _COMMANDS or (first and _LIKE_A_COMMAND.fullmatch(meant) is not None)


def fresh(game: TextGame, episode: Episode, agent: str) -> str:
    """What ``agent`` is shown and was not when it last replied, whatever the game's memory."""
    place = game.agents.index(agent)
    parts = [episode.news[place]]
    for exchange in reversed(episode.past[place]):
        if exchange.reply is not None:
            break
        parts.append(exchange.news)
    else:
        parts.append(episode.briefs[place])
    return "\n\n".join(part for part in reversed(parts) if part)
