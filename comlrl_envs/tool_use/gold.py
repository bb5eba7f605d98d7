"""Calls that a gold answer accepts, and the answer that accepts one call alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from comlrl_envs.tool_use.calls import Call
from comlrl_envs.tool_use.functions import Function
from comlrl_envs.tool_use.matching import LEFT_OUT, Answer


def accepted_call(answer: Answer, functions: Sequence[Function] = (), *, short: bool = False) -> Call:
    """The call with the first accepted value of every argument.

    Args:
        answer: Gold.
        functions: With the document of the function, what it requires is given, and what it does not have is not.
        short: Leave out whatever may be; by default only what has the empty text as its first value.

    >>> accepted_call(("f", {"x": [1, 2], "unit": ["m", ""]})).text
    'f(unit="m", x=1)'
    >>> accepted_call(("f", {"x": [1, 2], "unit": ["m", ""]}), short=True).text
    'f(x=1)'
    """
    name, accepted = answer
    own = next((each for each in functions if each.name == name), None)
    if own is None:
        return Call(name, _first(accepted, short))
    given = _first({key: values for key, values in accepted.items() if key in own.parameters}, short)
    left = [key for key in own.required if key in accepted and key not in given]
    return Call(name, {**given, **{key: _plain(_values(accepted[key])[0], short) for key in left}})


def _values(accepted: Sequence[Any]) -> Sequence[Any]:
    """The accepted values but for the mark of what may be left out, if there are any."""
    return [each for each in accepted if each != LEFT_OUT] or accepted


def _first(accepted: Mapping[str, Sequence[Any]], short: bool) -> dict[str, Any]:
    given = {}
    for key, values in accepted.items():
        left_out = LEFT_OUT in values if short else values[0] == LEFT_OUT
        if not left_out:
            given[key] = _plain(values[0], short)
    return given


def _plain(value: Any, short: bool) -> Any:
    """A value: gold writes mappings, also in lists, with lists of accepted values."""
    if isinstance(value, dict):
        return _first(value, short)
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return [_first(each, short) for each in value]
    return value


def answer_for(call: Call) -> Answer:
    """The gold answer that accepts this call alone.

    >>> answer_for(Call("f", {"x": {"y": 1}}))
    ('f', {'x': [{'y': [1]}]})
    """
    return call.name, {key: [_accepting(value)] for key, value in call.arguments.items()}


def _accepting(value: Any) -> Any:
    """The inverse of ``_plain``."""
    if isinstance(value, dict):
        return {key: [_accepting(each)] for key, each in value.items()}
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return [_accepting(each) for each in value]
    return value
