"""Rows of public question-answering sets, in the form of their files and of the hub, as records.

A form is known by its fields; ``record`` finds it. SQuAD's and DROP's files are trees of articles and passages, and
2WikiMultihopQA's may need a corpus beside it: ``read_file`` takes both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from comlrl_envs.errors import TaskError
from comlrl_envs.qa.records import (
    OWN_FIELDS,
    Paragraph,
    QARecord,
    Support,
    as_boolean,
    as_list,
    as_name,
    as_place,
    as_text,
    from_row,
)

Row: TypeAlias = Mapping[str, Any]
Texts: TypeAlias = Mapping[str, str]
"""Texts by title."""

_FACT_ENDS = re.compile(r"(?<=[^\s.][.!?])(?<!\b[A-Z]\.)(?<!\b[A-Z][a-z]\.)(?<!\bMrs\.)\s+(?=[A-Z\"'(])")


@dataclass(frozen=True)
class Form:
    """How a set writes its rows.

    Attributes:
        name: Of the set.
        fields: That every row has; they tell the form.
        read: The record of a row.
        scorer: Name of the set's own scorer.
        others: Further fields of the set, of which the record has what a game needs.
        fits: Whether a row with these fields is of this form.
    """

    name: str
    fields: frozenset[str]
    read: Callable[[Row, Texts], QARecord]
    scorer: str
    others: frozenset[str] = frozenset()
    fits: Callable[[Row], bool] = lambda row: True


def _by_hand(row: Row, corpus: Texts) -> QARecord:
    return from_row(row)


def _multihop(row: Row, corpus: Texts) -> QARecord:
    """HotpotQA and 2WikiMultihopQA, as files (lists of pairs) and on the hub (columns)."""
    facts = _pairs("supporting_facts", row["supporting_facts"], "title", "sent_id")
    if row.get("context") is None:
        if not corpus:
            raise ValueError("it has no 'context', and there is no corpus with its paragraphs")
        titles = list(dict.fromkeys(title for title, _ in facts))
        paragraphs = [Paragraph(title, (corpus[title],)) for title in titles]
        support: list[Support] = [(place, None) for place in range(len(titles))]
    else:
        listed = _pairs("context", row["context"], "title", "sentences", "content")
        places = {title: place for place, (title, _) in reversed(list(enumerate(listed)))}
        paragraphs = [Paragraph(title, tuple(as_list("sentences", sentences))) for title, sentences in listed]
        support = [(places[title], as_place("a sentence's place", sentence)) for title, sentence in facts]
    return QARecord(
        as_name(row["_id"] if "_id" in row else row["id"]),
        as_text("question", row["question"]),
        _answers([row["answer"]]),
        tuple(paragraphs),
        tuple(dict.fromkeys(support)),
        row.get("type") or "",
    )


def _pairs(name: str, given: Any, first: str, *seconds: str) -> list[tuple[str, Any]]:
    """Pairs of a list of pairs, or of a mapping of two columns; one copy of a set on the hub has them as JSON texts."""
    table = json.loads(given) if isinstance(given, str) else given
    if isinstance(table, Mapping):
        second = next((column for column in seconds if column in table), seconds[0])
        rows = list(zip(as_list(first, table[first]), as_list(second, table[second]), strict=True))
    else:
        rows = [tuple(as_list(f"a row of {name}", pair)) for pair in as_list(name, table)]
    if any(len(pair) != 2 for pair in rows):
        raise ValueError(f"{name} holds rows that are no pairs")
    return [(as_text("title", title), value) for title, value in rows]


def _answers(given: Iterable[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(as_text("an answer", each) for each in given))


def _musique(row: Row, corpus: Texts) -> QARecord:
    paragraphs = as_list("paragraphs", row["paragraphs"])
    name = as_text("the id", row["id"])
    hops = as_list("question_decomposition", row.get("question_decomposition") or ())
    return QARecord(
        id=name,
        question=as_text("question", row["question"]),
        answers=_answers([row["answer"], *as_list("answer_aliases", row.get("answer_aliases") or ())]),
        paragraphs=tuple(Paragraph(each["title"], (each["paragraph_text"],)) for each in paragraphs),
        support=tuple(
            (place, None) for place, each in enumerate(paragraphs) if as_boolean("is_supporting", each["is_supporting"])
        ),
        kind=name.split("__")[0],
        answerable=as_boolean("answerable", row.get("answerable", True)),
        steps=tuple(each["question"] for each in hops),
    )


def _squad(row: Row, corpus: Texts) -> QARecord:
    """A question of SQuAD with its passage, as on the hub."""
    answers = _answers(as_list("text", row["answers"]["text"]))
    title = as_text("title", row.get("title") or "").replace("_", " ")
    return QARecord(
        as_name(row.get("id")),
        as_text("question", row["question"]),
        answers,
        (Paragraph(title, (row["context"],)),),
        ((0, None),) if answers else (),
        answerable=bool(answers),
    )


def _has_answer_columns(row: Row) -> bool:
    return isinstance(row["answers"], Mapping)


def _gsm8k(row: Row, corpus: Texts) -> QARecord:
    """The number alone: the solution, with its marks for a calculator, is left behind."""
    gold = row["answer"].rpartition("#### ")[2].strip()
    return QARecord(as_name(row.get("id")), as_text("question", row["question"]), (gold,))


def _ends_in_number(row: Row) -> bool:
    return isinstance(row["answer"], str) and "#### " in row["answer"]


def _strategyqa(row: Row, corpus: Texts) -> QARecord:
    """Each fact is a paragraph; on the hub they are one text."""
    given = row["facts"]
    texts = _FACT_ENDS.split(given.strip()) if isinstance(given, str) else as_list("facts", given)
    facts = tuple(Paragraph("", (text,)) for text in texts)
    return QARecord(
        as_name(row["qid"] if "qid" in row else row.get("id")),
        as_text("question", row["question"]),
        (_yes_or_no(row["answer"]),),
        facts,
        tuple((place, None) for place in range(len(facts))),
        steps=tuple(as_list("decomposition", row.get("decomposition") or ())),
    )


def _yes_or_no(answer: Any) -> str:
    """Of a truth value, or of a 1 or 0; a text such as "no" would be true."""
    if not isinstance(answer, bool | int) or answer not in (True, False):
        raise TypeError(f"its answer is {answer!r:.40}, a {type(answer).__name__}; expected true or false")
    return "yes" if answer else "no"


def _boolq(row: Row, corpus: Texts) -> QARecord:
    passage = Paragraph(row.get("title") or "", (row["passage"],))
    return QARecord(
        as_name(row["idx"] if "idx" in row else row.get("id")),
        as_text("question", row["question"]),
        (_yes_or_no(row["label"] if "label" in row else row["answer"]),),
        (passage,),
        ((0, None),),
    )


def _drop(row: Row, corpus: Texts) -> QARecord:
    """A question of DROP with its passage; answers of several spans are joined, as a reader would say them."""
    golds = [row["answer"], *as_list("validated_answers", row.get("validated_answers") or ())]
    answers = _answers(text for gold in golds if (text := _drop_answer(gold)))
    passage = Paragraph("", (row["passage"],))
    name, question = as_name(row["query_id"]), as_text("question", row["question"])
    return QARecord(name, question, answers, (passage,), ((0, None),), answerable=bool(answers))


def _drop_answer(answer: Row) -> str:
    if answer.get("number"):
        return str(answer["number"])
    if answer.get("spans"):
        return ", ".join(as_list("spans", answer["spans"]))
    date = answer.get("date") or {}
    return " ".join(date[part] for part in ("day", "month", "year") if date.get(part))


def _is_list(row: Row) -> bool:
    return not isinstance(row["answers"], Mapping)


_MULTIHOP = frozenset({"id", "_id", "context", "type", "level", "evidences"})
_BOOLQ = frozenset({"id", "idx", "title", "answer", "label"})

BY_HAND = "a row by hand"
FORMS: tuple[Form, ...] = (
    Form(BY_HAND, frozenset({"question", "answers"}), _by_hand, "squad_v2", OWN_FIELDS, _is_list),
    Form(
        "musique",
        frozenset({"question", "answer", "paragraphs", "question_decomposition"}),
        _musique,
        "musique",
        frozenset({"id", "answer_aliases", "answerable"}),
    ),
    Form(
        "2wikimultihopqa",
        frozenset({"question", "answer", "supporting_facts", "evidences"}),
        _multihop,
        "twowiki",
        _MULTIHOP | {"entity_ids", "evidences_id", "answer_id"},
    ),
    Form(
        "hotpotqa", frozenset({"question", "answer", "supporting_facts", "context"}), _multihop, "hotpotqa", _MULTIHOP
    ),
    Form(
        "strategyqa",
        frozenset({"question", "answer", "facts"}),
        _strategyqa,
        "yesno",
        frozenset({"id", "qid", "term", "description", "decomposition", "evidence"}),
    ),
    Form(
        "drop",
        frozenset({"question", "answer", "passage", "query_id"}),
        _drop,
        "drop",
        frozenset({"id", "section_id", "validated_answers"}),
    ),
    Form("boolq", frozenset({"question", "passage", "label"}), _boolq, "yesno", _BOOLQ),
    Form("boolq", frozenset({"question", "passage", "answer"}), _boolq, "yesno", _BOOLQ),
    Form(
        "squad",
        frozenset({"question", "context", "answers"}),
        _squad,
        "squad_v2",
        frozenset({"id", "title", "is_impossible", "plausible_answers"}),
        _has_answer_columns,
    ),
    Form("gsm8k", frozenset({"question", "answer"}), _gsm8k, "gsm8k", frozenset({"id"}), _ends_in_number),
    Form(BY_HAND, frozenset({"question", "answer"}), _by_hand, "squad_v2", OWN_FIELDS),
)
"""The first whose fields a row has, and that it fits, is its form."""


def _known() -> str:
    forms = "; ".join(f"{form.name} ({', '.join(sorted(form.fields))})" for form in FORMS)
    return f"Known are: {forms}."


def form_of(row: Row) -> Form:
    """The form of a row.

    Raises:
        TaskError: It is none of the known ones.
    """
    found = next((form for form in FORMS if form.fields <= row.keys() and form.fits(row)), None)
    if found is None:
        given = f"{sorted(map(str, row))}"
        raise TaskError(
            f"A row with the fields {given:.300} is of no known set. {_known()} A row by hand may also have "
            f"{', '.join(sorted(OWN_FIELDS - {'question', 'answer', 'answers'}))}; 'answers' is a list of texts, "
            "'answer' one text."
        )
    return found


def record(row: Row, corpus: Texts | None = None) -> QARecord:
    """The record of one row of any known form, with all of its values checked.

    Args:
        row: Of a set's file, of the hub, or by hand.
        corpus: Texts by title, for rows that name their paragraphs only.

    Raises:
        TaskError: The form is not known, or the row cannot be read; its id is named.
    """
    form = form_of(row)
    try:
        found = form.read(row, corpus or {})
        return found if form.read is _by_hand else from_row(found.row())
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as bad:
        name = next((row[key] for key in ("_id", "qid", "query_id", "idx", "id") if row.get(key) is not None), "?")
        reason = f"it lacks {bad}" if isinstance(bad, KeyError) else str(bad)
        raise TaskError(f"Row {name!r:.80} cannot be read as {form.name}: {reason:.300}.") from bad


def read_file(path: str | Path, corpus: str | Path | None = None) -> Iterator[QARecord]:
    """All records of a set's file, JSON or JSON lines, in its order.

    Args:
        path: The file.
        corpus: A list of titles and texts, for a file that names its paragraphs only.

    Raises:
        TaskError: The file cannot be read, or is of no known form.
    """
    try:
        texts = {} if corpus is None else _texts(Path(corpus))
        rows = list(file_rows(Path(path)))
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as bad:
        reason = f"{type(bad).__name__}: {bad}"
        raise TaskError(
            f"{path} is no set of questions, in JSON or JSON lines, that can be read ({reason:.300}). {_known()}"
        ) from bad
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TaskError(f"Row {place} of {path} is a {type(row).__name__}; expected an object with its fields.")
        yield record({"id": str(place), **row} if not {"_id", "qid", "query_id", "idx"} & row.keys() else row, texts)


def _texts(path: Path) -> dict[str, str]:
    return {each["title"]: each["text"] for each in json.loads(path.read_text("utf-8"))}


def joined_rows(path: Path, corpus: str) -> Iterator[Row]:
    """The rows, as records write them, of a file that names its paragraphs only; ``corpus`` lies beside it."""
    return (found.row() for found in read_file(path, path.with_name(corpus)))


def file_rows(path: Path) -> Iterable[Row]:
    """The rows of a set's file, JSON or JSON lines; the trees of SQuAD and DROP become a row a question."""
    text = path.read_text("utf-8")
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    if isinstance(data, list):
        return data
    if isinstance(data, dict) and isinstance(data.get("data"), list):
        return _squad_rows(data["data"])
    if isinstance(data, dict) and all(isinstance(each, dict) and "qa_pairs" in each for each in data.values()):
        return [{**pair, "passage": each["passage"]} for each in data.values() for pair in each["qa_pairs"]]
    return [data]


def _squad_rows(articles: Iterable[Row]) -> list[Row]:
    return [
        {
            "id": question["id"],
            "title": article["title"],
            "context": paragraph["context"],
            "question": question["question"],
            "answers": {"text": [each["text"] for each in question["answers"]]},
        }
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
