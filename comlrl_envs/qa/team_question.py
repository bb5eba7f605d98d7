"""What the games of question answering share: how replies are heard, when the team is paid, what it is told.

A game says who knows what, and what its team is worth at the moment; see ``TeamQuestion``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from comlrl_envs.errors import OptionError, TaskError, one_of, positive_int
from comlrl_envs.qa import board, tags
from comlrl_envs.qa.answers import NOTHING, AnswerScore
from comlrl_envs.qa.documents import Document
from comlrl_envs.qa.scorers import RIGHT, SCORERS
from comlrl_envs.qa.vote import UNANSWERABLE, most_agreed, says_nothing
from comlrl_envs.scenario import Actions, Scenario, Score, State, Step

FEEDBACK = board.FEEDBACK
REWARD_MODES = ("terminal", "per_turn", "delta")
NO_DOCUMENTS = "(none)"
FORMS = {"gsm8k": ", a number", "yesno": ", yes or no", "choice": ", a letter", "reasoning_gym": ""}
"""By scorer how an answer is written."""
NO_TAG = "it had no tag, so nothing of it counted"


@dataclass(frozen=True)
class Voice(State):
    """What counts of an agent's replies so far.

    Attributes:
        message: Of its last reply, as teammates are shown it.
        answer: The last one that it gave, "" for an empty tag; None if it gave none.
        now: The answer of its last reply.
        errors: What was wrong with the form of its last reply.
        cut: Messages that had to be cut.
        characters: Of all its messages.
    """

    message: str = ""
    answer: str | None = None
    now: str | None = None
    errors: tuple[str, ...] = ()
    cut: int = 0
    characters: int = 0


@dataclass(frozen=True, kw_only=True)
class Asked(State):
    """A question and what was said.

    Attributes:
        question: What is asked.
        answers: Gold answers; () if the right answer is that there is none.
        scorer: Name of the set's scorer.
        turn: Joint actions played.
        voices: By agent.
        earned: Weighted parts of the team's worth after the last turn.
    """

    question: str
    answers: tuple[str, ...]
    scorer: str
    turn: int = 0
    voices: tuple[Voice, ...] = ()
    earned: tuple[float, ...] = ()


def heard(said: tags.Said, before: Voice, errors: Sequence[str] = ()) -> Voice:
    """An agent's voice after one more reply.

    Args:
        said: The reply, read.
        before: Its voice so far.
        errors: Errors of form that the game found besides.
    """
    own = (*said.errors, *errors) if said.parts else (*said.errors, NO_TAG)
    return Voice(
        message=said.message,
        answer=before.answer if said.answer is None else said.answer,
        now=said.answer,
        errors=own,
        cut=before.cut + said.overlong,
        characters=before.characters + len(said.message),
    )


def answer_score(state: Asked, answer: str | None) -> AnswerScore:
    """The score of an agent's answer; no answer, or an empty one to a question that has one, is worth nothing."""
    if answer is None:
        return NOTHING
    if not state.answers:
        return RIGHT if says_nothing(answer) else NOTHING
    return SCORERS[state.scorer](answer, state.answers) if answer else NOTHING


def answer_form(state: Asked) -> str:
    """What a brief says of the form of an answer, behind its tag."""
    return FORMS.get(state.scorer, " in a few words")


def gold_answer(state: Asked) -> str:
    """The first right answer."""
    return state.answers[0] if state.answers else UNANSWERABLE


@dataclass(frozen=True)
class TeamQuestion(Scenario):
    """Rules that the games of question answering share.

    A game adds ``num_agents`` and its ``agents``; it reads replies (``listen``), says what its team is worth
    (``judge``) and, where that is not their messages, what an agent is shown of its teammates (``lines``).

    Attributes:
        dataset: Name of the real set that is played where rows are not given.
        max_turns: Joint actions of an episode, >= 1.
        feedback: ``"peers"``: teammates' messages; ``"peers+format"``: and errors of form; ``"oracle"``: and whether
            the team is right, for ablations.
        reward_mode: ``"terminal"``: the team's worth is paid at the end; ``"per_turn"``: each turn; ``"delta"``: each
            turn, what it changed, which sums to the worth at the end.
        scorer: Name of a scorer; ``"auto"``: that of the row.
        message_chars: Characters of a message that teammates are shown.
        answer_words: Words of an answer that count.
        weights: Of parts of the reward, by term, where they differ from the game's own.
    """

    dataset: str = ""
    max_turns: int = 3
    feedback: str = board.WITH_FORMAT
    reward_mode: str = "terminal"
    scorer: str = "auto"
    message_chars: int = 600
    answer_words: int = 30
    weights: Mapping[str, float] | None = None

    own_weights: ClassVar[Mapping[str, float]] = {}
    """Weight of each term; of penalties as well a number >= 0."""
    penalties: ClassVar[tuple[str, ...]] = ()
    """Terms that take away."""

    def __post_init__(self) -> None:
        """Check the settings."""
        one_of("feedback", self.feedback, FEEDBACK)
        one_of("reward_mode", self.reward_mode, REWARD_MODES)
        one_of("scorer", self.scorer, ("auto", *SCORERS))
        for name in ("max_turns", "message_chars", "answer_words"):
            positive_int(name, vars(self)[name])
        _check_weights(self.weights, self.own_weights, self.penalties)

    @property
    def weight(self) -> Mapping[str, float]:
        """The weight of each term."""
        return {**self.own_weights, **(self.weights or {})}

    def weighted(self, parts: Mapping[str, float]) -> dict[str, float]:
        """The terms of parts in [0, 1]; penalties, which stand last, take no more than there is."""
        terms: dict[str, float] = {}
        weight = self.weight
        for name, part in parts.items():
            value = weight[name] * part
            terms[name] = -min(value, sum(terms.values())) if name in self.penalties else value
        return terms

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """What a turn may pay: a worth, or with ``"delta"`` a change of it."""
        return (-1.0, 1.0) if self.reward_mode == "delta" else (0.0, 1.0)

    @property
    def ablation(self) -> bool:  # type: ignore[override]
        """Whether agents are told if they are right."""
        return self.feedback == board.ORACLE

    @property
    def channel(self) -> bool:  # type: ignore[override]
        """Whether anybody is shown a message; after the only turn nobody is."""
        return len(self.agents) > 1 and self.max_turns > 1

    @property
    def limits(self) -> tags.Limits:
        """How much of a reply counts."""
        return tags.Limits(self.message_chars, self.answer_words)

    @abstractmethod
    def listen(self, state: Any, actions: Actions) -> Any:
        """The state after the replies of a turn were read, except for ``turn`` and ``earned``."""

    @abstractmethod
    def judge(self, state: Any) -> Score:
        """What the team is worth if the episode ended now: its terms sum to a number in [0, 1]."""

    def lines(self, state: Any, agent: str) -> Sequence[str]:
        """What an agent is shown of the turn just played, a line each. Default: the teammates' messages."""
        return self.messages(state, agent)

    def settled(self, state: Any) -> bool:
        """Whether the episode ends before its last turn. Default: it does not."""
        return False

    def may_settle(self, state: Any) -> bool:
        """Whether the coming turn can end the episode, if it is not the last. Default: it cannot."""
        return False

    def best(self, state: Any) -> float:
        """What the team is worth after the oracle's coming move. Default: what that move makes of the state."""
        replies = {**dict.fromkeys(self.agents, ""), **(self.oracle(state) or {})}
        return sum(self.judge(replace(self.listen(state, replies), turn=state.turn + 1)).terms.values())

    def held(self, state: Any, agent: str) -> tuple[Document, ...]:
        """The documents that an agent is shown now. Default: none."""
        return ()

    def pages(self, state: Any, agent: str) -> str:
        """These documents as they are shown. Default: one after the other, with numbers."""
        return "\n".join(each.page() for each in self.held(state, agent))

    def prompt_fields(self, state: State, agent: str) -> Mapping[str, Any]:
        """For templates of ``prompts=``: ``documents``, as they are shown, and ``texts``, their sentences alone."""
        texts = " ".join(each.text for each in self.held(state, agent))
        return {"documents": self.pages(state, agent), "texts": texts}

    @property
    def one_side(self) -> tuple[str, ...]:
        """The agents on one side of the team, for the policy ``qa:oracle_one_sided``. Default: the first."""
        return self.agents[:1]

    def answers_now(self, agent: str) -> bool:
        """Whether an agent's answer counts. Default: everybody's."""
        return True

    def advance(self, state: State, actions: Actions) -> Step:
        """Read the replies, and pay what the mode pays in this turn."""
        assert isinstance(state, Asked)
        return self.step(state, replace(self.listen(state, actions), turn=state.turn + 1))

    def step(self, before: Asked, after: Asked) -> Step:
        """What a turn that led from one state to another pays, and whether it was the last."""
        worth = self.judge(after)
        done = after.turn >= self.max_turns or self.settled(after)
        parts = tuple(worth.terms[name] for name in self.terms)
        terms = dict(zip(self.terms, self._paid(parts, before.earned, done), strict=True))
        return Step(replace(after, earned=parts), replace(worth, terms=terms), done)

    def _paid(self, parts: Sequence[float], earned: Sequence[float], done: bool) -> list[float]:
        if self.reward_mode == "terminal" and not done:
            return [0.0] * len(parts)
        if self.reward_mode == "delta" and earned:
            return [now - before for now, before in zip(parts, earned, strict=True)]
        return list(parts)

    def reachable(self, state: State) -> float:
        """What the oracle's move earns: its worth as the mode pays it."""
        assert isinstance(state, Asked)
        if self.reward_mode == "terminal" and state.turn + 1 < self.max_turns and not self.may_settle(state):
            return 0.0
        return self.best(state) - (sum(state.earned) if self.reward_mode == "delta" else 0.0)

    def observe(self, state: State, agent: str) -> str:
        """The teammates' messages, errors of form, and in the last turn the question again."""
        assert isinstance(state, Asked)
        if state.turn == 0:
            return ""
        own = state.voices[self.agents.index(agent)]
        right = bool(self.judge(state).metrics["success"]) if self.ablation else None
        errors = () if self.feedback == board.PEERS else own.errors
        question = state.question if self.answers_now(agent) else None
        return board.news(state.turn, self.max_turns, self.lines(state, agent), errors, right, question)

    def blank(self, reply: str) -> str:
        """The reply without its message."""
        return tags.without(reply, tags.MESSAGE) if self.channel else reply

    def majority(self, state: State, replies: Sequence[str]) -> str:
        """The reply whose answer most of the others agree with."""
        assert isinstance(state, Asked)
        return most_agreed(replies, state.scorer, self.limits)

    def messages(self, state: Asked, agent: str) -> list[str]:
        """A line for each teammate of ``agent``: what it said in the last turn."""
        return [
            f"{name}: {voice.message or board.SILENT}"
            for name, voice in zip(self.agents, state.voices, strict=True)
            if name != agent
        ]

    def own_scorer(self, item: Mapping[str, Any]) -> str:
        """The scorer of an episode: the setting, or the row's own; raises ``TaskError`` if no answer could be right."""
        name = str(item["scorer"] if self.scorer == "auto" else self.scorer)
        for answer in item["answers"] if name in SCORERS else ():
            if not SCORERS[name](answer, [answer]).em:
                raise TaskError(
                    f"Task {item.get('id', '?')!r} cannot be scored: the scorer {name!r} does not read its gold "
                    "answer. Give the row another scorer, or mend the answer."
                )
        return name


def _check_weights(given: Mapping[str, float] | None, own: Mapping[str, float], penalties: Sequence[str]) -> None:
    """Raise ``OptionError`` unless the weights keep a team's worth in [0, 1]."""
    if given is not None and not isinstance(given, Mapping):
        raise OptionError(f"weights is a {type(given).__name__}; expected a mapping such as {dict(own)}.")
    for name, value in (given or {}).items():
        one_of("a name in weights", name, own)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
            raise OptionError(f"weights gives {name!r} {value!r}; expected a number from 0 to 1.")
    total = sum(value for name, value in {**own, **(given or {})}.items() if name not in penalties)
    if total > 1.0 + 1e-9:
        raise OptionError(
            f"weights sum to {total:g} without {', '.join(penalties) or 'penalties'}; expected 1 at most."
        )


def team_size(num_agents: object, low: int, high: int, who: str) -> None:
    """Raise ``OptionError`` unless ``num_agents`` is 1 or from ``low`` to ``high``."""
    counts = (1, *range(low, high + 1))
    if type(num_agents) is not int or num_agents not in counts:
        raise OptionError(f"num_agents={num_agents!r}; expected {low} to {high} {who}, or 1 who reads everything.")


def numbered(role: str, count: int) -> tuple[str, ...]:
    """Ids of several agents of one role; one alone has the role's name.

    >>> numbered("reader", 2), numbered("reader", 1)
    (('reader_1', 'reader_2'), ('reader',))
    """
    return tuple(f"{role}_{place + 1}" for place in range(count)) if count > 1 else (role,)
