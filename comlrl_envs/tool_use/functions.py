"""Functions as their documents describe them, and what is wrong with a call by them alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comlrl_envs.errors import closest
from comlrl_envs.tool_use.calls import Call

TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
"""By name in a document; those of JSON Schema that have other names are read too."""
_OTHER_NAMES = {"number": "float", "object": "dict"}
LISTS = ("array", "tuple")


@dataclass(frozen=True, eq=False)
class Function:
    """A function that can be called.

    Attributes:
        name: May have dots.
        description: What it does.
        parameters: By name, in order, the schema of each with its ``"type"``.
        required: Names of those that must be given.
    """

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...]

    def shown(self) -> str:
        """Its document for a prompt, in JSON, on one line."""
        parameters = {"type": "dict", "properties": self.parameters, "required": list(self.required)}
        return json.dumps(
            {"name": self.name, "description": self.description, "parameters": parameters}, ensure_ascii=False
        )


def function(document: Mapping[str, Any]) -> Function:
    """The function of a document, in the form of the public set or of OpenAI-compatible interfaces.

    Raises:
        ValueError: The document is of no such form; the message names the part.
    """
    inner = document.get("function", document) if isinstance(document, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str) or not inner["name"]:
        raise ValueError(f"a function is {str(document)[:60]!r}; expected a document with its 'name'")
    if not all(part.isidentifier() for part in inner["name"].split(".")):
        raise ValueError(f"a function is called {inner['name']!r:.60}; expected a name such as 'f' or 'group.f'")
    schema = inner.get("parameters", {})
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        raise ValueError(f"the function {inner['name']!r} has no mapping 'parameters' with 'properties'")
    required = schema.get("required", [])
    if not isinstance(required, list | tuple) or not set(required) <= set(properties):
        raise ValueError(
            f"the function {inner['name']!r} requires {required!r}; expected names among {list(properties)}"
        )
    parameters = {name: _typed(inner["name"], name, each) for name, each in properties.items()}
    return Function(inner["name"], str(inner.get("description", "")), parameters, tuple(required))


def _typed(function: str, name: str, schema: Any) -> Mapping[str, Any]:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    kind = _OTHER_NAMES.get(kind, kind) if isinstance(kind, str) else kind
    if kind not in TYPES:
        raise ValueError(
            f"the parameter {name!r} of {function!r} has the type {kind!r}; expected one of {', '.join(TYPES)}"
        )
    if not isinstance(schema.get("items", {}), Mapping):
        raise ValueError(f"the parameter {name!r} of {function!r} has items {schema['items']!r:.40}; expected a schema")
    return {**schema, "type": kind}


def problems(call: Call, functions: Sequence[Function]) -> tuple[str, ...]:
    """What is wrong with a call by the documents alone, in words for whoever issued it, each behind its code."""
    own = next((each for each in functions if each.name == call.name), None)
    if own is None:
        names = [each.name for each in functions]
        return (f"unknown_function: {call.name:.60} is none of your functions.{closest(call.name, names)}",)
    found = [f"missing_required: {call.name} needs {name}" for name in own.required if name not in call.arguments]
    for name, value in call.arguments.items():
        if name not in own.parameters:
            found.append(f"unexpected_param: {call.name} has no {name:.60}.{closest(name, own.parameters)}")
        else:
            found += _type_problem(call.name, name, value, own.parameters[name])
    return tuple(found)


def _type_problem(function: str, name: str, value: Any, schema: Mapping[str, Any]) -> list[str]:
    kind = schema["type"]
    if not fits(value, kind):
        return [f"type_error:simple: {name} of {function} is a {type(value).__name__}, expected {kind}"]
    inner = str(schema.get("items", {}).get("type")) if kind in LISTS else ""
    inner = _OTHER_NAMES.get(inner, inner)
    if inner in TYPES and not all(fits(each, inner) for each in value):
        return [f"type_error:nested: {name} of {function} has parts that are no {inner}"]
    return []


def fits(value: Any, kind: str) -> bool:
    """Whether a value has the type of a document; an integer is a float too, a truth value no integer."""
    if kind == "any":
        return True
    if kind == "float" and type(value) is int:
        return True
    if kind == "tuple" and type(value) is tuple:
        return True
    return type(value) is TYPES[kind]
