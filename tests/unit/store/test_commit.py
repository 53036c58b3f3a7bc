from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from bindery.router.errors import CheckpointMismatch, CommitConflict, Fenced, Refused, UnsupportedTable, UnusablePin
from bindery.router.message import UNROUTABLE_SCHEMA
from bindery.store import data_files, faults, tables
from bindery.store.commit import BatchCommitter, BatchCounts, Pin, WrittenFile
from bindery.store.log import TableLog
from bindery.store.manifest import newest_rows, read_manifest
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import Crash, at, crash, declare_queues, deliver, queue_rows, written

APP = "flights:c1"
QUEUES = ("a", "b", "c")


def committer_of(data: DataDir, **options: object) -> BatchCommitter:
    return BatchCommitter(data, stream="flights", app_id=APP, **options)  # type: ignore[arg-type]


@pytest.fixture
def version(store: TopologyStore) -> int:
    return store.edit(declare_queues(*QUEUES), author="t").version


def identities(data: DataDir, queue: str) -> list[tuple[int, int]]:
    rows = DeltaTable(data.queue("/", queue)).to_pyarrow_table()["routing"].to_pylist()
    return sorted((row["batch_id"], row["seq"]) for row in rows)


# -- pins -----------------------------------------------------------------------------------------------


def test_a_replayed_batch_gets_the_topology_version_and_clock_of_its_first_attempt(data: DataDir) -> None:
    with committer_of(data) as committer:
        assert committer.pin(7, 3, 1_000) == Pin(3, 1_000)
        assert committer.pin(7, 9, 2_000) == Pin(3, 1_000)
    with committer_of(data) as committer:
        assert committer.pin(7, 9, 3_000) == Pin(3, 1_000)
        assert committer.pin(8, 9, 3_000) == Pin(9, 3_000)


def test_a_finished_batch_says_so_even_when_its_pin_is_gone(data: DataDir, version: int) -> None:
    with committer_of(data) as committer:
        for batch in range(5):
            deliver(data, committer, batch, version, "a")
        assert committer.pin(4, 99, 99) == Pin(version, 1_004, done=True)
        assert committer.pin(0, 99, 99) == Pin(version, 1_000, done=True)
    assert len(place(data.pins(APP)).files()) <= 2


def test_a_damaged_pin_is_named(data: DataDir) -> None:
    with committer_of(data) as committer:
        committer.pin(0, 1, 1)
        path = place(data.pins(APP), "0.json")
        path.replace(b"{")
        with pytest.raises(UnusablePin, match="damaged") as caught:
            committer.pin(0, 1, 1)
        assert caught.value.where == str(path)
        assert "--repin" in str(caught.value.hint)
        committer.release_pin(0)
        assert committer.pin(0, 2, 2) == Pin(2, 2)


def test_a_check_that_fails_leaves_no_pin_and_is_not_asked_of_a_replay(data: DataDir) -> None:
    def fails() -> None:
        raise Refused("a loop")

    with committer_of(data) as committer:
        with pytest.raises(Refused, match="a loop"):
            committer.pin(0, 1, 1, check=fails)
        assert committer.pin(0, 2, 2, check=lambda: None) == Pin(2, 2)
        assert committer.pin(0, 3, 3, check=fails) == Pin(2, 2)


def test_a_batch_that_any_table_has_recorded_keeps_its_pin(data: DataDir, version: int) -> None:
    dies = faults.installed(at("batch.appended", crash, where=data.queue("/", "b")))
    with committer_of(data) as committer, dies, pytest.raises(Crash):
        deliver(data, committer, 0, version, "b")
    with committer_of(data) as committer:
        with pytest.raises(Refused, match="queues/~2F/b,") as caught:
            committer.release_pin(0)
        assert "queues/~2F/a" not in str(caught.value)
        assert committer.pin(0, 9, 9) == Pin(version, 1_000)


def test_a_driver_that_lost_the_stream_releases_no_pin(data: DataDir) -> None:
    with committer_of(data) as older, committer_of(data) as newer:
        newer.pin(0, 1, 1)
        with pytest.raises(Fenced):
            older.release_pin(0)
        assert newer.pin(0, 2, 2) == Pin(1, 1)


def test_a_replay_is_split_as_at_first(data: DataDir) -> None:
    with committer_of(data) as committer:
        first = committer.pin(0, 1, 1, source="plan", splits={"size": "1"})
    with committer_of(data) as committer:
        assert committer.known_pin(0) == first
        assert committer.pin(0, 2, 2, source="plan", splits={"size": "9"}) == first
        assert committer.known_pin(1) is None


def test_a_batch_that_was_begun_and_reads_something_else_now_is_not_routed(data: DataDir) -> None:
    with committer_of(data) as committer:
        committer.pin(0, 1, 1, source="plan")
        with pytest.raises(UnusablePin, match="planned the batch anew"):
            committer.pin(0, 1, 1, source="another")
        committer.release_pin(0)
        assert committer.pin(0, 1, 1, source="another").source == "another"


@pytest.mark.parametrize("later", [0, 4], ids=["pinned", "in the manifest only"])
def test_a_committed_batch_that_reads_something_else_now_is_refused(data: DataDir, version: int, later: int) -> None:
    with committer_of(data) as committer:
        for batch in range(later + 1):
            pin = committer.pin(batch, version, 1, source=f"plan {batch}")
            committer.commit(batch, pin, [], BatchCounts())
        assert committer.pin(0, version, 2, source="plan 0").done
        with pytest.raises(CheckpointMismatch, match="batch 0 of stream 'flights' is committed") as caught:
            committer.pin(0, version, 2, source="another")
        assert "--new-epoch" in str(caught.value.hint)


def test_pins_and_manifest_rows_of_an_older_version_tell_nothing_about_sources(data: DataDir) -> None:
    with committer_of(data) as committer:
        committer.pin(0, 1, 1)
        assert committer.pin(0, 1, 1, source="plan", splits={"size": "1"}) == Pin(1, 1)
        committer.commit(0, Pin(1, 1), [], BatchCounts())
        assert committer.pin(0, 1, 1, source="plan").done


# -- commits --------------------------------------------------------------------------------------------


def test_a_batch_is_one_commit_per_table_and_one_manifest_row(data: DataDir, version: int) -> None:
    counts = BatchCounts(
        records=3,
        copies=6,
        exchanges={("/", "x"): 3},
        bindings={1: 3, 2: 3},
        unroutable={"no_binding": 1},
        filter_unknowns={"a > 1": 2},
        timings_ms={"route": 1.5},
    )
    with committer_of(data) as committer:
        pin = committer.pin(0, version, 1_000)
        rows = queue_rows(0, range(3), version=version)
        files = [written(data, name, part) for name in ("a", "b") for part in (rows.slice(0, 1), rows.slice(1))]
        result = committer.commit(0, pin, files, counts)
    assert [(one.name, one.version, one.rows) for one in result] == [("a", 1, 3), ("b", 1, 3)]
    assert identities(data, "a") == identities(data, "b") == [(0, 0), (0, 1), (0, 2)]
    table = DeltaTable(data.queue("/", "a"))
    assert table.transaction_version(APP) == 0
    assert table.history(1)[0]["bindery.topologyVersion"] == version
    assert table.history(1)[0]["isBlindAppend"] is True
    (row,) = read_manifest(data, app_id=APP)
    assert (row["batch_id"], row["topology_version"], row["records"], row["copies"]) == (0, version, 3, 6)
    assert [(one["name"], one["version"], one["rows"]) for one in row["tables"]] == [("a", 1, 3), ("b", 1, 3)]
    assert row["exchanges"] == [{"vhost": "/", "name": "x", "records": 3}]
    assert dict(row["bindings"]) == {1: 3, 2: 3}
    assert dict(row["unroutable"]) == {"no_binding": 1}
    assert dict(row["timings_ms"]).keys() == {"route", "commit"}


def test_an_empty_batch_still_gets_its_manifest_row(data: DataDir) -> None:
    with committer_of(data) as committer:
        result = committer.commit(0, committer.pin(0, 1, 1), [], BatchCounts())
        assert result == ()
        assert committer.pin(0, 1, 1).done


def test_unroutable_rows_go_to_the_table_of_their_vhost(data: DataDir, version: int) -> None:
    with committer_of(data) as committer:
        pin = committer.pin(0, version, 1)
        rows = pa.Table.from_pylist([{"exchange": "x", "reason": "no_binding"}], schema=UNROUTABLE_SCHEMA)
        tables.ensure_unroutable_table(data, "v w")
        added = data_files.write_file(data.unroutable("v w"), rows)
        committer.commit(0, pin, [WrittenFile("unroutable", "v w", "", added.path, added.size, 1)], BatchCounts())
    assert DeltaTable(data.unroutable("v w")).to_pyarrow_table()["reason"].to_pylist() == ["no_binding"]


@pytest.mark.parametrize(
    ("point", "queue"),
    [
        ("batch.pinned", ""),
        ("batch.appending", "a"),
        ("batch.appending", "b"),
        ("batch.appended", "c"),
        ("batch.in_tables", ""),
        ("batch.in_manifest", ""),
    ],
)
def test_a_driver_that_dies_at_any_step_loses_and_doubles_nothing(
    data: DataDir, version: int, point: str, queue: str
) -> None:
    with committer_of(data) as committer:
        deliver(data, committer, 0, version, *QUEUES)
    dies = faults.installed(at(point, crash, where=data.queue("/", queue) if queue else ""))
    with committer_of(data, workers=1) as dying, dies, pytest.raises(Crash):
        deliver(data, dying, 1, version, *QUEUES)
    with committer_of(data) as again:
        pin = again.pin(1, version + 5, 9_999)
        assert (pin.topology_version, pin.clock_ms) == (version, 1_001)
        assert pin.done == (point == "batch.in_manifest")
        if not pin.done:
            deliver(data, again, 1, version, *QUEUES)
        deliver(data, again, 2, version, *QUEUES)
    expected = [(batch, seq) for batch in range(3) for seq in range(3)]
    assert all(identities(data, name) == expected for name in QUEUES)
    assert [row["batch_id"] for row in read_manifest(data, app_id=APP)] == [0, 1, 2]


DRIVER = """
import os, sys
from bindery.store import faults
from bindery.store.paths import DataDir
from tests.unit.store.conftest import at, deliver
from bindery.store.commit import BatchCommitter
data = DataDir.open(sys.argv[1])
committer = BatchCommitter(data, stream="flights", app_id="flights:c1")
with faults.installed(at("batch.appending", lambda: os._exit(9), where=data.queue("/", "b"))):
    deliver(data, committer, 0, int(sys.argv[2]), "a", "b", "c")
"""


def test_a_killed_process_loses_and_doubles_nothing(data: DataDir, version: int) -> None:
    command = [sys.executable, "-c", DRIVER, data.root, str(version)]
    assert subprocess.run(command, timeout=120, check=False).returncode == 9
    with committer_of(data) as again:
        assert not again.pin(0, version, 5).done
        deliver(data, again, 0, version, *QUEUES)
    assert all(identities(data, name) == [(0, 0), (0, 1), (0, 2)] for name in QUEUES)


# -- rivals -------------------------------------------------------------------------------------------


def test_a_new_driver_fences_the_old_one(data: DataDir, version: int) -> None:
    with committer_of(data) as old:
        pin = old.pin(0, version, 1)
        old.check_owner()
        with committer_of(data) as new:
            new.check_owner()
            with pytest.raises(Fenced):
                old.check_owner()
            with pytest.raises(Fenced) as fenced:
                old.commit(0, pin, [written(data, "a", queue_rows(0, range(3), version=version))], BatchCounts())
            assert fenced.value.exit_code == 3
            with pytest.raises(Fenced):
                old.pin(1, version, 1)
            deliver(data, new, 0, version, "a")
    assert identities(data, "a") == [(0, 0), (0, 1), (0, 2)]


def test_without_a_claim_a_batch_recorded_by_a_rival_meanwhile_fences(data: DataDir, version: int) -> None:
    rival = committer_of(data, claim=False)

    overtaken = faults.installed(at("batch.appending", lambda: deliver(data, rival, 0, version, "a")))
    with committer_of(data, claim=False) as slow, overtaken, pytest.raises(Fenced):
        deliver(data, slow, 0, version, "a")
    rival.close()
    assert identities(data, "a") == [(0, 0), (0, 1), (0, 2)]


def test_two_streams_into_one_queue_both_succeed(data: DataDir, version: int) -> None:
    other = BatchCommitter(data, stream="other", app_id="other:c1")
    overtaken = faults.installed(at("batch.appending", lambda: deliver(data, other, 0, version, "a")))
    with committer_of(data) as slow, overtaken:
        result = deliver(data, slow, 0, version, "a")
    other.close()
    assert result[0].retries == 1
    assert len(identities(data, "a")) == 6


def test_an_append_that_loses_every_race_is_reported(
    data: DataDir, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ATTEMPTS", 2)

    overtaken = faults.installed(at("batch.appending", lambda: TableLog(data.queue("/", "a")).commit(()), times=2))
    with committer_of(data) as committer, overtaken, pytest.raises(CommitConflict):
        deliver(data, committer, 0, version, "a")
    with committer_of(data) as committer:
        deliver(data, committer, 0, version, "a")
    assert len(identities(data, "a")) == 3


def test_a_table_that_became_foreign_stops_the_batch_and_the_replay_completes_it(data: DataDir, version: int) -> None:
    path = data.queue("/", "b")
    DeltaTable(path).alter.set_table_properties({"bindery.format_version": "9"}, raise_if_not_exists=False)
    with committer_of(data) as committer:
        with pytest.raises(UnsupportedTable, match="format version 9"):
            deliver(data, committer, 0, version, *QUEUES)
        assert not committer.pin(0, version, 1).done
        DeltaTable(path).alter.set_table_properties({"bindery.format_version": "1"}, raise_if_not_exists=False)
        deliver(data, committer, 0, version, *QUEUES)
    assert all(len(identities(data, name)) == 3 for name in QUEUES)


def test_a_table_of_an_older_schema_grows_the_columns_that_rows_need(data: DataDir, version: int) -> None:
    older = pa.schema([field for field in UNROUTABLE_SCHEMA if field.name != "detail"])
    tables.create_table(data.unroutable("/"), tables.Kind("unroutable", older, {}), vhost="/")
    rows = pa.Table.from_pylist([{"detail": "why"}], schema=UNROUTABLE_SCHEMA)
    added = data_files.write_file(data.unroutable("/"), rows)
    with committer_of(data) as committer:
        pin = committer.pin(0, version, 1)
        committer.commit(0, pin, [WrittenFile("unroutable", "/", "", added.path, added.size, 1)], BatchCounts())
    assert DeltaTable(data.unroutable("/")).to_pyarrow_table()["detail"].to_pylist() == ["why"]


# -- queues that come and go --------------------------------------------------------------------------


def test_a_batch_pinned_before_a_deletion_appends_nothing_to_that_queue(
    data: DataDir, store: TopologyStore, version: int
) -> None:
    with committer_of(data) as committer:
        pin = committer.pin(0, version, 1)
        store.edit(lambda e: e.delete_queue("/", "a"), author="t")
        store.edit(declare_queues("a"), author="t")
        rows = queue_rows(0, range(3), version=pin.topology_version)
        result = committer.commit(0, pin, [written(data, name, rows) for name in ("a", "b")], BatchCounts())
        assert {one.name: (one.rows, one.dropped) for one in result} == {"a": (0, 3), "b": (3, 0)}
        deliver(data, committer, 1, store.load().version, "a", "b")
    assert identities(data, "a") == [(1, 0), (1, 1), (1, 2)]
    assert read_manifest(data)[0]["tables"][0]["dropped"] == 3


@pytest.mark.parametrize("rows_before", [0, 1])
def test_a_deletion_in_the_middle_of_an_append_wins(
    data: DataDir, store: TopologyStore, version: int, rows_before: int
) -> None:
    def delete() -> None:
        store.edit(lambda e: e.delete_queue("/", "a"), author="t")

    if rows_before:
        with BatchCommitter(data, stream="s", app_id="s:1") as other:
            deliver(data, other, 0, version, "a")
    with committer_of(data) as committer, faults.installed(at("batch.appending", delete)):
        result = deliver(data, committer, 0, version, "a")
    assert (result[0].rows, result[0].dropped) == (0, 3)
    assert tables.count_rows(data, "/", "a") == 0


# -- the tables at the start ----------------------------------------------------------------------------


def forget_newest_entry(path: str) -> None:
    """Lose the newest entry of a table's log, and what knows of it."""
    log = place(path, "_delta_log")
    names = list(log.files())
    newest = max(name for name in names if name.endswith(".json"))
    for name in names:
        if name == newest or "checkpoint" in name:
            (log / name).remove()


def test_a_table_whose_newest_entry_is_gone_is_named(data: DataDir, version: int) -> None:
    with committer_of(data) as committer:
        deliver(data, committer, 0, version, "a", "b")
        deliver(data, committer, 1, version, "b")
        committer.check_tables(since=0)
    forget_newest_entry(data.queue("/", "a"))
    with committer_of(data) as committer:
        with pytest.raises(UnsupportedTable, match=r"queues/~2F/a is at version 0, and .* version 1") as caught:
            committer.check_tables(since=0)
        assert "_delta_log" in str(caught.value.hint)
        committer.check_tables(since=1)  # what an epoch opened since has seen


def test_a_table_that_was_declared_anew_or_removed_may_be_behind(
    data: DataDir, store: TopologyStore, version: int
) -> None:
    with committer_of(data) as committer:
        for batch in range(2):
            deliver(data, committer, batch, version, "a", "b")
    for name in ("a", "b"):
        store.edit(lambda editor, name=name: editor.delete_queue("/", name), author="t")
        place(data.queue("/", name)).remove_folder()
    store.edit(declare_queues("a"), author="t")
    with committer_of(data) as committer:
        committer.check_tables(since=0)


def test_only_few_files_of_the_manifest_are_looked_at(data: DataDir, version: int) -> None:
    with committer_of(data) as committer:
        for batch in range(14):
            deliver(data, committer, batch, version, "a" if batch < 3 else "b")
    rows = newest_rows(data, app_id=APP, since=0, count=10)
    assert [row["batch_id"] for row in rows] == list(range(13, 3, -1))
    assert newest_rows(data, app_id="another", since=0, count=10) == []
    assert [row["batch_id"] for row in newest_rows(data, app_id=APP, since=12, count=10)] == [13, 12]
