"""Values on the wire: built-in types both ways, everything else a token.

Scalars are JSON's own. Every other value is a list that begins with a tag (see ``forms``). Lists, dicts, sets,
bytearrays, deques and XML elements are *shared*: they get a number, cross once, and stand on both sides under it. Each
message carries those that changed since, so an argument that is mutated in place, ``self.items.append(x)`` in a test,
aliases and cycles mean what they mean within one process. Subclasses of the standard library arrive as what compares
equal to the original.

Nothing here trusts the other side: tags build built-in types only, and a name from the wire is never looked up, but
in tables of this package.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from comlrl_envs.sandbox import forms
from comlrl_envs.sandbox.forms import Tree

MOST_NODES = 1_000_000
DEEPEST_TUPLE = 100
SMALL = 1 << 62
ERROR_FIELDS: dict[type, tuple[str, ...]] = {
    SystemExit: ("code",),
    StopIteration: ("value",),
    OSError: ("errno", "strerror", "filename", "filename2"),
    ImportError: ("msg", "name", "path"),
    NameError: ("name",),
    AttributeError: ("name",),
    SyntaxError: ("msg", "lineno", "offset", "text", "end_lineno", "end_offset"),
    **dict.fromkeys(
        (UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError),
        ("encoding", "object", "start", "end", "reason"),
    ),
}
"""What built-in exceptions hold besides their arguments and their attributes."""
_MALFORMED = (TypeError, KeyError, IndexError, OverflowError, AttributeError, ArithmeticError, RecursionError)
_FACTORIES = {kind.__name__: kind for kind in (list, dict, set, int, float, str, tuple, bool)}
_MAPPINGS: dict[type, str] = {Counter: "Counter", OrderedDict: "OrderedDict", defaultdict: "defaultdict"}
_KINDS: dict[type, str] = {list: "L", dict: "D", set: "S", bytearray: "B", deque: "Q"}


class ValueTooLargeError(ValueError):
    """A value has more parts than a message may carry."""


def text_of(value: Any, write: Callable[[Any], str] = str) -> str:
    """What ``write`` makes of a value, or why it makes nothing: an object may raise whatever it likes."""
    try:
        return write(value)
    except BaseException as error:
        return no_text(error)


def no_text(error: BaseException) -> str:
    """Stands for a text that could not be made."""
    return f"<no text: {type(error).__name__}>"


class Codec:
    """One end's memory of shared containers, with its way of naming other objects.

    Args:
        first: 0 or 1: the two ends number containers of their own by even and odd numbers.
        export: Names an object that has no wire form; the tree it returns begins with ``"x"`` or ``"y"``.
        resolve: Finds or makes the object that such a tree names.
    """

    def __init__(self, first: int, export: Callable[[Any], Tree], resolve: Callable[[Tree], Any]) -> None:
        self._next = first
        self._export = export
        self._resolve = resolve
        self._nodes = 0
        self.forget()

    def forget(self) -> None:
        """End the sharing: containers that cross from now on are new ones."""
        self._shared: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._seen: dict[int, Tree] = {}
        self._fresh: list[int] = []

    def encode(self, value: Any) -> tuple[Tree, list[Tree]]:
        """``value`` as a tree, and the containers that the other end lacks or holds in an older state.

        Raises:
            ValueTooLargeError: There are more than ``MOST_NODES`` parts.
        """
        self._nodes = 0
        changed: list[Tree] = []
        tree = self.tree(value)
        for number in list(self._seen):
            self._look(number, changed)
        while self._fresh:
            self._look(self._fresh.pop(), changed)
        return tree, changed

    def _look(self, number: int, changed: list[Tree]) -> None:
        parts = self._parts(self._shared[number])
        if number not in self._seen or self._seen[number] != parts:
            self._seen[number] = parts
            changed.append([number, *parts])

    def tree(self, value: Any, depth: int = 0) -> Tree:
        """The tree of one value; containers in it stand as references."""
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise ValueTooLargeError(f"a value of more than {MOST_NODES} parts cannot leave the program")
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if (kind is int and -SMALL < value < SMALL) or (kind is float and value - value == 0):
            return value
        if kind in _KINDS or kind in _MAPPINGS or _is_element(kind):
            return ["@", self._number(value)]
        if depth > DEEPEST_TUPLE:
            raise ValueTooLargeError(f"tuples nested deeper than {DEEPEST_TUPLE} cannot leave the program")
        if kind is tuple or kind is frozenset:
            return ["t" if kind is tuple else "z", [self.tree(part, depth + 1) for part in value]]
        tree = forms.encode(value, kind, lambda part: self.tree(part, depth + 1))
        if tree is not None:
            return tree
        plain = forms.plain_form(value, kind)
        return self.tree(plain, depth + 1) if plain is not None else self._export(value)

    def _number(self, value: Any) -> int:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._next
            self._next += 2
            self._numbers[id(value)] = number
            self._shared[number] = value
            self._fresh.append(number)
        return number

    def _parts(self, value: Any) -> list[Tree]:
        kind = type(value)
        if kind is list or kind is set:
            return [_KINDS[kind], [self.tree(part) for part in value]]
        if kind is bytearray:
            return ["B", value.decode("latin-1")]
        if kind is deque:
            return ["Q", [self.tree(part) for part in value], value.maxlen]
        if _is_element(kind):
            children = [self.tree(child) for child in value]
            return ["E", children, [value.tag, value.text, value.tail, list(value.attrib.items())]]
        pairs = [[self.tree(key), self.tree(part)] for key, part in value.items()]
        if kind is defaultdict:
            return ["D", pairs, "defaultdict", _factory_name(value.default_factory)]
        return ["D", pairs, _MAPPINGS[kind]] if kind in _MAPPINGS else ["D", pairs]

    def decode(self, tree: Tree, changed: list[Tree]) -> Any:
        """The value of a message; containers that changed are changed in place.

        Raises:
            ValueError: The message is malformed, whatever else is wrong with it.
        """
        try:
            for number, tag, parts, *rest in changed:
                if number not in self._shared:
                    self._adopt(int(number), _empty(tag, rest))
                self._seen[number] = [tag, parts, *rest]
            for number, tag, parts, *rest in changed:
                self._fill(self._shared[number], tag, parts, rest)
                if tag == "S":
                    # The same members may come out in another order here.
                    self._seen[number] = self._parts(self._shared[number])
            return self.value(tree)
        except _MALFORMED as error:
            raise ValueError(f"a malformed value: {type(error).__name__}: {text_of(error)}") from None

    def _adopt(self, number: int, container: Any) -> None:
        self._shared[number] = container
        self._numbers[id(container)] = number

    def _fill(self, container: Any, tag: str, parts: Any, rest: list[Any]) -> None:
        if tag == "B":
            container[:] = parts.encode("latin-1")
            return
        if tag == "D":
            pairs = [(self.value(key), self.value(part)) for key, part in parts]
            container.clear()
            for key, part in pairs:
                container[key] = part
            return
        values = [self.value(part) for part in parts]
        container.clear()
        if tag == "E":
            container.tag, container.text, container.tail, attributes = rest[0]
            container.attrib.update(attributes)
        container.update(values) if tag == "S" else container.extend(values)

    def value(self, tree: Tree, depth: int = 0) -> Any:
        """The value of one tree whose containers are known."""
        if not isinstance(tree, list):
            return tree
        if depth > 2 * DEEPEST_TUPLE:
            raise ValueError("a value is nested too deep")
        tag = tree[0]
        if tag == "@":
            return self._shared[tree[1]]
        if tag in ("t", "z"):
            parts = (self.value(part, depth + 1) for part in tree[1])
            return tuple(parts) if tag == "t" else frozenset(parts)
        if tag in ("x", "y"):
            return self._resolve(tree)
        return forms.decode(tree, lambda part: self.value(part, depth + 1))


def _factory_name(factory: Any) -> str | None:
    return factory.__name__ if isinstance(factory, type) and factory in _FACTORIES.values() else None


def _is_element(kind: type) -> bool:
    return kind.__name__ == "Element" and kind.__module__ == "xml.etree.ElementTree"


def _empty(tag: str, rest: list[Any]) -> Any:
    if tag == "Q":
        return deque(maxlen=rest[0])
    if tag == "D" and rest:
        if rest[0] == "defaultdict":
            return defaultdict(_FACTORIES[rest[1]] if rest[1:] and rest[1] is not None else None)
        return {"Counter": Counter, "OrderedDict": OrderedDict}[rest[0]]()
    if tag == "E":
        from xml.etree import ElementTree

        return ElementTree.Element("")
    return {"L": list, "D": dict, "S": set, "B": bytearray}[tag]()
