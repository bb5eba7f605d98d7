"""Runs one candidate program: the far end of the link, inside the confined process.

Whatever happens here is the candidate's own doing: it may rewrite this module, its frames and what goes over the wire.
All it gains is to answer a question with a value of its choice, which a plain function can do as well.
"""

from __future__ import annotations

import builtins
import linecache
import operator
import os
import random
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from comlrl_envs.sandbox.forms import PROGRAM
from comlrl_envs.sandbox.values import ERROR_FIELDS, Codec, ValueTooLargeError, text_of
from comlrl_envs.sandbox.wire import Frames, ProtocolError, pack

FILE = "<program>"
MOST_ATTRIBUTES = 50
SHORT_CHARS = 10_000
SPECIALS = (
    *("__len__", "__iter__", "__next__", "__getitem__", "__setitem__", "__delitem__", "__call__"),
    *("__enter__", "__exit__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__await__"),
    *("__add__", "__sub__", "__mul__", "__matmul__", "__truediv__", "__floordiv__", "__mod__", "__pow__", "__and__"),
    *("__or__", "__xor__", "__neg__", "__abs__", "__invert__", "__reversed__", "__int__", "__float__", "__index__"),
)
"""Special methods that a test's stand-in of an object has if the object has them."""


class Foreign:
    """Stands for an object of the tests: a callback, a mock, a fake file."""

    def __init__(self, runtime: Runtime, token: int) -> None:
        object.__setattr__(self, "_runtime", runtime)
        object.__setattr__(self, "_token", token)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Have the tests' side call it."""
        return self._runtime.ask("call", self, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return self._runtime.ask("getattr", self, (name,), {})

    def __setattr__(self, name: str, value: Any) -> None:
        self._runtime.ask("setattr", self, (name, value), {})

    def __iter__(self) -> Any:
        return self._runtime.ask("iter", self, (), {})

    def __next__(self) -> Any:
        return self._runtime.ask("next", self, (), {})

    def __len__(self) -> int:
        try:
            return int(self._runtime.ask("len", self, (), {}))
        except AttributeError as error:
            # list() and its like ask everything for a length, and take this answer for "none".
            raise TypeError(str(error)) from None

    def __bool__(self) -> bool:
        return bool(self._runtime.ask("bool", self, (), {}))

    def __getitem__(self, key: Any) -> Any:
        return self._runtime.ask("getitem", self, (key,), {})

    def __enter__(self) -> Any:
        return self._runtime.ask("enter", self, (), {})

    def __exit__(self, *error: Any) -> Any:
        return self._runtime.ask("exit", self, (None, None, None), {})

    def __eq__(self, other: Any) -> Any:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)


class TestError(Exception):
    """An exception of the tests' side, raised by a callback, whose type has no counterpart here."""


class Runtime:
    """The program's module, the objects that the tests hold, and the loop that answers requests."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._frames = Frames()
        self._codec = Codec(1, self._export, self._resolve)
        self._objects: dict[int | str, Any] = {}
        self._tokens: dict[int, int | str] = {}
        self._foreign: dict[int, Foreign] = {}
        self._module = types.ModuleType(PROGRAM)

    def serve(self) -> None:
        """Answer requests until the other end hangs up."""
        while True:
            self._answer(self._receive())

    def _receive(self) -> dict[str, Any]:
        while True:
            message = self._frames.take()
            if message is not None:
                return dict(message[0])
            data = self._channel.recv(1 << 16)
            if not data:
                # Not sys.exit: the program's atexit functions and threads do not matter any more.
                os._exit(0)
            self._frames.feed(data)

    def _answer(self, request: dict[str, Any]) -> None:
        try:
            if request["op"] == "define":
                reply = self._define(request)
            else:
                if request["forget"]:
                    self._codec.forget()
                target, args, kwargs = self._codec.decode(request["v"], request["c"])
                reply = self._reply("v", self._perform(request["op"], target, args, dict(kwargs)))
        except BaseException as error:
            reply = self._failure(error)
        _flush()
        if request.get("brief"):
            self._codec.forget()
        self._channel.sendall(reply)

    def _reply(self, key: str, value: Any, **more: Any) -> bytes:
        tree, changed = self._codec.encode(value)
        return pack({key: tree, "c": changed, **more})

    def _failure(self, error: BaseException) -> bytes:
        about: dict[str, Any] = {"lineage": _lineage(type(error)), "words": text_of(error)[:2000]}
        for only_short in (False, True):
            try:
                (_, (args, state)), changed = self._codec.encode((error.args, _state(error, only_short)))
                reply = pack({"e": args, "state": state, "c": changed, **about})
            except BaseException:
                self._codec.forget()
                about["forget"] = True
                continue
            if only_short:
                self._codec.forget()
            return reply
        return pack({"e": ["t", [about["words"]]], "c": [], **about})

    def _define(self, request: dict[str, Any]) -> bytes:
        source = request["program"]
        random.seed(0)
        sys.modules[PROGRAM] = self._module
        # Tracebacks and inspect.getsource find the lines of a program that is in no file.
        linecache.cache[FILE] = (len(source), None, source.splitlines(True), FILE)
        exec(compile(source, FILE, "exec", dont_inherit=True), self._module.__dict__)
        found: dict[str, Any] = {}
        for name in request["entry_points"]:
            if name not in self._module.__dict__:
                return pack({"missing": name})
            entry = self._module.__dict__[name]
            self._objects[name] = entry
            self._tokens[id(entry)] = name
            found[name] = self._describe_class(entry) if isinstance(entry, type) else {}
        return pack({"defined": found})

    def _perform(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if op == "getattr":
            value = getattr(target, args[0])
            if isinstance(value, types.MethodType) and value.__self__ is target and not isinstance(target, type):
                # The test's stand-in calls it by name: a token would only be thrown away.
                return NotImplemented
            return value
        if op == "callmethod":
            return getattr(target, args[0])(*args[1], **kwargs)
        return OPERATIONS[op](target, *args, **kwargs)

    def ask(self, op: str, foreign: Foreign, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Have the tests' side do something with an object of its own, and serve its requests meanwhile."""
        _flush()
        self._channel.sendall(self._reply("v", (foreign, args, tuple(kwargs.items())), ask=op))
        while True:
            message = self._receive()
            if "op" in message:
                self._answer(message)
                continue
            value = self._codec.decode(message["v"], message["c"])
            if message.get("failed") is not None:
                kind = vars(builtins).get(message["failed"], TestError)
                raise kind(*value)
            return value

    def _export(self, value: Any) -> Any:
        if isinstance(value, Foreign):
            return ["y", object.__getattribute__(value, "_token")]
        token = self._token(value)
        if isinstance(value, type):
            return ["x", token, self._describe_class(value)]
        kind = type(value)
        return ["x", token, None, self._token(kind), self._describe_class(kind)]

    def _token(self, value: Any) -> int | str:
        token = self._tokens.get(id(value))
        if token is None:
            token = len(self._objects)
            self._objects[token] = value
            self._tokens[id(value)] = token
        return token

    def _describe_class(self, kind: type) -> dict[str, Any]:
        bases = [
            [self._token(base), self._describe_class(base)] for base in kind.__bases__ if base.__module__ == PROGRAM
        ]
        specials = [name for name in SPECIALS if getattr(kind, name, None) is not getattr(object, name, None)]
        return {
            "name": kind.__name__,
            "bases": bases,
            "specials": specials,
            "lineage": _lineage(kind) if issubclass(kind, BaseException) else None,
        }

    def _resolve(self, tree: Any) -> Any:
        token = tree[1]
        if tree[0] == "y":
            return self._objects[token]
        if token not in self._foreign:
            self._foreign[token] = Foreign(self, token)
        return self._foreign[token]


def _state(error: BaseException, only_short: bool) -> tuple[tuple[str, Any], ...]:
    """Attributes of an exception, and what a built-in class keeps apart from them."""
    found = {str(name): value for name, value in list(vars(error).items())[:MOST_ATTRIBUTES]}
    for kind, names in ERROR_FIELDS.items():
        if isinstance(error, kind):
            found.update({name: getattr(error, name) for name in names})
    return tuple((name, value) for name, value in found.items() if not only_short or _is_short(value))


def _is_short(value: Any) -> bool:
    return (type(value) is str and len(value) <= SHORT_CHARS) or type(value) in (type(None), bool, int, float)


def _lineage(kind: type) -> list[str]:
    return [f"{base.__module__}.{base.__name__}" for base in kind.__mro__[:-1]]


def _call(target: Any, *args: Any, **kwargs: Any) -> Any:
    return target(*args, **kwargs)


def _await(target: Any) -> Any:
    import asyncio

    async def awaited() -> Any:
        return await target

    return asyncio.run(awaited())


OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": _call,
    "attribute": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "len": len,
    "bool": bool,
    "iter": iter,
    "next": next,
    "reversed": reversed,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "enter": lambda target: type(target).__enter__(target),
    "exit": lambda target, *error: type(target).__exit__(target, *error),
    "eq": lambda target, other: bool(target == other),
    "hash": hash,
    "repr": lambda target: repr(target)[:100_000],
    "str": str,
    "format": format,
    "dir": dir,
    "await": _await,
    **{name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "add", "sub", "mul", "matmul", "truediv")},
    **{
        name: getattr(operator, name)
        for name in ("floordiv", "mod", "pow", "and_", "or_", "xor", "neg", "abs", "invert")
    },
    "int": int,
    "float": float,
    "index": operator.index,
}


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            # The program may have put anything there, and owns the consequences.
            continue


def rehearse() -> None:
    """Run a program of no interest, in the fork server: the forks share what a first run writes into memory."""
    ours, theirs = socket.socketpair()
    runtime = Runtime(theirs)
    source = "def f(x, y=0):\n    z = [i + 1 for i in x]\n    return z if y else (z, {'a': z})\n"
    runtime._answer({"op": "define", "program": source, "entry_points": ["f"]})
    codec = Codec(0, lambda value: ["y", "f"], lambda tree: None)
    for argument in ([1, 2.5], ["a"], [None, (1, 2)]):
        tree, changed = codec.encode((runtime, (argument, 1), ()))
        runtime._answer({"op": "call", "v": tree, "c": changed, "brief": True, "forget": False})
        codec.forget()
    del sys.modules[PROGRAM]
    linecache.cache.clear()
    ours.close()
    theirs.close()


def run(channel: socket.socket) -> None:
    """Serve one program on ``channel``; never returns."""
    runtime = Runtime(channel)
    try:
        runtime.serve()
    except (OSError, ProtocolError, ValueTooLargeError):
        os._exit(1)
