"""What decides how Spark splits the files of a batch among tasks, and so how messages are numbered.

Spark cuts files at a size that it derives from these settings, the number of cores and the bytes of the
whole batch, and packs the pieces largest first, equal ones in the order in which the source lists them
(`FilePartition` of Spark 4.2). Every file source does, Delta tables included. A replay must find
the same pieces in the same order: the settings are pinned with the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

_MIN_PARTITIONS: Final = "spark.sql.files.minPartitionNum"
_MAX_PARTITIONS: Final = "spark.sql.files.maxPartitionNum"
_SIZES: Final = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
_LEAF: Final = "spark.sql.leafNodeDefaultParallelism"
#: Pieces are at most about twice as many as asked for; numbers of messages then stay below 2^52
#: (store.writer.NUMBERS_PER_TASK for each piece).
MOST_PARTITIONS: Final = 2_048


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

    def use_own(self) -> None:
        """Split the next batch by the session's settings and the cores that there are now."""
        own = dict(self._sizes)
        fewest = self._before[_MIN_PARTITIONS] or self._session.conf.get(_LEAF, None)
        own[_MIN_PARTITIONS] = fewest or str(self._session.sparkContext.defaultParallelism)
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
