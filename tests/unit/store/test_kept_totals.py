"""Totals that maintenance keeps: a look goes on from them, and is the same as one at everything."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bindery.store import file_rows, kept_totals
from bindery.store.kept_totals import manifest_totals
from bindery.store.maintenance import maintain
from bindery.store.manifest import BatchCounts, manifest_row, open_manifest, read_manifest, write_rows
from bindery.store.overview import overview
from bindery.store.paths import DataDir
from bindery.store.places import Place
from bindery.store.places import at as below
from bindery.store.topology import TopologyStore
from bindery.store.totals import ManifestTotals
from tests.unit.store.conftest import declare_queues
from tests.unit.store.test_totals import assert_equal, commit, reference


def record(data: DataDir, batches: range, stream: str = "s") -> None:
    """The rows of so many batches, a file each, as their drivers leave them; in one commit, since that is quick."""
    counts = BatchCounts(records=2, copies=3, unroutable={"filtered": 1}, bindings={1: 2}, exchanges={("/", "x"): 2})
    manifest, added = open_manifest(data), []
    for number in batches:
        clock = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
        row = manifest_row(
            app_id=f"{stream}:c",
            stream=stream,
            batch_id=number,
            topology_version=0,
            clock=clock,
            tables=[{"kind": "queue", "vhost": "/", "name": "a", "version": 1, "rows": 3, "retries": 0, "dropped": 0}],
            counts=counts,
            commit_ms=1.0,
        )
        added.append(write_rows(data, [row | {"committed_at": clock}]))
    assert manifest.commit(added, info={"isBlindAppend": True}) is not None


@contextmanager
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The manifest's data files that are opened meanwhile."""
    names: list[str] = []
    batches, parquet = file_rows.batches, Place.read_parquet

    def counted(path: str, name: str, *arguments: Any, **options: Any) -> Any:
        names.append(name)
        return batches(path, name, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(file_rows, "batches", counted)
        for kind in Place.__subclasses__():
            read = kind.__dict__.get("read_parquet")
            if read is not None:
                patch.setattr(kind, "read_parquet", _noting(names, read))
        patch.setattr(Place, "read_parquet", _noting(names, parquet))
        yield names


def _noting(names: list[str], read: Any) -> Any:
    def counted(place: Place, *arguments: Any, **options: Any) -> Any:
        if place.parent.name == "manifest":
            names.append(place.name)
        return read(place, *arguments, **options)

    return counted


@pytest.mark.local_only
@pytest.mark.parametrize("batches", [10, 300])
def test_a_look_at_all_streams_costs_what_came_since_maintenance(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    record(data, range(batches))
    record(data, range(2), "quiet")  # older than most of the other
    with opened(monkeypatch) as everything:
        whole = overview(data)
    assert len(everything) >= batches
    kept_totals.keep(data.manifest)
    record(data, range(batches, batches + 3))
    with opened(monkeypatch) as few:
        found = overview(data)
    assert len(few) == 3 + 2  # those that came since, and the newest of each stream
    assert [(one.stream, one.batches) for one in found.streams] == [("quiet", 2), ("s", batches + 3)]
    assert [one.last.number for one in found.streams if one.last] == [1, batches + 2]
    assert found.streams[0] == whole.streams[0]


def test_kept_totals_are_those_of_every_batch(data: DataDir, store: TopologyStore) -> None:
    version = store.edit(declare_queues("a", "b"), author="t").version
    rng = random.Random(7)
    for number in range(6):
        commit(data, rng.choice("st"), number, version, rng)
        if number % 2:
            kept_totals.keep(data.manifest)
        followed = manifest_totals(data)
        assert_equal(followed.totals(), reference(read_manifest(data)))
        assert followed.files_read == (0 if number % 2 else 1)


def test_maintenance_keeps_them(data: DataDir, store: TopologyStore) -> None:
    record(data, range(4))
    assert not maintain(data, dry_run=True).failed
    assert kept_totals.read(data.manifest) is None
    assert not maintain(data).failed
    followed = manifest_totals(data)
    assert (followed.totals().batches["s"], followed.files_read) == (4, 0)


@pytest.mark.parametrize("damage", ["cut", "other version", "other entry", "other format", "no counts"])
def test_what_does_not_fit_is_not_believed(data: DataDir, store: TopologyStore, damage: str) -> None:
    record(data, range(3))
    kept_totals.keep(data.manifest)
    record(data, range(3, 5))
    file = below(data.root, "totals.json")
    kept = json.loads(file.read() or b"")
    kept["totals"]["batches"] = [["s", 1_000]]
    change = {
        "cut": {},
        "other version": {"version": kept["version"] + 1},
        "other entry": {"entry": "0"},
        "other format": {"format": 1},
        "no counts": {"totals": {}},
    }[damage]
    content = json.dumps(kept | change).encode()
    file.replace(content[:-9] if damage == "cut" else content, mode=0o644, durable=False)
    assert manifest_totals(data).totals().batches["s"] == 5
    assert ManifestTotals(data.manifest).totals().batches["s"] == 5
