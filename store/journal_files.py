"""Journals of a vhost, read in the order of their batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from bindery.store import file_rows, tables
from bindery.store.actions import AddFile
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.statistics import stated, stated_span


class Portion(NamedTuple):
    """Files with every row, beyond those of the portion before, of the batches up to `last`."""

    last: int
    files: tuple[AddFile, ...]


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one stream, as of one version of its table."""

    stream: str
    log: TableLog

    @classmethod
    def at(cls, path: str, vhost: str) -> Self | None:
        """The journal at a path; None when it is none, or of another vhost."""
        if not tables.exists(path):
            return None
        log = tables.open_log(path, tables.JOURNAL, files=True)
        properties = log.state.configuration
        return cls(properties["bindery.name"], log) if properties.get("bindery.vhost") == vhost else None

    def portions(self, *, after: int = -1, through: int | None = None, rows: int = 0) -> Iterator[Portion]:
        """Its batches beyond `after` (up to `through`) in parts of about so many rows, each batch in one of them."""
        files = [
            (first, last, file)
            for file in tables.files_of(self.log).values()
            for first, last in [self._batches(file)]
            if last > after and (through is None or first <= through)
        ]
        part: list[AddFile] = []
        highest, held = -1, 0
        for first, last, file in sorted(files, key=lambda one: one[:2]):
            if part and first > highest and held >= rows:
                yield Portion(highest, tuple(part))
                part, held = [], 0
            part.append(file)
            highest, held = max(highest, last), held + (file.rows or 0)
        if part:
            yield Portion(highest, tuple(part))

    def rows(self, files: Iterable[AddFile], *, after: int, through: int) -> Iterator[pa.RecordBatch]:
        """The rows of the batches after one up to another, some of one batch at a time."""
        batch = pc.field("routing", "batch_id")
        where = (batch > after) & (batch <= through)
        for file in files:
            for found in file_rows.batches(self.log.path, file.path, tables.JOURNAL.schema, where=where):
                yield from by_batch(found)

    @property
    def oldest_us(self) -> int | None:
        """When its first row was routed, in microseconds since 1970; None for an empty one."""
        spans = [stated_span(self.log.path, file) for file in tables.files_of(self.log).values()]
        return min((span.first for span in spans), default=None)

    @property
    def first_batch(self) -> int | None:
        """The first batch that it has rows of; None for an empty one."""
        return min((self._batches(file)[0] for file in tables.files_of(self.log).values()), default=None)

    @property
    def topology_version(self) -> int:
        """The newest topology version that a row of it was routed by; -1 where that is not stated."""
        bounds = (stated(file, "topology_version") for file in tables.files_of(self.log).values())
        return max((newest for bound in bounds if bound is not None for newest in bound), default=-1)

    def _batches(self, file: AddFile) -> tuple[int, int]:
        """The least and the greatest batch of a file; one that does not state them is looked into."""
        bounds = stated(file, "batch_id")
        if bounds is not None:
            return bounds
        routing = file_rows.read(self.log.path, file.path, tables.JOURNAL.schema, columns=["routing"])["routing"]
        found = pc.min_max(pc.struct_field(routing, "batch_id")).as_py()
        return (-1, -1) if found["min"] is None else (found["min"], found["max"])


def journals(data: DataDir, vhost: str, stream: str | None = None) -> list[Journal]:
    """The journals of a vhost, or that of one of its streams, in the order of the streams' names."""
    paths = data.journals() if stream is None else [data.journal(stream)]
    found = (Journal.at(path, vhost) for path in paths)
    return sorted((one for one in found if one is not None), key=lambda one: one.stream)


def by_batch(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows batch by batch: all of one batch were routed by one topology and one clock."""
    if not rows.num_rows:
        return
    numbers = rows.column("routing").field("batch_id")
    for number in pc.unique(numbers).to_pylist():
        chosen = rows.filter(pc.equal(numbers, number))
        yield rows if chosen.num_rows == rows.num_rows else chosen
