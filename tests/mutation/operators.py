"""Faults: what may be wrong at a place of a syntax tree."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

_SWAPS: Final[dict[type, tuple[type, ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
#: Fields of nodes that are not run, or whose faults say nothing.
_NOT_RUN: Final = {"annotation", "returns", "decorator_list", "type_comment"}


@dataclass(frozen=True)
class Mutant:
    """One fault: the statement that holds it, before and after, and how to put it into a tree."""

    line: int
    before: str
    after: str
    number: int


def mutants(source: str) -> list[Mutant]:
    """Every fault that the operators can put into a module."""
    found = []
    for number, (_, statement, replaced, change) in enumerate(_sites(source)):
        before = ast.unparse(statement)
        undo = change()
        after = ast.unparse(statement if replaced is None else replaced)
        undo()
        if before != after:
            found.append(Mutant(statement.lineno, _differing(before, after), _differing(after, before), number))
    return found


def mutate(source: str, number: int) -> ast.Module:
    """The module with one fault."""
    for place, (tree, _, _, change) in enumerate(_sites(source)):
        if place == number:
            change()
            return ast.fix_missing_locations(tree)
    raise IndexError(number)


def _differing(text: str, other: str) -> str:
    """The first line of a statement that another form of it does not have."""
    lines, others = text.splitlines(), other.splitlines()
    return next((line for line, twin in zip(lines, others, strict=False) if line != twin), lines[-1]).strip()


Change = Callable[[], Callable[[], None]]


def _sites(source: str) -> Iterator[tuple[ast.Module, ast.stmt, ast.AST | None, Change]]:
    """(tree, statement, what takes the statement's place if anything does, how to do it) of every fault."""
    tree = ast.parse(source)
    for parent, field, place, node, statement in _nodes(tree):
        for new in _faults(node):
            yield tree, statement, new if node is statement else None, _replacing(parent, field, place, node, new)


def _replacing(parent: ast.AST, field: str, place: int | None, node: ast.AST, new: ast.AST) -> Change:
    def change() -> Callable[[], None]:
        _set(parent, field, place, new)
        return lambda: _set(parent, field, place, node)

    return change


def _set(parent: ast.AST, field: str, place: int | None, node: ast.AST) -> None:
    if place is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[place] = node


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, int | None, ast.AST, ast.stmt]]:
    """(parent, field, place in it, node, statement around it) of everything that is run, in order."""
    pending: list[tuple[ast.AST, str, int | None, ast.AST, Any]] = [
        (tree, "body", place, node, None) for place, node in reversed(list(enumerate(tree.body)))
    ]
    while pending:
        parent, field, place, node, statement = pending.pop()
        if isinstance(node, ast.stmt):
            statement = node
        yield parent, field, place, node, statement
        inner: list[tuple[ast.AST, str, int | None, ast.AST, Any]] = []
        for name, content in ast.iter_fields(node):
            if name in _NOT_RUN:
                continue
            if isinstance(content, ast.AST):
                inner.append((node, name, None, content, statement))
            elif isinstance(content, list):
                items = [(n, item) for n, item in enumerate(content) if isinstance(item, ast.AST)]
                inner += [(node, name, n, item, statement) for n, item in items]
        pending += reversed(inner)


def _faults(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[op]) | ast.BoolOp(op=op) | ast.BinOp(op=op) | ast.AugAssign(op=op):
            for other in _SWAPS.get(type(op), ()):
                new = copy.deepcopy(node)
                if isinstance(new, ast.Compare):
                    new.ops = [other()]
                else:
                    new.op = other()
                yield new
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            if not isinstance(operand, ast.Constant):
                yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value + 1.0)
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()
        case ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        for constant in (True, False):
            if not (isinstance(node, ast.While) and constant):
                new = copy.copy(node)
                new.test = ast.Constant(constant)
                yield new
