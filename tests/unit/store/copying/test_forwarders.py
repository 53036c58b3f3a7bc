"""What a copy has of forwarders: positions that are never beyond its rows, and no right for those of the source."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from bindery.router.errors import Fenced, UnsupportedTable
from bindery.router.message import QUEUE_SCHEMA
from bindery.store import faults, file_rows
from bindery.store.commit import BatchCommitter
from bindery.store.copying import copy_data
from bindery.store.forwarding import Forwarding, Position, QueueLog, copied_records, recorded_of
from bindery.store.paths import DataDir
from bindery.store.places import at as place_at
from bindery.store.topology import TopologyStore
from tests.unit.store.conftest import Crash, at, crash, declare_queues, deliver

Rows = list[tuple[int, int]]


@pytest.fixture
def version(store: TopologyStore) -> int:
    return store.edit(declare_queues("a", "b"), author="t").version


@pytest.fixture(params=["folder", "s3"])
def destination(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    there = tmp_path / "copy" if request.param == "folder" else request.getfixturevalue("s3_root")
    return str(there)


def copied(data: DataDir, to: str | Path, **options: Any) -> DataDir:
    copy_data(data, DataDir.named(to), **options)
    return DataDir.open(to)


def fill(data: DataDir, version: int, *numbers: int) -> None:
    with BatchCommitter(data, stream="s", app_id="s:1") as committer:
        for number in numbers:
            deliver(data, committer, number, version, "a", "b")


def forward(data: DataDir, right: Forwarding, upto: int | None = None) -> Rows:
    """Forward what is there, or the versions before `upto`: what was sent."""
    log = QueueLog(data, "/", "a")
    sent: Rows = []
    position = log.earliest() if right.position is None else right.position
    log.check(position)
    while position.version <= log.version and position.version != upto:
        for file in log.files(position)[position.file :]:
            for batch in file_rows.batches(log.path, file, QUEUE_SCHEMA, columns=["routing"]):
                sent += [(one["batch_id"], one["seq"]) for one in batch.column("routing").to_pylist()]
        position = Position(position.table_id, position.version + 1)
    right.move(position, rows=len(sent))
    return sent


def batches(*numbers: int) -> Rows:
    return [(number, seq) for number in numbers for seq in range(3)]


def test_a_forwarder_goes_on_where_it_was(data: DataDir, version: int, destination: str, tmp_path: Path) -> None:
    fill(data, version, 0, 1, 2, 3)
    right = Forwarding(data, "a/b")
    right.move(Position(DeltaTable(data.queue("/", "a")).metadata().id, 0))
    newest = QueueLog(data, "/", "a").version
    assert forward(data, right, upto=newest - 1) == batches(0, 1)
    never_moved = Forwarding(data, "never moved")
    there = copied(data, destination)
    # the source goes on, which is nothing to the copy
    assert forward(data, right) == batches(2, 3)
    fill(there, version, 4)
    assert recorded_of(there, "a/b") is not None
    assert forward(there, Forwarding(there, "a/b")) == batches(2, 3, 4)
    assert Forwarding(there, "never moved").position is None
    back = copied(there, tmp_path / "back")
    fill(back, version, 5)
    assert forward(back, Forwarding(back, "a/b")) == batches(5)
    found = recorded_of(back, "a/b")
    assert found is not None and found.rows == 18
    right.check()
    never_moved.check()


@pytest.mark.parametrize("begin", ["earliest", "first", "latest"])
def test_what_the_copy_leaves_out_is_not_behind_its_position(
    begin: str, data: DataDir, version: int, destination: str
) -> None:
    """A batch is in queue a and not in b when the copy is made; it is routed again from the copy."""
    fill(data, version, 0, 1)
    with (
        BatchCommitter(data, stream="s", app_id="s:1", workers=1) as committer,
        faults.installed(at("batch.appending", crash, number=2)),
        pytest.raises(Crash),
    ):
        deliver(data, committer, 2, version, "a", "b")
    log = QueueLog(data, "/", "a")
    right = Forwarding(data, "f")
    begins: dict[str, Callable[[], Position]] = {
        "earliest": log.earliest,
        "first": lambda: Position(log.earliest().table_id, 0),
        "latest": log.latest,
    }
    right.move(begins[begin]())
    if begin == "first":
        assert forward(data, right) == batches(0, 1, 2)
    there = copied(data, destination)
    assert QueueLog(there, "/", "a").version == log.version - 1
    fill(there, version, 2)
    # of a snapshot nothing was sent yet, so all that the queue holds at the point is to come
    assert forward(there, Forwarding(there, "f")) == (batches(0, 1, 2) if begin == "earliest" else batches(2))


def test_a_position_in_a_table_that_the_copy_lacks_is_none_and_one_in_a_table_that_is_gone_stays(data: DataDir) -> None:
    Forwarding(data, "f").move(Position("t", 3))
    assert copied_records(data, {"t": -1}) == {}
    (record,) = copied_records(data, {}).values()
    assert json.loads(record)["version"] == 3


def test_in_the_place_of_the_source_a_forwarder_of_it_moves_nothing(
    data: DataDir, version: int, tmp_path: Path
) -> None:
    fill(data, version, 0, 1)
    old = Forwarding(data, "f")
    forward(data, old)
    copied(data, tmp_path / "copy")
    Path(data.root).rename(tmp_path / "lost")
    (tmp_path / "copy").rename(data.root)
    with pytest.raises(Fenced):
        old.move(QueueLog(data, "/", "a").earliest())
    fill(data, version, 2)
    assert forward(data, Forwarding(data, "f")) == batches(2)


def test_a_damaged_record_is_damaged_in_the_copy_too(data: DataDir, version: int, destination: str) -> None:
    Forwarding(data, "f").move(Position("t", 3))
    place_at(data.root, "forwards", "f", "1.json").replace(b'{"name": "f"')
    there = copied(data, destination)
    with pytest.raises(UnsupportedTable):
        Forwarding(there, "f")
    assert json.loads(Path(data.root, "forwards/f/1.json").read_bytes() + b"}") == {"name": "f"}
