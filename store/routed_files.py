"""Files of queue and unroutable tables and of journals, grouped so that all copies of a message are in one group.

What one task of one batch wrote, it wrote under one stream and batch and numbered from its own range
(`bindery.store.writer`), and the statistics of each file say so. Files that were rewritten since (compacted, or a
message was consumed) are looked into: they hold rows of many batches. The batches that such files hold are
cut, stream by stream, into slices of about `SLICE_ROWS` rows, and a file is part of every slice that it has
rows of, with those rows alone. So a group stays small however large the files have become.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bindery.store import tables
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.writer import NUMBERS_PER_TASK, stream_mark

_WORKERS: Final = 8

#: (mark of the stream, batch, partition): what one task wrote.
Part = tuple[str, int, int]
Numbers = npt.NDArray[np.int64]


Mask = npt.NDArray[np.bool_]

#: Rows of one slice of batches, over all files, unless a single batch has more.
SLICE_ROWS: Final = 1 << 21


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of one stream (by its mark) from one batch to another, both included."""

    mark: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class RoutedFile:
    """One file: its full path, the queue (None: none), its rows, and which of them are meant (None: all).

    A file of no queue is one of the unroutable table, or, with `journal`, of a journal.
    """

    path: str
    queue: str | None
    rows: int
    slice: Slice | None = None
    journal: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """A file with what it states, or, looked into, with the batches of each stream and their rows."""

    file: RoutedFile
    part: Part | None
    batches: Mapping[str, tuple[Numbers, Numbers]]


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

    Copies of one message never stand in two groups. The files of a group come largest first, those of journals before
    those of the unroutable table, and these before all others: the ones that come first know more of a message.
    """
    journals = data.journals() if stream is None else [data.journal(stream)]
    places: list[tuple[tables.Kind, str, str | None]] = [
        *((tables.JOURNAL, path, None) for path in journals),
        (tables.UNROUTABLE, data.unroutable(vhost), None),
        *((tables.QUEUE, data.queue(vhost, name), name) for name in queues),
    ]
    with ThreadPoolExecutor(_WORKERS, "files") as pool:
        listed = pool.map(lambda place: list(_files(vhost, place, stream, since, until)), places)
        found = [one for files in listed for one in files]
    return _grouped(found)


def _files(
    vhost: str,
    place: tuple[tables.Kind, str, str | None],
    stream: str | None,
    since: datetime | None,
    until: datetime | None,
) -> Iterator[_Found]:
    kind, path, queue = place
    if not tables.exists(path):
        return
    wanted = None if stream is None else stream_mark(stream)
    log = tables.open_log(path, kind, vhost=None if kind is tables.JOURNAL else vhost, name=queue, files=True)
    if log.state.configuration.get("bindery.vhost") != vhost:
        return  # a stream's journal is of the vhost that it routes
    for name, added in tables.files_of(log).items():
        low, high = _bounds(added.stats)
        if _is_outside(low.get("routed_at"), high.get("routed_at"), since, until):
            continue
        file = RoutedFile(f"{path}/{name}", queue, added.rows or 0, journal=kind is tables.JOURNAL)
        part = _stated_part(name, low.get("routing") or {}, high.get("routing") or {})
        inside = {} if part is not None else _batches_inside(file.path, wanted)
        if inside or (part is not None and wanted in (None, part[0])):
            yield _Found(file, part, inside)


def _bounds(stats: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The least and greatest values that a file states."""
    try:
        stated = json.loads(stats or "{}")
        return dict(stated.get("minValues") or {}), dict(stated.get("maxValues") or {})
    except ValueError:
        return {}, {}


def _is_outside(low: str | None, high: str | None, since: datetime | None, until: datetime | None) -> bool:
    """Whether a file certainly holds nothing of a span; statistics are exact to the millisecond."""
    if low is None or high is None:
        return False
    above = datetime.fromisoformat(high) + timedelta(milliseconds=1)
    return (until is not None and datetime.fromisoformat(low) >= until) or (since is not None and above <= since)


def _stated_part(path: str, low: Mapping[str, Any], high: Mapping[str, Any]) -> Part | None:
    """What the name and the statistics of a file as it was written say; None when they do not."""
    name = path.split("-")
    batch, first, last = low.get("batch_id"), low.get("seq"), high.get("seq")
    if batch is None or first is None or last is None or batch != high.get("batch_id"):
        return None
    if (
        len(name) < 4
        or name[0] != "part"
        or name[2] != str(batch)
        or first // NUMBERS_PER_TASK != last // NUMBERS_PER_TASK
    ):
        return None
    return name[1], batch, first // NUMBERS_PER_TASK


def _batches_inside(path: str, wanted: str | None) -> dict[str, tuple[Numbers, Numbers]]:
    """By the mark of each stream, or of the one that is wanted: the batches of a file, ascending, and their rows."""
    with at(path).parquet(read_dictionary=["routing.stream"]) as file:
        routing = file.read(columns=["routing.stream", "routing.batch_id"])["routing"].combine_chunks()
    counted = (
        pa.table({"stream": pc.struct_field(routing, "stream"), "batch": pc.struct_field(routing, "batch_id")})
        .group_by(["stream", "batch"])
        .aggregate([([], "count_all")])
        .sort_by("batch")
    )
    streams = counted["stream"].cast(pa.string())
    found = {}
    for stream in pc.unique(streams).to_pylist():
        mark = stream_mark(stream)
        if wanted in (None, mark):
            of_stream = counted.filter(pc.equal(streams, stream))
            found[mark] = (of_stream["batch"].to_numpy(), of_stream["count_all"].to_numpy())
    return found


def _grouped(found: list[_Found]) -> list[list[RoutedFile]]:
    """Groups by slice for the batches that some file was looked into for, by part for all others."""
    counted: dict[str, list[tuple[Numbers, Numbers]]] = defaultdict(list)
    for one in found:
        for mark, held in one.batches.items():
            counted[mark].append(held)
    slices = {mark: _Slices(mark, of_files) for mark, of_files in counted.items()}
    groups: dict[Part, list[RoutedFile]] = defaultdict(list)
    for one in found:
        if one.part is not None:
            mark, batch, _ = one.part
            cut = slices[mark].of(batch) if mark in slices else None
            groups[one.part if cut is None else (mark, cut.first, -1)].append(one.file)
        for mark, (batches, _) in one.batches.items():
            for cut in slices[mark].over(batches):
                groups[mark, cut.first, -1].append(replace(one.file, slice=cut))
    return [
        sorted(files, key=lambda file: (not file.journal, file.queue is not None, -file.rows, file.path))
        for _, files in sorted(groups.items())
    ]


class _Slices:
    """The batches of one stream that rewritten files hold, cut where `SLICE_ROWS` are reached."""

    def __init__(self, mark: str, counted: list[tuple[Numbers, Numbers]]) -> None:
        self._batches, places = np.unique(np.concatenate([batches for batches, _ in counted]), return_inverse=True)
        rows = np.bincount(places, weights=np.concatenate([rows for _, rows in counted]))
        # a slice ends before the batch with which it would have too many rows
        first, held = 0, 0.0
        starts = [0]
        for place, number in enumerate(rows.tolist()):
            if place > first and held + number > SLICE_ROWS:
                starts.append(place)
                first, held = place, 0.0
            held += number
        lasts = [*(start - 1 for start in starts[1:]), len(rows) - 1]
        self._slices = [
            Slice(mark, int(self._batches[start]), int(self._batches[last]))
            for start, last in zip(starts, lasts, strict=True)
        ]
        self._firsts = np.array([one.first for one in self._slices])

    def of(self, batch: int) -> Slice | None:
        """The slice of a batch; None when no rewritten file has rows of it."""
        place = int(np.searchsorted(self._batches, batch))
        if place == len(self._batches) or self._batches[place] != batch:
            return None
        return self._slices[int(np.searchsorted(self._firsts, batch, side="right")) - 1]

    def over(self, batches: Numbers) -> list[Slice]:
        """The slices that those batches lie in."""
        places = np.unique(np.searchsorted(self._firsts, batches, side="right") - 1)
        return [self._slices[place] for place in places.tolist()]


def group_text(group: list[RoutedFile]) -> str:
    """A group as JSON text, to travel to a task."""
    return json.dumps([astuple(file) for file in group])


def group_of(text: str) -> list[RoutedFile]:
    """The group behind `group_text`."""
    return [
        RoutedFile(path, queue, rows, None if cut is None else Slice(*cut), journal)
        for path, queue, rows, cut, journal in json.loads(text)
    ]


@dataclass(frozen=True, slots=True)
class Identities:
    """Rows of a file: those of some of its row groups, in their order.

    `streams` are those that occur; `numbers` has per row the place of its stream, its batch and its number;
    `meant` tells which rows lie in the slice.
    """

    row_groups: list[int]
    streams: list[str]
    numbers: Numbers
    meant: Mask


def identities_of(file: RoutedFile) -> Identities:
    """The identities of a file's rows; row groups that have no batch of its slice are left out."""
    with at(file.path).parquet() as opened:
        chosen = _row_groups(opened, file.slice)
        columns = ["routing.stream", "routing.batch_id", "routing.seq"]
        routing = opened.read_row_groups(chosen, columns=columns)["routing"].combine_chunks()
    stream = pc.struct_field(routing, "stream").cast(pa.string()).dictionary_encode()
    batch, seq = (pc.struct_field(routing, name).to_numpy() for name in ("batch_id", "seq"))
    streams = stream.dictionary.to_pylist()
    numbers = np.stack([stream.indices.to_numpy().astype(np.int64), batch, seq], axis=1)
    meant = np.ones(len(numbers), np.bool_)
    if file.slice is not None:
        of_stream = np.array([stream_mark(name) == file.slice.mark for name in streams], np.bool_)
        meant = of_stream[numbers[:, 0]] & (numbers[:, 1] >= file.slice.first) & (numbers[:, 1] <= file.slice.last)
    return Identities(chosen, streams, numbers, meant)


def _row_groups(file: pq.ParquetFile, wanted: Slice | None) -> list[int]:
    """The row groups that may have batches of a slice, by their statistics."""
    everything = list(range(file.num_row_groups))
    if wanted is None:
        return everything
    paths = [file.metadata.schema.column(number).path for number in range(file.metadata.num_columns)]
    column = paths.index("routing.batch_id")
    found = []
    for number in everything:
        bounds = file.metadata.row_group(number).column(column).statistics
        if bounds is None or not bounds.has_min_max or (bounds.min <= wanted.last and bounds.max >= wanted.first):
            found.append(number)
    return found


def batches_of(file: RoutedFile, row_groups: Sequence[int], schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups in their order, `rows` at once; columns that the file does not have are null."""
    with at(file.path).fragment() as whole:
        # a fragment that is made of some row groups has them in any order
        fragment = whole.subset(row_group_ids=list(row_groups))
        yield from fragment.to_batches(schema=schema, batch_size=rows, use_threads=False)
