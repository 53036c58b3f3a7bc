"""How streams stand: from the manifest, the pins and the jobs on record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bindery.router.message import Message
from bindery.router.model import Queue
from bindery.router.values import Table
from bindery.store import effects, tables
from bindery.store import newest as module
from bindery.store.commit import BatchCommitter, BatchCounts
from bindery.store.deferred import materialise_now, materialise_queue
from bindery.store.jobs import JobRecord, JobRegistry, Process, Run, RunStatus
from bindery.store.journal_files import Journal
from bindery.store.journal_sizes import JournalSizes
from bindery.store.log import TableLog
from bindery.store.maintenance import maintain
from bindery.store.maintenance.journals import Kept, keep_journal
from bindery.store.maintenance.policy import Policy
from bindery.store.overview import StreamState, overview
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.streams import register
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import declare_queues, deliver
from tests.unit.store.routed import route

LONG_AFTER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def version(store: TopologyStore) -> int:
    return store.edit(declare_queues("a", "b"), author="t").version


def one(data: DataDir) -> StreamState:
    (found,) = overview(data).streams
    return found


def test_a_stream_stands_where_the_manifest_says(data: DataDir, version: int) -> None:
    epoch = register(data, "s", "1")
    with BatchCommitter(data, stream="s", app_id=epoch.app_id) as committer:
        for number in range(3):
            deliver(data, committer, number, version, "a", "b", rows=5)
    found = one(data)
    assert (found.batches, found.records, found.copies, found.unroutable) == (3, 15, 30, 0)
    assert found.last is not None
    assert (found.last.number, found.last.topology_version, found.last.records) == (2, version, 5)
    assert found.committed_at == found.last.committed_at
    assert (found.begun, found.state, list(found.wrong(LONG_AFTER))) == (None, "no job", [])
    shown = found.as_data(found.committed_at + timedelta(seconds=90))
    assert shown["age_seconds"] == 90
    assert shown["last_batch"]["milliseconds"].keys() == {"commit"}
    whole = overview(data)
    assert (whole.topology_version, whole.queues) == (version, 2)


def test_a_batch_that_is_begun_and_not_committed_is_wrong_unless_a_job_is_at_it(data: DataDir, version: int) -> None:
    epoch = register(data, "s", "1")
    begun = 1_700_000_000_000
    with BatchCommitter(data, stream="s", app_id=epoch.app_id) as committer:
        deliver(data, committer, 0, version, "a")
        committer.pin(1, version, begun)
        found = one(data)
        since = datetime.fromtimestamp(begun / 1000, UTC)
        assert found.begun == (1, since)
        assert list(found.wrong(since + timedelta(seconds=59))) == []
        (said,) = found.wrong(since + timedelta(seconds=61))
        assert said.startswith("batch 1 was begun at 2023-11-14T22:13:20Z and is not committed")
        unread = {("exchange", "/", "orders", "syntax"): 3}
        counts = BatchCounts(unroutable={"no-binding": 2}, unparsable=unread, records=4)
        committer.commit(1, committer.pin(1, version, begun), [], counts)
    found = one(data)
    assert found.begun is None
    assert list(found.wrong(LONG_AFTER)) == [
        "2 of 4 records of the last batch reached no queue: no-binding 2",
        "filters of exchange 'orders' could not read 3 bodies of the last batch: syntax",
    ]


def test_the_newest_batches_are_read_once_each(data: DataDir, version: int) -> None:
    newest = module.NewestBatches(data, each=3)

    def look() -> dict[str, list[int]]:
        return {one.stream: [batch.number for batch in one.newest] for one in overview(data, newest=newest).streams}

    assert look() == {}
    for stream, batches in (("long", 5), ("short", 1)):
        epoch = register(data, stream, "1")
        with BatchCommitter(data, stream=stream, app_id=epoch.app_id) as committer:
            for number in range(batches):
                deliver(data, committer, number, version, "a")
    assert look() == {"long": [4, 3, 2], "short": [0]}
    assert newest.files_read == 4
    assert look() == {"long": [4, 3, 2], "short": [0]}
    assert newest.files_read == 4
    with BatchCommitter(data, stream="short", app_id=epoch.app_id) as committer:
        deliver(data, committer, 1, version, "a")
    assert look() == {"long": [4, 3, 2], "short": [1, 0]}
    assert newest.files_read == 5
    assert maintain(data, Policy(fan_in=2)).tables[-1].error is None
    assert look() == {"long": [4, 3, 2], "short": [1, 0]}


def test_a_batch_takes_as_long_as_its_stages_and_tasks_run_side_by_side(data: DataDir, version: int) -> None:
    epoch = register(data, "s", "1")
    with BatchCommitter(data, stream="s", app_id=epoch.app_id) as committer:
        counts = BatchCounts(timings_ms={"prepare": 5, "tasks": 20, "task read": 30, "task write": 8})
        committer.commit(0, committer.pin(0, version, 1_000), [], counts)
    last = one(data).last
    assert last is not None
    whole = last.milliseconds["prepare"] + last.milliseconds["tasks"] + last.milliseconds["commit"]
    assert last.duration == timedelta(milliseconds=whole)


def test_the_first_batch_of_another_epoch_is_not_mistaken_for_an_old_one(data: DataDir, version: int) -> None:
    first = register(data, "s", "1")
    with BatchCommitter(data, stream="s", app_id=first.app_id) as committer:
        deliver(data, committer, 0, version, "a")
    second = register(data, "s", "2", new_epoch=True)
    with BatchCommitter(data, stream="s", app_id=second.app_id) as committer:
        committer.pin(second.first_batch, version, 5_000)
    assert one(data).begun == (second.first_batch, datetime.fromtimestamp(5, UTC))


def test_a_damaged_pin_is_left_to_its_stream(data: DataDir, version: int) -> None:
    epoch = register(data, "s", "1")
    at(data.pins(epoch.app_id)).make_folder()
    at(data.pins(epoch.app_id), "7.json").put_new(b"{")
    assert one(data).begun is None


def test_a_job_says_how_it_ended_and_what_it_waits_for(data: DataDir, store: TopologyStore) -> None:
    folder = JobRegistry(data).folder("s")
    run = Run("r", 1, Process(1, 1, "elsewhere"), 1.0)
    folder.save(JobRecord("s", {"stream": "s"}, "t", 1.0, run))
    error = {"code": "x", "message": "no such path", "hint": "give another"}
    folder.report(RunStatus("r", "failed", 2.0, error=error))
    found = one(data)
    assert (found.state, found.batches) == ("failed", 0)
    assert list(found.wrong(LONG_AFTER)) == ["its job failed: no such path (give another)"]
    assert found.as_data(LONG_AFTER)["wrong"] == list(found.wrong(LONG_AFTER))


def test_looking_reads_a_bounded_part_of_a_long_manifest(
    data: DataDir, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_NEWEST_ROWS", 3)
    for stream in ("old", "new"):
        epoch = register(data, stream, "1")
        with BatchCommitter(data, stream=stream, app_id=epoch.app_id) as committer:
            for number in range(4):
                deliver(data, committer, number, version, "a")
    new, old = overview(data).streams
    assert old.last is not None  # a stream's newest file is found, whatever came later
    assert (old.batches, old.last.number, old.begun) == (4, 3, None)
    assert maintain(data, Policy(fan_in=8)).tables[-1].error is None
    new, old = overview(data).streams
    assert (old.batches, old.last, old.begun) == (4, None, None)  # merged with those of the other
    assert old.committed_at is not None
    assert new.last is not None


def test_what_a_journal_holds_is_told_by_its_log_alone(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare_queues("q"), author="t")
    for batch in range(2):
        route(
            data,
            store,
            [Message("", "q")] * 3,
            stream="kept",
            batch_id=batch,
            clock_ms=60_000 * batch + 5,
            journal=True,
        )
    route(data, store, [Message("", "q")], stream="other")
    keep_journal(data, "kept", "/", Kept(timedelta(days=2), 1 << 27))
    files = tables.files_of(TableLog(data.journal("kept"), files=True)).values()
    for file in files:
        effects.remove(at(data.journal("kept"), file.path))
    sizes = JournalSizes(data)
    kept, other = overview(data, journals=sizes).streams
    assert other.as_data(LONG_AFTER)["journal"] is None
    assert kept.as_data(LONG_AFTER)["journal"] == {
        "rows": 6,
        "bytes": sum(file.size for file in files),
        "oldest_row_at": "1970-01-01T00:00:00.005Z",
        "kept_seconds": 2 * 86_400,
        "kept_bytes": 1 << 27,
        "waiting_since": None,
        "late_seconds": 0.0,
    }
    assert sizes.of_all() == sizes.of_all()
    route(data, store, [Message("", "q")], stream="kept", batch_id=2, journal=True)
    assert sizes.of_all()["kept"].rows == 7


def test_copies_that_are_late_are_among_what_is_wrong(data: DataDir, store: TopologyStore) -> None:
    store.edit(
        lambda editor: editor.declare_queue(Queue("/", "late", arguments=Table({"x-freshness": 60}))), author="t"
    )
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    clock = int(begun.timestamp() * 1000)
    route(data, store, [Message("", "late")], clock_ms=clock)
    route(data, store, [Message("", "late")], batch_id=1, clock_ms=clock + 1000)
    for seconds, late in ((0, 0), (60, 0), (80, 20), (91, 31)):
        (stream,) = overview(data).streams
        moment = begun + timedelta(seconds=seconds)
        said = stream.as_data(moment)
        assert (said["journal"]["waiting_since"], said["journal"]["late_seconds"]) == ("2026-01-01T00:00:00.000Z", late)
        assert any("late by 31 s" in one for one in said["wrong"]) == (late > 30)
    materialise_queue(data, store, "/", "late")
    materialise_now(store, Journal.open(data.journal("flights")))
    assert overview(data).streams[0].as_data(begun)["journal"]["waiting_since"] is None
