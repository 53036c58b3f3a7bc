"""What decides how Spark splits the files of a batch among tasks, and so how messages are numbered.

Spark cuts files at a size that it derives from these settings, the number of cores and the bytes of the
whole batch, and packs the pieces largest first, equal ones in the order in which the source lists them
(`FilePartition` of Spark 4.2). Every file source does, Delta tables included. A replay must find
the same pieces in the same order: the settings are pinned with the batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import SparkSession

from bindery.store.commit import WrittenFile

_MIN_PARTITIONS: Final = "spark.sql.files.minPartitionNum"
_MAX_PARTITIONS: Final = "spark.sql.files.maxPartitionNum"
_SIZES: Final = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
_LEAF: Final = "spark.sql.leafNodeDefaultParallelism"
#: Pieces are at most about twice as many as asked for; numbers of messages then stay below 2^52
#: (store.writer.NUMBERS_PER_TASK for each piece).
MOST_PARTITIONS: Final = 2_048
#: What a file should have, one of the two, so far as fewer tasks give it that: to begin a file costs more than to
#: fill it so far (docs/storage.md).
FILE_ROWS: Final = 400
FILE_BYTES: Final = 64 * 1024
#: Records that are not left to one task, however small its files are.
TASK_RECORDS: Final = 20_000
#: What a file of a queue has of schema and statistics, about, whatever its rows are.
EMPTY_BYTES: Final = 8 * 1024


def enough_tasks(records: int, files: Sequence[WrittenFile]) -> int:
    """How many tasks would have written these files as large as they should be, out of so many records; 1 at least.

    Each task writes a file for each table that its records go to. Another number of tasks gives about the same answer.
    """
    tables = max(1, len({(file.kind, file.vhost, file.name) for file in files}))
    rows = sum(file.rows for file in files)
    size = sum(max(0, file.size - EMPTY_BYTES) for file in files)
    return max(1, rows // (tables * FILE_ROWS), size // (tables * FILE_BYTES), records // TASK_RECORDS)


class Joined:
    """How many tasks a batch of a source with offsets is put together in, whose messages keep their numbers.

    As many records go to a task as went to each that the batch before needed; so a batch that is ten times as large
    has ten times the tasks.
    """

    def __init__(self) -> None:
        self._records: float | None = None
        self._end: int | None = None

    def learn(self, records: int, enough: int) -> None:
        """A batch of so many records needed so many tasks."""
        if records:
            self._records = records / enough

    def tasks(self, end: int) -> int | None:
        """For the batch whose offsets end at that sum; None for as many as there are."""
        before, self._end = self._end, end
        if self._records is None or before is None or end < before:
            return None
        return max(1, math.ceil((end - before) / self._records))


class Splits:
    """The settings under which the next batch is split: those of its pin, or else the session's own.

    Spark splits a batch before it hands it over, by the settings of the session in which the source was
    opened. So they are set before a query starts and between two batches; `in_force` is what the batch
    that is there was split by.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._before = {name: session.conf.get(name, None) for name in (*_SIZES, _MIN_PARTITIONS, _MAX_PARTITIONS)}
        self._sizes = {name: str(session.conf.get(name)) for name in _SIZES}
        self.in_force: Mapping[str, str] = {}
        self.use_own()

    def use(self, settings: Mapping[str, str]) -> None:
        """Split the next batch as one was that was begun before."""
        for name, value in settings.items():
            if name in self._before and self.in_force.get(name) != value:
                self._session.conf.set(name, value)
        self.in_force = dict(settings)

    def use_own(self, *, enough: int | None = None) -> None:
        """Split the next batch by the session's settings, or for the cores there are now, `enough` at most."""
        own = dict(self._sizes)
        fewest = self._before[_MIN_PARTITIONS] or self._session.conf.get(_LEAF, None)
        cores = self._session.sparkContext.defaultParallelism
        own[_MIN_PARTITIONS] = fewest or str(cores if enough is None else min(cores, enough))
        most = min(int(self._before[_MAX_PARTITIONS] or MOST_PARTITIONS), MOST_PARTITIONS)
        own[_MAX_PARTITIONS] = str(most)
        self.use(own)

    def close(self) -> None:
        """Give the session its own settings back."""
        for name, value in self._before.items():
            if value is None:
                self._session.conf.unset(name)
            else:
                self._session.conf.set(name, value)
