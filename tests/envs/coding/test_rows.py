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
    assert function_row({**HUMANEVAL, "prompt": "def add():\n    # Nothing to add.\n"})["signature"] == "def add():"


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


@pytest.mark.parametrize(
    ("form", "changes", "message"),
    [
        (HUMANEVAL, {"test": "def check(candidate):\n    pass\n"}, "asserts nothing"),
        (HUMANEVAL, {"test": "def check(candidate:\n"}, "'test' is not Python"),
        (HUMANEVAL, {"test": "assert add(1) == 1\n"}, r"does not define check\(candidate\)"),
        (HUMANEVAL, {"test": " "}, "'test' is ' '"),
        (HUMANEVAL, {"prompt": "Add two numbers."}, "shows no function 'add'"),
        (HUMANEVAL, {"prompt": 3}, "'prompt' is 3, a int"),
        (HUMANEVAL, {"entry_point": None}, "'entry_point' is None"),
        (MBPP, {"test_list": []}, "holds no tests"),
        (MBPP, {"test_list": ["assert add(1, 2"]}, "'test_list' is not Python"),
        (MBPP, {"test_list": ["assert sub(1, 2) == 3"]}, r"defines \['add', 'half'\]"),
        (MBPP, {"code": None}, "holds a NoneType"),
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
        ({"skeleton": "x = 1\n"}, "not None"),
    ],
)
def test_a_bad_class_row_is_named(changes, message):
    with pytest.raises(TaskError, match=f"Task 'till' cannot be played: .*{message}"):
        TaskSet([{"id": "till", "skeleton": SKELETON, "test": UNITTEST, **changes}], class_row)
