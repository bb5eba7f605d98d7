"""One agent writes queries, one selects among what they find, and one answers from what was selected.

- Agents: ``rewriter``, ``selector``, ``answerer``, who act at the same time (``schedule="pipelined"``, the default):
  what is searched for in a turn is selected in the next and read in the one after. ``schedule="sequential"``: one at a
  time in this order, so that the answerer has the last turn; the others' texts are ignored. ``num_agents=1``: the
  ``answerer`` alone, who reads the best documents for the question.
- Observation: the question, and the teammates' messages, each cut to ``message_chars``. Beyond that the rewriter is
  shown its queries with the titles of what each found; the selector the texts of the documents found that it was not
  shown before, ``candidates`` a turn, and what it has selected; the answerer the texts of the selected documents.
  Documents are numbered in the order in which they were first found. What the question itself finds (``first_hits``) is
  there from the start. ``feedback`` is ``"peers+format"`` (errors of form too; the default), ``"peers"``, or
  ``"oracle"`` (and whether the answer is right, for ablations).
- Action: ``<message>...</message>`` to the team; from the rewriter ``<query>...</query>``, ``queries`` of them with
  ``query_chars`` characters in all; from the selector ``<select>D4, D17</select>``, all documents that are to be read,
  ``selected_docs`` at most; from the answerer ``<answer>...</answer>``, ``answer_words`` at most. What another role
  writes in these, and text outside of tags, says nothing. The last selection and the last answer stand.
- Reward: worth = 0.80 x F1 of the answer + 0.15 x share of the supporting documents that are selected + 0.05 x share
  of agents whose last reply keeps the form - 0.05 x replies that broke one of these limits, in ``[0, 1]``. Of a
  question without support labels 0.95 x F1 + the form. It is paid at the end; with ``reward_mode="per_turn"`` each
  turn, with ``"delta"`` as its change.
- Episode end: after ``max_turns`` joint actions (default 4, so that a query may use what the first search brought).
- Metrics: ``answer_em``, ``answer_f1``, ``retrieval_recall`` (of all documents found), ``selection_recall``,
  ``selection_precision``, ``overlooked`` (a wrong answer while a selected document holds a right one), ``queries``,
  ``message_chars``, ``format``, ``breaks`` and ``success`` (the answer is right); per agent ``message_chars``. Recall
  and precision are 0 without support labels. ``evaluate(protocol="solo")`` measures the answer without documents
  (closed book), ``num_agents=1`` that from what the question itself finds.
- Corpus: the paragraphs of all loaded tasks (of a stream: of its window), searched by BM25, or ``corpus=`` a
  ``comlrl_envs.qa.bm25.Corpus`` of yours that holds the supporting ones. Searching takes the extra ``qa``.
- Data: ``dataset="hotpotqa"`` (CC BY-SA 4.0; default), ``"musique"`` (CC BY 4.0) or ``"2wikimultihopqa"`` (Apache-2.0),
  scored as the set's own script does. Demo set: 64 train and 32 eval questions about invented things, whose second
  document shares no name with the question, written for this project (MIT). Rows of your own: in the form of any of
  these files, or ``{"question", "answers", "paragraphs": [{"title", "sentences"}], "support": [[paragraph, null]]}``.
- Channel: messages, queries and selections.
- Versions: v0, first release.

Example:
    >>> import comlrl_envs
    >>> env = comlrl_envs.make("qa/retrieve_answer", source="demo")
    >>> env.possible_agents
    ['rewriter', 'selector', 'answerer']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from comlrl_envs.assemble import build_env
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError, one_of, positive_int
from comlrl_envs.qa import retrieval_roles as roles
from comlrl_envs.qa import tags
from comlrl_envs.qa.bm25 import Corpus
from comlrl_envs.qa.demo.invented_things import invented_things
from comlrl_envs.qa.documents import Document
from comlrl_envs.qa.records import from_row
from comlrl_envs.qa.retrieval_roles import ANSWERER, REWRITER, ROLES, SELECTOR, Query, Searching
from comlrl_envs.qa.rows import parse
from comlrl_envs.qa.sets import qa_loader
from comlrl_envs.qa.team_question import TeamQuestion, Voice, answer_form, answer_score, gold_answer, heard
from comlrl_envs.scenario import Actions, Score, State, Step
from comlrl_envs.tasks import TaskSet

SCHEDULES = ("pipelined", "sequential")
COUNTS = ("queries", "query_chars", "selected_docs", "candidates", "first_hits", "hits")


@dataclass(frozen=True)
class RetrieveAnswer(TeamQuestion):
    """Rules of the game; see the module.

    Attributes:
        num_agents: 3, or 1: the answerer alone.
        schedule: ``"pipelined"`` or ``"sequential"``.
        queries: Queries of a turn that count.
        query_chars: Characters that they may have in all.
        selected_docs: Documents that may be selected; one alone reads as many.
        candidates: Documents that the selector is shown in a turn.
        first_hits: Documents that the question itself finds.
        hits: Documents that a query finds.
        corpus: What is searched; None for the paragraphs of all loaded tasks.
    """

    dataset: str = "hotpotqa"
    num_agents: int = 3
    max_turns: int = 4
    schedule: str = "pipelined"
    queries: int = 4
    query_chars: int = 300
    selected_docs: int = 5
    candidates: int = 12
    first_hits: int = 4
    hits: int = 3
    corpus: Corpus | None = None

    own_weights: ClassVar[Mapping[str, float]] = {"answer": 0.80, "recall": 0.15, "form": 0.05, "breaks": 0.05}
    penalties = ("breaks",)
    terms = tuple(own_weights)
    metrics = (
        "answer_em", "answer_f1", "retrieval_recall", "selection_recall", "selection_precision", "overlooked",
        "queries", "message_chars", "format", "breaks", "success",
    )  # fmt: skip
    agent_metrics = ("message_chars",)

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        one_of("schedule", self.schedule, SCHEDULES)
        for name in COUNTS:
            positive_int(name, vars(self)[name])
        if type(self.num_agents) is not int or self.num_agents not in (1, 3):
            raise OptionError(f"num_agents={self.num_agents!r}; expected 3, or 1: the answerer alone.")
        if self.first_hits > self.candidates:
            most = f"candidates={self.candidates}, as many as the selector is shown"
            raise OptionError(f"first_hits={self.first_hits}; expected at most {most}.")
        given: object = self.corpus
        if not (given is None or isinstance(given, Corpus)):
            own = "a comlrl_envs.qa.bm25.Corpus, or None for the paragraphs of all loaded tasks"
            raise OptionError(f"corpus is a {type(given).__name__}; expected {own}.")

    @property
    def agents(self) -> tuple[str, ...]:  # type: ignore[override]
        """All three roles, or the answerer."""
        return ROLES if self.num_agents > 1 else (ANSWERER,)

    @property
    def floors(self) -> Mapping[str, float]:  # type: ignore[override]
        """What one alone is given to read counts for it too."""
        given = self.weight["recall"] if self.num_agents == 1 else 0.0
        return {"empty": given, "echo": given + 0.10, "random": given + 0.01}

    @property
    def one_side(self) -> tuple[str, ...]:
        """Those who search and select."""
        return self.agents[:-1] or self.agents

    @property
    def _searched(self) -> Corpus:
        if self.corpus is None:
            raise OptionError("There is no corpus; pass corpus=Corpus.of_records(records).")
        return self.corpus

    def acting(self, state: State) -> tuple[str, ...]:
        """All; in sequence one, so that the last turn is the answerer's."""
        assert isinstance(state, Searching)
        if state.corpus != self._searched.sha256:
            raise OptionError("This episode is about another corpus; go on with it in the environment that began it.")
        if self.num_agents == 1 or self.schedule == "pipelined":
            return self.agents
        return (self.agents[(state.turn - self.max_turns) % len(self.agents)],)

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        """The question, searched for as it is."""
        record = from_row(item)
        blank = Searching(
            question=record.question,
            answers=record.answers if record.answerable else (),
            scorer=self.own_scorer(item),
            voices=(Voice(),) * self.num_agents,
            corpus=self._searched.sha256,
            support=roles.supporting_places(record, self._searched),
            queries=(Query(record.question),),
        )
        alone = self.num_agents == 1
        found = self._searched.search(record.question, self.selected_docs if alone else self.first_hits)
        state = roles.with_hits(blank, {record.question: found})
        return replace(state, seen=len(found), selected=tuple(range(1, len(found) + 1)) if alone else ())

    def brief(self, state: State, agent: str) -> str:
        """Role, form, question, and what it found."""
        assert isinstance(state, Searching)
        role = roles.BRIEF[agent] if self.num_agents > 1 else roles.ALONE
        task = f"a question from {len(self._searched)} documents in {self.max_turns} turns."
        rules = role.format(task=task, form=answer_form(state), **{name: vars(self)[name] for name in COUNTS})
        found = f"\n\nFound with the question:\n{first}" if (first := self.pages(state, agent)) else ""
        return f"{rules}\n\nQuestion: {state.question}{found}"

    def pages(self, state: Searching, agent: str) -> str:
        """What an agent is shown of the documents that the question found."""
        shows = roles.titles if agent == REWRITER else roles.pages
        # The answerer of a team reads nothing before something is selected.
        return shows(state, state.queries[0].hits or (), self._searched) if agent in self.agents[:2] else ""

    def observe(self, state: State, agent: str) -> str:
        """What is new for an agent whose turn it is; the others wait."""
        assert isinstance(state, Searching)
        return super().observe(state, agent) if agent in self.acting(state) else ""

    def lines(self, state: Searching, agent: str) -> Sequence[str]:
        """The teammates' messages, then what the role is shown."""
        if self.num_agents == 1:
            return ()
        fresh = range(state.seen + 1, self._known(state) + 1)
        material = roles.material(state, agent, fresh if agent == SELECTOR else state.selected, self._searched)
        return [*self.messages(state, agent), *material]

    def held(self, state: Searching, agent: str) -> tuple[Document, ...]:
        """The documents whose texts an agent has been shown and that its reply can be about."""
        numbers = {REWRITER: (), SELECTOR: range(1, self._known(state) + 1), ANSWERER: state.selected}[agent]
        return roles.documents(state, numbers, self._searched)

    def _known(self, state: Searching) -> int:
        """Documents that the selector has been shown, those of the coming turn among them."""
        return min(len(state.found), state.seen + self.candidates)

    def answers_now(self, agent: str) -> bool:
        """Whether it is the answerer."""
        return agent == ANSWERER

    def advance(self, state: State, actions: Actions) -> Step:
        """One joint action."""
        return self.advance_many([(state, actions)])[0]

    def advance_many(self, pairs: Sequence[tuple[State, Actions]]) -> list[Step]:
        """All joint actions; what they search for is searched for at once, unless nobody could read it any more."""
        before = [state for state, _ in pairs if isinstance(state, Searching)]
        after = [replace(self.listen(s, a), turn=s.turn + 1) for s, (_, a) in zip(before, pairs, strict=True)]
        open_ = [state for state in after if state.turn < self.max_turns]
        texts = list(dict.fromkeys(query.text for state in open_ for query in state.queries if query.hits is None))
        found = dict(zip(texts, self._searched.search_many(texts, self.hits), strict=True))
        searched = [roles.with_hits(state, found if state.turn < self.max_turns else {}) for state in after]
        return [self.step(*moved) for moved in zip(before, searched, strict=True)]

    def listen(self, state: Searching, actions: Actions) -> Searching:
        """What those who act say; queries are run later."""
        after = state
        for place, agent in enumerate(self.agents):
            if agent in self.acting(state):
                after = self._hear(after, place, tags.read(actions[agent], self.limits))
        return after

    def _hear(self, state: Searching, place: int, said: tags.Said) -> Searching:
        """The state after one agent's reply."""
        agent = self.agents[place]
        texts = said.parts.get(roles.OWN_TAG[agent], ())
        error, changed = "", state
        if agent == REWRITER:
            asked, error = roles.parse_queries(texts, self.queries, self.query_chars)
            changed = roles.with_queries(state, asked)
        elif agent == SELECTOR:
            known = self._known(state)
            selected, error = roles.parse_selection(texts, known, self.selected_docs)
            changed = replace(state, seen=known, selected=state.selected if selected is None else selected)
        own = {name: said.parts[name] for name in (tags.MESSAGE, roles.OWN_TAG[agent]) if name in said.parts}
        heeded = replace(said, parts=own, answer=said.answer if agent == ANSWERER else None)
        voice = heard(heeded, state.voices[place], (error,) if error else ())
        lengthy = agent == ANSWERER and any(len(text.split()) > self.answer_words for text in texts)
        voices = (*state.voices[:place], voice, *state.voices[place + 1 :])
        return replace(changed, voices=voices, breaks=state.breaks + bool(error or lengthy))

    def judge(self, state: Searching) -> Score:
        """The published sum, with every part of it."""
        score = answer_score(state, state.voices[-1].answer)
        wanted, chosen = set(state.support), set(state.chosen)
        both = len(wanted & chosen)
        recall = both / len(wanted) if wanted else 0.0
        kept = fmean(not voice.errors for voice in state.voices)
        parts = {"answer": score.f1, "recall": recall if wanted else score.f1, "form": kept, "breaks": state.breaks}
        metrics = {
            "answer_em": score.em,
            "answer_f1": score.f1,
            "retrieval_recall": len(wanted & set(state.found)) / len(wanted) if wanted else 0.0,
            "selection_recall": recall,
            "selection_precision": both / len(chosen) if chosen else 0.0,
            "overlooked": float(not score.em and roles.at_hand(state, self._searched)),
            "queries": float(len(state.queries) - 1),
            "message_chars": float(sum(voice.characters for voice in state.voices)),
            "format": kept,
            "breaks": float(state.breaks),
            "success": float(score.em),
        }
        spoken = {a: float(voice.characters) for a, voice in zip(self.agents, state.voices, strict=True)}
        return Score(self.weighted(parts), metrics, {"message_chars": spoken})

    def blank(self, reply: str) -> str:
        """The reply without its message, queries and selection."""
        return tags.without(reply, tags.MESSAGE, tags.QUERY, tags.SELECT) if self.channel else reply

    def oracle(self, state: State) -> Mapping[str, str] | None:
        """The answerer says what it needs, the rewriter searches for it, the selector picks it; then it answers."""
        assert isinstance(state, Searching)
        play = {REWRITER: self._ask, SELECTOR: self._pick, ANSWERER: self._answer}
        return {agent: play[agent](state) for agent in self.acting(state)}

    def _ask(self, state: Searching) -> str:
        """Words of the documents that the answerer said it needs; of all, where it cannot say so in time."""
        told, missing = state.voices[-1].message, [pid for pid in state.support if pid not in state.found]
        needs = roles.needs(state, self._searched, self.message_chars)
        due = [pid for pid in missing if self.max_turns < 4 or needs[pid] in told]
        room = self.query_chars // min(self.queries, max(1, len(state.support)))
        asked = {query.text for query in state.queries}
        leads = [lead for pid in due if (lead := roles.lead(pid, self._searched, room)) not in asked]
        return "<message></message>" + "".join(f"<query>{lead}</query>" for lead in leads[: self.queries])

    def _pick(self, state: Searching) -> str:
        """The documents of the support that it has been shown."""
        known = [n for n, pid in enumerate(state.found[: self._known(state)], start=1) if pid in state.support]
        picked = ", ".join(f"D{number}" for number in known[: self.selected_docs])
        return f"<message></message><select>{picked}</select>"

    def _answer(self, state: Searching) -> str:
        """The answer, or what is missing for it, as long as somebody can search, select and read it."""
        missing = [pid for pid in state.support if pid not in state.chosen]
        if not missing:
            return f"<message></message><answer>{gold_answer(state)}</answer>"
        in_time = self.channel and state.turn + 4 <= self.max_turns
        needs = roles.needs(state, self._searched, self.message_chars)
        return f"<message>{' '.join(needs[pid] for pid in missing if in_time)}</message>"


def pooled(tasks: TaskSet) -> dict[str, Corpus]:
    """The corpus of all paragraphs of a set of tasks, as a setting."""
    return {"corpus": Corpus.of_records(from_row(task.fields) for task in tasks)}


def parallel_env(**kwargs: Any) -> TextEnv:
    """The environment; keyword arguments are the scenario's settings and those that every id accepts."""
    load = qa_loader("qa/retrieve_answer", kwargs.get("dataset", RetrieveAnswer.dataset), invented_things)
    own = kwargs.get("corpus") is not None
    return build_env(
        RetrieveAnswer, load, kwargs, name="qa/retrieve_answer", parse=parse, from_tasks=None if own else pooled
    )
