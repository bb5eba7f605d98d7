"""Solvers who all see one question discuss it, and what most of them say is the team's answer.

- Agents: ``solver_1`` to ``solver_n`` (``num_agents``, 2 to 5; default 3), who act at the same time. ``num_agents=1``:
  one solver, ``solver``.
- Observation: the question; of a row with a single paragraph, that passage too. With ``asymmetric="facts"`` each solver
  also holds some of the row's paragraphs, dealt so that nobody has all that the answer rests on. From the second turn
  on the solver's own answer, the teammates' answers and messages (``view="answers_only"``: their answers alone), each
  cut to ``message_chars``, and errors of form (``feedback="peers+format"``, the default; ``"peers"``: without these;
  ``"oracle"``: and whether the team is right, for ablations).
- Action: ``<message>...</message>`` to the team and ``<answer>...</answer>``. Text outside of tags says nothing. The
  last answer that a solver gave stands. An empty ``<message></message>`` keeps a reply to oneself: teammates are shown
  it as one without an answer.
- Reward: worth = 0.70 x V + 0.25 x mean of c + 0.05 x share of solvers whose last reply keeps the form, in ``[0, 1]``.
  c is 1 if a solver's answer is right, else 0 (of tasks of reasoning-gym, their scorer's part). V is 1 if the answer
  that most solvers give is right; no answer counts as a vote for none, and of a tie V is the share of the answers in it
  that are right. It is paid at the end; with ``reward_mode="per_turn"`` each turn, with ``"delta"`` as its change.
- Episode end: after ``max_turns`` joint actions (default 3).
- Metrics: ``accuracy`` (mean of the solvers), ``vote_accuracy``, ``first_accuracy`` and ``first_vote_accuracy`` (after
  the first turn), ``right_to_wrong`` and ``wrong_to_right`` (shares of right and of wrong answers that a turn turned
  round), ``conformity`` (of the changes of an answer, those to what most said the turn before), ``any_right``, ``gap``
  (``any_right - vote_accuracy``), ``agreement``, ``message_chars``, ``format`` and ``success`` (the vote is right); per
  agent ``accuracy`` and ``message_chars``.
- Data: ``dataset="gsm8k"`` (MIT; default), ``"strategyqa"`` (MIT) or ``"boolq"`` (CC BY-SA 3.0), scored as the set's
  own script does. Demo set: 64 train and 32 eval small sums, plain, in words, as yes or no, and with three choices,
  written for this project (MIT). Rows of your own: ``{"question", "answers", "scorer"}`` and what else
  ``qa/split_context`` takes, or those that ``comlrl_envs.qa.reasoning.reasoning_tasks`` makes of reasoning-gym.
- Channel: answers and messages.
- Versions: v0, first release.

Example:
    >>> import comlrl_envs
    >>> env = comlrl_envs.make("qa/debate", source="demo")
    >>> task = {"task": "8-plus-4"}
    >>> observations, _ = env.reset(seed=0, options=task)
    >>> observations["solver_1"].splitlines()[-1]
    'Question: Work out 8 + 4.'
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from comlrl_envs.assemble import build_env
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import one_of
from comlrl_envs.qa import board, deal, reasoning, tags
from comlrl_envs.qa.demo.sums import sums
from comlrl_envs.qa.discussion import Discussion, form, grade, moved, vote_accuracy
from comlrl_envs.qa.documents import Document, document, passed_on, quoted
from comlrl_envs.qa.records import QARecord, from_row
from comlrl_envs.qa.sets import qa_loader
from comlrl_envs.qa.team_question import (
    NO_DOCUMENTS,
    TeamQuestion,
    Voice,
    answer_form,
    gold_answer,
    heard,
    numbered,
    team_size,
)
from comlrl_envs.qa.vote import CANONICAL, canonical, most_agreed
from comlrl_envs.scenario import Actions, Score, State
from comlrl_envs.tagged_text import shown
from comlrl_envs.tasks import Row

VIEWS = MESSAGES, ANSWERS_ONLY = ("messages", "answers_only")
ASYMMETRIES = NONE, FACTS = ("none", "facts")
NO_ANSWER = "none"


@dataclass(frozen=True)
class Debate(TeamQuestion):
    """Rules of the game; see the module.

    Attributes:
        num_agents: Solvers, 2 to 5; 1 plays alone.
        view: What teammates are shown: ``"messages"``, with answers, or ``"answers_only"``.
        asymmetric: ``"none"``, or ``"facts"``: the row's paragraphs are dealt.
    """

    dataset: str = "gsm8k"
    num_agents: int = 3
    view: str = MESSAGES
    asymmetric: str = NONE

    own_weights: ClassVar[Mapping[str, float]] = {"vote": 0.70, "mean": 0.25, "form": 0.05}
    terms = tuple(own_weights)
    metrics = (
        "accuracy", "vote_accuracy", "first_accuracy", "first_vote_accuracy", "right_to_wrong_num",
        "right_to_wrong_den", "wrong_to_right_num", "wrong_to_right_den", "conformity_num", "conformity_den",
        "any_right", "gap", "agreement", "message_chars", "format", "success",
    )  # fmt: skip
    agent_metrics = ("accuracy", "message_chars")
    floors = {"empty": 0.0, "echo": 0.05, "random": 0.01}  # noqa: RUF012  # a dataclass takes no field from it

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        one_of("view", self.view, VIEWS)
        one_of("asymmetric", self.asymmetric, ASYMMETRIES)
        team_size(self.num_agents, 2, 5, "solvers")

    @property
    def agents(self) -> tuple[str, ...]:  # type: ignore[override]
        """``solver_1`` to ``solver_n``; one alone is ``solver``."""
        return numbered("solver", self.num_agents)

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        """The record, its paragraphs dealt if they are."""
        record = from_row(item)
        scorer = self.own_scorer(item)
        numbers = deal.labels(record, rng)
        hands = self._hands(record, rng)
        return Discussion(
            question=record.question,
            answers=record.answers if record.answerable else (),
            scorer=scorer,
            voices=(Voice(),) * self.num_agents,
            hands=tuple(tuple(document(numbers[p], record.paragraphs[p]) for p in hand) for hand in hands),
            support=tuple((numbers[p], sentence) for p, sentence in record.support),
            knower=int(rng.integers(self.num_agents)),
            entry=json.dumps(item["entry"], sort_keys=True) if scorer == reasoning.SCORER else "",
        )

    def _hands(self, record: QARecord, rng: np.random.Generator) -> deal.Hands:
        if self.asymmetric == FACTS:
            return deal.deal(record, self.num_agents, "forced" if self.num_agents > 1 else "full", rng)
        # A passage that the question is about, as in BoolQ; several paragraphs would tell the answer.
        shown = tuple(range(len(record.paragraphs))) if len(record.paragraphs) == 1 else ()
        return (shown,) * self.num_agents

    def brief(self, state: State, agent: str) -> str:
        """Role, form, question, and documents if there are any."""
        assert isinstance(state, Discussion)
        alone, turns = self.num_agents == 1, "" if self.max_turns == 1 else f" in {self.max_turns} turns"
        role = (
            f"You answer a question{turns}."
            if alone
            else f"You are {agent}, one of {self.num_agents} solvers who answer a question together{turns}. "
            f"{'Each of you holds other documents. ' if self.asymmetric == FACTS else ''}What most of you answer in "
            "the end is the team's answer."
        )
        message = "" if alone or self.view == ANSWERS_ONLY else "<message>your reasons, for teammates</message>\n"
        pages = self.pages(state, agent) or (NO_DOCUMENTS if self.asymmetric == FACTS else "")
        documents = f"\n\n{'Documents' if alone or self.asymmetric == NONE else 'Your documents'}:\n{pages}"
        return (
            f"{role} Write, between tags:\n{message}<answer>your answer</answer>{answer_form(state)}\n\n"
            f"Question: {state.question}{documents if pages else ''}"
        )

    def held(self, state: Discussion, agent: str) -> tuple[Document, ...]:
        """The documents of an agent."""
        return state.hands[self.agents.index(agent)]

    def lines(self, state: Discussion, agent: str) -> Sequence[str]:
        """The own answer, then the teammates' answers and messages."""
        own = self.agents.index(agent)
        told = [f"Your previous answer: {self._shown(state, state.voices[own].answer)}."]
        for name, voice, private in zip(self.agents, state.voices, state.private, strict=True):
            if name != agent:
                head = f"{name} (answer: {self._shown(state, None if private else voice.now)})"
                told.append(f"{head}: {voice.message or board.SILENT}" if self.view == MESSAGES else head)
        return told

    def _shown(self, state: Discussion, answer: str | None) -> str:
        """An answer as it is shown: of a kind with a form of its own nothing but this form."""
        text = canonical(answer, state.scorer) if state.scorer in CANONICAL else shown(answer or "")
        return text[: self.message_chars] or NO_ANSWER

    def blank(self, reply: str) -> str:
        """The reply, kept to oneself."""
        if not self.channel:
            return reply
        said = tags.without(reply, tags.MESSAGE)
        return f"<{tags.MESSAGE}></{tags.MESSAGE}>{said}" if said else said

    def listen(self, state: Discussion, actions: Actions) -> Discussion:
        """Messages and answers, and how these changed."""
        voices, private = [], []
        for agent, before in zip(self.agents, state.voices, strict=True):
            said = tags.read(actions[agent], self._limits(state))
            if state.entry:
                said = replace(said, answer=reasoning.verbatim(said))
            voices.append(heard(said, before))
            private.append(tags.MESSAGE in said.parts and not said.message)
        after = replace(state, voices=tuple(voices), private=tuple(private))
        if state.turn == 0:
            return replace(after, first=after.standing)
        return replace(after, moves=moved(state, after))

    def _limits(self, state: Discussion) -> tags.Limits:
        return replace(self.limits, answer_words=reasoning.ANSWER_CHARS) if state.entry else self.limits

    def judge(self, state: Discussion) -> Score:
        """The published sum, with every part of it."""
        scores = [grade(state, answer) for answer in state.standing]
        vote, first_vote = vote_accuracy(state, state.standing), vote_accuracy(state, state.first)
        kept = fmean(not voice.errors for voice in state.voices)
        mean = fmean(score.f1 if state.entry else score.em for score in scores)
        any_right = max(score.em for score in scores)
        forms = {form(state, answer) for answer in state.standing}
        metrics = {
            "accuracy": fmean(score.em for score in scores),
            "vote_accuracy": vote,
            "first_accuracy": fmean(grade(state, answer).em for answer in state.first),
            "first_vote_accuracy": first_vote,
            "right_to_wrong_num": float(state.moves.lost),
            "right_to_wrong_den": float(state.moves.right),
            "wrong_to_right_num": float(state.moves.found),
            "wrong_to_right_den": float(state.moves.wrong),
            "conformity_num": float(state.moves.followed),
            "conformity_den": float(state.moves.changed),
            "any_right": any_right,
            "gap": any_right - vote,
            "agreement": float(len(forms) == 1 and "" not in forms),
            "message_chars": float(sum(voice.characters for voice in state.voices)),
            "format": kept,
            "success": float(vote == 1.0),
        }
        by_agent = {
            "accuracy": {agent: score.em for agent, score in zip(self.agents, scores, strict=True)},
            "message_chars": {a: float(v.characters) for a, v in zip(self.agents, state.voices, strict=True)},
        }
        return Score(self.weighted({"vote": vote, "mean": mean, "form": kept}), metrics, by_agent)

    def oracle(self, state: State) -> Mapping[str, str] | None:
        """The answer, from those who know it; who does not passes on what it holds."""
        assert isinstance(state, Discussion)
        replies = {}
        for place, agent in enumerate(self.agents):
            knows = self._knows(state, place)
            answer = f"<answer>{gold_answer(state)}</answer>" if knows else ""
            message = self._told(state, place) or ("I am sure." if knows else "I am not sure.")[: self.message_chars]
            replies[agent] = f"<message>{message}</message>{answer}"
        return replies

    def _told(self, state: Discussion, place: int) -> str:
        """What the oracle passes on of the facts that an agent holds."""
        return quoted(state.hands[place], state.support, self.message_chars)[0] if self._facts_pass else ""

    @property
    def _facts_pass(self) -> bool:
        return self.channel and self.asymmetric == FACTS and self.view == MESSAGES

    def _knows(self, state: Discussion, place: int) -> bool:
        """Whether the oracle lets an agent know the answer.

        Dealt facts must have been told. Else everybody could work it out, and does where a turn is paid; where the end
        alone is paid, one does, and the others take over what it told them: so the exchange carries the answer.
        """
        if self._facts_pass:
            texts = {other: self._told(state, other) for other in range(self.num_agents) if other != place}
            return all(passed_on(text, state.voices[other].message) for other, text in texts.items() if text)
        if not self.channel or self.reward_mode != "terminal" or place == state.knower:
            return True
        told = state.turn > 0 and not state.private[state.knower]
        return told and grade(state, state.standing[state.knower]).em == 1.0

    def best(self, state: State) -> float:
        """All of it; the form alone before dealt facts were told."""
        assert isinstance(state, Discussion)
        return self.weight["form"] if self._facts_pass and state.turn == 0 else sum(self.weight.values())

    def majority(self, state: State, replies: Sequence[str]) -> str:
        """The reply whose answer most of the others agree with."""
        assert isinstance(state, Discussion)
        return most_agreed(replies, state.scorer, self._limits(state))


def _parse(row: Row, asymmetric: str) -> Row:
    """A row that can be played; paragraphs that are dealt must be needed together."""
    read = reasoning.parse_row(row)
    supporting = len(from_row(read).supporting) if asymmetric == FACTS else 2
    if supporting < 2:
        raise ValueError(f"{supporting} of its paragraphs support the answer; asymmetric={FACTS!r} takes two or more")
    return read


def parallel_env(**kwargs: Any) -> TextEnv:
    """The environment; keyword arguments are the scenario's settings and those that every id accepts."""
    load = qa_loader("qa/debate", kwargs.get("dataset", Debate.dataset), sums)
    parse = functools.partial(_parse, asymmetric=kwargs.get("asymmetric", Debate.asymmetric))
    return build_env(Debate, load, kwargs, name="qa/debate", parse=parse)
