"""Two writers, one post: a short summary and a longer one that fit each other.

- Agents: ``summarizer`` writes a concise summary, ``elaborator`` a detailed one; with ``num_agents=1`` a single
  ``writer`` writes both paragraphs in one reply. They act at the same time.
- Observation: role and post; from the second turn on also the feedback: ``"plain"`` (a fixed request to try again),
  ``"levels"`` (which level failed, on which side, with the numbers) or ``"peers"`` (the teammate's text).
- Action: any text. A single writer's reply is parted at ``[PARAGRAPH_SPLIT]``, or else at "Paragraph 2:", or else at
  one third of its characters.
- Reward: in ``[0, 3]``, the sum of four levels. ``reward="published"`` (default): both texts have ``min_words`` (8) to
  ``max_words`` (256) words, +0.5, or else 0; ``r = len(second) / len(first)`` in characters earns up to 1, in full
  from 1.6 to 3.2, and the rest is 0 outside ``[1.1, 5]``; the ratio of their distinct words up to 0.5, in full from 2,
  and the rest is 0 below 1.3; transitions in the second text and shared content words up to 0.98. 2.98 can be
  reached. ``reward="strict"``: the same levels for texts with the words of this post, in finished sentences of their
  own (``comlrl_envs.writing.strict`` says what that bounds and what not: no rule reads grammar); 3 can be reached.
- Episode end: after ``max_turns`` joint actions (default 1).
- Metrics: of the pair ``length_ratio``, ``words_ratio``, ``unique_words_ratio``, ``jaccard`` and
  ``transition_categories`` with their rewards, ``gated_total`` (the reward) and ``ungated_total`` (all levels as if
  each were open), rates of optimal and acceptable ratios, ``success`` (0.9 of what can be reached); per agent
  ``words``, ``characters``, ``unique_words``, ``in_range``, ``grounded_share``. In the strict preset the ratios are
  those of the sentences that count.
- Data: rows such as ``{"prompt": "SUBREDDIT: ... TITLE: ... POST: ... TL;DR:"}``, the labels at the beginnings of
  lines; a ``source`` (a text or a list of sentences) serves as well. Reference summaries in a row are dropped. Demo
  set: 64 train and 32 eval posts written for this project (MIT), no sentence in both.
- Channel: none by default; only ``feedback="peers"`` shows a teammate's text.
- Versions: v0, first release.

Example:
    >>> import comlrl_envs
    >>> env = comlrl_envs.make("writing/tldr", source="demo", feedback="levels", max_turns=2)
    >>> observations, _ = env.reset(seed=0)
    >>> observations["summarizer"].splitlines()[0]
    'Write a concise summary of this post.'
    >>> env.step({"summarizer": "Too short.", "elaborator": "Also too short."})[1]["summarizer"]
    0.0
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from comlrl_envs.assemble import build_env
from comlrl_envs.env import TextEnv
from comlrl_envs.sources import loader
from comlrl_envs.tasks import Row
from comlrl_envs.writing.levels import Band, Rules
from comlrl_envs.writing.pair import TWO_PARAGRAPHS, TextPair, floors_of, parser

SUMMARIZER, ELABORATOR = "summarizer", "elaborator"
LENGTH = Band(1.1, 1.6, 3.2, 5.0)
VOCABULARY = Band(1.3, 2.0)
TASKS = {
    SUMMARIZER: (
        "Write a concise summary of this post.",
        "- Use one sentence or a few, and keep to the point.\n- Stay with the facts and say what matters.",
    ),
    ELABORATOR: (
        "Write a detailed summary of this post.",
        "- Use many different words.\n- Use some transition words, so that the text flows.",
    ),
}
SINGLE = (
    "Summarise this post in two paragraphs, a concise one and a detailed one.",
    f"- {TWO_PARAGRAPHS}\n- Make the second paragraph two to three times as long as the first, in the same style, with "
    "more different words and many kinds of transition words.",
)
_LABELS = re.compile(r"^SUBREDDIT:.*$|^(?:TITLE|POST):|TL;DR:\s*\Z", re.MULTILINE)


@functools.lru_cache(maxsize=1024)
def story(prompt: str) -> str:
    """Title and body of a post, without the labels of its form and the forum's name."""
    return _LABELS.sub("", prompt)


@dataclass(frozen=True)
class Tldr(TextPair):
    """Rules of the game; see the module and ``TextPair`` for the settings."""

    roles = (SUMMARIZER, ELABORATOR)
    field = "prompt"
    retry = "Write your text about the post again, and better."

    @property
    def rules(self) -> Rules:
        """The published numbers, with this scenario's limits on words."""
        return Rules(self.min_words, self.max_words, LENGTH, VOCABULARY, 0.03, 0.2, both_styled=False)

    def task(self, source: str, agent: str) -> str:
        """One line, the post, two wishes."""
        request, wishes = TASKS.get(agent, SINGLE)
        return f"{request}\n\nPost:\n{source}\n\n{wishes}"

    def subject(self, source: str) -> str:
        """Title and body of the post."""
        return story(source)

    @property
    def floors(self) -> dict[str, float]:  # type: ignore[override]
        """Upper bounds on the mean reward of silent, echoing and random writers on the demo set."""
        return floors_of(self, {"published": 0.6, "strict": 0.15})


from_row = parser("prompt", gold=("completion", "target"))


def demo_rows(split: str) -> Iterable[Row]:
    """The shipped posts of a split."""
    from comlrl_envs.writing.demo import posts

    return posts.rows(split)


def parallel_env(**kwargs: Any) -> TextEnv:
    """The environment; keyword arguments are the scenario's settings and those that every id accepts."""
    return build_env(Tldr, loader("writing/tldr", demo_rows), kwargs, name="writing/tldr", parse=from_row)
