"""The tests' view of one candidate program: its entry points, and every request to it."""

from __future__ import annotations

import builtins
import sys
import threading
from typing import Any

from comlrl_envs.sandbox import offered
from comlrl_envs.sandbox.forms import PROGRAM
from comlrl_envs.sandbox.link import Ended, Link, ServerError
from comlrl_envs.sandbox.proxies import (
    RemoteMethod,
    RemoteObject,
    generation_of,
    make_class,
    make_error,
    make_error_class,
    make_object,
    token_of,
)
from comlrl_envs.sandbox.values import Codec, text_of
from comlrl_envs.sandbox.wire import pack

SHOWN_CHARS = 300


class Remote:
    """A candidate program behind a link.

    Args:
        link: The connection.
        objects: Whether the program's objects matter (classes under test): containers are then shared for the length
            of a test, and an object may be searched and combined with another.
    """

    def __init__(self, link: Link, objects: bool) -> None:
        self._link = link
        self._objects = objects
        self._lock = threading.RLock()
        self._errors: dict[str, type[BaseException]] = {}
        self._names: dict[str, type] = {}
        # NotImplemented while no value is at hand: any other may be one.
        self.last: Any = NotImplemented
        self.requests = 0
        link.answer = self._answer
        self._renew()

    def _renew(self) -> None:
        self._codec = Codec(0, self._export, self._resolve)
        self._mine: list[Any] = []
        self._mine_numbers: dict[int, int] = {}
        self._classes: dict[Any, type] = dict(self._names)
        # The same object of the program is the same object here.
        self._held: dict[Any, RemoteObject] = {}
        self._forgetting = False

    def define(self, program: str, entry_points: list[str]) -> tuple[dict[str, Any], str | None]:
        """Run the program's definitions.

        Returns:
            A stand-in for each entry point, and why there is none: the exception, ``timeout``, ``memory``, ``died``.
        """
        self._renew()
        message = pack({"op": "define", "program": program, "entry_points": entry_points})
        try:
            reply = self._link.request(message)
            if "missing" in reply:
                return {}, f"NameError: the program defines no {str(reply['missing'])[:SHOWN_CHARS]!r}"
            if "e" in reply:
                error = self._exception(reply)
                kind = "memory" if isinstance(error, MemoryError) else type(error).__name__
                # The name of the program's file, which the other text has, says nothing.
                words = text_of(error) if isinstance(error, SyntaxError) else reply.get("words")
                return {}, f"{kind}: {words}"[:SHOWN_CHARS]
            return {name: self._entry(name, reply["defined"][name]) for name in entry_points}, None
        except Ended as ended:
            return {}, f"{ended.kind}: {ended.reason}"
        except ServerError:
            raise
        except BaseException as malformed:
            return {}, f"died: the program's process sent a malformed message ({type(malformed).__name__})"

    def _entry(self, name: str, about: dict[str, Any]) -> Any:
        if not about:
            return Function(self, name)
        if about["lineage"] is not None:
            return self._error_class([str(part) for part in about["lineage"]])
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = self._class(name, about)
        self._classes[name] = found
        return found

    def forget(self) -> None:
        """A test ended: containers that cross from now on are new ones."""
        self._codec.forget()
        self._forgetting = True
        self.last = NotImplemented

    def perform(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        brief: bool = False,
    ) -> Any:
        """Have the candidate do something; raises what it raises, or ``Ended``."""
        self.requests += 1
        with self._lock:
            tree, changed = self._codec.encode((target, args, tuple(kwargs.items()) if kwargs else ()))
            message = pack({"op": op, "v": tree, "c": changed, "brief": brief, "forget": self._forgetting})
            self._forgetting = False
            reply = self._link.request(message)
            try:
                if "e" in reply:
                    error: BaseException | None = self._exception(reply)
                else:
                    error, value = None, self._codec.decode(reply["v"], reply["c"])
            except (Ended, ServerError):
                raise
            except BaseException as malformed:
                # Whatever it is: objects of the program take part, such as keys that are asked for their hash.
                reason = f"the program's process sent nonsense: {text_of(malformed)}"
                raise self._link.give_up("died", reason[:SHOWN_CHARS]) from None
            if brief or reply.get("forget"):
                self._codec.forget()
        if error is not None:
            self.last = NotImplemented
            raise error
        self.last = value
        return value

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the program by its name."""
        return self.perform("call", Entry(name), args, kwargs, brief=not self._objects)

    def _exception(self, reply: dict[str, Any]) -> BaseException:
        args, state = self._codec.decode(["t", [reply["e"], reply.get("state", ["t", []])]], reply["c"])
        kind = self._error_class([str(part) for part in reply["lineage"]])
        words = str(reply.get("words", ""))
        if issubclass(kind, SyntaxError):
            state = (*zip(("msg", "lineno"), _syntax(tuple(args)), strict=True), *state)
        try:
            return make_error(kind, tuple(args), state, words)
        except Exception:
            # Such as a group of exceptions, which are objects of the program.
            return RuntimeError(f"{kind.__name__}: {words}"[:SHOWN_CHARS])

    def _error_class(self, lineage: list[str]) -> type[BaseException]:
        """The class of the same name: of Python, of its library, or one made for a class of the program."""
        for place, full in enumerate(lineage):
            module, _, name = full.rpartition(".")
            if module == PROGRAM:
                if name not in self._errors:
                    self._errors[name] = self._make_error_class(name, lineage[place + 1 :])
                return self._errors[name]
            # The test runner gives meanings of its own to exceptions of unittest; a program has no say in those.
            if module.partition(".")[0] in sys.stdlib_module_names - {"unittest"} and module in sys.modules:
                found = vars(sys.modules[module]).get(name)
                if isinstance(found, type) and issubclass(found, BaseException):
                    return found
        return Exception

    def _make_error_class(self, name: str, lineage: list[str]) -> type[BaseException]:
        """A class below the next one of its lineage, and below the first built-in one that this does not imply."""
        base = self._error_class(lineage)
        known = self._error_class([full for full in lineage if full.rpartition(".")[0] != PROGRAM])
        bases = (base,) if issubclass(base, known) else (base, known)
        try:
            return make_error_class(name, bases)
        except TypeError:
            return make_error_class(name, (base,))

    def _export(self, value: Any) -> Any:
        if isinstance(value, Entry):
            return ["y", value.name]
        if isinstance(value, RemoteMethod):
            value = value.function()
        if isinstance(value, Function):
            return ["y", value.__name__]
        token = token_of(value)
        if token is not None:
            if isinstance(value, RemoteObject) and generation_of(value) != self._link.generation:
                raise Ended("lost", "the object was in a process of the program that has ended")
            return ["y", token]
        if id(value) not in self._mine_numbers:
            self._mine_numbers[id(value)] = len(self._mine)
            self._mine.append(value)
        return ["x", self._mine_numbers[id(value)]]

    def _resolve(self, tree: Any) -> Any:
        if tree[0] == "y":
            return self._mine[int(tree[1])]
        token = _token(tree[1])
        if tree[2] is not None:
            return self._class(token, tree[2])
        if token in self._names and token not in self._classes:
            raise ValueError("an entry point of another kind")
        if token not in self._held:
            kind = self._class(_token(tree[3]), tree[4])
            self._held[token] = make_object(kind, token, self, self._link.generation)
        return self._held[token]

    def _class(self, token: Any, about: dict[str, Any]) -> type:
        if token not in self._classes:
            if about["lineage"] is not None:
                about = {**about, "bases": [], "specials": []}
            bases = tuple(dict.fromkeys(self._class(_token(base), described) for base, described in about["bases"]))
            self._classes[token] = make_class(about, token, self, bases, self._objects)
        return self._classes[token]

    def _answer(self, message: dict[str, Any]) -> bytes:
        try:
            target, args, kwargs = self._codec.decode(message["v"], message["c"])
            value = offered.perform(str(message["ask"]), target, args, {str(key): item for key, item in kwargs})
            tree, changed = self._codec.encode(value)
            return pack({"v": tree, "c": changed})
        except (Ended, ServerError):
            raise
        except BaseException as error:
            name = next(kind.__name__ for kind in type(error).__mro__ if vars(builtins).get(kind.__name__) is kind)
            return pack({"v": ["t", [text_of(error)[:SHOWN_CHARS]]], "c": [], "failed": name})


class Entry:
    """Names an entry point in a request."""

    def __init__(self, name: str) -> None:
        self.name = name


class Function:
    """Stands for a function of the program."""

    def __init__(self, remote: Remote, name: str) -> None:
        self._remote = remote
        self.__name__ = self.__qualname__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the program's function."""
        return self._remote.call(self.__name__, args, kwargs)


def _token(value: Any) -> int | str:
    if not isinstance(value, int | str):
        raise ValueError("a token is a number or a name")
    return value


def _syntax(args: tuple[Any, ...]) -> tuple[str, int | None]:
    """What a syntax error says, and its line, which its constructor would take from its arguments."""
    words = args[0] if args and isinstance(args[0], str) else "invalid syntax"
    place = args[1] if len(args) > 1 and isinstance(args[1], tuple) else ()
    return words, place[1] if len(place) > 1 and isinstance(place[1], int) else None
