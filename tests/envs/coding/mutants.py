"""Small seeded faults in a function: another operator, comparison, constant or result."""

import ast

from comlrl_envs.coding.syntax import FUNCTIONS
from comlrl_envs.seeding import rng

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
SWAPPED = {ast.And: ast.Or, ast.Or: ast.And}


def mutant(source: str, entry_point: str, seed: int) -> str | None:
    """The function with one fault, alone in its module; None where there is nothing to change."""
    draws = rng(seed, entry_point, "mutant")
    tree = ast.parse(source)
    before = ast.unparse(tree)
    function = next(node for node in tree.body if isinstance(node, FUNCTIONS) and node.name == entry_point)
    sites = [node for statement in function.body for node in ast.walk(statement) if _can_change(node)]
    if not sites:
        return None
    _change(sites[int(draws.integers(len(sites)))], draws)
    after = ast.unparse(ast.fix_missing_locations(tree))
    return after + "\n" if after != before else None


def _can_change(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, OPERATORS)
    if isinstance(node, ast.Compare):
        return isinstance(node.ops[0], COMPARISONS)
    if isinstance(node, ast.Return):
        return node.value is not None
    return isinstance(node, ast.BoolOp | ast.If)


def _change(node: ast.AST, draws) -> None:
    if isinstance(node, ast.Constant):
        value = node.value
        node.value = (not value) if isinstance(value, bool) else value + int(draws.choice([-1, 1]))
    elif isinstance(node, ast.BinOp):
        others = [kind for kind in OPERATORS if not isinstance(node.op, kind)]
        node.op = others[int(draws.integers(len(others)))]()
    elif isinstance(node, ast.Compare):
        others = [kind for kind in COMPARISONS if not isinstance(node.ops[0], kind)]
        node.ops[0] = others[int(draws.integers(len(others)))]()
    elif isinstance(node, ast.BoolOp):
        node.op = SWAPPED[type(node.op)]()
    elif isinstance(node, ast.If):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Return) and node.value is not None:
        kept = node.value
        node.value = [ast.Constant(None), ast.Tuple([kept], ast.Load()), ast.UnaryOp(ast.Not(), kept)][
            int(draws.integers(3))
        ]
