"""Messages on record: rows of queue tables, unroutable tables and journals, found again by identity or by filter.

A message stands in every queue that it reached, or once in the unroutable table of its vhost; all its
rows carry one identity (stream, batch, number). Queue rows are without bcc, which is never stored there. When a
queue has it no more, or nothing but a count was kept of it, the journal of its stream has it, if there is one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.columns import BatchView
from bindery.router.engine.result import DUPLICATE
from bindery.router.errors import InvalidInput, NotFound
from bindery.router.filters import Filter, FilterGroups
from bindery.router.message import MESSAGE_SCHEMA, SOURCE
from bindery.router.model import Topology
from bindery.router.moments import iso
from bindery.router.spelling import did_you_mean, nearest
from bindery.store import tables
from bindery.store.changed_copies import message_number
from bindery.store.deferred import Waiting
from bindery.store.journal_rows import MOST_ROWS, Looked, Position, newest_rows, rows_of_batch
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.problems import misfit_in, remedy
from bindery.store.read import RowId, of_queue, unroutable_of
from bindery.store.statistics import may_hold

#: Reasons of records that were never a message: they cannot be routed again.
UNREADABLE: Final = frozenset({"invalid_record", "too_large"})
#: Reasons of rows that are never routed again: of those, and of messages that repeat one which was routed.
CLOSED: Final = UNREADABLE | {DUPLICATE}
#: What is shown of a row of the unroutable table, and characters of a record's text that are.
ROW_COLUMNS: Final = (
    "exchange",
    "routing_key",
    "reason",
    "disposition",
    "detail",
    "raw",
    "routing",
    "routed_at",
    "source",
)
_RAW: Final = 2000
_ROW: Final = re.compile(r"(.+):(-?[0-9]{1,19}):(-?[0-9]{1,19})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """A message and one row that it has: in a queue, or unroutable with a reason (`queue` is None).

    `journal` tells that only the journal of its stream has it: `queue` is None, and so is the reason if it reached one.
    `batch` is its one row: of MESSAGE_SCHEMA, of SENT_SCHEMA where it is in no queue. `clock_ms` and
    `topology_version` are what it was routed with. `refused` says what is wrong with a record that never was a message
    (unroutable_row).
    """

    row: RowId
    batch: pa.RecordBatch
    queue: str | None
    reason: str | None
    topology_version: int
    clock_ms: int
    refused: dict[str, Any] | None = None
    journal: bool = False


@dataclass(frozen=True, slots=True)
class FoundOnRecord:
    """Messages that were found, and how far journals were looked through for them."""

    messages: list[RecordedMessage]
    journals: Looked


def parse_row(text: str) -> RowId:
    """An identity written as "stream:batch:number"; raises InvalidInput."""
    found = _ROW.fullmatch(text)
    if found is None:
        raise InvalidInput(f"{text[:80]!r} names no row", where="row", hint="<stream>:<batch>:<number>")
    return RowId(found[1], int(found[2]), int(found[3]))


def find_row(data: DataDir, topology: Topology, vhost: str, row: RowId) -> RecordedMessage:
    """The message of that identity; raises NotFound when neither a table of the vhost nor a journal has it.

    Raises InvalidInput for a copy that transformations have changed: it is no message as it was published.
    """
    if row.seq < 0:
        published = f"{row.stream}:{row.batch_id}:{message_number(row.seq)}"
        raise InvalidInput(
            f"{row.stream}:{row.batch_id}:{row.seq} is a copy that a transformation has changed",
            where="row",
            hint=f"the message as it was published is {published}",
        )
    identity = _identity(row)
    waiting = Waiting.look(data, vhost, topology)
    for queue in _tables_of(data, topology, vhost, row):
        for batch in rows_of(data, vhost, queue, where=identity, batch_id=row.batch_id, waiting=waiting):
            return _recorded(batch, queue)
    for batch in rows_of_batch(data, vhost, row.stream, row.batch_id, identity):
        return _recorded(batch, None, journal=True)
    raise NotFound(
        f"no queue and no unroutable row of vhost {vhost!r} is {row.stream}:{row.batch_id}:{row.seq}",
        where="row",
        hint="consumed rows are gone; a message that was counted only has no row, but where its stream keeps a journal",
    )


def _identity(row: RowId) -> pc.Expression:
    return (
        (pc.field("routing", "stream") == row.stream)
        & (pc.field("routing", "batch_id") == row.batch_id)
        & (pc.field("routing", "seq") == row.seq)
    )


def find_matching(
    data: DataDir,
    topology: Topology,
    vhost: str,
    condition: Filter | None,
    *,
    limit: int,
    since: datetime | None = None,
    position: Position | None = None,
    most: int = MOST_ROWS,
) -> FoundOnRecord:
    """Up to `limit` distinct messages that a filter accepts: unroutable, in queues, in journals alone.

    They were routed at `since` or later, and stand at `position`, where these are stated. Journals are looked through
    newest first, and without `since` about `most` rows of them: `journals` says how far.
    """
    found: dict[RowId, RecordedMessage] = {}
    waiting = Waiting.look(data, vhost, topology)
    looked = Looked()
    where = pc.field("routing", "seq") >= 0  # messages as they were published
    if position is not None:
        where &= position.where
    if since is not None:
        recent = pc.field("routed_at") >= pa.scalar(since, pa.timestamp("us", "UTC"))
        where &= recent
    held = (
        (batch, queue, False)
        for queue in _all_tables(topology, vhost)
        for batch in rows_of(data, vhost, queue, where=where, waiting=waiting)
    )
    kept = newest_rows(data, vhost, looked, since=since, position=position, most=most)
    for batch, queue, journal in itertools.chain(held, ((batch, None, True) for batch in kept)):
        for place in accepted(batch, condition).tolist():
            if batch.column("routing")[place]["seq"].as_py() < 0:
                continue  # of a journal
            one = _recorded(batch.slice(place, 1), queue, journal=journal)
            found.setdefault(one.row, one)
            if len(found) == limit:
                return FoundOnRecord(list(found.values()), looked)
    return FoundOnRecord(list(found.values()), looked)


def source_position(stated: Mapping[str, str]) -> Position:
    """The rows of a record in its source, by what is known of where it stood: columns of `source` and their values.

    Raises InvalidInput for a column that there is not, or a value that it cannot have.
    """
    where: pc.Expression | None = None
    for name, text in stated.items():
        place = SOURCE.get_field_index(name)
        if place < 0:
            names = [field.name for field in SOURCE]
            raise InvalidInput(
                f"a source has no {name[:80]!r}",
                where="source",
                hint=did_you_mean(nearest(name, names), ", ".join(names)),
            )
        kind = SOURCE.field(place).type
        try:
            value = pa.scalar(text if pa.types.is_string(kind) else int(text), kind)
        except (ValueError, pa.ArrowInvalid, OverflowError):
            raise InvalidInput(f"{name} is a number, not {text[:80]!r}", where="source") from None
        one = pc.field("source", name) == value
        where = one if where is None else where & one
    if where is None:
        raise InvalidInput("nothing says where in the source", where="source", hint="topic=orders, offset=77")
    return Position(where, ("source",))


def accepted(batch: pa.RecordBatch, condition: Filter | None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The places in a batch of the messages that a filter accepts; UTC() is each batch's newest routing time."""
    everything = np.arange(batch.num_rows, dtype=np.int64)
    if condition is None or not batch.num_rows:
        return everything
    newest = pc.max(batch.column("routed_at")).cast(pa.int64()).as_py() or 0
    view = BatchView(batch.select(MESSAGE_SCHEMA.names), clock_ms=newest // 1000)
    chosen = FilterGroups([[condition]]).select(view, everything, np.zeros(batch.num_rows, np.int32))
    return np.unique(chosen.pair)


def rows_of(
    data: DataDir,
    vhost: str,
    queue: str | None,
    *,
    where: pc.Expression | None = None,
    columns: Sequence[str] | None = None,
    batch_id: int | None = None,
    waiting: Waiting | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a queue (None: of the unroutable table), batch by batch; nothing for a missing table.

    What waits for the queue in journals is among them, as `waiting` has found it, for whoever reads several queues.
    With `batch_id` files are passed over that have nothing of a batch of that number. Columns that an older file does
    not have are null. Raises UnsupportedTable naming a data file that is missing or damaged.
    """
    path = data.unroutable(vhost) if queue is None else data.queue(vhost, queue)
    if not tables.exists(path):
        return
    found = unroutable_of(data, vhost) if queue is None else of_queue(data, vhost, queue, waiting=waiting)
    for name, added in found.files.items():
        if batch_id is not None and not may_hold(added, batch_id):
            continue
        for batch in found.batches(name, columns=columns, where=where):
            if batch.num_rows:
                yield batch


def _tables_of(data: DataDir, topology: Topology, vhost: str, row: RowId) -> Iterable[str | None]:
    """Where a row may be: what the manifest and the journal say about its batch, or else every table."""
    known = read_manifest(data, stream=row.stream, batch_id=row.batch_id)
    if not known:
        return _all_tables(topology, vhost)
    touched = [one for batch in known for one in batch["tables"] if one["vhost"] == vhost]
    queues = {one["name"] for one in touched if one["kind"] == "queue"}
    if any(one["kind"] == "journal" for one in touched):
        deferred = deferred_to(data, topology, vhost, row)
        if deferred is None:
            return _all_tables(topology, vhost)
        queues.update(deferred)
    return [None, *sorted(queues)]


def deferred_to(data: DataDir, topology: Topology, vhost: str, row: RowId) -> list[str] | None:
    """The deferred queues that a message has reached, of those that there are; None when no journal has it any more."""
    for batch in rows_of_batch(data, vhost, row.stream, row.batch_id, _identity(row)):
        ids = set(batch.column("routing")[0].as_py()["deferred"] or ())
        return sorted(name for (_, name), queue in topology.queues.items() if queue.id in ids) if ids else []
    return None


def _all_tables(topology: Topology, vhost: str) -> list[str | None]:
    topology.vhost(vhost)
    return [None, *sorted(name for where, name in topology.queues if where == vhost)]


def _recorded(batch: pa.RecordBatch, queue: str | None, *, journal: bool = False) -> RecordedMessage:
    routing = batch.column("routing")[0].as_py()
    message = batch.slice(0, 1).select(MESSAGE_SCHEMA.names)
    if queue is None:
        # rejected by the exchange or for its sender: as the sender's wish it means the same
        rejected = pc.fill_null(pc.equal(batch.column("disposition").slice(0, 1), "rejected"), False)
        message = message.append_column("reject_unroutable", rejected)
    return RecordedMessage(
        row=RowId(routing["stream"], routing["batch_id"], routing["seq"]),
        batch=message,
        queue=queue,
        reason=None if queue is not None else batch.column("reason")[0].as_py(),
        topology_version=routing["topology_version"],
        clock_ms=batch.column("routed_at")[0].cast(pa.int64()).as_py() // 1000,
        refused=_refused(batch) if queue is None and not journal else None,
        journal=journal,
    )


def _refused(batch: pa.RecordBatch) -> dict[str, Any] | None:
    found = unroutable_row(batch.select(ROW_COLUMNS).slice(0, 1).to_pylist()[0])
    return found if found["reason"] in UNREADABLE else None


def unroutable_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the unroutable table, of ROW_COLUMNS, as JSON-ready data.

    `raw` is the record's text, shortened; `source` what is known of where it came from. `column`, `value` and `type`
    are those of a value that does not fit, `fix` what may be done about a record that is no message.
    """
    routing, detail = row["routing"], row["detail"] or ""
    raw = None if row["raw"] is None else row["raw"][: 4 * _RAW].decode("utf-8", "replace")
    misfit = misfit_in(detail) or dict.fromkeys(("column", "value", "type"))
    return {
        "row": f"{routing['stream']}:{routing['batch_id']}:{routing['seq']}",
        "routed_at": iso(row["routed_at"], "milliseconds"),
        "reason": row["reason"],
        "disposition": row["disposition"],
        "detail": detail,
        "exchange": row["exchange"],
        "routing_key": row["routing_key"],
        "raw": raw if raw is None or len(raw) <= _RAW else raw[: _RAW - 1] + "…",
        "source": {name: value for name, value in (row["source"] or {}).items() if value is not None},
        **misfit,
        "fix": remedy(row["reason"], detail),
    }
