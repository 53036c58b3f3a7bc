"""Plans of redrives: which unroutable rows are routed again, and with what, on record before anything is changed.

A plan is one Parquet file, `DIR/redrives/<vhost>/<number>.parquet`, which is whole as soon as it has its name.
Numbers grow with time: plans are marked and delivered in their order.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from bindery.router.errors import UnsupportedTable
from bindery.router.message import MESSAGE_SCHEMA, SENT_SCHEMA, UNROUTABLE_SCHEMA
from bindery.store import effects
from bindery.store.paths import DataDir, encode_name
from bindery.store.places import Place, at
from bindery.store.writer import BATCH_SCHEMA, SEQ

#: Streams of redrives begin so; there is one for each vhost.
STREAM_PREFIX: Final = "redrive:"
_VERSION: Final = b"bindery.topology_version"
_CLOCK: Final = b"bindery.clock_ms"
#: What makes plans of one millisecond differ.
_NUMBERS: Final = 1 << 10
_ROUTING: Final = "planned_from"
#: What a plan's rows are told by: the row of the unroutable table that each is made from.
_KNOWN_BY: Final = (*MESSAGE_SCHEMA.names, "source", "routing", "routed_at")
#: What QueueWriter takes and no plan has: its rows reach a queue, whatever their sender asked for otherwise.
_ASKED: Final = [field for field in SENT_SCHEMA if field.name not in MESSAGE_SCHEMA.names]
#: A plan's rows: the rest of what QueueWriter takes, and of what the unroutable row behind each is told by.
_SCHEMA: Final = pa.schema(
    [
        *(field for field in BATCH_SCHEMA if field not in _ASKED),
        (_ROUTING, UNROUTABLE_SCHEMA.field("routing").type),
        ("routed_at", UNROUTABLE_SCHEMA.field("routed_at").type),
    ]
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A durable plan: its file, its batch, and what the rows are routed with."""

    place: Place
    stream: str
    number: int
    topology_version: int
    clock_ms: int
    rows: pa.Table

    @property
    def batch(self) -> str:
        """The plan's batch as it is written beside the rows that it has taken: "<stream>:<number>"."""
        return f"{self.stream}:{self.number}"

    def messages(self) -> pa.RecordBatch:
        """The rows as one batch of BATCH_SCHEMA."""
        rows = self.rows
        for field in _ASKED:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
        return one_batch(rows.select(BATCH_SCHEMA.names))

    def unroutable_rows(self) -> pa.Table:
        """The rows as the unroutable table has them, in the columns that they are told by."""
        known = [_ROUTING if name == "routing" else name for name in _KNOWN_BY]
        return self.rows.select(known).rename_columns(list(_KNOWN_BY))


class Plans:
    """The plans of one vhost."""

    def __init__(self, data: DataDir, vhost: str) -> None:
        self.stream = f"{STREAM_PREFIX}{vhost}"
        self._folder = at(data.root, "redrives", encode_name(vhost))

    def pending(self) -> list[int]:
        """The numbers of the plans that are not finished, ascending."""
        with effects.looking(self._folder):
            # what is left of plans that were never whole, or are done, has a suffix
            older = [name for name in self._folder.folders() if "." not in name]
            numbers = self._folder.numbers(".parquet")
        if older:
            raise UnsupportedTable(
                f"{self._folder / older[0]} is a plan of an older version",
                where=str(self._folder),
                hint="finish it with the version that began it",
            )
        return numbers

    def read(self, number: int) -> Plan | None:
        """A plan; None when somebody else has finished it. Raises UnsupportedTable for a damaged one."""
        place = self._place(number)
        try:
            rows = place.read_parquet()
            stated = rows.schema.metadata
            planned = rows.replace_schema_metadata(None).select(_SCHEMA.names).cast(_SCHEMA)
            return Plan(place, self.stream, number, int(stated[_VERSION]), int(stated[_CLOCK]), planned)
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise UnsupportedTable(
                f"damaged redrive plan {place}: {error}",
                where=str(place),
                hint=f"restore it; without it, rows marked as redriven in {self.stream}:{number} lack copies",
            ) from error

    def write(self, rows: pa.Table, topology_version: int, clock_ms: int, *, after: int) -> Plan:
        """A plan for rows of the unroutable table, with a number above `after`; durable when this comes back.

        Raises StorageFailed; the plan may be there all the same, and is finished like any other.
        """
        number = max(time.time_ns() // 1_000_000 * _NUMBERS, after + 1) + secrets.randbelow(_NUMBERS)
        planned = rows.select([*MESSAGE_SCHEMA.names, "source"])
        planned = planned.append_column(SEQ, pa.array(np.arange(rows.num_rows)))
        planned = planned.append_column(_ROUTING, rows["routing"]).append_column("routed_at", rows["routed_at"])
        planned = planned.cast(_SCHEMA)
        stated = {_VERSION: str(topology_version).encode(), _CLOCK: str(clock_ms).encode()}
        place = self._place(number)
        effects.make_folder(self._folder)
        effects.put_parquet(place, planned.replace_schema_metadata(stated))
        return Plan(place, self.stream, number, topology_version, clock_ms, planned)

    def discard(self, plan: Plan) -> None:
        """Remove a plan that is finished or was given up. Raises StorageFailed; then it is there to be finished."""
        effects.remove(plan.place)

    def _place(self, number: int) -> Place:
        return self._folder / f"{number}.parquet"


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)
