"""What the journal of the stream says of each message, and what flushes did, by the logs of the queues."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from bindery.router.model import Topology
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore


def dataset(path: str) -> ds.Dataset:
    """A table as deltalake sees it, read by Arrow's own file system: deltalake's can abort a process that ends."""
    return DeltaTable(path).to_pyarrow_dataset(filesystem=SubTreeFileSystem(path, LocalFileSystem()))


def ids_of(rows: pa.Table) -> list[Any]:
    """The property `id` of each row."""
    values = pc.map_lookup(rows["application_properties"].combine_chunks(), pa.scalar("id"), "first")
    ids: list[Any] = pc.struct_field(values, "string").to_pylist()
    return ids


@dataclass(frozen=True, slots=True)
class Noted:
    """A row of the journal: the queues that it names, and those of them whose copies had to wait."""

    id: str
    identity: tuple[str, int, int]
    version: int
    clock: Any
    queues: frozenset[str]
    deferred: frozenset[str]


#: Topology version -> id of a queue -> its name.
Names = dict[int, dict[int, str]]


def names_in(topology: Topology) -> dict[int, str]:
    """The queues of a version by their ids."""
    return {queue.id: queue.name for queue in topology.in_vhost("/")[1]}


def noted(data: DataDir, topologies: TopologyStore, stream: str, names: Names) -> Iterator[Noted]:
    """The rows of the journal; ids of queues are those of the version that a message was routed by.

    `names` has those of versions that were loaded before.
    """
    path = data.journal(stream)
    if not DeltaTable.is_deltatable(path):
        return
    rows = dataset(path).to_table(columns=["application_properties", "routing", "routed_at"]).combine_chunks()
    for name, routing, clock in zip(
        ids_of(rows) if rows.num_rows else [], rows["routing"].to_pylist(), rows["routed_at"].to_pylist(), strict=True
    ):
        version = routing["topology_version"]
        if version not in names:
            names[version] = names_in(topologies.load(version=version))
        yield Noted(
            id=name,
            identity=(routing["stream"], routing["batch_id"], routing["seq"]),
            version=version,
            clock=clock,
            queues=frozenset(names[version][queue] for queue in routing["queues"]),
            deferred=frozenset(names[version][queue] for queue in routing["deferred"] or ()),
        )


@dataclass
class Commits:
    """Commits to queues, those of them that were flushes, and the copies that these brought."""

    commits: int = 0
    flushes: int = 0
    copies: int = 0

    @classmethod
    def of(cls, data: DataDir, queues: Iterable[str]) -> Commits:
        """Counted in the logs, of which nothing is old enough to be gone."""
        found = cls()
        for queue in queues:
            for entry in Path(data.queue("/", queue), "_delta_log").glob("*.json"):
                actions = [json.loads(line) for line in entry.read_text("utf-8").splitlines()]
                found.commits += 1
                if any(one.get("commitInfo", {}).get("bindery.change") == "flush" for one in actions):
                    found.flushes += 1
                    stats = [json.loads(one["add"]["stats"]) for one in actions if "add" in one]
                    found.copies += sum(one["numRecords"] for one in stats)
        return found
