"""A filter over columns that are no message's: every name that it reads is the name of a column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindery.router.columns import BINARY, STRING, BatchView, Column, Ref
from bindery.router.errors import FilterError
from bindery.router.filters import vector_rules  # noqa: F401  # it registers the rules of the shared nodes
from bindery.router.filters.ast import Field, Node, XPath, rebuild, walk
from bindery.router.filters.bodies import Bodies
from bindery.router.filters.dialect import dialect_named
from bindery.router.filters.fields import attribute_name, property_name
from bindery.router.filters.filter import Filter
from bindery.router.filters.pairs import Batch, Pairs
from bindery.router.filters.payload import PAYLOAD, referred
from bindery.router.filters.shapes import Shape, Shapes
from bindery.router.filters.spread import elements_ref, is_spread, of_elements
from bindery.router.filters.vector import Truths
from bindery.router.values import Value

#: The section of references to columns.
_COLUMN: Final = "column"
#: The column whose values are bodies.
BODY: Final = "body"


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """A filter, compiled; picklable.

    names      the columns that it reads, in the order in which it names them first; `BODY` where it looks into bodies
    body_refs  what it looks for there
    """

    names: tuple[str, ...]
    body_refs: tuple[Ref, ...]
    _shape: Shape

    @classmethod
    def of(cls, filter: Filter) -> ColumnFilter:
        """The filter over columns; headers of messages are columns of their names, and have no defaults there.

        Raises FilterError for one that reads a body (XPATH).
        """
        known: dict[Ref, str] = {}
        for name, ref in dialect_named(filter.dialect).names.items():
            # of several names of a header the one that was written
            if ref not in known or (name in filter.text and known[ref] not in filter.text):
                known[ref] = name
        if any(isinstance(node, XPath) for node in walk(filter.expression)):
            raise FilterError(
                "XPATH reads the body of a message, and here are columns alone",
                text=filter.text,
                hint="filter the messages of a queue, which have bodies: bindery.open(DIR).queue(NAME).spark(filter=…)",
            )
        names = dict.fromkeys(_name(node.ref, known) for node in walk(filter.expression) if isinstance(node, Field))

        def renamed(node: Node) -> Node:
            if not isinstance(node, Field):
                return rebuild(node, renamed)
            if node.ref.section == PAYLOAD:
                return node
            column = Ref(_COLUMN, _name(node.ref, known))
            return Field(elements_ref(column) if is_spread(node.ref) else column)

        shapes = Shapes()
        tree = renamed(filter.expression)
        shapes.add(tree)
        fields = (node.ref for node in walk(tree) if isinstance(node, Field))
        body_refs = dict.fromkeys(ref for ref in fields if ref.section == PAYLOAD)
        return cls(tuple(names), tuple(body_refs), shapes.close()[0])

    def truths(self, columns: Sequence[Column], rows: int, *, clock_ms: int) -> Truths:
        """uint8[rows], as `bindery.router.filters.ast` has truths; `columns` are those of `names`."""
        view = BatchView(pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[_COLUMN]), clock_ms=clock_ms)
        for name, column in zip(self.names, columns, strict=True):
            view.keep(Ref(_COLUMN, name), column)
        bodies = None
        if self.body_refs:
            bodies = _Bodies(view, self.body_refs, columns[self.names.index(BODY)])
            bodies.ask(referred(self.body_refs[0])[0], np.arange(rows))
        pairs = Pairs(Batch(view, bodies), np.arange(rows), self._shape.parameters, np.zeros(rows, np.int64))
        return pairs.truth(self._shape.tree)


class _Bodies(Bodies):
    """Bodies that are the texts and binaries of a column."""

    def __init__(self, view: BatchView, refs: Sequence[Ref], column: Column) -> None:
        super().__init__(view, {referred(refs[0])[0]: refs})
        self._column = column

    def documents(self, rows: npt.NDArray[np.integer]) -> Iterator[tuple[int, Value]]:
        """See `Bodies`."""
        for row in rows.tolist():
            yield row, self._column.value(row) if self._column.tag[row] in (STRING, BINARY) else None


def _name(ref: Ref, known: Mapping[Ref, str]) -> str:
    if ref.section == PAYLOAD:
        return BODY
    ref = of_elements(ref)
    name = property_name(ref)
    return name if name is not None else known.get(ref) or attribute_name(ref) or str(ref)
