from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from bindery import read_queue
from router.errors import FilterError, InvalidInput, NotFound
from router.message import QUEUE_SCHEMA
from store import tables
from store.commit import BatchCommitter
from store.log import TableLog
from store.paths import DataDir
from store.read import RowId, browse, consumer_filter, delete_matching, delete_rows, row_ids, take
from store.topology import TopologyStore
from tests.unit.store.conftest import declare_queues, deliver


@pytest.fixture
def committer(data: DataDir, store: TopologyStore) -> BatchCommitter:
    """Two batches of three rows in queue q, the later batch committed first; price = 10 * seq."""
    version = store.edit(declare_queues("q", "empty"), author="t").version
    committer = BatchCommitter(data, stream="s", app_id="s:1")

    def price(seq: int) -> list[tuple[str, dict[str, int]]]:
        return [("price", {"int": seq * 10})]

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


def test_an_append_during_a_take_survives_and_the_take_is_tried_again(
    data: DataDir, committer: BatchCommitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, raced = TableLog.commit, []

    def overtaken(log: TableLog, *arguments: Any, **options: Any) -> int | None:
        if not raced:
            raced.append(True)
            deliver(data, committer, 2, 10, "q")
        return commit(log, *arguments, **options)

    monkeypatch.setattr(TableLog, "commit", overtaken)
    assert ids(take(data, "q", limit=5).rows) == ALL[:5]
    assert ids(read_queue(data, "q")) == [("s", 1, 2), ("s", 2, 0), ("s", 2, 1), ("s", 2, 2)]


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
def test_rows_are_deleted_by_identity_or_by_filter(data: DataDir) -> None:
    assert delete_rows(data, "q", [RowId("later", 0, 1), RowId("s", 1, 1), RowId("s", 9, 9)]) == 2
    assert ids(read_queue(data, "q")) == [ALL[0], ALL[2], ALL[3], ALL[5]]
    assert delete_rows(data, "q", [RowId("later", 0, 1)]) == 0
    assert delete_matching(data, "q", consumer_filter("price = 0")) == 2
    assert ids(read_queue(data, "q")) == [ALL[2], ALL[5]]
    assert delete_matching(data, "q", None) == 2
    assert tables.count_rows(data, "/", "q") == 0
    assert delete_matching(data, "q", None) == 0


def test_a_purged_queue_takes_new_rows(data: DataDir, store: TopologyStore, committer: BatchCommitter) -> None:
    delete_matching(data, "q", None)
    deliver(data, committer, 2, store.load().version, "q")
    assert tables.count_rows(data, "/", "q") == 3
