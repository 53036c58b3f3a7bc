"""The journal of a stream: each message once, with the queues that it reached, kept for as long as is asked for."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.jobs.task import Held, RouteTask
from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.errors import InvalidInput, NotFound, UnsupportedTable
from bindery.router.message import (
    JOURNAL_SCHEMA,
    QUEUE_SCHEMA,
    SOURCE,
    UNROUTABLE_SCHEMA,
    Message,
    from_batch,
    to_batch,
)
from bindery.router.model import DEFAULT_VHOST, Binding, Exchange, Queue, Topology, Vhost
from bindery.router.values import Table
from bindery.store import faults, file_rows, tables
from bindery.store.commit import TableCommit
from bindery.store.consumer_filters import consumer_filter
from bindery.store.copying import copy_data
from bindery.store.journal_rows import Looked
from bindery.store.maintenance import maintain
from bindery.store.maintenance.journals import Kept, keep_journal
from bindery.store.maintenance.policy import Policy
from bindery.store.maintenance.upkeep import Upkeep
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.places import at
from bindery.store.read import RowId, delete_matching
from bindery.store.recorded import find_matching, find_row, source_position
from bindery.store.topology import TopologyStore
from bindery.store.writer import BATCH_SCHEMA, BatchStamp, QueueWriter
from tests.examples import examples
from tests.unit.engine.topologies import messages, topologies
from tests.unit.store.conftest import Crash, crash, declare_queues
from tests.unit.store.conftest import at as reached
from tests.unit.store.routed import route

DAY = 86_400_000
NOW = 20_000 * DAY + DAY // 2


def rows_of(path: str, schema: pa.Schema) -> list[dict[str, Any]]:
    """The rows of a table, by number."""
    files = tables.files_of(tables.TableLog(path, files=True))
    found = [row for file in files for row in at(path, file).read_parquet(schema).to_pylist()]
    return sorted(found, key=lambda row: (row["routing"]["batch_id"], row["routing"]["seq"]))


def journal(data: DataDir) -> list[dict[str, Any]]:
    return rows_of(data.journal("flights"), JOURNAL_SCHEMA)


def topology_of(editor: TopologyEditor) -> None:
    for name in ("a", "b"):
        editor.declare_queue(Queue("/", name))
        editor.bind(Binding(0, "/", "amq.topic", name, "queue", f"#.{name}.#"))
    editor.declare_exchange(Exchange("/", "quiet", "direct", arguments=Table({"x-record-unroutable": False})))


MESSAGES = [
    Message("amq.topic", "a", cc=("b",), bcc=("c",)),
    Message("amq.topic", "b"),
    Message("amq.topic", "c", mandatory=True),
    Message("quiet", "c"),
]


# -- what is in it --------------------------------------------------------------------------------------


@given(topologies(), st.lists(messages, max_size=12), st.sampled_from([1, 1 << 30]))
@examples(40)
def test_queues_and_journal_agree(topology: Topology, sent: list[Message], buffer_bytes: int) -> None:
    """A row is in a queue's table if and only if the journal's row of its number names the queue."""
    router = Router.compile(topology, DEFAULT_VHOST)
    count = len(sent)
    numbers = pa.array(np.arange(count)[::-1].copy())  # as a source may give them
    batch = pa.RecordBatch.from_arrays([*to_batch(sent).columns, pa.nulls(count, SOURCE), numbers], schema=BATCH_SCHEMA)
    with tempfile.TemporaryDirectory() as folder:
        data = DataDir.open(folder)
        for name in router.queues:
            Path(data.queue("/", name)).mkdir(parents=True)
        stamp = BatchStamp("s", 3, topology.version, 0)
        ids = router.queue_ids
        writer = QueueWriter(data, vhost="/", queues=router.queues, stamp=stamp, buffer_bytes=buffer_bytes, journal=ids)
        for rows in (batch.slice(0, count // 2), batch.slice(count // 2)):
            writer.add(rows, router.route(rows, clock_ms=0))
        in_tables: dict[int, set[int]] = defaultdict(set)
        lost: dict[int, tuple[str, str, str]] = {}
        noted: dict[int, dict[str, Any]] = {}
        for file in writer.close():
            path = at(data.routed(file.kind, file.vhost, file.name), file.path)
            schema = {"queue": QUEUE_SCHEMA, "unroutable": UNROUTABLE_SCHEMA, "journal": JOURNAL_SCHEMA}[file.kind]
            rows = path.read_parquet(schema).to_pylist()
            assert len(rows) == file.rows
            seqs = [row["routing"]["seq"] for row in rows]
            if file.kind == "journal":
                assert seqs == sorted(seqs)
                assert file.name == "s"
            for seq, row in zip(seqs, rows, strict=True):
                if file.kind == "queue":
                    assert seq not in in_tables or topology.queues["/", file.name].id not in in_tables[seq]
                    in_tables[seq].add(topology.queues["/", file.name].id)
                elif file.kind == "unroutable":
                    lost[seq] = (row["reason"], row["disposition"], row["detail"])
                else:
                    assert seq not in noted
                    noted[seq] = row
    assert sorted(noted) == list(range(count))
    for seq, row in noted.items():
        assert len(row["routing"]["queues"]) == len(set(row["routing"]["queues"]))
        assert set(row["routing"]["queues"]) == in_tables[seq]
        why = (row["reason"], row["disposition"], row["detail"])
        assert lost.get(seq, why) == why
        assert (row["disposition"] in (None, "delivered")) == bool(in_tables[seq])
        published = sent[count - 1 - seq]
        assert (row["exchange"], row["routing_key"]) == (published.exchange, published.routing_key)
        assert row["bcc"] == (list(published.bcc) or None) or row["bcc"] == list(published.bcc)


def test_each_message_is_there_once_with_what_became_of_it(data: DataDir, store: TopologyStore) -> None:
    ids = {name: queue.id for (_, name), queue in store.edit(topology_of, author="t").topology.queues.items()}
    route(data, store, MESSAGES, journal=True, clock_ms=NOW)
    found = journal(data)
    assert [row["routing"]["queues"] for row in found] == [[ids["a"], ids["b"]], [ids["b"]], [], []]
    assert [(row["reason"], row["disposition"]) for row in found] == [
        (None, None),
        (None, None),
        ("no_binding", "returned"),
        ("no_binding", "discarded"),  # which has no row in the unroutable table
    ]
    assert found[0]["bcc"] == ["c"], "as it was published"
    assert found[1]["source"]["row_index"] == 1
    (queue_row,) = rows_of(data.queue("/", "a"), QUEUE_SCHEMA)
    assert {**queue_row["routing"], "queues": [ids["a"], ids["b"]], "deferred": None} == found[0]["routing"]
    (ended,) = read_manifest(data)
    assert [one["rows"] for one in ended["tables"] if one["kind"] == "journal"] == [4]
    assert ended["copies"] == 3


def test_a_batch_that_runs_again_doubles_nothing(data: DataDir, store: TopologyStore) -> None:
    store.edit(topology_of, author="t")
    with faults.installed(reached("batch.in_tables", crash)), pytest.raises(Crash):
        route(data, store, MESSAGES, journal=True, clock_ms=NOW)
    first = journal(data)
    assert len(first) == 4
    route(data, store, MESSAGES, journal=True, clock_ms=NOW + 1)
    assert journal(data) == first
    route(data, store, MESSAGES, journal=True, batch_id=1)
    assert len(journal(data)) == 8


def test_a_stream_begins_a_journal_and_ends_it_between_any_two_batches(data: DataDir, store: TopologyStore) -> None:
    store.edit(topology_of, author="t")
    for number, kept in enumerate([False, True, False]):
        route(data, store, MESSAGES, journal=kept, batch_id=number)
    assert {row["routing"]["batch_id"] for row in journal(data)} == {1}


@pytest.mark.parametrize("has_ids", [True, False])
def test_a_batch_pinned_to_a_topology_from_before_queues_had_ids_gets_no_rows(data: DataDir, has_ids: bool) -> None:
    editor = TopologyEditor(Topology.empty())
    editor.declare_queue(Queue("/", "a"))
    if not has_ids:
        editor._put("queues", ("/", "a"), Queue("/", "a"))
    at(data.queue("/", "a")).make_folder()
    sent = to_batch([Message("", "a")])

    def fold(batch: pa.RecordBatch, seq: pa.Array, *, clock_ms: int = 0) -> tuple[pa.RecordBatch, None]:
        return pa.RecordBatch.from_arrays([*batch.columns, pa.nulls(1, SOURCE), seq], schema=BATCH_SCHEMA), None

    held = Held(Router.compile(editor.topology, "/"))
    task = RouteTask(data, "/", BatchStamp("s", 0, 0, 0), fold, held, 1 << 20, journal=True)
    kinds = [file["kind"] for file in task.route(iter([sent]))["files"]]
    assert kinds == (["journal", "queue"] if has_ids else ["queue"])


# -- how much of it is kept -----------------------------------------------------------------------------


def fill(data: DataDir, store: TopologyStore, days: range) -> None:
    """Two batches on each day before now."""
    for number, day in enumerate(reversed(days)):
        for half in (0, 1):
            clock_ms = NOW - day * DAY + half * 1000
            route(data, store, MESSAGES, journal=True, batch_id=2 * number + half, clock_ms=clock_ms)


def kept_days(data: DataDir) -> list[int]:
    return sorted({(NOW - int(row["routed_at"].timestamp() * 1000) + 1000) // DAY for row in journal(data)})


def test_rows_older_than_the_retention_go_with_their_files(data: DataDir, store: TopologyStore) -> None:
    store.edit(topology_of, author="t")
    fill(data, store, range(10))
    report = maintain(data, Policy(fan_in=2), dry_run=True, clock=lambda: NOW + 2000)
    assert [one.trimmed for one in report.tables if one.kind == "journal"] == [6]
    report = maintain(data, Policy(fan_in=2), clock=lambda: NOW + 2000)
    (one,) = [one for one in report.tables if one.kind == "journal"]
    assert (one.trimmed, one.merged, one.into, one.error) == (6, 14, 7, None), "old rows are not merged first"
    assert kept_days(data) == list(range(7)), "seven days, by default"
    assert len(tables.files_of(tables.TableLog(data.journal("flights"), files=True))) == 7, "days stay apart"
    keep_journal(data, "flights", "/", Kept(timedelta(days=2)))
    maintain(data, Policy(fan_in=2), clock=lambda: NOW + 2000)
    assert kept_days(data) == [0, 1]
    assert not maintain(data, Policy(fan_in=2), clock=lambda: NOW + 2000).failed


def test_above_its_size_the_oldest_files_go(data: DataDir, store: TopologyStore) -> None:
    store.edit(topology_of, author="t")
    fill(data, store, range(3))
    sizes = [file.size for file in tables.files_of(tables.TableLog(data.journal("flights"), files=True)).values()]
    keep_journal(data, "flights", "/", Kept(timedelta(days=9), sum(sizes) - max(sizes) - 1))
    maintain(data, Policy(fan_in=99), clock=lambda: NOW)
    assert [row["routing"]["batch_id"] for row in journal(data)[::4]] == [2, 3, 4, 5]


def test_what_is_kept_stands_in_the_table_and_a_journal_is_of_one_vhost(data: DataDir, store: TopologyStore) -> None:
    keep_journal(data, "flights", "/", Kept(timedelta(hours=5), 1 << 30))
    log = tables.TableLog(data.journal("flights"))
    version = log.version
    assert Kept.of(log.state.configuration) == Kept(timedelta(hours=5), 1 << 30)
    keep_journal(data, "flights", "/", Kept(timedelta(hours=5), 1 << 30))
    assert tables.TableLog(data.journal("flights")).version == version, "once"
    keep_journal(data, "flights", "/", Kept())
    assert Kept.of(tables.TableLog(data.journal("flights")).state.configuration) == Kept()
    with pytest.raises(UnsupportedTable) as raised:
        keep_journal(data, "flights", "v", Kept())
    assert "vhost" in str(raised.value)
    assert raised.value.hint is not None


def test_a_job_looks_after_the_journal_that_it_writes(data: DataDir, store: TopologyStore) -> None:
    store.edit(topology_of, author="t")
    store.edit(declare_queues("more"), author="t")
    with Upkeep(data, Policy(fan_in=2)) as upkeep:
        for number in range(6):
            route(data, store, MESSAGES, journal=True, batch_id=number)
            (ended,) = read_manifest(data, batch_id=number)
            upkeep.committed([_commit(one) for one in ended["tables"]])
        upkeep.drain()
    assert len(tables.files_of(tables.TableLog(data.journal("flights"), files=True))) < 6
    assert len(journal(data)) == 24


def _commit(one: dict[str, Any]) -> TableCommit:
    return TableCommit(one["kind"], one["vhost"], one["name"], one["version"], one["rows"])


# -- finding messages -----------------------------------------------------------------------------------


def test_a_message_that_no_queue_has_any_more_is_found(data: DataDir, store: TopologyStore) -> None:
    topology = store.edit(topology_of, author="t").topology
    route(data, store, MESSAGES, journal=True, clock_ms=NOW)
    route(data, store, MESSAGES[:1], journal=True, batch_id=1, clock_ms=NOW)
    assert find_row(data, topology, "/", RowId("flights", 0, 0)).queue == "a"
    for name in ("a", "b"):
        delete_matching(data, name, None)
    found = find_row(data, topology, "/", RowId("flights", 0, 0))
    assert (found.journal, found.queue, found.reason, found.clock_ms) == (True, None, None, NOW)
    (message,) = from_batch(found.batch)
    assert message == MESSAGES[0], "bcc included"
    counted = find_row(data, topology, "/", RowId("flights", 0, 3))
    assert (counted.journal, counted.reason) == (True, "no_binding")
    assert not find_row(data, topology, "/", RowId("flights", 0, 2)).journal, "it has a row among the unroutable ones"
    condition = consumer_filter("JMSPriority = 4")
    everything = find_matching(data, topology, "/", condition, limit=9).messages
    assert sorted((one.row.batch_id, one.row.seq, one.journal) for one in everything) == [
        (0, 0, True),
        (0, 1, True),
        (0, 2, False),
        (0, 3, True),
        (1, 0, True),
    ]
    with pytest.raises(NotFound):
        find_row(data, topology, "/", RowId("flights", 0, 4))


def test_a_journal_of_another_vhost_is_nobodys_business(data: DataDir, store: TopologyStore) -> None:
    topology = store.edit(lambda e: (topology_of(e), e.declare_vhost(Vhost("v"))), author="t").topology
    route(data, store, MESSAGES, journal=True, clock_ms=NOW)
    with pytest.raises(NotFound):
        find_row(data, topology, "v", RowId("flights", 0, 3))
    assert find_matching(data, topology, "v", consumer_filter("JMSPriority = 4"), limit=9).messages == []


def test_journals_are_looked_through_newest_first_and_it_is_known_how_far(data: DataDir, store: TopologyStore) -> None:
    topology = store.edit(topology_of, author="t").topology
    fill(data, store, range(5))
    for name in ("a", "b"):
        delete_matching(data, name, None)

    def found(**bounds: Any) -> tuple[list[int], Looked]:
        condition = None if "position" in bounds else consumer_filter("JMSPriority = 4")
        found = find_matching(data, topology, "/", condition, limit=99, **bounds)
        return [one.row.batch_id for one in found.messages if one.journal], found.journals

    def ago(days: int) -> datetime:
        return datetime.fromtimestamp((NOW - days * DAY) / 1000, UTC)

    batches, looked = found()
    assert (batches[::3], looked) == ([9, 8, 7, 6, 5, 4, 3, 2, 1, 0], Looked(40))
    batches, looked = found(most=7)
    assert (batches[::3], looked.rows) == ([9, 8], 8)
    assert looked.back_to is not None
    assert looked.back_to.replace(microsecond=0) == ago(1) + timedelta(seconds=1)
    batches, looked = found(most=7, since=ago(2))
    assert (batches[::3], looked) == ([9, 8, 7, 6, 5, 4], Looked(24)), "as far back as is asked for"
    batches, looked = found(position=source_position({"file": "flights.csv", "row_index": "1"}), since=ago(1))
    assert (batches, looked) == ([9, 8, 7, 6], Looked(16))
    assert found(position=source_position({"row_index": "9"}))[0] == []


def test_a_file_without_a_row_at_the_position_is_not_read_whole(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = store.edit(topology_of, author="t").topology
    route(data, store, MESSAGES, journal=True, batch_id=0)
    route(data, store, MESSAGES[:1], journal=True, batch_id=1)
    read: list[Any] = []

    def batches(path: str, name: str, *rest: Any, columns: Any = None, where: Any = None) -> Any:
        if path == data.journal("flights"):
            read.append(columns)
        return read_batches(path, name, *rest, columns=columns, where=where)

    read_batches = file_rows.batches
    monkeypatch.setattr(file_rows, "batches", batches)
    find_matching(data, topology, "/", None, limit=9, position=source_position({"row_index": "2"}))
    assert read == [("source",), ("source",), None]


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"ofset": "7"}, "did you mean 'offset'?"),
        ({"offset": "x"}, "offset is a number, not 'x'"),
        ({"partition": str(2**40)}, "partition is a number"),
        ({}, "nothing says where"),
    ],
)
def test_a_position_that_cannot_be_is_refused(stated: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        source_position(stated)
    assert said in f"{caught.value.message} {caught.value.hint}"


def test_a_copy_has_the_journal(data: DataDir, store: TopologyStore, tmp_path: Path) -> None:
    store.edit(topology_of, author="t")
    fill(data, store, range(2))
    keep_journal(data, "flights", "/", Kept(timedelta(days=3)))
    copied = copy_data(data, DataDir.named(tmp_path / "copy"))
    assert copied.tables
    there = DataDir.open(tmp_path / "copy")
    assert journal(there) == journal(data)
    assert Kept.of(tables.TableLog(there.journal("flights")).state.configuration) == Kept(timedelta(days=3))
