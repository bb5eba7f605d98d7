"""A task of requests against a world, read once: its functions, its gold calls, and what these return."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass

from comlrl_envs.tool_use.calls import Call
from comlrl_envs.tool_use.functions import Function, function
from comlrl_envs.tool_use.gold import answer_for
from comlrl_envs.tool_use.matching import Answer
from comlrl_envs.tool_use.worlds import Setup, call_of, play


@dataclass(frozen=True, eq=False)
class Story:
    """A task.

    Attributes:
        setup: Of its world.
        requests: What the user says, ``""`` where it only waits.
        gold: By request the gold calls, as ``Call.text``.
        functions: By name, without those that are never there.
        class_of: By name of a function the class that has it.
        since: By name of a function the request from which on it is there.
    """

    setup: Setup
    requests: tuple[str, ...]
    gold: tuple[tuple[str, ...], ...]
    functions: Mapping[str, Function]
    class_of: Mapping[str, str]
    since: Mapping[str, int]

    def call(self, text: str) -> Call:
        """The call of a text that is one."""
        return call_of(text)

    def gold_before(self, request: int) -> tuple[str, ...]:
        """The gold calls of all requests before this one."""
        return tuple(text for calls in self.gold[:request] for text in calls)

    def gold_results(self, request: int) -> tuple[str, ...]:
        """What the gold calls of a request return after those before."""
        return _gold_results(self, request)

    def answers(self, request: int) -> list[Answer]:
        """The gold calls of a request, as answers with one accepted value for each argument."""
        return [answer_for(call_of(text)) for text in self.gold[request]]


@functools.lru_cache(maxsize=8192)
def _gold_results(told: Story, request: int) -> tuple[str, ...]:
    calls = [call_of(text) for text in told.gold[request]]
    return play(told.setup, told.gold_before(request), calls)


@functools.lru_cache(maxsize=1024)
def story(task: str) -> Story:
    """The task of a row in JSON (see ``rows.parse_episode``)."""
    row = json.loads(task)
    called = {name: turn for turn, calls in reversed(list(enumerate(row["gold"]))) for call in calls for name in call}
    # Some published rows call what they withhold; no team could, so it is there when they do.
    never = set(row["hidden"]) - called.keys()
    documents = {
        document["name"]: (name, document)
        for name, listed in row["functions"].items()
        for document in listed
        if document["name"] not in never
    }
    since = {n: min(int(turn), called.get(n, int(turn))) for turn, names in row["withheld"].items() for n in names}
    functions = {name: function(document) for name, (_, document) in documents.items()}
    return Story(
        setup=Setup(tuple(row["classes"]), json.dumps(row["config"], ensure_ascii=False), row["long_context"]),
        requests=tuple(row["requests"]),
        gold=tuple(tuple(Call(*each).text for call in calls for each in call.items()) for calls in row["gold"]),
        functions=functions,
        class_of={name: owner for name, (owner, _) in documents.items()},
        since={name: since.get(name, 0) for name in functions},
    )
