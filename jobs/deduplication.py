"""Repeats of messages, found in the batches of a stream (docs/jobs.md, "Messages that come twice").

A batch that is deduplicated is read twice. At first tasks give the key of each message and where it stood; the driver
knows what came before, and says which messages repeat one. Then they are routed without those. So nothing is shuffled,
messages keep their numbers, and what is judged does not depend on how Spark has cut the batch into tasks.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame

from bindery.jobs.control.config import JobFile
from bindery.jobs.control.dedup import DedupOptions
from bindery.jobs.fold import BLOCK, SOURCE_COLUMN, Fold
from bindery.jobs.message_keys import MessageKeys
from bindery.jobs.repeats import Repeats
from bindery.jobs.shipping import results, shipped
from bindery.jobs.sources.offsets import OffsetNumbers
from bindery.jobs.sources.records import Records
from bindery.jobs.task import RESULT_SCHEMA, Folding, Numbering, grouped
from bindery.store.commit import WrittenFile
from bindery.store.deduplication import SeenTable
from bindery.store.paths import DataDir
from bindery.store.seen_keys import Keys
from bindery.store.writer import BatchStamp

_INT: Final = "<i8"


def with_blocks(records: Records) -> Records:
    """Records that also say in which part of their file they stand: what tells their order however files are cut."""
    if records.files is None:
        return records
    return replace(records, place={**records.place, BLOCK: "_metadata.file_block_start"})


def check_key(file: JobFile, fold: Fold) -> None:
    """Raise InvalidInput, naming the line, for a key that no message of the job can have."""
    options = file.job.dedup
    if options is None or fold.text:
        return
    filled = {(mapped.column, name) for mapped in (*fold.columns, *fold.overrides) for name in (mapped.name, "")}
    whole = {mapped.column for mapped in (*fold.columns, *fold.overrides) if not mapped.name}
    for path, (column, name) in zip(options.key, options.fields, strict=True):
        if (column, name) not in filled and column not in whole:
            raise file.error(
                ("dedup", "key"),
                f"no message of this job has {path}, and one without its key is never a duplicate",
                hint=f"fill it under `message`, or name another field than {path}",
            )


@dataclass(frozen=True, slots=True)
class KeyTask:
    """The function of `mapInArrow`: folds the records of a partition, and gives one row with the keys of its messages.

    `numbers` as those of `bindery.jobs.task.RouteTask`, which the same records get when they are routed.
    """

    fold: Folding
    keys: MessageKeys
    clock_ms: int
    numbers: OffsetNumbers | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The keys of a partition; gives one row."""
        context = TaskContext.get()
        found = self.of_partition(batches, partition=0 if context is None else context.partitionId())
        yield pa.RecordBatch.from_pydict({"result": [json.dumps(found)]})

    def of_partition(self, batches: Iterator[pa.RecordBatch], *, partition: int = 0) -> dict[str, Any]:
        """The keys of a partition, by file and block where records stand in files, as plain data; and the seconds."""
        numbering = Numbering(partition, self.numbers)
        parts: list[dict[str, Any]] = []
        started = time.perf_counter()
        for batch in grouped(batches):
            seq = numbering(batch)
            messages, _ = self.fold(batch, seq, clock_ms=self.clock_ms)
            keys, _ = self.keys(messages)
            parts += _parts(batch, seq, keys)
        return {"parts": parts, "seconds": time.perf_counter() - started}


def _parts(batch: pa.RecordBatch, seq: pa.Array, keys: Keys) -> Iterator[dict[str, Any]]:
    """Keys of a group of records, apart for each file and block."""
    source = batch.column(SOURCE_COLUMN) if SOURCE_COLUMN in batch.schema.names else None
    if source is None or source.type.get_field_index(BLOCK) < 0:
        yield _part(None, 0, keys)
        return
    rows = np.searchsorted(seq.to_numpy(), keys.seq)  # records of files are numbered as they come
    files = pc.struct_field(source, "file").dictionary_encode()
    blocks = pc.fill_null(pc.struct_field(source, BLOCK), 0).to_numpy(zero_copy_only=False)
    places = np.stack([files.indices.to_numpy(zero_copy_only=False).astype(np.int64), blocks], axis=1)[rows]
    names = files.dictionary.to_pylist()
    found, of = np.unique(places, axis=0, return_inverse=True)
    for number, (file, block) in enumerate(found.tolist()):
        yield _part(names[file], block, keys.take(of.reshape(-1) == number))


def _part(file: str | None, block: int, keys: Keys) -> dict[str, Any]:
    packed = np.stack([keys.high, keys.low, keys.seq]).astype(_INT)
    return {"file": file, "block": block, "keys": base64.b64encode(packed.tobytes()).decode()}


def in_order(parts: Iterable[Mapping[str, Any]]) -> Keys:
    """The keys of all tasks in the order in which their messages arrived, however they were cut into tasks.

    That is by file (its path), block of the file, and number; where records stand in no files, by number alone.
    """
    places = sorted(parts, key=lambda part: (part["file"] or "", part["block"]))
    ranks: dict[tuple[str, int], int] = {}
    rank, packed = [], [np.zeros((3, 0), np.int64)]
    for part in places:
        packed.append(np.frombuffer(base64.b64decode(part["keys"]), _INT).reshape(3, -1))
        place = ranks.setdefault((part["file"] or "", part["block"]), len(ranks))
        rank.append(np.full(packed[-1].shape[1], place))
    high, low, seq = np.concatenate(packed, axis=1)
    order = np.lexsort((seq, np.concatenate([np.zeros(0, np.int64), *rank])))
    return Keys(high[order], low[order], seq[order])


class Deduplication:
    """Finds what repeats a message in the batches of one run of a stream."""

    def __init__(self, data: DataDir, stream: str, vhost: str) -> None:
        self._seen = SeenTable(data, stream, vhost)

    def repeats(
        self, options: DedupOptions, stamp: BatchStamp, frame: DataFrame, fold: Fold, numbers: OffsetNumbers | None
    ) -> tuple[Repeats, float]:
        """What repeats a message in a batch that is to be routed, and the seconds that tasks spent on finding it.

        Raises OtherCode; UnsupportedTable for a table that cannot be read.
        """
        task = KeyTask(fold, MessageKeys(options.fields), stamp.clock_ms, numbers)
        found = list(results(frame.mapInArrow(shipped(task), RESULT_SCHEMA).collect()))
        arrived = in_order(part for result in found for part in result["parts"])
        verdict = self._seen.judge(stamp, options.window * 1000, arrived)
        return Repeats(verdict, stamp.stream, options.keep), sum(result["seconds"] for result in found)

    def write(self, stamp: BatchStamp) -> Sequence[WrittenFile]:
        """Write what the batch that was judged last had first, uncommitted."""
        return self._seen.write(stamp)

    def committed(self, stamp: BatchStamp) -> None:
        """The batch that was judged last has ended."""
        self._seen.committed(stamp)
