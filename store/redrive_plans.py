"""Plans of redrives: which unroutable rows are routed again, and with what, on record before anything is changed.

A plan is a folder `DIR/redrives/<vhost>/<number>` with one Parquet file. It is written under another name
and renamed when it is whole, and renamed again before it is removed, so that what is half there is never
taken for one. Numbers grow with time: plans are marked and delivered in their order.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from bindery.router.errors import StorageFailed, UnsupportedTable
from bindery.router.message import MESSAGE_SCHEMA, SENT_SCHEMA, UNROUTABLE_SCHEMA
from bindery.store import effects, file_rows
from bindery.store.paths import DataDir, encode_name
from bindery.store.writer import BATCH_SCHEMA, SEQ

#: Streams of redrives begin so; there is one for each vhost.
STREAM_PREFIX: Final = "redrive:"
_FILE: Final = "plan.parquet"
#: Suffixes of a plan's folder before and after its life.
_DRAFT: Final = ".draft"
_DONE: Final = ".done"
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
    """A durable plan: its folder, its batch, and what the rows are routed with."""

    folder: Path
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
        self._folder = Path(data.root, "redrives", encode_name(vhost))

    def pending(self) -> list[int]:
        """The numbers of the plans that are not finished, ascending."""
        found = []
        for folder in self._folders():
            if folder.suffix:
                continue
            if not folder.name.isdecimal():
                raise UnsupportedTable(
                    f"{folder} is a plan of an older version",
                    where=str(folder),
                    hint="finish it with the version that began it",
                )
            found.append(int(folder.name))
        return sorted(found)

    def read(self, number: int) -> Plan | None:
        """A plan; None when somebody else has finished it. Raises UnsupportedTable for a damaged one."""
        folder = self._folder / str(number)
        file = folder / _FILE
        if not file.exists():
            return None
        try:
            rows = file_rows.read_as_it_is(str(folder), _FILE)
            stated = rows.schema.metadata
            planned = rows.replace_schema_metadata(None).select(_SCHEMA.names).cast(_SCHEMA)
            return Plan(folder, self.stream, number, int(stated[_VERSION]), int(stated[_CLOCK]), planned)
        except (UnsupportedTable, pa.ArrowException, KeyError, TypeError, ValueError) as error:
            if not file.exists():
                return None
            raise UnsupportedTable(
                f"damaged redrive plan {folder}: {error}",
                where=str(folder),
                hint=f"restore it; without it, rows marked as redriven in {self.stream}:{number} lack copies",
            ) from error

    def write(self, rows: pa.Table, topology_version: int, clock_ms: int, *, after: int) -> Plan:
        """A plan for rows of the unroutable table, with a number above `after`; durable when this comes back.

        Raises StorageFailed; the plan may be there all the same, and is finished like any other.
        """
        number = max(time.time_ns() // 1_000_000 * _NUMBERS, after + 1) + secrets.randbelow(_NUMBERS)
        folder = self._folder / str(number)
        planned = rows.select([*MESSAGE_SCHEMA.names, "source"])
        planned = planned.append_column(SEQ, pa.array(np.arange(rows.num_rows)))
        planned = planned.append_column(_ROUTING, rows["routing"]).append_column("routed_at", rows["routed_at"])
        planned = planned.cast(_SCHEMA)
        stated = {_VERSION: str(topology_version).encode(), _CLOCK: str(clock_ms).encode()}
        draft = folder.with_suffix(_DRAFT)
        try:
            effects.make_folder(draft)
            effects.write_parquet(draft / _FILE, planned.replace_schema_metadata(stated))
            effects.rename(draft, folder)
        except StorageFailed:
            with contextlib.suppress(StorageFailed):
                effects.remove_folder(draft)
            raise
        return Plan(folder, self.stream, number, topology_version, clock_ms, planned)

    def discard(self, plan: Plan) -> None:
        """Remove a plan that is finished or was given up. Raises StorageFailed; then it is there to be finished."""
        done = plan.folder.with_suffix(_DONE)
        effects.rename(plan.folder, done)
        effects.remove_folder(done)

    def sweep(self) -> None:
        """Remove what is left of plans that nobody writes or needs any more."""
        for folder in self._folders():
            if folder.suffix == _DONE or (folder.suffix == _DRAFT and _is_old(folder)):
                effects.remove_folder(folder)

    def _folders(self) -> list[Path]:
        return list(self._folder.iterdir()) if self._folder.is_dir() else []


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def _is_old(folder: Path) -> bool:
    """Whether a draft is a day old: nobody writes it any more."""
    try:
        return time.time() - folder.stat().st_mtime > 86_400
    except FileNotFoundError:
        return False
