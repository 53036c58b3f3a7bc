"""How a micro-batch is read: from a stream as it comes, or file by file, so that a bad file hurts no other.

Spark's file stream finds files and remembers them; it is not asked to read them. For each batch the files
that it has planned are looked at: one that is gone, has changed or cannot be read is left out and named, a
line that is too long is cut out and named, and everything else is routed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final, Protocol

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, functions

from bindery.jobs.fold import SOURCE_COLUMN
from bindery.jobs.mapping import Projection
from bindery.jobs.plain_files import NotPlain, Plain, PlainFiles
from bindery.jobs.sources.format import FileFormat
from bindery.jobs.sources.lines import long_lines
from bindery.jobs.sources.offsets import OffsetNumbers
from bindery.jobs.sources.planned import PlannedFile, place_of, planned_ends, planned_files
from bindery.jobs.sources.records import CORRUPT, Records
from bindery.jobs.sources.refused import Refusals, RefusedPart
from bindery.jobs.sources.storage import FileState, Storage
from bindery.router.error_text import visible
from bindery.router.errors import Refused
from bindery.store import effects
from bindery.store.places import Place, at, hadoop_address

#: What is done with the records of a frame, or with those that a reader finds in its place.
Action = Callable[[DataFrame, PlainFiles | None], list[Row]]

#: Where copies of files without their long lines lie while a batch is routed, in the stream's checkpoint.
_COPIES: Final = "shortened"
#: How Spark says that a file could not be read.
_READ_ERROR: Final = "FAILED_READ_FILE"
#: How Spark says that the header of a CSV file is not the schema.
_OTHER_HEADER: Final = re.compile(r"CSV header does not conform|[Nn]umber of columns? in CSV header")
#: Bytes of a file among which its header is shown, and characters of a header that are.
_HEADER_BYTES: Final = 64 * 1024
_HEADER_CHARS: Final = 300
_LOGGER: Final = logging.getLogger("bindery.jobs")
#: Spark's setting of how many records a batch of Arrow has at most.
ARROW_RECORDS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_PLACE: Final = "put a file right under a new name: write it elsewhere, and rename it into the folder when it is whole"


class Batch(Protocol):
    """One micro-batch, to be read."""

    #: The session whose settings hold for it.
    session: SparkSession
    #: How its records are numbered; None: by the task that reads them.
    numbers: OffsetNumbers | None

    def rows(self, action: Action, *, clock_ms: int) -> tuple[list[Row], Sequence[RefusedPart]]:
        """What an action gives on the mapped records, and what was left out.

        The action raises NotPlain where the reader that it was given cannot read them.

        `clock_ms` is the batch_time of expressions. The action may run several times; its last result counts.
        Raises Refused, naming the file, where the job is to stop at a file that cannot be read.
        """


class Intake(Protocol):
    """What a source gives to a streaming job."""

    @property
    def stream(self) -> DataFrame:
        """What the streaming query runs over."""

    def batch(self, frame: DataFrame, batch_id: int) -> Batch:
        """The batch behind the arguments of foreachBatch."""


def intake(
    spark: SparkSession,
    records: Records,
    projection: Projection,
    checkpoint: str,
    *,
    stop_at_unreadable: bool,
    plain: Plain | None = None,
) -> Intake:
    """The intake of a stream that keeps its checkpoint in that folder; `plain` files are read without Spark."""
    if records.files is None:
        # in a streaming query the current time is the time of the batch's plan, also when it is repeated
        stream = projection(records.frame, functions.current_timestamp())
        return _StreamIntake(stream, checkpoint if records.by_offset else None)
    return _FileIntake(spark, records.frame, checkpoint, projection, records.files, stop_at_unreadable, plain)


@dataclass(frozen=True, slots=True)
class _StreamIntake:
    """Spark reads, and the mapping is part of the query; `offsets` is the checkpoint that has those of a batch."""

    stream: DataFrame
    offsets: str | None

    def batch(self, frame: DataFrame, batch_id: int) -> Batch:
        numbers = None if self.offsets is None else OffsetNumbers.of(planned_ends(self.offsets, batch_id))
        return _StreamBatch(frame, frame.sparkSession, numbers)


@dataclass(slots=True)
class _StreamBatch:
    frame: DataFrame
    session: SparkSession
    numbers: OffsetNumbers | None

    def rows(self, action: Action, *, clock_ms: int) -> tuple[list[Row], Sequence[RefusedPart]]:
        return action(self.frame, None), ()


@dataclass(frozen=True, slots=True)
class _FileIntake:
    """Spark's stream finds the files; each batch is a query of its own in the job's session."""

    spark: SparkSession
    stream: DataFrame
    checkpoint: str
    projection: Projection
    format: FileFormat
    stop_at_unreadable: bool
    plain: Plain | None

    def batch(self, frame: DataFrame, batch_id: int) -> Batch:
        return _FileBatch(self, batch_id)


class _FileBatch:
    numbers: OffsetNumbers | None = None

    def __init__(self, intake: _FileIntake, batch_id: int) -> None:
        self.session = intake.spark
        self._intake = intake
        self._batch_id = batch_id
        self._storage = Storage(intake.spark, intake.format.options)

    def rows(self, action: Action, *, clock_ms: int) -> tuple[list[Row], Sequence[RefusedPart]]:
        self._planned = planned_files(self._intake.checkpoint, self._batch_id)
        self._refusals = Refusals(self._intake.checkpoint, self._batch_id)
        self._refusals.forget_older()
        self._leave_out(self._changed())
        shortened = _Shortened(self._storage, self._intake.format, at(self._intake.checkpoint, _COPIES))
        try:
            for file in self._files:
                self._leave_out(self._guarded(file, shortened.look))
            while True:
                try:
                    rows = self._run(action, shortened, clock_ms)
                except (PySparkException, Py4JError) as error:
                    damaged = self._changed()
                    if not damaged and _READ_ERROR in str(error):
                        damaged = self._damaged(self._files, shortened, clock_ms)
                    if not damaged:
                        raise
                else:
                    damaged = self._changed()
                    if not damaged:
                        lines = [part for part in shortened.parts if not self._refusals.holds(part.file)]
                        return rows, [*self._refusals.parts, *lines]
                self._leave_out(damaged)
        finally:
            shortened.remove()

    @property
    def _files(self) -> list[PlannedFile]:
        return [file for file in self._planned if not self._refusals.holds(file.place)]

    def _leave_out(self, found: Mapping[str, str]) -> None:
        """Go on without files, for the reasons given; or stop."""
        if not found:
            return
        if self._intake.stop_at_unreadable:
            place, reason = next(iter(found.items()))
            raise Refused(
                f"source file {place}: {reason}",
                where=place,
                hint=f"{_PLACE}; then start with source.unreadable_files: record, which goes on without this one",
            )
        self._refusals.add(RefusedPart(place, "invalid_record", reason) for place, reason in found.items())

    def _changed(self) -> dict[str, str]:
        """Files that are no longer what was planned, and how."""
        found: dict[str, str] = {}
        for file in self._files:
            found |= self._guarded(file, self._difference)
        return found

    def _difference(self, file: PlannedFile) -> str | None:
        state = self._storage.state(file.address)
        if state is None:
            return f"it was there when the batch was planned and is gone; {_PLACE}"
        if not state.is_of(file.modified_ms):
            then, now = (
                datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (file.modified_ms, state.modified_ms)
            )
            return f"it has changed since the batch was planned (modified {then}, now {now}); {_PLACE}"
        if not state.size and self._intake.format.name == "parquet":
            return "it is empty, which no Parquet file is"
        return None

    def _guarded(self, file: PlannedFile, look: Callable[[PlannedFile], str | None]) -> dict[str, str]:
        """What is wrong with a file, by its place; raises Refused when the storage and not the file is at fault."""
        try:
            reason = look(file)
        except (OSError, Py4JJavaError) as error:
            reason = self._damage(file, error)
        return {} if reason is None else {file.place: reason}

    def _damaged(self, files: Sequence[PlannedFile], shortened: _Shortened, clock_ms: int) -> dict[str, str]:
        """Files that cannot be read, found by halves, and what Spark says of each."""
        try:
            self._run(lambda frame, _: [frame._jdf.queryExecution().toRdd().count()], shortened, clock_ms, files)
        except (PySparkException, Py4JJavaError) as error:
            if _READ_ERROR not in str(error):
                raise
            if len(files) == 1:
                return {files[0].place: self._damage(files[0], error)}
            middle = len(files) // 2
            halves = (files[:middle], files[middle:])
            return {
                place: reason for half in halves for place, reason in self._damaged(half, shortened, clock_ms).items()
            }
        return {}

    def _damage(self, file: PlannedFile, error: Exception) -> str:
        """Why the content of a file cannot be read: its bytes can, or the storage is at fault and the job stops."""
        try:
            self._storage.check_bytes(file.address)
        except Py4JJavaError as fault:
            raise Refused(
                f"source file {file.place}: the storage does not give it: {innermost_reason(fault)}",
                where=file.place,
                hint="see to the storage or to the permissions, and start again; nothing of this batch is lost",
            ) from error
        if _OTHER_HEADER.search(innermost_reason(error)):
            return self._other_header(file)
        return f"the file cannot be read: {innermost_reason(error)}"

    def _other_header(self, file: PlannedFile) -> str:
        """Both headers of a CSV file: its own, and the one that the schema makes."""
        form = self._intake.format
        stated = {option.lower(): value for option, value in form.options.items()}
        with self._storage.content(file.address) as content:
            text = content.read(0, _HEADER_BYTES).decode(stated.get("encoding", "utf-8"), "replace").lstrip("\ufeff")
        own = next(filter(None, map(str.strip, text.splitlines())), "")
        wanted = form.quoting["separator"].join(name for name in form.schema.names if name != CORRUPT)
        return (
            f"its header is '{_header(own)}', and the columns of source.schema are '{_header(wanted)}'; "
            "name the columns of the schema in the order of the file"
        )

    def _run(
        self,
        action: Action,
        shortened: _Shortened,
        clock_ms: int,
        files: Sequence[PlannedFile] | None = None,
    ) -> list[Row]:
        chosen = self._files if files is None else files
        clock = functions.lit(datetime.fromtimestamp(clock_ms / 1000, UTC))
        frames = [
            self._intake.projection(frame, clock)
            for frame in (
                self._read([file.path for file in chosen if shortened.is_whole(file)]),
                self._read(shortened.copies_of(chosen), base=shortened.base),
            )
            if frame is not None
        ]
        if not frames:
            return []
        frame = shortened.with_true_places(reduce(DataFrame.unionAll, frames))
        plain = self._intake.plain if files is None else None
        found = None if plain is None else plain.reader(frame, int(str(self.session.conf.get(ARROW_RECORDS))))
        if plain is not None and found is not None:
            try:
                return action(*found)
            except NotPlain as reason:
                _LOGGER.info("Spark reads the files of this stream from here on: %s", reason)
                plain.end()
        return action(frame, None)

    def _read(self, paths: Sequence[str], *, base: str | None = None) -> DataFrame | None:
        return self._intake.format.frame(self.session, paths, base=base) if paths else None


class _Shortened:
    """Files with lines that are too long, as copies without them."""

    def __init__(self, storage: Storage, file_format: FileFormat, folder: Place) -> None:
        self.parts: list[RefusedPart] = []
        self._storage = storage
        self._format = file_format
        self._folder = folder
        self._copies: dict[str, str | None] = {}
        self.remove()

    def look(self, file: PlannedFile) -> str | None:
        """Copy a file if it has such lines; gives what makes it unreadable altogether."""
        limit = self._format.line_limit
        if limit is None:
            return None
        state = self._storage.state(file.address) or FileState(0, 0)
        if state.size <= limit and not self._storage.is_compressed(file.address):
            return None
        with self._storage.content(file.address) as content:
            if self._format.whole:
                if content.read(limit, 1):
                    self._copies[file.place] = None
                    self.parts.append(RefusedPart(file.place, "too_large", f"a file of over {limit} bytes", 0))
                return None
            lines = long_lines(content, limit, self._format.line_ends)
        if not lines:
            return None
        if self._format.header and not lines[0].offset:
            return f"its header is a line of {lines[0].size} bytes"
        self.parts += [
            RefusedPart(file.place, "too_large", f"a line of {line.size} bytes; the cap is {limit}", line.offset)
            for line in lines
        ]
        copy = self._folder / self._name(file)
        effects.make_folder(copy.parent)
        starts = [0, *(line.end for line in lines)]
        parts = zip(starts, [*(line.offset for line in lines), None], strict=True)
        self._storage.copy(file.address, hadoop_address(str(copy)), parts)
        self._copies[file.place] = _url(copy)
        return None

    @property
    def base(self) -> str:
        """The folder below which the copies lie as the files do below theirs."""
        return _url(self._folder)

    def is_whole(self, file: PlannedFile) -> bool:
        """Whether the file itself is to be read."""
        return file.place not in self._copies

    def copies_of(self, files: Sequence[PlannedFile]) -> list[str]:
        """The copies that are read instead of files."""
        return [copy for file in files if (copy := self._copies.get(file.place)) is not None]

    def with_true_places(self, frame: DataFrame) -> DataFrame:
        """Records say the file that they come from, not its copy."""
        copies = {place: copy for place, copy in self._copies.items() if copy is not None}
        if not copies or SOURCE_COLUMN not in frame.columns:
            return frame
        source = functions.col(SOURCE_COLUMN)
        true = stated = source["file"]
        for place, copy in copies.items():
            is_copy = stated == place_of(self._storage.address(copy))
            true = functions.when(is_copy, functions.lit(place)).otherwise(true)
        return frame.withColumn(SOURCE_COLUMN, source.withField("file", true))

    def _name(self, file: PlannedFile) -> str:
        """Where the copy lies below its folder; without the ending by which Spark would decompress it."""
        base = self._format.options.get("basePath", "")
        below = file.path.partition(base.rstrip("/") + "/")[2] if base else ""
        name = file.path.rpartition("/")[2]
        return f"{below or f'{len(self._copies)}/{name}'}.text"

    def remove(self) -> None:
        """Remove the copies, those of an attempt that was broken off, too."""
        if self._folder.exists():
            effects.remove_folder(self._folder)


def _header(text: str) -> str:
    return visible(text if len(text) <= _HEADER_CHARS else text[:_HEADER_CHARS] + "…")


def _url(place: Place) -> str:
    """The URL by which Spark knows a place."""
    return hadoop_address(str(place)) if place.is_remote else f"file://{place}"


def innermost_reason(error: Exception) -> str:
    """The first line of what the innermost cause of a JVM's error says."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if cause is None:
        return str(error).partition("\n")[0]
    while cause.getCause() is not None:
        cause = cause.getCause()
    text = str(cause.getMessage() or "").strip().partition("\n")[0]
    return re.sub(r"\s+", " ", f"{cause.getClass().getSimpleName()}: {text}")[:500]
