"""Workers who each read a part of a text tell a manager, who sees none of it, what answers a question.

- Agents: ``worker_1`` to ``worker_n`` and ``manager`` (``num_agents`` counts all, 3 to 9; default 5). ``num_agents=1``:
  the manager alone, who reads the whole text.
- Observation: the question; a worker also its chunk of the text: runs of whole paragraphs, nearly equal in characters,
  each cut to ``chunk_chars`` (0, the default: whole). Where there are fewer paragraphs than workers, some hold
  nothing and are told so. From the second turn on the manager is shown the workers' messages, each cut to
  ``message_chars`` (400), and the workers the manager's; and all errors of form (``feedback="peers+format"``, the
  default; ``"peers"``: without these; ``"oracle"``: and whether the team is right, for ablations).
- Action: ``<message>...</message>``, of a worker for the manager, of the manager for all workers; and the manager's
  ``<answer>...</answer>`` (``answer_words`` at most), of which the last stands. A worker abstains with ``NONE`` (in any
  case, as the whole message) or without a message. In the last turn the manager acts alone: it would read no more. Of
  two turns it acts in the second only: nobody would do what it asks for.
- Reward: worth = 0.80 x F1 of the answer + 0.15 x info + 0.05 x share of those who acted whose last reply keeps the
  form - 0.10 x noise, in ``[0, 1]``. Info: 1 if the answer, normalised, stood in a message that the manager could read;
  where it cannot be quoted (yes, no, what the chunks do not spell out) the share of workers with supporting text who
  told something. Noise: share of workers without supporting text who did not abstain in the last turn that the manager
  could read. Without an answer in the text info is 1 - noise; where nobody can be told (one agent, one turn) or no
  support is known, F1 takes the place of info, and noise is 0. It is paid at the end; with ``reward_mode="per_turn"``
  each turn, with ``"delta"`` as its change; other ``weights=`` by ``answer``, ``info``, ``form`` and ``noise``.
- Episode end: after ``max_turns`` joint actions. 2 (default): workers tell, the manager answers. 3: what the manager
  asks in the first turn is answered in the second. 4: it may ask for what the first messages led to.
- Metrics: ``answer_em``, ``answer_f1``, ``info``, ``information_loss`` (info - F1), ``noise``, ``abstention_precision``
  (of the abstentions, those without supporting text) and ``abstention_recall`` (the other way round), both pooled,
  ``chars_sent`` (of messages that the manager could read), ``chars_read`` (of chunks), ``gold_chunk`` (number of the
  first chunk that holds the answer, or else support; 0: none), ``dropped_chars``, ``sufficiency`` (whether the manager
  is right on whether there is an answer), ``format`` and ``success``; per agent ``message_chars`` and ``abstained``.
- Data: ``dataset="squad"`` (SQuAD 1.1, CC BY-SA 4.0; default), ``"squad_v2"`` (the same licence; half of the questions
  have no answer), both with whole articles, or ``"musique"`` (CC BY 4.0), scored as the set's own script does. Demo
  set: 64 train and 32 eval questions about invented facts, written for this project (MIT). Rows of your own: in the
  form of any of these files, or ``{"question", "answers", "paragraphs": [{"title", "sentences"}], "support":
  [[paragraph, sentence or null]]}``.
- Channel: messages.
- Versions: v0, first release.

Example:
    >>> import comlrl_envs
    >>> env = comlrl_envs.make("qa/workers_manager", source="demo")
    >>> observations, _ = env.reset(seed=0)
    >>> observations["worker_1"].splitlines()[-1]
    'We eat cheese today.'
    >>> observations["manager"].splitlines()[-1]
    'Question: Who keeps the drum?'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from comlrl_envs.assemble import build_env
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError
from comlrl_envs.qa import chunks, rows, tags
from comlrl_envs.qa.answers import AnswerScore
from comlrl_envs.qa.chunks import NONE, Work, abstains
from comlrl_envs.qa.demo.kept_things import kept_things
from comlrl_envs.qa.documents import Document, document, passed_on, says
from comlrl_envs.qa.records import from_row
from comlrl_envs.qa.sets import qa_loader
from comlrl_envs.qa.team_question import (
    TeamQuestion,
    Voice,
    answer_form,
    answer_score,
    gold_answer,
    heard,
    team_size,
)
from comlrl_envs.qa.vote import UNANSWERABLE, says_nothing
from comlrl_envs.scenario import Actions, Score, State
from comlrl_envs.tasks import Row

MANAGER = "manager"
NO_MESSAGE = "it had no <message>, so the manager was told nothing"
NO_ANSWER = "it had no <answer>, and you gave none before"
NOTHING_TO_READ = "(nothing: the text has fewer paragraphs than there are workers)"


@dataclass(frozen=True)
class WorkersManager(TeamQuestion):
    """Rules of the game; see the module.

    Attributes:
        num_agents: Workers and the manager, 3 to 9; 1 reads everything.
        chunk_chars: Characters of the text that a worker holds at most; 0 for as many as there are.
    """

    dataset: str = "squad"
    num_agents: int = 5
    max_turns: int = 2
    message_chars: int = 400
    chunk_chars: int = 0

    own_weights: ClassVar[Mapping[str, float]] = {"answer": 0.80, "info": 0.15, "form": 0.05, "noise": 0.10}
    penalties = ("noise",)
    terms = tuple(own_weights)
    metrics = (
        "answer_em", "answer_f1", "info", "information_loss", "noise", "abstention_precision_num",
        "abstention_precision_den", "abstention_recall_num", "abstention_recall_den", "chars_sent", "chars_read",
        "gold_chunk", "dropped_chars", "sufficiency", "format", "success",
    )  # fmt: skip
    agent_metrics = ("message_chars", "abstained")
    floors = {"empty": 0.0, "echo": 0.05, "random": 0.0}  # noqa: RUF012  # a plain attribute of the base class

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        team_size(self.num_agents, 3, 9, "agents, the manager among them")
        if isinstance(self.chunk_chars, bool) or not isinstance(self.chunk_chars, int) or self.chunk_chars < 0:
            raise OptionError(f"chunk_chars={self.chunk_chars!r}; expected an integer >= 0, 0 for whole chunks.")
        if self.message_chars < len(NONE):
            raise OptionError(f"message_chars={self.message_chars}; expected >= {len(NONE)}, the length of {NONE}.")

    @property
    def agents(self) -> tuple[str, ...]:  # type: ignore[override]
        """``worker_1`` to ``worker_n`` and ``manager``."""
        return (*(f"worker_{place}" for place in range(1, self.num_agents)), MANAGER)

    @property
    def one_side(self) -> tuple[str, ...]:
        """The workers."""
        return self.agents[:-1] or self.agents

    def answers_now(self, agent: str) -> bool:
        """Whether it is the manager."""
        return agent == MANAGER

    def acting(self, state: State) -> tuple[str, ...]:
        """All; in the last turn the manager, who reads nothing more, and before it no manager whom nobody will hear."""
        assert isinstance(state, Work)
        if not self._is_read(state):
            return (MANAGER,)
        return self.one_side if self.max_turns == 2 else self.agents

    def _is_read(self, state: Work) -> bool:
        """Whether the manager can read what is said in the coming turn."""
        return state.turn + 1 < self.max_turns

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        """The text, cut."""
        record = from_row(item)
        paragraphs = [document(place + 1, each) for place, each in enumerate(record.paragraphs)]
        parts = max(self.num_agents - 1, 1)
        cut = [chunks.capped(chunk, self.chunk_chars) for chunk in chunks.cut(paragraphs, parts, rng)]
        held, dropped = tuple(chunk for chunk, _ in cut), sum(lost for _, lost in cut)
        if dropped:
            chunks.say_dropped(self.chunk_chars, parts)
        answers = record.answers if record.answerable else ()
        support = chunks.kept_support(held, tuple((place + 1, sentence) for place, sentence in record.support))
        texts = [text for chunk in held for text in chunks.facts_held(chunk, support)]
        return Work(
            question=record.question,
            answers=answers,
            scorer=self.own_scorer(item),
            voices=(Voice(),) * self.num_agents,
            chunks=held,
            support=support,
            spans=chunks.spans(answers, texts),
            dropped=dropped,
            spoke=(False,) * parts,
            told=(False,) * parts,
        )

    def brief(self, state: State, agent: str) -> str:
        """Role, form, question, and a worker's chunk."""
        assert isinstance(state, Work)
        return f"{self._role(state, agent)}\n\nQuestion: {state.question}{self._part(state, agent)}"

    def _role(self, state: Work, agent: str) -> str:
        workers, turns = self.num_agents - 1, self.max_turns
        form = answer_form(state)
        answer = f'<answer>your answer</answer>{form}, or "{UNANSWERABLE}" if the text does not tell'
        if not workers:
            return f"You answer a question from a text in {turns} turns. Write, between tags:\n{answer}"
        if agent == MANAGER:
            hears = f"from turn 2 of {turns} on" if self.channel else "and there is no turn left to read them in"
            asks = "\n<message>what the workers should look for</message>" if turns > 2 else ""
            return (
                f"You are the manager of {workers} workers who each read a part of a text. You see only their "
                f"messages, {hears}. Write, between tags:{asks}\n{answer}"
            )
        asked = f"\nIn turns 2 to {turns - 1} you are shown what the manager asks for." if turns > 2 else ""
        return (
            f"You are {agent}, one of {workers} workers who each read a part of a text. Their manager sees only your "
            f"messages, and must answer a question. Write, between tags:\n<message>what your part tells about it"
            f"</message> in {self.message_chars} characters at most, or\n<message>{NONE}</message> if it tells nothing"
            f"{asked}"
        )

    def _part(self, state: Work, agent: str) -> str:
        if self.num_agents == 1:
            return f"\n\nText:\n{self.pages(state, agent)}"
        own = self.pages(state, agent) or NOTHING_TO_READ
        return "" if agent == MANAGER else f"\n\nYour part of the text:\n{own}"

    def held(self, state: Work, agent: str) -> tuple[Document, ...]:
        """The paragraphs of a worker, or of the manager who is alone."""
        place = self.agents.index(agent)
        return state.chunks[place] if place < len(state.chunks) else ()

    def pages(self, state: Work, agent: str) -> str:
        """The part of an agent, a paragraph a line."""
        return chunks.page(self.held(state, agent))

    def lines(self, state: Work, agent: str) -> Sequence[str]:
        """The workers' messages for the manager, and its own for them."""
        said = self.messages(state, agent)
        return said if agent == MANAGER else said[-1:]

    def listen(self, state: Work, actions: Actions) -> Work:
        """The voices of those who act; and if the manager can read them, what the workers told."""
        acting = self.acting(state)
        voices = tuple(
            self._heard(state, agent, actions[agent], voice) if agent in acting else voice
            for agent, voice in zip(self.agents, state.voices, strict=True)
        )
        if not self._is_read(state) or not self.channel:
            return replace(state, voices=voices)
        messages = [voice.message for voice in voices[:-1]]
        spoke = tuple(not abstains(message) for message in messages)
        return replace(
            state,
            voices=voices,
            spoke=spoke,
            told=tuple(now or before for now, before in zip(spoke, state.told, strict=True)),
            named=state.named or any(says(message, state.spans) for message in messages),
            sent=state.sent + sum(map(len, messages)),
        )

    def _heard(self, state: Work, agent: str, reply: str, before: Voice) -> Voice:
        said = tags.read(reply, self.limits)
        if agent != MANAGER:
            if said.message and abstains(said.message):
                # However it is written, it says no more than this.
                said = replace(said, message=NONE)
            return heard(said, before, [] if tags.MESSAGE in said.parts else [NO_MESSAGE])
        missing = not self._is_read(state) and said.answer is None and before.answer is None
        return heard(said, before, [NO_ANSWER] if missing else [])

    def judge(self, state: Work) -> Score:
        """The published sum, with every part of it."""
        score = answer_score(state, state.voices[-1].answer)
        outsiders = self._outsiders(state)
        noise = fmean(state.spoke[place] for place in outsiders) if outsiders else 0.0
        info = self._info(state, noise)
        kept = fmean(not voice.errors for voice in self._acted(state))
        parts = {"answer": score.f1, "info": score.f1 if info is None else info, "form": kept, "noise": noise}
        metrics = {
            **self._metrics(state, score),
            "info": info or 0.0,
            "information_loss": 0.0 if info is None else info - score.f1,
            "noise": noise,
            "format": kept,
        }
        told = state.spoke[: self.num_agents - 1]
        by_agent = {
            "message_chars": {a: float(voice.characters) for a, voice in zip(self.agents, state.voices, strict=True)},
            "abstained": {a: float(not said) for a, said in zip(self.agents, (*told, True), strict=True)},
        }
        return Score(self.weighted(parts), metrics, by_agent)

    def _known(self, state: Work) -> bool:
        """Whether somebody can be told something, and it is known what."""
        return self.channel and bool(state.support or not state.answers)

    def _outsiders(self, state: Work) -> set[int]:
        """Places of the workers who should abstain."""
        return set(state.outsiders) if self._known(state) else set()

    def _acted(self, state: Work) -> tuple[Voice, ...]:
        """The voices of those who had a turn so far."""
        if not self.channel:
            return state.voices[-1:]
        return state.voices[:-1] if self.max_turns == 2 and state.turn == 1 else state.voices

    def _info(self, state: Work, noise: float) -> float | None:
        """How well the manager was told; None where it cannot be."""
        if not self._known(state):
            return None
        if not state.answers:
            return 1.0 - noise
        if state.spans:
            return float(state.named)
        return fmean(told for told, facts in zip(state.told, state.facts, strict=True) if facts)

    def _metrics(self, state: Work, score: AnswerScore) -> dict[str, float]:
        outsiders = self._outsiders(state)
        silent = {place for place, spoke in enumerate(state.spoke) if not spoke} if self._known(state) else set()
        both = float(len(outsiders & silent))
        return {
            "answer_em": score.em,
            "answer_f1": score.f1,
            "abstention_precision_num": both,
            "abstention_precision_den": float(len(silent)),
            "abstention_recall_num": both,
            "abstention_recall_den": float(len(outsiders)),
            "chars_sent": float(state.sent),
            "chars_read": float(sum(map(chunks.size, state.chunks))),
            "gold_chunk": float(state.gold_chunk),
            "dropped_chars": float(state.dropped),
            "sufficiency": float(says_nothing(state.voices[-1].answer) != bool(state.answers)),
            "success": score.em,
        }

    def oracle(self, state: State) -> Mapping[str, str] | None:
        """What each worker's chunk tells, cut round the answer, or NONE; the manager answers once it was told."""
        assert isinstance(state, Work)
        answer = f"<answer>{gold_answer(state)}</answer>" if self._knows(state) else "<message></message>"
        told = {agent: f"<message>{self._due(state, place)}</message>" for place, agent in enumerate(self.agents[:-1])}
        return {agent: text for agent, text in {**told, MANAGER: answer}.items() if agent in self.acting(state)}

    def _due(self, state: Work, place: int) -> str:
        return chunks.quote(state.facts[place], state.spans, self.message_chars) or NONE

    def _knows(self, state: Work) -> bool:
        """Whether the manager heard from all who hold support, or where nobody does, from everybody."""
        due = {place: self._due(state, place) for place in range(len(state.chunks))}
        matter = [place for place in due if place not in state.outsiders] or list(due)
        return not self.channel or all(passed_on(due[place], state.voices[place].message) for place in matter)


def parse(row: Row) -> Row:
    """A row of the family's; raises ``ValueError`` if it has no text."""
    found = rows.parse(row)
    if not any("".join(each["sentences"]).strip() for each in found["paragraphs"]):
        raise ValueError("it has no paragraphs with a text; workers need something to read")
    return found


def parallel_env(**kwargs: Any) -> TextEnv:
    """The environment; keyword arguments are the scenario's settings and those that every id accepts."""
    load = qa_loader("qa/workers_manager", kwargs.get("dataset", WorkersManager.dataset), kept_things)
    return build_env(WorkersManager, load, kwargs, name="qa/workers_manager", parse=parse)
