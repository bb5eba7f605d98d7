import json
import pickle

import pytest

from comlrl_envs import OptionError, TaskError, TaskSet, UnknownIdError
from comlrl_envs.seeding import rng
from comlrl_envs.tasks import parse_split

ROWS = [{"id": f"r{i}", "prompt": f"p{i}"} for i in range(10)]


def need_prompt(row):
    if row["prompt"] == "bad":
        raise ValueError("'prompt' is bad")
    return {"prompt": row["prompt"].upper()}


class Lazy:
    """As a memory-mapped set: a length, items, and a count of reads."""

    def __init__(self, rows):
        self.rows, self.reads = rows, 0

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        return iter(self.rows)

    def __getitem__(self, index):
        self.reads += 1
        return self.rows[index]


@pytest.mark.parametrize("form", [list, tuple, iter, Lazy])
def test_forms_of_rows(form):
    tasks = TaskSet(form(ROWS))
    assert len(tasks) == 10 and [task.id for task in tasks] == [row["id"] for row in ROWS]
    assert tasks[3] == tasks[-7] == tasks["r3"] and tasks[3].fields["prompt"] == "p3"
    part = tasks[2:8:2]
    assert [task.id for task in part] == ["r2", "r4", "r6"] and part["r4"].fields["prompt"] == "p4"
    with pytest.raises(UnknownIdError):
        part["r3"]
    with pytest.raises(OptionError, match="out of range"):
        tasks[10]
    with pytest.raises(OptionError, match="empty"):
        tasks[5:5]


def test_ids_are_positions_where_rows_have_none_and_slices_keep_them():
    tasks = TaskSet([{"prompt": str(i)} for i in range(5)])
    assert [task.id for task in tasks[3:]] == ["3", "4"]
    lazy = TaskSet(Lazy([{"prompt": str(i)} for i in range(5)]))
    assert [task.id for task in lazy[3:]] == ["3", "4"]


def test_a_long_set_is_read_row_by_row():
    lazy = Lazy([{"prompt": str(i)} for i in range(10_000)])
    tasks = TaskSet(lazy, need_prompt)
    tasks.draw(rng(0))
    assert lazy.reads == 1


def test_a_stream_is_a_window():
    tasks = TaskSet(({"prompt": str(i)} for i in iter(int, 1)), window=50)
    assert len(tasks) == 50


def test_jsonl(tmp_path):
    path = tmp_path / "rows.jsonl"
    # A line separator inside a string is no end of a line.
    rows = [{"id": "a", "prompt": "x\u2028y"}, {"id": "b", "prompt": "é"}]
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n\n", encoding="utf-8")
    assert [dict(task.fields) for task in TaskSet(path)] == [dict(task.fields) for task in TaskSet(str(path))] == rows
    path.write_text('{"prompt": "x"}\nnot json\n')
    with pytest.raises(TaskError, match="line 2"):
        TaskSet(path)
    with pytest.raises(OptionError, match="JSONL"):
        TaskSet(tmp_path / "none.jsonl")


def test_bad_rows_are_named():
    with pytest.raises(TaskError, match=r"'x7' has no field 'prompt'.*Did you mean 'promt'"):
        TaskSet([{"id": "x7", "promt": "p"}], need_prompt)
    with pytest.raises(TaskError, match="'1' cannot be played: 'prompt' is bad"):
        TaskSet([{"prompt": "ok"}, {"prompt": "bad"}], need_prompt)
    with pytest.raises(TaskError, match="mapping"):
        TaskSet(["just text"])
    with pytest.raises(TaskError, match="ids must differ"):
        TaskSet([{"id": "a"}, {"id": "a"}])
    for nothing in ([], 3, {"prompt": "one row"}):
        with pytest.raises(OptionError, match="tasks"):
            TaskSet(nothing)


def test_parsers_add_up():
    def exclaim(row):
        return {"prompt": row["prompt"] + "!"}

    tasks = TaskSet(ROWS, need_prompt).parsed_by(exclaim)
    assert tasks["r2"].fields == {"prompt": "P2!"} and tasks.from_row({"prompt": "x"}).fields == {"prompt": "X!"}


def test_draws_spread_and_sets_pickle():
    tasks = TaskSet(ROWS)
    assert {tasks.draw(rng(i)).id for i in range(100)} == {row["id"] for row in ROWS}
    assert list(pickle.loads(pickle.dumps(tasks[2:4]))) == list(tasks[2:4])
    assert repr(tasks) == "TaskSet(10 tasks)"


def test_splits():
    assert parse_split("train") == ("train", slice(None, None))
    assert parse_split("eval[:100]") == ("eval", slice(None, 100))
    assert parse_split("train[-5:]") == ("train", slice(-5, None))
    for bad in ("test", "train[5]", "train[:10%]", "trian", "", None):
        with pytest.raises(OptionError, match="split="):
            parse_split(bad)


def test_hugging_face_sets():
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_list(ROWS)
    assert [task.id for task in TaskSet(rows)] == [row["id"] for row in ROWS]
    stream = rows.to_iterable_dataset()
    assert len(TaskSet(stream, window=4)) == 4
