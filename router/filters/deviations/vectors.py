"""Deviations in the vectorised evaluator."""

from __future__ import annotations

from functools import partial

import numpy as np

from bindery.router.columns import BINARY, BOOL, NULL, STRING
from bindery.router.filters import kernels
from bindery.router.filters.ast import FALSE, TROUBLED, TRUE, UNKNOWN, Rules, Trouble
from bindery.router.filters.deviations.evaluation import equal_member, same
from bindery.router.filters.deviations.nodes import Flag, InTurn, OneOf, OnText, Same
from bindery.router.filters.pairs import Pairs, condition
from bindery.router.filters.vector import IN_TROUBLE, Truths, Vector, truth_per_distinct
from bindery.router.values import Value

_TRUTHS = {True: TRUE, False: FALSE, None: UNKNOWN}


def _mixed(left: Vector, right: Vector) -> bool:
    """Whether a string may meet a binary."""
    return (left.may_hold(STRING) and right.may_hold(BINARY)) or (left.may_hold(BINARY) and right.may_hold(STRING))


@condition(Same)
def _same(node: Same, pairs: Pairs) -> Truths:
    left, right = pairs.operand(node.left), pairs.operand(node.right)
    if node.bytes and _mixed(left, right):
        return truth_per_distinct(partial(same, node), left, right)
    truths = kernels.compare("=", left, right, node.rules, pairs.batch)
    no_left, no_right = left.tag <= NULL, right.tag <= NULL
    if not (no_left.any() or no_right.any()):
        return truths
    troubled = truths == TROUBLED
    truths = truths.copy()
    truths[no_left & no_right] = _TRUTHS[node.both]
    truths[no_left & ~no_right] = _TRUTHS[node.one_left]
    truths[no_right & ~no_left] = _TRUTHS[node.one_right]
    truths[troubled] = TROUBLED
    return truths


@condition(OneOf)
def _one_of(node: OneOf, pairs: Pairs) -> Truths:
    value = pairs.operand(node.operand)
    truths = np.zeros(len(pairs), np.uint8)
    for item in node.members:
        member = pairs.operand(item)
        if _mixed(value, member):
            equal = truth_per_distinct(_equal, value, member)
        else:
            equal = kernels.compare("=", value, member, Rules(), pairs.batch)
        truths[equal == TRUE] = TRUE
    return kernels.mark_missing(truths, value)


def _equal(value: Value | Trouble, member: Value | Trouble) -> bool:
    return value is not None and not isinstance(value, Trouble) and equal_member(value, member)


@condition(InTurn)
def _in_turn(node: InTurn, pairs: Pairs) -> Truths:
    truths = pairs.truth(node.parts[0])
    for part in node.parts[1:]:
        if node.conjunction:
            truths = np.where(truths == TRUE, pairs.truth(part), truths)
        else:
            truths = np.where(truths == TRUE, np.uint8(TRUE), pairs.truth(part))
    return truths


@condition(OnText)
def _on_text(node: OnText, pairs: Pairs) -> Truths:
    value = pairs.operand(node.test.operand)
    asked = (value.tag == STRING) | (value.tag == IN_TROUBLE)
    return np.where(asked, pairs.truth(node.test), np.uint8(UNKNOWN))


@condition(Flag)
def _flag(node: Flag, pairs: Pairs) -> Truths:
    value = pairs.operand(node.operand)
    truths = ((value.tag == BOOL) & (value.num != 0)).view(np.uint8) * np.uint8(TRUE)
    return kernels.mark_missing(truths, value)
