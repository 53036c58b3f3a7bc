"""The vectorised evaluator: many (message, filter) pairs of one shape in a few numpy passes.

A `Pairs` holds k pairs: the batch row of each, and for each the constants of its filter (row `pick` of the
shape's parameter columns). Operands are `Vector`s of k typed values; conditions are uint8 arrays of truths
(`bindery.router.filters.ast`). What is worked out about a batch once, for all shapes, is kept by `Batch`.

Rules per node type are registered by `operand` and `condition`; those of the shared nodes are in
`bindery.router.filters.vector_rules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

from bindery.router.columns import BatchView, Column, Ref, column_of
from bindery.router.filters import like
from bindery.router.filters.ast import TRUE, Call, Element, Node, Parameter
from bindery.router.filters.bodies import Bodies
from bindery.router.filters.fields import DERIVED, DerivedField, derived
from bindery.router.filters.payload import PAYLOAD
from bindery.router.filters.spread import ELEMENTS, Spots, is_spread, of_elements, spots_of_column
from bindery.router.filters.vector import Codes, Ints, Source, Texts, Truths, Vector, as_vector, per_distinct
from bindery.router.values import Value

OperandRule = Callable[[Any, "Pairs"], Vector]
ConditionRule = Callable[[Any, "Pairs"], Truths]
NodeType = TypeVar("NodeType", bound=Node)
OPERANDS: Final[dict[type[Node], OperandRule]] = {}
CONDITIONS: Final[dict[type[Node], ConditionRule]] = {}
#: Sections of columns that other modules compute: section -> function of the batch and the name in it.
COMPUTED: Final[dict[str, Callable[[Batch, str], Column]]] = {}
#: Work on texts and nested values; `bindery.router.filters.shapes` lifts no constant out of these nodes.
FREE_OF_PARAMETERS: Final = (Call, Element)
#: Such a node is worked out for all rows once those that asked are one in so many.
_SMALL_SHARE: Final = 8
#: Combinations of texts and patterns that are remembered for a batch, one byte each.
_LIKE_CELLS: Final = 1 << 26
_NOT_YET: Final = 255


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


class Batch:
    """One batch for all shapes that are evaluated on it: sources by reference, found once.

    Without `bodies` those that a filter looks into are parsed whole.
    """

    def __init__(self, view: BatchView, bodies: Bodies | None = None) -> None:
        self.view = view
        self._bodies = Bodies(view, {}) if bodies is None else bodies
        self._sources: dict[Ref, Source] = {}
        self._spots: dict[Ref, Spots] = {}
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

    def spots(self, ref: Ref) -> Spots:
        """What a reference that leads through lists finds."""
        found = self._spots.get(ref)
        if found is None:
            if ref.section == ELEMENTS:
                found = spots_of_column(self.source(of_elements(ref)).column)
            else:
                found = self._bodies.spots(ref)
            self._spots[ref] = found
        return found

    def _column(self, ref: Ref) -> Column:
        if is_spread(ref):
            return self.spots(ref).column
        if ref.section == PAYLOAD:
            return self._bodies.column(ref)
        compute = COMPUTED.get(ref.section)
        if ref.section != DERIVED and compute is None:
            return self.view.column(ref)
        kept = self.view.derived(ref)
        if kept is None and compute is not None:
            return self.view.keep(ref, compute(self, ref.name))
        if kept is None:
            kept = self.view.keep(ref, self._derive(derived(ref.name)))
        return kept

    def _derive(self, field: DerivedField) -> Column:
        if field.from_view is not None:
            return field.from_view(self.view)
        if field.from_batch is not None:
            return field.from_batch(self.view.batch)
        return per_distinct(field.compute, *(Vector(self.source(ref)) for ref in field.sources)).as_column()


class Pairs:
    """k pairs (message row, filter) of one shape, and the results already known for its nodes.

    batch   the batch that the rows belong to
    rows    int64[k] batch row of each pair
    pick    int64[k] row of each pair's filter in the parameter columns
    counted bool[k] pairs with an operand that trouble has made false rather than unknown (XPATH), None so far
    chosen  int64[k] for each reference through lists that a node around chose from: the spot of each pair
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
        chosen: Mapping[Ref, Ints] | None = None,
    ) -> None:
        self.batch = batch
        self.chosen: Mapping[Ref, Ints] = chosen or {}
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
        """The values of a message field; of one that leads through lists those at the chosen spots."""
        chosen = self.chosen.get(ref)
        return Vector(self.batch.source(ref), self.rows if chosen is None else chosen)

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
        chosen = {ref: spots[places] for ref, spots in self.chosen.items()}
        return self._of(places, chosen)

    def at(self, places: Ints, ref: Ref, spots: Ints) -> Pairs:
        """Some of the pairs, some of them several times, each with a spot of a reference through lists."""
        return self._of(places, {**{one: at[places] for one, at in self.chosen.items()}, ref: spots})

    def _of(self, places: Ints, chosen: Mapping[Ref, Ints]) -> Pairs:
        return Pairs(
            self.batch, self.rows[places], self.parameters, self.pick[places], parent=self, places=places, chosen=chosen
        )

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
