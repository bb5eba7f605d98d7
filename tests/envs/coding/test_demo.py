"""The demo sets: their size, that nothing of one split stands in the other, and that every gold answer passes."""

import ast
import json
import os
import re
import subprocess
import sys

import pytest

from comlrl_envs.coding.demo import classes, functions, steps
from comlrl_envs.coding.rows import class_row, function_row

KINDS = ("humaneval", "coop_humaneval", "mbpp", "classeval")
SPLITS = ("train", "eval")


def demo(kind, split):
    return classes.rows(split) if kind == "classeval" else functions.rows(kind, split)


def run_elsewhere(script, given):
    """What a script of a process of its own says about what it was given."""
    ran = subprocess.run(
        [sys.executable, "-I", "-c", script], input=json.dumps(given), capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


FUNCTIONS = """
import ast, json, sys

def blocks(row):
    if "test" not in row:
        return [*row["test_imports"], *row["test_list"]]
    return [ast.unparse(node) for node in ast.parse(row["test"]).body[0].body]

def passed(row, program):
    space = {}
    exec(program, space)
    space["candidate"] = space[row["entry_point"]]
    good = []
    for block in blocks(row):
        try:
            exec(block, space)
            good.append("assert" in block)
        except Exception:
            good.append(False)
    return sum(good)

out = []
for row in json.load(sys.stdin):
    total = sum("assert" in block for block in blocks(row))
    alone = row["canonical_solution"] if "test_list" in row else row["prompt"] + row["canonical_solution"]
    stub = "def aux(*args): return None"
    programs = {"alone": alone, "team": row["aux"] + row["main"], "stubbed": stub + chr(10) + row["main"]}
    out.append([total, {name: passed(row, program) for name, program in programs.items()}])
print(json.dumps(out))
"""


@pytest.mark.parametrize("kind", KINDS[:3])
def test_every_gold_function_passes_and_its_team_needs_the_helper(kind):
    rows = [row for split in SPLITS for row in demo(kind, split)]
    for row, (total, passed) in zip(rows, run_elsewhere(FUNCTIONS, rows), strict=True):
        assert total >= (5 if kind == "mbpp" else 6), row["id"]
        assert passed == {"alone": total, "team": total, "stubbed": 0}, row


CLASSES = """
import io, json, sys, unittest

def run(source, test):
    space = {"__name__": "solution"}
    exec(source, space)
    before = set(space)
    exec(test, space)
    cases = [space[name] for name in space if name not in before and "Test" in name]
    loader = unittest.TestLoader()
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)
    result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    return [result.testsRun, len(result.failures) + len(result.errors)]

print(json.dumps([[run(row["solution_code"], row["test"]), run(row["skeleton"], row["test"])]
                  for row in json.load(sys.stdin)]))
"""


def test_every_gold_class_passes_and_its_skeleton_does_not():
    rows = [row for split in SPLITS for row in demo("classeval", split)]
    for row, ((ran, failed), stubs) in zip(rows, run_elsewhere(CLASSES, rows), strict=True):
        assert ran >= 6 and failed == 0, row["id"]
        assert stubs == [ran, ran], row["id"]


def test_classes_have_three_to_five_methods_to_write():
    for split in SPLITS:
        for row in demo("classeval", split):
            (skeleton,), (solution,) = ast.parse(row["skeleton"]).body, ast.parse(row["solution_code"]).body
            stubs = [m for m in skeleton.body if isinstance(m, ast.FunctionDef) and ast.get_docstring(m)]
            assert 3 <= len(stubs) <= 5 and all(len(stub.body) == 1 for stub in stubs)
            written = [m.name for m in solution.body if isinstance(m, ast.FunctionDef) and m.name != "__init__"]
            assert written == [stub.name for stub in stubs]


# Headers of methods and results of examples say nothing of a problem.
COMMON = re.compile(r"@staticmethod|def \w+\(.*\):|True|False|[\W\d]*")


def told(kind, row):
    """The lines of a problem that say what it is: sentences, and of functions their headers and examples."""
    if kind == "classeval":
        return {line.strip() for line in row["skeleton"].splitlines() if not COMMON.fullmatch(line.strip())}
    return {
        line.strip() for line in row["prompt"].splitlines() if not re.fullmatch("True|False|[\\W\\d]*", line.strip())
    }


@pytest.mark.parametrize("kind", KINDS)
def test_splits_are_large_and_share_no_text(kind):
    rows = {split: demo(kind, split) for split in SPLITS}
    assert (len(rows["train"]), len(rows["eval"])) == (64, 32)
    assert len({row["id"] for split in SPLITS for row in rows[split]}) == 96
    said = {split: [told(kind, row) for row in rows[split]] for split in SPLITS}
    assert all(lines for split in SPLITS for lines in said[split])
    assert set.union(*said["train"]) & set.union(*said["eval"]) == set()
    name = "solution_code" if kind == "classeval" else "main"
    assert not {row[name] for row in rows["train"]} & {row[name] for row in rows["eval"]}


@pytest.mark.parametrize("kind", KINDS)
def test_demo_rows_are_accepted_as_they_are(kind):
    for split in SPLITS:
        for row in demo(kind, split):
            parsed = class_row(row) if kind == "classeval" else function_row(row)
            assert all(parsed[name] == value for name, value in row.items())
            if kind != "classeval":
                assert re.fullmatch(rf"def {row['entry_point']}\(\w+\):", parsed["signature"])


def test_what_is_handed_out_is_the_caller_s():
    functions.rows("mbpp", "train")[0]["test_list"].clear()
    classes.rows("eval")[0].clear()
    assert functions.rows("mbpp", "train")[0]["test_list"] and classes.rows("eval")[0]


def test_tests_of_functions_have_loops_and_values_set_up_here_and_there():
    tests = [row["test"] for kind in KINDS[:2] for row in demo(kind, "train")]
    assert all(text.count("assert ") >= 6 for text in tests)
    assert all(20 <= sum(sign in text for text in tests) <= 80 for sign in ("for given, expected in", "given = "))
    lists = [row for split in SPLITS for row in demo("mbpp", split)]
    assert {tuple(row["test_imports"]) for row in lists} == {(), ("import math",)}


def test_most_sentences_are_of_the_easy_families_and_hard_ones_show_an_example():
    prompts = [row["prompt"] for row in demo("humaneval", "train")]
    assert sum(">>>" in prompt for prompt in prompts) == 16
    assert sum(" and " not in prompt for prompt in prompts) == 32
    assert all(" and " in row["prompt"] for row in demo("coop_humaneval", "train"))


def test_a_step_that_cannot_tell_its_values_apart_is_refused():
    program = functions.Program("gives one", "x", steps.NUMBER, steps.NUMBER, "x", "1", ("return 1",), False)
    with pytest.raises(ValueError, match="same result for all values"):
        functions._cases(program, functions.rng("test"))


DIGEST = """
import hashlib, json
from comlrl_envs.coding.demo import classes, functions
rows = [functions.rows(k, s) for k in functions.MIX for s in ("eval", "train")]
rows += [classes.rows(s) for s in ("train", "eval")]
print(hashlib.sha256(json.dumps(rows).encode()).hexdigest())
"""


def test_the_sets_are_the_same_in_every_process():
    digests = set()
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, ran.stderr
        digests.add(ran.stdout)
    assert len(digests) == 1
