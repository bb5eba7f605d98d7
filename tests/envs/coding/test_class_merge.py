import ast
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs.coding.class_merge import Written, merge, read_reply
from comlrl_envs.coding.class_skeleton import (
    agents_by_test,
    methods_by_test,
    partition,
    read_skeleton,
)
from comlrl_envs.coding.rows import class_row
from comlrl_envs.coding.syntax import FUNCTIONS, moved

SKELETON = '''
import json
LIMIT = 3

class Other:
    pass

@json.register if False else (lambda c: c)
class Box(dict, metaclass=type):
    """A box."""
    kind = "box"

    def __init__(self):
        self.items_ = []

    def add(self, item):
        """Add an item."""

    @staticmethod
    def count(items):
        """Count."""
        pass

    async def later(self):
        raise NotImplementedError("soon")

    @property
    def size(self):
        ...

    @size.setter
    def size(self, value):
        raise NotImplementedError

    def ready(self):
        """Done already."""
        return True
'''
BOX = read_skeleton(SKELETON.replace("@json.register if False else (lambda c: c)\n", ""))
TARGETS = ("add", "count", "later", "size", "size.setter")


def run(source):
    scope = {}
    exec(source, scope)
    return scope


def test_targets_of_a_skeleton():
    assert BOX.class_name == "Box" and BOX.targets == TARGETS
    assert read_skeleton(SKELETON, "Box").targets == TARGETS
    constructor = "class A:\n    def __init__(self):\n        pass\n    def f(self): pass\n"
    assert read_skeleton(constructor).targets == ("f",)
    assert read_skeleton('class A:\n    def __init__(self):\n        """Set x."""\n').targets == ("__init__",)


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [("class A:", None, "no Python"), ("x = 1", None, "classes \\[\\]"), (SKELETON, "Bag", "'Other', 'Box'"),
     (SKELETON, "Other", "no method to write")],
)  # fmt: skip
def test_bad_skeletons_are_told(source, name, message):
    with pytest.raises(ValueError, match=message):
        read_skeleton(source, name)


METHOD = "def add(self, item):\n    text = '''a\n  b'''\n    return text\n"
INDENTED = moved(ast.parse(METHOD).body[0], METHOD.split("\n"), "    ")


@pytest.mark.parametrize(
    "reply",
    [
        METHOD,
        f"Sure.\n```python\n{METHOD}```\n",
        f"class Box(dict):\n{INDENTED}",
        INDENTED,
        f"Here:\n\n{INDENTED}",
        f"def add(self, item):\n    return 0\n\n{METHOD}",
        f"```python\nx = 1\n```\n```python\n{METHOD}```",
    ],
)
def test_a_method_is_read_in_any_form(reply):
    own = read_reply(reply, BOX)
    assert ast.dump(ast.parse(own.methods["add"])) == ast.dump(ast.parse(METHOD))
    assert run(merge(BOX, {"a": own}).source)["Box"]().add(1) == "a\n  b"


def test_a_broken_method_does_not_hide_the_others_of_its_class():
    reply = f"class Box(dict):\n    @staticmethod\n    def count(items):\n        return (\n{INDENTED}"
    own = read_reply(reply, BOX)
    assert set(own.methods) == {"add"} and set(own.broken) == {"count"}
    assert "(line 4)" in own.broken["count"]


def test_methods_of_which_only_the_first_is_at_the_margin():
    reply = "@staticmethod\n    def count(items):\n        return 1\n\n    def add(self, item):\n        return 2\n"
    assert set(read_reply(reply, BOX).methods) == {"count", "add"}


def test_defect_decorators_were_deleted_or_glued_to_the_next_method():
    bare = read_reply("def count(items):\n    return len(items)\n", BOX)
    decorated = read_reply(
        "@staticmethod\ndef count(items):\n    return len(items)\n@property\ndef size(self):\n    return 4\n", BOX
    )
    for own in (bare, decorated):
        merged = merge(BOX, {"a": own})
        assert merged.problem is None and merged.source.count("@staticmethod") == 1
        assert run(merged.source)["Box"].count([1, 2]) == 2
    assert run(merge(BOX, {"a": decorated}).source)["Box"]().size == 4
    cached = read_reply("import functools\n@functools.lru_cache\ndef count(items):\n    return items\n", BOX)
    assert "    @staticmethod\n    @functools.lru_cache\n    def count" in merge(BOX, {"a": cached}).source


def test_defect_nested_functions_async_methods_and_base_classes_were_lost():
    reply = (
        "def add(self, item):\n    def inner(x):\n        return x\n    return inner(item)\n"
        "async def later(self):\n    return 1\n"
    )
    merged = merge(BOX, {"a": read_reply(reply, BOX)})
    box = run(merged.source)["Box"]
    assert merged.problem is None and issubclass(box, dict) and box().add(3) == 3 and box().ready()
    assert "async def later" in merged.source


def test_defect_fences_after_the_first_were_not_read():
    reply = "```python\ndef add(self, item):\n    return 1\n```\nand\n```python\ndef later(self):\n    return 2\n```"
    assert set(read_reply(reply, BOX).methods) == {"add", "later"}


def test_a_property_and_its_setter_are_two_methods():
    reply = (
        "@property\ndef size(self):\n    return self._n\n@size.setter\ndef size(self, value):\n    self._n = value\n"
    )
    merged = merge(BOX, {"a": read_reply(reply, BOX)})
    box = run(merged.source)["Box"]()
    box.size = 5
    assert box.size == 5 and merged.valid == ("size", "size.setter")


def test_defect_a_random_choice_among_duplicates():
    one, two = (read_reply(f"def add(self, item):\n    return {n}\n", BOX) for n in (1, 2))
    broken = read_reply("def add(self, item):\n    return (\n", BOX)
    assert broken.broken.keys() == {"add"} and not broken.methods
    assert all(merge(BOX, {"a": one, "b": two}).authors == {"add": "a"} for _ in range(20))
    late = merge(BOX, {"a": broken, "b": two, "c": one})
    assert late.authors == {"add": "b"} and late.overlap == ("add",) and late.valid == ("add",)
    assert run(late.source)["Box"]().add(0) == 2


def test_under_a_partition_each_agent_writes_its_own_methods():
    one, two = (read_reply(f"def add(self, item):\n    return {n}\n", BOX) for n in (1, 2))
    merged = merge(BOX, {"a": one, "b": two}, {"a": ["count"], "b": ["add"]})
    assert merged.authors == {"add": "b"} and merged.overlap == ("add",)
    assert merge(BOX, {"a": one}, {"a": ["count"]}).valid == ()


def test_what_stands_beside_the_class_comes_along_and_hides_nothing():
    reply = (
        "from __future__ import annotations\nimport math, json as js\nLIMIT = 99\nBASE = 7\n"
        "def root(x):\n    return math.sqrt(x) + BASE\n"
        "def add(self, item):\n    return self._double(root(item)) + LIMIT\n"
        "def _double(self, x):\n    return 2 * x\n"
        "def ready(self):\n    return False\nprint('hello')\n"
    )
    second = read_reply("BASE = 0\ndef _double(self, x):\n    return 0\ndef later(self):\n    return 1\n", BOX)
    merged = merge(BOX, {"a": read_reply(reply, BOX), "b": second})
    assert merged.problem is None
    box = run(merged.source)["Box"]()
    assert box.add(4) == 2 * (2 + 7) + 3 and box.ready() and "hello" not in merged.source


def test_fields_of_a_class_come_along():
    own = read_reply(
        "class Box:\n    step = 2\n    kind = 'bag'\n    def add(self, item):\n        return item + self.step\n", BOX
    )
    box = run(merge(BOX, {"a": own}).source)["Box"]()
    assert box.add(1) == 3 and box.kind == "box"


DEEP = ("1" + "+1" * 600, "-" * 600 + "1", "a" + ".b" * 600, "a" + "()" * 600, "[*" * 90 + "1" + "]" * 90)


@pytest.mark.parametrize("deep", DEEP)
@pytest.mark.parametrize(
    "reply",
    [
        "z = 1; w = {}\ndef add(self, item): return 1",
        "class Box:\n    z = 1; w = {}\n    def add(self, item): return 1",
        "@d({})\ndef add(self, item): return 1",
    ],
)
def test_deep_expressions_are_read_without_recursion(deep, reply):
    merged = merge(BOX, {"a": read_reply(reply.format(deep), BOX)})
    assert merged.problem is None and "add" in merged.valid


def test_statements_that_share_a_line_are_parted():
    reply = "a = 'é'; b = (1,\n   2); c = 3\ndef add(self, item): return b"
    assert read_reply(reply, BOX).module == ("a = 'é'\n", "b = (1,\n   2)\n", "c = 3\n")


def test_empty_replies_leave_the_stubs():
    merged = merge(BOX, {"a": read_reply("", BOX), "b": Written()})
    assert merged.problem is None and merged.valid == merged.overlap == () and merged.source == BOX.source


@given(st.lists(st.text(max_size=60), min_size=1, max_size=3))
def test_any_reply_leaves_a_class_that_compiles(replies):
    written = {str(i): read_reply(reply, BOX) for i, reply in enumerate(replies)}
    merged = merge(BOX, written)
    assert merged.problem is None
    assert merge(BOX, written) == merged


PIECES = (
    "def add(self, item):",
    "    return 1",
    "        return 2",
    "class Box:",
    "    def size(self):",
    "@property",
    "```",
    "x = (",
    "'''",
)


@given(st.lists(st.sampled_from(PIECES), max_size=9))
def test_any_mix_of_lines_leaves_a_class_that_compiles(lines):
    merged = merge(BOX, {"a": read_reply("\n".join(lines), BOX)})
    assert merged.problem is None and set(merged.valid) <= set(TARGETS)


@given(st.integers(0, 12), st.integers(1, 4), st.integers(0, 10**9))
def test_a_partition_is_fair_and_complete(count, agents, seed):
    methods, names = [f"m{i}" for i in range(count)], [f"a{i}" for i in range(agents)]
    dealt = partition(methods, names, seed)
    assert sorted(m for hand in dealt.values() for m in hand) == sorted(methods)
    sizes = [len(hand) for hand in dealt.values()]
    assert max(sizes) - min(sizes) <= 1
    assert all(list(hand) == sorted(hand, key=methods.index) for hand in dealt.values())
    assert dealt == partition(methods, names, seed)


def test_partitions_depend_on_the_seed():
    assert len({str(partition(list("abcdef"), ["x", "y"], seed)) for seed in range(20)}) > 5


def test_agents_and_methods_of_tests():
    test = (
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def setUp(self):\n        self.box = Box()\n        self.box.add(1)\n"
        "    def test_size(self):\n        self.assertEqual(self.box.size, 'later')\n"
        "    def test_none(self):\n        pass\n"
    )
    assert methods_by_test(test, TARGETS) == {"T.test_size": {"add", "size"}, "T.test_none": {"add"}}
    assert agents_by_test(test, {"add": "a", "size": "b"})["T.test_size"] == {"a", "b"}
    with pytest.raises(ValueError, match="no Python"):
        methods_by_test("class T(:", TARGETS)


def classeval(data_dir):
    return json.loads((data_dir / "classeval/ClassEval_data.json").read_text())


def skeleton_of(row):
    fields = class_row(row)
    return read_skeleton(fields["skeleton"], fields["class_name"])


def body_of(source, name):
    """Dumps of what the class holds, but for docstrings."""
    node = next(each for each in ast.parse(source).body if isinstance(each, ast.ClassDef) and each.name == name)
    for each in ast.walk(node):
        if isinstance(each, (*FUNCTIONS, ast.ClassDef)) and ast.get_docstring(each) is not None and len(each.body) > 1:
            each.body = each.body[1:]
    return sorted(ast.dump(each) for each in node.body if not isinstance(each, ast.Expr))


OTHER_CONSTRUCTORS = {"ClassEval_33", "ClassEval_69"}
"""Rows whose skeleton holds another constructor than their solution."""


def replies_of(row, skeleton, hands, form):
    """The solution's methods, written by the agents that ``hands`` gives them to, in one form of reply."""
    tree, lines = ast.parse(row["solution_code"]), row["solution_code"].split("\n")
    node = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == row["class_name"])
    methods = {each.name: each for each in node.body if isinstance(each, FUNCTIONS) and each.name != "__init__"}
    imports = "".join(moved(each, lines, "") for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom))
    own = [name for name in methods if name not in skeleton.targets]
    for agent, hand in hands.items():
        names = [*hand, *own]
        indented = "\n".join(moved(methods[name], lines, "    ") for name in names)
        bare = "\n".join(moved(methods[name], lines, "") for name in names)
        yield (
            agent,
            {
                "bare": imports + bare,
                "class": f"{imports}class {row['class_name']}:\n{indented or '    pass'}",
                "indented": indented,
                "first at the margin": indented.lstrip(),
                "fenced": f"Here it's:\n```python\n{imports}{indented}```\nDone (I think",
            }[form],
        )


@pytest.mark.needs_data("classeval/ClassEval_data.json")
@pytest.mark.parametrize("form", ["bare", "class", "indented", "first at the margin", "fenced"])
def test_the_methods_of_all_gold_classes_come_together_again(data_dir, form):
    rows = classeval(data_dir)
    assert len(rows) == 100
    different = set()
    for row in rows:
        skeleton = skeleton_of(row)
        for seed, agents in enumerate((["a", "b"], ["a", "b", "c"])):
            hands = partition(skeleton.targets, agents, seed)
            written = {agent: read_reply(reply, skeleton) for agent, reply in replies_of(row, skeleton, hands, form)}
            merged = merge(skeleton, written, hands)
            assert merged.problem is None and merged.valid == skeleton.targets and merged.overlap == ()
            assert all(merged.authors[name] == agent for agent, hand in hands.items() for name in hand)
            if body_of(merged.source, row["class_name"]) != body_of(row["solution_code"], row["class_name"]):
                different.add(row["task_id"])
    assert different == OTHER_CONSTRUCTORS


@pytest.mark.needs_data("classeval/ClassEval_data.json")
def test_open_methods_are_those_that_the_set_lists(data_dir):
    rebuilt, imports_added, unused = set(), set(), set()
    for row in classeval(data_dir):
        skeleton = skeleton_of(row)
        assert set(skeleton.targets) == {method["method_name"] for method in row["methods_info"]}
        unused |= set() if any(methods_by_test(row["test"], skeleton.targets).values()) else {row["task_id"]}
        if not skeleton.source.endswith(row["skeleton"]):
            rebuilt.add(row["task_id"])
        elif skeleton.source != row["skeleton"]:
            imports_added.add(row["task_id"])
    assert rebuilt == {"ClassEval_5", "ClassEval_22", "ClassEval_43", "ClassEval_46"}
    assert imports_added == {"ClassEval_39", "ClassEval_45", "ClassEval_61", "ClassEval_92"}
    assert unused == {"ClassEval_70"}  # its tests make objects and call nothing


@pytest.mark.needs_data("classeval/ClassEval_data.json")
def test_a_merged_class_passes_its_tests(data_dir, tmp_path):
    row = next(each for each in classeval(data_dir) if each["task_id"] == "ClassEval_33")
    skeleton = skeleton_of(row)
    hands = partition(skeleton.targets, ["a", "b"], 0)
    written = {agent: read_reply(reply, skeleton) for agent, reply in replies_of(row, skeleton, hands, "bare")}
    file = tmp_path / "merged.py"
    file.write_text(f"{merge(skeleton, written).source}\n{row['test']}\nunittest.main()\n")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
