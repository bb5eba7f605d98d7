"""Ways to part a function between a helper ``aux`` and a main function, found in its syntax tree."""

import ast
import copy
from collections.abc import Iterator

from comlrl_envs.coding.syntax import FUNCTIONS, SCOPES, in_scope

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
HOLDERS = (ast.Assign, ast.AugAssign, ast.Return, ast.If, ast.For)


def splits(source: str, entry_point: str) -> Iterator[tuple[str, str]]:
    """Sources of a helper and of main; whether tests need the helper is for a run to say."""
    function = next(node for node in ast.parse(source).body if isinstance(node, FUNCTIONS) and node.name == entry_point)
    if ast.get_docstring(function) is not None:
        function.body = function.body[1:]
    local = _local_names(function)
    yield from _statements(function, local)
    yield from _expressions(function, local)


def _local_names(function: ast.FunctionDef) -> set[str]:
    names = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    for node in in_scope(function.body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            names.add(node.name)
    return names


def _read(nodes: list[ast.AST]) -> set[str]:
    every = [each for node in nodes for each in ast.walk(node)]
    return {each.id for each in every if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def _stored(nodes: list[ast.AST]) -> set[str]:
    names = {each.id for each in in_scope(nodes) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return names | {each.name for each in in_scope(nodes) if isinstance(each, FUNCTIONS)}


def _leaves(nodes: list[ast.AST]) -> bool:
    kinds = (ast.Return, ast.Yield, ast.YieldFrom, ast.Nonlocal, ast.Global)
    return any(isinstance(each, kinds) for each in in_scope(nodes))


def _written(function: ast.FunctionDef, body: list[ast.stmt], takes: list[str], gives: list[ast.stmt]) -> str:
    arguments = ast.arguments([], [ast.arg(name) for name in takes], None, [], [], None, [])
    aux = ast.FunctionDef("aux", arguments, [*body, *gives], [], None, None, type_params=[])
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(aux))) + "\n"


def _main(function: ast.FunctionDef, body: list[ast.stmt]) -> str:
    main = copy.deepcopy(function)
    main.body = body
    return ast.unparse(ast.fix_missing_locations(main)) + "\n"


def _call(takes: list[str]) -> ast.Call:
    return ast.Call(ast.Name("aux", ast.Load()), [ast.Name(name, ast.Load()) for name in takes], [])


def _bundle(names: list[str], context: ast.expr_context) -> ast.expr:
    parts: list[ast.expr] = [ast.Name(name, context) for name in names]
    return parts[0] if len(parts) == 1 else ast.Tuple(parts, context)


def _statements(function: ast.FunctionDef, local: set[str]) -> Iterator[tuple[str, str]]:
    """The last statements to the helper, the first ones, or those in the midst."""
    body = function.body
    parameters = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    for start in range(1, len(body)):
        rest = body[start:]
        takes = sorted(_read(rest) & local & (parameters | _stored(body[:start])))
        if isinstance(rest[-1], ast.Return) and not any(isinstance(each, FUNCTIONS) for each in body[:start]):
            yield (_written(function, rest, takes, []), _main(function, [*body[:start], ast.Return(_call(takes))]))
    for start in range(len(body)):
        for end in range(len(body), start, -1):
            piece, rest = body[start:end], body[end:]
            gives = sorted(_stored(piece) & _read([*rest]))
            if not gives or _leaves(piece):
                continue
            takes = sorted(_read(piece) & local & (parameters | _stored(body[:start])))
            back = [ast.Return(_bundle(gives, ast.Load()))]
            call = ast.Assign([_bundle(gives, ast.Store())], _call(takes))
            yield _written(function, piece, takes, back), _main(function, [*body[:start], call, *rest])


def _expressions(function: ast.FunctionDef, local: set[str]) -> Iterator[tuple[str, str]]:
    """An expression to the helper, the largest first; in place, or bound by main beforehand."""
    found = []
    for node in ast.walk(ast.Module(function.body, [])):
        if isinstance(node, ast.expr) and not isinstance(node, ast.Name | ast.Constant | ast.Starred | ast.Slice):
            inner = {
                each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            }
            inner |= {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
            if isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and not _leaves([node]):
                found.append((node, inner))
    found.sort(key=lambda pair: -len(ast.dump(pair[0])))
    around = _comprehension_names(function)
    for node, inner in found:
        takes = sorted(_read([node]) & (local | around) - inner)
        helper = _written(function, [ast.Return(node)], takes, [])
        yield helper, _main(function, _replaced(function.body, node, _call(takes)))
        first = next((each for each in function.body if any(inside is node for inside in ast.walk(each))), None)
        if isinstance(first, HOLDERS) and not set(takes) & (around - local):
            place = function.body.index(first)
            bound = ast.Assign([ast.Name("part", ast.Store())], _call(takes))
            body = _replaced(function.body, node, ast.Name("part", ast.Load()))
            yield helper, _main(function, [*body[:place], bound, *body[place:]])


def _comprehension_names(function: ast.FunctionDef) -> set[str]:
    names = set()
    for node in ast.walk(function):
        if isinstance(node, COMPREHENSIONS):
            names |= {
                each.id for part in node.generators for each in ast.walk(part.target) if isinstance(each, ast.Name)
            }
        elif isinstance(node, SCOPES):
            names |= {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    return names


def _replaced(body: list[ast.stmt], old: ast.expr, new: ast.expr) -> list[ast.stmt]:
    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if getattr(node, "mark", None) == "here" else self.generic_visit(node)

    old.mark = "here"  # type: ignore[attr-defined]
    try:
        return [Swap().visit(each) for each in copy.deepcopy(body)]
    finally:
        del old.mark  # type: ignore[attr-defined]
