"""The one form of rows: what is read of each published form, and errors that name what is wrong."""

import ast

import pytest

from comlrl_envs import TaskError, TaskSet
from comlrl_envs.coding.rows import class_row, function_row

HUMANEVAL = {
    "id": "add",
    "prompt": 'import math\n\n\ndef add(x: int, y: int = 0, *, z=None) -> int:\n    """Add.\n    >>> add(1)\n    """\n',
    "entry_point": "add",
    "test": "def check(candidate):\n    assert candidate(1) == 1\n",
}
MBPP = {
    "task_id": 11,
    "prompt": "Write a function to add the two \\ numbers.",
    "code": "import math\r\ndef half(x):\r\n  return x\r\ndef add(x, y):\r\n  return x + y",
    "test_imports": [],
    "test_list": ["assert add(1, 2) == 3", "assert add(2, 2) == 4"],
}
SKELETON = 'class Till:\n    """A till."""\n    def add(self, x):\n        """Add x."""\n'
UNITTEST = "import unittest\nclass T(unittest.TestCase):\n    def test_add(self):\n        Till().add(1)\n"


def test_the_signature_is_read_from_a_prompt_without_a_body():
    assert function_row(HUMANEVAL)["signature"] == "def add(x: int, y: int=0, *, z=None) -> int:"
    assert function_row({**HUMANEVAL, "prompt": "async def add(x):\n"})["signature"] == "async def add(x):"
    nothing = {"prompt": "def add():\n    # Nothing to add.\n", "test": HUMANEVAL["test"].replace("(1)", "()")}
    assert function_row({**HUMANEVAL, **nothing})["signature"] == "def add():"


def test_a_prompt_of_mbpp_gets_the_signature_of_its_solution():
    row = function_row(MBPP)
    assert row["entry_point"] == "add" and row["signature"] == "def add(x, y):"
    (shown,) = ast.parse(row["prompt"]).body
    assert ast.get_docstring(shown) == MBPP["prompt"] and row["prompt"].startswith("def add(x, y):\n")
    assert row["test_setup_code"] == "" and row["canonical_solution"] == MBPP["code"]
    quoted = function_row({**MBPP, "prompt": "'''\nAdd \"\"\"them\"\"\".\n'''"})["prompt"]
    assert ast.get_docstring(ast.parse(quoted).body[0]) == 'Add """them""".'
    older = {k: v for k, v in MBPP.items() if k != "prompt"}
    assert "Add them." in function_row({**older, "text": "Add them."})["prompt"]
    assert function_row({**MBPP, "prompt": "Write add(x, y)."})["prompt"] == "Write add(x, y)."
    assert function_row({**MBPP, "prompt": "Write add(x) with y."})["prompt"].startswith("def add(x, y):\n")


@pytest.mark.parametrize(
    "words", ['Say "add"', 'Add.\n\nOne per line, "or two"', "C:\\new\\", '"""', "Zahlen\r\naddieren"]
)
def test_any_words_make_a_docstring(words):
    shown = function_row({**MBPP, "prompt": words})["prompt"]
    (node,) = ast.parse(shown).body
    assert ast.get_docstring(node).split() == words.strip("\"'").split()


def test_a_prompt_of_a_known_copy_of_mbpp_gets_its_parameters_back():
    check = "def check(candidate):\n    assert candidate(1, 2) == 3\n"
    converted = {"prompt": 'def add():\n    """Add."""\n', "entry_point": "add", "test": check}
    named = function_row({**converted, "code": MBPP["code"]})
    assert named["prompt"] == 'def add(x, y):\n    """Add."""\n' and named["signature"] == "def add(x, y):"
    counted = function_row(converted)
    assert counted["prompt"].startswith("def add(arg1, arg2):\n") and counted["signature"] == "def add(arg1, arg2):"
    none = function_row({**converted, "test": "def check(candidate):\n    assert candidate() == 3\n"})
    assert none["prompt"] == converted["prompt"]


def test_a_row_of_mbpp_without_a_solution_shows_as_many_parameters_as_its_tests_pass():
    row = {"prompt": "Add.", "entry_point": "add", "test_list": ["assert add(1, 2) == 3"]}
    assert function_row(row)["signature"] == "def add(arg1, arg2):"
    with pytest.raises(ValueError, match="no 'entry_point'"):
        function_row({"prompt": "Add.", "test_list": ["assert add(1, 2) == 3"]})


def test_the_last_function_that_the_tests_call_is_the_entry_point():
    code = "def half(x):\n    return x\ndef add(x, y):\n    return x + y\n"
    row = {"prompt": "Add.", "code": code, "test_list": ["assert add(half(1), 2) == 3"]}
    assert function_row(row)["entry_point"] == "add"


def test_imports_that_only_the_reference_code_makes_are_the_tests_own():
    row = {**MBPP, "test_list": ["assert add(1, 2) == math.floor(3.5)"]}
    assert function_row(row)["test_imports"] == ["import math"]


@pytest.mark.parametrize("row", [HUMANEVAL, MBPP, {**MBPP, "prompt": "Write add(x, y)."}])
def test_a_row_that_was_read_reads_the_same_again(row):
    fields = function_row(row)
    assert function_row(fields) == fields


@pytest.mark.parametrize(
    ("form", "changes", "message"),
    [
        (HUMANEVAL, {"test": "def check(candidate):\n    pass\n"}, "there is no test"),
        (HUMANEVAL, {"test": "def check(candidate:\n"}, "'test' is no Python"),
        (HUMANEVAL, {"test": "assert add(1) == 1\n"}, r"does not define check\(candidate\)"),
        (HUMANEVAL, {"test": " "}, "'test' is ' '"),
        (HUMANEVAL, {"prompt": "Add two numbers."}, "shows no function 'add'"),
        (HUMANEVAL, {"prompt": 3}, "'prompt' is 3, a int"),
        (HUMANEVAL, {"entry_point": None}, "'entry_point' is None"),
        (MBPP, {"test_list": []}, "holds no tests"),
        (MBPP, {"test_list": ["assert add(1, 2"]}, "'test_list' is not Python"),
        (
            MBPP,
            {"test_list": ["assert sub(1, 2) == 3"]},
            r"defines \['half', 'add'\], of which the first test calls none",
        ),
        (MBPP, {"entry_point": "sub"}, r"defines \['half', 'add'\], and not 'sub'"),
        (MBPP, {"code": None}, "no 'entry_point'"),
        (MBPP, {"code": 3}, "holds a int"),
        (MBPP, {"prompt": 3}, "'prompt' is 3, a int"),
    ],
)
def test_a_bad_function_row_is_named(form, changes, message):
    with pytest.raises(TaskError, match=rf"Task '(add|7)' cannot be played: .*{message}"):
        TaskSet([{"id": 7, **form, **changes}], function_row)


@pytest.mark.parametrize("field", ["prompt", "entry_point", "test"])
def test_a_missing_field_is_named(field):
    with pytest.raises(TaskError, match=f"Task 'add' has no field '{field}'"):
        TaskSet([{k: v for k, v in HUMANEVAL.items() if k != field}], function_row)


def test_a_class_row_knows_its_class_and_its_imports():
    row = class_row({"skeleton": SKELETON, "test": UNITTEST, "import_statement": ["import re\nimport os"]})
    assert row["class_name"] == "Till" and row["skeleton"] == f"import re\nimport os\n{SKELETON}"
    assert class_row({"skeleton": SKELETON, "test": UNITTEST})["skeleton"] == SKELETON


def test_a_skeleton_that_is_no_python_is_made_anew():
    row = {
        "skeleton": "class Till:\n    def add(self, x):\n        “”“\n        Add x.\n",
        "class_name": "Till",
        "test": UNITTEST,
        "solution_code": "import re\nclass Till:\n    def __init__(self):\n        self.n = 0\n"
        "    @staticmethod\n    def add(x):\n        return x\n",
        "methods_info": [
            {"method_name": "add", "method_description": "def add(x):\n        “”“\n        Add x.\n        “”“"}
        ],
    }
    (imported, made) = ast.parse(class_row(row)["skeleton"]).body
    first, second = made.body
    assert ast.unparse(imported) == "import re" and "self.n = 0" in ast.unparse(first)
    assert ast.get_docstring(second) == "Add x." and len(second.body) == 1 and second.decorator_list


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": "import unittest\n"}, "no method whose name begins with 'test'"),
        ({"test": "class"}, "'test' is not Python"),
        ({"skeleton": "class Till"}, "'skeleton' is not Python"),
        ({"class_name": "Tall"}, r"classes \['Till'\], not 'Tall'.*Did you mean 'Till'"),
        ({"skeleton": "x = 1\n"}, "defines no class"),
    ],
)
def test_a_bad_class_row_is_named(changes, message):
    with pytest.raises(TaskError, match=f"Task 'till' cannot be played: .*{message}"):
        TaskSet([{"id": "till", "skeleton": SKELETON, "test": UNITTEST, **changes}], class_row)
