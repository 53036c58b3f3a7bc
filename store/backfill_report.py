"""What a backfill did, or would do."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from bindery.router.moments import iso
from bindery.store.seams import UnderWay


@dataclass(slots=True)
class Found:
    """Rows of a stretch: how many, and when the first and the last were routed."""

    rows: int = 0
    first: int | None = None
    last: int | None = None

    def add(self, rows: pa.Table) -> None:
        """Count some of them."""
        moments = rows["routed_at"].cast(pa.int64()).to_numpy()
        self.rows += rows.num_rows
        self.first = min(filter(None, (self.first, int(moments.min()))))
        self.last = max(filter(None, (self.last, int(moments.max()))))


@dataclass(slots=True)
class FromStream:
    """What a journal gave: messages looked at, rows brought, and when its first row was routed (None: it is empty)."""

    messages: int = 0
    rows: int = 0
    journal_from: int | None = None


@dataclass(slots=True)
class Outcome:
    """What a backfill did, or would do.

    rows         brought into the queue
    first, last  when the first and the last of them were routed (microseconds since 1970)
    streams      by the stream of each journal
    under_way    batches of older topologies that had not ended: maintenance brings what is in them
    finished     rows of earlier backfills of the queue that had been interrupted, and were completed first
    """

    queue: str
    topology_version: int
    rows: int = 0
    first: int | None = None
    last: int | None = None
    streams: dict[str, FromStream] = field(default_factory=dict)
    under_way: tuple[UnderWay, ...] = ()
    finished: int = 0

    def met(self, stream: str, messages: int) -> None:
        """Count messages that were looked at."""
        self.streams.setdefault(stream, FromStream()).messages += messages

    def brought(self, stream: str, found: Found) -> None:
        """Count rows that were brought."""
        self.rows += found.rows
        self.streams.setdefault(stream, FromStream()).rows += found.rows
        self.first = min(filter(None, (self.first, found.first)), default=None)
        self.last = max(filter(None, (self.last, found.last)), default=None)

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "queue": self.queue,
            "topology_version": self.topology_version,
            "rows": self.rows,
            "first": _text(self.first),
            "last": _text(self.last),
            "streams": [
                {
                    "stream": name,
                    "messages": one.messages,
                    "rows": one.rows,
                    "journal_from": _text(one.journal_from),
                }
                for name, one in sorted(self.streams.items())
            ],
            "under_way": [
                {"stream": one.stream, "batch_id": one.batch_id, "topology_version": one.topology_version}
                for one in self.under_way
            ],
            "finished": self.finished,
        }


def _text(moment: int | None) -> str | None:
    return None if moment is None else iso(datetime.fromtimestamp(moment / 1_000_000, UTC), "milliseconds")
