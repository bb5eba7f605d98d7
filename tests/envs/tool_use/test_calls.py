"""Reading calls: what counts, what does not, and that nothing is run."""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comlrl_envs.tool_use.calls import MOST_CALLS, MOST_CHARS, Call, Read, read_calls
from comlrl_envs.tool_use.functions import function, problems

PROPERTIES = {"x": {"type": "integer"}, "y": {"type": "array", "items": {"type": "string"}}}
F = function({"name": "f", "parameters": {"properties": PROPERTIES, "required": ["x"]}})


def texts(reply, functions=()):
    return [call.text for call in read_calls(reply, functions).calls]


@pytest.mark.parametrize(
    "reply",
    [
        'f(x=1)\ng.h(y="a")',
        '[f(x=1), g.h(y="a")]',
        'f(x=1), g.h(y="a")',
        "f(x=1);\ng.h(y='a');",
        '```python\nf(x=1)\ng.h(y="a")\n```',
        '<think>f(x=9)</think>\n[f(x=1),\n g.h(y="a")]',
        '[{"name": "f", "arguments": {"x": 1}}, {"name": "g.h", "arguments": {"y": "a"}}]',
        '{"name": "f", "parameters": {"x": 1}}\n{"g.h": {"y": "a"}}',
        '[{"function": {"name": "f", "arguments": "{\\"x\\": 1}"}}, {"g.h": {"y": "a"}}]',
        'First:\nf(x=1)\nand then\ng.h(y="a")',
    ],
)
def test_two_calls_in_many_forms(reply):
    assert texts(reply) == ["f(x=1)", 'g.h(y="a")']


@pytest.mark.parametrize("reply", ["", "[]", " [] ", "```\n[]\n```", "<think>f(x=1)</think>"])
def test_no_call_is_no_error(reply):
    assert read_calls(reply) == Read()


def test_literals_keep_their_types():
    reply = "f(a=-1, b=+2.5, c=True, d=null, e=[1, (2,)], g={'k': {'l': false}}, h='true, null')"
    assert dict(read_calls(reply).calls[0].arguments) == {
        "a": -1, "b": 2.5, "c": True, "d": None, "e": [1, (2,)], "g": {"k": {"l": False}}, "h": "true, null",
    }  # fmt: skip
    assert len({Call("f", {"x": value}).text for value in (1, 1.0, True, "1", [1], (1,))}) == 6


def test_a_mapping_as_an_argument_is_no_call():
    assert texts("f(profile={'name': 'Bob', 'arguments': {}})") == ['f(profile={"name": "Bob", "arguments": {}})']


def test_arguments_by_position_take_the_documents_order():
    assert texts("f(1, ['a'])", [F]) == ['f(x=1, y=["a"])']
    assert not texts("f(1)") and not texts("f(1, ['a'], 3)", [F]) and not texts("f(1, x=2)", [F])


ATTACKS = [
    "__import__('os').system('touch {mark}')",
    "f(x=__import__('os').system('touch {mark}'))",
    "f(x=open('{mark}', 'w'))",
    "os.system(command=open('{mark}', 'w'))",
    "(lambda: open('{mark}', 'w'))()",
    "f(x=[open('{mark}', 'w') for _ in [1]])",
    "f(x=f\"{open('{mark}', 'w')}\")",
    "f(x=(y := 1))",
    "f(**{'x': 1})",
    "f(*[1])",
    "f(x=1, x=2)",
    "f(x=1)(y=2)",
    "f(x=1).g()",
    "f[0](x=1)",
    "a.b.c.d.e.f.g(x=1)",
    "__class__(x=1)",
    "f.__init__(x=1)",
    "f(__x=1)",
    "f(x=b'bytes')",
    "f(x=1j)",
    "f(x=...)",
    "f(x=1e999)",
    "f(x={1: 2})",
    "f(x={**a})",
    "f(x=1 + 1)",
    "f(x=not True)",
    "f(x=-'a')",
    "f(x=variable)",
    "await f(x=1)",
    "f(x=yield 1)",
    "ｆ(x=1) if True else 0",
    '{"name": "__init__", "arguments": {}}',
    '{"name": "f", "arguments": {"x": NaN}}',
    '{"name": "f", "arguments": {"x": Infinity}}',
    '{"name": "f", "arguments": {"x=1, y": 2}}',
    '{"name": "f(x=1)", "arguments": {}}',
    '{"name": "f", "arguments": {"class": 1}}',
    '{"name": "f", "arguments": 3}',
    '{"name": 3, "arguments": {}}',
    '{"a": 1, "b": 2}',
    f"f(x={'9' * 5000})",
    f"f(x={'[' * 500}{']' * 500})",
    f"f(x={'-' * 5000}1)",
    f"f({', '.join(f'k{number}=f({number})' for number in range(300))})",
]


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_what_is_no_plain_call_does_not_count_and_is_not_run(attack, tmp_path):
    mark = tmp_path / "mark"
    read = read_calls(attack.replace("{mark}", str(mark)))
    assert read.calls == () and read.errors and not mark.exists()
    assert all(len(error) < 200 for error in read.errors)


@pytest.mark.parametrize("depth", [*range(17, 1000, 40), 1500, 2960, 5000])
def test_no_depth_is_too_deep(depth):
    nested = "[" * depth + "]" * depth
    objects = '{"a":' * depth + "1" + "}" * depth
    for reply in (
        f"f(x={'-' * depth}1)",
        f"f(x={nested})",
        f"f(x={objects})",
        json.dumps({"name": "f", "arguments": f'{{"x": {nested}}}'}),
        json.dumps({"name": "f", "arguments": objects}),
    ):
        read = read_calls(reply)
        assert read.calls == () and read.errors


def test_one_bad_call_spoils_no_other():
    read = read_calls("f(x=1)\nf(x=g())\nf(x=2)")
    assert [call.text for call in read.calls] == ["f(x=1)", "f(x=2)"] and len(read.errors) == 1


def test_bounds():
    many = read_calls("\n".join(f"f(x={number})" for number in range(MOST_CALLS + 5)))
    assert len(many.calls) == MOST_CALLS and many.errors
    long = read_calls(f"f(x=1)\n{'y' * 1_000_000}")
    assert [call.text for call in long.calls] == ["f(x=1)"] and str(MOST_CHARS) in long.errors[0]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(), part, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["x", "y", "name"]), VALUES, max_size=3))
@settings(max_examples=300, deadline=None)
def test_the_text_of_a_call_is_read_back_as_the_call(arguments):
    arguments = json.loads(json.dumps(arguments).encode("utf-8", "replace"))
    text = Call("g.f", arguments).text
    read = read_calls(text)
    if len(text) < MOST_CHARS:
        assert [call.text for call in read.calls] == [Call("g.f", arguments).text] and not read.errors


@given(st.text(max_size=300) | st.text(alphabet="f(x=1){}[]'\",:\\ \n\x00<>", max_size=300))
@settings(max_examples=500, deadline=None)
def test_any_text_is_read(reply):
    read = read_calls(reply, [F])
    assert all(isinstance(problem, str) for call in read.calls for problem in problems(call, [F]))


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("ff(x=1)", "unknown_function"),
        ("f()", "missing_required"),
        ("f(x=1, z=2)", "unexpected_param"),
        ("f(x='1')", "type_error:simple"),
        ("f(x=True)", "type_error:simple"),
        ("f(x=1, y=[1])", "type_error:nested"),
    ],
)
def test_problems_have_codes(reply, code):
    (problem,) = problems(read_calls(reply).calls[0], [F])
    assert problem.startswith(f"{code}: ")
    assert not problems(read_calls("f(x=1, y=['a'])").calls[0], [F])


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({}, "name"),
        ({"name": "f", "parameters": []}, "parameters"),
        ({"name": "f", "parameters": {"properties": {"x": {"type": "colour"}}}}, "colour"),
        ({"name": "f", "parameters": {"properties": {}, "required": ["x"]}}, "requires"),
    ],
)
def test_bad_documents_are_named(document, told):
    with pytest.raises(ValueError, match=told):
        function(document)


def test_documents_of_other_interfaces_are_read():
    parameters = {"type": "object", "properties": {"x": {"type": "number"}}}
    shell = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    assert function(shell).parameters == {"x": {"type": "float"}} and os.linesep not in function(shell).shown()
