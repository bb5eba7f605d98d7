"""Stand-ins, on the tests' side, for what lives in the candidate's process.

A class of the program is a local class with the same name, bases and special methods, so ``isinstance`` and
``assertRaises`` mean what they say. Its instances hold a token; attributes, calls and items are asked of the candidate.

Comparisons are where a candidate could cheat, by saying "equal" to whatever it is compared with. A stand-in equals
another stand-in if the candidate says so; it never equals, precedes or combines with a value of the tests' side, and
nothing is asked then. What is to be compared with a value has to come out as a value; ``in`` compares the items.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from comlrl_envs.sandbox.forms import PROGRAM
from comlrl_envs.sandbox.values import ERROR_FIELDS

if TYPE_CHECKING:
    from comlrl_envs.sandbox.remote import Remote

TOKEN, REMOTE, BORN = "_comlrl_token", "_comlrl_remote", "_comlrl_generation"
SAID = "_comlrl_said"
WORDS_CHARS = 2000
CLASS_TOKEN, CLASS_REMOTE = "_comlrl_class_token", "_comlrl_class_remote"
HANDED_ON = {
    "__len__": "len",
    "__iter__": "iter",
    "__next__": "next",
    "__getitem__": "getitem",
    "__setitem__": "setitem",
    "__delitem__": "delitem",
    "__call__": "call",
    "__enter__": "enter",
    "__exit__": "exit",
    "__reversed__": "reversed",
    "__neg__": "neg",
    "__abs__": "abs",
    "__invert__": "invert",
    "__int__": "int",
    "__float__": "float",
    "__index__": "index",
    "__hash__": "hash",
}
BETWEEN_OBJECTS = {
    **{f"__{name}__": name for name in ("lt", "le", "gt", "ge", "add", "sub", "mul", "matmul", "truediv", "floordiv")},
    "__mod__": "mod",
    "__pow__": "pow",
    "__and__": "and_",
    "__or__": "or_",
    "__xor__": "xor",
}


class RemoteClass(type):
    """Class of the classes that stand for classes of the program."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an instance, in the candidate's process."""
        return _remote(cls).perform("call", cls, args, kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or CLASS_REMOTE not in cls.__dict__:
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return _remote(cls).perform("getattr", cls, (name,))

    def __setattr__(cls, name: str, value: Any) -> None:
        _remote(cls).perform("setattr", cls, (name, value))

    def __delattr__(cls, name: str) -> None:
        _remote(cls).perform("delattr", cls, (name,))

    def __iter__(cls) -> Any:
        return _remote(cls).perform("iter", cls)

    def __len__(cls) -> int:
        return int(_remote(cls).perform("len", cls))

    def __bool__(cls) -> bool:
        return True

    def __getitem__(cls, key: Any) -> Any:
        return _remote(cls).perform("getitem", cls, (key,))


class RemoteObject(metaclass=RemoteClass):
    """An object in the candidate's process."""

    __slots__ = (BORN, REMOTE, TOKEN)

    def __getattr__(self, name: str) -> Any:
        if name in (TOKEN, REMOTE, BORN):
            raise AttributeError(name)
        value = _remote(self).perform("getattr", self, (name,))
        return RemoteMethod(self, name) if value is NotImplemented else value

    def __setattr__(self, name: str, value: Any) -> None:
        _remote(self).perform("setattr", self, (name, value))

    def __delattr__(self, name: str) -> None:
        _remote(self).perform("delattr", self, (name,))

    def __repr__(self) -> str:
        return str(_remote(self).perform("repr", self))

    def __str__(self) -> str:
        return str(_remote(self).perform("str", self))

    def __format__(self, form: str) -> str:
        return str(_remote(self).perform("format", self, (form,)))

    def __dir__(self) -> Any:
        return list(_remote(self).perform("dir", self))

    def __bool__(self) -> bool:
        return bool(_remote(self).perform("bool", self))

    def __eq__(self, other: Any) -> Any:
        if self is other:
            return True
        if not isinstance(other, RemoteObject) or type(self) is not type(other):
            return False
        return bool(_remote(self).perform("eq", self, (other,)))

    def __ne__(self, other: Any) -> Any:
        return not self == other

    def __hash__(self) -> int:
        return hash(object.__getattribute__(self, TOKEN))


class RemoteMethod:
    """A method of an object of the program, called by name."""

    def __init__(self, owner: RemoteObject, name: str) -> None:
        self.__self__ = owner
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method, in the candidate's process."""
        return _remote(self.__self__).perform("callmethod", self.__self__, (self.__name__, args), kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function(), name)

    def function(self) -> Any:
        """The bound method as an object of its own, for the rare test that looks at more than its result."""
        return _remote(self.__self__).perform("attribute", self.__self__, (self.__name__,))


def _remote(of: Any) -> Remote:
    found: Remote = of.__dict__[CLASS_REMOTE] if isinstance(of, type) else object.__getattribute__(of, REMOTE)
    return found


def token_of(value: Any) -> Any:
    """The token of a stand-in, or None for any other value."""
    if isinstance(value, RemoteObject):
        return object.__getattribute__(value, TOKEN)
    if isinstance(value, type) and CLASS_TOKEN in value.__dict__:
        return value.__dict__[CLASS_TOKEN]
    return None


def generation_of(value: Any) -> int:
    """Which of a job's processes an object lives in."""
    return int(object.__getattribute__(value, BORN))


def make_object(kind: type, token: Any, remote: Remote, generation: int) -> RemoteObject:
    """A stand-in of the class ``kind``."""
    made: RemoteObject = object.__new__(kind)
    for name, value in ((TOKEN, token), (REMOTE, remote), (BORN, generation)):
        object.__setattr__(made, name, value)
    return made


def make_class(about: dict[str, Any], token: Any, remote: Remote, bases: tuple[type, ...], combined: bool) -> type:
    """A local class for a class of the program.

    Args:
        about: ``name`` and ``specials``, the special methods it has.
        token: The class's own.
        remote: Where its instances live.
        bases: Local classes of its bases.
        combined: Whether operators between two objects may ask the candidate.
    """
    members: dict[str, Any] = {"__slots__": (), "__module__": "program", CLASS_TOKEN: token, CLASS_REMOTE: remote}
    specials = [str(name) for name in about["specials"]]
    for special in specials:
        if special in HANDED_ON:
            members[special] = _handing_on(HANDED_ON[special])
        elif special in BETWEEN_OBJECTS and combined:
            members[special] = _between(BETWEEN_OBJECTS[special])
    if "__await__" in specials:
        members["__await__"] = _awaiting
    if "__eq__" not in specials:
        members.pop("__hash__", None)
    if about["name"] == "coroutine":
        # With these it is a coroutine to asyncio, which does not run other awaitables.
        members.update(send=_send, throw=_throw, close=lambda self: None)
    return _build(str(about["name"]).replace("\0", ""), bases or (RemoteObject,), members)


def _build(name: str, bases: tuple[type, ...], members: dict[str, Any]) -> type:
    try:
        return RemoteClass(name, bases, members)
    except TypeError:
        # Bases that the program could combine, by a metaclass of its own, and plain classes cannot.
        return RemoteClass(name, (RemoteObject,), members)


def _handing_on(op: str) -> Callable[..., Any]:
    def special(self: Any, *args: Any, **kwargs: Any) -> Any:
        if op == "exit":
            args = (None, None, None)
        return _remote(self).perform(op, self, args, kwargs)

    return special


def _between(op: str) -> Callable[[Any, Any], Any]:
    def special(self: Any, other: Any) -> Any:
        if not isinstance(other, RemoteObject):
            return NotImplemented
        return _remote(self).perform(op, self, (other,))

    return special


def _awaiting(self: Any) -> Any:
    yield from ()
    return _remote(self).perform("await", self)


def _send(self: Any, value: Any) -> Any:
    raise StopIteration(_remote(self).perform("await", self))


def _throw(self: Any, *error: Any) -> Any:
    raise error[0] if len(error) == 1 else error[1]


def make_error_class(name: str, bases: tuple[type[BaseException], ...]) -> type[BaseException]:
    """A local class for an exception class of the program; raises ``TypeError`` for bases that do not go together."""
    parent = bases[0]

    def text(self: BaseException) -> str:
        words = vars(self).get(SAID)
        return parent.__str__(self) if words is None else str(words)

    made: type[BaseException] = type(name, bases, {"__module__": PROGRAM, "__str__": text})
    return made


def make_error(kind: type[BaseException], args: tuple[Any, ...], state: Any, words: str) -> BaseException:
    """An exception like the one that the program raised; no method of it is the program's.

    Args:
        kind: A class of Python's, or one of ``make_error_class``.
        args: Its arguments.
        state: Pairs of a name and a value, as the program's process says: attributes, and fields of built-in classes.
        words: Its text, if the class is the program's; others make theirs of what they hold.

    Raises:
        Exception: There is no such exception.
    """
    error = kind.__new__(kind, *args)
    if not isinstance(error, BaseException):
        raise TypeError(f"{kind.__name__} makes no exceptions")
    fields: dict[str, Any] = {}
    known = {name for base, names in ERROR_FIELDS.items() if issubclass(kind, base) for name in names}
    for name, value in state:
        if name in known:
            # None is what an empty field says; to set it is another thing for some.
            if value is not None:
                fields[name] = value
        elif isinstance(name, str) and not name.startswith("__") and not hasattr(BaseException, name):
            vars(error)[name] = value
    if kind.__module__ == PROGRAM:
        vars(error)[SAID] = words[:WORDS_CHARS]
    _set_fields(error, fields)
    error.args = args
    return error


def _set_fields(error: BaseException, fields: dict[str, Any]) -> None:
    if isinstance(error, UnicodeError):
        _set_place(error, fields)
        return
    for name, value in fields.items():
        if type(value) in (bool, int, str, bytes) or name in ("code", "value"):
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                setattr(error, name, value)


def _set_place(error: UnicodeError, fields: dict[str, Any]) -> None:
    """Where in a text the error is; of a place outside of it, interpreters have made a crash."""
    kinds = (UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError)
    kind = next((each for each in kinds if isinstance(error, each)), None)
    text, start, end = fields.get("object"), fields.get("start"), fields.get("end")
    if kind is None or type(text) is not (bytes if kind is UnicodeDecodeError else str):
        return
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
        return
    place = (text, start, end, str(fields.get("reason")))
    settle: Any = kind.__init__
    settle(error, *(place if kind is UnicodeTranslateError else (str(fields.get("encoding")), *place)))
