"""How the vectorised evaluator treats each node of the text languages."""

from __future__ import annotations

import numpy as np

from bindery.router.columns import BINARY, BOOL, NESTED, NULL, STRING
from bindery.router.filters import kernels, scalar
from bindery.router.filters.ast import (
    FALSE,
    NEGATED,
    TROUBLE,
    TROUBLED,
    TRUE,
    UNKNOWN,
    And,
    Arithmetic,
    Between,
    Call,
    Compare,
    Element,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Parameter,
    Rules,
    Sign,
    Trouble,
    Truth,
    XPath,
)
from bindery.router.filters.cesql import vectors  # noqa: F401  # it registers the rules of its nodes
from bindery.router.filters.deviations import vectors as deviations  # noqa: F401  # … of its nodes
from bindery.router.filters.fields import DOCUMENT
from bindery.router.filters.pairs import Pairs, condition, operand
from bindery.router.filters.vector import IN_TROUBLE, Truths, Vector, per_distinct, truth_per_distinct
from bindery.router.values import Value

_NEGATED = np.array(NEGATED, np.uint8)
_NO_CONVERSION = Rules()
#: A part is evaluated on the undecided pairs alone when at most this share of them is left.
_WORTH_A_SUBSET = 0.75


@operand(Literal)
def _literal(node: Literal, pairs: Pairs) -> Vector:
    return pairs.constant(node.value)


@operand(Parameter)
def _parameter(node: Parameter, pairs: Pairs) -> Vector:
    return pairs.parameter(node)


@operand(Field)
def _field(node: Field, pairs: Pairs) -> Vector:
    return pairs.column(node.ref)


@operand(Element)
def _element(node: Element, pairs: Pairs) -> Vector:
    of, index = pairs.operand(node.of), pairs.operand(node.index)
    if not of.may_hold(NESTED, IN_TROUBLE) and not index.may_hold(IN_TROUBLE):
        return pairs.constant(None)
    return per_distinct(scalar.pick, of, index)


@operand(Sign)
def _sign(node: Sign, pairs: Pairs) -> Vector:
    return kernels.sign(node.op, pairs.operand(node.operand), node.rules)


@operand(Arithmetic)
def _arithmetic(node: Arithmetic, pairs: Pairs) -> Vector:
    result = pairs.operand(node.first)
    for op, item in zip(node.ops, node.rest, strict=True):
        result = kernels.calculate(op, result, pairs.operand(item), node.rules)
    return result


@operand(Call)
def _call(node: Call, pairs: Pairs) -> Vector:
    clock_ms = pairs.view.clock_ms

    def function(*values: Value | Trouble) -> Value | Trouble:
        return scalar.call(node.function, values, clock_ms)

    if not node.arguments:
        value = function()
        return pairs.constant(None if isinstance(value, Trouble) else value)
    return per_distinct(function, *(pairs.operand(item) for item in node.arguments))


@condition(Truth)
def _truth(node: Truth, pairs: Pairs) -> Truths:
    value = pairs.operand(node.operand)
    tag = value.tag
    truths = np.where(tag == BOOL, np.where(value.num != 0, TRUE, FALSE), UNKNOWN).astype(np.uint8)
    if value.may_hold(IN_TROUBLE):
        truths[tag == IN_TROUBLE] = TROUBLED
    return truths


@condition(Compare)
def _compare(node: Compare, pairs: Pairs) -> Truths:
    return kernels.compare(node.op, pairs.operand(node.left), pairs.operand(node.right), node.rules, pairs.batch)


@condition(Between)
def _between(node: Between, pairs: Pairs) -> Truths:
    value, low, high = (pairs.operand(item) for item in (node.operand, node.low, node.high))
    if node.negated:
        return np.maximum(
            kernels.compare("<", value, low, node.rules, pairs.batch),
            kernels.compare(">", value, high, node.rules, pairs.batch),
        )
    return np.minimum(
        kernels.compare(">=", value, low, node.rules, pairs.batch),
        kernels.compare("<=", value, high, node.rules, pairs.batch),
    )


@condition(In)
def _in(node: In, pairs: Pairs) -> Truths:
    value = pairs.operand(node.operand)
    truths = np.zeros(len(pairs), np.uint8)
    for member in node.members:
        equal = kernels.compare("=", value, pairs.operand(member), _NO_CONVERSION, pairs.batch)
        np.maximum(truths, equal, out=truths)
    return truths


@condition(Like)
def _like(node: Like, pairs: Pairs) -> Truths:
    constant = isinstance(node.pattern, Parameter) and node.pattern.tag == STRING
    if constant and (node.escape is None or isinstance(node.escape, Literal)):
        return _like_constant(node, pairs)
    operands = [pairs.operand(item) for item in (node.operand, node.pattern, node.escape) if item is not None]

    def match(*values: Value | Trouble) -> bool | Trouble | None:
        return scalar.match(values[0], values[1], *values[2:], longest=node.longest)

    return truth_per_distinct(match, *operands)


def _like_constant(node: Like, pairs: Pairs) -> Truths:
    """Pattern and escape were checked at definition: texts give true or false, other values false."""
    value, pattern = pairs.operand(node.operand), pairs.operand(node.pattern)
    truths = np.zeros(len(pairs), np.uint8)
    if value.may_hold(STRING):
        escape = node.escape.value if isinstance(node.escape, Literal) else None
        table = pairs.batch.matches(value.texts, pattern.texts, None if escape is None else str(escape))
        places = np.flatnonzero(value.tag == STRING)
        truths[places] = table.look_up(value.code[places], pattern.code[places])
    return kernels.mark_missing(truths, value)


@condition(IsNull)
def _is_null(node: IsNull, pairs: Pairs) -> Truths:
    value = pairs.operand(node.operand)
    missing = value.tag <= NULL
    if value.may_hold(IN_TROUBLE):
        missing = missing | (value.tag == IN_TROUBLE)
    return missing.view(np.uint8) * np.uint8(TRUE)


@condition(XPath)
def _xpath(node: XPath, pairs: Pairs) -> Truths:
    from bindery.router.filters import xpath  # noqa: PLC0415  # an XML parser, loaded when a filter needs it

    compiled = xpath.compile(node.expression)
    documents = xpath.documents_of(pairs.view, node.limits)
    document = pairs.column(DOCUMENT)
    if not document.may_hold(STRING, BINARY):
        return np.zeros(len(pairs), np.uint8)

    def evaluate(body: Value | Trouble) -> bool | Trouble:
        if not isinstance(body, str | bytes):
            return False
        outcome = documents.outcome(compiled, body)
        return TROUBLE if outcome.trouble else outcome.value

    truths = truth_per_distinct(evaluate, document)
    troubled = truths == TROUBLED
    if troubled.any():
        # a limit or a DOCTYPE makes the operand false, and is counted all the same
        pairs.count(troubled)
        truths = np.where(troubled, np.uint8(FALSE), truths)
    return truths


@condition(And)
def _and(node: And, pairs: Pairs) -> Truths:
    return _chain(node.parts, pairs, np.minimum, decided=FALSE)


@condition(Or)
def _or(node: Or, pairs: Pairs) -> Truths:
    return _chain(node.parts, pairs, np.maximum, decided=TRUE)


def _chain(parts: tuple[object, ...], pairs: Pairs, combine: np.ufunc, *, decided: int) -> Truths:
    """Parts one after the other, later ones on the pairs that are still open."""
    truths = pairs.truth(parts[0]).copy()  # type: ignore[arg-type]  # parts are nodes
    for part in parts[1:]:
        undecided = np.flatnonzero(truths != decided)
        if len(undecided) == 0:
            break
        if len(undecided) > _WORTH_A_SUBSET * len(truths):
            combine(truths, pairs.truth(part), out=truths)  # type: ignore[arg-type]  # parts are nodes
        else:
            part_truths = pairs.subset(undecided).truth(part)  # type: ignore[arg-type]  # parts are nodes
            truths[undecided] = combine(truths[undecided], part_truths)
    return truths


@condition(Not)
def _not(node: Not, pairs: Pairs) -> Truths:
    return _NEGATED[pairs.truth(node.part)]
