"""What a shadow makes of publications and of looks at a topology, without a broker."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from bindery.jobs.shadowing import gathering, tally
from bindery.jobs.shadowing.gathering import LOST, TOO_FAST, Gathering
from bindery.jobs.shadowing.look import Look, read_look
from bindery.jobs.shadowing.publication import read_publication
from bindery.jobs.shadowing.tally import Tally, example_of
from bindery.router.errors import InvalidInput, InvalidRecord
from bindery.router.message import Message, to_batch
from bindery.router.values import Table, Timestamp
from tests.amqp import Field, encoded, long_string, table

# -- publications -----------------------------------------------------------------------------------------


def text(content: str | bytes) -> Field:
    return Field(long_string(content.encode() if isinstance(content, str) else content), content)


def number(value: int) -> Field:
    return Field(b"I" + struct.pack(">i", value), value)


def array(*texts: str | bytes) -> Field:
    content = b"".join(text(one).encoded for one in texts)
    return Field(b"A" + struct.pack(">I", len(content)) + content, texts)


def fields(content: dict[str, Field]) -> Field:
    return Field(b"F" + table(content), Table())


def told(
    queues: Iterable[str],
    exchange: str = "x",
    keys: Sequence[str | bytes] = ("k",),
    properties: dict[str, Field] | None = None,
) -> bytes:
    """A publication as the firehose tells of it."""
    headers = {
        "exchange_name": text(exchange),
        "routing_keys": array(*keys),
        "properties": fields(properties or {}),
        "node": text("rabbit@host"),
        "routed_queues": array(*queues),
    }
    return encoded({}, headers)


def test_a_publication_is_the_message_that_was_published() -> None:
    """rabbit_trace: properties by name, texts as long strings, numbers and times as 32-bit integers."""
    sent = {
        "content_type": text("text/plain"),
        "headers": fields({"a": number(5), "CC": array("x"), "b": text("ž")}),
        "delivery_mode": number(2),
        "priority": number(3),
        "expiration": text("1000"),
        "message_id": text("m"),
        "timestamp": number(2**31 - 2**32 + 5),
        "type": text("t"),
        "user_id": text("u"),
    }
    found = read_publication(told(("q", "r"), "ex", ("k", "x", "y"), sent), 77)
    assert (found.queues, found.node, found.size) == ({"q", "r"}, "rabbit@host", 77)
    assert found.message == Message(
        "ex",
        "k",
        cc=("x",),
        bcc=("y",),  # the broker has taken the header out: its keys alone are told
        header={"durable": True, "priority": 3, "ttl": 1000},
        message_annotations=Table({"x-opt-jms-type": "t"}),
        properties={
            "content_type": "text/plain",
            "message_id": "m",
            "user_id": b"u",
            "creation_time": Timestamp((2**31 + 5) * 1000),
        },
        application_properties=Table({"a": 5, "b": "ž"}),
        body=None,
    )


@pytest.mark.parametrize(
    "content",
    [
        told((b"\xff",), "x"),  # type: ignore[arg-type]
        told((), "x", (b"\xff",)),
        told((), "x", ()),
        told((), properties={"expiration": text("soon")}),
        told((), properties={"headers": fields({"CC": text("k")})}),
        encoded({}, {}),
    ],
)
def test_what_no_record_can_hold_is_told_apart(content: bytes) -> None:
    with pytest.raises(InvalidRecord):
        read_publication(content, 1)


# -- looks ------------------------------------------------------------------------------------------------


def look(
    bindings: Iterable[tuple[str, str, str] | tuple[str, str, str, dict[str, Any]]] = (),
    *,
    exchanges: dict[str, str] | None = None,
    queues: Iterable[str] = (),
    exclusive: Iterable[str] = (),
    before: Look | None = None,
    **beside: Any,
) -> Look:
    """A look at a vhost; exclusive queues, and their bindings, are in the list of bindings alone."""
    made = [
        {"source": s, "destination": d, "destination_type": "queue", "routing_key": k, "arguments": dict(*arguments)}
        for s, d, k, *arguments in bindings
    ]
    exclusive = set(exclusive)
    definitions = {
        "rabbit_version": "3.10.8",
        "exchanges": [
            {"name": name, "type": kind, "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
            for name, kind in (exchanges or {"x": "topic"}).items()
        ],
        "queues": [{"name": name, "durable": True, "auto_delete": False, "arguments": {}} for name in queues],
        "bindings": [one for one in made if one["destination"] not in exclusive],
        "parameters": [],
        "policies": [],
    } | beside
    implicit = [
        {"source": "", "vhost": "/", "destination": name, "destination_type": "queue", "routing_key": name}
        for name in {*queues, *exclusive}
    ]
    listed = implicit + [one | {"vhost": "/", "properties_key": "k"} for one in made]
    return read_look(json.dumps(definitions).encode(), listed, before)


def route(found: Look, message: Message) -> frozenset[str]:
    (queues,) = found.carried.explainer.reached(to_batch([message]), clock_ms=0)
    return queues


def test_exclusive_queues_and_names_of_the_broker_are_part_of_a_look() -> None:
    found = look(
        [("x", "q", "#"), ("x", "amq.gen-1", "a.*"), ("amq.topic", "amq.gen-1", "b"), ("amq.rabbitmq.log", "q", "#")],
        queues=["q", "~00~q", "amq.gen-kept"],
        exclusive=["amq.gen-1", "mine"],
    )
    assert found.carried.queues == {"q", "~00~q", "amq.gen-kept", "amq.gen-1", "mine"}
    assert route(found, Message("x", "a.b")) == {"q", "amq.gen-1"}
    assert route(found, Message("amq.topic", "b")) == {"amq.gen-1"}
    for name in found.carried.queues:
        assert route(found, Message("", name)) == {name}
    assert found.carried.counts["not carried over"] == 0


def test_what_shadows_declare_is_no_part_of_a_topology() -> None:
    plain = look([("x", "q", "#")], queues=["q"])
    name = "bindery.shadow.1"
    bindings = [("x", "q", "#"), (name, name, ""), ("amq.rabbitmq.trace", name, "publish.#")]
    beside = look(bindings, exchanges={"x": "topic", name: "fanout"}, queues=["q"], exclusive=[name], before=plain)
    assert beside.carried is plain.carried
    assert (beside.taps, beside.claims) == ({name}, {name: True})
    assert look([("x", "q", "a")], queues=["q"], before=plain).carried is not plain.carried


@pytest.mark.parametrize("content", [b"", b"[]", b"[" * 100_000])
def test_definitions_that_are_none(content: bytes) -> None:
    with pytest.raises(InvalidInput, match="are no"):
        read_look(content, [])


# -- gathering and comparing ------------------------------------------------------------------------------


def gathered(first: Look, limit: int | None = None) -> tuple[Tally, Gathering]:
    found = Tally()
    return found, Gathering(found, first, limit)


def test_a_message_is_compared_under_the_topologies_that_there_may_have_been() -> None:
    """One that comes between two marks was routed after the look before the first, and before that after the second."""
    bound, both, none = (look([("x", q, "#") for q in queues], queues=["q", "r"]) for queues in (["q"], ["q", "r"], []))
    for before, between, after, there, expected in (
        (bound, bound, bound, ["q"], "equal"),
        (bound, bound, bound, [], "differing"),
        (both, bound, bound, ["q", "r"], "moved"),
        (bound, both, bound, ["q"], "moved"),
        (bound, bound, none, ["q"], "moved"),
    ):
        counts, work = gathered(before)
        work.looked(between)
        work.came(1)
        work.take(told(there), 10)
        work.looked(after)
        assert work.is_waiting
        work.came(2)
        assert {name: getattr(counts, name) for name in ("equal", "differing", "moved")} == {
            "equal": 0,
            "differing": 0,
            "moved": 0,
        } | {expected: 1}


def test_a_topology_that_moves_elsewhere_does_not_keep_a_message_from_being_compared() -> None:
    counts, work = gathered(look([("x", "q", "a")], queues=["q"]))
    work.take(told(["q"], keys=("a",)), 10)
    work.looked(look([("x", "q", "a"), ("x", "r", "b")], queues=["q", "r"]))
    work.came(1)
    assert counts.equal == 1


def test_a_mark_that_is_lost_widens_the_time_between() -> None:
    bound, none = look([("x", "q", "#")], queues=["q"]), look([], queues=["q"])
    counts, work = gathered(bound)
    work.looked(bound)
    work.came(1)
    work.take(told(["q"]), 10)
    for one in (none, bound):
        work.looked(one)
    work.came(3)
    assert (counts.equal, counts.moved) == (0, 1)


def test_queues_that_come_and_go_between_looks_are_no_difference() -> None:
    counts, work = gathered(look([("x", "q", "#")], queues=["q"]))
    work.take(told(["q", "unseen"]), 10)
    work.looked(look([("x", "q", "#")], queues=["q"]))
    work.came(1)
    assert (counts.moved, counts.compared) == (1, 0)


def test_the_default_exchange_names_queues_that_there_are_not() -> None:
    """RabbitMQ: its publications name the key as a queue."""
    counts, work = gathered(look(queues=["q"]))
    for name in ("q", "nowhere"):
        work.take(told([name], exchange="", keys=(name,)), 10)
    work.looked(look(queues=["q"]))
    work.came(1)
    assert (counts.equal, counts.compared) == (2, 2)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "KEPT", 3)
    counts, work = gathered(look([("x", "q", "#")], queues=["q"]), limit=6)
    assert not work.is_full
    for _ in range(9):
        work.take(told(["q"]), 10)
    assert work.is_full
    assert work.is_enough
    work.looked(work.newest)
    work.came(1)
    assert (counts.equal, dict(counts.refused)) == (3, {TOO_FAST: 3})
    assert not work.is_full
    monkeypatch.setattr(gathering, "KEPT_BYTES", 15)
    counts, work = gathered(work.newest)
    for _ in range(3):
        work.take(told(["q"]), 10)
    work.give_up()
    assert dict(counts.refused) == {TOO_FAST: 1, LOST: 2}


def test_classes_queues_and_reasons_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, bound in (("CLASSES", 3), ("QUEUES", 5), ("REASONS", 2)):
        monkeypatch.setattr(tally, name, bound)
    names = [f"q{number}" for number in range(10)]
    counts, work = gathered(look(queues=names))
    for number, name in enumerate(names):
        for _ in range(number + 1):
            work.take(told([name]), 10)
    work.looked(work.newest)
    work.came(1)
    assert (counts.differing, counts.beyond, len(counts.queues)) == (55, 55 - 6, 5)
    assert [(one.messages, one.there) for one in counts.classes] == [(3, ["q2"]), (2, ["q1"]), (1, ["q0"])]
    for number in range(5):
        counts.refuse(str(number))
    assert dict(counts.refused) == {"0": 1, "1": 1, "for other reasons": 3}


def test_a_class_names_few_of_many_queues() -> None:
    names = [f"q{number:02}" for number in range(30)]
    counts, work = gathered(look([("x", name, "#") for name in names[20:]], queues=names))
    work.take(told(names[:20]), 10)
    work.looked(work.newest)
    work.came(1)
    (found,) = counts.classes
    assert (found.there, found.here, found.further) == (names[:10], names[20:], 10)
    assert set(found.reasons) == {*names[:10], *names[20:]}


def test_a_long_message_is_shown_in_short() -> None:
    headers = Table({f"h{number}": "x" * 1_000 for number in range(500)})
    shown = example_of(Message("x", "k", application_properties=headers))
    assert len(json.dumps(shown)) < 3 * tally.EXAMPLE
    short = Message("x", "k", application_properties=Table({"a": 5}))
    assert Message.from_json(example_of(short)) == short


# -- reasons ----------------------------------------------------------------------------------------------


def reasons(found: Look, publication: bytes) -> dict[str, Sequence[str]]:
    counts, work = gathered(found)
    work.take(publication, 10)
    work.looked(found)
    work.came(1)
    (one,) = counts.classes
    return dict(one.reasons)


@pytest.mark.parametrize(
    ("wanted", "sent", "known"),
    [
        (5, Field(b"d" + struct.pack(">d", 5.0), 5.0), "RabbitMQ 3 compares numbers whatever their type"),
        ("undefined", number(1), "RabbitMQ's API tells an argument without a value"),
        (5, Field(b"d" + struct.pack(">d", 5.5), 5.5), None),
        ("a", text("b"), None),
    ],
)
def test_a_reason_names_what_is_known_of_the_broker(wanted: Any, sent: Field, known: str | None) -> None:
    found = look([("h", "q", "", {"a": wanted})], exchanges={"h": "headers"}, queues=["q"])
    why = reasons(found, told(["q"], "h", properties={"headers": fields({"a": sent})}))["q"]
    assert "is wanted" in why[0] and "binding h -> q, key '', arguments" in why[0]
    assert [one.startswith(known) for one in why[1:]] == ([] if known is None else [True])  # type: ignore[arg-type]


def test_a_look_is_read_under_a_mode() -> None:
    definitions = {
        "exchanges": [{"name": "h", "type": "headers", "durable": True, "arguments": {}}],
        "queues": [{"name": "q", "durable": True, "arguments": {}}],
        "bindings": [],
    }
    binding = {"source": "h", "destination": "q", "destination_type": "queue", "routing_key": "", "arguments": {"a": 5}}
    message = Message("h", application_properties=Table({"a": 5.0}))
    content = json.dumps(definitions).encode()
    assert route(read_look(content, [binding]), message) == frozenset()
    assert route(read_look(content, [binding], compat="rabbitmq-3"), message) == {"q"}


def test_a_reason_names_what_is_not_carried_over() -> None:
    found = look([("any", "q", "")], exchanges={"any": "x-random"}, queues=["q"])
    why = reasons(found, told(["q"], "any"))["q"]
    assert why == [
        "exchange 'any' is not carried over: there is no exchange type 'x-random' here",
        "a binding of exchange 'any' is not carried over: no exchange 'any' in vhost '/'",
    ]


def test_a_reason_names_the_ring_of_a_hash_exchange() -> None:
    found = look([("ring", q, "1") for q in ("q", "r")], exchanges={"ring": "x-consistent-hash"}, queues=["q", "r"])
    message = Message("ring", "k")
    (here,) = route(found, message)
    (there,) = {"q", "r"} - {here}
    why = reasons(found, told([there], "ring"))
    assert why[there][-1].startswith("the ring of the broker follows from the order")
    assert why[here] == [f"binding ring -> {here}, key '1' matches", why[there][-1]]
