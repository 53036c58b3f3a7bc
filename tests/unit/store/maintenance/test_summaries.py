"""Summaries of the manifest: fewer rows, the same totals."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bindery.store import tables
from bindery.store.actions import Transaction
from bindery.store.log import TableLog
from bindery.store.maintenance import Policy, maintain, summaries
from bindery.store.maintenance.summaries import summarise
from bindery.store.maintenance.table_places import TablePlace
from bindery.store.manifest import BatchCounts, manifest_row, newest_batches, open_manifest, read_manifest, write_rows
from bindery.store.paths import DataDir
from bindery.store.totals import ManifestTotals, Totals
from tests.unit.store.maintenance.conftest import Clock
from tests.unit.store.test_totals import assert_equal

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
MONTH = Policy(manifest_retention=timedelta(days=30))


def row(stream: str, batch: int, at: datetime, chance: random.Random) -> dict[str, Any]:
    counts = BatchCounts(
        records=chance.randrange(100),
        copies=chance.randrange(300),
        exchanges={("/", f"x{chance.randrange(3)}"): chance.randrange(50)},
        bindings={chance.randrange(5): 3, 7: batch},
        unroutable={"no_route": chance.randrange(5)} if chance.random() < 0.5 else {},
        invalid={"fields": chance.randrange(5)} if chance.random() < 0.5 else {},
        filter_unknowns={"a > 1": 2} if chance.random() < 0.3 else {},
        filter_errors={"b": 1} if chance.random() < 0.3 else {},
        unparsable={("queue", "/", "q", "syntax"): 2} if chance.random() < 0.3 else {},
        timings_ms={"tasks": chance.random() * 100} | ({"prepare": 3.5} if chance.random() < 0.5 else {}),
    )
    committed = [
        {"kind": "queue", "vhost": "/", "name": name, "version": batch, "rows": 3, "retries": 1, "dropped": batch % 2}
        for name in chance.sample(["a", "b", "c"], 2)
    ]
    found = manifest_row(
        app_id=f"{stream}:1", stream=stream, batch_id=batch, topology_version=1, clock=at, tables=committed,
        counts=counts, commit_ms=1.5,
    )  # fmt: skip
    return {**found, "committed_at": at}


@pytest.fixture
def recorded(data: DataDir, monkeypatch: pytest.MonkeyPatch) -> DataDir:
    """90 days of two streams, a batch every eight hours; the last ones of each stay whatever their age."""
    monkeypatch.setattr(summaries, "KEPT", 5)
    chance = random.Random(7)
    log = open_manifest(data)
    for batch in range(270):
        at = NOW - timedelta(days=90) + timedelta(hours=8 * batch)
        streams = ("s", "t") if batch < 100 else ("s",)
        added = write_rows(data, [row(stream, batch, at, chance) for stream in streams])
        log.commit([added], transactions=[Transaction(f"{stream}:1", batch) for stream in streams])
    return data


def manifest(data: DataDir) -> tuple[TablePlace, TableLog]:
    log = open_manifest(data)
    from bindery.store.manifest import MANIFEST

    return TablePlace(MANIFEST, data.manifest, "manifest"), tables.open_log(log.path, MANIFEST, files=True)


def summed(data: DataDir, at: datetime = NOW, policy: Policy = MONTH) -> int:
    return summarise(*manifest(data), policy, int(at.timestamp() * 1000))


def totals(data: DataDir) -> Totals:
    return ManifestTotals(data.manifest).totals()


def rows_in_all(data: DataDir) -> list[dict[str, Any]]:
    place, log = manifest(data)
    return [one for name in tables.files_of(log) for one in pq.read_table(f"{place.path}/{name}").to_pylist()]


@pytest.mark.long
def test_totals_stay_what_they_were(recorded: DataDir) -> None:
    before, following = totals(recorded), ManifestTotals(recorded.manifest)
    following.totals()
    assert summed(recorded) == 179 + 95
    assert_equal(totals(recorded), before)
    assert_equal(following.totals(), before)
    assert len(rows_in_all(recorded)) < 120
    maintain(recorded, clock=Clock(), only=lambda place: place.name == "manifest")
    assert_equal(totals(recorded), before)
    assert_equal(following.totals(), before)


@pytest.mark.long
def test_what_is_young_and_the_newest_of_every_stream_stay_as_they_were(recorded: DataDir) -> None:
    before = {(one["stream"], one["batch_id"]): one for one in read_manifest(recorded)}
    summed(recorded)
    after = {(one["stream"], one["batch_id"]): one for one in read_manifest(recorded)}
    assert set(after) == {("s", batch) for batch in range(179, 270)} | {("t", batch) for batch in range(95, 100)}
    assert after == {key: before[key] for key in after}


@pytest.mark.long
def test_no_reader_takes_a_summary_for_a_batch(recorded: DataDir) -> None:
    summed(recorded)
    assert all(one["batch_id"] is not None for one in read_manifest(recorded))
    assert len(list(newest_batches(recorded, columns=["stream"]))) == len(read_manifest(recorded)) == 96
    assert "batches" not in next(newest_batches(recorded))


@pytest.mark.long
def test_further_days_join_the_month(recorded: DataDir) -> None:
    before = totals(recorded)
    for days in range(12):
        summed(recorded, NOW + timedelta(days=days))
        assert_equal(totals(recorded), before)
    found = [(one["stream"], f"{one['committed_at']:%m}") for one in rows_in_all(recorded) if one.get("batches")]
    assert sorted(found) == [("s", "03"), ("s", "04"), ("s", "05"), ("t", "03"), ("t", "04")]


@pytest.mark.long
def test_a_day_is_summed_up_once(recorded: DataDir) -> None:
    assert summed(recorded)
    version = manifest(recorded)[1].version
    assert summed(recorded) == 0
    assert summed(recorded, NOW + timedelta(hours=1)) == 0
    assert manifest(recorded)[1].version == version


def test_a_batch_that_ends_meanwhile_is_not_lost(recorded: DataDir) -> None:
    from bindery.store import faults

    late = row("s", 270, NOW, random.Random(1))
    waiting = [True]

    def hook(point: str, path: str) -> None:
        if waiting and point == "write.after" and "compact-" in path:
            waiting.clear()
            log = open_manifest(recorded)
            log.commit([write_rows(recorded, [late])], transactions=[Transaction("s:1", 270)])

    before = totals(recorded)
    with faults.installed(hook):
        assert summed(recorded)
    before.add(pa.Table.from_pylist([late], schema=manifest(recorded)[0].kind.schema))
    assert_equal(totals(recorded), before)
