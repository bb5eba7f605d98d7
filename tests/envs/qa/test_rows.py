"""The parser of rows: every public form and rows by hand; whatever else is there, a row or a clear error."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs import TaskError, TaskSet
from comlrl_envs.qa.forms import FORMS, file_rows, read_file
from comlrl_envs.qa.records import from_row
from comlrl_envs.qa.rows import parse
from comlrl_envs.qa.scorers import SCORERS

CORPUS = "2wikimultihopqa/2wikimultihopqa_corpus.json"
JOINED = "2wikimultihopqa/lag_2wiki_dev_354_support_in_corpus.json"
FILES = {
    "hotpotqa/hipporag_hotpotqa_train_100.json": "hotpotqa",
    "musique/hipporag_musique_train_100.json": "musique",
    "squad/dev-v1.1.part_a_24articles.json": "squad_v2",
    "gsm8k/test.jsonl": "gsm8k",
    "gsm8k/train_first1000.jsonl": "gsm8k",
    "strategyqa/dev.json": "yesno",
    "boolq/allennlp_fixture_boolq.jsonl": "yesno",
    "drop/allennlp_fixture_drop.json": "drop",
}
ROWS = {
    "hotpotqa": {
        "_id": "h", "question": "Who?", "answer": "Ann", "type": "bridge", "level": "easy",
        "supporting_facts": [["B", 0], ["A", 1]], "context": [["A", ["One.", " Two."]], ["B", ["Three."]]],
    },
    "hotpotqa of the hub": {
        "id": "h", "question": "Who?", "answer": "Ann", "type": "bridge", "level": "easy",
        "supporting_facts": {"title": ["B", "A"], "sent_id": [0, 1]},
        "context": {"title": ["A", "B"], "sentences": [["One.", " Two."], ["Three."]]},
    },
    "2wikimultihopqa as texts": {
        "_id": "w", "question": "Who?", "answer": "Ann", "type": "comparison",
        "context": '[["A", ["One.", "Two."]], ["B", ["Three."]]]', "supporting_facts": '[["B", 0], ["A", 1]]',
        "evidences": "[]", "evidences_id": "[]", "answer_id": "Q1", "entity_ids": "Q1_Q2",
    },
    "2wikimultihopqa with content": {
        "_id": "w", "question": "Who?", "answer": "Ann", "type": "comparison",
        "context": {"title": ["A", "B"], "content": [["One.", "Two."], ["Three."]]},
        "supporting_facts": {"title": ["A", "B"], "sent_id": [0, 0]}, "evidences": {"fact": [], "relation": []},
    },
    "musique": {
        "id": "2hop__1_2", "question": "Who?", "answer": "Ann", "answer_aliases": ["Anna"], "answerable": True,
        "question_decomposition": [{"id": 1, "question": "Which?", "answer": "x", "paragraph_support_idx": 0}],
        "paragraphs": [
            {"idx": 0, "title": "A", "paragraph_text": "One.", "is_supporting": True},
            {"idx": 1, "title": "A", "paragraph_text": "Two.", "is_supporting": False},
        ],
    },
    "strategyqa": {
        "qid": "q", "term": "t", "description": "d", "question": "Is it?", "answer": False,
        "facts": ["One.", "Two."], "decomposition": ["What?"], "evidence": [],
    },
    "strategyqa of the hub": {
        "qid": "q", "term": "t", "description": "d", "question": "Is it?", "answer": True,
        "facts": "The U.S. Army is old. Mr. Ames left it in 1990! Is it so? \"It is.\"",
    },
    "squad": {
        "id": "s", "title": "A_b", "context": "Ann is here.", "question": "Who?",
        "answers": {"text": ["Ann", "Ann"], "answer_start": [0, 0]},
    },
    "squad without an answer": {
        "id": "s", "title": "A_b", "context": "Ann is here.", "question": "Who?", "answers": {"text": []},
    },
    "boolq": {"idx": 7, "question": "is it", "passage": "It is.", "label": 1},
    "boolq of the hub": {"question": "is it", "passage": "It is.", "answer": True},
    "drop": {
        "query_id": "d", "question": "How many?", "passage": "There were 3.", "answer": {"number": "3", "spans": []},
        "validated_answers": [{"number": "", "spans": ["three", "four"]}, {"date": {"day": "3", "month": "May"}}],
    },
    "gsm8k": {"question": "How many?", "answer": "It is 48/2 = <<48/2=24>>24.\n#### 1,024"},
    "by hand": {"id": 3, "question": "Who?", "answer": "Ann", "paragraphs": ["Ann."], "support": [0], "scorer": "drop"},
    "by hand, short": {"question": "Who?", "answers": ["Ann", "Anna"], "kind": "bridge", "steps": ["Which?"]},
}  # fmt: skip


@pytest.mark.parametrize("file", FILES)
def test_every_row_of_a_file_is_parsed_and_stays_as_it_is(data_dir, file):
    if not (data_dir / file).exists():
        pytest.skip(f"{file} is not there")
    rows = list(file_rows(data_dir / file))
    for row in rows:
        parsed = parse(row)
        assert parsed["scorer"] == FILES[file] and parse(parsed) == parsed
        assert SCORERS[parsed["scorer"]](parsed["answers"][0], parsed["answers"]).em == 1
        assert "####" not in json.dumps(parsed) and "<<" not in json.dumps(parsed)
    assert len(rows) > 4


@pytest.mark.needs_data(CORPUS, JOINED)
def test_rows_of_a_file_with_a_corpus(data_dir):
    records = list(read_file(data_dir / JOINED, data_dir / CORPUS))
    assert len(records) == 354
    for record in records:
        assert from_row(parse(record.row())) == record
    with pytest.raises(TaskError, match="no 'context', and there is no corpus"):
        parse(next(iter(file_rows(data_dir / JOINED))))


@pytest.mark.parametrize("name", ROWS)
def test_forms_of_files_and_of_the_hub(name):
    row = ROWS[name]
    before = copy.deepcopy(row)
    parsed = parse(row)
    assert row == before and parse(parsed) == parsed == parse(json.loads(json.dumps(parsed)))
    assert parsed == {**from_row(parsed).row(), "scorer": parsed["scorer"]} or not parsed.get("id")
    if name.startswith(("hotpotqa", "2wiki")):
        assert [each["title"] for each in parsed["paragraphs"]] == ["A", "B"]
        assert sorted(place for place, _ in parsed["support"]) == [0, 1] and parsed["kind"] == row["type"]
        assert parsed["scorer"] == ("hotpotqa" if name.startswith("hotpotqa") else "twowiki")
    if name == "strategyqa of the hub":
        assert [each["sentences"] for each in parsed["paragraphs"]] == [
            ["The U.S. Army is old."],
            ["Mr. Ames left it in 1990!"],
            ["Is it so?"],
            ['"It is."'],
        ]
        assert parsed["answers"] == ["yes"] and parsed["support"] == [[place, None] for place in range(4)]
    expected = {
        "gsm8k": ["1,024"], "drop": ["3", "three, four", "3 May"], "boolq": ["yes"], "strategyqa": ["no"],
        "musique": ["Ann", "Anna"], "squad without an answer": [], "by hand": ["Ann"],
    }  # fmt: skip
    assert parsed["answers"] == expected.get(name, parsed["answers"])
    assert parsed["answerable"] == (name != "squad without an answer")
    assert parsed.get("id") == {"by hand": "3", "boolq": "7"}.get(name, parsed.get("id"))


def test_gold_and_solutions_stay_behind_and_what_a_user_added_stays():
    entry = {"source": {"seed": 3, "list": [1, None]}}
    for name, row in ROWS.items():
        parsed = parse({**row, "hint": "look", "entry": entry})
        assert parsed["hint"] == "look" and parsed["entry"] == entry, name
        assert parse(json.loads(json.dumps(parsed))) == parsed
        own = {"id", "question", "answers", "paragraphs", "support", "kind", "answerable", "steps", "scorer"}
        assert parsed.keys() - own == {"hint", "entry"}, name
    assert "48/2" not in json.dumps(parse(ROWS["gsm8k"]))
    by_hand = parse(
        {"question": "Who?", "answers": ["Ann"], "context": "C", "passage": "P", "label": 1, "facts": ["F"]}
    )
    assert by_hand["context"] == "C" and parse(by_hand) == by_hand and by_hand["scorer"] == "squad_v2"


def test_an_answer_is_of_gsm8k_only_with_its_mark():
    assert parse({"question": "How many?", "answer": "24"})["scorer"] == "squad_v2"
    assert parse({"question": "How many?", "answer": "#### 24"})["scorer"] == "gsm8k"
    assert parse({"question": "How many?", "answer": "#### 24", "scorer": "drop"})["scorer"] == "drop"


@pytest.mark.parametrize("row", [{"prompt": "Who?", "reply": "Ann"}, {"question": "Who?"}, {}, {1: 2, "answer": "x"}])
def test_an_unknown_form_lists_the_known_ones(row):
    with pytest.raises(TaskError, match="no known set") as caught:
        parse(row)
    for form in FORMS:
        assert form.name in str(caught.value) and all(field in str(caught.value) for field in form.fields)
    assert all(field in str(caught.value) for field in ("support", "answerable", "scorer"))
    with pytest.raises(TaskError, match=r"Task '0'.*Known are"):
        TaskSet([row], parse)


BAD = [
    ("hotpotqa", {"answer": None}, "Row 'h' cannot be read as hotpotqa: an answer is a NoneType"),
    ("hotpotqa", {"question": 3}, "question is a int"),
    ("hotpotqa", {"question": " "}, "the question is empty"),
    ("hotpotqa", {"answer": ""}, "a gold answer is empty"),
    ("hotpotqa", {"supporting_facts": [["B", 7], ["A", 1]]}, "names sentence 7 of paragraph 1; it has 1"),
    ("hotpotqa", {"supporting_facts": [["B", "x"]]}, "place is a str; expected an integer"),
    ("hotpotqa", {"supporting_facts": [["B", 0, 1]]}, "supporting_facts holds rows that are no pairs"),
    ("hotpotqa", {"supporting_facts": [["C", 0]]}, "it lacks 'C'"),
    ("hotpotqa", {"supporting_facts": [["C" * 10**6, 0]]}, "it lacks 'CCC"),
    ("hotpotqa", {"supporting_facts": [["B", 1e999]]}, "place is a float"),
    ("hotpotqa", {"context": [["A", "a text"]]}, "'sentences' is a str; expected a list"),
    ("hotpotqa", {"context": [["A", [["nested"]]]]}, "'h' cannot be read"),
    ("hotpotqa", {"context": "[" * 10**5}, "'h' cannot be read"),
    ("hotpotqa", {"context": "no JSON"}, "'h' cannot be read"),
    ("hotpotqa of the hub", {"context": {"title": ["A"], "sentences": []}}, "'h' cannot be read"),
    ("hotpotqa", {"_id": ["x"]}, "the id is a list"),
    ("musique", {"paragraphs": "A"}, "'paragraphs' is a str; expected a list"),
    ("musique", {"paragraphs": [{"title": "A", "paragraph_text": 3, "is_supporting": True}]}, "a sentence is a int"),
    ("musique", {"paragraphs": [{"title": "A", "paragraph_text": "x", "is_supporting": "no"}]}, "true or false"),
    ("musique", {"answer_aliases": [[]]}, "an answer is a list"),
    ("musique", {"id": None}, "the id is a NoneType"),
    ("strategyqa", {"answer": "no"}, "its answer is 'no', a str; expected true or false"),
    ("strategyqa", {"facts": [3]}, "a sentence is a int"),
    ("boolq", {"label": 2}, "its answer is 2"),
    ("boolq of the hub", {"answer": "Ann"}, "expected true or false"),
    ("squad", {"answers": {"text": "Ann"}}, "'text' is a str; expected a list"),
    ("squad", {"answers": {}}, "it lacks 'text'"),
    ("squad", {"answers": None}, "'answers' is a NoneType; expected a list"),
    ("squad", {"context": None}, "a sentence is a NoneType"),
    ("drop", {"answer": "3"}, "Row 'd' cannot be read as drop"),
    ("gsm8k", {"answer": "#### "}, "a gold answer is empty"),
    ("by hand", {"support": [1]}, "Row 3 cannot be read as a row by hand: support names paragraph 1; there are 1"),
    ("by hand", {"support": [[0, 5]]}, "names sentence 5 of paragraph 0"),
    ("by hand", {"support": [[True, 1]]}, "place in support is a bool"),
    ("by hand", {"support": [[0]]}, "a list of 1"),
    ("by hand", {"paragraphs": [{"title": "A"}]}, "it lacks 'text'"),
    ("by hand", {"answerable": "no"}, "expected true or false"),
    ("by hand", {"scorer": "squda_v1"}, "Did you mean 'squad_v1'"),
    ("by hand", {"scorer": None}, "'scorer' is a NoneType"),
    ("by hand", {"entry": 3}, "'entry' is a int; expected a mapping"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "message"), BAD)
def test_bad_values_are_told(name, changes, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        parse({**ROWS[name], **changes})
    assert message in str(caught.value) and len(str(caught.value)) < 700
    with pytest.raises(TaskError, match="Task "):
        TaskSet([{**ROWS[name], **changes}], parse)


def test_long_texts_and_odd_characters_are_texts():
    text = "\x00 <answer>x</answer> \u2028 #" * 40_000
    for name, more in [("by hand", {"paragraphs": [text]}), ("squad", {"context": text}), ("boolq", {"passage": text})]:
        parsed = parse({**ROWS[name], "question": text, **more})
        assert parsed["question"] == text and parsed["paragraphs"][0]["sentences"] == [text]
        assert parse(parsed) == parsed
    with pytest.raises(TypeError, match="the row is a list"):
        parse(["question"])


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("\x00" * 1000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def spoilt_rows(draw):
    """A row of a known form in which values at some places are others, or are gone."""
    row = copy.deepcopy(draw(st.sampled_from(list(ROWS.values()))))
    for _ in range(draw(st.integers(1, 3))):
        place = row
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
                place = place[key]
                continue
            if draw(st.integers(0, 4)):
                place[key] = draw(ODD)
            else:
                del place[key]
            break
    return row


@given(spoilt_rows() | st.dictionaries(st.sampled_from(sorted({key for row in ROWS.values() for key in row})), ODD))
def test_any_row_is_read_or_refused_with_a_reason(row):
    try:
        parsed = parse(row)
    except (TypeError, ValueError) as refused:
        assert str(refused)
    else:
        record = from_row(parsed)
        assert parse(parsed) == parsed or any(value != value for value in row.values())
        assert record.answers or not record.answerable
        json.dumps({name: parsed[name] for name in parsed if name in record.row()})
