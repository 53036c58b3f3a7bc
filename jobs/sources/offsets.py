"""How messages of a stream with offsets are numbered: by where they stand, however Spark cuts a batch into tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import Refused

#: Numbers of a batch stay below it (docs/storage.md, "Row identity").
_NUMBERS: Final = 2**52


@dataclass(frozen=True, slots=True)
class OffsetNumbers:
    """The numbers of a batch; `ranges` has, by topic and partition, where its range of numbers and its offsets end.

    Each partition has a range of its own, in the order of topics and partitions, and its last record the last number
    of that: where a batch ends in each partition stands in Spark's plan of it, where it begins need not.
    """

    ranges: Mapping[tuple[str, int], tuple[int, int]]
    width: int

    @property
    def end(self) -> int:
        """The sum of the offsets where the batch ends, which grows by what each batch has."""
        return sum(end for _, end in self.ranges.values())

    @classmethod
    def of(cls, ends: Mapping[str, Mapping[int, int]]) -> OffsetNumbers:
        """The numbers of the batch that ends before those offsets, by topic and partition."""
        places = sorted((topic, partition) for topic, partitions in ends.items() for partition in partitions)
        # a power of two, so that those of a partition lie in one of the ranges that tasks have with other sources
        width = 1 << (_NUMBERS // max(1, len(places))).bit_length() - 1
        ranges = {
            (topic, partition): ((place + 1) * width, ends[topic][partition])
            for place, (topic, partition) in enumerate(places)
        }
        return cls(ranges, width)

    def __call__(self, source: pa.StructArray) -> pa.Array:
        """The numbers of records, by the place that each comes from; raises Refused for a range that is too small."""
        names = pc.struct_field(source, "topic").dictionary_encode()
        topics = names.dictionary.to_pylist()
        offsets = pc.struct_field(source, "offset").to_numpy()
        places = np.stack([names.indices.to_numpy(), pc.struct_field(source, "partition").to_numpy()], axis=1)
        found, rows = np.unique(places, axis=0, return_inverse=True)
        ranges = np.array([self.ranges[topics[topic], partition] for topic, partition in found.tolist()], np.int64)
        ranges = ranges.reshape(-1, 2)  # without records, too
        above, end = ranges[rows.reshape(-1)].T
        if (end - offsets > self.width).any():
            raise Refused(
                f"a batch has more than {self.width} offsets of one partition",
                hint="set source.max_offsets_per_trigger",
            )
        return pa.array(above - (end - offsets))
