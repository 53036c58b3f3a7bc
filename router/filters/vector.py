"""Typed values in bulk: what the vectorised evaluator works on, and work done once per distinct value.

A `Vector` holds one typed value per pair of a message and a filter, gathered only as far as it is used; conditions
are uint8 arrays of truths (`bindery.router.filters.ast`). `per_distinct` applies a function to operands once for each
distinct combination of their values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bindery.router.columns import ABSENT, BINARY, BOOL, DOUBLE, INT, NULL, STRING, TIMESTAMP, Column, column_of
from bindery.router.filters.ast import TROUBLE, TROUBLED, TRUE, UNKNOWN, Trouble
from bindery.router.values import Value

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Truths = npt.NDArray[np.uint8]

#: Tag of a row whose value could not be computed; follows the tags of `bindery.router.columns`.
IN_TROUBLE: Final = 9
_NUMERIC_PAYLOAD: Final = (BOOL, INT, DOUBLE, TIMESTAMP)


class Texts:
    """The distinct texts and byte strings of a column, with what is worked out about them once."""

    def __init__(self, column: Column) -> None:
        self.values = column.distinct
        self.kind = column.kind

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def index(self) -> dict[tuple[int, str | bytes], int]:
        """(tag, text) -> code."""
        return {key: code for code, key in enumerate(zip(self.kind.tolist(), self.values, strict=True))}

    @cached_property
    def _sorted(self) -> dict[int, list[Any]]:
        """The strings by code point, the byte strings bytewise."""
        found: dict[int, list[Any]] = {STRING: [], BINARY: []}
        for tag, value in zip(self.kind.tolist(), self.values, strict=True):
            found.get(tag, []).append(value)
        return {tag: sorted(values) for tag, values in found.items()}

    @cached_property
    def ranks(self) -> Ints:
        """Odd place numbers: the n-th value in order has 2 n + 1."""
        return self.places(self)

    def places(self, other: Texts) -> Ints:
        """The places of another column's values between these: odd when equal to one, even when between."""
        found = np.zeros(len(other), np.int64)
        for code, (tag, value) in enumerate(zip(other.kind.tolist(), other.values, strict=True)):
            ordered = self._sorted.get(tag, [])
            place = bisect_left(ordered, value)
            found[code] = 2 * place + (place < len(ordered) and ordered[place] == value)
        return found

    def codes_of(self, other: Texts) -> Codes:
        """Code of this column for each code of another one; -2 for texts that this one does not have."""
        index = self.index
        codes = [index.get(key, -2) for key in zip(other.kind.tolist(), other.values, strict=True)]
        return np.array(codes, np.int32)


class Source:
    """A column with what is worked out about it once; a trouble row has the tag `IN_TROUBLE`."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.texts = Texts(column)

    @cached_property
    def held(self) -> int:
        """A set of bits, one for each tag that occurs."""
        occurring = np.flatnonzero(np.bincount(self.column.tag, minlength=IN_TROUBLE + 1))
        return int(sum(1 << int(tag) for tag in occurring))


class Vector:
    """k typed values: the rows of a source, in the order of the pairs (None: all of them, in order).

    The arrays are those of `bindery.router.columns.Column`, gathered at their first use. `held` is a set of bits over
    the tags that may occur.
    """

    __slots__ = ("_code", "_dbl", "_num", "_rows", "_source", "_tag")

    def __init__(self, source: Source, rows: npt.NDArray[np.integer] | None = None) -> None:
        self._source = source
        self._rows = rows
        self._tag: npt.NDArray[np.uint8] | None = None
        self._num: Ints | None = None
        self._dbl: npt.NDArray[np.float64] | None = None
        self._code: Codes | None = None

    @classmethod
    def of(cls, column: Column) -> Vector:
        """A vector over a column with one row per pair."""
        return cls(Source(column))

    @property
    def held(self) -> int:
        """The tags that may occur, as a set of bits."""
        return self._source.held

    @property
    def texts(self) -> Texts:
        """The distinct texts."""
        return self._source.texts

    @property
    def distinct(self) -> list[str | bytes]:
        """The distinct texts and byte strings, by code."""
        return self._source.column.distinct

    @property
    def tag(self) -> npt.NDArray[np.uint8]:
        """uint8[k], what each value is."""
        if self._tag is None:
            self._tag = self._gather(self._source.column.tag)
        return self._tag

    @property
    def num(self) -> Ints:
        """int64[k], booleans as 0 and 1, integers, timestamps in ms."""
        if self._num is None:
            self._num = self._gather(self._source.column.num)
        return self._num

    @property
    def dbl(self) -> npt.NDArray[np.float64]:
        """float64[k], doubles."""
        if self._dbl is None:
            self._dbl = self._gather(self._source.column.dbl)
        return self._dbl

    @property
    def code(self) -> Codes:
        """int32[k], places in `distinct`, -1 where there is no text."""
        if self._code is None:
            self._code = self._gather(self._source.column.code)
        return self._code

    def _gather(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return array if self._rows is None else array[self._rows]

    def __len__(self) -> int:
        return len(self._source.column) if self._rows is None else len(self._rows)

    def as_column(self) -> Column:
        """The values as a column with one row each."""
        column = self._source.column
        return column if self._rows is None else column.take(self._rows)

    def may_hold(self, *tags: int) -> bool:
        """Whether any of the tags may occur."""
        return any(self.held >> tag & 1 for tag in tags)

    def take(self, places: npt.NDArray[np.integer]) -> Vector:
        """The values at some places."""
        return Vector(self._source, places if self._rows is None else self._rows[places])

    def value(self, place: int) -> Value | Trouble:
        """One value as Python sees it."""
        row = place if self._rows is None else int(self._rows[place])
        if self._source.column.tag[row] == IN_TROUBLE:
            return TROUBLE
        return self._source.column.value(row)

    def identities(self) -> Ints:
        """Small non-negative numbers, equal exactly where the values are the same."""
        tag = self.tag
        if not self.may_hold(*_NUMERIC_PAYLOAD):
            # texts, nulls and trouble: the code tells them apart
            return np.where(self.code >= 0, self.code.astype(np.int64) + 2, (tag == IN_TROUBLE).astype(np.int64))
        payload = np.where(self.code >= 0, self.code.astype(np.int64), self.num)
        payload = np.where(tag == DOUBLE, self.dbl.view(np.int64), payload)
        _, dense = np.unique(payload, return_inverse=True)
        return dense * 16 + np.where(tag == ABSENT, NULL, tag)


def as_vector(truths: Truths) -> Vector:
    """Truths as booleans; unknown is null."""
    tag = _TRUTH_TAGS[truths]
    rows = len(truths)
    column = Column(
        tag,
        (truths == TRUE).astype(np.int64),
        np.zeros(rows, np.float64),
        np.full(rows, -1, np.int32),
        [],
        np.zeros(0, np.uint8),
    )
    return Vector.of(column)


_TRUTH_TAGS: Final = np.array([BOOL, NULL, IN_TROUBLE, BOOL], np.uint8)
_TRUTHS: Final[dict[Any, int]] = {False: 0, None: UNKNOWN, TROUBLE: TROUBLED, True: TRUE}


def per_distinct(function: Callable[..., Value | Trouble], *vectors: Vector) -> Vector:
    """`function` of the operands' values, called once for each distinct combination of them."""
    firsts, which = distinct_combinations(vectors)
    results = [function(*(vector.value(place) for vector in vectors)) for place in firsts.tolist()]
    column = column_of([None if result is TROUBLE else result for result in results])
    column.tag[[result is TROUBLE for result in results]] = IN_TROUBLE
    return Vector(Source(column), which)


def truth_per_distinct(function: Callable[..., bool | Trouble | None], *vectors: Vector) -> Truths:
    """Like `per_distinct` for a function that gives False, None, TROUBLE or True."""
    firsts, which = distinct_combinations(vectors)
    truths = [_TRUTHS[function(*(vector.value(place) for vector in vectors))] for place in firsts.tolist()]
    return np.array(truths, np.uint8)[which]


def distinct_combinations(vectors: Sequence[Vector]) -> tuple[Ints, Ints]:
    """Where each distinct combination of values stands first, and for each pair which one it has."""
    combined: Ints | None = None
    for vector in vectors:
        numbers = vector.identities()
        if combined is None:
            combined = numbers
        else:
            _, combined = _dense(combined)
            _, numbers = _dense(numbers)
            combined = combined * (int(numbers.max(initial=0)) + 1) + numbers
    if combined is None:
        raise ValueError("no operands")
    return _dense(combined)


def _dense(numbers: Ints) -> tuple[Ints, Ints]:
    """First places of the distinct numbers, and for each number which of them it is."""
    bound = int(numbers.max(initial=-1)) + 1
    if bound <= 4 * len(numbers) + 1024:
        # a table over the range is cheaper than sorting
        first = np.full(bound, -1, np.int64)
        first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
        present = np.flatnonzero(first >= 0)
        rank = np.zeros(bound, np.int64)
        rank[present] = np.arange(len(present))
        return first[present], rank[numbers]
    _, firsts, which = np.unique(numbers, return_index=True, return_inverse=True)
    return firsts.astype(np.int64), which.astype(np.int64)
