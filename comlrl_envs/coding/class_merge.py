"""One class out of a skeleton and the methods that several agents wrote.

The merge is a function of the skeleton and the replies alone: where several agents wrote a method, the first agent
in the team's order whose code compiles is taken, whoever is listed first in the reply or writes more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from comlrl_envs.coding.class_skeleton import Skeleton, is_stub, method_key, methods_of
from comlrl_envs.coding.replies import Broken, extract, extract_unfenced
from comlrl_envs.coding.syntax import (
    FUNCTIONS,
    Function,
    bound_names,
    compile_error,
    first_line,
    last_line,
    moved,
    parse,
)

_BINDINGS = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
_METHOD_DECORATORS = frozenset({"staticmethod", "classmethod", "property"})
_MARGIN = re.compile(r"([ \t]*)(?:@|(?:async[ \t]+)?def\b)")


@dataclass(frozen=True)
class Written:
    """What one agent's reply gives to the class; all sources begin at the margin and compile.

    Attributes:
        methods: Source by key, decorators included; the last one holds where a reply repeats a method.
        broken: Keys of methods that are in the reply but do not compile, with what the parser says.
        fields: Assignments in the body of the class.
        module: Imports, constants, functions and classes beside the class.
    """

    methods: Mapping[str, str] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    module: tuple[str, ...] = ()


@dataclass(frozen=True)
class Merged:
    """A team's class.

    Attributes:
        source: The module; stubs stay where nobody wrote a method that compiles.
        authors: The agent whose code was taken, by target.
        valid: Targets with code that compiles, from an agent that may write them.
        overlap: Targets that more than one agent wrote, be it broken.
        problem: Why the module does not compile, or None.
    """

    source: str
    authors: Mapping[str, str]
    valid: tuple[str, ...]
    overlap: tuple[str, ...]
    problem: str | None


@dataclass(frozen=True)
class ClassFacts:
    """What is known of a team's class before its tests run.

    Attributes:
        targets: Methods to write.
        written: Methods of ``targets`` that each agent wrote, be they broken, in the order of the class.
        broken: By agent and method, why its code does not compile.
        merged: The team's class.
        methods_by_test: Methods that each test uses, by ``"Class.test"``.
        dealt: By agent, the methods that it is to write; empty where each chooses.
    """

    targets: tuple[str, ...]
    written: Mapping[str, tuple[str, ...]]
    broken: Mapping[str, Mapping[str, str]]
    merged: Merged
    methods_by_test: Mapping[str, frozenset[str]]
    dealt: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def owners(self) -> dict[str, str]:
        """By method the agent that is to write it; empty where each chooses."""
        return {key: agent for agent, keys in self.dealt.items() for key in keys}


def class_facts(
    skeleton: Skeleton,
    written: Mapping[str, Written],
    merged: Merged,
    methods_by_test: Mapping[str, frozenset[str]],
    dealt: Mapping[str, tuple[str, ...]] | None = None,
) -> ClassFacts:
    """The facts of a team's replies; arguments as in ``merge``, whose ``assigned`` is ``dealt``."""
    names = {
        agent: tuple(key for key in skeleton.targets if key in own.methods or key in own.broken)
        for agent, own in written.items()
    }
    broken = {
        agent: {key: own.broken[key] for key in names[agent] if key in own.broken} for agent, own in written.items()
    }
    return ClassFacts(skeleton.targets, names, broken, merged, methods_by_test, dealt or {})


def read_reply(reply: str, skeleton: Skeleton) -> Written:
    """The methods in a reply, whatever form it has.

    The class itself may stand around them, or not; bare methods may be indented as in a class. Of bare functions,
    those that are to be written, take ``self`` or ``cls``, or are decorated as only methods are, belong to the
    class; others to the module. Where one method of a class is broken, the others are still read.
    """
    found = extract(reply)
    parts = _Parts(skeleton)
    parts.read_module(found.code)
    for broken in found.broken:
        _salvage(broken, parts)
    return parts.written()


def _salvage(broken: Broken, parts: _Parts) -> None:
    """Read what can be read of a class or of methods that do not parse together."""
    if re.match(r"(?:@.*\n)*class\b", broken.source):
        lines = broken.source.split("\n")
        header = next((i for i, line in enumerate(lines) if line.split("#")[0].rstrip().endswith(":")), 0)
        body = extract_unfenced("\n".join(lines[header + 1 :]), broken.first_line + header + 1)
        if broken.name == parts.skeleton.class_name:
            parts.read_class(body.code)
    else:
        body = extract_unfenced(_remargined(broken.source), broken.first_line)
        parts.read_module(body.code)
    for each in body.broken:
        parts.broken[each.name] = f"{each.message} (line {each.line})"


def _remargined(source: str) -> str:
    """Methods of which the first begins at the margin and the next ones where methods do, all at the margin."""
    lines = source.split("\n")
    depths = {len(match[1]) for line in lines if (match := _MARGIN.match(line))}
    shift = min((depth for depth in depths if depth), default=0)
    matches = map(_MARGIN.match, lines)
    return "\n".join(
        " " * shift + line if match and not match[1] else line for match, line in zip(matches, lines, strict=True)
    )


class _Parts:
    """Collects what a reply gives to the class, in the order of the reply."""

    def __init__(self, skeleton: Skeleton) -> None:
        self.skeleton = skeleton
        self.methods: dict[str, str] = {}
        self.broken: dict[str, str] = {}
        self.fields: list[str] = []
        self.module: list[str] = []

    def read_module(self, code: str) -> None:
        lines = code.split("\n")
        for node in parse(code).body:
            if isinstance(node, ast.ClassDef) and node.name == self.skeleton.class_name:
                self._read_body(node.body, lines)
            elif isinstance(node, FUNCTIONS) and self._is_method(node):
                self._add(node, lines)
            elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
                continue
            elif isinstance(node, (*FUNCTIONS, ast.ClassDef, *_BINDINGS)):
                self.module.append(moved(node, lines, ""))

    def read_class(self, code: str) -> None:
        self._read_body(parse(code).body, code.split("\n"))

    def _read_body(self, body: list[ast.stmt], lines: list[str]) -> None:
        for node in body:
            if isinstance(node, FUNCTIONS):
                self._add(node, lines)
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.ClassDef | ast.Import | ast.ImportFrom):
                self.fields.append(moved(node, lines, ""))

    def _is_method(self, node: Function) -> bool:
        arguments = [*node.args.posonlyargs, *node.args.args]
        decorators = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
        bound = bool(arguments) and arguments[0].arg in ("self", "cls")
        return method_key(node) in self.skeleton.targets or bound or bool(decorators & _METHOD_DECORATORS)

    def _add(self, node: Function, lines: list[str]) -> None:
        source = moved(node, lines, "")
        error = compile_error("class _:\n" + moved(node, lines, "    "))
        if error is None:
            self.methods[method_key(node)] = source
        else:
            self.broken[method_key(node)] = error.msg or "invalid syntax"

    def written(self) -> Written:
        broken = {key: why for key, why in self.broken.items() if key not in self.methods}
        return Written(self.methods, broken, tuple(self.fields), tuple(self.module))


def merge(
    skeleton: Skeleton, written: Mapping[str, Written], assigned: Mapping[str, Collection[str]] | None = None
) -> Merged:
    """The class with each stub replaced by the first agent's code that compiles, in the order of ``written``.

    The skeleton's decorators stay where the code lacks them, and so do its base classes, its other methods and
    its imports: what it binds already is nobody's to change. Methods and fields that it does not have are
    appended to the class, imports and functions beside the class are put before it; of several agents' that bind
    the same name the first agent's is kept.

    Args:
        skeleton: See ``read_skeleton``.
        written: What each agent wrote, in the team's order.
        assigned: Methods that each agent is to write; another's are not taken. None: all may write all.
    """
    allowed = {agent: set(skeleton.targets if assigned is None else assigned[agent]) for agent in written}
    authors = {
        key: next((a for a, own in written.items() if key in own.methods and key in allowed[a]), None)
        for key in skeleton.targets
    }
    chosen = {key: agent for key, agent in authors.items() if agent is not None}
    count = {key: sum(key in own.methods or key in own.broken for own in written.values()) for key in skeleton.targets}
    source = _rewritten(skeleton, {key: written[agent].methods[key] for key, agent in chosen.items()}, written)
    error = compile_error(source)
    return Merged(
        source,
        chosen,
        tuple(chosen),
        tuple(key for key, writers in count.items() if writers > 1),
        None if error is None else f"{error.msg} (line {error.lineno})",
    )


def _rewritten(skeleton: Skeleton, chosen: Mapping[str, str], written: Mapping[str, Written]) -> str:
    body = parse(skeleton.source).body
    node = next(each for each in body if isinstance(each, ast.ClassDef) and each.name == skeleton.class_name)
    lines = skeleton.source.split("\n")
    indent = lines[node.body[0].lineno - 1][: node.body[0].col_offset]
    taken = {name for each in node.body for name in bound_names(each)}
    extra = [
        moved(parse(source).body[0], source.split("\n"), indent)
        for source in _unbound(
            (source for own in written.values() for source in (*own.fields, *_others(own, skeleton, taken))), taken
        )
    ]
    before = _unbound(
        (source for own in written.values() for source in own.module),
        {name for each in body for name in bound_names(each)},
    )
    edits = [
        (first_line(node), first_line(node) - 1, "".join(before)),
        (last_line(node) + 1, last_line(node), "".join(extra)),
    ]
    for method in methods_of(node):
        if (source := chosen.get(method_key(method))) is not None and is_stub(method):
            edits.append((first_line(method), last_line(method), _placed(source, method, lines, indent)))
    # From the end, so that the lines of earlier edits stay where they are.
    for start, end, text in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
        lines[start - 1 : end] = text.split("\n")[:-1]
    return "\n".join(lines)


def _others(own: Written, skeleton: Skeleton, taken: set[str]) -> Iterator[str]:
    """Methods that the skeleton does not have."""
    for key, source in own.methods.items():
        if key not in skeleton.targets and key.split(".")[0] not in taken:
            yield source


def _unbound(sources: Iterable[str], bound: set[str]) -> list[str]:
    """Those of ``sources`` that bind a name which neither ``bound`` nor an earlier one binds.

    An accessor (``@x.setter``) may follow its property, from the same agent or another.
    """
    seen = set(bound)
    kept: dict[str, None] = {}
    for source in sources:
        node = parse(source).body[0]
        keys = {method_key(node)} if isinstance(node, FUNCTIONS) else set(bound_names(node))
        if keys - seen:
            seen |= keys
            kept[source] = None
    return list(kept)


def _placed(source: str, stub: Function, lines: list[str], indent: str) -> str:
    """An agent's method in the place of ``stub``, with the stub's decorators that it lacks."""
    node = parse(source).body[0]
    assert isinstance(node, FUNCTIONS), "a method's source is one definition"
    own = {"".join(text.split()) for text in _decorators(node, source)}
    missing = [f"{indent}@{text}\n" for text in _decorators(stub, "\n".join(lines)) if "".join(text.split()) not in own]
    return "".join(missing) + moved(node, source.split("\n"), indent)


def _decorators(node: Function, source: str) -> list[str]:
    texts = [ast.get_source_segment(source, decorator) for decorator in node.decorator_list]
    return [text for text in texts if text is not None]
