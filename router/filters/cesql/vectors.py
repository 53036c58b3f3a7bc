"""How the vectorised evaluator treats the nodes of CloudEvents SQL; casts and functions once per distinct value."""

from __future__ import annotations

from functools import partial

import numpy as np

from bindery.router.columns import BOOL, INT
from bindery.router.columns import STRING as TEXT
from bindery.router.filters import kernels
from bindery.router.filters.ast import FALSE, TRUE, Rules, Trouble
from bindery.router.filters.cesql.casting import BOOLEAN, INTEGER, STRING, cast, cast_like
from bindery.router.filters.cesql.evaluation import invoke
from bindery.router.filters.cesql.nodes import Cast, CastLike, InOrder, Invocation, MemberOf
from bindery.router.filters.pairs import Pairs, condition, operand
from bindery.router.filters.vector import Ints, Truths, Vector, per_distinct

_PLAIN = Rules()
#: What a value of a type is in a column; the same, null and trouble stay as they are.
_TAGS = {STRING: TEXT, INTEGER: INT, BOOLEAN: BOOL}


@operand(Cast)
def _cast(node: Cast, pairs: Pairs) -> Vector:
    value = pairs.operand(node.operand)
    others = (BOOL, INT, TEXT)
    if not value.may_hold(*(tag for tag in others if tag != _TAGS[node.to])):
        return value
    return per_distinct(partial(cast, to=node.to), value)


@operand(CastLike)
def _cast_like(node: CastLike, pairs: Pairs) -> Vector:
    return per_distinct(cast_like, pairs.operand(node.operand), pairs.operand(node.like))


@operand(Invocation)
def _invocation(node: Invocation, pairs: Pairs) -> Vector:
    if not node.arguments:
        value = invoke(node.function)
        return pairs.constant(None if isinstance(value, Trouble) else value)
    return per_distinct(partial(invoke, node.function), *(pairs.operand(item) for item in node.arguments))


@condition(InOrder)
def _in_order(node: InOrder, pairs: Pairs) -> Truths:
    truths = pairs.truth(node.parts[0]).copy()
    for part in node.parts[1:]:
        going_on = {"AND": truths == TRUE, "OR": truths == FALSE}.get(node.op, (truths == TRUE) | (truths == FALSE))
        places = np.flatnonzero(going_on)
        if len(places) == 0:
            break
        found = pairs.truth(part) if len(places) == len(truths) else pairs.subset(places).truth(part)
        truths[places] = _unlike(truths[places], found) if node.op == "XOR" else found
    return truths


def _unlike(left: Truths, right: Truths) -> Truths:
    """XOR of what is true or false with a truth, whose errors stay."""
    known = (right == TRUE) | (right == FALSE)
    return np.where(known, np.where(left == right, np.uint8(FALSE), np.uint8(TRUE)), right)


@condition(MemberOf)
def _member_of(node: MemberOf, pairs: Pairs) -> Truths:
    truths = np.zeros(len(pairs), np.uint8)
    places: Ints = np.arange(len(pairs))
    for member in node.members:
        here = pairs if len(places) == len(pairs) else pairs.subset(places)
        found = kernels.compare("=", here.operand(node.operand), here.operand(member), _PLAIN, here.batch)
        truths[places] = found
        places = places[found == FALSE]
        if len(places) == 0:
            break
    return truths
