"""Totals over the manifest: the sums of its rows, counted once, read incrementally."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from bindery.store.commit import BatchCommitter, BatchCounts
from bindery.store.manifest import MANIFEST, canary_rows, read_manifest
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from bindery.store.totals import CANARIES, ManifestTotals, Totals
from tests.unit.store.conftest import declare_queues, queue_rows, written

SEED = 20260101


def reference(rows: list[dict[str, Any]]) -> Totals:
    """The same sums, row by row."""
    out = Totals()
    for row in rows:
        stream = row["stream"]
        out.batches[stream] += 1
        out.records[stream] += row["records"]
        out.copies[stream] += row["copies"]
        out.committed[stream] = max(row["committed_at"].timestamp(), out.committed.get(stream, 0.0))
        for stage, ms in row["timings_ms"]:
            seconds, number = out.stages.get((stream, stage), (0.0, 0))
            out.stages[stream, stage] = (seconds + ms / 1000, number + 1)
        out.unroutable.update({(stream, reason): number for reason, number in row["unroutable"]})
        out.invalid.update({(stream, kind): number for kind, number in row["invalid"]})
        out.filter_unknowns.update(dict(row["filter_unknowns"]))
        out.filter_errors.update(dict(row["filter_errors"]))
        out.bindings.update(dict(row["bindings"]))
        out.unparsable.update(
            {
                (stream, one["kind"], one["vhost"], one["name"], one["reason"]): one["messages"]
                for one in row["unparsable"]
            }
        )
        out.canary.update(
            {(one["vhost"], one["started"], one["what"], one["name"]): one["messages"] for one in row["canary"]}
        )
        out.exchanges.update({(one["vhost"], one["name"]): one["records"] for one in row["exchanges"]})
        for one in row["tables"]:
            key = (one["kind"], one["vhost"], one["name"])
            out.rows[key] += one["rows"]
            out.dropped[key] += one["dropped"]
            out.retries[one["kind"]] += one["retries"]
    return out


def assert_equal(found: Totals, expected: Totals) -> None:
    for name in (
        "batches",
        "records",
        "copies",
        "unroutable",
        "invalid",
        "filter_unknowns",
        "filter_errors",
        "unparsable",
        "canary",
        "exchanges",
        "bindings",
    ):
        assert +Counter(getattr(found, name)) == +Counter(getattr(expected, name)), name
    for name in ("rows", "dropped", "retries"):
        assert +Counter(getattr(found, name)) == +Counter(getattr(expected, name)), name
    assert found.committed == pytest.approx(expected.committed)
    assert found.stages.keys() == expected.stages.keys()
    for key, (seconds, number) in expected.stages.items():
        assert found.stages[key][0] == pytest.approx(seconds)
        assert found.stages[key][1] == number


def commit(data: DataDir, stream: str, batch: int, version: int, rng: random.Random) -> None:
    def some(*keys: Any) -> dict[Any, int]:
        return {key: rng.randrange(1, 9) for key in keys if rng.random() < 0.7}

    counts = BatchCounts(
        records=rng.randrange(100),
        copies=rng.randrange(100),
        exchanges=some(("/", "x"), ("v", "x"), ("/", "")),
        bindings=some(1, 2, 30),
        unroutable=some("no_binding", "filtered"),
        invalid=some("fields", "syntax"),
        filter_unknowns=some("a / 0 > 1", "b % 0 = 1"),
        filter_errors=some("a / 0 > 1", "UPPER(s) = 'X'"),
        unparsable=some(("exchange", "/", "x", "syntax"), ("queue", "v", "q", "too-deep")),
        canary={
            key: (number, f"{stream}:{batch}:7" if key[3] else None)
            for key, number in some(("/", 3, "messages", ""), ("/", 3, "gained", "a"), ("v", 5, "messages", "")).items()
        },
        timings_ms={"route": rng.random() * 10},
    )
    with BatchCommitter(data, stream=stream, app_id=f"{stream}:c") as committer:
        pin = committer.pin(batch, version, 1_000 + batch)
        rows = queue_rows(batch, range(2), version=version, stream=stream)
        files = [written(data, name, rows) for name in ("a", "b") if rng.random() < 0.7]
        committer.commit(batch, pin, files, counts)


def test_totals_are_the_sums_of_the_manifest_and_follow_it(data: DataDir, store: TopologyStore) -> None:
    version = store.edit(declare_queues("a", "b"), author="t").version
    rng = random.Random(SEED)
    following = ManifestTotals(data.manifest)
    assert following.totals() == Totals()
    for batch in range(4):
        for stream in ("one", "two"):
            commit(data, stream, batch, version, rng)
            assert_equal(following.totals(), reference(read_manifest(data)))
    assert_equal(ManifestTotals(data.manifest).totals(), reference(read_manifest(data)))


def test_a_look_reads_only_what_was_committed_since(data: DataDir, store: TopologyStore) -> None:
    version = store.edit(declare_queues("a", "b"), author="t").version
    rng = random.Random(SEED)
    for batch in range(5):
        commit(data, "one", batch, version, rng)
    following = ManifestTotals(data.manifest)
    following.totals()
    whole = following.files_read
    following.totals()
    assert following.files_read == whole
    commit(data, "one", 5, version, rng)
    following.totals()
    assert following.files_read == whole + 1


def test_compaction_counts_nothing_twice_and_vacuum_loses_nothing(data: DataDir, store: TopologyStore) -> None:
    version = store.edit(declare_queues("a", "b"), author="t").version
    rng = random.Random(SEED)
    for batch in range(3):
        commit(data, "one", batch, version, rng)
    following, late = ManifestTotals(data.manifest), ManifestTotals(data.manifest)
    following.totals()
    late.totals()
    commit(data, "one", 3, version, rng)
    expected = reference(read_manifest(data))
    table = DeltaTable(data.manifest)
    table.optimize.compact()
    assert_equal(following.totals(), expected)
    live = {Path(uri).name for uri in table.file_uris()}
    for file in Path(data.manifest).glob("*.parquet"):
        if file.name not in live:
            file.unlink()
    assert_equal(late.totals(), expected)


def test_totals_that_were_handed_out_do_not_change(data: DataDir, store: TopologyStore) -> None:
    version = store.edit(declare_queues("a", "b"), author="t").version
    rng = random.Random(SEED)
    commit(data, "one", 0, version, rng)
    following = ManifestTotals(data.manifest)
    first, expected = following.totals(), reference(read_manifest(data))
    commit(data, "one", 1, version, rng)
    assert_equal(following.totals(), reference(read_manifest(data)))
    assert_equal(first, expected)
    assert following.totals() is following.totals()


def test_of_canaries_that_are_long_past_the_sums_are_kept() -> None:
    """However many canaries a vhost has had, its totals stay small, and the counters of metrics only grow."""
    totals = Totals()
    for started in range(30):
        counted = {
            ("/", started, "messages", ""): (10, None),
            ("/", started, "gained", "q"): (4, f"s:{started}:0"),
        }
        row = {
            "stream": "s",
            "records": 1,
            "copies": 1,
            "committed_at": datetime.now(UTC),
            "canary": canary_rows(counted),
        }
        totals.add(pa.Table.from_pylist([row], schema=MANIFEST.schema))
    assert sum(number for (_, _, what, _), number in totals.canary.items() if what == "messages") == 300
    assert totals.canary["/", -1, "messages", ""] == 10 * (30 - CANARIES)
    newest = range(30 - CANARIES, 30)
    assert {started for _, started, what, _ in totals.canary if what == "gained"} == set(newest)
    assert totals.canary_examples == {("/", started, "gained", "q"): f"s:{started}:0" for started in newest}
