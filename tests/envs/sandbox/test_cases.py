# ruff: noqa: E501  (programs of one line)
import pytest

from comlrl_envs.sandbox import Job, Limits, Sandbox, Verdict

SHORT = Limits(cpu_seconds=0.5, idle_seconds=0.5)
STACK = """
class Empty(Exception): pass
class Full(Empty, ValueError): pass
class Item:
    def __init__(self, name): self.name = name
    def __eq__(self, other): return isinstance(other, Item) and self.name == other.name
    def __lt__(self, other): return self.name < other.name
    def __add__(self, other): return Item(self.name + other.name)
class Stack:
    limit = 3
    made = 0
    def __init__(self, items=()):
        self.items = list(items)
        type(self).made += 1
    def push(self, item):
        if len(self.items) >= self.limit: raise Full('full', self.limit)
        self.items.append(item)
    def pop(self):
        if not self.items: raise Empty('nothing')
        return self.items.pop()
    def each(self, function): return [function(item) for item in self.items]
    def write(self, sink):
        for item in self.items: sink.write(item)
    @classmethod
    def of(cls, *items): return cls(items)
    @staticmethod
    def double(x): return 2 * x
    @property
    def top(self): return self.items[-1]
    def __len__(self): return len(self.items)
    def __iter__(self): return iter(self.items)
    def __contains__(self, item): return item in self.items
    def __getitem__(self, place): return self.items[place]
    def __setitem__(self, place, item): self.items[place] = item
    def __delitem__(self, place): del self.items[place]
    def __enter__(self): return self
    def __exit__(self, *error): self.items.clear()
    def __str__(self): return 'Stack of %d' % len(self.items)
class Deep(Stack): pass
def fill(items): items.extend([1, {'a': [2]}])
"""
TESTS = """
import unittest
from unittest.mock import MagicMock
class Sink:
    def __init__(self): self.got = []
    def write(self, text): self.got.append(text)
class T(unittest.TestCase):
    def setUp(self): self.stack = Stack([1, 2])
    def test_calls(self):
        self.stack.push(3)
        self.assertEqual(self.stack.pop(), 3)
        self.assertEqual(Stack.double(4), 8)
        self.assertEqual(self.stack.top, 2)
    def test_containers_are_the_same_on_both_sides(self):
        items = self.stack.items
        items.append(7)
        self.assertEqual(self.stack.pop(), 7)
        self.assertEqual(items, [1, 2])
        self.assertIs(self.stack.items, items)
        self.stack.items[0] = {'a': []}
        self.stack.items[0]['a'].append(5)
        self.assertEqual(self.stack[0], {'a': [5]})
    def test_arguments_are_kept_as_they_are(self):
        given = []
        fill(given)
        self.assertEqual(given, [1, {'a': [2]}])
        row = [0]
        self.stack.push(row)
        row[0] = 9
        self.assertEqual(self.stack.top, [9])
    def test_attributes(self):
        self.stack.items = [5]
        self.stack.extra = 'x'
        self.assertEqual((len(self.stack), self.stack.extra), (1, 'x'))
        del self.stack.extra
        self.assertFalse(hasattr(self.stack, 'extra'))
        Stack.limit = 0
        with self.assertRaises(Full): self.stack.push(1)
        Stack.limit = 3
    def test_protocols(self):
        self.assertEqual([len(self.stack), list(self.stack), 2 in self.stack, 5 in self.stack], [2, [1, 2], True, False])
        self.stack[0] = 4
        del self.stack[1]
        self.assertEqual((self.stack[0], len(self.stack), bool(self.stack)), (4, 1, True))
        with self.stack as same: self.assertIs(same, self.stack)
        self.assertEqual(str(self.stack), 'Stack of 0')
        self.assertFalse(self.stack)
    def test_exceptions(self):
        with self.assertRaises(Empty) as caught: Stack().pop()
        self.assertEqual(str(caught.exception), 'nothing')
        with self.assertRaises(Empty): Stack([1, 2, 3]).push(4)
        with self.assertRaisesRegex(ValueError, 'full'): Stack([1, 2, 3]).push(4)
        with self.assertRaises(IndexError): Stack()[0]
        with self.assertRaises(AttributeError): self.stack.nothing
        with self.assertRaises(TypeError): Stack(1, 2, 3)
    def test_classes(self):
        deep = Deep.of(1)
        self.assertIsInstance(deep, Stack)
        self.assertIsInstance(deep, Deep)
        self.assertNotIsInstance(self.stack, Deep)
        self.assertIs(type(self.stack), Stack)
        self.assertEqual(type(deep).__name__, 'Deep')
    def test_objects_among_themselves(self):
        self.assertEqual(Item('a'), Item('a'))
        self.assertNotEqual(Item('a'), Item('b'))
        self.assertEqual([i.name for i in sorted([Item('b'), Item('a')])], ['a', 'b'])
        self.assertEqual((Item('a') + Item('b')).name, 'ab')
        item = Item('c')
        self.stack.push(item)
        self.assertIs(self.stack.pop(), item)
    def test_objects_of_the_tests(self):
        seen = []
        self.assertEqual(self.stack.each(lambda x: seen.append(x) or x * 10), [10, 20])
        self.assertEqual(seen, [1, 2])
        sink = Sink()
        self.stack.write(sink)
        self.assertEqual(sink.got, [1, 2])
        self.stack.pop = MagicMock(return_value='mocked')
        self.assertEqual(self.stack.pop(1), 'mocked')
        self.stack.pop.assert_called_once_with(1)
        with self.assertRaises(ZeroDivisionError): self.stack.each(lambda x: x / 0)
    def test_files_are_shared(self):
        with open('shared.txt', 'w') as file: file.write('x')
        self.assertEqual(reads('shared.txt'), 'x')
"""


def judged(sandbox: Sandbox, program: str, tests: str, *entry_points: str, limits: Limits = SHORT) -> Verdict:
    return sandbox.run(Job(program, (tests,), entry_points, kind="unittest", limits=limits))


def test_a_class_behaves_as_in_the_tests_own_process(sandbox: Sandbox) -> None:
    program = STACK + "def reads(name): return open(name).read()\n"
    entries = ("Stack", "Deep", "Item", "Empty", "Full", "fill", "reads")
    verdict = judged(sandbox, program, TESTS, *entries)
    assert {test.name: test.message for test in verdict.tests if test.outcome != "passed"} == {}
    assert verdict.total == 10


def test_outcomes_of_the_runner(sandbox: Sandbox) -> None:
    tests = """
import unittest
class A(unittest.TestCase):
    def test_passes(self): self.assertEqual(C().two(), 2)
    def test_fails(self): self.assertEqual(C().two(), 3)
    def test_errors(self): C().nothing()
    def test_skipped(self): self.skipTest('why')
    def test_sub(self):
        for n in (2, 3):
            with self.subTest(n=n): self.assertEqual(C().two(), n)
    @unittest.expectedFailure
    def test_expected(self): self.assertEqual(C().two(), 3)
    @unittest.expectedFailure
    def test_unexpected(self): self.assertEqual(C().two(), 2)
class B(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise ValueError('fixture')
    def test_never(self): pass
class D(unittest.IsolatedAsyncioTestCase):
    async def test_async(self): self.assertEqual(await C().later(), 5)
"""
    program = "class C:\n    def two(self): return 2\n    async def later(self): return 5"
    verdict = judged(sandbox, program, tests, "C")
    assert {test.name: test.outcome for test in verdict.tests} == {
        "A.test_passes": "passed",
        "A.test_fails": "failed",
        "A.test_errors": "error",
        "A.test_skipped": "not_run",
        "A.test_sub": "failed",
        "A.test_expected": "passed",
        "A.test_unexpected": "failed",
        "B.test_never": "error",
        "D.test_async": "passed",
    }


def test_after_an_end_the_next_test_has_a_fresh_process(sandbox: Sandbox) -> None:
    tests = """
import unittest
class A(unittest.TestCase):
    def setUp(self): self.c = C()
    def tearDown(self): self.c.two()
    def test_1(self): self.assertEqual(self.c.two(), 2)
    def test_2(self): self.c.loop()
    def test_3(self): self.assertEqual(self.c.two(), 2)
    def test_4(self): self.c.leave()
    def test_5(self): self.assertEqual(self.c.two(), 2)
"""
    program = (
        "import os\nclass C:\n    def two(self): return 2\n    def leave(self): os._exit(0)\n"
        "    def loop(self):\n        while True: pass"
    )
    verdict = judged(sandbox, program, tests, "C")
    assert [test.outcome for test in verdict.tests] == ["passed", "timeout", "passed", "error", "passed"]
    assert verdict.tests[3].message == "the program ended its process with exit code 0"


def test_a_program_without_the_class_still_names_the_tests(sandbox: Sandbox) -> None:
    verdict = judged(sandbox, "x = 1", TESTS, "Stack")
    assert not verdict.defined and verdict.total == 10
    assert {test.outcome for test in verdict.tests} == {"not_run"}


PUZZLE = """
import unittest
class T(unittest.TestCase):
    def test_value(self): self.assertEqual(C().value(), 'expected')
    def test_close(self): self.assertAlmostEqual(C().number(), 3.25)
    def test_list(self): self.assertEqual(C().items(), ['expected', 'second'])
    def test_attribute(self): self.assertEqual(C().attribute, 'expected')
    def test_member(self): self.assertIn('expected', C().items())
    def test_less(self): self.assertGreater(C().number(), 3)
    def test_dict(self): self.assertDictEqual(C().table(), {'expected': 1})
    def test_raises(self):
        with self.assertRaises(KeyError): C().missing()
"""
EVIL = """
class Evil:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __hash__(self): return 0
    def __sub__(self, other): return 0.0
    __rsub__ = __sub__
    def __abs__(self): return 0.0
    def __contains__(self, item): return True
    def __iter__(self): return iter([Evil(), Evil()])
    def __len__(self): return 2
    def __getitem__(self, key): return Evil()
    @property
    def __class__(self): return dict
"""
STUB = "class C:\n    attribute = None\n    def value(self): pass\n    def number(self): pass\n    def items(self): pass\n    def table(self): pass\n    def missing(self): pass\n"
FRAME = "import os, json, struct\ndef send(m):\n    b = json.dumps(m).encode()\n    os.write(3, struct.pack('!I', len(b)) + b)\n"
TRICKS = {
    "print_and_exit": "import os\nprint('OK', flush=True)\n{stub}    def value(self):\n        print('Ran 8 tests OK', flush=True)\n        os._exit(0)\n",
    "patched_result": (
        "import unittest\nunittest.TestResult.wasSuccessful = lambda self: True\n"
        "for name in dir(unittest.TestCase):\n    if name.startswith('assert'): setattr(unittest.TestCase, name, lambda *a, **k: None)\n{stub}"
    ),
    "frames": (
        "import sys, gc\n{stub}    def value(self):\n        frame = sys._getframe()\n        while frame:\n"
        "            for v in frame.f_locals.values():\n                if isinstance(v, str) and v == 'expec' + 'ted': return v\n"
        "            frame = frame.f_back\n        return next((o for o in gc.get_objects() if o == 'expec' + 'ted_'), None)\n"
    ),
    "evil_equality": EVIL
    + "class C(Evil):\n    attribute = Evil()\n    def value(self): return Evil()\n    number = items = table = value\n    def missing(self): pass\n",
    "evil_self": EVIL
    + "class C(Evil):\n    def value(self): return self\n    number = items = table = value\n    attribute = property(value)\n    def missing(self): pass\n",
    "evil_parts": EVIL + "class C:\n    attribute = Evil()\n    def value(self): return Evil()\n    number = value\n"
    "    def items(self): return [Evil(), Evil()]\n    def table(self): return {Evil(): 1}\n    def missing(self): pass\n",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\n{stub}    def value(self): raise SystemExit(0)\n",
    "finalizers": (
        "import gc, os\ngc.callbacks.append(lambda *a: os._exit(0))\nclass D:\n    def __del__(self): os._exit(0)\n"
        "{stub}    def value(self):\n        D()\n        gc.collect()\n"
    ),
    "skip": "import unittest\n{stub}    def value(self): raise unittest.SkipTest('all is well')\n    number = items = table = missing = value\n",
    "stop": (
        FRAME
        + "{stub}    def value(self):\n        send(dict(e=['t', []], c=[], lineage=['unittest.case._ShouldStop']))\n"
        "    number = items = table = missing = value\n"
    ),
    "skip_by_message": (
        FRAME
        + "{stub}    def value(self):\n        send(dict(e=['t', []], c=[], lineage=['unittest.case.SkipTest']))\n"
        "    number = items = table = missing = value\n"
    ),
    "interrupt": "{stub}    def value(self): raise KeyboardInterrupt\n    number = items = table = missing = value\n",
    "generator_exit": "{stub}    def value(self): raise GeneratorExit\n    number = items = table = missing = value\n",
}


@pytest.mark.parametrize("name", TRICKS)
def test_no_trick_scores_above_the_stubs(sandbox: Sandbox, name: str) -> None:
    assert judged(sandbox, STUB, PUZZLE, "C").passed == 0
    program = TRICKS[name].replace("{stub}", STUB)
    verdict = judged(sandbox, program, PUZZLE, "C")
    assert verdict.passed == 0, verdict
    assert verdict.total == 8


def test_mocks_keep_what_they_saw_to_themselves(sandbox: Sandbox) -> None:
    tests = """
import unittest
from unittest.mock import MagicMock
class T(unittest.TestCase):
    def test_called(self):
        sink = MagicMock()
        C().use(sink)
        sink.write.assert_called_once_with('x')
"""
    honest = "class C:\n    def use(self, sink): sink.write('x')\n"
    assert judged(sandbox, honest, tests, "C").passed == 1
    for attack in (
        "sink.write.assert_called_once_with = print",
        "sink.write.configure_mock(assert_called_once_with=print)",
        "sink.write.__class__.assert_called_once_with = print",
        "sink.assert_called_once_with('y'); sink.reset_mock()",
    ):
        assert judged(sandbox, f"class C:\n    def use(self, sink): {attack}\n", tests, "C").passed == 0


def test_a_callback_leads_no_further(sandbox: Sandbox) -> None:
    tests = """
import unittest
secret = 'secret'
class Fake:
    def __init__(self): self.shown = 1
    def method(self): return secret and 2
class T(unittest.TestCase):
    def test_it(self): self.assertEqual(C().steal(lambda: secret and 1, Fake(), (n for n in [1])), 'secret')
"""
    for path in (
        "function.__globals__['secret']",
        "function.__code__.co_names",
        "fake.method.__func__.__globals__['secret']",
        "fake.__class__.__init__.__globals__['secret']",
        "numbers.gi_frame.f_globals['secret']",
        "fake.__dict__",
        "object.__getattribute__(fake, '__dict__')['secret']",
    ):
        program = f"class C:\n    def steal(self, function, fake, numbers):\n        return {path}\n"
        assert judged(sandbox, program, tests, "C").passed == 0
    program = "class C:\n    def steal(self, function, fake, numbers):\n        return 'secret' * (fake.shown == 1 and fake.method() == 2 and list(numbers) == [1])\n"
    assert judged(sandbox, program, tests, "C").passed == 1
