"""A consumer's filter over batches in the workers: for bridges and for queues read as DataFrames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindery.router.columns import BatchView
from bindery.router.filters import Filter, FilterGroups


@dataclass(frozen=True, slots=True)
class Consumer:
    """Which messages a filter accepts; picklable. `clock_ms` is what UTC() gives."""

    groups: FilterGroups

    @classmethod
    def of(cls, condition: Filter | None) -> Consumer | None:
        """The consumer behind a filter; None accepts everything."""
        return None if condition is None else cls(FilterGroups([[condition]]))

    def accepted(self, batch: pa.RecordBatch, *, clock_ms: int) -> npt.NDArray[np.int64]:
        """Rows of a batch (MESSAGE_SCHEMA and possibly more) that the filter accepts, ascending."""
        return self.judged(batch, clock_ms=clock_ms)[0]

    def judged(self, batch: pa.RecordBatch, *, clock_ms: int) -> tuple[npt.NDArray[np.int64], dict[int, str]]:
        """The rows that the filter accepts, and those that a defect kept it from judging, each with the defect."""
        rows = np.arange(batch.num_rows, dtype=np.int64)
        if not len(rows):
            return rows, {}
        chosen = self.groups.select(BatchView(batch, clock_ms=clock_ms), rows, np.zeros(len(rows), np.int32))
        failed = dict(zip(chosen.failed_pair.tolist(), chosen.failed_error, strict=True))
        return np.unique(rows[chosen.pair]), failed
