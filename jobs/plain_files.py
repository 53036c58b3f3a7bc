"""Parquet files that hold messages as they are: a task reads its parts of them itself.

Spark would decode such a file to rows, write these in Arrow's form and send them through a socket, which takes several
times what decoding takes. Spark still decides everything else: which files a batch has, and how they are cut and packed
into partitions, so that each message has the number that it would have had. What a part holds is decided by the rule of
Spark's reader (`ParquetMetadataConverter.filterFileMetaDataByMidpoint` of Parquet 1.17): the row groups whose middle
lies in it.

Only what is certainly the same either way is read so: columns of exactly the types that messages have, with exactly
their names, on a local disk, without partitions in the names of folders. All else is `NotPlain`: nothing of the attempt
is kept, and Spark reads that batch and those after it. That holds for files that cannot be read, too: what is wrong
with them Spark says, as of any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bindery.jobs.fold import SOURCE_COLUMN, Fold
from bindery.jobs.mapping import Projection, shape_of_arrow
from bindery.jobs.sources.planned import place_of
from bindery.jobs.sources.records import Records
from bindery.router.message import SENT_SCHEMA

#: Reads the records of a task, given what its partition of the DataFrame holds.
Reader = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: Options of Spark's reader that say which files there are, and not how one is read; in small letters.
_WHICH_FILES: Final = frozenset(
    {
        *("basepath", "cleansource", "discardedcachedinputratio", "filenameonly", "ignorecorruptfiles"),
        *("ignoremissingfiles", "latestfirst", "maxbytespertrigger", "maxcachedfiles", "maxfilespertrigger"),
        *("recursivefilelookup", "sourcearchivedir"),
    }
)
#: Parts of files in one batch; more take longer to ask Spark for than reading them so saves.
MOST_PARTS: Final = 256
_REBASE: Final = "spark.sql.parquet.datetimeRebaseModeInRead"
_WRITTEN_BY: Final = b"org.apache.spark.version"
_REBASED: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


class NotPlain(Exception):
    """These files are Spark's to read; says why."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """Bytes of a file from `start` to `end` that are one task's; `address` is Spark's, a URI."""

    address: str
    start: int
    end: int

    @property
    def path(self) -> str:
        """The file on the local disk."""
        return unquote(urlsplit(self.address).path)


@dataclass(frozen=True, slots=True)
class PlainFiles:
    """Reads the parts of each partition, numbered as Spark numbers them; pickled to the workers.

    columns  names of message columns that the files have
    rows     records of a batch of Arrow at most
    rebased  the session's setting rebases times of files that do not say who wrote them
    """

    columns: tuple[str, ...]
    parts: Sequence[Sequence[FilePart]]
    rows: int
    rebased: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The records of the partitions whose numbers the batches hold. Raises NotPlain."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for part in self.parts[number]:
                    yield from self._read(part)

    def _read(self, part: FilePart) -> Iterator[pa.RecordBatch]:
        place = place_of(part.address)
        try:
            with pq.ParquetFile(part.path) as file:
                self._check(file, place)
                metadata = file.metadata
                groups = range(metadata.num_row_groups)
                first = [0, *accumulate(metadata.row_group(group).num_rows for group in groups)]
                for group in groups:
                    if not part.start <= _middle(metadata.row_group(group)) < part.end:
                        continue
                    row = first[group]
                    for batch in file.iter_batches(self.rows, [group], list(self.columns), use_threads=False):
                        yield self._with_place(batch, place, row)
                        row += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            raise NotPlain(f"{place}: {error}") from error

    def _with_place(self, batch: pa.RecordBatch, place: str, row: int) -> pa.RecordBatch:
        rows = batch.num_rows
        members = [pa.repeat(place, rows), pa.array(np.arange(row, row + rows))]
        source = pa.StructArray.from_arrays(members, names=["file", "row_index"])
        arrays = [*(batch.column(name) for name in self.columns), source]
        return pa.RecordBatch.from_arrays(arrays, names=[*self.columns, SOURCE_COLUMN])

    def _check(self, file: pq.ParquetFile, place: str) -> None:
        """Raises NotPlain where Spark might see anything else in the file."""
        schema = file.schema_arrow
        told = file.metadata.metadata or {}
        written = told.get(_WRITTEN_BY)
        if any(key in told for key in _REBASED) or (self.rebased if written is None else written < b"3"):
            raise NotPlain(f"{place}: its times are of a calendar of Spark 2")
        if len({name.lower() for name in schema.names}) < len(schema.names):
            raise NotPlain(f"{place}: columns whose names differ in their case alone")
        for name in self.columns:
            place_in_schema = schema.get_field_index(name)
            if place_in_schema < 0:
                raise NotPlain(f"{place}: no column {name!r}")
            try:
                same = shape_of_arrow(schema.field(place_in_schema).type) == _SHAPES[name]
            except KeyError:
                same = False
            if not same:
                raise NotPlain(f"{place}: column {name!r} is {schema.field(place_in_schema).type}")


#: Message column -> its type as Spark writes it.
_SHAPES: Final = {field.name: shape_of_arrow(field.type) for field in SENT_SCHEMA}


def _middle(group: pq.RowGroupMetaData) -> int:
    """The byte of a file by which a row group belongs to a part."""
    first = group.column(0)
    start = first.data_page_offset
    if first.has_dictionary_page and first.dictionary_page_offset is not None:
        start = min(start, first.dictionary_page_offset)
    size = sum(group.column(number).total_compressed_size for number in range(group.num_columns))
    return int(start + size // 2)


@dataclass(slots=True)
class Plain:
    """What a stream reads so, and until when: the first file that is not plain ends it for this run.

    fold  of columns as files have them
    """

    fold: Fold
    _columns: tuple[str, ...]
    _ended: bool = False

    def reader(self, frame: DataFrame, rows: int) -> tuple[DataFrame, PlainFiles] | None:
        """A frame with a partition for each of the batch's, and what reads them; None where Spark is to read.

        `frame` is what Spark would read the batch by; `rows` how many records a batch of Arrow may have.
        """
        parts = None if self._ended else _parts(frame)
        if not parts:
            return None
        session = frame.sparkSession
        rebased = session.conf.get(_REBASE) != "CORRECTED"
        numbered = session.range(0, len(parts), 1, len(parts))
        return numbered, PlainFiles(self._columns, parts, rows, rebased)

    def end(self) -> None:
        """Leave all that comes to Spark."""
        self._ended = True


def plain(spark: SparkSession, records: Records, projection: Projection, fold: Fold) -> Plain | None:
    """How the files of a source are read without Spark; None where they are not, whatever they hold."""
    form = records.files
    if form is None or form.name != "parquet" or {"file", "row_index"} != {*records.place}:
        return None
    if any(name.lower() not in _WHICH_FILES for name in form.options):
        return None
    as_they_are = all(column.arrow == column.column and not column.guarded for column in fold.columns)
    if fold.text or fold.consumer is not None or fold.overrides or not fold.columns or not as_they_are:
        return None
    if projection.raw is not None or projection.clocked:
        return None
    columns = tuple(replace(column, boxed=False) for column in fold.columns)
    return Plain(replace(fold, columns=columns), tuple(column.column for column in columns))


def _parts(frame: DataFrame) -> list[list[FilePart]]:
    """The parts of files in each partition of a frame that scans files; none where they are not for `PlainFiles`."""
    parts: list[list[FilePart]] = []
    count = 0
    partition: Any
    for partition in frame._jdf.queryExecution().toRdd().partitions():
        found: list[FilePart] = []
        for file in partition.files():
            count += 1
            address = str(file.urlEncodedPath())
            if count > MOST_PARTS or not address.startswith("file:") or file.partitionValues().numFields():
                return []
            start = int(file.start())
            found.append(FilePart(address, start, start + int(file.length())))
        parts.append(found)
    return parts
