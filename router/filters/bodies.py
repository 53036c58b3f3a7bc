"""The bodies of a batch, for filters that look into them: each parsed once, and only where a filter asks.

A body is parsed when its message meets a group of filters of which some look into bodies; whatever any of the filters
names is then taken out of it in one go, and the parsed body is let go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bindery.router.columns import BINARY, STRING, BatchView, Column, Ref, column_of, empty_column
from bindery.router.filters.limits import Payload
from bindery.router.filters.payload import Members, parsed, referred
from bindery.router.filters.unparsable import Unparsable
from bindery.router.filters.vector import IN_TROUBLE
from bindery.router.values import Value

#: Bodies that are held as Python's bytes at a time.
_AT_A_TIME = 256


class Bodies:
    """What filters find in the bodies of one batch.

    refs    the references into bodies of each format that any filter of the batch has
    parsed  how many bodies were parsed: the measure of the work
    """

    def __init__(self, view: BatchView, refs: Mapping[Payload, Sequence[Ref]]) -> None:
        self.parsed = 0
        self._view = view
        self._formats = {payload: _Format(known, view.rows) for payload, known in refs.items()}

    def ask(self, payload: Payload, rows: npt.NDArray[np.integer]) -> bool:
        """Parse the bodies of some rows, those that are not parsed yet; whether there were any."""
        format = self._formats[payload]
        new = np.unique(rows[~format.asked[rows]])
        found: list[tuple[int, list[tuple[Ref, Value]]]] = []
        troubled: list[int] = []
        for row, document in self._documents(new):
            self.parsed += document is not None
            try:
                found.append((row, format.members.of(parsed(document, payload))))
            except Unparsable:
                troubled.append(row)
        for row, values in found:
            for ref, value in values:
                format.values[ref][row] = value
        format.troubled += troubled
        format.asked[new] = True
        return len(new) > 0

    def column(self, ref: Ref) -> Column:
        """The values behind a reference; rows that nobody asked for hold none, those in trouble `IN_TROUBLE`.

        A reference that no filter of the batch was known to have is looked up in every body.
        """
        payload, _ = referred(ref)
        format = self._formats.get(payload)
        if format is None or ref not in format.values:
            alone = Bodies(self._view, {payload: [ref]})
            alone.ask(payload, np.arange(self._view.rows))
            self.parsed += alone.parsed
            return alone.column(ref)
        return format.column(ref)

    def _documents(self, rows: npt.NDArray[np.integer]) -> Iterator[tuple[int, Value]]:
        """The body of each row: its data or, without any, an amqp-value that is a string or binary."""
        bodies = self._view.batch.column("body")
        for first in range(0, len(rows), _AT_A_TIME):
            part = rows[first : first + _AT_A_TIME]
            for row, body in zip(part.tolist(), bodies.take(part).to_pylist(), strict=True):
                yield row, self._value(row) if body is None else body

    def _value(self, row: int) -> Value:
        column = self._view.column(Ref("amqp_value"))
        return column.value(row) if column.tag[row] in (STRING, BINARY) else None


class _Format:
    """What was found in the bodies that were parsed as one format."""

    def __init__(self, refs: Sequence[Ref], rows: int) -> None:
        self.members = Members(refs)
        self.asked = np.zeros(rows, np.bool_)
        self.troubled: list[int] = []
        self.values: dict[Ref, dict[int, Value]] = {ref: {} for ref in refs}

    def column(self, ref: Ref) -> Column:
        column = empty_column(len(self.asked))
        values = self.values[ref]
        rows = np.fromiter(values, np.int64, len(values))
        held = column_of(list(values.values()))
        column.tag[rows], column.num[rows] = held.tag, held.num
        column.dbl[rows], column.code[rows] = held.dbl, held.code
        column.distinct, column.kind = held.distinct, held.kind
        column.tag[self.troubled] = IN_TROUBLE
        return column
