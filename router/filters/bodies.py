"""The bodies of a batch, for filters that look into them: each parsed once, and only where a filter asks.

A body is parsed when its message meets a group of filters of which some look into bodies; whatever any of the filters
names is then taken out of it in one go, and the parsed body is let go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bindery.router.columns import BINARY, STRING, BatchView, Column, Ref, column_of, empty_column
from bindery.router.filters.limits import Payload
from bindery.router.filters.payload import Members, parsed, referred
from bindery.router.filters.spread import Spots, SpreadMembers, is_spread
from bindery.router.filters.unparsable import Unparsable
from bindery.router.filters.vector import IN_TROUBLE
from bindery.router.values import Value

#: Bodies that are held as Python's bytes at a time.
_AT_A_TIME = 256


class Unread(NamedTuple):
    """Why a body could not be read: what an `Unparsable` says, without the body that hangs on it."""

    kind: str
    reason: str


class Bodies:
    """What filters find in the bodies of one batch.

    refs        the references into bodies of each format that any filter of the batch has
    parsed      how many bodies were parsed: the measure of the work
    rounds      how often there was something to parse: columns made before a round are without what it found
    unparsable  (place, row) -> why filters at that place could not read the body of that message (`note`)
    """

    def __init__(self, view: BatchView, refs: Mapping[Payload, Collection[Ref]]) -> None:
        self.parsed = self.rounds = 0
        self.unparsable: dict[tuple[int, int], Unread] = {}
        self._view = view
        self._formats = {payload: _Format(known, view.rows) for payload, known in refs.items()}

    def ask(self, payload: Payload, rows: npt.NDArray[np.integer]) -> None:
        """Parse the bodies of some rows, those that are not parsed yet."""
        format = self._formats[payload]
        new = np.unique(rows[~format.asked[rows]])
        if not len(new):
            return
        found: list[tuple[int, list[tuple[Ref, Value]]]] = []
        troubled: dict[int, Unread] = {}
        for row, document in self.documents(new):
            self.parsed += document is not None
            try:
                body = parsed(document, payload)
            except Unparsable as reason:
                troubled[row] = Unread(reason.kind, str(reason))
                continue
            found.append((row, format.members.of(body)))
            format.spread.take(row, body)
        for row, values in found:
            for ref, value in values:
                format.values[ref][row] = value
        format.troubled |= troubled
        format.asked[new] = True
        self.rounds += 1

    def note(self, payload: Payload, rows: npt.NDArray[np.integer], places: npt.NDArray[np.integer]) -> None:
        """Keep for each place that asked for the body of a row (`ask`) why it could not be read, once per message."""
        troubled = self._formats[payload].troubled
        chosen = self.unread(payload, rows)
        for place, row in zip(places[chosen].tolist(), rows[chosen].tolist(), strict=True):
            self.unparsable[place, row] = troubled[row]

    def unread(self, payload: Payload, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """bool[rows]: whose bodies were asked for and could not be read."""
        troubled = self._formats[payload].troubled
        if not troubled:
            return np.zeros(len(rows), np.bool_)
        return np.isin(rows, np.fromiter(troubled, np.int64, len(troubled)))

    def held(self, ref: Ref, rows: npt.NDArray[np.integer], place: int) -> tuple[npt.NDArray[np.int64], Column]:
        """Of rows whose bodies are asked for at a place, those that hold a value at a reference, and the values.

        rows      distinct rows of the batch
        -> int64  positions in `rows`, ascending
        """
        payload, _ = referred(ref)
        self.ask(payload, rows)
        self.note(payload, rows, np.full(len(rows), place))
        values = self._formats[payload].values[ref]
        found = [(position, values[row]) for position, row in enumerate(rows.tolist()) if row in values]
        return np.array([position for position, _ in found], np.int64), column_of([value for _, value in found])

    def column(self, ref: Ref) -> Column:
        """The values behind a reference; rows that nobody asked for hold none, those in trouble `IN_TROUBLE`.

        A reference that no filter of the batch was known to have is looked up in every body.
        """
        payload, _ = referred(ref)
        format = self._formats.get(payload)
        if format is None or ref not in format.values:
            return self._alone(ref).column(ref)
        return format.column(ref)

    def spots(self, ref: Ref) -> Spots:
        """What a reference that leads through lists finds in the bodies that were asked for, else in every body."""
        payload, _ = referred(ref)
        format = self._formats.get(payload)
        if format is None or ref not in format.spread.spots:
            return self._alone(ref).spots(ref)
        return format.spread.spots[ref]

    def _alone(self, ref: Ref) -> Bodies:
        payload, _ = referred(ref)
        alone = Bodies(self._view, {payload: [ref]})
        alone.ask(payload, np.arange(self._view.rows))
        self.parsed += alone.parsed
        return alone

    def documents(self, rows: npt.NDArray[np.integer]) -> Iterator[tuple[int, Value]]:
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

    def __init__(self, refs: Collection[Ref], rows: int) -> None:
        plain = [ref for ref in refs if not is_spread(ref)]
        self.members = Members(plain)
        self.asked = np.zeros(rows, np.bool_)
        self.troubled: dict[int, Unread] = {}
        self.values: dict[Ref, dict[int, Value]] = {ref: {} for ref in plain}
        self.spread = SpreadMembers([ref for ref in refs if is_spread(ref)], self.troubled)

    def column(self, ref: Ref) -> Column:
        column = empty_column(len(self.asked))
        values = self.values[ref]
        rows = np.fromiter(values, np.int64, len(values))
        held = column_of(list(values.values()))
        column.tag[rows], column.num[rows] = held.tag, held.num
        column.dbl[rows], column.code[rows] = held.dbl, held.code
        column.distinct, column.kind = held.distinct, held.kind
        column.tag[[*self.troubled]] = IN_TROUBLE
        return column
