"""Python code out of any reply.

A reply may be plain code, prose with fenced blocks, prose with code at its margin, or anything else. What counts as
code is decided by the parser, statement by statement; nothing is ever run.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from comlrl_envs.coding.syntax import DEFINITIONS, FUNCTIONS, at_margin, bound_names, parse
from comlrl_envs.coding.top_level import module_of

MAX_CHARACTERS = 32_768
"""Characters of a reply that are searched for code. The parser takes up to 40 microseconds a character."""
REMEMBERED = 512
"""Replies of which a process keeps what was found: one that meets several of a teammate's is read once."""
MAX_BROKEN = 20
"""Definitions that cannot be parsed of which one reply keeps a record."""

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^`\n]*)")
_PYTHON = frozenset({"", "python", "python3", "py", "py3", "ipython", "python2"})
_MARGIN = re.compile(r"(?!else\b|elif\b|except\b|finally\b)[^\s)\]}#]")
_DEFINITION = re.compile(r"\s*(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_INDENTED = re.compile(r"[ \t]+(?:@|(?:async[ \t]+)?def\b|class\b|import\b|from\b)")
_CUT_SHORT = ("was never closed", "unterminated triple-quoted", "unexpected EOF")


@dataclass(frozen=True)
class Broken:
    """A function or class that stands in a reply but cannot be parsed.

    Attributes:
        name: Its name.
        source: Its text.
        message: What the parser says.
        line: Line of the reply, from 1.
        column: Column of that line, from 1; 0 if unknown.
        first_line: Line of the reply where the definition begins, from 1.
    """

    name: str
    source: str
    message: str
    line: int
    column: int = 0
    first_line: int = 1


@dataclass(frozen=True)
class Extracted:
    """What was found in a reply.

    Attributes:
        code: Source of a module that compiles; ``""`` if there is no code.
        broken: Definitions that had to be left out, in the order of the reply.
    """

    code: str
    broken: tuple[Broken, ...] = ()


@dataclass(frozen=True)
class _Block:
    lines: list[str]
    start: int  # line of the reply, from 0
    language: str = ""


def extract_code(reply: str) -> str:
    r"""Source of a module made of all the code in ``reply``, or ``""``; see ``extract``.

    >>> print(extract_code("Sure! Here it is:\n```python\ndef aux(n):\n    return n + 1\n```\nHope it helps."))
    def aux(n):
        return n + 1
    <BLANKLINE>
    """
    return extract(reply).code


def extract(reply: str) -> Extracted:
    """The code in ``reply``, and the definitions in it that cannot be parsed.

    A reply that parses as it stands is code. Else, fenced blocks (backticks or tildes, any number of them, the last
    one perhaps unclosed) are taken if they hold a function or class; blocks marked as another language count only
    if no other block does. Else, all lines are searched. Where a text does not parse as a whole, each of its
    statements at the margin that parses by itself is kept: imports, constants, functions, classes, whatever they
    hold, with their decorators.

    Left out at the top level: what shows or tests the code instead of being it (see ``top_level``). Names that are
    defined twice keep both definitions, so the last one holds.

    The time is linear in the length of the reply, of which the first 32,768 characters are read.
    """
    return _extracted(reply[:MAX_CHARACTERS].removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))


@functools.lru_cache(maxsize=REMEMBERED)
def _extracted(text: str) -> Extracted:
    plain = _assemble([_block(text.split("\n"), 0)], recover=False)
    if plain.code:
        return plain
    blocks, outside = _fenced(text.split("\n"))
    python = [block for block in blocks if block.language in _PYTHON]
    for chosen in (python, blocks):
        found = _assemble(chosen)
        if found.broken:
            # Fences at the margin are no statements, and those within a text belong to it.
            for other in (_outermost(chosen, text), _assemble([_block(text.split("\n"), 0)])):
                if other.code and not other.broken:
                    return other
        if defines_something(found):
            return found
    for lines in (text.split("\n"), outside):
        unfenced = _assemble([_block(lines, 0)])
        if unfenced.code and not unfenced.broken:
            break
    return unfenced if unfenced.code or unfenced.broken else _assemble(python)


def extract_unfenced(text: str, first_line: int = 1) -> Extracted:
    """The code of a text without fences, such as the body of a class; see ``extract``."""
    return _assemble([_block(text[:MAX_CHARACTERS].split("\n"), first_line - 1)])


def defines_something(found: Extracted) -> bool:
    """Whether a function or class was found, be it broken."""
    return bool(found.broken) or any(isinstance(node, DEFINITIONS) for node in parse(found.code).body)


def defined(code: str) -> tuple[str, ...]:
    r"""Names that valid source binds at its top level, in order, each once.

    >>> defined("import math\nLIMIT = 3\ndef aux(n): return n")
    ('math', 'LIMIT', 'aux')
    """
    return tuple(dict.fromkeys(name for statement in parse(code).body for name in bound_names(statement)))


def functions(code: str) -> tuple[str, ...]:
    """Names of the functions at the top level of valid source, in order, each once."""
    return tuple(dict.fromkeys(node.name for node in parse(code).body if isinstance(node, FUNCTIONS)))


def _fenced(lines: list[str]) -> tuple[list[_Block], list[str]]:
    """The fenced blocks of a text, and all its lines with those of the fences emptied."""
    blocks: list[_Block] = []
    outside = list(lines)
    opened: tuple[str, int, str] | None = None
    for number, line in enumerate(lines):
        match = _FENCE.fullmatch(line.rstrip())
        if match is None:
            continue
        marks, info = match[1], match[2].strip()
        if opened is None:
            opened = (marks, number, info.split(maxsplit=1)[0].strip("{}.").lower() if info else "")
        elif not info and marks[0] == opened[0][0] and len(marks) >= len(opened[0]):
            blocks.append(_block(lines[opened[1] + 1 : number], opened[1] + 1, opened[2]))
            opened = None
        else:
            continue
        outside[number] = ""
    if opened is not None:
        blocks.append(_block(lines[opened[1] + 1 :], opened[1] + 1, opened[2]))
    return blocks, outside


def _block(lines: list[str], start: int, language: str = "") -> _Block:
    return _Block(at_margin("\n".join(lines)).split("\n"), start, language)


def _outermost(blocks: list[_Block], text: str) -> Extracted:
    """All lines from the first block to the last: fences that stand in a docstring are no fences."""
    last = blocks[-1]
    lines = text.split("\n")[blocks[0].start : last.start + len(last.lines)]
    return _assemble([_block(lines, blocks[0].start)], recover=False)


def _assemble(blocks: list[_Block], *, recover: bool = True) -> Extracted:
    """The code of all blocks, one after the other."""
    pieces: list[str] = []
    broken: list[Broken] = []
    for block in blocks:
        source = "\n".join(block.lines)
        try:
            parse(source)
        except SyntaxError:
            if not recover:
                return Extracted("")
            kept, lost = _recover(block)
            pieces += kept
            broken += lost
        else:
            pieces.append(source)
    code, failures = module_of(pieces)
    for text, error in failures:
        record = _record(text.split("\n"), 0, text.count("\n") + 1, error, 0)
        broken += [record] if record else []
    return Extracted(code, tuple(broken[:MAX_BROKEN]))


def _recover(block: _Block, depth: int = 0) -> tuple[list[str], list[Broken]]:
    """The pieces of a text that parse, each from one line at the margin to another.

    Below a line that is no definition (prose, an import) there may be indented ones, which are searched by themselves.
    """
    lines = block.lines
    starts = list(_margins(lines))
    bounds = [*starts, len(lines)]
    budget = 2 * sum(map(len, lines)) + 20_000
    kept: list[str] = []
    broken: list[Broken] = []
    position = 0
    while position < len(starts):
        start, stop = bounds[position], bounds[position + 1]
        error = _error("\n".join(lines[start:stop]))
        after = position + 1
        if error is not None and budget > 0 and any(sign in (error.msg or "") for sign in _CUT_SHORT):
            # A text or a bracket may run on over lines at the margin.
            after, spent = _extend(lines, bounds, position)
            budget -= spent
            error = None if after > position else error
        if error is None:
            kept.append("\n".join(lines[start : bounds[after]]))
        elif record := _record(lines, start, stop, error, block.start):
            broken.append(record)
        elif depth < 2 and (at := next((i for i in range(start + 1, stop) if _INDENTED.match(lines[i])), None)):
            for part in (lines[start:at], lines[at:stop]):
                more, lost = _recover(_block(part, block.start + at), depth + 1)
                kept += more
                broken += lost
        position = max(after, position + 1)
    return kept, broken


def _margins(lines: list[str]) -> Iterator[int]:
    """Lines where a statement may begin: at the margin, and not below a decorator."""
    decorated = False
    for number, line in enumerate(lines):
        if _MARGIN.match(line):
            if not decorated:
                yield number
            decorated = line.startswith("@")


def _extend(lines: list[str], bounds: list[int], position: int) -> tuple[int, int]:
    """How far the statement at ``bounds[position]`` goes, as an index of ``bounds``, and the characters parsed.

    ``position`` itself means that no piece parses. Each error bounds the next attempt, so attempts shrink.
    """
    start, end, spent = bounds[position], len(bounds) - 1, 0
    for _ in range(12):
        source = "\n".join(lines[start : bounds[end]])
        spent += len(source)
        error = _error(source)
        if error is None:
            return end, spent
        failed = start + (error.lineno or 1) - 1
        end = min(end - 1, bisect.bisect_right(bounds, failed) - 1)
        if end <= position:
            break
    return position, spent


def _error(source: str) -> SyntaxError | None:
    try:
        parse(source)
    except SyntaxError as error:
        return error
    return None


def _record(lines: list[str], start: int, stop: int, error: SyntaxError, offset: int) -> Broken | None:
    for text in lines[start:stop]:
        if text.startswith("@"):
            continue
        match = _DEFINITION.match(text)
        if match is None:
            return None
        first, source = offset + start + 1, "\n".join(lines[start:stop])
        line = first + (error.lineno or 1) - 1
        return Broken(match[1], source, error.msg or "invalid syntax", line, error.offset or 0, first)
    return None
