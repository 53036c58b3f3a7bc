"""The unroutable table of a vhost: choosing rows, and what they have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.engine import REASONS
from bindery.router.errors import InvalidInput, Stopped
from bindery.router.filters import Filter
from bindery.router.matching.trie import TopicMatcher
from bindery.router.message import UNROUTABLE_SCHEMA
from bindery.router.moments import iso
from bindery.store.paths import DataDir
from bindery.store.recorded import CLOSED, ROW_COLUMNS, accepted, rows_of, unroutable_row

#: Keys that a summary lists.
TOP: Final = 20

#: Disposition of messages that reached queues while a defect in a filter may have kept them from others: routed
#: again they would reach those queues twice.
DELIVERED: Final = "delivered"

Places = npt.NDArray[np.int64]


def may_be_routed_again(rows: pa.Table) -> pa.ChunkedArray:
    """Which rows of the unroutable table hold a message that reached no queue, and have not been redriven.

    A duplicate is none of them: the message that it repeats was routed.
    """
    closed = pc.or_(pc.is_valid(rows["redriven"]), pc.is_in(rows["reason"], value_set=pa.array(sorted(CLOSED))))
    return pc.invert(pc.or_(closed, pc.fill_null(pc.equal(rows["disposition"], DELIVERED), False)))


@dataclass(frozen=True, slots=True)
class Selection:
    """Which unroutable rows are meant; what is None or empty does not narrow the choice.

    reasons       any of these reason codes
    exchange      published to this exchange
    key           a topic pattern for the routing key: `*` one word, `#` any number
    since, until  routed at `since` or later, and before `until`
    condition     a consumer's filter
    """

    reasons: frozenset[str] = frozenset()
    exchange: str | None = None
    key: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    condition: Filter | None = field(default=None)

    def __post_init__(self) -> None:
        """Raises InvalidInput for an unknown reason, or a time without its zone."""
        unknown = sorted(self.reasons - set(REASONS))
        if unknown:
            raise InvalidInput(f"unknown reason {unknown[0]!r}", where="reason", hint=", ".join(REASONS))
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise InvalidInput(f"{moment} states no time zone", where=name)

    @property
    def where(self) -> pc.Expression | None:
        """What files and row groups can be skipped by."""
        found: pc.Expression | None = None
        for narrower in self._narrowers():
            found = narrower if found is None else found & narrower
        return found

    def _narrowers(self) -> Iterator[pc.Expression]:
        if self.reasons:
            yield pc.field("reason").isin(sorted(self.reasons))
        if self.exchange is not None:
            yield pc.field("exchange") == self.exchange
        if self.since is not None:
            yield pc.field("routed_at") >= pa.scalar(self.since, pa.timestamp("us", "UTC"))
        if self.until is not None:
            yield pc.field("routed_at") < pa.scalar(self.until, pa.timestamp("us", "UTC"))

    def places(self, batch: pa.RecordBatch) -> Places:
        """The places of the chosen rows in a batch that `where` has been applied to, ascending."""
        chosen = accepted(batch, self.condition)
        if self.key is None or not len(chosen):
            return chosen
        keys = pc.fill_null(batch.column("routing_key"), "").dictionary_encode()
        offsets, _ = TopicMatcher([self.key]).match(keys.dictionary.to_pylist())
        meets = np.diff(offsets) > 0
        kept: Places = chosen[meets[keys.indices.to_numpy()[chosen]]]
        return kept


@dataclass(frozen=True, slots=True)
class Summary:
    """The chosen rows of a vhost's unroutable table, counted.

    reasons  (reason, disposition) -> rows not redriven, most frequent first
    keys     (exchange, routing key, reason) -> rows not redriven, the most frequent ones
    """

    vhost: str
    rows: int
    redriven: int
    first: datetime | None
    last: datetime | None
    reasons: tuple[tuple[tuple[str, str], int], ...]
    keys: tuple[tuple[tuple[str, str, str], int], ...]
    distinct_keys: int

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "vhost": self.vhost,
            "rows": self.rows,
            "redriven": self.redriven,
            "first": None if self.first is None else iso(self.first, "milliseconds"),
            "last": None if self.last is None else iso(self.last, "milliseconds"),
            "reasons": [{"reason": r, "disposition": d, "rows": n} for (r, d), n in self.reasons],
            "keys": [{"exchange": x, "routing_key": k, "reason": r, "rows": n} for (x, k, r), n in self.keys],
            "distinct_keys": self.distinct_keys,
        }


_READ: Final = ("exchange", "routing_key", "reason", "disposition", "routed_at", "redriven")


def summary(
    data: DataDir,
    vhost: str,
    selection: Selection | None = None,
    *,
    top: int = TOP,
    stop: Callable[[], bool] = lambda: False,
) -> Summary:
    """Count the rows of a selection by reason and by key; rows that were redriven are counted apart.

    `stop` is asked between portions of rows; raises Stopped when it says so.
    """
    chosen = Selection() if selection is None else selection
    columns = None if chosen.condition is not None else list(_READ)
    reasons: Counter[tuple[str, str]] = Counter()
    keys: Counter[tuple[str, str, str]] = Counter()
    rows = redriven = 0
    times: list[datetime] = []
    for batch in rows_of(data, vhost, None, where=chosen.where, columns=columns):
        if stop():
            raise Stopped("the count was stopped", where="unroutable")
        found = pa.Table.from_batches([batch.take(pa.array(chosen.places(batch))).select(list(_READ))])
        if not found.num_rows:
            continue
        rows += found.num_rows
        times += pc.min_max(found["routed_at"]).as_py().values()
        still = found.filter(pc.is_null(found["redriven"]))
        redriven += found.num_rows - still.num_rows
        reasons.update(_tally(still, ("reason", "disposition")))
        keys.update(_tally(still, ("exchange", "routing_key", "reason")))
    return Summary(
        vhost,
        rows,
        redriven,
        min(times, default=None),
        max(times, default=None),
        tuple(reasons.most_common()),
        tuple(sorted(keys.items(), key=lambda item: (-item[1], item[0]))[:top]),
        len(keys),
    )


def newest(data: DataDir, vhost: str, selection: Selection, count: int) -> list[dict[str, Any]]:
    """The rows of a selection that were routed last, the newest first; see unroutable_row."""
    columns = None if selection.condition is not None else list(ROW_COLUMNS)
    found = pa.Table.from_batches([], pa.schema([UNROUTABLE_SCHEMA.field(name) for name in ROW_COLUMNS]))
    for batch in rows_of(data, vhost, None, where=selection.where, columns=columns):
        chosen = batch.select(list(ROW_COLUMNS)).take(pa.array(selection.places(batch)))
        found = pa.concat_tables([found, pa.Table.from_batches([chosen])])
        numbers = {name: pc.struct_field(found["routing"], name) for name in ("batch_id", "seq")}
        keys = pa.table({"routed_at": found["routed_at"], **numbers})
        order = pc.sort_indices(keys, sort_keys=[(name, "descending") for name in keys.column_names])
        found = found.take(order[:count])
    return [unroutable_row(row) for row in found.to_pylist()]


def _tally(rows: pa.Table, names: tuple[str, ...]) -> dict[Any, int]:
    plain = pa.table({name: pc.fill_null(rows[name], "") for name in names})
    counted = plain.group_by(list(names)).aggregate([([], "count_all")]).to_pydict()
    return dict(zip(zip(*(counted[name] for name in names), strict=True), counted["count_all"], strict=True))
