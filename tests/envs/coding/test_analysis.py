import time

import pytest

from comlrl_envs.coding.analysis import definition, syntax_error, thin_wrapper
from comlrl_envs.coding.helper_use import helper_usage
from comlrl_envs.coding.program import preamble_of, stub_helper, team_program, without
from comlrl_envs.coding.replies import extract
from comlrl_envs.coding.syntax import compile_error


def usage(main):
    return helper_usage(main, "f", "aux")


@pytest.mark.parametrize(
    "body",
    [
        "return aux(n) + 1",
        "return aux (n)",
        "return aux()",
        "return aux(a, b)",
        "g = aux\n    return g(n) + 1",
        "from functools import partial\n    return partial(aux, n)()",
        "return list(map(aux, [n]))",
        "return sorted(n, key=aux)",
        "return sorted(n, key=lambda x: aux(x))",
        "return [aux(k) for k in n]",
        "if n:\n        return 0\n    while aux(n):\n        n -= 1\n    return n",
        "def inner(k):\n        return aux(k)\n    return inner(n)",
        "with open(n) as file:\n        for line in aux(file):\n            return line",
        "try:\n        pass\n    except aux(n):\n        pass\n    return 1",
        "match n:\n        case 1 if aux(n):\n            return 2",
        "return {'a': aux}['a'](n)",
        "return go(n)\n\ndef go(n):\n    return aux(n) + 1",
        "return Box(n).size\n\nclass Box:\n    def __init__(self, n):\n        self.size = aux(n)",
        "return G(n) + 1\n\nG = aux",
    ],
)
def test_what_is_a_call(body):
    found = usage(f"def f(n):\n    {body}\n")
    assert found.called and not found.ignored


@pytest.mark.parametrize(
    "main",
    [
        "def f(n):\n    # aux(n)\n    return n",
        "def f(n):\n    return 'aux(n)'",
        'def f(n):\n    """aux(n)"""\n    return n',
        "def f(aux):\n    return aux(1)",
        "def f(n):\n    aux = len\n    return aux(n)",
        "def f(n):\n    def aux(k):\n        return k\n    return aux(n)",
        "def f(n):\n    return n\n    return aux(n)",
        "def f(n):\n    if False:\n        aux(n)\n    return n",
        "def f(n):\n    while 0:\n        aux(n)\n    return n",
        "def f(n):\n    aux\n    return n",
        "def f(n):\n    g = aux\n    return n",
        "def f(n):\n    return callable(aux)",
        "def f(n):\n    return n.aux(3)",
        "def f(n):\n    return n\n\ndef unused(n):\n    return aux(n)",
        "def f(n):\n    return my_aux(n)",
        "def f(n):\n    return aux(n)\n\ndef f(n):\n    return n",
    ],
)
def test_defect_a_mention_of_the_helper_counted_as_its_use(main):
    assert not usage(main).called


@pytest.mark.parametrize(
    "body",
    ["aux(n)", "aux()", "aux(n, 2)", "aux (n)", "x = aux(n)", "x: int = aux(n, n)", "_ = aux(n)",
     "x = aux(n)\n    x = 0\n    n += x", "for k in n:\n        aux(k)",
     "async def g():\n        await aux(n)\n    g()"],
)  # fmt: skip
def test_defect_the_penalty_for_an_ignored_value_was_dead(body):
    found = usage(f"def f(n):\n    {body}\n    return n\n")
    assert found.all_ignored and len(found.ignored) == found.uses == 1


@pytest.mark.parametrize(
    "body",
    ["x = aux(n)\n    return x", "x = aux(n)\n    n += x\n    x = 0", "x = aux(n)\n    x = x + 1\n    return x",
     "x = aux(n)\n    def g():\n        return x\n    return g()", "x, y = aux(n)\n    return n",
     "x = y = aux(n)\n    return y"],
)  # fmt: skip
def test_a_value_that_is_read_is_not_ignored(body):
    assert not usage(f"def f(n):\n    {body}\n").ignored


def test_one_used_and_one_ignored_call_are_not_all_ignored():
    found = usage("def f(n):\n    aux(n)\n    return aux(n) + 1\n")
    assert found.uses == 2 and len(found.ignored) == 1 and not found.all_ignored
    assert "line 2" in found.ignored[0]


@pytest.mark.parametrize(
    "body",
    [
        "return aux(n)",
        "return sum(aux(n)) + 1",
        "v = aux(n)\n    return v",
        "pass",
        "'text'",
        "v: int = aux(n)\n    return v",
    ],
)
def test_thin_wrappers_as_published(body):
    assert thin_wrapper(f"def f(n):\n    {body}\n", "f", ["aux"])


@pytest.mark.parametrize(
    "line",
    [
        "pass",
        "x = 1",
        "'''note'''",
        "n = n",
        "import math",
        "global LIMIT",
        "assert True",
        "...",
        "unused = (1, 2)",
        "other = n",
    ],
)
def test_defect_a_line_without_effect_defeated_the_wrapper_test(line):
    assert thin_wrapper(f"def f(n):\n    {line}\n    return aux(n)\n", "f", ["aux"])
    assert thin_wrapper(f"def f(n):\n    v = aux(n)\n    {line}\n    return v\n", "f", ["aux"])


@pytest.mark.parametrize(
    "main",
    [
        "def f(n):\n    g = aux\n    return g(n)",
        "def f(n):\n    v = aux(n)\n    w = v\n    return w",
        "def f(n):\n    return go(n)\n\ndef go(n):\n    return aux(n)",
        "def f(n):\n    return (\n        aux(\n            n\n        )\n    )",
    ],
)
def test_other_ways_to_pass_work_on(main):
    assert thin_wrapper(main, "f", ["aux"])


@pytest.mark.parametrize(
    "main",
    [
        "def f(n):\n    v = aux(n)\n    return v + 1",
        "def f(n):\n    if n < 0:\n        return 0\n    return aux(n)",
        "def f(n):\n    return n + 1",
        "def f(n):\n    v = n + 1\n    return aux(v)",
        "def f(n):\n    return f(n - 1) if n else 0",
        "def g(n):\n    return aux(n)",
    ],
)
def test_no_wrapper(main):
    assert not thin_wrapper(main, "f", ["aux"])


@pytest.mark.parametrize(
    ("code", "returns"),
    [
        ("def aux(n): return n", True),
        ("def aux(n):\n    return", True),
        ("def aux(n):\n    yield n", True),
        ("async def aux(n):\n    return n", True),
        ("aux = lambda n: n", True),
        ("import math\naux = math.gcd", True),
        ("if True:\n    def aux(n):\n        return n", True),
        ("def aux(n):\n    pass", False),
        ("def aux(n):\n    # return n\n    print('return n')", False),
        ("def aux(n):\n    def inner():\n        return 1\n    inner()", False),
        ("def aux(n):\n    key = lambda: (yield)\n", False),
    ],
)
def test_defect_a_return_in_a_comment_or_a_nested_function_counted(code, returns):
    found = definition(extract(code), "aux")
    assert found.found and found.returns is returns and found.usable is returns


def test_a_missing_and_a_broken_definition():
    assert not definition(extract("def aux2(n): return n"), "aux").found
    assert not definition(extract("class A:\n    def aux(n): return n"), "aux").found
    broken = definition(extract("Text\ndef aux(n):\n    return n +\n"), "aux")
    assert broken.found and broken.returns and not broken.usable
    assert broken.problem is not None and broken.problem.line == 3


def test_syntax_errors_beyond_the_parser():
    assert syntax_error("x = 1") is None
    problem = syntax_error("def f(a, a):\n    return a")
    assert problem is not None and "duplicate" in str(problem)


def run(source):
    scope = {}
    exec(source, scope)
    return scope


def test_a_program_holds_each_agent_to_its_own_function():
    helpers = {
        "aux_1": "def aux_1():\n    return 1\ndef f():\n    return 'helper'\n",
        "aux_2": "def aux_2():\n    return 2\ndef aux_1():\n    return 9\n",
    }
    future = "from __future__ import annotations\n"
    main = f"{future}def aux_2():\n    return 7\ndef f():\n    return aux_1() + aux_2() + LIMIT\n"
    source = team_program("LIMIT = 100\n", helpers, main, "f")
    assert compile_error(source) is None
    assert run(source)["f"]() == 103


def test_a_stub_takes_away_the_helper_and_nothing_else():
    code = "BASE = 5\n@staticmethod\ndef aux(a, *, b=1):\n    return a + b\ndef other():\n    return BASE\n"
    scope = run(stub_helper(code, "aux"))
    assert scope["aux"](1, b=2) is None and scope["aux"]() is None and scope["other"]() == 5
    assert run(stub_helper("", "aux"))["aux"](3) is None


def test_without_keeps_what_binds_other_names():
    assert without("import a, b\nx = 1\ndef f(): pass\n", ["f", "a"]) == "x = 1\n"


def test_the_preamble_of_a_prompt():
    prompt = 'import math\nLIMIT = 2\ndef poly(x):\n    return x\n\ndef f(x):\n    """Do."""\n'
    assert set(run(preamble_of(prompt, "f"))) >= {"math", "LIMIT", "poly"}
    with pytest.raises(ValueError, match="does not define the entry point 'g'"):
        preamble_of(prompt, "g")
    with pytest.raises(ValueError, match="no Python"):
        preamble_of("def f(:", "f")


NAMES = [f"v{number}" for number in range(2400)]
HOSTILE = {
    "one statement binds thousands of names": "=".join(NAMES) + f"=0\ndef f(x):\n return aux({','.join(NAMES)})",
    "functions within functions": "def f(x):\n return " + "aux(lambda: " * 80 + "1" + ")" * 80,
    "a chain of copies": "a1=aux\n"
    + "".join(f"a{n + 1}=a{n}\n" for n in range(1, 1400))
    + "def f(x):\n return a1400(x)",
    "a chain of functions": "".join(f"def f{n}(): return f{n + 1}()\n" for n in range(999)) + "def f(x): return f0()",
    "thousands of calls": "def f(x):\n" + " y = aux(x)\n" * 2000 + " return y",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_code_is_read_in_a_moment(name):
    started = time.process_time()
    helper_usage(HOSTILE[name], "f", "aux")
    assert time.process_time() - started < 3
