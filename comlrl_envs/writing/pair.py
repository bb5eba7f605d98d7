"""What the games of a pair of texts about a source share: settings, scoring, measures, feedback, oracle.

A game adds its two roles, its briefs and its numbers (``rules``).
"""

from __future__ import annotations

import functools
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from comlrl_envs.errors import OptionError, one_of, positive_int
from comlrl_envs.scenario import Actions, Scenario, Score, State, Step
from comlrl_envs.writing import feedback, levels, strict
from comlrl_envs.writing.composing import Pair, best_pair
from comlrl_envs.writing.levels import Judgement, Rules

WRITER = "writer"
FEEDBACK = ("plain", "levels", "peers")
DELIMITER = "[PARAGRAPH_SPLIT]"
TWO_PARAGRAPHS = (
    f"Write exactly two paragraphs with {DELIMITER} between them: begin the first with 'Paragraph 1:' and the second "
    "with 'Paragraph 2:'."
)
FEWEST_MAX_WORDS = 40
"""``max_words`` is at least this, so that the highest reward can be reached within it."""
SUCCESS = 0.9
"""Share of the reachable reward that counts as success."""

_SECOND_LABEL = re.compile(r"paragraph[ \t]*2[ \t]*:", re.IGNORECASE)
_LABEL = re.compile(r"\s*paragraph[ \t]*[12][ \t]*:", re.IGNORECASE)


def split_reply(reply: str) -> Pair:
    """Both paragraphs of a single writer's reply, without labels and outer white space.

    They part at the delimiter, or else at the label "Paragraph 2:", or else at one third of the characters.

    >>> split_reply("Paragraph 1: Bees hum. [PARAGRAPH_SPLIT] Paragraph 2: They hum all day.")
    ('Bees hum.', 'They hum all day.')
    """
    first, delimiter, second = reply.partition(DELIMITER)
    if not delimiter:
        label = _SECOND_LABEL.search(reply)
        cut = label.start() if label else len(reply) // 3
        first, second = reply[:cut], reply[cut:]
    return _unlabelled(first), _unlabelled(second)


def _unlabelled(paragraph: str) -> str:
    return _LABEL.sub("", paragraph, count=1).strip() if _LABEL.match(paragraph) else paragraph.strip()


def text_field(row: Mapping[str, Any], name: str) -> str:
    """The text of ``row[name]``, or of ``row["source"]`` if it has only that; a list of sentences is joined.

    Raises:
        KeyError: The row has neither.
        TypeError: It is no text and no list of texts.
        ValueError: It is empty.
    """
    value = row["source"] if name not in row and "source" in row else row[name]
    sentences = [value] if isinstance(value, str) else value
    if not isinstance(sentences, list | tuple) or not all(isinstance(sentence, str) for sentence in sentences):
        raise TypeError(f"{name!r} is a {type(value).__name__}, expected a str or a list of sentences")
    text = " ".join(sentence.strip() for sentence in sentences) if value is sentences else value
    if not text.strip():
        raise ValueError(f"{name!r} is empty, expected a text to write about")
    return text


@dataclass(frozen=True)
class Draft(State):
    """The source, the joint actions so far, and what each agent is told about the last."""

    source: str
    turn: int = 0
    news: tuple[str, ...] = ()


@dataclass(frozen=True)
class TextPair(Scenario):
    """Rules that the games share; see their modules.

    Attributes:
        max_turns: Joint actions of an episode, >= 1.
        feedback: ``"plain"``, ``"levels"`` or ``"peers"``.
        min_words: Fewest words of each text, >= 1.
        max_words: Most words of each text, >= 40.
        num_agents: 2, or 1 for a single writer of both paragraphs.
        reward: Name of the preset.
    """

    max_turns: int = 1
    feedback: str = "plain"
    min_words: int = 8
    max_words: int = 256
    num_agents: int = 2
    reward: str = "published"

    roles: ClassVar[Pair]
    field: ClassVar[str]
    presets: ClassVar[tuple[str, ...]] = ("published", "strict")
    retry: ClassVar[str]

    reward_range = (0.0, 3.0)
    terms = ("structure_reward", "length_reward", "vocabulary_reward", "style_reward")
    metrics = (
        "length_ratio", "words_ratio", "unique_words_ratio", "jaccard", "jaccard_reward", "transition_categories",
        "transition_reward", "has_transition_words", "gated_total", "ungated_total", "optimal_length",
        "acceptable_length", "optimal_unique_words", "acceptable_unique_words", "success",
    )  # fmt: skip
    agent_metrics = ("words", "characters", "unique_words", "in_range", "grounded_share")

    def __post_init__(self) -> None:
        """Check the settings."""
        one_of("feedback", self.feedback, FEEDBACK)
        one_of("reward", self.reward, self.presets)
        for name, number in (
            ("max_turns", self.max_turns), ("min_words", self.min_words), ("max_words", self.max_words),
        ):  # fmt: skip
            positive_int(name, number)
        if isinstance(self.num_agents, bool) or self.num_agents not in (1, 2):
            raise OptionError(f"num_agents={self.num_agents!r}; expected 2, or 1 for a single writer.")
        if self.num_agents == 1 and self.feedback == "peers":
            raise OptionError(
                "feedback='peers' shows the partner's text, and num_agents=1 leaves no partner: pass 'levels'."
            )
        if self.max_words < max(FEWEST_MAX_WORDS, self.min_words):
            raise OptionError(
                f"min_words={self.min_words}, max_words={self.max_words}; expected max_words of at least "
                f"{FEWEST_MAX_WORDS} and no less than min_words."
            )

    @property
    @abstractmethod
    def rules(self) -> Rules:
        """The numbers of the game, with this scenario's limits on words."""

    @abstractmethod
    def task(self, source: str, agent: str) -> str:
        """Role, source and wishes for one of the roles, or for the single writer."""

    @property
    def agents(self) -> tuple[str, ...]:  # type: ignore[override]
        """Both roles, or the single writer."""
        return self.roles if self.num_agents == 2 else (WRITER,)

    def subject(self, source: str) -> str:
        """The part of a source that texts should be about. Default: all of it."""
        return source

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        """The row's text."""
        return Draft(item[self.field])

    def brief(self, state: State, agent: str) -> str:
        """What the agent is to write, and about what."""
        assert isinstance(state, Draft)
        return self.task(state.source, agent)

    def observe(self, state: State, agent: str) -> str:
        """Nothing at first, then the feedback on the last texts."""
        assert isinstance(state, Draft)
        return state.news[self.agents.index(agent)] if state.news else ""

    def advance(self, state: State, actions: Actions) -> Step:
        """Score both texts."""
        assert isinstance(state, Draft)
        texts = (
            split_reply(actions[WRITER]) if self.num_agents == 1 else (actions[self.roles[0]], actions[self.roles[1]])
        )
        judged = self.judge(self.subject(state.source), *texts)
        turn = state.turn + 1
        news = self._news(judged, texts) if turn < self.max_turns else ()
        score = Score(
            dict(zip(self.terms, judged.terms, strict=True)), self._measures(state, judged), self._by_agent(judged)
        )
        return Step(Draft(state.source, turn, news, key=state.key), score)

    def judge(self, source: str, first: str, second: str) -> Judgement:
        """Reward and measures of a pair of texts about ``source``, by this scenario's preset."""
        if self.reward == "strict":
            return strict.score_strict(first, second, source, self.rules)
        return levels.score_published(first, second, strict.read_source(source).words, self.rules)

    @property
    def channel(self) -> bool:  # type: ignore[override]
        """Whether the partner's text is shown."""
        return self.feedback == "peers"

    def blank(self, reply: str) -> str:
        """Nothing, where the partner is shown the whole reply."""
        return "" if self.channel else reply

    def oracle(self, state: State) -> Mapping[str, str] | None:
        """Texts in the source's own words that earn what is reachable."""
        assert isinstance(state, Draft)
        pair = _best(self.rules, self.reward == "strict", self.subject(state.source))
        if pair is None:
            return None
        if self.num_agents == 2:
            return dict(zip(self.roles, pair, strict=True))
        return {WRITER: f"Paragraph 1: {pair[0]}\n{DELIMITER}\nParagraph 2: {pair[1]}"}

    def reachable(self, state: State) -> float:
        """2.98 by the published reward, 3 by the strict one (0.1 if the source has no content word)."""
        assert isinstance(state, Draft)
        return strict.highest(self.subject(state.source)) if self.reward == "strict" else levels.HIGHEST

    def _news(self, judged: Judgement, texts: Pair) -> tuple[str, ...]:
        if self.feedback == "peers":
            return tuple([feedback.partner(self.roles[i], texts[i], self.retry) for i in (1, 0)])
        if self.feedback == "levels":
            names = self.roles if self.num_agents == 2 else ("first paragraph", "second paragraph")
            report = feedback.by_level(judged, self.rules, names, self.reward == "strict")
            return (f"{report}\n{self.retry}",) * len(self.agents)
        return (self.retry,) * len(self.agents)

    def _measures(self, state: Draft, judged: Judgement) -> dict[str, float]:
        first, second = judged.texts
        length, vocabulary = self.rules.length, self.rules.vocabulary
        return {
            "length_ratio": judged.ratio,
            "words_ratio": second.words / first.words if first.words else 0.0,
            "unique_words_ratio": judged.unique_ratio,
            "jaccard": judged.jaccard,
            "jaccard_reward": judged.jaccard_reward,
            "transition_categories": float(judged.categories),
            "transition_reward": judged.transition_reward,
            "has_transition_words": float(judged.categories > 0),
            "gated_total": judged.reward,
            "ungated_total": sum(judged.ungated),
            "optimal_length": float(length.full_low <= judged.ratio <= length.full_high),
            "acceptable_length": float(length.low <= judged.ratio <= length.high),
            "optimal_unique_words": float(vocabulary.full_low <= judged.unique_ratio <= vocabulary.full_high),
            "acceptable_unique_words": float(vocabulary.low <= judged.unique_ratio <= vocabulary.high),
            "success": float(judged.reward >= SUCCESS * self.reachable(state)),
        }

    def _by_agent(self, judged: Judgement) -> dict[str, dict[str, float]]:
        """The measures of each agent's text; a single writer's are sums over both, or means of shares."""
        values = [
            {
                "words": float(text.words),
                "characters": float(text.characters),
                "unique_words": float(text.unique_words),
                "in_range": float(self.min_words <= text.words <= self.max_words),
                "grounded_share": text.grounded,
            }
            for text in judged.texts
        ]
        if self.num_agents == 2:
            return {name: {role: own[name] for role, own in zip(self.roles, values, strict=True)} for name in values[0]}
        both = {name: values[0][name] + values[1][name] for name in values[0]}
        return {
            name: {WRITER: total / 2 if name in ("in_range", "grounded_share") else total}
            for name, total in both.items()
        }


@functools.lru_cache(maxsize=1024)
def _best(rules: Rules, strictly: bool, source: str) -> Pair | None:
    words = strict.read_source(source).words

    def reward(first: str, second: str) -> float:
        if strictly:
            return strict.score_strict(first, second, source, rules).reward
        return levels.score_published(first, second, words, rules).reward

    return best_pair(source, rules, reward, strict.highest(source) if strictly else levels.HIGHEST, strictly)


def parser(name: str, gold: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """A parser of rows: the text under ``name``, the fields ``gold`` and ``source`` left out, others kept."""
    return functools.partial(_parse, name=name, dropped=frozenset((*gold, "source", name)))


def _parse(row: Mapping[str, Any], *, name: str, dropped: frozenset[str]) -> Mapping[str, Any]:
    return {name: text_field(row, name), **{key: value for key, value in row.items() if key not in dropped}}


def floors_of(scenario: TextPair, echo: Mapping[str, float]) -> dict[str, float]:
    """Bounds on scripted policies: of those that echo by preset, of silent and random ones for any.

    A limit of fewer words than the default is within reach of short random texts, which then earn a level or two.
    """
    return {"empty": 0.0, "echo": echo[scenario.reward], "random": 0.1 if scenario.min_words >= 8 else 3.0}
