"""Copies of messages as Parquet files: every queue gets its rows, whatever is buffered and left out."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bindery.router.engine import Counts, Deliveries, Unroutable
from bindery.router.engine.result import REASONS
from bindery.router.message import MESSAGE_SCHEMA, QUEUE_SCHEMA, SOURCE, UNROUTABLE_SCHEMA, Message, to_batch
from bindery.store import encoding
from bindery.store.commit import WrittenFile
from bindery.store.pages import Copies
from bindery.store.paths import DataDir
from bindery.store.writer import BATCH_SCHEMA, HELD, BatchStamp, QueueWriter
from tests.unit.jobs.arrays import shown
from tests.unit.strategies import messages

STAMP = BatchStamp("s", batch_id=7, topology_version=3, clock_ms=1_700_000_000_123)
QUEUES = ("a", "b", "ç/d")


def batch_of(published: list[Message], first: int = 0) -> pa.RecordBatch:
    seq = pa.array(range(first, first + len(published)), pa.int64())
    columns = [*to_batch(published).columns, pa.nulls(len(published), SOURCE), seq]
    return pa.RecordBatch.from_arrays(columns, schema=BATCH_SCHEMA)


def deliveries(rows: int, copies: dict[int, list[int]], lost: list[int], lineage: list[list[int]]) -> Deliveries:
    touched = sorted(queue for queue, chosen in copies.items() if chosen)
    sizes = [len(copies[queue]) for queue in touched]
    none, nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
    return Deliveries(
        queue=np.array(touched, np.int32),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        rows=np.array([row for queue in touched for row in copies[queue]], np.int32),
        lineage=pa.array(lineage, pa.list_(pa.int32())) if rows else pa.array([], pa.list_(pa.int32())),
        reached=pa.array(
            [[queue for queue in touched if row in copies[queue]] for row in range(rows)], pa.list_(pa.int32())
        ),
        unroutable=Unroutable(
            rows=np.array(lost, np.int32),
            reason=np.full(len(lost), REASONS.index("no_binding"), np.int8),
            disposition=np.zeros(len(lost), np.int8),
            detail=["why"] * len(lost),
            recorded=np.ones(len(lost), np.bool_),
        ),
        incomplete=Unroutable(none, none.astype(np.int8), none.astype(np.int8), [], np.zeros(0, np.bool_)),
        counts=Counts(none, nothing, np.zeros(len(REASONS), np.int64), none, nothing, none, nothing),
    )


def folder_of(data: DataDir, file: WrittenFile) -> Path:
    return Path(data.queue("/", file.name) if file.kind == "queue" else data.unroutable("/"))


def read(data: DataDir, files: list[WrittenFile], queue: str | None, schema: pa.Schema) -> pa.Table:
    paths = [
        str(folder_of(data, file) / file.path)
        for file in files
        if (file.name == queue if queue is not None else file.kind == "unroutable")
    ]
    return ds.dataset(paths, schema=schema).to_table() if paths else schema.empty_table()


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    directory = DataDir.open(tmp_path / "data", create=True)
    for queue in QUEUES:
        Path(directory.queue("/", queue)).mkdir(parents=True)
    return directory


routed = st.lists(
    st.lists(st.tuples(messages, st.sets(st.integers(0, 2)), st.sets(st.integers(1, 5)))), min_size=1, max_size=3
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(routed, st.sampled_from([1, 1 << 30]))
def test_every_queue_gets_its_rows(data: DataDir, batches: list[list[tuple]], buffer_bytes: int) -> None:
    """Whether each batch is flushed at once or all of them together."""
    writer = QueueWriter(data, vhost="/", queues=QUEUES, stamp=STAMP, buffer_bytes=buffer_bytes)
    first = 0
    numbered = []
    for batch in batches:
        copies = {queue: [row for row, (_, to, _) in enumerate(batch) if queue in to] for queue in range(3)}
        lost = [row for row, (_, to, _) in enumerate(batch) if not to]
        lineage = [sorted(ids) for _, _, ids in batch]
        writer.add(batch_of([message for message, _, _ in batch], first), deliveries(len(batch), copies, lost, lineage))
        numbered += [(first + row, *parts) for row, parts in enumerate(batch)]
        first += len(batch)
    files = writer.close()

    for number, queue in enumerate(QUEUES):
        table = read(data, files, queue, QUEUE_SCHEMA)
        expected = [item for item in numbered if number in item[2]]
        check(table, expected, keeps_bcc=False)
    table = read(data, files, None, UNROUTABLE_SCHEMA)
    check(table, [item for item in numbered if not item[2]], keeps_bcc=True)
    assert set(table["reason"].to_pylist()) <= {"no_binding"}
    for file in files:
        assert file.size == (folder_of(data, file) / file.path).stat().st_size
        assert json.loads(file.stats)["numRecords"] == file.rows


def check(table: pa.Table, expected: list[tuple], *, keeps_bcc: bool) -> None:
    routing = table["routing"].combine_chunks() if len(table) else table["routing"]
    order = pc.sort_indices(pc.struct_field(routing, "seq")) if len(table) else pa.array([], pa.int64())
    table = table.take(order)
    rows = table.select(["routing"]).to_pylist()
    assert [row["routing"] for row in rows] == [
        {"topology_version": 3, "stream": "s", "batch_id": 7, "seq": seq, "bindings": sorted(ids)}
        for seq, _, _, ids in expected
    ]
    stored = to_batch([message for _, message, _, _ in expected])
    for name in MESSAGE_SCHEMA.names:
        found = table[name].combine_chunks()
        if name == "bcc" and not keeps_bcc:
            assert found.null_count == len(found)
        else:
            assert shown(found) == shown(stored.column(name)), name


def test_a_column_that_holds_nothing_is_left_out_of_the_file(data: DataDir) -> None:
    writer = QueueWriter(data, vhost="/", queues=QUEUES, stamp=STAMP)
    published = [Message(exchange="x", routing_key="k", bcc=("hidden",), body=b"b")] * 3
    writer.add(batch_of(published), deliveries(3, {0: [0, 2]}, [], [[1]] * 3))
    (file,) = writer.close()
    names = pq.read_schema(folder_of(data, file) / file.path).names
    assert names == ["exchange", "routing_key", "mandatory", "body", "routing", "routed_at"]


def test_statistics_bound_the_stamp_of_the_rows(data: DataDir) -> None:
    writer = QueueWriter(data, vhost="/", queues=QUEUES, stamp=STAMP)
    writer.add(batch_of([Message(routing_key=str(n)) for n in range(4)], 10), deliveries(4, {1: [1, 3]}, [], [[]] * 4))
    (file,) = writer.close()
    stats = json.loads(file.stats)
    assert stats["minValues"] == {
        "routed_at": "2023-11-14T22:13:20.123Z",
        "routing": {"topology_version": 3, "batch_id": 7, "seq": 11},
    }
    assert stats["maxValues"]["routing"]["seq"] == 13


def test_refused_records_keep_their_raw_form_and_bcc(data: DataDir) -> None:
    writer = QueueWriter(data, vhost="/", queues=QUEUES, stamp=STAMP)
    refused = batch_of([Message(mandatory=True, bcc=("b",)), Message(), Message(reject_unroutable=True)])
    writer.add_refused(
        refused,
        reason=pa.array(["too_large", "invalid_record", "too_large"]),
        detail=pa.array(["big", "bad", "big"]),
        raw=pa.array([None, b"{", None], pa.binary()),
    )
    rows = read(data, writer.close(), None, UNROUTABLE_SCHEMA).to_pylist()
    assert [(r["reason"], r["disposition"], r["detail"], r["raw"], r["bcc"]) for r in rows] == [
        ("too_large", "returned", "big", None, ["b"]),
        ("invalid_record", "discarded", "bad", b"{", None),
        ("too_large", "rejected", "big", None, None),
    ]


def test_the_buffer_bounds_what_is_held_between_flushes(data: DataDir) -> None:
    """One file per queue and flush: a buffer of two batches gives half as many files as batches."""
    published = [Message(body=bytes(1000)) for _ in range(10)]
    size = batch_of(published).nbytes
    writer = QueueWriter(data, vhost="/", queues=QUEUES, stamp=STAMP, buffer_bytes=size + 1)
    for number in range(6):
        writer.add(batch_of(published, number * 10), deliveries(10, {0: list(range(10))}, [], [[]] * 10))
    assert [file.rows for file in writer.close()] == [20, 20, 20]


class Held:
    """Bytes that Arrow and Python have allocated at most, step by step: what one lets go does not count for the next.

    Of a step the most that each has held is added up.
    """

    def __init__(self) -> None:
        self._default = pa.default_memory_pool()
        self._pools = [pa.proxy_memory_pool(self._default)]
        self.most = 0

    def __enter__(self) -> Held:
        pa.set_memory_pool(self._pools[-1])
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.step()
        tracemalloc.stop()
        pa.set_memory_pool(self._default)

    def step(self) -> None:
        *earlier, last = self._pools
        arrow = sum(pool.bytes_allocated() for pool in earlier) + last.max_memory()
        self.most = max(self.most, arrow + tracemalloc.get_traced_memory()[1])
        tracemalloc.reset_peak()
        self._pools.append(pa.proxy_memory_pool(self._default))
        pa.set_memory_pool(self._pools[-1])


@pytest.mark.parametrize(("with_journal", "compresses"), [(False, False), (True, False), (True, True)])
def test_memory_is_bounded_where_bodies_are_large(
    data: DataDir, monkeypatch: pytest.MonkeyPatch, with_journal: bool, compresses: bool
) -> None:
    """docs/jobs.md, "Memory of a task"."""
    rng = np.random.default_rng(1)
    buffer, rows = 4 << 20, 10
    highest = 2 if compresses else 256  # nothing repeats that snappy could find, or much does
    ids = np.arange(len(QUEUES), dtype=np.int32) if with_journal else None

    def write() -> int:
        """The bytes of a batch. Numbers fall, so that a journal has to sort them."""
        writer = QueueWriter(data, vhost="/", queues=QUEUES, stamp=STAMP, buffer_bytes=buffer, journal=ids)
        for number in range(20, 0, -1):
            sent = [Message(body=rng.integers(0, highest, 50_000, np.uint8).tobytes()) for _ in range(rows)]
            copies = {0: list(range(rows)), 1: list(range(rows)), 2: list(range(0, rows, 2))}
            batch = batch_of(sent, number * rows)
            writer.add(batch, deliveries(rows, copies, [], [[1]] * rows))
        writer.close()
        return int(batch.nbytes)

    write()  # what is loaded and compiled once
    with Held() as held:
        for owner, name in ((Copies, "file"), (encoding, "journal_file")):
            monkeypatch.setattr(owner, name, in_steps(held, getattr(owner, name)))
        batch_bytes = write()
    assert buffer < held.most <= HELD * buffer + batch_bytes


def in_steps(held: Held, real: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any) -> Any:
        held.step()
        found = real(*args)
        held.step()
        return found

    return called


def test_files_of_two_attempts_never_share_a_name(data: DataDir) -> None:
    names = set()
    for attempt in ("0.1", "0.2", "0.2"):
        writer = QueueWriter(data, vhost="/", queues=QUEUES, stamp=STAMP, attempt=attempt)
        writer.add(batch_of([Message()]), deliveries(1, {0: [0]}, [], [[]]))
        names |= {file.path for file in writer.close()}
    assert len(names) == 3
