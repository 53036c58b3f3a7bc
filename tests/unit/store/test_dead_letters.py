"""Dead letters: what limits take out of a queue is published to its dead letter exchange, each message once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.message import Message, from_batch
from bindery.router.model import Binding, Exchange, Queue
from bindery.router.queue_limits import LimitsOf
from bindery.router.values import Table, Timestamp, Value
from bindery.store import faults, read, recorded
from bindery.store.limit_counts import deleted
from bindery.store.limiting import LimitsReport, finish_dead_letters, keep_limits
from bindery.store.log import TableLog
from bindery.store.manifest import read_manifest
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore
from bindery.store.transfer_plans import DEAD_LETTERS, Plans
from tests.unit.store.conftest import Crash, at, crash
from tests.unit.store.routed import route
from tests.unit.store.test_limits import NUMBERS, Row, fill, reference

CLOCK = 1_800_000_000_000


def declare(**queues: dict[str, Value]) -> Callable[[TopologyEditor], None]:
    """Queues with arguments, and the fanout exchange dlx and the direct exchange keys, to which d and e are bound."""

    def change(editor: TopologyEditor) -> None:
        editor.declare_exchange(Exchange("/", "dlx", "fanout"))
        editor.declare_exchange(Exchange("/", "keys", "direct"))
        for name, arguments in queues.items():
            stated = {f"x-{key}".replace("_", "-"): value for key, value in arguments.items()}
            editor.declare_queue(Queue("/", name, arguments=Table(stated)))
        editor.bind(Binding(0, "/", "dlx", "d"))

    return change


def keep(store: TopologyStore, name: str = "q", *, now: int = CLOCK + 100) -> LimitsReport:
    queue = store.load().queue("/", name)
    found = keep_limits(store, queue, LimitsOf(store.load())(queue), lambda: now)
    assert found.error is None
    assert not Plans(store.data, "/", kind=DEAD_LETTERS).pending()
    return found


def messages(data: DataDir, name: str) -> list[Message]:
    return from_batch(read.read_queue(data, name))


def test_what_expires_is_published_anew_and_says_how_it_died(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare(q={"message_ttl": 50, "dead_letter_exchange": "dlx"}, d={}), author="t")
    sent = Message(
        "",
        "q",
        header={"ttl": 20, "priority": 7, "delivery_count": 3},
        application_properties=Table({"n": 1}),
        mandatory=True,
        body=b"b",
    )
    route(data, store, [sent], clock_ms=CLOCK)
    assert not keep(store, now=CLOCK + 19).is_touched
    found = keep(store)
    assert (found.expired, found.dead_lettered, found.missing) == (1, 1, None)
    assert messages(data, "q") == []
    (letter,) = messages(data, "d")
    entry = {"count": 1, "reason": "expired", "queue": "q", "time": Timestamp(CLOCK), "exchange": ""}
    entry |= {"routing-keys": ("q",), "original-expiration": "20"}
    assert letter.application_properties == Table(
        {
            "n": 1,
            "x-death": (Table(entry),),
            **{f"x-{when}-death-exchange": "" for when in ("first", "last")},
            **{f"x-{when}-death-queue": "q" for when in ("first", "last")},
            **{f"x-{when}-death-reason": "expired" for when in ("first", "last")},
        }
    )
    assert letter.header == {"priority": 7, "delivery_count": 0}
    assert (letter.exchange, letter.routing_key, letter.body, letter.mandatory) == ("dlx", "q", b"b", False)
    rows = read.read_queue(data, "d", columns=["routing"])["routing"].to_pylist()
    assert rows[0]["stream"] == "limits:~2F/q"
    assert deleted(TableLog(data.queue("/", "q"))) == {"expired": 1, "maxlen": 0, "replaced": 0}


@pytest.mark.parametrize(
    ("key", "reached", "keys"), [(None, {"d": 1, "e": 1}, ("q", "e")), ("dead", {"d": 1, "e": 0}, ("q", "e"))]
)
def test_the_keys_are_those_of_the_message_or_the_one_that_is_stated(
    data: DataDir, store: TopologyStore, key: str | None, reached: dict[str, int], keys: tuple[str, ...]
) -> None:
    limits: dict[str, Value] = {"max_length": 0, "dead_letter_exchange": "keys"}
    limits |= {} if key is None else {"dead_letter_routing_key": key}
    store.edit(declare(q=limits, d={}, e={}), author="t")
    store.edit(
        lambda editor: [
            editor.bind(Binding(0, "/", "keys", name, routing_key=text))
            for name, text in (("d", "dead"), ("d", "q"), ("e", "e"))
        ],
        author="t",
    )
    sent = Message("", "q", cc=("e",), bcc=("b",))
    route(data, store, [sent], clock_ms=CLOCK)
    before = len(messages(data, "e"))
    assert keep(store).overflowed == 1
    assert {"d": len(messages(data, "d")), "e": len(messages(data, "e")) - before} == reached
    letter = messages(data, "d")[-1]
    (entry,) = letter.application_properties["x-death"]
    assert (entry["routing-keys"], entry["reason"]) == (keys, "maxlen")  # RabbitMQ: those of BCC are not told
    assert (letter.routing_key, letter.cc) == (("q", ("e",)) if key is None else (key, ()))


def test_a_further_death_is_told_first(data: DataDir, store: TopologyStore) -> None:
    store.edit(
        declare(
            q={"message_ttl": 50, "dead_letter_exchange": "dlx"},
            d={"max_length": 0, "dead_letter_exchange": "", "dead_letter_routing_key": "e"},
            e={},
        ),
        author="t",
    )
    earlier = (Table({"queue": "q", "reason": "expired", "count": 4, "exchange": "z"}), Table({"queue": "y"}))
    sent = Message("", "q", application_properties=Table({"x-death": earlier, "x-first-death-queue": "y"}))
    route(data, store, [sent, Message("", "q")], clock_ms=CLOCK)
    keep(store)
    keep(store, "d")
    known, new = messages(data, "e")
    entries = known.application_properties["x-death"]
    assert [(entry.get("queue"), entry.get("reason"), entry.get("count")) for entry in entries] == [
        ("d", "maxlen", 1),
        ("q", "expired", 5),
        ("y", None, None),
    ]  # fmt: skip
    assert [known.application_properties[f"x-{when}-death-queue"] for when in ("first", "last")] == ["y", "d"]
    assert "x-first-death-reason" not in known.application_properties
    assert [entry["queue"] for entry in new.application_properties["x-death"]] == ["d", "q"]
    assert [new.application_properties[f"x-{when}-death-reason"] for when in ("first", "last")] == ["expired", "maxlen"]


@pytest.mark.parametrize(("rejected", "comes_back"), [(False, False), (True, True)])
def test_no_message_goes_in_a_circle_unless_somebody_rejected_it(
    data: DataDir, store: TopologyStore, rejected: bool, comes_back: bool
) -> None:
    limits = {"max_length": 0, "dead_letter_exchange": "", "dead_letter_routing_key": "o"}
    back = {"max_length": 0, "dead_letter_exchange": "", "dead_letter_routing_key": "q"}
    store.edit(declare(q=limits, o=back, d={}), author="t")
    deaths = (Table({"queue": "o", "reason": "maxlen", "count": 1}),)
    if rejected:
        deaths = (Table({"queue": "p", "reason": "rejected", "count": 1}), *deaths)
    route(data, store, [Message("", "q", application_properties=Table({"x-death": deaths}))], clock_ms=CLOCK)
    assert keep(store).dead_lettered == 1
    assert len(messages(data, "o")) == comes_back
    assert messages(data, "q") == []


def test_a_queue_that_is_its_own_dead_letter_queue_loses_what_goes(data: DataDir, store: TopologyStore) -> None:
    store.edit(
        declare(q={"max_length": 1, "dead_letter_exchange": "", "dead_letter_routing_key": "q"}, d={}), author="t"
    )
    route(data, store, [Message("", "q", body=b"%d" % n) for n in range(3)], clock_ms=CLOCK)
    assert keep(store).overflowed == 2
    assert [one.body for one in messages(data, "q")] == [b"2"]


def test_what_reaches_no_queue_is_unroutable(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare(q={"max_length": 0, "dead_letter_exchange": "keys"}, d={}), author="t")
    route(data, store, [Message("", "q", mandatory=True)], clock_ms=CLOCK)
    assert keep(store).dead_lettered == 1
    (row,) = [row for batch in recorded.rows_of(data, "/", None) for row in batch.to_pylist()]
    assert (row["exchange"], row["reason"], row["disposition"]) == ("keys", "no_binding", "discarded")


def test_without_the_exchange_rows_are_deleted(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare(q={"max_length": 0, "dead_letter_exchange": "nowhere"}, d={}), author="t")
    route(data, store, [Message("", "q")], clock_ms=CLOCK)
    found = keep(store)
    assert (found.overflowed, found.dead_lettered, found.missing) == (1, 0, "nowhere")
    assert messages(data, "q") == []


def test_a_dry_run_says_what_would_be_dead_lettered(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare(q={"max_length": 1, "dead_letter_exchange": "dlx"}, d={}), author="t")
    route(data, store, [Message("", "q"), Message("", "q")], clock_ms=CLOCK)
    queue = store.load().queue("/", "q")
    found = keep_limits(store, queue, LimitsOf(store.load())(queue), lambda: CLOCK, dry_run=True)
    assert (found.overflowed, found.dead_lettered) == (1, 1)
    assert (len(messages(data, "q")), len(messages(data, "d"))) == (2, 0)


def test_what_is_replaced_is_no_dead_letter(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare(q={"max_length": 1, "last_value_key": "n", "dead_letter_exchange": "dlx"}, d={}), author="t")
    sent = [Message("", "q", application_properties=Table({"n": n}), body=b"%d" % n) for n in (1, 2, 1)]
    route(data, store, sent, clock_ms=CLOCK)
    found = keep(store)
    assert (found.replaced, found.overflowed, found.dead_lettered) == (1, 1, 1)
    assert [one.body for one in messages(data, "d")] == [b"2"]
    assert [one.body for one in messages(data, "q")] == [b"1"]


# -- once, whatever dies ------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["limits.planned", "limits.claiming", "limits.claimed", "limits.delivered"])
def test_whoever_comes_later_finishes_what_was_begun(data: DataDir, store: TopologyStore, point: str) -> None:
    store.edit(declare(q={"max_length": 1, "dead_letter_exchange": "dlx"}, d={}), author="t")
    route(data, store, [Message("", "q", body=b"%d" % n) for n in range(3)], clock_ms=CLOCK)
    queue = store.load().queue("/", "q")
    with faults.installed(at(point, crash)), pytest.raises(Crash):
        keep_limits(store, queue, LimitsOf(store.load())(queue), lambda: CLOCK + 100)
    finish_dead_letters(TopologyStore(data))
    keep(store)
    assert sorted(one.body or b"" for one in messages(data, "d")) == [b"0", b"1"]
    assert [one.body for one in messages(data, "q")] == [b"2"]
    assert deleted(TableLog(data.queue("/", "q"))) == {"expired": 0, "maxlen": 2, "replaced": 0}
    assert sum(batch["stream"].startswith("limits:") for batch in read_manifest(data)) == 1


def test_what_another_takes_meanwhile_is_no_dead_letter(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare(q={"max_length": 0, "dead_letter_exchange": "dlx"}, d={}), author="t")
    route(data, store, [Message("", "q", body=b"%d" % n) for n in range(3)], clock_ms=CLOCK)
    with faults.installed(at("limits.planned", lambda: read.take(data, "q", limit=1))):
        assert keep(store).dead_lettered == 2
    assert [one.body for one in messages(data, "d")] == [b"1", b"2"]


def test_rows_whose_queue_is_deleted_on_their_way_come_back(data: DataDir, store: TopologyStore) -> None:
    store.edit(declare(q={"max_length": 0, "dead_letter_exchange": "dlx"}, d={}), author="t")
    route(data, store, [Message("", "q", body=b"1")], clock_ms=CLOCK)
    with faults.installed(
        at("limits.claimed", lambda: store.edit(lambda editor: editor.delete_queue("/", "d"), author="t"))
    ):
        found = keep(store)
    # they are then judged anew: nothing is bound to the exchange any more
    assert found.dead_lettered == 1
    (row,) = [row for batch in recorded.rows_of(data, "/", None) for row in batch.to_pylist()]
    assert (row["body"], row["reason"]) == (b"1", "no_binding")


#: When a message was routed, and its own expiration.
TIMES = st.tuples(st.integers(0, 20), st.none() | st.integers(0, 30))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    times=st.lists(st.lists(TIMES, min_size=1, max_size=4), max_size=3),
    ttl=st.none() | st.integers(0, 30),
    most=st.none() | st.integers(0, 8),
    now=st.integers(0, 40),
)  # fmt: skip
def test_every_row_stays_or_is_dead_lettered_as_in_a_broker(
    tmp_path_factory: pytest.TempPathFactory, times: Any, ttl: int | None, most: int | None, now: int
) -> None:
    data = DataDir.open(str(tmp_path_factory.getbasetemp() / "dead"), create=True)
    store = TopologyStore(data)
    store.create()
    stated: dict[str, Value] = {"message_ttl": ttl, "max_length": most, "dead_letter_exchange": "dlx"}
    limits: dict[str, Value] = {key: value for key, value in stated.items() if value is not None}
    store.edit(lambda editor: [editor.delete_queue("/", name) for _, name in list(editor.topology.queues)], author="t")
    store.edit(declare(q=limits, d={}), author="t")
    files = [[Row(f"k{next(NUMBERS)}", CLOCK + at_, own) for at_, own in rows] for rows in times]
    fill(data, "q", *files)
    rows = sorted((row for rows in files for row in rows), key=lambda row: row.routed)
    queue = store.load().queue("/", "q")
    stays, expired, dropped = reference(rows, LimitsOf(store.load())(queue), CLOCK + now)
    keep(store, now=CLOCK + now)
    assert [one.routing_key for one in messages(data, "q")] == [row.key for row in stays]
    found = {one.routing_key: one.application_properties["x-last-death-reason"] for one in messages(data, "d")}
    assert found == {row.key: "expired" for row in expired} | {row.key: "maxlen" for row in dropped}
    assert len(messages(data, "d")) == len(expired) + len(dropped)
