"""What works on a data directory, and who looks at its tables."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow.compute as pc

from bindery.api.publisher import Publisher
from bindery.router.model import Topology
from bindery.store import tables
from bindery.store.access import AccessStore
from bindery.store.batches import BatchDriver
from bindery.store.commit import BatchCommitter
from bindery.store.deduplication import SeenTable
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.streams import register
from bindery.store.topology import TopologyStore

STREAM = "s"


class Process:
    """One process that serves REST and drives the stream; each part of it is made when it is asked for first."""

    def __init__(self, data: DataDir) -> None:
        self._data = data
        self._store: TopologyStore | None = None
        self._committer: BatchCommitter | None = None
        self._publisher: Publisher | None = None
        self._access: AccessStore | None = None
        self._seen: SeenTable | None = None

    @property
    def store(self) -> TopologyStore:
        """The topology store of the process that lives now."""
        if self._store is None:
            self._store = TopologyStore(self._data)
        return self._store

    @property
    def access(self) -> AccessStore:
        """Its users."""
        if self._access is None:
            self._access = AccessStore(self._data.access)
        return self._access

    @property
    def publisher(self) -> Publisher:
        """Its publisher."""
        if self._publisher is None:
            self._publisher = Publisher(self._data, self.store.load, app_id=f"api:{uuid.uuid4().hex}")
        return self._publisher

    @property
    def driver(self) -> BatchDriver[Topology]:
        """Its driver of the stream; a new one registers and claims."""
        if self._committer is None:
            epoch = register(self._data, STREAM, "c1")
            # one thread, so that effects come in one order
            self._committer = BatchCommitter(self._data, stream=STREAM, app_id=epoch.app_id, workers=1)
        return driver_of(self._committer, self.store)

    @property
    def seen(self) -> SeenTable:
        """What its driver knows repeats by."""
        if self._seen is None:
            self._seen = SeenTable(self._data, STREAM, "/")
        return self._seen

    def restart(self) -> None:
        """A new process: nothing is remembered but what is on the disk."""
        self._store = self._access = self._seen = None
        if self._committer is not None:
            self._committer.close()
            self._committer = None
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None


def driver_of(committer: BatchCommitter, store: TopologyStore) -> BatchDriver[Topology]:
    """What drives the stream: its batches are routed by the model, so that a topology needs no compiling."""
    return BatchDriver(committer, store, "/", router=lambda topology: topology)


class Contents:
    """The rows of tables; a file never changes, so it is read once."""

    def __init__(self) -> None:
        self._files: dict[str, list[tuple[Any, ...]]] = {}

    def of(self, path: str) -> list[tuple[Any, ...]]:
        """(routed_at, stream, batch, number, routing key, redriven version) of each row; a file never changes."""
        found: list[tuple[Any, ...]] = []
        for file in tables.files_of(TableLog(path, files=True)):
            full = f"{path}/{file}"
            if full not in self._files:
                with at(full).parquet() as parquet:
                    rows = parquet.read(columns=["routed_at", "routing", "routing_key", "redriven"])
                routing = rows["routing"].combine_chunks()
                ids = [pc.struct_field(routing, name).to_pylist() for name in ("stream", "batch_id", "seq")]
                marks = rows["redriven"].to_pylist() if "redriven" in rows.column_names else [None] * len(rows)
                versions = [mark and mark["topology_version"] for mark in marks]
                columns = [rows["routed_at"].to_pylist(), *ids, rows["routing_key"].to_pylist(), versions]
                self._files[full] = list(zip(*columns, strict=True))
            found += self._files[full]
        return sorted(found, key=lambda row: row[:4])
