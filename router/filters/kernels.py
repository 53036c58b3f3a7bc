"""Comparison and arithmetic of whole vectors, equal to `scalar.compare` and `arithmetic.calculate` row by row.

No kernel raises for a batch: what has no result is masked out before, and marked null or in trouble after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bindery.router.columns import BINARY, BOOL, DOUBLE, INT, NULL, STRING, TIMESTAMP, Column
from bindery.router.filters import arithmetic, scalar
from bindery.router.filters.ast import TROUBLED, TRUE, UNKNOWN, Rules
from bindery.router.filters.pairs import Batch
from bindery.router.filters.vector import IN_TROUBLE, Ints, Source, Truths, Vector, per_distinct
from bindery.router.values import INT64_MIN, Value

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_EQUALITY: Final = ("=", "<>")
_EXACT_IN_DOUBLE: Final = 2**53


def compare(op: str, left: Vector, right: Vector, rules: Rules, batch: Batch) -> Truths:
    """The truths of `left op right`."""
    if rules.converts_text:
        left, right = convert_text(left, right), convert_text(right, left)
    held = np.zeros(len(left), np.bool_)
    if _numeric(left) and _numeric(right):
        held |= _compare_numbers(op, left, right)
    if op in _EQUALITY and left.may_hold(BOOL) and right.may_hold(BOOL):
        held |= _both(left, right, BOOL) & _OPERATORS[op](left.num, right.num)
    for tag in (STRING, BINARY):
        if left.may_hold(tag) and right.may_hold(tag):
            if op in _EQUALITY:
                held |= _both(left, right, tag) & _equal_texts(op, left, right, batch)
            elif rules.orders_text:
                held |= _both(left, right, tag) & _ordered_texts(op, left, right, batch)
    truths = held.view(np.uint8) * np.uint8(TRUE)
    return mark_missing(truths, left, right)


def mark_missing(truths: Truths, *operands: Vector) -> Truths:
    """Set UNKNOWN where an operand is null, TROUBLED where one is in trouble; writes into `truths`."""
    for operand in operands:
        if operand.may_hold(0, NULL):
            truths[operand.tag <= NULL] = UNKNOWN
    for operand in operands:
        if operand.may_hold(IN_TROUBLE):
            truths[operand.tag == IN_TROUBLE] = TROUBLED
    return truths


def _numeric(vector: Vector) -> bool:
    return vector.may_hold(INT, TIMESTAMP, DOUBLE)


def _whole(vector: Vector) -> Flags:
    """Rows with an integer or a timestamp."""
    if vector.may_hold(TIMESTAMP):
        return np.asarray((vector.tag == INT) | (vector.tag == TIMESTAMP))
    return np.asarray(vector.tag == INT)


def _both(left: Vector, right: Vector, tag: int) -> Flags:
    if left.held == 1 << tag:
        return np.asarray(right.tag == tag)
    if right.held == 1 << tag:
        return np.asarray(left.tag == tag)
    return np.asarray((left.tag == tag) & (right.tag == tag))


def _compare_numbers(op: str, left: Vector, right: Vector) -> Flags:
    operator = _OPERATORS[op]
    if not left.may_hold(DOUBLE) and not right.may_hold(DOUBLE):
        return np.asarray(_whole(left) & _whole(right) & operator(left.num, right.num))
    held = np.zeros(len(left), np.bool_)
    left_whole, right_whole = _whole(left), _whole(right)
    left_double, right_double = left.tag == DOUBLE, right.tag == DOUBLE
    both = left_whole & right_whole
    if both.any():
        held |= both & operator(left.num, right.num)
    both = left_double & right_double
    if both.any():
        held |= both & operator(left.dbl, right.dbl)
    mixed = left_whole & right_double
    if mixed.any():
        held[mixed] = _compare_exactly(op, left.num[mixed], right.dbl[mixed])
    mixed = left_double & right_whole
    if mixed.any():
        held[mixed] = _compare_exactly(_MIRRORED[op], right.num[mixed], left.dbl[mixed])
    return held


_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _compare_exactly(op: str, whole: Ints, double: Floats) -> Flags:
    """Integers with doubles without rounding: 2^53 + 1 is not equal to any double."""
    rounded = whole.astype(np.float64)
    held = _OPERATORS[op](rounded, double)
    # rounding keeps order, so only a rounded integer that equals the double can mislead
    doubtful = (rounded == double) & (np.abs(rounded) >= _EXACT_IN_DOUBLE)
    if doubtful.any():
        exact_double = double[doubtful]
        beyond = exact_double >= 2.0**63
        exact = _OPERATORS[op](whole[doubtful], np.where(beyond, 0.0, exact_double).astype(np.int64))
        held[doubtful] = np.where(beyond, op in ("<", "<=", "<>"), exact)
    return np.asarray(held)


def _equal_texts(op: str, left: Vector, right: Vector, batch: Batch) -> Flags:
    left_table, right_table = batch.common_codes(left.texts, right.texts)
    return np.asarray(_OPERATORS[op](_mapped(left.code, left_table), _mapped(right.code, right_table)))


def _ordered_texts(op: str, left: Vector, right: Vector, batch: Batch) -> Flags:
    left_order, right_order = batch.common_order(left.texts, right.texts)
    return np.asarray(_OPERATORS[op](_mapped(left.code, left_order), _mapped(right.code, right_order)))


def _mapped(codes: npt.NDArray[Any], table: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Codes through a table; rows without text (-1) get whatever the last entry is, they are masked after."""
    if table is None:
        return codes
    return table[codes] if len(table) else codes


def convert_text(vector: Vector, other: Vector) -> Vector:
    """Strings that meet a number or boolean, read as one where they parse (Artemis filter expressions)."""
    if not vector.may_hold(STRING) or not other.may_hold(BOOL, INT, DOUBLE, TIMESTAMP):
        return vector
    as_numbers = per_distinct(_number_or_same, vector)
    as_flags = per_distinct(_flag_or_same, vector)
    meets_flag = other.tag == BOOL
    meets_number = np.isin(other.tag, (INT, DOUBLE, TIMESTAMP))
    return select((meets_number, as_numbers), (meets_flag, as_flags), default=vector)


def read_numbers(vector: Vector) -> Vector:
    """Every string read as a number where it parses, for arithmetic."""
    return per_distinct(_number_or_same, vector) if vector.may_hold(STRING) else vector


def _number_or_same(value: Value) -> Value:
    read = arithmetic.text_as_number(value) if isinstance(value, str) else None
    return value if read is None else read


def _flag_or_same(value: Value) -> Value:
    read = arithmetic.text_as_flag(value) if isinstance(value, str) else None
    return value if read is None else read


def select(*choices: tuple[Flags, Vector], default: Vector) -> Vector:
    """Row by row the first vector whose flag is set; numbers and booleans may differ, texts are the default's.

    Rows whose choice holds a text keep the text of `default`: the vectors differ in converted rows only.
    """
    tag, num, dbl, code = default.tag.copy(), default.num.copy(), default.dbl.copy(), default.code.copy()
    for flags, vector in choices:
        rows = flags & (default.tag == STRING) & (vector.tag != STRING)
        tag[rows], num[rows], dbl[rows], code[rows] = vector.tag[rows], vector.num[rows], vector.dbl[rows], -1
    source = Source(Column(tag, num, dbl, code, default.distinct, default.texts.kind))
    source.texts = default.texts
    return Vector(source)


def calculate(op: str, left: Vector, right: Vector, rules: Rules) -> Vector:
    """`left op right` with numbers; strings too where the language joins or converts them."""
    if rules.joins_text and op == "+" and left.may_hold(STRING) and right.may_hold(STRING):
        joined = _both(left, right, STRING)
        if joined.any():
            return per_distinct(lambda first, second: scalar.calculate(op, first, second, rules), left, right)
    if rules.converts_text:
        left, right = read_numbers(left), read_numbers(right)
    left_whole, right_whole = _whole(left), _whole(right)
    whole = left_whole & right_whole
    tag = np.full(len(left), IN_TROUBLE, np.uint8)
    num = np.zeros(len(left), np.int64)
    dbl = np.zeros(len(left), np.float64)
    if whole.any():
        first, second = np.where(whole, left.num, 0), np.where(whole, right.num, 1)
        if op == "/" and rules.floating_division:
            fits = whole & (second != 0)
            with np.errstate(all="ignore"):
                dbl = np.where(fits, first.astype(np.float64) / second.astype(np.float64), 0.0)
            tag[fits] = DOUBLE
        else:
            result, fits = _WHOLE[op](first, second)
            fits &= whole & (result <= rules.most) & (result >= -rules.most - 1)
            num = np.where(fits, result, 0)
            tag[fits] = INT
    if left.may_hold(DOUBLE) or right.may_hold(DOUBLE):
        floating = ((left.tag == DOUBLE) & ((right.tag == DOUBLE) | right_whole)) | (left_whole & (right.tag == DOUBLE))
        with np.errstate(all="ignore"):
            values = _FLOATING[op](_as_double(left, left_whole), _as_double(right, right_whole))
        dbl = np.where(floating, values, dbl)
        tag[floating] = DOUBLE
    _mark_null(tag, num, dbl, left, right)
    return _numbers(tag, num, dbl)


def _as_double(vector: Vector, whole: Flags) -> Floats:
    return np.where(whole, vector.num.astype(np.float64), vector.dbl)


def _mark_null(tag: npt.NDArray[np.uint8], num: Ints, dbl: Floats, *operands: Vector) -> None:
    missing = np.zeros(len(tag), np.bool_)
    troubled = np.zeros(len(tag), np.bool_)
    for operand in operands:
        if operand.may_hold(0, NULL):
            missing |= operand.tag <= NULL
        if operand.may_hold(IN_TROUBLE):
            troubled |= operand.tag == IN_TROUBLE
    tag[missing] = NULL
    tag[troubled] = IN_TROUBLE


def _numbers(tag: npt.NDArray[np.uint8], num: Ints, dbl: Floats) -> Vector:
    codes = np.full(len(tag), -1, np.int32)
    return Vector.of(Column(tag, num, dbl, codes, [], np.zeros(0, np.uint8)))


def sign(op: str, vector: Vector, rules: Rules) -> Vector:
    """Unary + or - of numbers; the least integer has no opposite."""
    if rules.converts_text:
        vector = read_numbers(vector)
    tag = np.full(len(vector), IN_TROUBLE, np.uint8)
    whole, double = _whole(vector), vector.tag == DOUBLE
    num = np.where(whole, vector.num, 0)
    dbl = np.where(double, vector.dbl, 0.0)
    tag[whole], tag[double] = INT, DOUBLE
    if op == "-":
        tag[whole & (num == -rules.most - 1)] = IN_TROUBLE
        num, dbl = -num, np.where(double, -dbl, 0.0)
    _mark_null(tag, num, dbl, vector)
    return _numbers(tag, num, dbl)


def _add(left: Ints, right: Ints) -> tuple[Ints, Flags]:
    result = left + right
    return result, ((left ^ result) & (right ^ result)) >= 0


def _subtract(left: Ints, right: Ints) -> tuple[Ints, Flags]:
    result = left - right
    return result, ((left ^ right) & (left ^ result)) >= 0


def _multiply(left: Ints, right: Ints) -> tuple[Ints, Flags]:
    result = left * right
    # a product beyond 64 bits is off by at least 2^64, far more than doubles round here
    estimate = left.astype(np.float64) * right.astype(np.float64)
    return result, np.abs(estimate - result.astype(np.float64)) < 2.0**62


def _divide(left: Ints, right: Ints) -> tuple[Ints, Flags]:
    fits = (right != 0) & ~((left == INT64_MIN) & (right == -1))
    divisor = np.where(fits, right, 1)
    quotient = left // divisor
    # floor to truncation
    quotient += (left - quotient * divisor != 0) & ((left < 0) != (divisor < 0))
    return quotient, fits


def _remainder(left: Ints, right: Ints) -> tuple[Ints, Flags]:
    fits = right != 0
    divisor = np.where(fits & (right != -1), right, 1)
    return np.fmod(left, divisor), fits


_WHOLE: Final[Mapping[str, Callable[[Ints, Ints], tuple[Ints, Flags]]]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
}
_FLOATING: Final[Mapping[str, Callable[[Floats, Floats], Floats]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
}
