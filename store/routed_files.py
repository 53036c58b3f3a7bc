"""Files of queue and unroutable tables, grouped so that all copies of a message are in one group.

What one task of one batch wrote, it wrote under one stream and batch and numbered from its own range
(`store.writer`), and the statistics of each file say so. Files that were rewritten since (a message was
consumed, a table compacted) are looked into. A file that holds rows of several parts joins them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from store import tables
from store.paths import DataDir
from store.writer import NUMBERS_PER_TASK, stream_mark

_WORKERS: Final = 8

#: (mark of the stream, batch, partition): what one task wrote.
Part = tuple[str, int, int]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RoutedFile:
    """One file: its full path, the queue (None: unroutable), its rows."""

    path: str
    queue: str | None
    rows: int


@dataclass(frozen=True, slots=True)
class _Found:
    file: RoutedFile
    parts: frozenset[Part]


def file_groups(
    data: DataDir,
    vhost: str,
    queues: Iterable[str],
    *,
    stream: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[list[RoutedFile]]:
    """Groups of files of the vhost that may hold rows of a stream routed in a span of time.

    Copies of one message never stand in two groups. The files of a group come largest first, those of
    the unroutable table before all others.
    """
    names: list[str | None] = [None, *queues]
    with ThreadPoolExecutor(_WORKERS, "files") as pool:
        listed = pool.map(lambda name: list(_files(data, vhost, name, stream, since, until)), names)
        found = [one for files in listed for one in files]
    return _grouped(found)


def _files(
    data: DataDir, vhost: str, queue: str | None, stream: str | None, since: datetime | None, until: datetime | None
) -> Iterator[_Found]:
    path = data.unroutable(vhost) if queue is None else data.queue(vhost, queue)
    if not tables.exists(path):
        return
    kind = tables.UNROUTABLE if queue is None else tables.QUEUE
    table = tables.open_table(path, kind, vhost=vhost, name=queue)
    wanted = None if stream is None else stream_mark(stream)
    for row in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        low, high = row.get("min.routed_at"), row.get("max.routed_at")
        if low is not None and ((until is not None and low >= until) or (since is not None and high < since)):
            continue
        parts = _stated_parts(row) or _parts_inside(Path(path, row["path"]))
        if any(wanted in (None, mark) for mark, _, _ in parts):
            yield _Found(RoutedFile(str(Path(path, row["path"])), queue, row["num_records"] or 0), parts)


def _stated_parts(row: dict[str, Any]) -> frozenset[Part] | None:
    """What the name and the statistics of a file as it was written say; None when they do not."""
    name = str(row["path"]).split("-")
    batch, low, high = (row.get(f"{name}") for name in ("min.routing.batch_id", "min.routing.seq", "max.routing.seq"))
    if batch is None or low is None or high is None or batch != row.get("max.routing.batch_id"):
        return None
    if (
        len(name) < 4
        or name[0] != "part"
        or name[2] != str(batch)
        or low // NUMBERS_PER_TASK != high // NUMBERS_PER_TASK
    ):
        return None
    return frozenset({(name[1], batch, low // NUMBERS_PER_TASK)})


def _parts_inside(path: Path) -> frozenset[Part]:
    with pq.ParquetFile(path) as file:
        columns = ["routing.stream", "routing.batch_id", "routing.seq"]
        routing = file.read(columns=columns)["routing"].combine_chunks()
    stream, batch, seq = (pc.struct_field(routing, name) for name in ("stream", "batch_id", "seq"))
    partition = pa.array(seq.to_numpy() // NUMBERS_PER_TASK)
    rows = pa.table({"stream": stream.cast(pa.string()), "batch": batch, "partition": partition})
    distinct = rows.group_by(["stream", "batch", "partition"]).aggregate([]).to_pylist()
    return frozenset((stream_mark(row["stream"]), row["batch"], row["partition"]) for row in distinct)


def _grouped(found: list[_Found]) -> list[list[RoutedFile]]:
    """Files joined by common parts (union-find over parts)."""
    leader: dict[Part, Part] = {}

    def head(part: Part) -> Part:
        while leader.setdefault(part, part) != part:
            leader[part] = leader[leader[part]]
            part = leader[part]
        return part

    for one in found:
        first, *others = sorted(one.parts)
        for other in others:
            leader[head(other)] = head(first)
    groups: dict[Part, list[RoutedFile]] = defaultdict(list)
    for one in found:
        groups[head(min(one.parts))].append(one.file)
    return [
        sorted(files, key=lambda file: (file.queue is not None, -file.rows, file.path))
        for _, files in sorted(groups.items())
    ]


def group_text(group: list[RoutedFile]) -> str:
    """A group as JSON text, to travel to a task."""
    return json.dumps([[file.path, file.queue, file.rows] for file in group])


def group_of(text: str) -> list[RoutedFile]:
    """The group behind `group_text`."""
    return [RoutedFile(*fields) for fields in json.loads(text)]


def identities_of(path: str) -> tuple[list[str], Numbers]:
    """The rows of a file: the streams that occur, and per row the place of its stream, its batch and its number."""
    with pq.ParquetFile(path) as file:
        columns = ["routing.stream", "routing.batch_id", "routing.seq"]
        routing = file.read(columns=columns)["routing"].combine_chunks()
    stream = pc.struct_field(routing, "stream").cast(pa.string()).dictionary_encode()
    batch, seq = (pc.struct_field(routing, name).to_numpy() for name in ("batch_id", "seq"))
    return stream.dictionary.to_pylist(), np.stack([stream.indices.to_numpy().astype(np.int64), batch, seq], axis=1)
