"""The real sets of the family: files of a folder, the hub, the cache, and what of them is played."""

import json
import logging

import pytest

from comlrl_envs import OptionError, TaskError, TaskSet
from comlrl_envs.cli import main
from comlrl_envs.qa.forms import file_rows
from comlrl_envs.qa.records import from_row
from comlrl_envs.qa.rows import parse
from comlrl_envs.qa.scorers import SCORERS
from comlrl_envs.qa.sets import SCORER, playable, qa_loader, with_articles
from comlrl_envs.sources import REAL_SETS, DataFile, RealSet, cache, loader
from comlrl_envs.sources.qa_sets import DATASETS, QA_SETS

from ..hub import environ, parquet, running
from ..test_fetch import fetch

CORPUS = "2wikimultihopqa/2wikimultihopqa_corpus.json"
DEMO = [{"id": "d", "question": "Who?", "answer": "Ann"}]
COUNTS = {
    ("qa/split_context", "hotpotqa"): (70, 30),
    ("qa/split_context", "musique"): (70, 30),
    ("qa/split_context", "2wikimultihopqa"): (247, 107),
    ("qa/split_context", "strategyqa"): (160, 69),
    ("qa/debate", "gsm8k"): (1000, 1319),
    ("qa/debate", "strategyqa"): (160, 69),
    ("qa/debate", "boolq"): (3, 2),
    ("qa/retrieve_answer", "hotpotqa"): (70, 30),
    ("qa/retrieve_answer", "musique"): (70, 30),
    ("qa/retrieve_answer", "2wikimultihopqa"): (247, 107),
    ("qa/workers_manager", "squad"): (3659, 1302),
    ("qa/workers_manager", "musique"): (70, 30),
}


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch, request):
    """A cache of the test's own, and no data folder of the machine's but where a test asks for it."""
    if "data_dir" in request.fixturenames:
        request.getfixturevalue("data_dir")
    monkeypatch.setenv("COMLRL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("COMLRL_DATA_DIR", raising=False)


def load(id, dataset, split, data_dir, source="local"):
    tasks = qa_loader(id, dataset, lambda split: DEMO)(split, source, str(data_dir) if data_dir else None)
    return tasks.parsed_by(parse)


def write(folder, path, text):
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text, encoding="utf-8")


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_the_table_names_every_set_of_an_id():
    assert [next(iter(names)) for names in DATASETS.values()] == ["hotpotqa", "gsm8k", "hotpotqa", "squad"]
    assert all(REAL_SETS[name] is real for name, real in QA_SETS.items())
    assert set(QA_SETS) == {name for names in DATASETS.values() for name in names.values()}
    for id, names in DATASETS.items():
        assert [name == id for name in names.values()] == [True] + [False] * (len(names) - 1)
        assert names.keys() <= SCORER.keys()
    assert set(SCORER.values()) <= SCORERS.keys()
    assert all(real.revision is None and "No commit" in real.remark for real in QA_SETS.values())


@pytest.mark.needs_data(
    CORPUS,
    "hotpotqa/hipporag_hotpotqa_train_100.json",
    "musique/hipporag_musique_train_100.json",
    "2wikimultihopqa/lag_2wiki_dev_354_support_in_corpus.json",
    "squad/dev-v1.1.part_a_24articles.json",
    "gsm8k/test.jsonl",
    "gsm8k/train_first1000.jsonl",
    "strategyqa/dev.json",
    "boolq/allennlp_fixture_boolq.jsonl",
)
@pytest.mark.parametrize(("id", "dataset"), COUNTS)
def test_every_set_of_the_data_folder(data_dir, id, dataset):
    train, held_out = (load(id, dataset, split, data_dir) for split in ("train", "eval"))
    assert (len(train), len(held_out)) == COUNTS[id, dataset]
    assert all(tasks.origin.startswith("local") for tasks in (train, held_out))
    assert train.origin.endswith("(stand-in)") == (dataset != "gsm8k")
    questions = [{(task.id, task.fields["question"]) for task in tasks} for tasks in (train, held_out)]
    assert not questions[0] & questions[1]
    for place, task in enumerate((*train, *held_out)):
        row = task.fields
        assert row["id"] == task.id and row["scorer"] == SCORER[dataset]
        score = SCORERS[row["scorer"]](row["answers"][0], row["answers"])
        assert score.em == 1 and (place % 10 or parse(row) == row)
        if id == "qa/split_context":
            assert len(from_row(row).supporting) >= 2
        if dataset in ("strategyqa", "boolq"):
            assert row["answers"] in (["yes"], ["no"])
    if dataset == "gsm8k":
        assert not any(mark in json.dumps(task.fields) for task in train for mark in ("<<", "####"))


@pytest.mark.needs_data("squad/dev-v1.1.part_a_24articles.json")
def test_a_question_of_squad_comes_with_its_article(data_dir):
    articles = json.loads((data_dir / "squad/dev-v1.1.part_a_24articles.json").read_text("utf-8"))["data"]
    train, held_out = (load("qa/workers_manager", "squad", split, data_dir) for split in ("train", "eval"))
    titles = [
        list(dict.fromkeys(task.fields["paragraphs"][0]["title"] for task in tasks)) for tasks in (train, held_out)
    ]
    assert titles[0] + titles[1] == [article["title"].replace("_", " ") for article in articles]
    assert [len(each) for each in titles] == [16, 8]
    texts = {
        article["title"].replace("_", " "): [each["context"] for each in article["paragraphs"] if each["qas"]]
        for article in articles
    }
    for task in (*train, *held_out):
        record = from_row(task.fields)
        assert [each.sentences[0] for each in record.paragraphs] == texts[record.paragraphs[0].title]
        (place,) = record.supporting
        assert any(answer in record.paragraphs[place].text for answer in record.answers)
    first, second = train[0].fields, train[1].fields
    assert first["paragraphs"][5]["sentences"][0] is second["paragraphs"][5]["sentences"][0]


@pytest.mark.needs_data("drop/allennlp_fixture_drop.json")
def test_a_tree_of_passages_is_read_as_a_set_too(data_dir):
    published = {"train": "train[:]", "eval": "train[:]"}
    file = DataFile("drop/allennlp_fixture_drop.json", read=file_rows, percent=(0, 70), group="passage")
    rest = DataFile(file.path, read=file_rows, percent=(70, 100), group="passage")
    real = RealSet("a/b", None, "MIT", "small", published, {"train": (file,), "eval": (rest,)})
    parts = [loader("toy/drop", lambda split: DEMO, real)(split, "local", str(data_dir)) for split in published]
    passages = [{task.fields["passage"] for task in part} for part in parts]
    assert sum(map(len, parts)) == 19 and [len(each) for each in passages] == [2, 1] and not passages[0] & passages[1]
    assert all(parse(task.fields)["scorer"] == "drop" for part in parts for task in part)


SQUAD_2 = {
    "version": "v2.0",
    "data": [
        {
            "title": f"Article_{a}",
            "paragraphs": [
                {
                    "context": f"Text {p} of {a}.",
                    "qas": [
                        {"id": f"{a}{p}y", "question": "Which?", "answers": [{"text": f"{p}"}], "is_impossible": False},
                        {"id": f"{a}{p}n", "question": "Why?", "answers": [], "is_impossible": True,
                         "plausible_answers": [{"text": "Text"}]},
                    ],
                }
                for p in range(3)
            ],
        }
        for a in range(2)
    ],
}  # fmt: skip


def test_questions_without_an_answer(tmp_path):
    write(tmp_path, "squad/train-v2.0.json", json.dumps(SQUAD_2))
    tasks = load("qa/workers_manager", "squad_v2", "train", tmp_path)
    assert len(tasks) == 12 and not tasks.origin.endswith("(stand-in)")
    yes, no = tasks["12y"].fields, tasks["12n"].fields
    assert (yes["answers"], yes["answerable"], yes["support"]) == (["2"], True, [[2, None]])
    assert (no["answers"], no["answerable"], no["support"]) == ([], False, [])
    assert [each["sentences"] for each in no["paragraphs"]] == [[f"Text {p} of 1."] for p in range(3)]
    assert no["paragraphs"][0]["title"] == "Article 1" and no["scorer"] == "squad_v2"
    assert "plausible" not in json.dumps(no)


def test_articles_are_put_together_by_title_wherever_their_rows_stand():
    rows = [
        parse({"id": f"{n}", "title": title, "context": text, "question": "Who?", "answers": {"text": ["A"]}})
        for n, (title, text) in enumerate([("T", "a"), ("U", "b"), ("T", "c"), ("T", "a"), ("", "d"), ("", "e")])
    ]
    rows.append(parse({"id": "6", "question": "Who?", "answer": "A", "paragraphs": ["x", "y"], "support": [1]}))
    joined = with_articles(rows)
    assert [[each["sentences"][0] for each in row["paragraphs"]] for row in joined] == [
        ["a", "c"], ["b"], ["a", "c"], ["a", "c"], ["d"], ["e"], ["x", "y"]
    ]  # fmt: skip
    assert [row["support"][0][0] for row in joined] == [0, 0, 1, 0, 0, 0, 1]
    assert joined[0]["paragraphs"] is joined[2]["paragraphs"] and len(rows[0]["paragraphs"]) == 1


def hotpot(name, sentences=1, facts=(("A", 0), ("B", 0))):
    return {
        "_id": name, "question": f"Who is {name}?", "answer": "Ann", "type": "bridge", "level": "easy",
        "context": [[title, ["One."] * sentences] for title in "ABC"], "supporting_facts": [list(f) for f in facts],
    }  # fmt: skip


def test_what_cannot_be_played_is_left_out_and_told(tmp_path, caplog):
    rows = [hotpot("a"), hotpot("b", facts=(("A", 0), ("A", 0))), hotpot("c", facts=(("A", 3),)), 7, hotpot("d")]
    write(tmp_path, "hotpotqa/hotpot_train_v1.1.json", json.dumps(rows))
    with caplog.at_level(logging.INFO, "comlrl_envs"):
        tasks = load("qa/split_context", "hotpotqa", "train", tmp_path)
    assert [task.id for task in tasks] == ["a", "d"]
    assert "1 rows are left out, which fewer than two paragraphs support" in caplog.text
    (warning,) = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.WARNING]
    assert "2 of 5 rows are left out" in warning and "Row 'c'" in warning and "sentence 3 of paragraph 0" in warning
    assert [task.id for task in load("qa/retrieve_answer", "hotpotqa", "train", tmp_path)] == ["a", "b", "d"]
    write(tmp_path, "hotpotqa/hotpot_train_v1.1.json", json.dumps([{"prompt": "x"}] * 3))
    with pytest.raises(TaskError, match=r"None of the 3 rows of hotpotqa can be read; the first: .*Known are"):
        load("qa/split_context", "hotpotqa", "train", tmp_path)
    write(tmp_path, "hotpotqa/hotpot_train_v1.1.json", json.dumps(rows[1:2]))
    with pytest.raises(TaskError, match="can play no row of hotpotqa"):
        load("qa/split_context", "hotpotqa", "train", tmp_path)


def test_twins_of_one_id_are_told_apart(tmp_path):
    twin = {
        "id": "2hop__1_2", "question": "Who?", "answer": "Ann", "answer_aliases": [], "answerable": True,
        "question_decomposition": [], "paragraphs": [
            {"idx": n, "title": "A", "paragraph_text": f"{n}", "is_supporting": True} for n in range(2)
        ],
    }  # fmt: skip
    write(tmp_path, "musique/musique_full_v1.0_dev.jsonl", lines([twin, {**twin, "answerable": False}, twin]))
    tasks = load("qa/split_context", "musique", "eval", tmp_path)
    assert [task.id for task in tasks] == ["2hop__1_2", "2hop__1_2#2", "2hop__1_2#3"]
    assert [task.fields["answerable"] for task in tasks] == [True, False, True]
    names = [row["id"] for row in playable("qa/debate", "boolq", [{"question": "q", "answer": "A", "id": None}] * 2)]
    assert names == ["0", "1"]


OFFICIAL = {
    ("hotpotqa", "train"): ("hotpotqa/hotpot_train_v1.1.json", [hotpot("t")]),
    ("hotpotqa", "eval"): ("hotpotqa/hotpot_dev_distractor_v1.json", [hotpot("e")]),
    ("2wikimultihopqa", "train"): ("2wikimultihopqa/train.json", [{**hotpot("t"), "evidences": []}]),
    ("2wikimultihopqa", "eval"): ("2wikimultihopqa/dev.json", [{**hotpot("e"), "evidences": []}]),
}


@pytest.mark.parametrize(("dataset", "split"), OFFICIAL)
def test_official_files_come_before_stand_ins(tmp_path, dataset, split):
    path, rows = OFFICIAL[dataset, split]
    write(tmp_path, path, json.dumps(rows))
    write(tmp_path, "hotpotqa/hipporag_hotpotqa_train_100.json", json.dumps([hotpot(f"{n}") for n in range(10)]))
    tasks = load("qa/split_context", dataset, split, tmp_path)
    assert [task.id for task in tasks] == [split[0]] and tasks.origin == f"local {tmp_path / path}"
    assert tasks[0].fields["scorer"] == SCORER[dataset]


@pytest.mark.parametrize("rows", [10, 229])
def test_one_file_of_strategyqa_serves_both_splits(tmp_path, rows):
    facts = [{"qid": f"{n}", "question": "Is it?", "answer": True, "facts": ["a", "b"]} for n in range(rows)]
    for path, share in (("strategyqa/dev.json", 0.7), ("strategyqa/strategyqa_train.json", 0.9)):
        write(tmp_path, path, json.dumps(facts))
        train, held_out = (load("qa/debate", "strategyqa", split, tmp_path) for split in ("train", "eval"))
        assert [task.id for task in (*train, *held_out)] == [f"{n}" for n in range(rows)]
        assert len(train) == int(rows * share)


@pytest.mark.parametrize("text", ["3", '{"data": [3]}', '{"data": [{"title": "T"}]}', "[" * 10**5, "{", '{"a": 1}'])
def test_broken_files_are_named(tmp_path, text):
    write(tmp_path, "squad/train-v1.1.json", text)
    with pytest.raises(TaskError, match=r"train-v1\.1\.json|None of the 1 rows of squad"):
        load("qa/workers_manager", "squad", "train", tmp_path)


def test_a_corpus_that_is_not_there_is_named(tmp_path):
    row = {**hotpot("w"), "evidences": []}
    del row["context"]
    write(tmp_path, "2wikimultihopqa/lag_2wiki_dev_354_support_in_corpus.json", json.dumps([row] * 2))
    with pytest.raises(TaskError, match=r"lag_2wiki.*2wikimultihopqa_corpus\.json"):
        load("qa/split_context", "2wikimultihopqa", "train", tmp_path)
    write(tmp_path, CORPUS, json.dumps([{"title": title, "text": f"On {title}."} for title in "AB"]))
    (task,) = load("qa/split_context", "2wikimultihopqa", "train", tmp_path)
    assert [each["sentences"] for each in task.fields["paragraphs"]] == [["On A."], ["On B."]]
    assert task.fields["support"] == [[0, None], [1, None]] and task.fields["scorer"] == "twowiki"


def test_unknown_sets_and_the_demo_set(capsys):
    with pytest.raises(OptionError, match=r"dataset='hotpot'.*'musique'.*Did you mean 'hotpotqa'"):
        qa_loader("qa/split_context", "hotpot", lambda split: DEMO)
    tasks = load("qa/split_context", "musique", "train", None, "demo")
    assert tasks.origin == "demo set" and tasks["d"].fields["answers"] == ["Ann"]
    with pytest.raises(OptionError, match="comlrl-envs fetch qa/split_context:musique"):
        load("qa/split_context", "musique", "train", None, "cache")
    for words, message in [
        ("qa/split_context:msuique", "qa/split_context has no set 'msuique'; it has hotpotqa, musique, 2wiki"),
        ("qa/split_context:msuique", "Did you mean 'musique'"),
        ("writing/tldr:musique", "writing/tldr has no set 'musique'; leave out ':musique'"),
        ("qa/split_contxet:musique", "No environment 'qa/split_contxet'"),
    ]:
        assert main(["fetch", words, "--yes=true"]) == 1
        assert message in capsys.readouterr().err


def test_what_was_fetched_is_played(tmp_path):
    name = DATASETS["qa/debate"]["boolq"]
    rows = [{"question": f"is it {n}", "answer": n % 2 == 0, "passage": f"It is {n}."} for n in range(4)]
    cache.write(name, QA_SETS[name], "c" * 40, {"train": rows})
    tasks = load("qa/debate", "boolq", "train", None, "auto")
    assert tasks.origin == f"cache google/boolq@{'c' * 40}" and [task.id for task in tasks] == ["0", "1", "2", "3"]
    assert [task.fields["answers"] for task in tasks] == [["yes"], ["no"]] * 2
    assert main(["fetch", "qa/debate:boolq", "--split", "train"]) == 0
    assert TaskSet([dict(task.fields) for task in tasks], parse)["2"].fields == tasks["2"].fields


@pytest.mark.slow
def test_a_further_set_is_fetched_by_its_name(tmp_path):
    pytest.importorskip("datasets")
    rows = [{**hotpot(f"{n}"), "id": f"{n}"} for n in range(3)]
    for row in rows:
        del row["_id"]
        row["evidences"] = [["A", "is", "B"]]
        row["context"] = {"title": ["A", "B"], "sentences": [["One."], ["Two."]]}
        row["supporting_facts"] = {"title": ["A", "B"], "sent_id": [0, 0]}
    files = {f"data/{split}-00000-of-00001.parquet": parquet(rows) for split in ("train", "validation")}
    with running({"framolfese/2WikiMultihopQA": ("a" * 40, files)}) as hub:
        ran = fetch(environ(hub.url, tmp_path), tmp_path, "qa/split_context:2wikimultihopqa", "--yes=true")
    assert ran.returncode == 0, ran.stderr
    assert "Apache-2.0" in ran.stdout and "train: 3 rows of framolfese/2WikiMultihopQA" in ran.stdout
    tasks = load("qa/split_context", "2wikimultihopqa", "eval", None, "cache")
    assert len(tasks) == 3 and tasks["1"].fields["support"] == [[0, 0], [1, 0]]
    assert tasks["1"].fields["scorer"] == "twowiki"
