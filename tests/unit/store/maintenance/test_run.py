"""A pass of maintenance: what it does to a whole data directory."""

from __future__ import annotations

from datetime import timedelta

from deltalake import DeltaTable

from bindery.store.maintenance import maintain
from bindery.store.paths import DataDir
from bindery.store.places import at as place
from bindery.store.read import read_queue
from tests.unit.store.maintenance.conftest import NOTHING_OLD, Clock, Stream, data_files_of


def everything(data: DataDir) -> list[str]:
    return sorted(place(data.root).within())


def test_many_small_files_become_few_and_nothing_is_lost(data: DataDir, stream: Stream, clock: Clock) -> None:
    stream.run(40)
    before = read_queue(data, "a")
    clock.ahead = timedelta(hours=1)
    found = {one.name: one for one in maintain(data, NOTHING_OLD, clock=clock).tables}
    assert (found["queues/~2F/a"].merged, found["queues/~2F/a"].into) == (40, 1)
    assert (found["manifest"].merged, found["manifest"].into) == (40, 1)
    assert read_queue(data, "a").equals(before)
    clock.ahead = timedelta(hours=2)
    maintain(data, NOTHING_OLD, clock=clock)
    assert len(data_files_of(data.queue("/", "a"))) == 1
    assert read_queue(data, "a").equals(before)
    assert DeltaTable(data.queue("/", "a")).to_pyarrow_table().num_rows == before.num_rows
    stream.run(1)
    assert read_queue(data, "a").num_rows == before.num_rows + 3


def test_a_dry_run_writes_nothing_and_says_what_would_be_done(data: DataDir, stream: Stream, clock: Clock) -> None:
    stream.run(40)
    before = everything(data)
    found = {one.name: one for one in maintain(data, NOTHING_OLD, dry_run=True, clock=clock).tables}
    assert everything(data) == before
    assert (found["queues/~2F/a"].merged, found["queues/~2F/a"].into) == (40, 1)


def test_a_second_pass_finds_nothing_to_do(data: DataDir, stream: Stream, clock: Clock) -> None:
    stream.run(40)
    maintain(data, clock=clock)
    before = everything(data)
    assert not any(one.is_touched for one in maintain(data, clock=clock).tables)
    assert everything(data) == before
