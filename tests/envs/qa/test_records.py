"""Records of every set, out of their own files and out of rows by hand."""

import json

import pytest

from comlrl_envs import TaskError
from comlrl_envs.qa.forms import FORMS, form_of, read_file, record
from comlrl_envs.qa.records import QARecord, from_row
from comlrl_envs.qa.scorers import SCORERS

FILES = {
    "hotpotqa/hipporag_hotpotqa_train_100.json": (100, "hotpotqa"),
    "musique/hipporag_musique_train_100.json": (100, "musique"),
    "2wikimultihopqa/lag_2wiki_dev_354_support_in_corpus.json": (354, "twowiki"),
    "squad/dev-v1.1.part_a_24articles.json": (4961, "squad_v1"),
    "gsm8k/test.jsonl": (1319, "gsm8k"),
    "strategyqa/dev.json": (229, "yesno"),
    "boolq/allennlp_fixture_boolq.jsonl": (5, "yesno"),
    "drop/allennlp_fixture_drop.json": (19, "drop"),
}
CORPUS = "2wikimultihopqa/2wikimultihopqa_corpus.json"
HUB = {
    "hotpotqa": {
        "id": "h", "question": "Who?", "answer": "Ann", "type": "bridge", "level": "easy",
        "supporting_facts": {"title": ["B", "A"], "sent_id": [0, 1]},
        "context": {"title": ["A", "B"], "sentences": [["One.", " Two."], ["Three."]]},
    },
    "squad": {
        "id": "s", "title": "A_b", "context": "Ann is here.", "question": "Who?",
        "answers": {"text": ["Ann", "Ann"], "answer_start": [0, 0]},
    },
    "boolq": {"question": "is it", "passage": "It is.", "answer": True},
}  # fmt: skip


@pytest.mark.parametrize("file", FILES)
@pytest.mark.needs_data(CORPUS)
def test_gold_as_prediction_is_right_on_every_record(data_dir, file):
    if not (data_dir / file).exists():
        pytest.skip(f"{file} is not there")
    count, scorer = FILES[file]
    records = list(read_file(data_dir / file, data_dir / CORPUS))
    assert len(records) == count
    # The fixture of BoolQ repeats a number.
    assert len({each.id for each in records}) == count - file.startswith("boolq")
    for each in records:
        assert SCORERS[scorer](each.answers[0], each.answers).em == 1, each.id
        assert from_row(json.loads(json.dumps(each.row()))) == each


@pytest.mark.needs_data(CORPUS)
def test_every_multihop_record_has_two_supporting_paragraphs_at_least(data_dir):
    for file in list(FILES)[:3]:
        for each in read_file(data_dir / file, data_dir / CORPUS):
            assert 2 <= len(each.supporting) <= 4
            assert all(each.paragraphs[place].text for place in each.supporting)


@pytest.mark.parametrize("name", HUB)
def test_rows_of_the_hub(name):
    row = HUB[name]
    assert form_of(row).name == name
    read = record(row)
    assert read.question == row["question"] and read.paragraphs
    if name == "hotpotqa":
        assert read.support == ((1, 0), (0, 1)) and read.paragraphs[0].text == "One. Two."
    if name == "squad":
        assert read.answers == ("Ann",) and read.paragraphs[0].title == "A b"


def test_an_unknown_form_lists_the_known_ones():
    with pytest.raises(TaskError, match="no known set") as caught:
        record({"prompt": "Who?", "reply": "Ann"})
    assert all(form.name in str(caught.value) for form in FORMS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"supporting_facts": {"title": ["C"], "sent_id": [0]}}, "'h' cannot be read as hotpotqa: it lacks 'C'"),
        ({"supporting_facts": {"title": ["A"], "sent_id": [5]}}, "sentence 5 of paragraph 0; it has 2"),
        ({"question": " "}, "the question is empty"),
        ({"context": 3}, "'h' cannot be read"),
    ],
)
def test_a_bad_row_is_named(changes, message):
    with pytest.raises(TaskError, match=message):
        record({**HUB["hotpotqa"], **changes})


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"question": "Who?"}, KeyError),
        ({"question": 3, "answer": "x"}, TypeError),
        ({"question": "Who?", "answers": "Ann"}, TypeError),
        ({"question": "Who?", "answers": []}, ValueError),
        ({"question": "Who?", "answer": "Ann", "paragraphs": [3]}, TypeError),
        ({"question": "Who?", "answer": "Ann", "paragraphs": ["a"], "support": [1]}, ValueError),
        ({"question": "Who?", "answer": "Ann", "paragraphs": ["a"], "support": [[0, 1]]}, ValueError),
        ({"question": "Who?", "answer": "Ann", "paragraphs": ["a"], "support": [[True, 0]]}, TypeError),
        ({"question": "Who?", "answer": "Ann", "answerable": "yes"}, TypeError),
    ],
)
def test_rows_by_hand_are_checked(row, error):
    with pytest.raises(error):
        from_row(row)


def test_rows_by_hand_may_be_short():
    read = from_row({"question": "Who?", "answer": "Ann", "paragraphs": ["Ann is here."], "support": [0]})
    assert read == QARecord("", "Who?", ("Ann",), read.paragraphs, ((0, None),))
    assert read.paragraphs[0].text == "Ann is here." and read.supporting == (0,)
    assert from_row({"question": "Who?", "answers": [], "answerable": False}).answers == ()
