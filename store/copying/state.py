"""What belongs to a point beside the tables: Spark's plans, pins, plans of redrives, moves and copies, jobs, users.

These files are small and change while a copy goes on, so they are read at once when the point is chosen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bindery.store import backfill_records, plan_files, streams, tables
from bindery.store.copying.history import Moved
from bindery.store.maintenance.holds import delta_offsets
from bindery.store.paths import DataDir
from bindery.store.places import Place, at
from bindery.store.streams import StreamEpoch

#: In a checkpoint: files that a batch makes anew when it runs again.
_REMADE: Final = "shortened"
#: In a checkpoint: folders of which the files are numbered like batches.
_BY_BATCH: Final = ("offsets", "commits", "refused")
_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class StreamPoint:
    """How far a stream has come at a point.

    ended    the number of the newest batch that the manifest has; None for none
    begun    of a batch that only some tables have, its number
    missing  why the checkpoint is not in the copy; None when it is
    """

    epoch: StreamEpoch
    ended: int | None
    begun: int | None = None
    missing: str | None = None

    @property
    def planned(self) -> int | None:
        """The newest batch that the copy knows anything of."""
        return self.ended if self.begun is None else self.begun


class Checkpoints:
    """The checkpoints of the streams on record, of each the one that its last epoch runs on."""

    def __init__(self, data: DataDir) -> None:
        self._data = data
        epochs = streams.epochs(data) if tables.exists(data.streams) else []
        #: Epochs by app id, ascending: one that was opened anew has several.
        self._epochs: dict[str, list[StreamEpoch]] = {}
        self.last: dict[str, StreamEpoch] = {}
        for epoch in epochs:
            self._epochs.setdefault(epoch.app_id, []).append(epoch)
            self.last[epoch.stream] = epoch
        self._known: dict[tuple[str, int], Mapping[str, int]] = {}

    def reads(self, paths: Mapping[str, str], app_id: str, number: int) -> Mapping[str, int]:
        """The least versions of tables (by id) that a stream has read by the end of a batch."""
        if (app_id, number) not in self._known:
            self._known[app_id, number] = self._read(app_id, number)
        return {paths[table]: version for table, version in self._known[app_id, number].items() if table in paths}

    def _read(self, app_id: str, number: int) -> Mapping[str, int]:
        epoch = self._epoch(app_id, number)
        if epoch is None or self.last[epoch.stream].app_id != app_id:
            return {}
        offsets = (self.folder(epoch) / "offsets" / str(number - epoch.first_batch)).read()
        return {} if offsets is None else _versions_read(offsets)

    def _epoch(self, app_id: str, number: int) -> StreamEpoch | None:
        fitting = [epoch for epoch in self._epochs.get(app_id, ()) if epoch.first_batch <= number]
        return fitting[-1] if fitting else None

    def folder(self, epoch: StreamEpoch) -> Place:
        """The checkpoint of a stream."""
        return at(self._data.checkpoint(epoch.stream))

    def streams(self, ended: Mapping[str, int], begun: Mapping[str, int]) -> list[StreamPoint]:
        """How far each stream with a checkpoint has come, given the batches of app ids."""
        found = [StreamPoint(epoch, _own(epoch, ended), _own(epoch, begun)) for epoch in self.last.values()]
        return [replace(stream, missing=self._missing(stream.epoch, stream.planned)) for stream in found]

    def _missing(self, epoch: StreamEpoch, planned: int | None) -> str | None:
        metadata = (self.folder(epoch) / "metadata").read()
        if metadata is None:
            return "its checkpoint is not in the data directory"
        try:
            found = json.loads(metadata)["id"]
        except (ValueError, KeyError, TypeError):
            return "its checkpoint is damaged"
        if found != epoch.checkpoint_id:
            return "its checkpoint is another one than it last ran on"
        batches = (self.folder(epoch) / "offsets").numbers()
        if planned is not None and max(batches, default=-1) < planned - epoch.first_batch:
            return "its checkpoint is older than the tables"
        return None

    def files(self, stream: StreamPoint) -> dict[str, bytes]:
        """The files of a stream's checkpoint as of its point. Raises Moved when Spark has removed its plan."""
        root = at(self._data.root)
        folder = self.folder(stream.epoch)
        limits = {
            name: -1 if number is None else number - stream.epoch.first_batch
            for name, number in (("offsets", stream.planned), ("commits", stream.ended), ("refused", stream.planned))
        }
        # lists of files that go meanwhile are replaced by one that holds them all, which is listed, too
        found = _contents(root, (folder / name for name in folder.within() if _belongs(name, limits)))
        newest = limits["offsets"]
        if newest >= 0 and (folder / f"offsets/{newest}").below(root) not in found:
            raise Moved(f"Spark has removed its plan of batch {newest} in {folder}")
        return found


def _own(epoch: StreamEpoch, batches: Mapping[str, int]) -> int | None:
    """The batch of an epoch's app id, unless it is one of an older epoch with the same checkpoint."""
    number = batches.get(epoch.app_id, -1)
    return number if number >= epoch.first_batch else None


def _belongs(name: str, limits: Mapping[str, int]) -> bool:
    parts = name.split("/")
    if any(part.startswith(".") for part in parts) or parts[-1].endswith(".tmp") or parts[0] == _REMADE:
        return False
    if parts[0] not in _BY_BATCH:
        return True
    number = parts[-1].removesuffix(".json")
    return number.isdecimal() and int(number) <= limits[parts[0]]


def _versions_read(offsets: bytes) -> dict[str, int]:
    """The least versions of Delta tables, by id, that hold what a batch reads up to."""
    found: dict[str, int] = {}
    for offset in delta_offsets(offsets.decode("utf-8", "replace")):
        # a negative index stands for the beginning of a version: nothing of it has been read
        version = int(offset["reservoirVersion"]) - (int(offset.get("index", 0)) < 0)
        found[str(offset["reservoirId"])] = version
    return found


def pins(data: DataDir, app_id: str, *, ended: int | None, begun: int | None) -> dict[str, bytes]:
    """The pins of the newest batches that an app id has at a point. Raises Moved when that of a begun one is gone."""
    root, folder = at(data.root), at(data.pins(app_id))
    last = ended if begun is None else begun
    kept = [] if last is None else [number for number in folder.numbers(".json") if number <= last]
    found = _contents(root, (folder / f"{number}.json" for number in kept))
    if begun is not None and (folder / f"{begun}.json").below(root) not in found:
        raise Moved(f"the pin of batch {begun} of {app_id} is gone")
    return found


def plans(data: DataDir) -> dict[str, bytes]:
    """The plans of redrives, moves and copies that are not finished."""
    root = at(data.root)
    plans: list[Place] = []
    for kind in plan_files.FOLDERS:
        for name in (root / kind).within():
            parts = name.split("/")
            # a plan of a redrive may be a folder, of an older version
            named = parts[1:2] if kind == plan_files.REDRIVES else parts[2:]
            whole = [part for part in named if part.removesuffix(".parquet").isdecimal()]
            if whole and not parts[-1].startswith("."):
                plans.append(root / kind / name)
    return _contents(root, plans)


def backfills(data: DataDir, *, topology_version: int) -> dict[str, bytes]:
    """What is on record of backfills, read after the tables: what they have is on record.

    What is of a later topology than the copy has is left out: no table of it has any rows.
    """
    root = at(data.root)
    folder = root / backfill_records.FOLDER
    found = _contents(root, (folder / name for name in folder.within() if name.endswith(".json")))
    return {name: content for name, content in found.items() if _version(content) <= topology_version}


def _version(record: bytes) -> int:
    try:
        return int(json.loads(record)["topology_version"])
    except (ValueError, KeyError, TypeError):  # damaged, and found to be so in the copy, too
        return -1


def _contents(root: Place, places: Iterable[Place]) -> dict[str, bytes]:
    """What files hold, by their address relative to the data directory; without those that are gone meanwhile."""
    return {place.below(root): content for place in places if (content := place.read()) is not None}


def users(data: DataDir, *, on_object_store: bool) -> dict[str, bytes]:
    """Users and permissions, and the record of their changes, as the copy keeps it (`bindery.store.access`)."""
    folder = at(data.access)
    before: tuple[bytes | None, list[bytes]] | None = None
    for _ in range(_ATTEMPTS):
        changes = folder / "audit"
        lines = ((folder / "audit.jsonl").read() or b"").splitlines()
        lines += [(changes / name).read() or b"" for name in changes.files() if not name.startswith(".")]
        found = (folder / "access.json").read(), [line for line in lines if line]
        if found == before:
            return dict(_access_files(*found, on_object_store=on_object_store))
        before = found
    raise Moved("users are being changed all the time")


def _access_files(content: bytes | None, lines: list[bytes], *, on_object_store: bool) -> Iterator[tuple[str, bytes]]:
    if content is not None:
        yield "access/access.json", content
    if not on_object_store and lines:
        yield "access/audit.jsonl", b"\n".join(lines) + b"\n"
    for line in lines if on_object_store else ():
        try:
            entry = json.loads(line)
            name = f"{entry['at_ms']}-{entry['change']}"
        except (ValueError, KeyError, TypeError):  # torn by a crash, or of an older version
            name = f"0-{hashlib.blake2b(line, digest_size=8).hexdigest()}"
        yield f"access/audit/{name}.json", line


def jobs(data: DataDir) -> dict[str, bytes]:
    """The documents of submitted jobs. What runs of them did belongs to the machine that they ran on."""
    root, folder = at(data.root), at(data.root, "jobs")
    return dict(_documents(folder, root))


def _documents(folder: Place, root: Place) -> Iterator[tuple[str, bytes]]:
    for name in folder.folders():
        document = folder / name / "job.json"
        content = None if name.startswith(".") else document.read()
        if content is not None:
            try:
                record: dict[str, Any] = json.loads(content)
                content = json.dumps({**record, "run": None}, indent=1).encode()
            except (ValueError, TypeError):
                pass  # damaged, and found to be so in the copy, too
            yield document.below(root), content
