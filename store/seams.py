"""The seam between what a stream delivers itself and what a backfill brings.

Every batch of a stream is pinned to a topology before it is routed, in the order of numbers, to the newest one that its
driver knows. So the batches up to some number are of topologies before the one of a backfill, and all others are of
that one or of later ones: the journal says of each which queues it has reached. What is missing in the journal is the
batch that is pinned and has not ended, and that of a driver which has read the topology and not pinned its batch yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bindery.store import tables
from bindery.store.journal_files import Journal
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.pins import Pin, Pins
from bindery.store.places import at
from bindery.store.streams import epochs

#: A driver pins its batch to the topology that it has read within this time, by far.
_PINNED_WITHIN_MS: Final = 3_600_000
#: How identifiers begin that are of no stream.
_OWN: Final = "bindery."


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A batch of a stream that is pinned to an older topology and has not ended."""

    stream: str
    batch_id: int
    topology_version: int


@dataclass(frozen=True, slots=True)
class Seam:
    """What is missing in a journal of the batches of older topologies; `closed` when certainly nothing is."""

    under_way: tuple[UnderWay, ...]
    closed: bool


def seam(data: DataDir, journal: Journal, topology_version: int, *, since_ms: int, now_ms: int) -> Seam:
    """The seam of a stream to a topology version that is there since `since_ms`.

    Whatever the journal lacks when this comes back is said here: read the journal after it.
    """
    found: list[UnderWay] = []
    newer = False
    for app_id in _app_ids(data, journal):
        ended = _ended(data, app_id)
        for number, pin in _pins(data, journal.stream, app_id):
            newer |= pin.topology_version >= topology_version
            if number > ended and pin.topology_version < topology_version:
                found.append(UnderWay(journal.stream, number, pin.topology_version))
    newer |= journal.topology_version >= topology_version
    return Seam(tuple(found), not found and (newer or now_ms - since_ms > _PINNED_WITHIN_MS))


def _app_ids(data: DataDir, journal: Journal) -> set[str]:
    """What the stream commits under: by its newest epoch on record, or else by what its journal remembers."""
    on_record = epochs(data) if tables.exists(data.streams) else []
    known = [epoch.app_id for epoch in on_record if epoch.stream == journal.stream]
    return set(known[-1:]) or {app_id for app_id in journal.log.transactions if not app_id.startswith(_OWN)}


def _pins(data: DataDir, stream: str, app_id: str) -> Iterator[tuple[int, Pin]]:
    pins = Pins(data, stream=stream, app_id=app_id)
    for number in sorted(at(data.pins(app_id)).numbers(".json")):
        pin = pins.read(number)
        if pin is not None:
            yield number, pin


def _ended(data: DataDir, app_id: str) -> int:
    """The newest batch that has ended; -1 for none."""
    if not tables.exists(data.manifest):
        return -1
    number = TableLog(data.manifest).transaction_version(app_id)
    return -1 if number is None else number
