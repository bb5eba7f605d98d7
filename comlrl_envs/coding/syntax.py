"""Reading Python source that nobody vouches for, without ever running it.

Every function here works on text and syntax trees with loops, never by recursion over the tree: a reply may nest
as deeply as the parser allows.
"""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import TypeAlias

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

_FILE = "<reply>"
_QUIET = ("ignore", None, Warning, re.compile(re.escape(_FILE)), 0)


@functools.lru_cache(maxsize=16)
def parse(source: str) -> ast.Module:
    """The tree of ``source``, to be read only: the last few are kept, since one reply is looked at in many ways.

    Raises:
        SyntaxError: It is no Python, whatever the parser's own exception is (null characters, lone surrogates, too
            deep a nesting).
    """
    _silence()
    try:
        return ast.parse(source, _FILE)
    except SyntaxError:
        raise
    except (ValueError, MemoryError, RecursionError, OverflowError) as error:
        raise SyntaxError(_reason(error)) from None


def compile_error(source: str) -> SyntaxError | None:
    """Why ``source`` cannot be compiled, or None if it can.

    More than ``parse`` sees: a ``return`` outside functions, a repeated parameter.
    """
    _silence()
    try:
        compile(source, _FILE, "exec", dont_inherit=True)
    except SyntaxError as error:
        return error
    except (ValueError, MemoryError, RecursionError, OverflowError) as error:
        return SyntaxError(_reason(error))
    return None


def _silence() -> None:
    """Keep the parser's remarks on a reply's style, such as odd escapes, from the log of the caller.

    The filter is moved to the front where another one could turn such a remark into an error. It is no context
    manager, since those restore a list that other threads have changed meanwhile.
    """
    if not warnings.filters or warnings.filters[0] != _QUIET:
        warnings.filterwarnings("ignore", module=re.escape(_FILE))


def _reason(error: Exception) -> str:
    return "too deeply nested" if isinstance(error, MemoryError | RecursionError) else f"unreadable text ({error})"


def first_line(node: ast.stmt) -> int:
    """The line, from 1, on which a statement begins, its decorators included."""
    decorators = node.decorator_list if isinstance(node, DEFINITIONS) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def last_line(node: ast.stmt | ast.expr) -> int:
    """The line, from 1, on which a parsed node ends."""
    assert node.end_lineno is not None, "a node that the parser made has an end"
    return node.end_lineno


def source_of(statements: Iterable[ast.stmt], source: str) -> str:
    """The lines of ``statements`` in ``source``, each line once.

    Statements that share a line with others (``a = 1; b = 2``) bring them along.
    """
    lines = source.split("\n")
    taken: list[str] = []
    done = 0
    for statement in statements:
        start = max(first_line(statement), done + 1)
        done = max(done, last_line(statement))
        taken += lines[start - 1 : done]
    return "\n".join(taken) + "\n" if taken else ""


def bound_names(statement: ast.stmt) -> tuple[str, ...]:
    """Names that a statement binds in its own scope, in order, each once; ``"*"`` for a star import."""
    if isinstance(statement, FUNCTIONS) and not any(True for _ in _evaluated(statement)):
        return (statement.name,)
    names: dict[str, None] = {}
    for node in in_scope([statement]):
        if isinstance(node, DEFINITIONS):
            names[node.name] = None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(dict.fromkeys((alias.asname or alias.name).split(".")[0] for alias in node.names))
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names[node.name] = None
    return tuple(names)


def loaded_names(node: ast.AST) -> set[str]:
    """Names that a node reads anywhere within."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Store)}


def in_scope(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes below ``statements`` and they themselves, without the bodies of functions, classes and lambdas.

    What such a definition evaluates at once (decorators, defaults, base classes) belongs to the scope around it.
    Comprehensions are gone through: their variables are rarely mistaken for others.
    """
    todo = list(statements)[::-1]
    while todo:
        node = todo.pop()
        yield node
        todo += list(_evaluated(node) if isinstance(node, SCOPES) else ast.iter_child_nodes(node))[::-1]


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.ClassDef):
        yield from (*node.decorator_list, *node.bases, *node.keywords)
        return
    assert isinstance(node, (*FUNCTIONS, ast.Lambda))
    if not isinstance(node, ast.Lambda):
        yield from node.decorator_list
    yield from node.args.defaults
    yield from (default for default in node.args.kw_defaults if default is not None)


def own_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """A body without its docstring."""
    first = body[0] if body else None
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return body[1:] if is_text else body


def moved(statement: ast.stmt, lines: list[str], indent: str) -> str:
    """The text of ``statement`` with its first line at ``indent``, its decorators included.

    Lines that begin inside of a text keep their white space, which belongs to the text.

    Args:
        statement: A statement of the source.
        lines: The lines of the source.
        indent: White space to begin with.
    """
    start, end = first_line(statement), last_line(statement)
    width = len(lines[start - 1]) - len(lines[start - 1].lstrip())
    inside = {
        number
        for node in ast.walk(statement)
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        for number in range(node.lineno + 1, last_line(node) + 1)
    }
    if _shares_a_line(statement, lines):
        return f"{indent}{_own_text(statement, lines)}\n"
    text = []
    for number in range(start, end + 1):
        line = lines[number - 1]
        margin = min(width, len(line) - len(line.lstrip()))
        text.append(line if number in inside or not line.strip() else indent + line[margin:])
    return "\n".join(text) + "\n"


def _own_text(node: ast.stmt, lines: list[str]) -> str:
    """The text of a simple statement alone; columns count bytes."""
    start, end = node.lineno, last_line(node)
    rest = lines[start - 1].encode()
    if start == end:
        return rest[node.col_offset : node.end_col_offset].decode()
    last = lines[end - 1].encode()[: node.end_col_offset].decode()
    return "\n".join([rest[node.col_offset :].decode(), *lines[start : end - 1], last])


def at_margin(text: str) -> str:
    """Indented source at the margin; what its texts hold stays as it is, if the source parses."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    if not first[:1].isspace():
        return text
    source = f"if 1:\n{text}"
    try:
        (block,) = parse(source).body
    except (SyntaxError, ValueError):
        width = len(first) - len(first.lstrip())
        return "\n".join(line[min(width, len(line) - len(line.lstrip())) :] for line in text.split("\n"))
    assert isinstance(block, ast.If), "the source begins with an if"
    return "".join(moved(statement, source.split("\n"), "") for statement in block.body)


def _shares_a_line(statement: ast.stmt, lines: list[str]) -> bool:
    before = lines[statement.lineno - 1].encode()[: statement.col_offset]
    assert statement.end_col_offset is not None, "a node that the parser made has an end"
    after = lines[last_line(statement) - 1].encode()[statement.end_col_offset :]
    return bool(before.strip()) or after.strip()[:1] not in (b"", b"#")


def simple_binding(node: ast.AST) -> tuple[str, ast.expr] | None:
    """Name and value of ``name = value``, or None for any other statement."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return node.target.id, node.value
    return None


def is_read(node: ast.Name) -> bool:
    """Whether a name is read (or deleted), not bound."""
    return not isinstance(node.ctx, ast.Store)
