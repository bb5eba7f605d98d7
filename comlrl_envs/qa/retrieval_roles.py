"""What rewriter, selector and answerer say to a search, and what each of them is shown of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from comlrl_envs.errors import TaskError
from comlrl_envs.qa import tags
from comlrl_envs.qa.bm25 import Corpus
from comlrl_envs.qa.documents import Document, says
from comlrl_envs.qa.normalize import squad
from comlrl_envs.qa.records import QARecord
from comlrl_envs.qa.team_question import Asked
from comlrl_envs.scenario import State
from comlrl_envs.tagged_text import shown

REWRITER, SELECTOR, ANSWERER = "rewriter", "selector", "answerer"
OWN_TAG = {REWRITER: tags.QUERY, SELECTOR: tags.SELECT, ANSWERER: tags.ANSWER}
"""By role the tag that it writes beside messages."""
ROLES = tuple(OWN_TAG)
_RULES = (
    "The rewriter writes queries for a search by words, the selector picks among the documents that they find, and the "
    "answerer answers from those picked."
)
_MESSAGE = "Write, between tags:\n<message>what teammates should know</message>\n"
_ANSWER = "<answer>your answer</answer>{form}"
BRIEF = {
    REWRITER: f"You are the rewriter of a team that answers {{task}} {_RULES} You are shown titles alone. {_MESSAGE}"
    "<query>words to search for</query> up to {queries} times, {query_chars} characters in all",
    SELECTOR: f"You are the selector of a team that answers {{task}} {_RULES} You read what was found. {_MESSAGE}"
    "<select>D_, D_</select>: all documents that the answerer is to read, {selected_docs} at most",
    ANSWERER: f"You are the answerer of a team that answers {{task}} {_RULES} You read what was picked. {_MESSAGE}"
    f"{_ANSWER}, as soon as you know it",
}
"""What each role is told of its task; ``task`` says what is answered in how many turns, ``form`` how an answer is
written, the others are settings."""
ALONE = f"You answer {{task}} Write, between tags:\n{_ANSWER}"
"""What one alone is told."""
_NUMBER = re.compile(r"D(\d{1,6})", re.IGNORECASE)


@dataclass(frozen=True)
class Query(State):
    """A search.

    Attributes:
        text: The words.
        hits: Numbers of the documents that it found, best first; None as long as it was not run.
    """

    text: str
    hits: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Searching(Asked):
    """A question, what was searched for, and what was selected.

    Attributes:
        corpus: Digest of the corpus that all places are of.
        support: Places in the corpus of what the answer rests on.
        found: Places in the corpus of all documents found, in the order in which they first were; the first is D1.
        queries: All searches; the first is the question itself.
        seen: How many of the documents the selector was shown.
        selected: Numbers of the documents that the answerer reads.
        breaks: Replies that broke a rule.
    """

    corpus: str
    support: tuple[int, ...]
    found: tuple[int, ...] = ()
    queries: tuple[Query, ...] = ()
    seen: int = 0
    selected: tuple[int, ...] = ()
    breaks: int = 0

    @property
    def chosen(self) -> tuple[int, ...]:
        """Places in the corpus of the selected documents."""
        return tuple(self.found[number - 1] for number in self.selected)


def with_queries(state: Searching, texts: Iterable[str]) -> Searching:
    """The state with queries to run, but for those that were run before, in whatever case."""
    queries = {query.text.casefold(): query for query in state.queries}
    for text in texts:
        queries.setdefault(text.casefold(), Query(text))
    return replace(state, queries=tuple(queries.values()))


def with_hits(state: Searching, found: Mapping[str, tuple[int, ...]]) -> Searching:
    """The state after searches were run.

    Args:
        state: Some of whose queries were not run.
        found: By text of a query, places in the corpus; a query that is missing finds nothing.
    """
    fresh = [query for query in state.queries if query.hits is None]
    places = list(dict.fromkeys([*state.found, *(pid for query in fresh for pid in found.get(query.text, ()))]))
    numbers = {pid: number for number, pid in enumerate(places, start=1)}
    queries = tuple(
        Query(query.text, tuple(numbers[pid] for pid in found.get(query.text, ()))) if query.hits is None else query
        for query in state.queries
    )
    return replace(state, found=tuple(places), queries=queries)


def supporting_places(record: QARecord, corpus: Corpus) -> tuple[int, ...]:
    """Places in the corpus of a record's supporting paragraphs; raises ``TaskError`` if one is not there."""
    pids = []
    for place in record.supporting:
        pid = corpus.pid(record.paragraphs[place])
        if pid is None:
            raise TaskError(
                f"Task {record.id or record.question!r} cannot be played: its supporting paragraph {place} "
                f"({record.paragraphs[place].title!r}) is not in the corpus of {len(corpus)} paragraphs. Put it there, "
                "or leave corpus= out."
            )
        pids.append(pid)
    return tuple(dict.fromkeys(pids))


def at_hand(state: Searching, corpus: Corpus) -> bool:
    """Whether a right answer stands in a selected document."""
    forms = [form for answer in state.answers if (form := squad(answer))]
    return any(says(corpus[pid].text, forms) for pid in state.chosen)


def parse_queries(texts: Iterable[str], most: int, chars: int) -> tuple[tuple[str, ...], str]:
    """The queries of a reply that count, and what is wrong with them, or "".

    >>> parse_queries(["red  hat", "red hat", "hall"], 2, 10)
    (('red hat', 'hal'), 'your queries had 11 characters; the first 10 counted')
    """
    asked = list(dict.fromkeys(text for text in map(shown, texts) if text))
    total = sum(map(len, asked))
    error = f"your queries had {total} characters; the first {chars} counted" if total > chars else ""
    if len(asked) > most:
        error = f"you wrote {len(asked)} queries; the first {most} counted, up to {chars} characters"
    kept: list[str] = []
    for text in asked[:most]:
        if piece := text[: max(0, chars)].strip():
            kept.append(piece)
        chars -= len(text)
    return tuple(kept), error


def parse_selection(texts: Sequence[str], known: int, most: int) -> tuple[tuple[int, ...] | None, str]:
    """The numbers that a reply selects, None if it selects nothing anew, and what is wrong with them, or "".

    >>> parse_selection(["D2, D7; D2"], 5, 3)
    ((2,), '2 of the documents you selected did not count: give numbers that you were shown, each once, 3 at most')
    """
    if not texts:
        return None, ""
    items = [item.strip() for text in texts for item in re.split("[;,\n]", text) if item.strip()]
    numbers = [int(match.group(1)) for item in items if (match := _NUMBER.fullmatch(item))]
    kept = tuple(dict.fromkeys(number for number in numbers if 1 <= number <= known))[:most]
    stray = len(items) - len(kept)
    rule = f"give numbers that you were shown, each once, {most} at most"
    return kept, f"{stray} of the documents you selected did not count: {rule}" if stray else ""


def titles(state: Searching, numbers: Iterable[int], corpus: Corpus) -> str:
    """Documents by number and title."""
    names = (f"D{number} {shown(corpus[state.found[number - 1]].title)}".strip() for number in numbers)
    return "; ".join(names) or "nothing"


def documents(state: Searching, numbers: Iterable[int], corpus: Corpus) -> tuple[Document, ...]:
    """Documents by number, each text in one piece."""
    held = ((number, corpus[state.found[number - 1]]) for number in numbers)
    return tuple(Document(number, each.title, (each.text,)) for number, each in held)


def pages(state: Searching, numbers: Iterable[int], corpus: Corpus) -> str:
    """Documents with their texts."""
    return "\n".join(each.page() for each in documents(state, numbers, corpus))


def material(state: Searching, agent: str, numbers: Iterable[int], corpus: Corpus) -> list[str]:
    """What a role is shown between turns beside messages: of the documents with these numbers the texts."""
    if agent == REWRITER:
        own = [f'"{query.text}": {titles(state, query.hits or (), corpus)}' for query in state.queries[1:]]
        return ["Your queries, and what they found:", *own] if own else ["You have not searched yet."]
    texts = pages(state, numbers, corpus)
    if agent == SELECTOR:
        found = ["Documents found:", texts] if texts else ["No other documents were found."]
        return [*found, f"You have selected: {titles(state, state.selected, corpus)}"]
    return ["Selected documents:", texts] if texts else ["No documents are selected."]


def lead(pid: int, corpus: Corpus, chars: int) -> str:
    """Words that find a document: the first of its title and text."""
    return shown(f"{corpus[pid].title} {corpus[pid].text}")[:chars].strip()


def needs(state: Searching, corpus: Corpus, chars: int) -> dict[int, str]:
    """What each document of the support is called, title or first words, so that all go into one message."""
    room = max(0, (chars + 1) // max(1, len(state.support)) - 1)
    return {pid: shown(corpus[pid].title.strip() or corpus[pid].text)[:room].strip() for pid in state.support}
