"""The steps of a batch come in one order, whoever drives it, and each holds what the next one relies on."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Deliveries, Router
from bindery.router.errors import NotFound, StorageFailed, UnusablePin
from bindery.router.message import SOURCE, Message, to_batch
from bindery.router.model import Binding, Queue, Topology
from bindery.store import faults
from bindery.store.batches import BatchDriver, Begun, Routed, RouterOf, write_copies
from bindery.store.commit import BatchCommitter, TableCommit
from bindery.store.log import TableLog
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.read import read_queue
from bindery.store.routed_counts import RoutedCounts
from bindery.store.topology import TopologyStore
from bindery.store.writer import BATCH_SCHEMA
from tests.unit.store.conftest import Crash, at, crash

QUEUES = ("a", "b")
APP = "s:1"


def declare(*names: str) -> Callable[[TopologyEditor], None]:
    def change(editor: TopologyEditor) -> None:
        for name in names:
            editor.declare_queue(Queue("/", name))
            editor.bind(Binding(0, "/", "amq.fanout", name))

    return change


class Driven:
    """A driver of one stream, and what it told."""

    def __init__(self, data: DataDir, store: TopologyStore) -> None:
        self.data = data
        self.store = store
        self.told: list[Sequence[TableCommit]] = []
        self._router = RouterOf("/")
        self.committer = BatchCommitter(data, stream="s", app_id=APP, workers=1)
        self.driver = BatchDriver(self.committer, store, "/", router=self._compile, committed=self._tell)

    def _compile(self, topology: Topology) -> Router:
        faults.reach("compile", "")
        return self._router(topology)

    def _tell(self, committed: Sequence[TableCommit]) -> None:
        faults.reach("tell", "")
        self.told.append(committed)

    def begin(self, number: int = 0, clock_ms: int = 1_000) -> Begun[Router]:
        return self.driver.begin(number, self.store.load(), clock_ms)

    def write(self, begun: Begun[Router], *keys: str) -> Routed:
        batch, deliveries = routed(begun, *keys)
        return write_copies(self.data, begun, batch, deliveries, attempt="1")

    def run(self, number: int, *keys: str) -> None:
        begun = self.begin(number)
        if begun.router is not None:
            self.driver.commit(begun, self.write(begun, *keys))


def routed(begun: Begun[Router], *keys: str) -> tuple[pa.RecordBatch, Deliveries]:
    assert begun.router is not None
    messages = to_batch([Message(exchange="amq.fanout", routing_key=key) for key in keys])
    columns = [*messages.columns, pa.nulls(len(keys), SOURCE), pa.array(range(len(keys)), pa.int64())]
    batch = pa.RecordBatch.from_arrays(columns, schema=BATCH_SCHEMA)
    return batch, begun.router.route(batch, clock_ms=begun.pin.clock_ms)


@pytest.fixture
def driven(data: DataDir, store: TopologyStore) -> Iterator[Driven]:
    store.edit(declare(*QUEUES), author="t")
    found = Driven(data, store)
    with found.committer:
        yield found


def keys(data: DataDir, *names: str) -> list[list[str]]:
    return [read_queue(data, name)["routing_key"].to_pylist() for name in names]


def test_the_steps_of_a_batch_come_in_their_order(driven: Driven) -> None:
    reached: list[str] = []

    def note(point: str, path: str) -> None:
        place = re.sub(r"\.[0-9a-f]{16}\.tmp$|part-.*", "", path.removeprefix(driven.data.root))
        reached.append(f"{point} {place}".rstrip())

    with faults.installed(note):
        driven.run(0, "k")
    order = [
        "compile",
        "put.after /pins/s~3A1/0.json",
        "batch.pinned /pins/s~3A1",
        "written",
        *([] if place(driven.data.root).is_remote else ["sync.after /queues/~2F/a"]),
        "batch.appended /queues/~2F/a",
        "batch.appended /queues/~2F/b",
        "batch.in_tables",
        "batch.in_manifest /manifest",
        "tell",
    ]
    # both queues get the same rows, so that they share a file
    for written in (reached.index("write.after /queues/~2F/a/"), reached.index("link.after /queues/~2F/b/")):
        places = [written if step == "written" else reached.index(step) for step in order]
        assert places == sorted(places)
    assert [one.name for one in driven.told[0]] == list(QUEUES)


def test_a_topology_that_is_unfit_leaves_no_pin(driven: Driven) -> None:
    unfit = BatchDriver(driven.committer, driven.store, "gone", router=RouterOf("gone"))
    with pytest.raises(NotFound):
        unfit.begin(0, driven.store.load(), 1_000)
    assert driven.committer.known_pin(0) is None


def test_a_batch_that_is_begun_again_is_routed_as_it_was_pinned(driven: Driven) -> None:
    first = driven.begin(clock_ms=1_000)
    driven.store.edit(declare("c"), author="t")
    again = driven.begin(clock_ms=2_000)
    assert again.router is not None
    assert (again.pin, again.topology.version, again.router.version) == (first.pin, *[first.topology.version] * 2)
    assert (again.stamp.clock_ms, again.stamp.topology_version) == (1_000, first.topology.version)
    driven.driver.commit(again, driven.write(again, "k"))
    assert keys(driven.data, "a", "b", "c") == [["k"], ["k"], []]
    (row,) = read_manifest(driven.data, app_id=APP)
    assert (row["topology_version"], row["records"], row["copies"]) == (first.topology.version, 1, 2)
    assert row["exchanges"] == [{"vhost": "/", "name": "amq.fanout", "records": 1}]


def test_a_pinned_topology_that_is_gone_makes_the_pin_unusable(driven: Driven) -> None:
    driven.committer.pin(0, 99, 1_000)
    with pytest.raises(UnusablePin, match="topology version 99: no topology version 99"):
        driven.begin()


def test_a_batch_that_has_ended_is_not_routed_again(driven: Driven) -> None:
    driven.run(0, "k")
    assert driven.begin().router is None
    assert len(driven.told) == 1


def test_a_batch_is_resumed_with_its_own_files_and_only_where_it_is_missing(driven: Driven) -> None:
    begun = driven.begin()
    routed = driven.write(begun, "k")
    assert driven.driver.is_nowhere(begun, routed)
    with faults.installed(at("batch.appended", crash, where="/a")), pytest.raises(Crash):
        driven.driver.commit(begun, routed)
    assert not driven.driver.is_nowhere(begun, routed)
    assert driven.told == []
    before = TableLog(driven.data.queue("/", "a")).version
    driven.driver.resume(begun, routed)
    assert TableLog(driven.data.queue("/", "a")).version == before
    assert keys(driven.data, *QUEUES) == [["k"], ["k"]]
    assert len(read_manifest(driven.data, app_id=APP)) == len(driven.told) == 1


def test_a_batch_whose_answer_alone_was_lost_is_not_committed_twice(driven: Driven) -> None:
    begun = driven.begin()
    routed = driven.write(begun, "k")
    with faults.installed(at("batch.in_manifest", crash)), pytest.raises(Crash):
        driven.driver.commit(begun, routed)
    for file in routed.files:  # whoever would commit it again found them gone
        place(driven.data.routed(file.kind, file.vhost, file.name), file.path).remove()
    driven.driver.resume(begun, routed)
    assert len(read_manifest(driven.data, app_id=APP)) == 1
    assert not driven.driver.is_nowhere(begun, routed)


def test_where_a_batch_is_cannot_be_told_while_a_log_cannot_be_read(driven: Driven) -> None:
    begun = driven.begin()
    routed = driven.write(begun, "k")
    path = driven.data.queue("/", "a")
    place(path, "_delta_log", f"{TableLog(path).version + 1:020}.json").replace(b"{")
    assert not driven.driver.is_nowhere(begun, routed)


def test_a_batch_without_files_is_where_its_manifest_row_is(driven: Driven) -> None:
    begun, nothing = driven.begin(), Routed((), RoutedCounts())
    assert driven.driver.is_nowhere(begun, nothing)
    driven.driver.commit(begun, nothing)
    assert not driven.driver.is_nowhere(begun, nothing)


def test_a_batch_that_is_split_otherwise_than_it_was_pinned_is_not_routed(driven: Driven) -> None:
    driven.driver.begin(0, driven.store.load(), 1_000, splits={"size": "1"})
    with pytest.raises(UnusablePin, match="split it by other settings"):
        driven.driver.begin(0, driven.store.load(), 1_000, splits={"size": "2"})


@pytest.mark.parametrize(("point", "where"), [("write.before", "/a/"), ("link.before", "/b/")])
def test_what_cannot_be_written_leaves_no_file_behind(driven: Driven, point: str, where: str) -> None:
    begun = driven.begin()

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with faults.installed(at(point, full, where=where)), pytest.raises(StorageFailed):
        driven.write(begun, "k")
    assert not [name for name in place(driven.data.root, "queues").within() if name.endswith(".parquet")]
