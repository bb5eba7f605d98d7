"""The parsers of the family's rows: of the leaderboard, of its sets on the hub, or written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from comlrl_envs.tasks import Row
from comlrl_envs.tool_use.calls import read_calls
from comlrl_envs.tool_use.functions import Function, function


def parse(row: Row) -> Row:
    """A row of ``tool_use/parallel``; one that is one already stays as it is.

    Args:
        row: A question of the leaderboard with its ``ground_truth``; a row of the hub's sets (``user_prompt``,
            ``function``, ``ground_truth``); or ``{"request", "functions", "answers"}``. ``answers`` is a list of
            ``{name: {argument: [accepted values]}}``; empty or missing: no call is right.

    Returns:
        ``request``, ``functions``, ``answers``, ``category``, and the row's other fields as they are.

    Raises:
        TypeError: A field is of another type.
        ValueError: A field is missing, or a gold call names a function or an argument that is not there.
    """
    row = _told(row)
    known = {
        "question",
        "user_prompt",
        "request",
        "function",
        "functions",
        "ground_truth",
        "answers",
        "official_category",
    }
    request = row["request"] if "request" in row else row.get("user_prompt", row.get("question"))
    documents = row.get("functions", row.get("function"))
    if not isinstance(documents, list | tuple) or not documents:
        raise ValueError("it has no functions; expected a list of documents in 'functions'")
    answers = _answers(row.get("answers", row.get("ground_truth") or []), _distinct(documents))
    own = {
        "request": _words(request),
        "functions": [_flat(each) for each in documents],
        "answers": answers,
        "category": str(row.get("category", row.get("official_category", ""))),
    }
    return {**{name: value for name, value in row.items() if name not in known}, **own}


def _distinct(documents: Sequence[Any]) -> list[Function]:
    """The functions of documents, each name once."""
    found = [function(each) for each in documents]
    names = [each.name for each in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the functions {twice} are there twice; give each a name of its own")
    return found


def _told(value: Any) -> Any:
    """A row without the fields of mappings that are None.

    A table of the library ``datasets`` gives every mapping of a column the keys of all of them.
    """
    if isinstance(value, Mapping):
        return {key: _told(each) for key, each in value.items() if each is not None}
    return [_told(each) for each in value] if isinstance(value, list | tuple) else value


def _told_around_config(row: Row) -> Row:
    """The same of an episode's row; within what a class begins with None may mean something."""
    config = row.get("config")
    kept = {name: each for name, each in config.items() if each is not None} if isinstance(config, Mapping) else config
    return {**_told(row), **({} if config is None else {"config": kept})}


def _flat(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A document without the shell that OpenAI-compatible interfaces put around it."""
    inner = document.get("function", document)
    assert isinstance(inner, Mapping)
    return inner


def _words(request: Any) -> str:
    """What the user says: a text, or the messages of the first turn."""
    if isinstance(request, list | tuple) and request and isinstance(request[0], list | tuple):
        request = request[0]
    if isinstance(request, list | tuple):
        request = "\n".join(_message(each) for each in request)
    if not isinstance(request, str) or not request.strip():
        raise ValueError("it has no words of a user; expected a text in 'request'")
    return request


def _message(message: Any) -> str:
    if not isinstance(message, Mapping) or not isinstance(message.get("content"), str):
        raise TypeError(f"a message is {message!r:.60}; expected a mapping with its 'content'")
    content: str = message["content"]
    return content


def _answers(given: Any, functions: Sequence[Function]) -> list[dict[str, Any]]:
    if not isinstance(given, list | tuple):
        raise TypeError(f"'answers' is a {type(given).__name__}; expected a list of gold calls")
    known = {each.name: each for each in functions}
    for answer in given:
        if not isinstance(answer, Mapping) or len(answer) != 1:
            raise ValueError(f"a gold call is {answer!r:.60}; expected {{name: {{argument: [accepted values]}}}}")
        ((name, accepted),) = answer.items()
        if name not in known:
            raise ValueError(f"a gold call is of {name!r}, which is none of its functions {list(known)}")
        if not isinstance(accepted, Mapping) or not all(isinstance(v, list) and v for v in accepted.values()):
            raise ValueError(f"the gold call of {name!r} has no list of accepted values for each argument")
    return [dict(answer) for answer in given]


def parse_episode(row: Row) -> Row:
    """A row of ``tool_use/multi_turn``; one that is one already stays as it is.

    Args:
        row: An entry of the leaderboard with its ``ground_truth`` and ``function_documents``; or what is returned.
            ``gold`` takes calls as texts too, ``f(x=1)``.

    Returns:
        ``requests``: texts, ``""`` where the user only waits; ``classes``; ``config``: by class what it begins with;
        ``gold``: by request a list of ``{name: {argument: value}}``; ``withheld``: by number of a request, as text, the
        functions that are there from it on; ``hidden``: functions that never are; ``long_context``; ``functions``: by
        class the documents; and the row's other fields as they are.

    Raises:
        TypeError: A field is of another type.
        ValueError: A field is missing, or does not fit another.
    """
    if "involved_classes" not in row:
        return _checked(row)
    official = {"question", "initial_config", "path", "involved_classes", "excluded_function", "missed_function",
                "ground_truth", "function_documents"}  # fmt: skip
    own = {
        "requests": ["\n".join(map(_message, turn)) for turn in row["question"]],
        "classes": row["involved_classes"],
        "config": row["initial_config"],
        "gold": row["ground_truth"],
        "withheld": row.get("missed_function", {}),
        "hidden": row.get("excluded_function", []),
        "long_context": "long_context" in str(row.get("id", "")),
        "category": str(row.get("id", "")).removeprefix("multi_turn_").rpartition("_")[0],
        "functions": row["function_documents"],
    }
    return _checked({**{name: value for name, value in row.items() if name not in official}, **own})


_KINDS: Mapping[str, tuple[type, ...]] = {
    "requests": (list, tuple),
    "classes": (list, tuple),
    "config": (dict,),
    "gold": (list, tuple),
    "withheld": (dict,),
    "hidden": (list, tuple),
    "long_context": (bool,),
    "functions": (dict,),
}


def _checked(row: Row) -> Row:
    full = {"withheld": {}, "hidden": [], "long_context": False, "category": "", **_told_around_config(row)}
    for name, kinds in _KINDS.items():
        if name not in full:
            raise ValueError(f"it has no {name!r}; expected {', '.join(_KINDS)}")
        if not isinstance(full[name], kinds):
            raise TypeError(f"{name!r} is a {type(full[name]).__name__}; expected a {kinds[0].__name__}")
    if not full["requests"] or len(full["requests"]) != len(full["gold"]):
        raise ValueError(f"it has {len(full['requests'])} requests and gold calls for {len(full['gold'])}")
    if not all(isinstance(each, str) for each in full["requests"]):
        raise TypeError("'requests' has what is no text")
    missing = [name for name in full["classes"] if name not in full["functions"]]
    if missing or not full["classes"]:
        raise ValueError(f"'functions' has no documents of the classes {missing}")
    known = {each.name: each for each in _distinct([d for name in full["classes"] for d in full["functions"][name]])}
    _check_missing(full, known)
    return {**full, "gold": [[_gold_call(each, known) for each in calls] for calls in full["gold"]]}


def _check_missing(row: Row, known: Mapping[str, Function]) -> None:
    """Raise ``ValueError`` unless what is hidden, or withheld for a while, are functions of the row."""
    for turn, names in row["withheld"].items():
        if not str(turn).isdigit() or not isinstance(names, list | tuple) or not set(names) <= known.keys():
            raise ValueError(f"'withheld' has {turn!r}: {names!r:.60}; expected the number of a request, and functions")
    if not all(isinstance(name, str) for name in row["hidden"]):
        raise ValueError(f"'hidden' is {row['hidden']!r:.60}; expected names of functions")


def _gold_call(call: Any, functions: Mapping[str, Function]) -> dict[str, Any]:
    if isinstance(call, str):
        read = read_calls(call, list(functions.values()))
        if len(read.calls) != 1 or read.errors:
            raise ValueError(f"the gold call {call!r:.80} is no call: {'; '.join(read.errors)}")
        call = {read.calls[0].name: dict(read.calls[0].arguments)}
    if not isinstance(call, Mapping) or len(call) != 1:
        raise ValueError(
            f"a gold call is {call!r:.60}; expected a text such as 'f(x=1)', or {{name: {{argument: value}}}}"
        )
    ((name, arguments),) = call.items()
    if name not in functions or not isinstance(arguments, Mapping):
        raise ValueError(f"the gold call of {name!r} is of none of the functions that are there")
    return {name: dict(arguments)}
