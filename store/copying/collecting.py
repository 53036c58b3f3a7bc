"""What a copy consists of: the tables at one point, and what belongs to it, as found while everything goes on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from bindery.router.errors import Refused
from bindery.store import tables
from bindery.store.copying import state
from bindery.store.copying.history import History, Moved, read_history
from bindery.store.copying.point import Endings, Found, Point, latest_point
from bindery.store.copying.state import Checkpoints, StreamPoint
from bindery.store.forwarding import copied_records
from bindery.store.maintenance.holds import Holds, find_holds
from bindery.store.maintenance.horizon import horizon
from bindery.store.maintenance.listing import LogFiles
from bindery.store.maintenance.policy import Policy
from bindery.store.maintenance.run import now
from bindery.store.maintenance.table_places import TablePlace, table_places
from bindery.store.manifest import MANIFEST
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.streams import STREAMS
from bindery.store.topology import TOPOLOGY

#: A commit whose batch has not ended after this time (ms) is taken for one of a job that has died …
_SETTLED_MS: Final = 120_000
#: … on an object store by its own clock, which may differ by so much: it refuses requests beyond that.
_CLOCKS_MS: Final = 900_000
#: Tables of which the log is read at once.
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table at its version: the files that it needs, with their bytes, and the files of its log, ascending."""

    name: str
    version: int
    files: Mapping[str, int] = field(repr=False)
    log: Sequence[str] = field(repr=False)
    last_checkpoint: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a copy consists of; `state` are small files by their address relative to the data directory."""

    topology_version: int
    tables: Sequence[CopiedTable]
    streams: Sequence[StreamPoint]
    state: Mapping[str, bytes] = field(repr=False)

    @property
    def bytes(self) -> int:
        """Bytes of all files but those of logs."""
        return sum(sum(table.files.values()) for table in self.tables) + sum(map(len, self.state.values()))


def collect(data: DataDir, *, newest_only: bool, to_object_store: bool) -> Contents:
    """What a copy consists of now. Raises Moved when what it needs is gone or under way: try again.

    Plans of redrives and moves are read first and the registration of streams last: each is there before anything that
    depends on it is, and stays until that has ended. Between them comes what is said in `Found`.
    """
    plans = state.plans(data)
    reader = _Reader(data, newest_only)
    manifest = reader.read(MANIFEST)
    topology = reader.read(TOPOLOGY)
    if topology is None:
        raise Refused(
            f"{data.root} has no topology: it is no data directory",
            where=data.root,
            hint="what `bindery import` or `serve` has made can be copied",
        )
    routed = reader.read_all()
    registered = reader.read(STREAMS)
    checkpoints = Checkpoints(data)
    paths = {history.table_id: history.path for history in routed}
    found = Found(
        [] if manifest is None else manifest.commits,
        topology.head,
        {history.path: history.commits for history in routed},
        {history.path: history.head for history in routed},
        {history.path: history.first for history in routed},
        {} if manifest is None else manifest.batches(manifest.base),
    )
    others = [history for history in (manifest, topology, registered) if history is not None]
    point = latest_point(
        found, settled_ms=reader.settled_ms, reads=lambda app_id, number: checkpoints.reads(paths, app_id, number)
    )
    if point is None or (plans and point.topology < topology.head):
        raise Moved("batches of several streams overlap all the time")
    if manifest is not None:
        _check_rows(data, manifest, routed, point)
    versions = dict(point.tables)
    versions |= {history.path: history.head for history in others}
    versions[data.topology] = point.topology
    if manifest is not None:
        versions[data.manifest] = point.manifest
    ended = Endings(found.manifest, found.ended).newest(point.manifest)
    begun = _begun(routed, point, ended)
    streams = checkpoints.streams(ended, begun)
    small = {**plans, **state.users(data, on_object_store=to_object_store), **state.jobs(data)}
    small |= copied_records(data, {history.table_id: point.tables[history.path] for history in routed})
    small |= state.backfills(data, topology_version=point.topology)
    for stream in streams:
        if stream.missing is None:
            small |= checkpoints.files(stream)
            small |= state.pins(data, stream.epoch.app_id, ended=stream.ended, begun=stream.begun)
    copied = [
        _at_version(history, versions[history.path]) for history in (*others, *routed) if versions[history.path] >= 0
    ]
    return Contents(point.topology, copied, streams, small)


class _Reader:
    """Reads the histories of the tables of a data directory."""

    def __init__(self, data: DataDir, newest_only: bool) -> None:
        self._data = data
        self._now = now()
        unsettled = _SETTLED_MS + (_CLOCKS_MS if at(data.root).is_remote else 0)
        self.settled_ms = self._now - unsettled
        # of the newest versions those stay readable, too, to which the point may go back
        self._policy = Policy(retention=timedelta(milliseconds=2 * unsettled)) if newest_only else Policy()
        self._holds: Holds = find_holds(data, self._policy.hold_limit, self._now)

    def read(self, kind: tables.Kind) -> History | None:
        """The history of a table of which there is one; None when there is none."""
        path = f"{self._data.root}/{kind.name}"
        return self._history(TablePlace(kind, path, kind.name)) if tables.exists(path) else None

    def read_all(self) -> list[History]:
        """The histories of all others."""
        places = [one for one in table_places(self._data) if one.kind not in (MANIFEST, TOPOLOGY, STREAMS)]
        with ThreadPoolExecutor(_AT_ONCE, "copy") as pool:
            return list(pool.map(self._history, places))

    def _history(self, place: TablePlace) -> History:
        log = tables.open_log(place.path, place.kind)
        files = LogFiles.of(place.path)
        kept = horizon(place, log, files, self._policy, self._holds.active, self._now)
        oldest = 0 if kept is None else kept.version
        return read_history(place.path, place.name, log.state.table_id, files, oldest)


def _begun(routed: Iterable[History], point: Point, ended: Mapping[str, int]) -> dict[str, int]:
    """The batches that some tables have and the manifest does not: those of jobs that have died."""
    found: dict[str, int] = {}
    for history in routed:
        for app_id, number in history.batches(point.tables[history.path]).items():
            if number > ended.get(app_id, -1):
                found[app_id] = number
    return found


def _check_rows(data: DataDir, manifest: History, routed: Iterable[History], point: Point) -> None:
    """Raise Moved when a row of the manifest names a later version of a table than the point has.

    A batch that ran again names the versions at which it found its rows, and those may hold parts of batches that have
    not ended; a job that starts on the copy would miss them.
    """
    beyond = [one.at_ms for history in routed for one in history.commits if one.version > point.tables[history.path]]
    for entry in manifest.entries if beyond else ():
        if entry.commit.version > point.manifest or entry.commit.at_ms < min(beyond) - _SETTLED_MS:
            continue
        for name in entry.added:
            for row in (
                (at(data.manifest) / name).read_parquet().column("tables").combine_chunks().flatten().to_pylist()
            ):
                path = data.routed(row["kind"], row["vhost"], row["name"])
                if row["version"] > point.tables.get(path, row["version"]):
                    raise Moved(f"a batch that ran again has seen version {row['version']} of {path}")


def _at_version(history: History, version: int) -> CopiedTable:
    log = history.log_files(version)
    return CopiedTable(history.name, version, history.needed(version), log, _last_checkpoint(history, version))


def _last_checkpoint(history: History, version: int) -> bytes | None:
    """What the log says of its newest checkpoint, or what it would have said at that version; None without one."""
    newest = max((number for number in history.log.checkpoints if history.base <= number <= version), default=None)
    if newest is None:
        return None
    parts = history.log.checkpoints[newest]
    try:
        rows = sum(at(str(part)).footer().num_rows for part in parts)
    except FileNotFoundError as error:
        raise Moved(f"checkpoint {newest} of {history.path} is gone") from error
    said = {"version": newest, "size": rows} | ({"parts": len(parts)} if len(parts) > 1 else {})
    return json.dumps(said).encode()
