"""When a call is the one that gold asks for, by the rules of the Berkeley Function Calling Leaderboard.

A gold call has for each argument the values that are accepted; ``""`` among them says that it may be left out. Types
are those of the function's document, compared exactly but for an integer in the place of a float; texts are compared
without spaces, case and the marks ``, . / - _ * ^``. Several calls are matched with several gold calls one to one, and
the best matching counts, where the leaderboard's checker takes the first that fits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from comlrl_envs.tool_use.assignment import best_pairs
from comlrl_envs.tool_use.calls import Call
from comlrl_envs.tool_use.functions import LISTS, TYPES, Function

Answer: TypeAlias = tuple[str, Mapping[str, Sequence[Any]]]
"""A gold call: its name, and by argument the accepted values."""
LEFT_OUT = ""
_MARKS = re.compile(r"[ ,./\-_*^]")


def fault(call: Call, functions: Sequence[Function], answer: Answer) -> str | None:
    """What is wrong with a call beside a gold one.

    Args:
        call: The call.
        functions: Those that were shown.
        answer: The gold call.

    Returns:
        None if it is accepted, or else the code of the leaderboard's checker for the first thing wrong.
    """
    name, accepted = answer
    own = next((each for each in functions if each.name == name), None)
    if own is None or call.name != name:
        return "simple_function_checker:wrong_func_name"
    if any(each not in call.arguments for each in own.required):
        return "simple_function_checker:missing_required"
    for key, value in call.arguments.items():
        if key not in own.parameters or key not in accepted:
            return "simple_function_checker:unexpected_param"
        wrong = _value_fault(value, own.parameters[key], accepted[key])
        if wrong is not None:
            return wrong
    if any(key not in call.arguments and LEFT_OUT not in values for key, values in accepted.items()):
        return "simple_function_checker:missing_optional"
    return None


def _value_fault(value: Any, schema: Mapping[str, Any], accepted: Sequence[Any]) -> str | None:
    kind = str(schema["type"])
    if kind == "tuple" and type(value) is tuple:
        value = list(value)
    if kind == "float" and type(value) is int:
        value = float(value) if abs(value) < 1 << 1000 else value
    inner = TYPES.get(str(schema.get("items", {}).get("type"))) if kind in LISTS else None
    variable, wrong = _type_fault(value, TYPES[kind], inner, accepted)
    if wrong is not None or variable:
        return wrong or _membership(value, accepted)
    if kind == "dict":
        return _mapping_fault(value, accepted)
    if kind in LISTS and inner is dict:
        return _mappings_fault(value, accepted)
    if TYPES[kind] is str:
        return None if _norm(value) in map(_norm, accepted) else "value_error:string"
    if kind in LISTS:
        return None if _norm_parts(value) in map(_norm_parts, accepted) else "value_error:list/tuple"
    return _membership(value, accepted)


def _membership(value: Any, accepted: Sequence[Any]) -> str | None:
    return None if value in accepted else "value_error:others"


def _type_fault(
    value: Any, kind: type[Any], inner: type[Any] | None, accepted: Sequence[Any]
) -> tuple[bool, str | None]:
    """Whether the value stands for a variable, which is looked up as it is, and what is wrong with its type."""
    gold = next((type(each) for each in accepted if each != LEFT_OUT), None)
    if type(value) is kind:
        if inner is None:
            return gold not in (None, kind), None
        if any(type(each) is not list or _parts_fit(value, inner, each) for each in accepted):
            return gold not in (None, kind), None
        return False, "type_error:nested"
    if gold is not None and type(value) is gold:
        return True, None
    return False, "type_error:simple"


def _parts_fit(value: Sequence[Any], inner: type, accepted: Sequence[Any]) -> bool:
    return all(_type_fault(each, inner, None, accepted)[1] is None for each in value)


def _norm(value: Any) -> Any:
    return _MARKS.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


def _norm_parts(value: Any) -> Any:
    return [_norm(each) for each in value] if isinstance(value, list | tuple | str) else [value]


def _mapping_fault(value: Mapping[str, Any], accepted: Sequence[Any]) -> str | None:
    wrong: str | None = "dict_checker:unclear"
    for each in accepted:
        if isinstance(each, Mapping) and isinstance(value, Mapping):
            wrong = _one_mapping_fault(value, each)
            if wrong is None:
                return None
    return wrong


def _one_mapping_fault(value: Mapping[str, Any], accepted: Mapping[str, Sequence[Any]]) -> str | None:
    for key, part in value.items():
        if key not in accepted:
            return "value_error:dict_key"
        if _norm(part) not in _norm_parts(accepted[key]):
            return "value_error:dict_value"
    if any(key not in value and LEFT_OUT not in _norm_parts(values) for key, values in accepted.items()):
        return "value_error:dict_key"
    return None


def _mappings_fault(value: Sequence[Any], accepted: Sequence[Any]) -> str | None:
    wrong: str | None = "list_dict_checker:unclear"
    for each in accepted:
        if not isinstance(each, list | str) or len(value) != len(each):
            wrong = "value_error:list_dict_count"
            continue
        faults = (_mapping_fault(part, [gold]) for part, gold in zip(value, each, strict=True))
        wrong = next((one for one in faults if one is not None), None)
        if wrong is None:
            return None
    return wrong


def matched(
    calls: Sequence[Call], functions: Sequence[Function], answers: Sequence[Answer]
) -> tuple[tuple[int, int], ...]:
    """A largest set of pairs, each call and each answer in one at most, of which each answer accepts the call."""
    fits = [[float(fault(call, functions, answer) is None) for answer in answers] for call in calls]
    return tuple(pair for pair in best_pairs(fits) if fits[pair[0]][pair[1]])


def exact(calls: Sequence[Call], functions: Sequence[Function], answers: Sequence[Answer]) -> bool:
    """Whether the calls are the gold ones, in any order."""
    return len(calls) == len(answers) == len(matched(calls, functions, answers))


def similarity(call: Call, answer: Answer, functions: Sequence[Function]) -> float:
    """How near a call is to a gold one, in ``[0, 1]``: 0 for another name, 1 if it is accepted.

    In between: of the arguments that must be given, or are and may be, the share that is accepted, less in proportion
    to the arguments that are not known.
    """
    name, accepted = answer
    own = next((each for each in functions if each.name == name), None)
    if own is None or call.name != name:
        return 0.0
    wanted = [key for key, values in accepted.items() if key in call.arguments or LEFT_OUT not in values]
    unknown = sum(key not in accepted or key not in own.parameters for key in call.arguments)
    right = sum(
        key in call.arguments
        and key in own.parameters
        and _value_fault(call.arguments[key], own.parameters[key], accepted[key]) is None
        for key in wanted
    )
    total = len(wanted) + unknown
    return right / total if total else 1.0


def argument_score(calls: Sequence[Call], functions: Sequence[Function], answers: Sequence[Answer]) -> float:
    """The best one-to-one sum of similarities, by gold call; 0 without one."""
    near = [[similarity(call, answer, functions) for answer in answers] for call in calls]
    return sum(near[row][column] for row, column in best_pairs(near)) / len(answers) if answers else 0.0
