import ast
import sys
import textwrap
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comlrl_envs.coding.replies import MAX_CHARACTERS, defined, extract, extract_code, functions
from comlrl_envs.coding.syntax import at_margin, compile_error, parse

AUX = "def aux(n):\n    return n + 1\n"
STATEMENTS = (
    "import math",
    "from collections import deque as line",
    "LIMIT = 10",
    "TABLE = {\n    'a': 1,\n}",
    'TEXT = """\ndef not_code(:\n    # ``\n"""',
    "@decorate(\n    1)\ndef wrapped(x):\n    return x",
    "class Box(dict):\n    size = 3\n    def grow(self):\n        return self",
    "async def later():\n    return 1",
    "def outer(n):\n    def inner(k):\n        return k\n    return inner(n)",
    "try:\n    import numpy\nexcept ImportError:\n    numpy = None",
)
PROSE = ("Here it is:", "It's (almost) done", "1. first, think", "Note: this", "So f(x) = x + 1!", "“Quoted”", "yes")


def same(code, source):
    assert ast.dump(ast.parse(code)) == ast.dump(ast.parse(source))


@given(
    st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=6),
    st.sampled_from(("```", "~~~", "````")),
    st.booleans(),
)
def test_all_statements_survive_any_wrapping(statements, fence, closed):
    source = "\n\n".join(statements) + "\n"
    same(extract_code(source), source)
    prose = f"Sure, it's easy:\n{fence}python\n{source}"
    same(extract_code(prose + (f"{fence}\nHope it helps." if closed else "")), source)
    same(extract_code("Look:\n" + source + "\nThat's (all"), source)


@given(st.lists(st.one_of(st.sampled_from(STATEMENTS), st.sampled_from(PROSE)), max_size=8))
def test_prose_between_statements_is_left_out_and_they_are_kept(lines):
    code = extract_code("\n".join(lines))
    assert compile_error(code) is None
    assert set(defined(code)) == {name for line in lines if line in STATEMENTS for name in defined(line)}


@given(st.text(max_size=300))
def test_any_text_gives_source_that_compiles(text):
    found = extract(text)
    assert compile_error(found.code) is None
    assert extract_code(found.code) == found.code


@given(st.text(alphabet="`~\n\t def():'\"@x=1#\\[{}]", max_size=120))
def test_text_made_of_python_punctuation_gives_source_that_compiles(text):
    assert compile_error(extract_code(text)) is None


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_fenced_function_is_found_whatever_stands_around(before, after):
    before, after = (text.replace("`", "").replace("~", "") for text in (before, after))
    assert "aux" in functions(extract_code(f"{before}\n```python\n{AUX}```\n{after}"))


def test_several_blocks_are_one_module_and_the_last_definition_holds():
    reply = f"```python\nimport math\n```\nThen\n```\n{AUX}```\n~~~py\ndef aux(n):\n    return math.pi\n~~~\n"
    scope = {}
    exec(extract_code(reply), scope)
    assert scope["aux"](1) == 3.141592653589793


def test_blocks_of_other_languages_count_only_where_no_other_block_has_code():
    assert extract_code(f"```bash\npip = 1\n```\n```python\n{AUX}```") == AUX
    assert extract_code(f"```pseudocode\n{AUX}```") == AUX


def test_a_fence_within_a_docstring_is_no_fence():
    source = 'def aux(n):\n    """Use it so:\n    ```\n    aux(1)\n    ```\n    """\n    return n\n'
    same(extract_code(source), source)
    same(extract_code(f"Here:\n```python\n{source}```\nDone."), source)


def test_a_fence_within_a_text_of_code_among_prose():
    source = 'TEXT = """\n```\ndef not_code(:\n```\n"""\ndef aux():\n    return TEXT\n'
    same(extract_code(f"It's this:\n{source}\nThat's (all"), source)


def test_a_reply_that_goes_on_within_a_fence_of_the_prompt():
    assert extract_code(f"{AUX}```\nThis adds one.") == AUX


def test_indented_code_comes_to_the_margin_and_its_texts_stay():
    source = 'def aux():\n    return """a\n  b\n    c"""\n'
    indented = '    def aux():\n        return """a\n  b\n    c"""\n'
    same(extract_code(indented), source)
    same(extract_code("Here it is:\n\n" + indented), source)
    assert at_margin("x = 1\n  y") == "x = 1\n  y"


@pytest.mark.parametrize(
    "example",
    ["print(aux(3))", "aux(3)", "result = aux(3)\nprint(result)", "for i in (1, 2):\n    print(aux(i))",
     "assert aux(1) == 2", "if __name__ == '__main__':\n    aux(1)", "import unittest\nunittest.main()",
     "x: int", "return aux", "'text'"],
)  # fmt: skip
def test_examples_of_use_are_left_out(example):
    code = extract_code(f"{AUX}\n{example}\n")
    assert functions(code) == ("aux",)
    assert "aux" not in code.replace(AUX, "")
    scope = {}
    exec(code, scope)  # written above, not by a model
    assert scope["aux"](1) == 2


def test_what_sets_up_the_module_stays():
    source = (
        "import sys\nsys.setrecursionlimit(10_000)\ndef build():\n    return [1]\nTABLE = build()\nTABLE.append(2)\n"
        "for i in range(3):\n    TABLE.append(build())\ndef aux(n):\n    return TABLE[n]\n"
    )
    same(extract_code(source), source)


def test_a_broken_definition_is_recorded_with_its_place_in_the_reply():
    found = extract(f"Hm.\n```python\n{AUX}\ndef main(n):\n    return aux(n\n```\n")
    assert functions(found.code) == ("aux",)
    (broken,) = found.broken
    assert (broken.name, broken.line, broken.first_line) == ("main", 7, 6)
    assert "never closed" in broken.message


def test_a_future_import_of_a_later_block_goes_first():
    code = extract_code(f"```\n{AUX}```\n```\nfrom __future__ import annotations\n```")
    assert code.startswith("from __future__") and compile_error(code) is None


def test_a_return_outside_of_functions_costs_only_its_statement():
    found = extract(f"{AUX}\nfor i in (1, 2):\n    return i\n")
    assert found.code == AUX


def test_remarks_of_the_parser_neither_show_nor_become_errors(recwarn):
    import warnings

    warnings.simplefilter("error")
    assert functions(extract_code("def aux(s):\n    return s is '\\d'\n")) == ("aux",)
    assert not recwarn.list


@pytest.mark.parametrize(
    "text", ["\0", "def aux():\n    return '\ud800'", "\ufeff" + AUX, AUX.replace("\n", "\r\n"), "\x0c"]
)
def test_odd_characters(text):
    assert compile_error(extract_code(text)) is None
    assert not text.endswith("\n") or functions(extract_code(text)) == ("aux",)


NESTED = ("(", "[", "{", "({[", "not ", "-", "lambda:", "f(", "x if y else ", "a[", "x=", "@", "\\\n", "'''", "f'{")


@pytest.mark.parametrize("piece", NESTED)
def test_deep_nesting_does_not_crash(piece):
    for count in (50, 90, 2_000, 30_000):
        for tail in ("1", ""):
            assert compile_error(extract_code(piece * count + tail + "\n" + AUX)) is None
    deep = "".join(f"{' ' * i}if 1:\n" for i in range(90)) + " " * 90 + "x = 1\n"
    assert "aux" in functions(extract_code(f"{AUX}\nprose (here\n{deep}"))


def test_a_chain_as_long_as_the_parser_allows_is_read_without_recursion():
    limit = sys.getrecursionlimit()
    code = extract_code(f"{AUX}\nX = {' + '.join(['1'] * 20_000)}\n{AUX}")
    assert functions(code) == ("aux",)
    assert sys.getrecursionlimit() == limit


HOSTILE = (
    "def f(\n", "x = (\n", "x=1\n", " '''\n", "```\n", "```python\ndef f(:\n```\n", "@a\n", "(", "a b\n", "x+", 
    "    def f(:\n", "def f():\n return 1\n", "def f(x): return '''\n", "class A:\n  def f(self:\n",
    "import a\n    def f(x): pass\n",
)  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_megabyte_of_anything_takes_seconds(piece):
    reply = piece * (1_000_000 // len(piece))
    begin = time.process_time()
    found = extract(reply)
    assert time.process_time() - begin < 10
    assert len(found.code) <= MAX_CHARACTERS + 1 and len(found.broken) <= 20


def test_time_does_not_grow_with_what_is_not_read():
    short, long = ("a b (\n" * (size // 6) for size in (MAX_CHARACTERS, 20 * MAX_CHARACTERS))
    times = []
    for reply in (short, long):
        begin = time.process_time()
        extract(reply)
        times.append(time.process_time() - begin)
    assert times[1] < 5 * times[0] + 0.5


def test_defect_the_cleaner_cut_functions_at_a_nested_def():
    source = textwrap.dedent(
        """
        import heapq
        LIMIT = 3
        def cached(f):
            return f
        class Heap:
            def top(self):
                return LIMIT
        @cached
        def aux(xs):
            def key(x):
                return -x
            async def later():
                return 1
            return sorted(xs, key=key)
        """
    )
    same(extract_code(source), source)


def test_nothing_is_run(tmp_path):
    target = tmp_path / "written"
    opened = f"open({str(target)!r}, 'w')"
    extract(f"{opened}.write('x')\nX = {opened}\ndef aux(n={opened}): pass")
    assert not target.exists()


@settings(max_examples=30)
@given(st.lists(st.sampled_from(STATEMENTS), max_size=4))
def test_defined_names_are_those_of_the_module(statements):
    source = "\n".join(statements)
    names = set(defined(source))
    assert set(functions(source)) <= names
    assert names <= {node.id for node in ast.walk(parse(source)) if isinstance(node, ast.Name)} | {
        "math", "line", "wrapped", "Box", "later", "outer", "numpy"
    }  # fmt: skip
