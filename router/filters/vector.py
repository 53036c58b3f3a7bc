"""The vectorised evaluator: many (message, filter) pairs of one shape in a few numpy passes.

A `Pairs` holds k pairs: the batch row of each, and for each the constants of its filter (row `pick` of the
shape's parameter columns). Operands are `Vector`s of k typed values, gathered only as far as they are used;
conditions are uint8 arrays of truths (`bindery.router.filters.ast`). Work on texts goes once per distinct value or
combination of values (`per_distinct`).

Rules per node type are registered by `operand` and `condition`; those of the shared nodes are in
`bindery.router.filters.vector_rules`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

from bindery.router.columns import ABSENT, BINARY, BOOL, NULL, STRING, BatchView, Column, Ref, column_of
from bindery.router.filters import like
from bindery.router.filters.ast import TROUBLE, TROUBLED, TRUE, UNKNOWN, Call, Element, Node, Parameter, Trouble
from bindery.router.filters.fields import DERIVED, DERIVED_FIELDS, DerivedField
from bindery.router.values import Value

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Truths = npt.NDArray[np.uint8]

#: Tag of a row whose value could not be computed; follows the tags of `bindery.router.columns`.
IN_TROUBLE: Final = 9

OperandRule = Callable[[Any, "Pairs"], "Vector"]
ConditionRule = Callable[[Any, "Pairs"], Truths]
NodeType = TypeVar("NodeType", bound=Node)
OPERANDS: Final[dict[type[Node], OperandRule]] = {}
CONDITIONS: Final[dict[type[Node], ConditionRule]] = {}


def operand(kind: type[NodeType]) -> Callable[[Callable[[NodeType, Pairs], Vector]], OperandRule]:
    """Register how an operand node is evaluated."""

    def register(function: Callable[[NodeType, Pairs], Vector]) -> OperandRule:
        OPERANDS[kind] = function
        return function

    return register


def condition(kind: type[NodeType]) -> Callable[[Callable[[NodeType, Pairs], Truths]], ConditionRule]:
    """Register how a condition node is evaluated."""

    def register(function: Callable[[NodeType, Pairs], Truths]) -> ConditionRule:
        CONDITIONS[kind] = function
        return function

    return register


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
        payload = np.where(tag == _DOUBLE, self.dbl.view(np.int64), payload)
        _, dense = np.unique(payload, return_inverse=True)
        return dense * 16 + np.where(tag == ABSENT, NULL, tag)


_DOUBLE: Final = 4
_NUMERIC_PAYLOAD: Final = (2, 3, 4, 5)


#: Sections of columns that other modules compute: section -> function of the batch and the name in it.
COMPUTED: Final[dict[str, Callable[[Batch, str], Column]]] = {}


class LikeTable:
    """LIKE of every text of a column with every pattern of another, each combination worked out at its first use."""

    def __init__(self, texts: Texts, patterns: Texts, escape: str | None) -> None:
        self._texts = texts
        self._patterns = patterns
        self._escape = escape
        self._matchers: dict[int, Callable[[str], bool]] = {}
        self._known: Truths | None = None
        if len(texts) * len(patterns) <= _LIKE_CELLS:
            self._known = np.full(len(texts) * len(patterns), _NOT_YET, np.uint8)

    def look_up(self, codes: Codes, patterns: Codes) -> Truths:
        """FALSE or TRUE for each pair of a text and a pattern, both given by their codes (no -1)."""
        cells = codes.astype(np.int64) * len(self._patterns) + patterns
        if self._known is None:
            wanted, which = np.unique(cells, return_inverse=True)
            return self._work_out(wanted)[which]
        found = self._known[cells]
        missing = np.unique(cells[found == _NOT_YET])
        if len(missing):
            self._known[missing] = self._work_out(missing)
            found = self._known[cells]
        return np.asarray(found)

    def _work_out(self, cells: Ints) -> Truths:
        codes, patterns = np.divmod(cells, max(len(self._patterns), 1))
        texts = self._texts.values
        held = [
            self._matcher(pattern)(str(texts[code]))
            for code, pattern in zip(codes.tolist(), patterns.tolist(), strict=True)
        ]
        return np.where(np.array(held, np.bool_), np.uint8(TRUE), np.uint8(0))

    def _matcher(self, code: int) -> Callable[[str], bool]:
        found = self._matchers.get(code)
        if found is None:
            pattern = like.compile_pattern(str(self._patterns.values[code]), self._escape)
            if pattern is None:
                raise ValueError("a constant pattern was not checked when it was defined")
            found = self._matchers[code] = like.matcher(pattern)
        return found


#: Work on texts and nested values; `bindery.router.filters.shapes` lifts no constant out of these nodes.
FREE_OF_PARAMETERS: Final = (Call, Element)
#: Such a node is worked out for all rows once those that asked are one in so many.
_SMALL_SHARE: Final = 8
#: Combinations of texts and patterns that are remembered for a batch, one byte each.
_LIKE_CELLS: Final = 1 << 26
_NOT_YET: Final = 255


class Batch:
    """One batch for all shapes that are evaluated on it: sources by reference, found once."""

    def __init__(self, view: BatchView) -> None:
        self.view = view
        self._sources: dict[Ref, Source] = {}
        self._matches: dict[tuple[int, int, str | None], LikeTable] = {}
        self._whole: dict[int, Source] = {}
        self._worked: Counter[int] = Counter()
        self._codes: dict[tuple[int, int], tuple[Texts, Texts, Codes | None, Codes | None]] = {}
        self._orders: dict[tuple[int, int], tuple[Texts, Texts, Ints, Ints]] = {}

    def common_codes(self, left: Texts, right: Texts) -> tuple[Codes | None, Codes | None]:
        """Tables from the codes of two columns to numbers that are equal where the texts are (None: as they are).

        The smaller column is translated into the codes of the larger one, whose index is made once.
        """
        if left is right:
            return None, None
        # the columns are kept with their ids, so that an id is not given to another object
        found = self._codes.get((id(left), id(right)))
        if found is None:
            if len(right) <= len(left):
                found = left, right, None, left.codes_of(right)
            else:
                found = left, right, right.codes_of(left), None
            self._codes[id(left), id(right)] = found
        return found[2], found[3]

    def common_order(self, left: Texts, right: Texts) -> tuple[Ints, Ints]:
        """Numbers for the codes of two columns that order as their texts do."""
        found = self._orders.get((id(left), id(right)))
        if found is None:
            if len(right) <= len(left):
                found = left, right, left.ranks, left.places(right)
            else:
                found = left, right, right.places(left), right.ranks
            self._orders[id(left), id(right)] = found
        return found[2], found[3]

    def for_all_rows(self, node: Node, rows: int) -> Source | None:
        """A node without parameters, worked out for every row; None while few rows have asked for it.

        Shapes with many filters come in blocks: without this a row would be worked out in every block.
        """
        found = self._whole.get(id(node))
        if found is None:
            self._worked[id(node)] += rows
            if self._worked[id(node)] * _SMALL_SHARE >= self.view.rows:
                everything = Pairs(self, np.arange(self.view.rows), (), np.zeros(self.view.rows, np.int64))
                found = self._whole[id(node)] = Source(OPERANDS[type(node)](node, everything).as_column())
        return found

    def matches(self, texts: Texts, patterns: Texts, escape: str | None) -> LikeTable:
        """What is known of the texts of one column and the patterns of another."""
        key = id(texts), id(patterns), escape
        found = self._matches.get(key)
        if found is None:
            found = self._matches[key] = LikeTable(texts, patterns, escape)
        return found

    def source(self, ref: Ref) -> Source:
        """The column of a reference, derived ones included."""
        found = self._sources.get(ref)
        if found is None:
            found = self._sources[ref] = Source(self._column(ref))
        return found

    def _column(self, ref: Ref) -> Column:
        compute = COMPUTED.get(ref.section)
        if ref.section != DERIVED and compute is None:
            return self.view.column(ref)
        kept = self.view.derived(ref)
        if kept is None and compute is not None:
            return self.view.keep(ref, compute(self, ref.name))
        if kept is None:
            kept = self.view.keep(ref, self._derive(DERIVED_FIELDS[ref.name]))
        return kept

    def _derive(self, field: DerivedField) -> Column:
        if field.from_batch is not None:
            return field.from_batch(self.view.batch)
        return per_distinct(field.compute, *(Vector(self.source(ref)) for ref in field.sources)).as_column()


class Pairs:
    """k pairs (message row, filter) of one shape, and the results already known for its nodes.

    batch   the batch that the rows belong to
    rows    int64[k] batch row of each pair
    pick    int64[k] row of each pair's filter in the parameter columns
    counted bool[k] pairs with an operand that trouble has made false rather than unknown (XPATH), None so far
    """

    def __init__(
        self,
        batch: Batch,
        rows: Ints,
        parameters: Sequence[Source],
        pick: Ints,
        *,
        parent: Pairs | None = None,
        places: Ints | None = None,
    ) -> None:
        self.batch = batch
        self.rows = rows
        self.parameters = parameters
        self.pick = pick
        self.counted: npt.NDArray[np.bool_] | None = None
        self._known: dict[int, Vector | Truths] = {}
        self._parent = parent
        self._places = places

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def view(self) -> BatchView:
        """The batch's columns as they came."""
        return self.batch.view

    def column(self, ref: Ref) -> Vector:
        """The values of a message field."""
        return Vector(self.batch.source(ref), self.rows)

    def parameter(self, node: Parameter) -> Vector:
        """The values of a lifted literal."""
        return Vector(self.parameters[node.slot], self.pick)

    def constant(self, value: Value) -> Vector:
        """One value for every pair."""
        return Vector(Source(column_of([value])), np.zeros(len(self), np.int64))

    def operand(self, node: Node) -> Vector:
        """The values of an operand, or of a condition read as one (unknown is null)."""
        found = self._recall(node)
        if found is None:
            found = self._known[id(node)] = self.truth(node) if node.is_condition else self._work_out(node)
        return found if isinstance(found, Vector) else as_vector(found)

    def _work_out(self, node: Node) -> Vector:
        if isinstance(node, FREE_OF_PARAMETERS):
            everything = self.batch.for_all_rows(node, len(self))
            if everything is not None:
                return Vector(everything, self.rows)
        return OPERANDS[type(node)](node, self)

    def truth(self, node: Node) -> Truths:
        """The truths of a condition; not to be written to."""
        found = self._recall(node)
        if found is None:
            found = self._known[id(node)] = CONDITIONS[type(node)](node, self)
        return cast(Truths, found)

    def subset(self, places: Ints) -> Pairs:
        """Some of the pairs; what is known of them stays known."""
        return Pairs(self.batch, self.rows[places], self.parameters, self.pick[places], parent=self, places=places)

    def count(self, pairs: npt.NDArray[np.bool_]) -> None:
        """Note trouble that leaves an operand false; it shows where the filter does not accept."""
        if self._parent is not None:
            outer = np.zeros(len(self._parent), np.bool_)
            outer[self._places] = pairs
            self._parent.count(outer)
        else:
            self.counted = pairs if self.counted is None else self.counted | pairs

    def _recall(self, node: Node) -> Vector | Truths | None:
        found = self._known.get(id(node))
        if found is None and self._parent is not None and self._places is not None:
            known = self._parent._recall(node)
            if known is not None:
                taken = known.take(self._places) if isinstance(known, Vector) else known[self._places]
                found = self._known[id(node)] = taken
        return found


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
