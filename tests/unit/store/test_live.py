"""Reading deferred queues: what waits for them in journals is read with their tables, each copy once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.filters import parse
from bindery.router.message import QUEUE_SCHEMA, Message
from bindery.router.model import DEFAULT_VHOST
from bindery.router.values import Table
from bindery.store import deferred, read, tables
from bindery.store.deferred import live
from bindery.store.deferred.flushing import record_materialised
from bindery.store.destinations import ToQueue
from bindery.store.found_messages import find
from bindery.store.journal_files import Journal
from bindery.store.moves import Mover
from bindery.store.paths import DataDir
from bindery.store.queue_copies import copy_messages
from bindery.store.recorded import find_row
from bindery.store.samples import recent_messages, recent_names
from bindery.store.topology import TopologyStore
from bindery.store.transfers import Transfer
from bindery.store.unroutable import Selection
from tests.unit.store.routed import route
from tests.unit.store.test_deferred import declare


def publish(data: DataDir, store: TopologyStore, batch: int, *numbers: int) -> None:
    """A message for the queues late (deferred) and now (immediate) for each number, which is its header n."""
    sent = [
        Message("", "late", cc=("now",), bcc=("x",), application_properties=Table({"n": n}), body=b"%d" % n)
        for n in numbers
    ]
    route(data, store, sent, batch_id=batch, clock_ms=1_800_000_000_000 + batch)


def flush(data: DataDir, store: TopologyStore) -> None:
    journal = Journal.open(data.journal("flights"))
    record_materialised(journal, deferred.materialise(data, store, journal).through)


def numbers(rows: pa.Table) -> list[int]:
    return [int(body) for body in rows["body"].to_pylist()]


def in_table(data: DataDir) -> int:
    return tables.count_rows(data, DEFAULT_VHOST, "late")


@pytest.fixture
def waiting(data: DataDir, store: TopologyStore) -> DataDir:
    """Batches 0 and 1 are in the table of the queue late, 2 and 3 wait; the queue now has them all."""
    declare(store, late=60, now=0, other=0)
    publish(data, store, 0, 0, 1)
    publish(data, store, 1, 2)
    flush(data, store)
    publish(data, store, 2, 3, 4, 5)
    publish(data, store, 3, 6)
    return data


def test_a_queue_is_read_with_what_waits_for_it_and_its_table_alone_on_request(waiting: DataDir) -> None:
    whole = read.read_queue(waiting, "late")
    assert whole.equals(read.read_queue(waiting, "now"))
    assert whole.schema == QUEUE_SCHEMA
    assert numbers(read.read_queue(waiting, "late", live=False)) == [0, 1, 2]
    version = tables.TableLog(waiting.queue("/", "late")).version
    assert numbers(read.read_queue(waiting, "late", version=version)) == [0, 1, 2]
    some = read.read_queue(waiting, "late", filter="n > 1 AND n <> 4", columns=["body"])
    assert (some.column_names, numbers(some)) == (["body"], [2, 3, 5, 6])


def test_counts_and_browsing_show_what_waits(waiting: DataDir) -> None:
    odd = parse("n = 1 OR n = 3 OR n = 5", "jms")
    assert read.counted(waiting, "late") == read.Counted(7, 4)
    assert read.counted(waiting, "late", condition=odd) == read.Counted(3, 2)
    assert (read.count(waiting, "late", live=False), read.count(waiting, "late", condition=odd, live=False)) == (3, 1)
    first = read.look(waiting, "late", limit=5)
    assert (numbers(first.rows), first.held, first.waiting) == ([0, 1, 2, 3, 4], 7, 4)
    assert numbers(read.browse(waiting, "late", condition=odd)) == [1, 3, 5]
    assert numbers(read.browse(waiting, "late", live=False)) == [0, 1, 2]
    assert in_table(waiting) == 3


def test_a_reader_that_a_flush_overtakes_sees_each_copy_once(
    waiting: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two looks of a read all may be flushed, the journal's record of it included."""
    for batch, (look, late) in enumerate(
        (("journals", False), ("journals", True), ("tail_of", False), ("tail_of", True)), 4
    ):
        looks: Callable[..., Any] = getattr(live, look)

        def then(*args: Any, looks: Callable[..., Any] = looks, late: bool = late) -> Any:
            if not late:
                flush(waiting, store)
            found = looks(*args)
            if late:
                flush(waiting, store)
            return found

        publish(waiting, store, batch, batch + 3)
        with monkeypatch.context() as patched:
            patched.setattr(live, look, then)
            assert numbers(read.read_queue(waiting, "late")) == list(range(batch + 4))
        assert in_table(waiting) == batch + 4


def test_whoever_acts_on_a_queue_has_all_of_it(waiting: DataDir, store: TopologyStore) -> None:
    taken = read.take(waiting, "late", limit=4)
    assert (numbers(taken.rows), taken.held, in_table(waiting)) == ([0, 1, 2, 3], 7, 3)
    publish(waiting, store, 4, 7, 8)
    assert read.delete_matching(waiting, "late", parse("n = 8", "jms")) == 1
    publish(waiting, store, 5, 9)
    assert read.delete_rows(waiting, "late", read.browse(waiting, "late", condition=parse("n = 9", "jms"))) == 1
    publish(waiting, store, 6, 10)
    to = Transfer("/", "late", ToQueue("other"), parse("n = 10", "jms"))
    assert Mover(waiting, store, "/").move(to, dry_run=True).messages == 1
    assert read.counted(waiting, "late").waiting == 1
    assert copy_messages(waiting, store, to).messages == 1
    assert Mover(waiting, store, "/").move(to).messages == 1
    assert numbers(read.read_queue(waiting, "other")) == [10, 10]
    publish(waiting, store, 7, 11)
    assert numbers(read.read_queue(waiting, "late")) == [4, 5, 6, 7, 11]
    assert read.delete_matching(waiting, "late", None) == 5
    assert read.counted(waiting, "late") == read.Counted(0, 0)


def test_messages_that_wait_are_found(waiting: DataDir, store: TopologyStore) -> None:
    topology = store.load()
    found = find(waiting, "/", ["late"], Selection(condition=parse("n > 3", "jms")), limit=9)
    assert [one.message.application_properties["n"] for one in found.messages] == [6, 5, 4]
    later = Selection(condition=parse("n > 3", "jms"))
    assert not find(waiting, "/", ["late"], later, limit=9, live=False).messages
    read.delete_matching(waiting, "now", None)
    for batch in (0, 2):  # one that was flushed, one that waits
        assert find_row(waiting, topology, "/", read.RowId("flights", batch, 0)).queue == "late"


def test_samples_of_recent_messages_have_what_waits(waiting: DataDir) -> None:
    found = recent_messages(waiting, "/")
    assert set(found) == {"late", "now"}
    assert sorted(found["late"]) == sorted(found["now"])
    assert recent_names(waiting, "/")[""].rows == 14


def test_a_queue_that_is_declared_again_has_nothing_of_the_one_before(waiting: DataDir, store: TopologyStore) -> None:
    store.edit(lambda editor: editor.delete_queue("/", "late"), author="t")
    declare(store, late=60)
    assert read.counted(waiting, "late") == read.Counted(0, 0)
    publish(waiting, store, 4, 1)
    assert read.counted(waiting, "late") == read.Counted(1, 1)


def test_counts_of_many_queues_are_what_each_is_told(data: DataDir, store: TopologyStore) -> None:
    declare(store, late=60, now=0, further=60)
    publish(data, store, 0, 0, 1)
    route(data, store, [Message("", "further"), Message("", "late", cc=("further",))], batch_id=1)
    deferred.materialise_queue(data, store, "/", "further")
    route(data, store, [Message("", "further")], batch_id=2)
    route(data, store, [Message("", "further")], batch_id=0, stream="other")
    found = live.waiting_journals(data, "/")
    queues = store.load().queues
    told = {
        queues["/", name].id: live.Progress.of(tables.TableLog(data.queue("/", name)))
        for name in ("late", "now", "further")
    }
    assert live.waiting_counts(found, told) == {queues["/", "late"].id: 3, queues["/", "further"].id: 2}


def test_without_a_journal_no_topology_is_read(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(store, late=60, now=0)
    route(data, store, [Message("", "now")])
    monkeypatch.setattr(live, "TopologyStore", None)
    assert read.read_queue(data, "now").num_rows == 1
    assert read.take(data, "now").rows.num_rows == 1


@settings(max_examples=15, deadline=None)
@given(places=st.sets(st.integers(0, 99), min_size=1), group=st.integers(1, 40), together=st.integers(1, 50))
def test_rows_out_of_a_journal_are_those_at_their_places(
    tmp_path_factory: pytest.TempPathFactory, places: set[int], group: int, together: int
) -> None:
    """Whatever the row groups of the file and however many rows are read together."""
    folder = tmp_path_factory.mktemp("tail")
    rows = pa.table({"routing_key": [str(number) for number in range(100)]})
    pq.write_table(rows, folder / "f.parquet", row_group_size=group)
    chosen = np.array(sorted(places))
    one = live.TailFile(str(folder), "f.parquet", None, chosen, None)  # type: ignore[arg-type]  # not looked at
    found = [key for batch in one.batches(columns=["routing_key"], together=together) for key in batch["routing_key"]]
    assert [int(str(key)) for key in found] == chosen.tolist()
