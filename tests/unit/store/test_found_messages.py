"""Searches: each message once, wherever it stands, and in the journal of its stream when it stands nowhere else."""

from __future__ import annotations

import random

import pytest

from bindery.router.filters import parse
from bindery.router.message import Message
from bindery.router.model import Exchange, Topology
from bindery.router.values import Table
from bindery.store import found_messages, read
from bindery.store.backfill import Backfiller
from bindery.store.backfill import Selection as Brought
from bindery.store.found_messages import Found, FoundMessage, find
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from bindery.store.unroutable import Selection
from tests.unit.store.routed import route
from tests.unit.store.test_deferred import declare

#: A message, by its header n: where it stands, and what it had reached if only the journal has it.
Where = tuple[int, str | None, str | None, tuple[str, ...]]


def publish(data: DataDir, store: TopologyStore, batch: int, *numbers: int, key: str = "late") -> None:
    sent = [
        Message("", key, cc=("now",) if key == "late" else (), bcc=("x",), application_properties=Table({"n": n}))
        for n in numbers
    ]
    route(data, store, sent, batch_id=batch, clock_ms=1_800_000_000_000 + batch, journal=True)


def where(found: Found | list[FoundMessage]) -> list[Where]:
    messages = found.messages if isinstance(found, Found) else found
    return [(one.message.application_properties["n"], one.queue, one.journal, one.reached) for one in messages]


def everywhere(data: DataDir, *, limit: int = 100, on: str | None = None) -> Found:
    return find(data, "/", [None, "late", "now"], Selection(), limit=limit, on=on, anywhere=True)


@pytest.fixture
def kept(data: DataDir, store: TopologyStore) -> DataDir:
    """Of four messages that reached both queues, one is in neither any more, and one in one; a fifth reached none."""
    declare(store, late=60, now=0)
    publish(data, store, 0, 0, 1, 2)
    publish(data, store, 1, 3)
    publish(data, store, 2, 4, key="nowhere")
    read.take(data, "late", limit=2)
    read.take(data, "now", limit=1)
    return data


def test_what_no_queue_has_any_more_is_found_in_the_journal(kept: DataDir) -> None:
    assert set(where(everywhere(kept))) == {
        (4, None, None, ()),
        *((n, "now", None, ()) for n in (1, 2, 3)),
        *((n, "late", None, ()) for n in (2, 3)),
        (0, None, "flights", ("late", "now")),
    }
    assert len(everywhere(kept).messages) == 7
    (one,) = find(kept, "/", ["now"], Selection(condition=parse("n = 0", "jms")), limit=9).messages
    assert (one.row, one.reason, one.message.bcc) == ("flights:0:0", None, ())
    assert one.routed_at == "2027-01-15T08:00:00.000Z"


def test_of_one_queue_what_it_had_is_found(kept: DataDir) -> None:
    assert where(find(kept, "/", ["late"], Selection(), limit=9)) == [
        (3, "late", None, ()),
        (2, "late", None, ()),
        (1, None, "flights", ("late", "now")),
        (0, None, "flights", ("late", "now")),
    ]
    alone = find(kept, "/", ["late"], Selection(), limit=9, live=False)
    assert where(alone) == [(3, "late", None, ()), (2, "late", None, ())]
    assert where(find(kept, "/", [None], Selection(), limit=9)) == [(4, None, None, ())]


def test_messages_that_were_only_counted_are_found(data: DataDir, store: TopologyStore) -> None:
    counting = Exchange("/", "counting", "fanout", arguments=Table({"x-record-unroutable": False}))
    store.edit(lambda editor: editor.declare_exchange(counting), author="t")
    route(data, store, [Message("counting", "k", application_properties=Table({"n": 7}))], journal=True)
    for queues in ([None], [None, "late"]):
        (one,) = find(data, "/", queues, Selection(), limit=9).messages
        assert (one.queue, one.journal, one.reason, one.reached) == (None, "flights", "no_binding", ())
    assert not find(data, "/", ["late"], Selection(), limit=9, anywhere=False).messages


def test_what_a_deleted_queue_had_and_what_a_backfill_brought(kept: DataDir, store: TopologyStore) -> None:
    store.edit(lambda editor: editor.delete_queue("/", "late"), author="t")
    found = find(kept, "/", [None, "now"], Selection(), limit=9, anywhere=True)
    assert where(found)[-1] == (0, None, "flights", ("now",))
    read.delete_matching(kept, "now", None)
    store.edit(lambda editor: editor.delete_queue("/", "now"), author="t")
    declare(store, now=0)
    assert where(find(kept, "/", ["now"], Selection(), limit=9)) == []  # another queue of that name
    assert Backfiller(kept, store, "/").backfill("now", Brought(filter="n < 2")).rows == 2
    found = find(kept, "/", [None, "now"], Selection(condition=parse("n < 3", "jms")), limit=9, anywhere=True)
    assert set(where(found)) == {(2, None, "flights", ()), (1, "now", None, ()), (0, "now", None, ())}


@pytest.mark.long
@pytest.mark.parametrize("rows", [1, 1_000])
def test_pages_have_what_a_slow_search_has(
    data: DataDir, store: TopologyStore, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """However long pages are; and a message that is consumed between two of them is not passed over."""
    chosen = random.Random(4)
    declare(store, late=60, now=0)
    for batch in range(4):
        publish(data, store, batch, *range(5 * batch, 5 * batch + 5))
    for queue in ("late", "now"):
        taken = chosen.sample(range(20), 9)
        read.delete_matching(data, queue, parse(f"n IN ({', '.join(map(str, taken))})", "amqp-sql"))
    monkeypatch.setattr(found_messages, "MAX_ROWS", rows)
    standing = {(n, name) for name in ("late", "now") for n in _numbers(data, name)}
    expected = standing | {(n, None) for n in set(range(20)) - {n for n, _ in standing}}
    for limit in (1, 3, 100):
        found: list[FoundMessage] = []
        on = None
        while True:
            page = everywhere(data, limit=limit, on=on)
            found += page.messages
            on = page.on
            if on is None:
                break
        assert sorted((n, queue or "") for n, queue, _, _ in where(found)) == sorted((n, q or "") for n, q in expected)
        assert all((one.queue is None) == (one.journal == "flights") for one in found)
    page = everywhere(data, limit=1)
    for queue in ("late", "now"):
        read.delete_matching(data, queue, None)
    later = {one.row for one in page.messages}
    while page.on is not None:
        page = everywhere(data, limit=4, on=page.on)
        later |= {one.row for one in page.messages}
    assert len(later) == 20


def _numbers(data: DataDir, queue: str) -> list[int]:
    topology: Topology = TopologyStore(data).load()
    assert ("/", queue) in topology.queues
    properties = read.read_queue(data, queue)["application_properties"].to_pylist()
    return [dict(one)["n"]["int"] for one in properties]
