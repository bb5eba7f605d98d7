"""Matching: every gold row, and mutants of it, beside the leaderboard's own checker."""

import copy
import itertools
import json
import random

import pytest

from comlrl_envs.sources.tool_sets import official_rows
from comlrl_envs.tool_use.calls import Call
from comlrl_envs.tool_use.functions import function
from comlrl_envs.tool_use.gold import accepted_call
from comlrl_envs.tool_use.matching import argument_score, exact, fault, matched, similarity
from tests.envs.tool_use.official import official_checker
from tests.envs.tool_use.wheel import wheel_path

CATEGORIES = ("parallel", "parallel_multiple", "live_parallel", "live_parallel_multiple", "multiple", "simple_python")
# Gold that says an argument may be left out which its function requires: nobody can leave out whatever may be.
OMISSION_FAILS = {
    "parallel_88", "parallel_multiple_87", "parallel_multiple_119", "simple_python_17", "simple_python_200",
}  # fmt: skip
# Rows on which the official matching, which takes the first call that fits, is too greedy in some order of the calls.
GREEDY_FAILS = {"parallel_178"}
MUTATIONS = ("type", "extra", "missing", "order", "nested", "value", "argument", "again")


@pytest.fixture(scope="module")
def rows():
    wheel = wheel_path()
    return [(category, row) for category in CATEGORIES for row in official_rows(wheel, category)]


@pytest.fixture(scope="module")
def official():
    return official_checker(wheel_path())


def gold_calls(row, **kwargs):
    functions = [function(document) for document in row["function"]]
    answers = [answer for gold in row["ground_truth"] for answer in gold.items()]
    return functions, answers, [accepted_call(answer, functions, **kwargs) for answer in answers]


def test_first_accepted_answers_are_exact_on_every_row(rows):
    assert len(rows) == 200 + 200 + 16 + 24 + 200 + 400
    fails = []
    for _, row in rows:
        functions, answers, calls = gold_calls(row)
        if not exact(calls, functions, answers) or argument_score(calls, functions, answers) != 1.0:
            fails.append(row["id"])
    assert fails == []


def test_what_may_be_left_out_may_be_left_out(rows):
    def left_out(row):
        functions, answers, _ = gold_calls(row)
        return exact([accepted_call(answer, short=True) for answer in answers], functions, answers)

    assert {row["id"] for _, row in rows if not left_out(row)} == OMISSION_FAILS


def another(value, draws):
    if isinstance(value, str):
        return draws.choice([f"{value}x", f" {value.upper()}.", value[1:]])
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else value


def mutated(calls, kind, draws):
    calls = [Call(call.name, copy.deepcopy(dict(call.arguments))) for call in calls]
    victim = draws.randrange(len(calls))
    arguments = dict(calls[victim].arguments)
    key = draws.choice(list(arguments)) if arguments else None
    value = arguments.get(key)
    if kind == "missing":
        return calls[:victim] + calls[victim + 1 :]
    if kind == "order":
        return draws.sample(calls, len(calls))
    if kind == "again":
        return [*calls, calls[victim]]
    if kind == "extra":
        arguments["surplus"] = 1
    elif key is None:
        return calls
    elif kind == "type":
        others = [str(value), [value], (value,), 1, 1.0, True, None, {"a": value}, "x"]
        arguments[key] = draws.choice(others)
    elif kind == "argument":
        del arguments[key]
    elif kind == "nested" and isinstance(value, list) and value:
        arguments[key] = draws.choice([value[::-1], value + value[:1], value[1:], tuple(value)])
    elif kind == "nested" and isinstance(value, dict) and value:
        arguments[key] = {name: each for name, each in value.items() if name != next(iter(value))}
    else:
        arguments[key] = another(value, draws)
    calls[victim] = Call(calls[victim].name, arguments)
    return calls


def test_verdicts_and_codes_are_those_of_the_official_checker(rows, official):
    draws = random.Random(7)
    compared = codes = 0
    differ = set()
    for category, row in rows:
        for short in (False, True):
            functions, answers, gold = gold_calls(row, short=short)
            for kind in (None, *MUTATIONS, *MUTATIONS):
                calls = gold if kind is None else mutated(gold, kind, draws)
                written = [{call.name: dict(call.arguments)} for call in calls]
                verdict = official(row["function"], written, row["ground_truth"], category)
                if exact(calls, functions, answers) != verdict["valid"]:
                    differ.add((row["id"], kind, verdict["valid"]))
                compared += 1
                if category == "simple_python" and len(calls) == 1:
                    code = None if verdict["valid"] else verdict["error_type"]
                    assert fault(calls[0], functions, answers[0]) == code
                    codes += 1
    assert compared - 2 * len(rows) >= 30_000 and codes >= 10_000
    assert {(name, valid) for name, _, valid in differ} <= {(name, False) for name in GREEDY_FAILS}


def test_the_rows_on_which_the_official_matching_is_too_greedy(rows, official):
    found = set()
    for category, row in rows:
        functions, answers, calls = gold_calls(row)
        for order in itertools.islice(itertools.permutations(calls), 720) if len(calls) > 1 else ():
            written = [{call.name: dict(call.arguments)} for call in order]
            if (
                category != "multiple"
                and not official(row["function"], written, row["ground_truth"], category)["valid"]
            ):
                assert exact(order, functions, answers)
                found.add(row["id"])
    assert found == GREEDY_FAILS


DOCUMENT = {
    "name": "f",
    "parameters": {"properties": {"x": {"type": "integer"}, "y": {"type": "string"}}, "required": ["x"]},
}


def test_the_best_matching_is_found_where_the_official_one_is_too_greedy(official):
    document = {"name": "f", "parameters": {"type": "dict", **DOCUMENT["parameters"]}}
    gold = [{"f": {"x": [1, 2]}}, {"f": {"x": [1]}}]
    calls = [Call("f", {"x": 1}), Call("f", {"x": 2})]
    functions, answers = [function(document)], [each for one in gold for each in one.items()]
    assert not official([document], [{"f": {"x": 1}}, {"f": {"x": 2}}], gold, "parallel")["valid"]
    assert exact(calls, functions, answers)
    assert sorted(matched(calls, functions, answers)) == [(0, 1), (1, 0)]


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        ({"x": 1}, 1.0),
        ({"x": 2}, 0.0),
        ({"x": 1, "y": "a"}, 1.0),
        ({"x": 1, "y": "b"}, 0.5),
        ({"x": 1, "z": 0}, 0.5),
        ({}, 0.0),
    ],
)
def test_similarity_is_the_share_of_arguments(arguments, near):
    answer = ("f", {"x": [1], "y": ["a", ""]})
    assert similarity(Call("f", arguments), answer, [function(DOCUMENT)]) == near
    assert similarity(Call("g", arguments), answer, [function(DOCUMENT)]) == 0.0


@pytest.mark.parametrize("accepted", [5, "text", None, {"x": 1}, [[[]]], [{"a": 1}], [None]])
@pytest.mark.parametrize("kind", ["integer", "string", "array", "dict", "tuple", "any"])
@pytest.mark.parametrize("value", [1, "a", [1], {"a": 1}, [{"a": 1}], None, (1,)])
def test_odd_gold_is_no_crash(accepted, kind, value):
    schema = {"type": kind, "items": {"type": "dict"}}
    document = {"name": "f", "parameters": {"properties": {"x": schema}, "required": []}}
    wanted = accepted if isinstance(accepted, list) else [accepted]
    assert isinstance(fault(Call("f", {"x": value}), [function(document)], ("f", {"x": wanted})), str | None)
    assert json.dumps(document)
