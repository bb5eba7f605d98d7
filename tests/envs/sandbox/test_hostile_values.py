"""Values, objects and exceptions that are made to fail whoever looks at them: the program fails, never its judge."""

import time

import pytest

from comlrl_envs.sandbox import Job, Limits, Sandbox, Verdict

QUICK_SECONDS = 6.0
OBJECT = "class O:\n    def __repr__(self): raise {}\n    __str__ = __hash__ = __format__ = __repr__\n"
BARE = "import subprocess\nbare = subprocess.CalledProcessError.__new__(subprocess.CalledProcessError, 1, 'x')\n"
RETURNED = {
    "long_number": "def f(): return 10 ** 5000",
    "long_numbers": "def f(): return [10 ** 5000] * 1000",
    "deep_list": "def f():\n    x = []\n    for _ in range(100_000): x = [x]\n    return x",
    "many_times_itself": "def f():\n    x = [1]\n    for _ in range(80): x = [x, x]\n    return x",
    **{
        f"object_{kind}": OBJECT.format(error) + "def f(): return [O()]"
        for kind, error in (
            ("runtime_error", "RuntimeError('no')"),
            ("exit", "SystemExit(0)"),
            ("interrupt", "KeyboardInterrupt"),
            ("of_its_own", "type('E', (BaseException,), {'__module__': 'program', '__str__': lambda self: 3})()"),
            ("memory", "MemoryError"),
            ("stop", "StopIteration"),
            ("generator", "GeneratorExit"),
        )
    },
    "object_no_text": "class O:\n    def __repr__(self): return 3\ndef f(): return [O()]",
    "object_endless": "class O:\n    def __repr__(self): return repr([self])\ndef f(): return [O()]",
    "key": "class O:\n    n = 0\n    def __hash__(self):\n        O.n += 1\n        if O.n > 1: raise SystemExit(0)\n"
    "        return 1\ndef f(): return {O(): 1}",
    "deep_class": "C = object\nfor n in range(300): C = type('C', (C,), {'__module__': 'program'})\n"
    "def f(): return [C()]",
}
RAISED = {
    "long_number": "def f(): raise KeyError(10 ** 5000)",
    "text": OBJECT.format("RuntimeError('no')") + "def f(): raise ValueError(O())",
    "text_exit": OBJECT.format("SystemExit(1)") + "def f(): raise ValueError(O(), O())",
    "own_text": "class E(Exception):\n    def __str__(self): raise KeyboardInterrupt\ndef f(): raise E(1)",
    "own_text_no_text": "class E(Exception):\n    def __str__(self): return 3\ndef f(): raise E(1)",
    "called_process": "import subprocess\ndef f(): raise subprocess.CalledProcessError(1, 'x')",
    "bare": BARE + "def f(): raise bare",
    "unicode": "def f(): raise UnicodeDecodeError.__new__(UnicodeDecodeError)",
    "group": "def f(): raise ExceptionGroup('two', [ValueError(1), TypeError(2)])",
    "many_times_itself": "def f():\n    x = [1]\n    for _ in range(80): x = [x, x]\n    raise KeyError(x)",
    "attributes": "class E(Exception): pass\ne = E(1)\ne.lock = __import__('threading').Lock()\n"
    "e.huge = ['x'] * 2_000_000\ne.with_traceback = e.add_note = e.args_ = 3\ndef f(): raise e",
    "deep_class": "E = Exception\nfor n in range(700): E = type('E%d' % n, (E,), {'__module__': 'program'})\n"
    "def f(): raise E('x')",
    "name": "def f(): raise type('\\ud800', (Exception,), {'__module__': 'program'})()",
    "os_error": "def f(): raise OSError({}, [], b'', None, type)",
}
FORGE = """
import os, json, struct
def frame(message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    os.write(3, struct.pack('!I', len(body)) + body)
    return 3
"""
UNICODE = ["builtins.UnicodeDecodeError", "builtins.ValueError", "builtins.Exception"]


def error(lineage: object, args: object = ("t", []), **more: object) -> dict[str, object]:
    return {"e": args, "c": [], "lineage": lineage, **more}


def state(**values: object) -> list[object]:
    return ["t", [["t", [name, value]] for name, value in values.items()]]


FORGED: dict[str, object] = {
    "nothing": {},
    "list": [],
    "number": 3,
    "no_changes": {"v": 1},
    "deep": {"v": "DEEP", "c": []},
    "deep_change": {"v": 1, "c": [[1, "L", ["DEEP"]]]},
    "no_lineage": {"e": ["t", []], "c": []},
    "lineage_of_numbers": error(3),
    "empty_lineage": error([]),
    "odd_lineage": error([{}, None, [], "a.b.c", "..", ""]),
    "args_of_none": error(["builtins.ValueError"], None),
    "args_of_an_int": error(["builtins.KeyError"], 3),
    "state_of_none": error(["builtins.OSError"], state=None),
    "state_of_texts": error(["builtins.OSError"], state=["t", ["ab", "abc"]]),
    "state_names": error(
        ["builtins.OSError"], state=state(__class__=1, __dict__=2, args=3, with_traceback=4, errno=[])
    ),
    "words": error(["program.E", "builtins.Exception"], words={"a": []}),
    "traceback": error(["builtins.ValueError"], state=state(__traceback__=1, __cause__=1)),
    "unicode": error(UNICODE, state=state(encoding="x", object=["b", "abc"], start=-5, end=-4, reason="x")),
    "unicode_past": error(UNICODE, state=state(encoding="x", object=["b", "abc"], start=9, end=10, reason="x")),
    "unicode_types": error(UNICODE, state=state(encoding=1, object="abc", start="a", end=None, reason=2)),
    "server_error": error(["comlrl_envs.sandbox.link.ServerError"]),
    "ended": error(["comlrl_envs.sandbox.link.Ended"]),
    "faulty": error(["comlrl_envs.sandbox.trial.FaultyTestsError"]),
    "made_of_python": error(["subprocess.CalledProcessError", "builtins.Exception"]),
    "group": error(["builtins.BaseExceptionGroup"], ["t", ["a", 1]]),
    "class": {"v": ["x", 1, {"name": 3, "bases": [[2, {}]], "specials": 3, "lineage": None}], "c": []},
    "class_in_itself": {"v": ["x", 1, {"name": "a", "bases": [[1, None]], "specials": [], "lineage": None}], "c": []},
    "factory": {"v": ["@", 1], "c": [[1, "D", [], "defaultdict", "eval"]]},
    "ask": {"ask": {}, "v": None, "c": []},
    "ask_nothing": {"ask": "call"},
}


def judged(sandbox: Sandbox, program: str) -> Verdict:
    started = time.monotonic()
    limits = Limits(cpu_seconds=2.0, idle_seconds=1.0)
    verdict = sandbox.run(Job(program, ("assert f() == 3",), ("f",), limits=limits))
    assert time.monotonic() - started < QUICK_SECONDS
    return verdict


@pytest.mark.parametrize("name", RETURNED)
def test_what_is_returned_fails_the_test_alone(sandbox: Sandbox, name: str) -> None:
    test = judged(sandbox, RETURNED[name]).tests[0]
    assert test.outcome == "failed" or name in ("key", "deep_class"), test
    assert len(test.message) <= 500 and len(test.actual or "") <= 200


def test_a_value_without_a_text_says_so(sandbox: Sandbox) -> None:
    assert judged(sandbox, RETURNED["long_number"]).tests[0].actual == "<no text: ValueError>"
    assert judged(sandbox, RETURNED["many_times_itself"]).tests[0].actual == "<no text: TimeoutError>"
    assert judged(sandbox, RAISED["text"]).tests[0].message == "<no text: RuntimeError>"


@pytest.mark.parametrize("name", RAISED)
def test_what_is_raised_fails_the_test_alone(sandbox: Sandbox, name: str) -> None:
    test = judged(sandbox, RAISED[name]).tests[0]
    # To write the text of what holds itself many times over takes the program's own time.
    assert test.outcome == ("timeout" if name == "many_times_itself" else "error"), test
    assert len(test.message) <= 500 and test.actual is None


@pytest.mark.parametrize("name", [*RAISED, *RETURNED])
def test_what_is_raised_in_definitions_is_their_problem(sandbox: Sandbox, name: str) -> None:
    program = f"{RAISED[name]}\nf()" if name in RAISED else f"{RETURNED[name]}\nraise ValueError(f())"
    verdict = judged(sandbox, program)
    assert not verdict.defined and verdict.problem and len(verdict.problem) <= 300
    assert verdict.tests[0].outcome == "not_run"


@pytest.mark.parametrize("place", ["f", "definitions"])
@pytest.mark.parametrize("name", FORGED)
def test_no_message_fails_anything_but_its_sender(sandbox: Sandbox, name: str, place: str) -> None:
    body = f"json.dumps({FORGED[name]!r}).replace('\"DEEP\"', '[' * 900 + ']' * 900).encode()"
    program = FORGE + f"def f(): return frame({body}) - 3"
    verdict = judged(sandbox, program if place == "f" else f"{program}\nf()")
    assert verdict.passed == 0


def test_objects_that_fail_in_a_class_under_test(sandbox: Sandbox) -> None:
    tests = """
import unittest
class A(unittest.TestCase):
    def test_1(self): self.assertEqual(C().made(), 3)
    def test_2(self): self.skipTest(C().made())
    def test_3(self): raise ValueError(C().made())
    def test_4(self):
        with self.subTest(made=C().made()): self.assertIn(C().made(), [])
    def test_5(self): self.assertEqual(C().two(), 2)
class B(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise ValueError(C().made())
    def test_1(self): pass
"""
    for kind in ("RuntimeError('no')", "SystemExit(0)", "KeyboardInterrupt"):
        program = OBJECT.format(kind) + "class C:\n    def made(self): return O()\n    def two(self): return 2\n"
        verdict = sandbox.run(Job(program, (tests,), ("C",), kind="unittest"))
        outcomes = {test.name: test.outcome for test in verdict.tests}
        assert outcomes["A.test_5"] == "passed"
        assert [name for name, outcome in outcomes.items() if outcome == "passed"] == ["A.test_5"]


def test_a_program_of_another_shape_does_not_make_the_tests_faulty(sandbox: Sandbox) -> None:
    tests = "class D(C): pass\nclass T(unittest.TestCase):\n    limit = C.limit\n    def test_it(self): pass"
    tests = f"import unittest\n{tests}"
    for program in ("def C(): pass", "C = 3", "class C(Exception): pass", "class C: pass"):
        verdict = sandbox.run(Job(program, (tests,), ("C",), kind="unittest"))
        assert verdict.tests[0].outcome == "not_run" and verdict.problem
    assert sandbox.run(Job("class C: limit = 1", (tests,), ("C",), kind="unittest")).passed == 1


ERRORS = """
import json
class E(ValueError):
    def __init__(self, code, more):
        self.code, self.more = code, more
    def __str__(self): return f'code {self.code}'
class Plain(KeyError): pass
class Exit(SystemExit): pass
def f(kind):
    if kind == 'own': raise E(7, [1, {'a': 2}])
    if kind == 'plain': raise Plain('x')
    if kind == 'json': json.loads('{')
    if kind == 'open': open('/nope')
    if kind == 'decode': b'a\\xff'.decode()
    if kind == 'encode': '\\ud800'.encode()
    if kind == 'syntax': compile('a b', 'name', 'exec')
    if kind == 'import': import no_such_module
    if kind == 'name': no_such_name
    if kind == 'exit': raise SystemExit(3)
    if kind == 'own_exit': raise Exit('why')
    if kind == 'args': raise ValueError(1, 'a')
    if kind == 'huge':
        error = E(7, 'x')
        error.huge = ['x'] * 2_000_000
        raise error
"""
HELD = [
    ("own", "ValueError", "(e.code, e.more, str(e), type(e).__name__) == (7, [1, {'a': 2}], 'code 7', 'E')"),
    ("own", "ValueError", "e.args == (7, [1, {'a': 2}])"),
    ("plain", "KeyError", 'str(e) == "\'x\'" and e.args == ("x",)'),
    ("json", "json.JSONDecodeError", "(e.pos, e.lineno, e.doc) == (1, 1, '{')"),
    ("json", "ValueError", "'line 1 column 2' in str(e)"),
    ("open", "FileNotFoundError", "(e.errno, e.filename, e.strerror) == (2, '/nope', 'No such file or directory')"),
    ("open", "OSError", "str(e) == \"[Errno 2] No such file or directory: '/nope'\""),
    ("decode", "UnicodeDecodeError", "(e.start, e.end, e.object, e.encoding) == (1, 2, b'a\\xff', 'utf-8')"),
    ("decode", "UnicodeDecodeError", "'position 1: invalid start byte' in str(e)"),
    ("encode", "UnicodeEncodeError", "(e.start, e.object) == (0, '\\ud800') and 'surrogates' in str(e)"),
    ("syntax", "SyntaxError", "(e.lineno, e.text.strip()) == (1, 'a b') and str(e) == 'invalid syntax (line 1)'"),
    ("import", "ImportError", "e.name == 'no_such_module' and 'no_such_module' in str(e)"),
    ("name", "NameError", "e.name == 'no_such_name'"),
    ("exit", "SystemExit", "e.code == 3 and type(e) is SystemExit"),
    ("own_exit", "SystemExit", "e.code == 'why' and str(e) == 'why'"),
    ("args", "ValueError", "str(e) == \"(1, 'a')\" and type(e) is ValueError"),
    ("huge", "ValueError", "(e.code, e.more, str(e), hasattr(e, 'huge')) == (7, 'x', 'code 7', False)"),
]


@pytest.mark.parametrize(("kind", "caught", "held"), HELD)
def test_exceptions_keep_their_text_and_what_they_hold(sandbox: Sandbox, kind: str, caught: str, held: str) -> None:
    shown = "(vars(e), e.args, str(e))"
    test = f"try:\n    f({kind!r})\n    assert 0\nexcept {caught} as e:\n    assert {held}, {shown}"
    verdict = sandbox.run(Job(ERRORS, (test,), ("f",), setup="import json"))
    assert verdict.passed == 1, verdict.tests[0]


def test_the_text_of_an_exception_is_found_by_the_test_runner(sandbox: Sandbox) -> None:
    tests = """
import unittest
class T(unittest.TestCase):
    def test_text(self):
        with self.assertRaisesRegex(ValueError, 'code 7') as caught: f('own')
        self.assertEqual(caught.exception.code, 7)
        self.assertNotIsInstance(caught.exception, KeyError)
    def test_class(self):
        with self.assertRaises(E): f('own')
        with self.assertRaises(E): raise E('here')
        self.assertEqual(str(E('here')), 'here')
"""
    verdict = sandbox.run(Job(ERRORS, (tests,), ("f", "E"), kind="unittest"))
    assert verdict.passed == 2, verdict.tests


def test_asyncio_runs_what_an_asynchronous_function_returns(sandbox: Sandbox) -> None:
    program = (
        "import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    if not x: raise KeyError(x)\n    return x + 1"
    )
    tests = (
        "assert asyncio.run(f(2)) == 3",
        "async def both(): return await asyncio.gather(f(1), f(2))\nassert asyncio.run(both()) == [2, 3]",
        "try:\n    asyncio.run(f(0))\n    assert False\nexcept KeyError: pass",
    )
    verdict = sandbox.run(Job(program, tests, ("f",), setup="import asyncio"))
    assert verdict.passed == 3, verdict.tests


def test_a_dictionary_with_defaults_keeps_them(sandbox: Sandbox) -> None:
    program = (
        "from collections import defaultdict\ndef f(kind): return defaultdict(kind, a=1)\n"
        "def g(): return defaultdict(lambda: 5, a=1)"
    )
    tests = (
        "assert f(list)['q'] == [] and f(list) == {'a': 1}",
        "assert f(int)['q'] == 0 and f(str)['q'] == '' and f(dict)['q'] == {} and f(set)['q'] == set()",
        "try:\n    f(None)['q']\n    assert False\nexcept KeyError: pass",
        "assert g() == {'a': 1}",
    )
    verdict = sandbox.run(Job(program, tests, ("f", "g")))
    assert verdict.passed == 4, verdict.tests
