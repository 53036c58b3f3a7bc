"""Queues that get the same rows share one file, which is each one's own: what becomes of one is no matter of others."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.errors import StorageFailed
from bindery.router.message import SOURCE, Message, to_batch
from bindery.router.model import Binding, Queue
from bindery.router.values import Table
from bindery.store import faults
from bindery.store.maintenance import maintain
from bindery.store.paths import DataDir
from bindery.store.places import LocalPlace, requests
from bindery.store.places import at as place
from bindery.store.read import delete_matching, read_queue
from bindery.store.topology import TopologyStore
from bindery.store.writer import BATCH_SCHEMA, BatchStamp, QueueWriter
from tests.unit.store.conftest import at
from tests.unit.store.maintenance.conftest import NOTHING_OLD
from tests.unit.store.routed import route

SENT = [Message(exchange="amq.fanout", body=bytes([n])) for n in range(5)]
BODIES = [message.body for message in SENT]


def store_of(data: DataDir) -> TopologyStore:
    """The queues a, b and c of one fanout, and d that gets what is sent to it alone."""

    def declare(editor: TopologyEditor) -> None:
        for name in "abcd":
            editor.declare_queue(Queue("/", name))
        for name in "abc":
            editor.bind(Binding(0, "/", "amq.fanout", name, "queue", "", Table({})))

    found = TopologyStore(data)
    found.edit(declare, author="t")
    return found


@pytest.fixture
def store(data: DataDir) -> TopologyStore:
    return store_of(data)


def files(data: DataDir, name: str) -> list[str]:
    return [file for file in place(data.queue("/", name)).files() if file.endswith(".parquet")]


def identity(data: DataDir, name: str) -> tuple[int, int]:
    """The file itself, and how many names it has."""
    (file,) = files(data, name)
    found = (Path(data.queue("/", name)) / file).stat()
    return found.st_ino, found.st_nlink


def bodies(data: DataDir, name: str) -> list[Any]:
    return [row["body"] for row in read_queue(data, name).to_pylist()]


def writer_of(data: DataDir, store: TopologyStore) -> QueueWriter:
    """A writer that was given what is sent."""
    router = Router.compile(store.load(), "/")
    rows = len(SENT)
    columns = [*to_batch(SENT).columns, pa.nulls(rows, SOURCE), pa.array(range(rows), pa.int64())]
    batch = pa.RecordBatch.from_arrays(columns, schema=BATCH_SCHEMA)
    writer = QueueWriter(data, vhost="/", queues=router.queues, stamp=BatchStamp("s", 0, 1, 0))
    writer.add(batch, router.route(batch, clock_ms=0))
    return writer


def test_every_queue_has_its_rows(data: DataDir, store: TopologyStore) -> None:
    route(data, store, [*SENT, Message(routing_key="d", body=b"d")])
    assert [bodies(data, name) for name in "abcd"] == [BODIES, BODIES, BODIES, [b"d"]]
    names = [file for name in "abcd" for file in files(data, name)]
    assert len(set(names)) == 4, "each has a name of its own"


@pytest.mark.local_only
def test_the_same_rows_are_on_the_disk_once(data: DataDir, store: TopologyStore) -> None:
    route(data, store, [*SENT, Message(routing_key="d", body=b"d")])
    assert len({identity(data, name) for name in "abc"}) == 1
    assert [identity(data, name)[1] for name in "abcd"] == [3, 3, 3, 1]


def test_rows_differ_when_one_of_them_does(data: DataDir, store: TopologyStore) -> None:
    route(data, store, [*SENT, Message(routing_key="c", body=b"c")])
    assert [bodies(data, name) for name in "abc"] == [BODIES, BODIES, [*BODIES, b"c"]]


def test_an_object_is_sent_once(s3_root: str) -> None:
    """Its copies are the store's own work."""
    data = DataDir.open(s3_root, create=True)
    store = store_of(data)
    writer = writer_of(data, store)
    before = requests()
    written = writer.close()
    asked = {kind: count - before.get(kind, 0) for kind, count in requests().items()}
    assert len(written) == 3
    assert (asked["put"], asked["copy"]) == (1, 2)


@pytest.mark.parametrize("purged", ["a", "c"])
def test_what_goes_from_one_queue_stays_in_the_others(data: DataDir, store: TopologyStore, purged: str) -> None:
    """Purged, and its files removed by maintenance; then rows come again."""
    route(data, store, SENT)
    delete_matching(data, purged, None)
    maintain(data, NOTHING_OLD)
    assert files(data, purged) == []
    others = [name for name in "abc" if name != purged]
    assert [bodies(data, name) for name in others] == [BODIES] * 2
    route(data, store, SENT, batch_id=1)
    assert bodies(data, purged) == BODIES
    assert [sorted(bodies(data, name)) for name in others] == [sorted([*BODIES, *BODIES])] * 2


def test_files_of_one_queue_are_merged_for_itself(data: DataDir, store: TopologyStore) -> None:
    for batch in range(4):
        route(data, store, SENT, batch_id=batch)
    for _ in range(2):  # what the first one removes is old for the second one
        maintain(data, replace(NOTHING_OLD, fan_in=2), only=lambda table: table.name.endswith("/b"))
    assert [len(files(data, name)) for name in "abc"] == [4, 1, 4]
    assert [sorted(bodies(data, name)) for name in "abc"] == [sorted(BODIES * 4)] * 3


def test_a_queue_that_is_declared_again_is_empty(data: DataDir, store: TopologyStore) -> None:
    route(data, store, SENT)
    store.edit(lambda editor: editor.delete_queue("/", "a"), author="t")
    store.edit(lambda editor: editor.declare_queue(Queue("/", "a")), author="t")
    maintain(data, NOTHING_OLD)
    assert [bodies(data, name) for name in "abc"] == [[], BODIES, BODIES]


@pytest.mark.local_only
@pytest.mark.parametrize("code", [errno.EPERM, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP])
def test_where_there_are_no_links_each_has_a_copy(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(self: LocalPlace, to: LocalPlace) -> bool:
        with monkeypatch.context() as patched:
            patched.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(code, "no links")))
            return share(self, to)

    share = LocalPlace.share
    monkeypatch.setattr(LocalPlace, "share", refuse)  # the log commits by links, too: it may have them
    route(data, store, SENT)
    assert len({identity(data, name) for name in "abc"}) == 3
    assert [bodies(data, name) for name in "abc"] == [BODIES] * 3


@pytest.mark.local_only
@pytest.mark.parametrize("point", ["write.after", "link.before", "link.after", "sync.before", "sync.after"])
def test_whoever_gives_up_leaves_nothing(data: DataDir, store: TopologyStore, point: str) -> None:
    """Also of what was done although its answer was an error."""

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    writer = writer_of(data, store)
    with faults.installed(at(point, fail)), pytest.raises(StorageFailed):
        writer.close()
    writer.discard()
    assert [files(data, name) for name in "abcd"] == [[], [], [], []]
