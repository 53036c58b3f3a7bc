"""Replay of the newest messages in this process, in seconds; `bindery.jobs.replay` reads all history."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from bindery.jobs.comparison import Comparison
from bindery.jobs.replayer import Replayer, Span
from bindery.router.engine import Router
from bindery.router.errors import Stopped
from bindery.router.model import Topology
from bindery.store.manifest import newest_batches, read_manifest
from bindery.store.paths import DataDir
from bindery.store.routed_files import RoutedFile, Slice, file_groups
from bindery.store.stream_names import OF_PLANS
from bindery.store.topology import TopologyStore
from bindery.store.writer import stream_mark

#: Batches that are looked at, and batches of other vhosts or streams that are passed in search of them.
BATCHES: Final = 200
PASSED: Final = 2_000
#: Seconds after which what was compared is the answer.
SECONDS: Final = 20.0
_COLUMNS: Final = ("stream", "batch_id", "clock", "records", "tables")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages are compared: of one stream (None: of all), of its batches from `first` to `last`, where stated.

    The newest `messages` of them, by the order of their batches; with what the topology of their time did with them,
    or, with `present`, with what the newest one would do.
    """

    messages: int
    stream: str | None = None
    first: int | None = None
    last: int | None = None
    present: bool = False

    def holds(self, batch: Mapping[str, Any]) -> bool:
        """Whether a batch is one of those."""
        name, number = batch["stream"], batch["batch_id"]
        if self.stream is None:
            return not name.startswith(OF_PLANS)
        above = self.first is None or number >= self.first
        return name == self.stream and above and (self.last is None or number <= self.last)


@dataclass(slots=True)
class Looked:
    """What was compared: the counts, and where the messages come from.

    first, last   when the oldest and the newest of the batches were routed; None where there is none
    unread        queues that hold messages of these batches and were not looked into
    cut           why there may be more: messages (there are enough), time, batches (there are too many); None: all
    """

    comparison: Comparison = field(default_factory=Comparison)
    batches: int = 0
    streams: list[str] = field(default_factory=list)
    first: datetime | None = None
    last: datetime | None = None
    unread: int = 0
    cut: Literal["messages", "time", "batches"] | None = None


class _TimeUpError(Exception):
    pass


def replay_newest(
    data: DataDir,
    store: TopologyStore,
    proposed: Topology,
    vhost: str,
    wanted: Wanted,
    *,
    may_read: Callable[[str], bool],
    gone: Callable[[], bool] = lambda: False,
    seconds: float = SECONDS,
) -> Looked:
    """Compare the newest messages on record with what the proposed topology would have done with them.

    Of queues and, for unroutable messages, exchanges that `may_read` refuses no row is read. Raises Stopped when `gone`
    says so, NotFound for a vhost that the proposed topology does not have.
    """
    present = store.load()
    until = time.monotonic() + seconds

    def go_on() -> None:
        if gone():
            raise Stopped("nobody waits for the comparison any more", where="replay")
        if time.monotonic() > until:
            raise _TimeUpError

    looked = Looked()
    chosen = _chosen(data, vhost, wanted, looked)
    if not chosen:
        return looked
    router = Router.compile(proposed, vhost)
    before = present if wanted.present else None
    replayer = Replayer(
        store, vhost, router, Span(wanted.stream), present=before, may_see=may_read, before_routing=go_on
    )
    held = {table["name"] for batch in chosen for table in _tables(batch, vhost) if table["kind"] == "queue"}
    queues = sorted(name for name in held if (vhost, name) in present.queues)
    readable = [name for name in queues if may_read(name)]
    looked.unread = len(queues) - len(readable)
    try:
        for group in _groups(data, vhost, readable, chosen):
            go_on()
            if looked.comparison.messages >= wanted.messages:
                break
            replayer.compare(group, looked.comparison, most=wanted.messages)
    except _TimeUpError:
        looked.cut = "time"
    if looked.comparison.messages >= wanted.messages:
        looked.cut = "messages"
    return looked


def _tables(batch: Mapping[str, Any], vhost: str) -> list[Mapping[str, Any]]:
    return [table for table in batch["tables"] if table["vhost"] == vhost]


def _chosen(data: DataDir, vhost: str, wanted: Wanted, looked: Looked) -> list[dict[str, Any]]:
    """The newest batches with enough messages, newest first."""
    chosen: list[dict[str, Any]] = []
    records = 0
    for batch in _batches(data, wanted):
        if not (wanted.holds(batch) and _tables(batch, vhost)):
            continue
        if len(chosen) == BATCHES or records >= wanted.messages:
            looked.cut = "batches"
            break
        chosen.append(batch)
        records += batch["records"]
    looked.batches = len(chosen)
    looked.streams = sorted({batch["stream"] for batch in chosen})
    clocks = [batch["clock"] for batch in chosen]
    looked.first, looked.last = min(clocks, default=None), max(clocks, default=None)
    return chosen


def _batches(data: DataDir, wanted: Wanted) -> Iterable[dict[str, Any]]:
    """Batches newest first; those of a stated range are found by their numbers, however old they are."""
    if wanted.stream is None or wanted.last is None:
        return itertools.islice(newest_batches(data, columns=_COLUMNS), PASSED)
    lowest = max(0 if wanted.first is None else wanted.first, wanted.last - PASSED)
    numbers = range(wanted.last, lowest - 1, -1)
    return (row for number in numbers for row in read_manifest(data, stream=wanted.stream, batch_id=number))


def _groups(data: DataDir, vhost: str, queues: list[str], chosen: list[dict[str, Any]]) -> Iterator[list[RoutedFile]]:
    """The files of some batches, later ones first; of a file that holds others, too, only the rows of these."""
    of_streams: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for batch in chosen:
        of_streams[batch["stream"]].append(batch)
    for stream, batches in of_streams.items():
        clocks = [batch["clock"] for batch in batches]
        numbers = [batch["batch_id"] for batch in batches]
        # a clock is of milliseconds, and rows have that of their batch
        until = max(clocks) + timedelta(milliseconds=1)
        found = file_groups(data, vhost, queues, stream=stream, since=min(clocks), until=until)
        meant = Slice(stream_mark(stream), min(numbers), max(numbers))
        for group in reversed(found):
            yield [file for one in group if (file := _cut(one, meant)) is not None]


def _cut(file: RoutedFile, meant: Slice) -> RoutedFile | None:
    """The file with the rows of a slice alone."""
    held = file.slice or meant
    first, last = max(held.first, meant.first), min(held.last, meant.last)
    return replace(file, slice=Slice(meant.mark, first, last)) if first <= last else None
