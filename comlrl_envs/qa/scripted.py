"""Scripted players of question answering: what a team is worth that does not know, does not talk or does not try.

By name: ``qa:silent``, ``qa:always_yes`` and so on, wherever a policy is named; they read the episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from comlrl_envs.errors import OptionError, one_of
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.policies.protocol import Reply
from comlrl_envs.qa.documents import cited
from comlrl_envs.qa.team_question import Asked, TeamQuestion
from comlrl_envs.seeding import rng as rng_of

Answer = Callable[[TeamQuestion, Asked, str], str]

SILENT = "<message></message>"
YES = f"{SILENT}<answer>yes</answer>"


def silent(game: TeamQuestion, state: Asked, agent: str) -> str:
    """Keeps the form and says nothing."""
    return SILENT


def always_yes(game: TeamQuestion, state: Asked, agent: str) -> str:
    """Answers yes, whatever is asked."""
    return YES


def echo_context(game: TeamQuestion, state: Asked, agent: str) -> str:
    """Passes on the beginning of its documents, and gives it as its answer too."""
    text = " ".join(each.text for each in game.held(state, agent)).replace("<", " ").replace(">", " ")
    answer = " ".join(text.split()[: game.answer_words])
    return f"<message>{text[: game.message_chars]}</message><answer>{answer}</answer>"


def oracle_one_sided(game: TeamQuestion, state: Asked, agent: str) -> str:
    """Plays the gold reply on one side of the team, ``TeamQuestion.one_side``; the others are silent."""
    gold = game.oracle(state)
    return gold[agent] if gold is not None and agent in game.one_side and agent in gold else SILENT


def copy_first(game: TeamQuestion, state: Asked, agent: str) -> str:
    """Answers with what the first teammate who said something said last."""
    mates = (voice for name, voice in zip(game.agents, state.voices, strict=True) if name != agent)
    said = next((text for voice in mates if (text := voice.answer or voice.message)), "")
    answer = " ".join(said.split()[: game.answer_words])
    return f"{SILENT}<answer>{answer}</answer>" if answer else SILENT


def first_sentence(game: TeamQuestion, state: Asked, agent: str) -> str:
    """Cites the first sentence of each of its documents."""
    return f"{SILENT}<evidence>{cited(tuple((each.number, 0) for each in game.held(state, agent)))}</evidence>"


def cite_all(game: TeamQuestion, state: Asked, agent: str) -> str:
    """Cites every sentence of its documents."""
    facts = tuple((each.number, place) for each in game.held(state, agent) for place in range(len(each.sentences)))
    return f"{SILENT}<evidence>{cited(facts)}</evidence>"


def random_select(game: TeamQuestion, state: Asked, agent: str) -> str:
    """Selects two of the documents that it is shown, by chance."""
    numbers = [each.number for each in game.held(state, agent)]
    order = rng_of(state.key, state.turn, f"random_select {agent}").permutation(len(numbers))[:2]
    return f"{SILENT}<select>{', '.join(f'D{numbers[int(place)]}' for place in order)}</select>"


SCRIPTED: Mapping[str, Answer] = {
    answer.__name__: answer
    for answer in (
        silent, always_yes, echo_context, oracle_one_sided, copy_first, first_sentence, cite_all, random_select,
    )
}  # fmt: skip
"""By the name that follows ``qa:``."""


@dataclass(frozen=True)
class ScriptedPolicy:
    """A scripted player of any game of question answering.

    Args:
        name: One of ``SCRIPTED``.

    Raises:
        OptionError: There is none of this name.
    """

    name: str

    def __post_init__(self) -> None:
        """Check the name."""
        one_of("policy", self.name, tuple(SCRIPTED))

    def act_episodes(
        self, game: TextGame, episodes: list[Episode], agent: str, rng: np.random.Generator
    ) -> list[Reply]:
        """One reply an episode.

        Raises:
            OptionError: The game is none of question answering.
        """
        rules = game.scenario
        if not isinstance(rules, TeamQuestion):
            raise OptionError(
                f"qa:{self.name} plays games of question answering; this one is a {type(rules).__name__}."
            )
        replies: list[Reply] = []
        for episode in episodes:
            assert isinstance(episode.state, Asked)
            replies.append(SCRIPTED[self.name](rules, episode.state, agent))
        return replies


def policy(name: str) -> ScriptedPolicy:
    """The policy ``qa:NAME``; the entry point of this scheme."""
    return ScriptedPolicy(name)
