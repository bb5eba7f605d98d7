"""Two writers, one abstract: an introduction in two halves, background and method, that match in length and style.

- Agents: ``background`` writes background and motivation, ``method`` methods and implications; with ``num_agents=1``
  a single ``writer`` writes both paragraphs in one reply. They act at the same time.
- Observation: role and abstract; from the second turn on also the feedback: ``"plain"`` (a fixed request to try
  again), ``"levels"`` (which level failed, on which side, with the numbers) or ``"peers"`` (the teammate's text).
- Action: any text. A single writer's reply is parted at ``[PARAGRAPH_SPLIT]``, or else at "Paragraph 2:", or else at
  one third of its characters.
- Reward: in ``[0, 3]``, the sum of four levels. ``reward="published"`` (default): both texts have ``min_words`` (128)
  to ``max_words`` (256) words, +0.5, or else 0; ``r = len(second) / len(first)`` in characters earns up to 1, in full
  from 1 to 1.3, and the rest is 0 outside ``[0.8, 1.5]``; the ratio of their distinct words up to 0.5, in full from
  0.7 to 1.3, and the rest is 0 outside ``[0.5, 1.7]``; transitions in both texts and shared content words up to 0.98.
  2.98 can be reached. ``reward="published_b"``: the same with ``r`` in full from 1.3 to 1.6 and 0 outside
  ``[0.8, 2]``, as in another release. ``reward="strict"``: the levels of ``"published"`` for texts with the words of
  this abstract, in finished sentences of their own (``comlrl_envs.writing.strict`` says what that bounds and what not:
  no rule reads grammar); 3 can be reached.
- Episode end: after ``max_turns`` joint actions (default 1).
- Metrics: of the pair ``length_ratio``, ``words_ratio``, ``unique_words_ratio``, ``jaccard`` and
  ``transition_categories`` with their rewards, ``gated_total`` (the reward) and ``ungated_total`` (all levels as if
  each were open), rates of optimal and acceptable ratios, ``success`` (0.9 of what can be reached); per agent
  ``words``, ``characters``, ``unique_words``, ``in_range``, ``grounded_share``. In the strict preset the ratios are
  those of the sentences that count.
- Data: rows such as ``{"abstract_text": "..."}``, a text or a list of sentences; a ``source`` serves as well. Reference
  texts in a row are dropped. Demo set: 64 train and 32 eval abstracts of invented studies, written for this project
  (MIT), no sentence in both.
- Channel: none by default; only ``feedback="peers"`` shows a teammate's text.
- Versions: v0, first release.

Example:
    >>> import comlrl_envs
    >>> env = comlrl_envs.make("writing/arxiv", source="demo", min_words=8)
    >>> observations, _ = env.reset(seed=0)
    >>> observations["method"].splitlines()[0]
    'Expand this abstract into the second half of an introduction: methods and implications.'
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from comlrl_envs.assemble import build_env
from comlrl_envs.env import TextEnv
from comlrl_envs.sources import loader
from comlrl_envs.tasks import Row
from comlrl_envs.writing.levels import Band, Rules
from comlrl_envs.writing.pair import TWO_PARAGRAPHS, TextPair, floors_of, parser

BACKGROUND, METHOD = "background", "method"
LENGTH = Band(0.8, 1.0, 1.3, 1.5)
LENGTH_B = Band(0.8, 1.3, 1.6, 2.0)
VOCABULARY = Band(0.5, 0.7, 1.3, 1.7)
TASKS = {
    BACKGROUND: (
        "Expand this abstract into the first half of an introduction: background and motivation.",
        "- A teammate writes about the methods and what follows from them.\n- Write only about the background and why "
        "the work is needed.\n- Leave your teammate's half to your teammate.",
    ),
    METHOD: (
        "Expand this abstract into the second half of an introduction: methods and implications.",
        "- A teammate writes about the background and why the work is needed.\n- Write only about the methods and what "
        "follows from them.\n- Leave your teammate's half to your teammate.",
    ),
}
SINGLE = (
    "Expand this abstract into an introduction of two paragraphs: background and motivation, then methods and "
    "implications.",
    f"- {TWO_PARAGRAPHS}\n- Make both paragraphs equally long, with as many different words, and use many kinds of "
    "transition words.",
)


@dataclass(frozen=True)
class Arxiv(TextPair):
    """Rules of the game; see the module and ``TextPair`` for the settings."""

    min_words: int = 128

    roles = (BACKGROUND, METHOD)
    field = "abstract_text"
    presets = ("published", "published_b", "strict")
    retry = "Write your half about the abstract again, and better."

    @property
    def rules(self) -> Rules:
        """The published numbers, with this scenario's limits on words."""
        length = LENGTH_B if self.reward == "published_b" else LENGTH
        return Rules(self.min_words, self.max_words, length, VOCABULARY, 0.23, 0.35, both_styled=True)

    def task(self, source: str, agent: str) -> str:
        """One line, the abstract, three wishes."""
        request, wishes = TASKS.get(agent, SINGLE)
        return f"{request}\n\nAbstract:\n{source}\n\n{wishes}"

    @property
    def floors(self) -> dict[str, float]:  # type: ignore[override]
        """Upper bounds on the mean reward of silent, echoing and random writers on the demo set."""
        # Two equal abstracts earn nearly all that is published, where they are long enough: `strict` closes that hole.
        echo = 2.7 if self.min_words >= 128 else 3.0
        return floors_of(self, {"published": echo, "published_b": echo, "strict": 0.15})


from_row = parser("abstract_text", gold=("target", "article_text", "section_names"))


def demo_rows(split: str) -> Iterable[Row]:
    """The shipped abstracts of a split."""
    from comlrl_envs.writing.demo import abstracts

    return abstracts.rows(split)


def parallel_env(**kwargs: Any) -> TextEnv:
    """The environment; keyword arguments are the scenario's settings and those that every id accepts."""
    return build_env(Arxiv, loader("writing/arxiv", demo_rows), kwargs, name="writing/arxiv", parse=from_row)
