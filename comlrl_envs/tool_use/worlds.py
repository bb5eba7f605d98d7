"""States of the stateful classes of an item after a log of calls.

A game's state holds the log alone; the objects are found, or made again, from it. So any order of asking, forks and
copies give the same results. An object moves on from the newest state as it is; where an older state is asked again it
is made from the last snapshot before it and is itself kept as a snapshot from then on. Calls that change nothing leave
the state of their class to be shared.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import pickle
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from comlrl_envs.errors import OptionError, TaskError, closest, positive_int
from comlrl_envs.tool_use.backends import OFFICIAL_CLASSES, Toolkit, demo, official, run
from comlrl_envs.tool_use.calls import Call

MOST_WORLDS = 64
"""Items whose states a process keeps."""
MOST_STATES = 256
"""States of an item that are kept beside its first; one with long results counts as several."""
_STATE_CHARS = 2_000
_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Setup:
    """How a world begins.

    Attributes:
        classes: Names of its classes; of methods with the same name the last class's is called.
        config: By name of a class what it begins with, as JSON.
        long_context: Whether the leaderboard's classes are filled with much else.
    """

    classes: tuple[str, ...]
    config: str
    long_context: bool = False


def toolkit(classes: Sequence[str]) -> Toolkit:
    """The toolkit that has these classes: ``demo()`` if it has them all, or else ``official()``.

    Raises:
        OptionError: No toolkit has all of them, or the official one is not at hand.
        MissingExtraError: The official one needs a package that is not installed.
    """
    machines = demo()
    if all(name in machines.classes for name in classes):
        return machines
    known = (*machines.classes, *OFFICIAL_CLASSES)
    for name in classes:
        if name not in OFFICIAL_CLASSES:
            raise OptionError(
                f"The class {name!r} is unknown here; expected classes of one source.{closest(name, known)}"
            )
    return official()


class _Version:
    """An object at one moment: alive, as a snapshot, or as the moment before and a call."""

    __slots__ = ("before", "call", "live", "snapshot")

    def __init__(self, live: Any, before: _Version | None, call: Call | None) -> None:
        self.live, self.before, self.call = live, before, call
        self.snapshot: bytes | None = None

    def taken(self, allowed: frozenset[str]) -> Any:
        """The object, which is the caller's from now on."""
        found, self.live = self.live, None
        if found is not None:
            return found
        if self.snapshot is not None:
            return pickle.loads(self.snapshot)
        calls: list[Call] = []
        version = self
        while version.snapshot is None:
            assert version.before is not None and version.call is not None
            calls.append(version.call)
            version = version.before
        found = pickle.loads(version.snapshot)
        for call in reversed(calls):
            run(found, allowed, call)
        try:
            self.snapshot = pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
            self.before = self.call = None
        except RecursionError:
            # Nested too deep for a snapshot: made from the one before each time.
            pass
        return found

    def seen(self, allowed: frozenset[str]) -> Any:
        """The object, which stays here and must not be changed."""
        if self.live is None:
            self.live = self.taken(allowed)
        return self.live


class _State:
    """All objects of a world at one moment, and what the calls from there returned."""

    __slots__ = ("following", "versions")

    def __init__(self, versions: dict[str, _Version]) -> None:
        self.versions = versions
        self.following: dict[str, tuple[str, _State]] = {}


class World:
    """The states of one item; not for several threads at once.

    Args:
        tools: Its classes.
        setup: How it begins.
        most_states: States that are kept beside the first, 1 or more; more are forgotten and made again when needed.

    Raises:
        OptionError: A class is not of the toolkit, or the configuration is no JSON object.
    """

    def __init__(self, tools: Toolkit, setup: Setup, most_states: int = MOST_STATES) -> None:
        self._methods = {name: _of(tools, name) for name in setup.classes}
        self._owners = {method: name for name in setup.classes for method in self._methods[name]}
        self._reads = {name: tools.reads.get(name, _NOBODY) for name in setup.classes}
        self._most_states = positive_int("most_states", most_states)
        self._kept = 0
        config = json.loads(setup.config)
        if not isinstance(config, dict):
            raise OptionError(
                f"config={setup.config[:60]!r}; expected a JSON object with the names of classes as keys."
            )
        self._first = _State(
            {name: _begun(tools.classes[name], config.get(name, {}), setup.long_context) for name in setup.classes}
        )

    def play(self, log: Sequence[str], calls: Sequence[Call]) -> tuple[str, ...]:
        """What calls return, one after the other, after those of the log."""
        state, results = self._at(log), []
        for call in calls:
            result, state = self._after(state, call)
            results.append(result)
        return tuple(results)

    def same(self, one: Sequence[str], other: Sequence[str]) -> bool:
        """Whether after both logs all public attributes of every class are equal."""
        if tuple(one) == tuple(other):
            return True
        left, right = self._at(one).versions, self._at(other).versions
        return all(
            left[name] is right[name] or _equal(left[name].seen(allowed), right[name].seen(allowed))
            for name, allowed in self._methods.items()
        )

    def _at(self, log: Sequence[str]) -> _State:
        state = self._first
        for text in log:
            known = state.following.get(text)
            state = known[1] if known is not None else self._after(state, call_of(text))[1]
        return state

    def _after(self, state: _State, call: Call) -> tuple[str, _State]:
        """A call's result and the state after it."""
        text = call.text
        known = state.following.get(text)
        if known is not None:
            return known
        owner = self._owners.get(call.name)
        if owner is None:
            after = run(None, _NOBODY, call), _State(state.versions)
        elif call.name in self._reads[owner]:
            seen = state.versions[owner].seen(self._methods[owner])
            after = run(seen, self._methods[owner], call), _State(state.versions)
        else:
            version, allowed = state.versions[owner], self._methods[owner]
            moved = version.taken(allowed)
            result = run(moved, allowed, call)
            after = result, _State({**state.versions, owner: _Version(moved, version, call)})
        self._keep(state, text, after)
        return after

    def _keep(self, state: _State, text: str, after: tuple[str, _State]) -> None:
        if self._kept >= self._most_states:
            self._first.following.clear()
            self._kept = 0
        state.following[text] = after
        self._kept += 1 + len(after[0]) // _STATE_CHARS


def _of(tools: Toolkit, name: str) -> frozenset[str]:
    if name not in tools.classes:
        raise OptionError(
            f"The class {name!r} is not of the toolkit; expected one of {tuple(tools.classes)}."
            f"{closest(name, tools.classes)}"
        )
    return tools.methods[name]


def _begun(kind: type, config: Any, long_context: bool) -> _Version:
    """An object as a world begins, cut off from whatever its class shares among all of its kind."""
    made: Any = kind()
    if hasattr(made, "_load_scenario"):
        try:
            made._load_scenario(config, long_context=long_context)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as bad:
            raise TaskError(
                f"A {kind.__name__} cannot begin with {json.dumps(config):.80} ({type(bad).__name__}: {bad}); give it "
                "the fields that its class reads."
            ) from bad
    version = _Version(None, None, None)
    version.snapshot = pickle.dumps(made, pickle.HIGHEST_PROTOCOL)
    return version


def _equal(one: Any, other: Any) -> bool:
    left, right = vars(one), vars(other)
    names = {name for name in (*left, *right) if not name.startswith("_")}
    try:
        return all(name in left and name in right and left[name] == right[name] for name in names)
    except RecursionError:
        return False


@functools.lru_cache(maxsize=2048)
def call_of(text: str) -> Call:
    """The call of a canonical text, which unlike a reply may have any length."""
    try:
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Call) and not node.args:
            named = {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
            return Call(ast.unparse(node.func), named)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        pass
    raise OptionError(f"A log has {text[:60]!r}; expected texts of calls, as Call.text gives them.")


class Worlds:
    """Worlds of the items used last, for any number of threads.

    Args:
        most_worlds: Kept at once, 1 or more.
        most_states: See ``World``.
        tools: The classes of all of them; None finds those of each setup with ``toolkit``.
    """

    def __init__(
        self, most_worlds: int = MOST_WORLDS, most_states: int = MOST_STATES, tools: Toolkit | None = None
    ) -> None:
        self._most_worlds = positive_int("most_worlds", most_worlds)
        self._most_states = positive_int("most_states", most_states)
        self._tools = tools
        self._renew()
        _all.add(self)

    def _renew(self) -> None:
        # In a fork another thread of the parent may have held the lock, in the middle of a change.
        self._lock = threading.Lock()
        self._worlds: OrderedDict[Setup, World] = OrderedDict()

    def play(self, setup: Setup, log: Sequence[str], calls: Sequence[Call]) -> tuple[str, ...]:
        """What calls return, one after the other, in a world after the calls of a log.

        Args:
            setup: How the world begins.
            log: Texts of the calls before, ``Call.text`` of each.
            calls: To run; those to no method of the world give an error text like any other fault of a call.

        Returns:
            A text for each call; see ``backends.run``.

        Raises:
            OptionError: The setup is none of this toolkit's, or the log has what is no call.
        """
        with self._lock:
            return self._world(setup).play(log, calls)

    def same(self, setup: Setup, one: Sequence[str], other: Sequence[str]) -> bool:
        """Whether after the calls of two logs all public attributes of every class are equal; raises as ``play``."""
        with self._lock:
            return self._world(setup).same(one, other)

    def clear(self) -> None:
        """Forget all states; they are made again when needed."""
        with self._lock:
            self._worlds.clear()

    def __len__(self) -> int:
        return len(self._worlds)

    def _world(self, setup: Setup) -> World:
        world = self._worlds.get(setup)
        if world is None:
            tools = self._tools if self._tools is not None else toolkit(setup.classes)
            world = self._worlds[setup] = World(tools, setup, self._most_states)
            while len(self._worlds) > self._most_worlds:
                self._worlds.popitem(last=False)
        self._worlds.move_to_end(setup)
        return world


_all: weakref.WeakSet[Worlds] = weakref.WeakSet()
_shared = Worlds()


def play(setup: Setup, log: Sequence[str], calls: Sequence[Call]) -> tuple[str, ...]:
    """``Worlds.play`` of the worlds that a process shares."""
    return _shared.play(setup, log, calls)


def same(setup: Setup, one: Sequence[str], other: Sequence[str]) -> bool:
    """``Worlds.same`` of the worlds that a process shares."""
    return _shared.same(setup, one, other)


def _renew_all() -> None:
    for worlds in _all:
        worlds._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
