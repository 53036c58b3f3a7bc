"""How rows of messages become Parquet files, by how many files a row stands in.

Copies stand in many: their values are encoded once for all of them (`bindery.store.pages`). The rows of a journal stand
in one, for which pyarrow is faster (docs/performance.md, "What was tried").
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bindery.store.pages import Copies, repeating

#: Sorted or slowly changing integers, from 0 on: each is what it adds to the one before.
_DELTA: Final = frozenset(
    {
        "routing.seq",
        "routing.bindings.list.element",
        "routing.queues.list.element",
        "routing.deferred.list.element",
    }
)
#: Leaves whose bounds files state.
_BOUNDED: Final = [
    "exchange",
    "routing_key",
    "routing.topology_version",
    "routing.batch_id",
    "routing.seq",
    "routing.queues.list.element",
    "routing.deferred.list.element",
    "routed_at",
]
#: Rows of a row group of a journal: whoever wants one message, or those of one queue, passes over the others.
_JOURNAL_GROUP: Final = 8_192


def copies(rows: pa.Table) -> Copies:
    """Rows of which any may stand in any number of files."""
    return Copies(rows, delta=_DELTA, bounded=_BOUNDED)


def journal_file(rows: pa.Table) -> list[bytes]:
    """A file of the rows of a journal, in their order: its parts."""
    sink = _Parts()
    pq.write_table(
        rows,
        sink,
        compression="snappy",
        row_group_size=_JOURNAL_GROUP,
        # as the first row group says; where a later one has too many values, pyarrow gives its dictionary up
        use_dictionary=repeating(rows.slice(0, _JOURNAL_GROUP), delta=_DELTA),
        column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
        write_statistics=_BOUNDED,
        store_schema=False,
    )
    return sink.parts


class _Parts:
    """A file that is kept as it was written: put together it would take twice its room while it grows."""

    closed = False

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, part: bytes) -> int:
        self.parts.append(part)
        return len(part)

    def flush(self) -> None:
        """Nothing waits."""
