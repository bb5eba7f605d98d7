"""Readers who hold different paragraphs answer one question together.

- Agents: ``reader_1`` to ``reader_n`` (``num_agents``, 2 to 4; default 2), who act at the same time. ``num_agents=1``:
  one reader who holds everything.
- Observation: the question and the reader's own documents. The supporting ones are dealt so that nobody holds them all
  (``deal="forced"``, the default; ``"random"`` deals by chance, ``"full"`` shows everybody everything). From the second
  turn on the teammates' messages, each cut to ``message_chars``, and errors of form (``feedback="peers+format"``, the
  default; ``"peers"``: without these; ``"oracle"``: and whether the team is right, for ablations).
- Action: ``<message>...</message>`` to the team, ``<answer>...</answer>`` (``answer_words`` at most), and
  ``<evidence>D3:0; D7</evidence>``: own documents, or sentences of them. Text outside of tags says nothing. The last
  answer and the last evidence that a reader gave stand; different answers in one reply are none.
- Reward: worth = 0.75 x mean F1 (``answer_metric="em"``: exactness) of all readers' answers
  (``answer_rule="worst"``: the worst; ``"designated"``: the first reader's) + 0.20 x F1 of the evidence that they cite
  together + 0.05 x share of readers whose last reply keeps the form - 0.10 x share of messages
  that had to be cut, in ``[0, 1]``. It is paid at the end; with ``reward_mode="per_turn"`` each turn, with ``"delta"``
  as its change. ``weights={"support": 0.0, "answer": 0.95}`` sets other weights.
- Episode end: after ``max_turns`` joint actions (default 3), or when all who answer give the same answer in a turn
  after the first.
- Metrics: ``answer_em`` and ``answer_f1`` (means of the readers), ``answer_best_f1``, ``answer_worst_f1``,
  ``support_em``, ``support_f1``, ``joint_em``, ``joint_f1``, ``sufficiency`` (share of readers who are right on
  whether there is an answer), ``agreement``, ``message_chars``, ``format``, ``cut`` and
  ``success`` (every answer that counts is right); per agent ``f1`` and ``message_chars``.
- ``unanswerable_rate``: share of episodes that lose a supporting paragraph; the right answer is "unanswerable" then.
  The others lose one that supports nothing, if they have one, so that the number of documents does not tell.
- Data: ``dataset="hotpotqa"`` (CC BY-SA 4.0; default), ``"musique"`` (CC BY 4.0), ``"2wikimultihopqa"`` (Apache-2.0) or
  ``"strategyqa"`` (MIT; each fact is a document), scored as the set's own script does. Demo set: 64 train and 32 eval
  questions about invented facts, written for this project (MIT). Rows of your own: as they stand in any of these
  files (``data_dir=`` reads whole files), or ``{"question", "answers", "paragraphs": [{"title", "sentences"}],
  "support": [[paragraph, sentence or null]]}``.
- Channel: messages. That an episode goes on tells besides that not all have given the same answer.
- Versions: v0, first release.

Example:
    >>> import comlrl_envs
    >>> env = comlrl_envs.make("qa/split_context", source="demo", max_turns=2)
    >>> task = {"task": "mira-omar-0"}
    >>> observations, _ = env.reset(seed=0, options=task)
    >>> observations["reader_1"].splitlines()[-1]
    'Omar keeps a yellow cup in the shed.'
    >>> one = "<message>Omar's cup is yellow.</message>"
    >>> two = "<message>Mira's hat is black.</message>"
    >>> observations, *_ = env.step({"reader_1": one, "reader_2": two})
    >>> print(observations["reader_1"].split(chr(10) * 2)[-1])
    Turn 2 of 2.
    reader_2: Mira's hat is black.
    This is the last turn. Who keeps the darker thing? Put the answer in tags.
    >>> mira = "<answer>Mira</answer>"
    >>> _, rewards, *_ = env.step({"reader_1": mira, "reader_2": mira})
    >>> rewards["reader_1"]
    0.8
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from comlrl_envs.assemble import build_env
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError, TaskError, one_of, positive_int
from comlrl_envs.qa import tags
from comlrl_envs.qa.answers import AnswerScore
from comlrl_envs.qa.deal import DEALS, Hands, labels
from comlrl_envs.qa.deal import deal as deal_hands
from comlrl_envs.qa.demo.darker_things import darker_things
from comlrl_envs.qa.documents import Document, Facts, cited, document, passed_on, quoted
from comlrl_envs.qa.records import QARecord, from_row
from comlrl_envs.qa.rows import parse
from comlrl_envs.qa.sets import qa_loader
from comlrl_envs.qa.support import hotpotqa_support, joint
from comlrl_envs.qa.team_question import (
    NO_DOCUMENTS,
    Asked,
    TeamQuestion,
    Voice,
    answer_form,
    answer_score,
    gold_answer,
    heard,
    numbered,
    team_size,
)
from comlrl_envs.qa.vote import UNANSWERABLE, agreed, says_nothing
from comlrl_envs.scenario import Actions, Score, State

TEAM_ANSWER: Mapping[str, Callable[[Sequence[float]], float]] = {
    "all": fmean,
    "worst": min,
    "designated": operator.itemgetter(0),
}
"""By rule what the readers' answers are worth together."""


@dataclass(frozen=True, kw_only=True)
class Reading(Asked):
    """A question, who holds which documents, and what was said.

    Attributes:
        hands: By agent its documents.
        support: What the answer rests on.
        evidence: By agent the facts that it cited last.
    """

    hands: tuple[tuple[Document, ...], ...]
    support: Facts
    evidence: tuple[Facts, ...]


@dataclass(frozen=True)
class SplitContext(TeamQuestion):
    """Rules of the game; see the module.

    Attributes:
        num_agents: Readers, 2 to 4; 1 holds everything.
        deal: ``"forced"``, ``"random"`` or ``"full"``.
        answer_rule: Whose answers count: ``"all"``, their mean; ``"worst"``, the worst of them; ``"designated"``, the
            first reader's.
        answer_metric: What an answer is worth: ``"f1"``, its overlap with the gold one, or ``"em"``, its exactness.
        evidence_items: Facts that a reader may cite.
        unanswerable_rate: Share of episodes that lose a supporting paragraph.
    """

    dataset: str = "hotpotqa"
    num_agents: int = 2
    deal: str = "forced"
    answer_rule: str = "all"
    answer_metric: str = "f1"
    evidence_items: int = 10
    unanswerable_rate: float = 0.0

    own_weights: ClassVar[Mapping[str, float]] = {"answer": 0.75, "support": 0.20, "form": 0.05, "cut": 0.10}
    penalties = ("cut",)
    terms = tuple(own_weights)
    metrics = (
        "answer_em", "answer_f1", "answer_best_f1", "answer_worst_f1", "support_em", "support_f1", "joint_em",
        "joint_f1", "sufficiency", "agreement", "message_chars", "format", "cut", "success",
    )  # fmt: skip
    agent_metrics = ("f1", "message_chars")
    floors = {"empty": 0.0, "echo": 0.15, "random": 0.01}  # noqa: RUF012  # a plain attribute of the base class

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        one_of("deal", self.deal, DEALS)
        one_of("answer_rule", self.answer_rule, tuple(TEAM_ANSWER))
        one_of("answer_metric", self.answer_metric, ("f1", "em"))
        positive_int("evidence_items", self.evidence_items)
        team_size(self.num_agents, 2, 4, "readers")
        rate = self.unanswerable_rate
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 <= rate <= 1.0:
            raise OptionError(f"unanswerable_rate={rate!r}; expected a share from 0 to 1.")

    @property
    def agents(self) -> tuple[str, ...]:  # type: ignore[override]
        """``reader_1`` to ``reader_n``; one alone is ``reader``."""
        return numbered("reader", self.num_agents)

    @property
    def limits(self) -> tags.Limits:
        """How much of a reply counts."""
        return replace(super().limits, evidence_items=self.evidence_items)

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        """The record, dealt."""
        record, answerable = self._what_is_there(from_row(item), rng)
        numbers = labels(record, rng)
        hands = self._hands(record, rng)
        return Reading(
            question=record.question,
            answers=record.answers if answerable else (),
            scorer=self.own_scorer(item),
            voices=(Voice(),) * self.num_agents,
            hands=tuple(tuple(document(numbers[p], record.paragraphs[p]) for p in hand) for hand in hands),
            support=tuple((numbers[p], sentence) for p, sentence in record.support),
            evidence=((),) * self.num_agents,
        )

    def _what_is_there(self, record: QARecord, rng: np.random.Generator) -> tuple[QARecord, bool]:
        """The record as this episode plays it, and whether it can be answered."""
        if self.deal == "forced" and self.num_agents > 1 and len(record.supporting) < 2:
            raise TaskError(
                f"Task {record.id!r} cannot be dealt: {len(record.supporting)} of its paragraphs support the answer; a "
                "forced deal takes two or more. deal='random' plays it."
            )
        if not self.unanswerable_rate or not record.supporting:
            return record, record.answerable
        lost = rng.random() < self.unanswerable_rate
        others = [place for place in range(len(record.paragraphs)) if place not in record.supporting]
        # An answerable episode goes without a paragraph too: their number is not to tell.
        places = list(record.supporting) if lost else others
        less = record.without(places[int(rng.integers(len(places)))]) if places else record
        return less, record.answerable and not lost

    def _hands(self, record: QARecord, rng: np.random.Generator) -> Hands:
        return deal_hands(record, self.num_agents, self.deal if self.num_agents > 1 else "full", rng, least=0)

    def brief(self, state: State, agent: str) -> str:
        """Role, form, question, own documents."""
        assert isinstance(state, Reading)
        alone = self.num_agents == 1
        role = (
            f"You answer a question from documents in {self.max_turns} turns."
            if alone
            else f"You are {agent}, one of {self.num_agents} readers who answer a question together in "
            f"{self.max_turns} turns. "
            f"{'All readers hold the same' if self.deal == 'full' else 'Each reader holds other'} documents, and "
            f"{'all of you must answer' if self.answer_rule != 'designated' else f'{self.agents[0]} answers for all'}."
        )
        message = "" if alone else "<message>what teammates should know</message>\n"
        return (
            f"{role} Write, between tags:\n{message}<answer>your answer</answer>"
            f"{answer_form(state)}, as soon as you know "
            f'it, or "{UNANSWERABLE}" if the documents do not tell\n<evidence>D1:0; D2</evidence> for sentences or '
            "documents of yours that it rests on\n\n"
            f"Question: {state.question}\n\n{'Documents' if alone else 'Your documents'}:\n"
            f"{self.pages(state, agent) or NO_DOCUMENTS}"
        )

    def held(self, state: Reading, agent: str) -> tuple[Document, ...]:
        """The documents of an agent."""
        return state.hands[self.agents.index(agent)]

    def listen(self, state: Reading, actions: Actions) -> Reading:
        """Messages, answers, and evidence from the speakers' own documents."""
        voices, evidence = [], []
        for place, agent in enumerate(self.agents):
            said = tags.read(actions[agent], self.limits)
            own = _own(said.evidence, state.hands[place])
            stray = len(said.evidence) - len(own)
            errors = [f"{stray} of the facts you cited did not count: cite your own documents"] if stray else []
            voices.append(heard(said, state.voices[place], errors))
            evidence.append(own or state.evidence[place])
        return replace(state, voices=tuple(voices), evidence=tuple(evidence))

    def settled(self, state: Reading) -> bool:
        """Whether all who answer gave the same answer, and have had the time to hear each other."""
        said = [v.now for agent, v in zip(self.agents, state.voices, strict=True) if self.answers_now(agent)]
        return state.turn > 1 and agreed(said, state.scorer)

    def may_settle(self, state: Reading) -> bool:
        """Whether the coming turn is not the first."""
        return state.turn > 0

    def judge(self, state: Reading) -> Score:
        """The published sum, with every part of it."""
        scores = [answer_score(state, voice.answer) for voice in state.voices]
        support = _support_score(state)
        kept = fmean(not voice.errors for voice in state.voices)
        cut = sum(voice.cut for voice in state.voices) / (len(state.voices) * state.turn)
        worth = self._together([score.em if self.answer_metric == "em" else score.f1 for score in scores])
        parts = {"answer": worth, "support": support.f1, "form": kept, "cut": cut}
        both = [joint(score, support) for score in scores]
        metrics = {
            "answer_em": fmean(score.em for score in scores),
            "answer_f1": fmean(score.f1 for score in scores),
            "answer_best_f1": max(score.f1 for score in scores),
            "answer_worst_f1": min(score.f1 for score in scores),
            "support_em": support.em,
            "support_f1": support.f1,
            "joint_em": fmean(score.em for score in both),
            "joint_f1": fmean(score.f1 for score in both),
            "sufficiency": fmean(says_nothing(voice.answer) != bool(state.answers) for voice in state.voices),
            "agreement": float(agreed([voice.answer for voice in state.voices], state.scorer)),
            "message_chars": float(sum(voice.characters for voice in state.voices)),
            "format": kept,
            "cut": cut,
            "success": float(self._together([score.em for score in scores]) == 1.0),
        }
        by_agent = {
            "f1": {agent: score.f1 for agent, score in zip(self.agents, scores, strict=True)},
            "message_chars": {a: float(v.characters) for a, v in zip(self.agents, state.voices, strict=True)},
        }
        return Score(self.weighted(parts), metrics, by_agent)

    def oracle(self, state: State) -> Mapping[str, str] | None:
        """First the supporting sentences that each reader holds; then, to who was told the others', the answer."""
        assert isinstance(state, Reading)
        told = [quoted(hand, state.support, self.message_chars) for hand in state.hands]
        replies = {}
        for place, agent in enumerate(self.agents):
            message, facts = told[place]
            answer = f"<answer>{gold_answer(state)}</answer>" if self._knows(state, place) else ""
            replies[agent] = f"<message>{message}</message>{answer}<evidence>{cited(facts)}</evidence>"
        return replies

    def _knows(self, state: Reading, place: int) -> bool:
        """Whether an agent was told what it does not hold itself; where nobody can be told, the oracle goes ahead."""
        own = {each.number for each in state.hands[place]}
        missing = tuple(fact for fact in state.support if fact[0] not in own)
        due = [quoted(hand, missing, self.message_chars)[0] for hand in state.hands]
        return not self.channel or all(
            passed_on(text, voice.message) for text, voice in zip(due, state.voices, strict=True) if text
        )

    def best(self, state: State) -> float:
        """All of it once everybody was told; before that the evidence and the form, and what those know who can."""
        assert isinstance(state, Reading)
        known = self._together([float(self._knows(state, place)) for place in range(self.num_agents)])
        return sum(self.weighted({"answer": known, "support": 1.0, "form": 1.0}).values())

    def _together(self, values: Sequence[float]) -> float:
        return TEAM_ANSWER[self.answer_rule](values)

    def answers_now(self, agent: str) -> bool:
        """Whether an agent's answer counts."""
        return self.answer_rule != "designated" or agent == self.agents[0]


def _own(evidence: Facts, hand: Iterable[Document]) -> Facts:
    """The facts of documents that a speaker holds."""
    sizes = {each.number: len(each.sentences) for each in hand}
    return tuple((n, s) for n, s in evidence if n in sizes and (s is None or s < sizes[n]))


def _support_score(state: Reading) -> AnswerScore:
    """F1 of the facts that all cite together; where the set names paragraphs, a sentence cites its paragraph."""
    sentences = any(sentence is not None for _, sentence in state.support)
    facts = {fact for cited_facts in state.evidence for fact in cited_facts}
    return hotpotqa_support(_as_facts(facts, sentences), _as_facts(state.support, sentences))


def _as_facts(facts: Iterable[tuple[int, int | None]], sentences: bool) -> list[tuple[str, int]]:
    return [(str(number), (-1 if sentence is None else sentence) if sentences else 0) for number, sentence in facts]


def parallel_env(**kwargs: Any) -> TextEnv:
    """The environment; keyword arguments are the scenario's settings and those that every id accepts."""
    load = qa_loader("qa/split_context", kwargs.get("dataset", SplitContext.dataset), darker_things)
    return build_env(SplitContext, load, kwargs, name="qa/split_context", parse=parse)
