import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
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
    assert lazy.reads <= 2


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


def counting(count):
    """A function that begins anew at each call."""
    return lambda: ({"prompt": f"p{i}"} for i in range(count))


@pytest.mark.parametrize("form", ["function", "set", "file"])
def test_a_stream_goes_on_beyond_its_window_and_begins_anew(form, tmp_path):
    datasets = pytest.importorskip("datasets")
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in counting(30)()), encoding="utf-8")
    rows = {"function": counting(30), "set": datasets.IterableDataset.from_generator(counting(30)), "file": path}[form]
    tasks = TaskSet(rows, need_prompt, window=10)
    assert len(tasks) == 10 and [task.id for task in tasks] == [str(i) for i in range(10)]
    for _ in range(2):
        found = list(tasks.stream())
        assert [task.id for task in found] == [str(i) for i in range(30)] and found[29].fields == {"prompt": "P29"}
    assert len(list(tasks.parsed_by(need_prompt).stream())) == 30
    assert [task.id for task in tasks[2:4].stream()] == ["2", "3"]
    with pytest.raises(OptionError, match="window="):
        tasks[15:20]
    assert {int(tasks.draw(rng(i)).id) for i in range(200)} == set(range(10))


def test_an_iterator_is_gone_through_once():
    tasks = TaskSet(counting(30)(), window=10)
    assert [task.id for task in tasks.stream()] == [str(i) for i in range(30)] and len(tasks) == 10
    with pytest.raises(OptionError, match=r"gone through.*function that returns"):
        tasks.stream()


def test_a_pickled_stream_carries_its_window():
    for rows in (counting(30), counting(30)()):
        there = pickle.loads(pickle.dumps(TaskSet(rows, window=10)))
        assert len(there) == 10 and there["9"].fields["prompt"] == "p9"
        with pytest.raises(OptionError, match="from another process"):
            there.stream()


def test_sets_without_a_stream_are_their_own_stream():
    for rows in (ROWS, Lazy(ROWS)):
        assert list(TaskSet(rows)[3:].stream()) == list(TaskSet(rows)[3:])


def test_a_function_must_return_rows():
    for wrong in (lambda: 3, lambda: "text", lambda: {"prompt": "x"}):
        with pytest.raises(OptionError, match=r"returned a .*iterator of rows"):
            TaskSet(wrong)
    with pytest.raises(OptionError, match="window="):
        TaskSet(ROWS, window=0)
    with pytest.raises(OptionError, match="no rows"):
        TaskSet(lambda: iter(()))


def test_equal_ids_are_refused_in_every_form():
    datasets = pytest.importorskip("datasets")
    twice = [*ROWS, {"id": "r3", "prompt": "again"}]
    table = datasets.Dataset.from_list(twice)
    forms = [twice, tuple(twice), Lazy(twice), table, table.to_iterable_dataset(), lambda: iter(twice)]
    for rows in forms:
        with pytest.raises(TaskError, match=r"'r3' stands at 3 and at 10; ids must differ"):
            TaskSet(rows)
    with pytest.raises(TaskError, match="'1' stands at 0 and at 1"):
        TaskSet([{"id": 1}, {"prompt": "the position is an id too"}])
    assert len(TaskSet(table.select(range(10)))) == 10


def test_only_ids_of_a_long_set_are_looked_at():
    datasets = pytest.importorskip("datasets")
    parsed = []
    table = datasets.Dataset.from_list([{"id": i, "prompt": str(i)} for i in range(5000)])
    tasks = TaskSet(table, lambda row: parsed.append(row["id"]) or row)
    assert tasks[4321].id == "4321" and parsed == [4321]


def test_ids_are_texts_or_integers():
    rows = [{"id": 10**40}, {"id": -7}, {"id": None}, {"id": "x\ud800"}, {"id": "10"}, {"id": np.int64(3)}]
    assert [task.id for task in TaskSet(rows)] == [str(10**40), "-7", "2", "x\ud800", "10", "3"]
    assert TaskSet(rows)["10"].id == "10"
    for bad in ("", 1.0, float("nan"), True, b"b", ["a"]):
        with pytest.raises(TaskError, match=r"Task 0: the id is .*str\(\)"):
            TaskSet([{"id": bad}])


def test_a_place_beyond_the_set_is_named_however_far():
    with pytest.raises(OptionError, match="out of range"):
        TaskSet(ROWS)[10**30]


def test_sets_say_where_they_come_from():
    tasks = TaskSet(ROWS, origin="somewhere")
    assert tasks[2:].origin == tasks.parsed_by(need_prompt).origin == pickle.loads(pickle.dumps(tasks)).origin
    assert tasks.origin == "somewhere" and TaskSet(ROWS).origin == "given rows"


def test_columns_are_no_rows():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS)
    with pytest.raises(OptionError, match="to_dict"):
        TaskSet(frame)
    assert len(TaskSet(frame.to_dict("records"))) == 10


GROWTH = """
import itertools, json, resource, sys
from comlrl_envs import TaskSet

def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

if sys.argv[1] == "function":
    rows = lambda: ({"prompt": "word " * 20} for _ in itertools.repeat(None, 10_000_000))
    tasks = TaskSet(rows)
else:
    tasks = TaskSet(sys.argv[1], window=100)
before, count = rss(), 0
for task in tasks.stream():
    count += 1
print(json.dumps([count, len(tasks), rss() - before, task.id]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("form, count", [("function", 10_000_000), ("file", 200_000)])
def test_a_long_stream_is_gone_through_with_flat_memory(tmp_path, form, count):
    path = tmp_path / "rows.jsonl"
    if form == "file":
        with path.open("w") as file:
            file.writelines(json.dumps({"prompt": "word " * 100}) + "\n" for _ in range(count))
    if not Path("/proc/self/statm").exists():
        pytest.skip("the size of a process is read from /proc")
    given = form if form == "function" else str(path)
    ran = subprocess.run([sys.executable, "-c", GROWTH, given], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    found, window, growth, last = json.loads(ran.stdout)
    assert found == count and last == str(count - 1) and window == (1000 if form == "function" else 100)
    assert growth < 50e6


def test_a_row_that_is_no_mapping_is_refused_without_a_field_it_need_not_have():
    with pytest.raises(TaskError, match="Task 0: the row is a str, expected a mapping of its fields") as refused:
        TaskSet(["a text"], need_prompt)
    assert "prompt" not in str(refused.value)
