from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from bindery import read_queue
from bindery.router.errors import CommitUnknown, FilterError, InvalidInput, NotFound, StorageFailed, UnsupportedTable
from bindery.router.message import QUEUE_SCHEMA, Message
from bindery.store import data_files, faults, file_rows, tables
from bindery.store.actions import RemoveFile
from bindery.store.commit import BatchCommitter, BatchCounts
from bindery.store.consumer_filters import consumer_filter
from bindery.store.log import TableLog
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.read import RowId, browse, delete_matching, delete_rows, row_ids, take
from bindery.store.routed_files import file_groups
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import Crash, declare_queues, deliver, queue_rows, written
from tests.unit.store.routed import route


def price(seq: int) -> list[tuple[str, dict[str, int]]]:
    return [("price", {"int": seq * 10})]


@pytest.fixture
def committer(data: DataDir, store: TopologyStore) -> BatchCommitter:
    """Two batches of three rows in queue q, the later batch committed first; price = 10 * seq."""
    version = store.edit(declare_queues("q", "empty"), author="t").version
    committer = BatchCommitter(data, stream="s", app_id="s:1")

    with BatchCommitter(data, stream="later", app_id="later:1") as later:
        deliver(data, later, 0, version, "q", application_properties=price, connection=lambda seq: f"c{seq}")
    deliver(data, committer, 1, version, "q", application_properties=price, connection=lambda seq: f"c{seq}")
    return committer


def ids(rows: pa.Table) -> list[tuple[str, int, int]]:
    return [(row.stream, row.batch_id, row.seq) for row in row_ids(rows)]


ALL = [("later", 0, 0), ("later", 0, 1), ("later", 0, 2), ("s", 1, 0), ("s", 1, 1), ("s", 1, 2)]


# -- reading --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("committer")
def test_a_queue_is_read_in_row_order_with_the_columns_asked_for(data: DataDir) -> None:
    rows = read_queue(data.root, "q")
    assert rows.schema.equals(QUEUE_SCHEMA)
    assert ids(rows) == ALL
    assert read_queue(data, "q", columns=["routing_key", "exchange"]).column_names == ["routing_key", "exchange"]
    assert read_queue(data, "empty").num_rows == 0
    assert read_queue(data, "empty", filter="a = 1").schema.equals(QUEUE_SCHEMA)


@pytest.mark.usefixtures("committer")
@pytest.mark.parametrize(
    ("condition", "dialect", "seqs"),
    [
        ("price >= 10", "jms", [1, 2]),
        ("", "jms", [0, 1, 2]),
        ("AMQPriority = 4 AND price < 20", "artemis", [0, 1]),
        ("a.price = 20", "amqp-sql", [2]),
        ({"f": {"descriptor": "amqp:application-properties-filter", "value": {"price": 10}}}, "jms", [1]),
        ({"n": {"descriptor": "apache.org:no-local-filter:list", "value": []}}, "jms", [0, 2]),
    ],
)
def test_a_consumer_filter_selects_what_is_read(
    data: DataDir, condition: str | dict[str, object], dialect: str, seqs: list[int]
) -> None:
    rows = read_queue(data, "q", filter=condition, dialect=dialect, connection="c1", columns=["routing"])
    assert [row.seq for row in row_ids(rows)] == seqs * 2
    assert tables.count_rows(data, "/", "q") == 6


@pytest.mark.usefixtures("committer")
def test_what_cannot_be_read_is_refused(data: DataDir) -> None:
    with pytest.raises(NotFound):
        read_queue(data, "none")
    with pytest.raises(NotFound, match="no column"):
        read_queue(data, "q", columns=["nope"])
    with pytest.raises(FilterError):
        read_queue(data, "q", filter="price >")
    with pytest.raises(InvalidInput):
        read_queue(data, "q", filter=3)  # type: ignore[arg-type]


@pytest.mark.usefixtures("committer")
def test_an_older_version_of_the_queue_can_be_read(data: DataDir) -> None:
    assert [read_queue(data, "q", version=version).num_rows for version in (0, 1, 2)] == [0, 3, 6]


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import bindery, sys; print(sorted({'pyarrow', 'deltalake', 'pyspark'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"


# -- taking and deleting --------------------------------------------------------------------------------


@pytest.mark.usefixtures("committer")
def test_browsing_gives_the_first_rows_and_changes_nothing(data: DataDir) -> None:
    assert ids(browse(data, "q", limit=4)) == ALL[:4]
    assert ids(browse(data, "q", limit=1, condition=consumer_filter("price > 0"))) == ALL[1:2]
    assert ids(browse(data, "q")) == ALL


@pytest.mark.usefixtures("committer")
def test_taking_removes_the_first_rows_in_one_commit(data: DataDir) -> None:
    taken = take(data, "q", limit=4)
    assert (ids(taken.rows), taken.held) == (ALL[:4], 6)
    assert ids(read_queue(data, "q")) == ALL[4:]
    assert (take(data, "q", limit=9).held, take(data, "q", limit=9).rows.num_rows) == (2, 0)


@pytest.mark.usefixtures("committer")
def test_taking_with_a_filter_leaves_the_other_rows(data: DataDir) -> None:
    assert ids(take(data, "q", limit=1, condition=consumer_filter("price = 20")).rows) == ALL[2:3]
    assert ids(read_queue(data, "q")) == ALL[:2] + ALL[3:]


@pytest.mark.usefixtures("committer")
def test_requeued_rows_stay_with_one_delivery_more(data: DataDir) -> None:
    assert take(data, "q", limit=2, requeue=True).rows["header"].to_pylist() == [None, None]
    again = take(data, "q", limit=3, requeue=True).rows
    assert [row and row["delivery_count"] for row in again["header"].to_pylist()] == [1, 1, None]
    assert ids(read_queue(data, "q")) == ALL
    assert ids(read_queue(data, "q", filter="JMSRedelivered AND JMSXDeliveryCount = 3")) == ALL[:2]


class Race:
    """A hook that runs something before each commit to the log of queue q, as often as there is something."""

    def __init__(self, *rivals: Callable[[], object]) -> None:
        self._rivals = list(rivals)
        self._racing = False
        self.written: list[str] = []

    def __call__(self, point: str, path: str) -> None:
        if self._racing:
            return
        if point == "write.before":
            self.written.append(place(path).name)
        if point == "put.before" and "/q/_delta_log" in path and self._rivals:
            self._racing = True
            self._rivals.pop(0)()
            self._racing = False

    def rewritten(self, prefix: str) -> int:
        return sum(name.startswith(prefix) for name in self.written)


def test_writers_that_append_cannot_keep_a_consumer_from_its_rows(data: DataDir, committer: BatchCommitter) -> None:
    """However often it loses the race: what it chose and wrote is kept."""
    race = Race(*(lambda batch=batch: deliver(data, committer, batch, 10, "q") for batch in range(2, 22)))
    with faults.installed(race):
        taken = take(data, "q", limit=5)
    assert (ids(taken.rows), taken.held) == (ALL[:5], 6)
    assert race.rewritten("get-") == 1, "one file was taken whole, the other one rewritten, once"
    assert len(ids(read_queue(data, "q"))) == 61


@pytest.mark.parametrize("change", ["delete", "purge", "filter"])
def test_what_is_deleted_beside_writers_is_found_out_once_for_each_file(
    data: DataDir, committer: BatchCommitter, change: str
) -> None:
    chosen = browse(data, "q").slice(1, 4)
    race = Race(*(lambda batch=batch: deliver(data, committer, batch, 10, "q") for batch in range(2, 12)))
    with faults.installed(race):
        if change == "delete":
            assert delete_rows(data, "q", chosen) == 4
        elif change == "filter":
            assert delete_matching(data, "q", consumer_filter("price >= 10")) == 4
        else:
            assert delete_matching(data, "q", None) == 36
    assert race.rewritten("delete-") == (0 if change == "purge" else 2)
    assert len(ids(read_queue(data, "q"))) == (0 if change == "purge" else 32)


def merge_files(data: DataDir) -> None:
    """All rows of queue q in one file, in the order in which they are read, as maintenance leaves them."""
    path = data.queue("/", "q")
    log = TableLog(path, files=True)
    files = dict(log.files or {})
    rows = pa.concat_tables([place(path, name).read_parquet(QUEUE_SCHEMA) for name in files])
    added = data_files.write_file(path, rows, prefix="compact")
    log.commit([added, *(RemoveFile(name, file.size, data_change=False) for name, file in files.items())])


@pytest.mark.usefixtures("committer")
def test_a_consumer_whose_rows_have_moved_chooses_again(data: DataDir) -> None:
    with faults.installed(Race(lambda: take(data, "q", limit=1), lambda: merge_files(data))):
        taken = take(data, "q", limit=3)
    assert (ids(taken.rows), taken.held) == (ALL[1:4], 5)
    assert ids(read_queue(data, "q")) == ALL[4:]


@pytest.mark.usefixtures("committer")
def test_rows_that_have_moved_are_deleted_all_the_same(data: DataDir) -> None:
    chosen = browse(data, "q", limit=2)
    with faults.installed(Race(lambda: merge_files(data))):
        assert delete_rows(data, "q", chosen) == 2
    assert ids(read_queue(data, "q")) == ALL[2:]


def test_two_consumers_never_take_the_same_row(data: DataDir, committer: BatchCommitter) -> None:
    for batch in range(2, 6):
        deliver(data, committer, batch, 10, "q", rows=10)
    with ThreadPoolExecutor(4) as pool:
        taken = [
            one
            for future in [pool.submit(take, data, "q", limit=3) for _ in range(10)]
            for one in ids(future.result().rows)
        ]
    assert len(taken) == len(set(taken)) == 30
    assert sorted(taken + ids(read_queue(data, "q"))) == sorted(ids(read_queue(data, "q", version=6)))


@pytest.mark.usefixtures("committer")
def test_rows_are_deleted_as_they_were_read_or_by_filter(data: DataDir) -> None:
    rows = browse(data, "q")
    chosen = rows.take(pa.array([1, 4]))
    take(data, "q", limit=2, requeue=True)  # which counts a delivery, and leaves the rows what they are
    assert delete_rows(data, "q", chosen) == 2
    assert ids(read_queue(data, "q")) == [ALL[0], ALL[2], ALL[3], ALL[5]]
    assert delete_rows(data, "q", chosen) == 0
    assert delete_rows(data, "q", read_queue(data, "q", columns=["routed_at", "routing"]).slice(1, 1)) == 1
    assert ids(read_queue(data, "q")) == [ALL[0], ALL[3], ALL[5]]
    assert delete_matching(data, "q", consumer_filter("price = 0")) == 2
    assert ids(read_queue(data, "q")) == [ALL[5]]
    assert delete_matching(data, "q", None) == 1
    assert tables.count_rows(data, "/", "q") == 0
    assert delete_matching(data, "q", None) == 0
    with pytest.raises(InvalidInput, match="routed_at"):
        delete_rows(data, "q", rows.select(["routing"]))


def test_of_rows_with_one_identity_only_those_are_deleted_that_were_read(data: DataDir, store: TopologyStore) -> None:
    """Old data has such: publishing used to start again with the same numbers."""
    version = store.edit(declare_queues("q"), author="t").version
    for start, body in enumerate((b"a", b"b", b"b", b"b")):
        with BatchCommitter(data, stream="api", app_id=f"api:{start}") as committer:
            deliver(data, committer, 0, version, "q", rows=2, body=lambda _, body=body: body)
    rows = browse(data, "q")
    bodies = rows["body"].to_pylist()
    assert len(set(ids(rows))) == 2
    some = rows.take(pa.array([bodies.index(b"a"), bodies.index(b"b")]))
    assert delete_rows(data, "q", pa.concat_tables([some, some.slice(1)])) == 3
    assert sorted(read_queue(data, "q")["body"].to_pylist()) == [b"a"] + [b"b"] * 4


def test_a_purged_queue_takes_new_rows(data: DataDir, store: TopologyStore, committer: BatchCommitter) -> None:
    delete_matching(data, "q", None)
    deliver(data, committer, 2, store.load().version, "q")
    assert tables.count_rows(data, "/", "q") == 3


# -- what a disk may do -------------------------------------------------------------------------------


CHANGES: dict[str, Callable[[DataDir], object]] = {
    "get": lambda data: take(data, "q", limit=4),
    "requeue": lambda data: take(data, "q", limit=4, requeue=True),
    "filter": lambda data: delete_matching(data, "q", consumer_filter("price >= 10")),
    "purge": lambda data: delete_matching(data, "q", None),
    "delete": lambda data: delete_rows(data, "q", browse(data, "q").slice(1, 4)),
}


@pytest.mark.long
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["full", "full for ever", "died"])
def test_whatever_effect_fails_the_rows_are_those_before_or_after(root: str, change: str, kind: str) -> None:
    def filled(name: str) -> DataDir:
        data = DataDir.open(f"{root}/{name}", create=True)
        store = TopologyStore(data)
        store.create()
        version = store.edit(declare_queues("q"), author="t").version
        with BatchCommitter(data, stream="s", app_id="s:1") as committer:
            for batch in range(2):
                deliver(data, committer, batch, version, "q", application_properties=price)
        return data

    counted: list[str] = []
    data = filled("counted")
    before = browse(data, "q").to_pylist()
    with faults.installed(lambda point, _path: counted.append(point)):
        CHANGES[change](data)
    after = browse(data, "q").to_pylist()
    assert before != after
    for number in range(1, len(counted) + 1):
        data = filled(str(number))
        reached: list[str] = []

        def fail(point: str, path: str, number: int = number, reached: list[str] = reached) -> None:
            reached.append(f"{point} {path}")
            if len(reached) == number or (kind == "full for ever" and len(reached) > number):
                raise Crash if kind == "died" else OSError(errno.ENOSPC, "No space left on device")

        answered = False
        try:
            with faults.installed(fail):
                CHANGES[change](data)
            answered = True
        except (StorageFailed, Crash):
            pass
        found = browse(data, "q").to_pylist()
        assert found == after if answered else found in (before, after), reached[number - 1]
        CHANGES[change](data)
        assert browse(data, "q").num_rows <= len(after), reached[number - 1]


@pytest.mark.usefixtures("committer")
def test_a_get_whose_answer_was_lost_gives_its_rows(data: DataDir) -> None:
    def lose(point: str, path: str) -> None:
        if point == "put.after" and "/q/_delta_log" in path:
            raise OSError(errno.ENOSPC, "No space left on device")

    with faults.installed(lose):
        assert ids(take(data, "q", limit=4).rows) == ALL[:4]
    assert ids(read_queue(data, "q")) == ALL[4:]


@pytest.mark.usefixtures("committer")
def test_a_get_of_which_nobody_knows_deletes_nothing(data: DataDir) -> None:
    entries: list[tuple[str, bytes]] = []

    def destroy(point: str, path: str) -> None:
        if point == "put.after" and "/q/_delta_log" in path:
            entries.append((path, place(path).read() or b""))
            place(path).replace(b'{"commitInfo')
            raise OSError(errno.EIO, "Input/output error")

    with faults.installed(destroy), pytest.raises(CommitUnknown, match="took place cannot be read"):
        take(data, "q", limit=4)
    ((path, content),) = entries
    place(path).replace(content)
    assert ids(read_queue(data, "q")) == ALL[4:]


@pytest.mark.parametrize("read", [lambda data: take(data, "q", limit=9), lambda data: read_queue(data, "q")])
@pytest.mark.parametrize("harm", ["missing", "cut", "foreign"])
@pytest.mark.usefixtures("committer")
def test_a_data_file_that_cannot_be_read_is_named(data: DataDir, read: Callable[[DataDir], object], harm: str) -> None:
    log = TableLog(data.queue("/", "q"), files=True)
    file = place(log.path, next(iter(log.files or {})))
    if harm == "missing":
        file.remove()
    else:
        file.replace((file.read() or b"")[:-200] if harm == "cut" else b"no Parquet at all")
    with pytest.raises(UnsupportedTable, match=file.name) as refused:
        read(data)
    assert refused.value.where == str(file)


# -- what reading costs ---------------------------------------------------------------------------------


@pytest.fixture
def files_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the data files that were looked into, in order."""
    names: list[str] = []
    batches = file_rows.batches

    def counted(path: str, name: str, *arguments: Any, **options: Any) -> Any:
        names.append(name)
        return batches(path, name, *arguments, **options)

    monkeypatch.setattr(file_rows, "batches", counted)
    return names


def a_batch_each_second(data: DataDir, store: TopologyStore, batches: int, *, stats: bool = True) -> list[str]:
    """The names of the files, oldest first; the newest is committed first."""
    version = store.edit(declare_queues("q"), author="t").version
    names = []
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for batch in range(batches):
            second = batches - batch
            pin = committer.pin(batch, version, batch)
            rows = queue_rows(batch, range(2), version=version, application_properties=price, at=second)
            file = written(data, "q", rows)
            names.append(file.path)
            file = file if stats else replace(file, stats="")
            committer.commit(batch, pin, [file], BatchCounts())
    return names[::-1]


@pytest.mark.parametrize("stats", [True, False])
def test_the_first_rows_are_found_without_reading_the_rest(
    data: DataDir, store: TopologyStore, files_read: list[str], stats: bool
) -> None:
    names = a_batch_each_second(data, store, 20, stats=stats)
    rows = browse(data, "q", limit=3)
    assert set(files_read) == set(names[:2])
    assert [row.batch_id for row in row_ids(rows)] == [19, 19, 18]
    files_read.clear()
    rows = browse(data, "q", limit=3, condition=consumer_filter("price = 10"))
    assert set(files_read) == set(names[:3]), "one of two rows is accepted"
    assert [row.batch_id for row in row_ids(rows)] == [19, 18, 17]
    files_read.clear()
    assert browse(data, "q", limit=0).num_rows == 0
    assert files_read == []
    assert browse(data, "q").num_rows == browse(data, "q", limit=1000).num_rows == 40


@pytest.mark.parametrize("requeue", [True, False])
def test_what_a_get_leaves_behind_is_found_as_quickly(
    data: DataDir, store: TopologyStore, files_read: list[str], requeue: bool
) -> None:
    names = a_batch_each_second(data, store, 20)
    take(data, "q", limit=5, requeue=requeue)
    files_read.clear()
    rows = browse(data, "q", limit=1)
    assert len(set(files_read)) == 1
    assert files_read[0] not in names
    assert row_ids(rows) == [RowId("flights", 19, 0) if requeue else RowId("flights", 17, 1)]


def test_rows_of_one_moment_are_all_looked_at(data: DataDir, store: TopologyStore) -> None:
    """The order goes on with stream, batch and number, of which nothing is stated."""
    version = store.edit(declare_queues("q"), author="t").version
    for stream in ("c", "a", "b"):
        with BatchCommitter(data, stream=stream, app_id=f"{stream}:1") as committer:
            deliver(data, committer, 0, version, "q", rows=1)
    assert [row.stream for row in row_ids(take(data, "q", limit=2).rows)] == ["a", "b"]


def test_rewritten_files_state_their_rows(data: DataDir, store: TopologyStore) -> None:
    a_batch_each_second(data, store, 2)
    merge_files(data)
    take(data, "q", limit=1)
    (file,) = (TableLog(data.queue("/", "q"), files=True).files or {}).values()
    stated = json.loads(file.stats)
    assert stated["numRecords"] == 3
    assert stated["minValues"]["routed_at"] == "2026-01-01T00:00:01.000Z"
    assert stated["maxValues"]["routed_at"] == "2026-01-01T00:00:02.000Z"
    assert stated["minValues"]["routing"] == {"topology_version": 2, "batch_id": 0, "seq": 0}
    assert stated["maxValues"]["routing"] == {"topology_version": 2, "batch_id": 1, "seq": 1}
    assert stated["nullCount"] == {"routed_at": 0, "routing": {"topology_version": 0, "batch_id": 0, "seq": 0}}


def test_a_rewritten_file_is_not_taken_for_what_one_task_wrote(data: DataDir, store: TopologyStore) -> None:
    """Its statistics may look like it; what tells them apart is the name."""
    store.edit(declare_queues("q"), author="t")
    for stream in ("a", "b"):
        route(data, store, [Message("", "q"), Message("", "nowhere"), Message("", "q")], stream=stream)
    take(data, "q", limit=1)
    found = {frozenset(file.queue for file in group) for group in file_groups(data, "/", ["q"])}
    assert found == {frozenset({None, "q"})}
