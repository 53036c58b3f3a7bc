"""Statistics of data files in Delta's form: written for rows that were routed, and read to skip files.

Times are in milliseconds (Delta transaction protocol, "Per-file Statistics"): the smallest is cut off,
the largest rounded up, so that every row lies between them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bindery.router.message import TIMESTAMP
from bindery.router.moments import in_utc
from bindery.store import file_rows
from bindery.store.actions import AddFile

#: Members of `routing` that have statistics.
_ROUTING: Final = ("topology_version", "batch_id", "seq")
_MILLISECOND: Final = 1_000
_ALWAYS: Final = (-(1 << 63), (1 << 63) - 1)


class Span(NamedTuple):
    """Between which times, in microseconds since 1970, the rows of a file were routed."""

    first: int
    last: int

    def meets(self, other: Span) -> bool:
        """Whether a time lies in both."""
        return self.first <= other.last and other.first <= self.last


def statistics_of(rows: pa.Table) -> str:
    """The statistics of a file that holds these rows; only their number unless they were routed."""
    found: dict[str, Any] = {"numRecords": rows.num_rows}
    if "routing" in rows.column_names and "routed_at" in rows.column_names:
        low: dict[str, Any] = {}
        high: dict[str, Any] = {}
        nulls: dict[str, Any] = {"routed_at": rows["routed_at"].null_count}
        span = span_of(rows)
        if span is not None:
            low["routed_at"] = _text(span.first // _MILLISECOND)
            high["routed_at"] = _text(-(-span.last // _MILLISECOND))
        members = {name: pc.struct_field(rows["routing"], name) for name in _ROUTING}
        bounds = {name: pc.min_max(member).as_py() for name, member in members.items()}
        nulls["routing"] = {name: member.null_count for name, member in members.items()}
        low["routing"] = {name: bound["min"] for name, bound in bounds.items() if bound["min"] is not None}
        high["routing"] = {name: bound["max"] for name, bound in bounds.items() if bound["max"] is not None}
        found |= {"minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps(found, separators=(",", ":"))


def span_of(rows: pa.Table) -> Span | None:
    """When these rows were routed; None for no row with a time."""
    found = pc.min_max(rows["routed_at"].cast(TIMESTAMP, safe=False).cast(pa.int64())).as_py()
    return None if found["min"] is None else Span(found["min"], found["max"])


def stated_span(path: str, file: AddFile) -> Span:
    """When the rows of a table's file were routed, by the log or else by the file's footer.

    A file that says nothing may hold any time.
    """
    try:
        stats = json.loads(file.stats or "{}")
        first, last = (_microseconds(stats[name]["routed_at"]) for name in ("minValues", "maxValues"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return _span_in_footer(path, file.path)
    # whoever cuts the largest time off as well means up to a millisecond more
    return Span(first, last + _MILLISECOND - 1)


def may_hold(file: AddFile, batch_id: int) -> bool:
    """Whether a file may have rows of a batch of that number, by the log."""
    first, last = stated(file, "batch_id") or _ALWAYS
    return first <= batch_id <= last


def batches_stated(file: AddFile) -> tuple[int, int]:
    """Between which numbers the batches of a file's rows are, by the log; any that there can be, where it is silent."""
    return stated(file, "batch_id") or _ALWAYS


def stated(file: AddFile, member: str) -> tuple[int, int] | None:
    """The least and the greatest value of a member of `routing` in a file, by the log; None where it is silent."""
    try:
        stats = json.loads(file.stats or "{}")
        first, last = (int(stats[bound]["routing"][member]) for bound in ("minValues", "maxValues"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return first, last


def _span_in_footer(path: str, name: str) -> Span:
    found = list(_row_groups(file_rows.footer(path, name)))
    if not found or None in found:
        return Span(*_ALWAYS)
    return Span(min(one.first for one in found if one), max(one.last for one in found if one))


def _row_groups(metadata: pq.FileMetaData) -> Iterator[Span | None]:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = (group.column(place) for place in range(group.num_columns))
        column = next((one for one in columns if one.path_in_schema == "routed_at"), None)
        stats = None if column is None else column.statistics
        bounds = (stats.min, stats.max) if stats is not None and stats.has_min_max else ()
        times = [_since_1970(bound) for bound in bounds if isinstance(bound, datetime)]
        yield Span(*times) if len(times) == len(Span._fields) else None


def _text(milliseconds: int) -> str:
    at = datetime.fromtimestamp(milliseconds // _MILLISECOND, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{milliseconds % _MILLISECOND:03}Z"


def _microseconds(text: str) -> int:
    return _since_1970(datetime.fromisoformat(text))


def _since_1970(moment: datetime) -> int:
    passed = in_utc(moment) - datetime(1970, 1, 1, tzinfo=UTC)
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
