"""Rows of public question-answering sets, in the form of their files and of the hub, as records.

A form is known by its fields; ``records`` finds it. SQuAD's and DROP's files are trees of articles and passages, and
2WikiMultihopQA's may need a corpus beside it: ``read_file`` takes both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from comlrl_envs.errors import TaskError
from comlrl_envs.qa.records import Paragraph, QARecord, Support

Row: TypeAlias = Mapping[str, Any]
Corpus: TypeAlias = Mapping[str, str]
"""Texts by title."""


@dataclass(frozen=True)
class Form:
    """How a set writes its rows.

    Attributes:
        name: Of the set.
        fields: That every row has; they tell the form.
        read: The record of a row.
        scorer: Name of the set's own scorer.
    """

    name: str
    fields: frozenset[str]
    read: Callable[[Row, Corpus], QARecord]
    scorer: str


def _multihop(row: Row, corpus: Corpus) -> QARecord:
    """HotpotQA and 2WikiMultihopQA, as files (lists of pairs) and on the hub (columns)."""
    context, facts = row.get("context"), row["supporting_facts"]
    pairs = _pairs(facts, "title", "sent_id")
    if context is None:
        titles = list(dict.fromkeys(title for title, _ in pairs))
        paragraphs = [Paragraph(title, (corpus[title],)) for title in titles]
        support: list[Support] = [(place, None) for place in range(len(titles))]
    else:
        listed = _pairs(context, "title", "sentences")
        places = {title: place for place, (title, _) in reversed(list(enumerate(listed)))}
        paragraphs = [Paragraph(title, tuple(sentences)) for title, sentences in listed]
        support = [(places[title], int(sentence)) for title, sentence in pairs]
    name = row["_id"] if "_id" in row else row["id"]
    return QARecord(
        name, row["question"], (row["answer"],), tuple(paragraphs), tuple(dict.fromkeys(support)), row["type"]
    )


def _pairs(table: Any, *columns: str) -> list[tuple[Any, Any]]:
    """Pairs of a list of pairs, or of a mapping of two columns."""
    rows = zip(*(table[column] for column in columns), strict=True) if isinstance(table, Mapping) else table
    return [(first, second) for first, second in rows]


def _musique(row: Row, corpus: Corpus) -> QARecord:
    paragraphs = row["paragraphs"]
    hops = row.get("question_decomposition") or ()
    return QARecord(
        id=row["id"],
        question=row["question"],
        answers=tuple(dict.fromkeys((row["answer"], *row.get("answer_aliases", ())))),
        paragraphs=tuple(Paragraph(each["title"], (each["paragraph_text"],)) for each in paragraphs),
        support=tuple((place, None) for place, each in enumerate(paragraphs) if each["is_supporting"]),
        kind=row["id"].split("__")[0],
        answerable=row.get("answerable", True),
        steps=tuple(each["question"] for each in hops),
    )


def _squad(row: Row, corpus: Corpus) -> QARecord:
    """A question of SQuAD with its passage, as on the hub."""
    answers = tuple(dict.fromkeys(row["answers"]["text"]))
    paragraph = Paragraph(row.get("title", "").replace("_", " "), (row["context"],))
    return QARecord(
        row["id"], row["question"], answers, (paragraph,), ((0, None),) if answers else (), answerable=bool(answers)
    )


def _gsm8k(row: Row, corpus: Corpus) -> QARecord:
    gold = row["answer"].rpartition("#### ")[2].strip()
    return QARecord(str(row.get("id", "")), row["question"], (gold,))


def _strategyqa(row: Row, corpus: Corpus) -> QARecord:
    facts = tuple(Paragraph("", (fact,)) for fact in row["facts"])
    answer = "yes" if row["answer"] else "no"
    name = row["qid"] if "qid" in row else row["id"]
    support = tuple((place, None) for place in range(len(facts)))
    return QARecord(name, row["question"], (answer,), facts, support, steps=tuple(row.get("decomposition", ())))


def _boolq(row: Row, corpus: Corpus) -> QARecord:
    answer = row["label"] if "label" in row else row["answer"]
    passage = Paragraph(row.get("title", ""), (row["passage"],))
    name = str(row["idx"] if "idx" in row else row.get("id", ""))
    return QARecord(name, row["question"], ("yes" if answer else "no",), (passage,), ((0, None),))


def _drop(row: Row, corpus: Corpus) -> QARecord:
    """A question of DROP with its passage; answers of several spans are joined, as a reader would say them."""
    golds = [row["answer"], *row.get("validated_answers", ())]
    answers = tuple(dict.fromkeys(text for gold in golds if (text := _drop_answer(gold))))
    paragraph = Paragraph("", (row["passage"],))
    return QARecord(row["query_id"], row["question"], answers, (paragraph,), ((0, None),), answerable=bool(answers))


def _drop_answer(answer: Row) -> str:
    if answer.get("number"):
        return str(answer["number"])
    if answer.get("spans"):
        return ", ".join(answer["spans"])
    date = answer.get("date") or {}
    return " ".join(date[part] for part in ("day", "month", "year") if date.get(part))


FORMS: tuple[Form, ...] = (
    Form("musique", frozenset({"question", "answer", "paragraphs", "question_decomposition"}), _musique, "musique"),
    Form("2wikimultihopqa", frozenset({"question", "answer", "supporting_facts", "evidences"}), _multihop, "twowiki"),
    Form("hotpotqa", frozenset({"question", "answer", "supporting_facts", "context"}), _multihop, "hotpotqa"),
    Form("strategyqa", frozenset({"question", "answer", "facts"}), _strategyqa, "yesno"),
    Form("drop", frozenset({"question", "answer", "passage", "query_id"}), _drop, "drop"),
    Form("boolq", frozenset({"question", "passage", "label"}), _boolq, "yesno"),
    Form("boolq", frozenset({"question", "passage", "answer"}), _boolq, "yesno"),
    Form("squad", frozenset({"question", "context", "answers"}), _squad, "squad_v2"),
    Form("gsm8k", frozenset({"question", "answer"}), _gsm8k, "gsm8k"),
)
"""The first whose fields a row has is its form."""


def form_of(row: Row) -> Form:
    """The form of a row.

    Raises:
        TaskError: It is none of the known ones.
    """
    found = next((form for form in FORMS if form.fields <= row.keys()), None)
    if found is None:
        known = "; ".join(f"{form.name} ({', '.join(sorted(form.fields))})" for form in FORMS)
        raise TaskError(f"A row with the fields {sorted(map(str, row))} is of no known set. Known are: {known}.")
    return found


def record(row: Row, corpus: Corpus | None = None) -> QARecord:
    """The record of one row of any known form.

    Args:
        row: Of a set's file, or of the hub.
        corpus: Texts by title, for rows that name their paragraphs only.

    Raises:
        TaskError: The form is not known, or the row cannot be read; its id is named.
    """
    form = form_of(row)
    try:
        return form.read(row, corpus or {})
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as bad:
        name = next((row[key] for key in ("id", "_id", "qid", "query_id", "idx") if key in row), "?")
        reason = f"it lacks {bad}" if isinstance(bad, KeyError) else str(bad)
        raise TaskError(f"Row {name!r} cannot be read as {form.name}: {reason}.") from bad


def read_file(path: str | Path, corpus: str | Path | None = None) -> Iterator[QARecord]:
    """All records of a set's file, JSON or JSON lines, in its order.

    Args:
        path: The file.
        corpus: A list of titles and texts, for a file that names its paragraphs only.

    Raises:
        TaskError: The file is of no known form.
    """
    texts = (
        {} if corpus is None else {each["title"]: each["text"] for each in json.loads(Path(corpus).read_text("utf-8"))}
    )
    for place, row in enumerate(_rows(Path(path))):
        yield record({"id": str(place), **row} if not {"_id", "qid", "query_id", "idx"} & row.keys() else row, texts)


def _rows(path: Path) -> Iterable[Row]:
    text = path.read_text("utf-8")
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
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
