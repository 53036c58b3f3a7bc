"""What the engine reports: reasons, dispositions, details, lineage and counters (semantics of seeds 003, 004)."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from bindery.router.declarations import TopologyEditor
from bindery.router.engine import DISPOSITIONS, REASONS, Deliveries, Router, Work
from bindery.router.errors import NotFound
from bindery.router.filters import like, scalar
from bindery.router.message import MESSAGE_SCHEMA, Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Binding, Divert, Exchange, Queue, Topology
from bindery.router.reference import NaiveRouter
from bindery.router.values import Table


def exchange(
    editor: TopologyEditor, name: str, kind: str = "direct", *, internal: bool = False, **arguments: object
) -> None:
    table = Table({key.replace("_", "-"): value for key, value in arguments.items()})
    editor.declare_exchange(Exchange(DEFAULT_VHOST, name, kind, internal=internal, arguments=table))


def queue(editor: TopologyEditor, name: str, **arguments: object) -> None:
    table = Table({key.replace("_", "-"): value for key, value in arguments.items()})
    editor.declare_queue(Queue(DEFAULT_VHOST, name, arguments=table))


def bind(
    editor: TopologyEditor, source: str, destination: str, key: str = "", kind: str = "queue", **arguments: object
) -> int:
    table = Table({name.replace("_", "-"): value for name, value in arguments.items()})
    return editor.bind(Binding(0, DEFAULT_VHOST, source, destination, kind, key, table))[0].id


def divert(editor: TopologyEditor, name: str, source: str, destination: str, **properties: object) -> int:
    return editor.declare_divert(Divert(0, DEFAULT_VHOST, name, source, destination, **properties))[0].id


def route(editor: TopologyEditor, *messages: Message) -> Deliveries:
    return Router.compile(editor.topology, DEFAULT_VHOST).route(to_batch(messages), clock_ms=0)


def why(found: Deliveries) -> list[tuple[int, str, str, bool]]:
    lost = found.unroutable
    return [
        (int(row), REASONS[reason], DISPOSITIONS[disposition], bool(recorded))
        for row, reason, disposition, recorded in zip(
            lost.rows, lost.reason, lost.disposition, lost.recorded, strict=True
        )
    ]


@pytest.fixture
def editor() -> TopologyEditor:
    editor = TopologyEditor(Topology.empty())
    queue(editor, "q")
    return editor


def test_a_missing_vhost_is_not_found() -> None:
    with pytest.raises(NotFound):
        Router.compile(Topology.empty(), "none")


def test_every_reason_has_its_rule_and_says_where(editor: TopologyEditor) -> None:
    exchange(editor, "inside", internal=True)
    exchange(editor, "plain")
    exchange(editor, "half", alternate_exchange="gone")
    exchange(editor, "lost", alternate_binding=Table({"destination": "gone"}))
    bind(editor, "plain", "q", "k", x_filter_jms_selector="a = 1")
    queue(editor, "picky", x_queue_filter="a = 1")
    found = route(
        editor,
        Message(exchange="none"),
        Message(exchange="inside"),
        Message(exchange="plain", routing_key="z"),
        Message(exchange="plain", routing_key="k"),
        Message(exchange="", routing_key="picky"),
        Message(exchange="half"),
        Message(exchange="lost"),
    )
    assert why(found) == [
        (row, reason, "discarded", True)
        for row, reason in enumerate(
            [
                "no_exchange",
                "internal_exchange",
                "no_binding",
                "filtered",
                "filtered",
                "alternate_missing",
                "alternate_missing",
            ]
        )
    ]
    for detail, name in zip(
        found.unroutable.detail, ["none", "inside", "plain", "plain", "", "half", "lost"], strict=True
    ):
        assert repr(name) in str(detail)
    assert found.counts.reasons.tolist() == [1, 1, 1, 2, 2, 0, 0, 0, 0]


def test_a_missing_alternate_outweighs_a_filter(editor: TopologyEditor) -> None:
    exchange(editor, "x", alternate_exchange="gone")
    bind(editor, "x", "q", "k", x_filter_jms_selector="a = 1")
    assert why(route(editor, Message(exchange="x", routing_key="k")))[0][1] == "alternate_missing"


@pytest.mark.parametrize(
    "arguments",
    [{"alternate_exchange": ""}, {"alternate_binding": Table({"destination": ""})}],
    ids=lambda item: next(iter(item)),
)
def test_the_empty_name_is_no_alternate(editor: TopologyEditor, arguments: dict[str, object]) -> None:
    """Only publishing knows the empty name: the default exchange would have taken this key."""
    exchange(editor, "x", **arguments)
    message = Message(exchange="x", routing_key="q")
    found = route(editor, message)
    assert (found.rows.tolist(), why(found)[0][1]) == ([], "no_binding")
    assert NaiveRouter(editor.topology, DEFAULT_VHOST).route(message).reason == "no_binding"


def test_an_alternate_that_leads_elsewhere_is_not_missed(editor: TopologyEditor) -> None:
    exchange(editor, "x", alternate_exchange="gone", alternate_binding=Table({"destination": "q"}))
    found = route(editor, Message(exchange="x"))
    assert len(found.unroutable) == 0
    assert found.rows_of(0).tolist() == [0]


def test_a_divert_filter_that_rejects_is_no_reason(editor: TopologyEditor) -> None:
    exchange(editor, "x")
    divert(editor, "d", "x", "amq.fanout", filter="a = 1")
    assert why(route(editor, Message(exchange="x")))[0][1] == "no_binding"


@pytest.mark.parametrize(
    ("arguments", "mandatory", "disposition", "recorded"),
    [
        ({}, False, "discarded", True),
        ({}, True, "returned", True),
        ({"unroutable_message_behaviour": "REJECT"}, False, "rejected", True),
        ({"unroutable_message_behaviour": "REJECT"}, True, "returned", True),
        ({"unroutable_message_behaviour": "REJECT", "x_record_unroutable": False}, False, "rejected", True),
        ({"unroutable_message_behaviour": "DISCARD", "x_record_unroutable": False}, False, "discarded", False),
        ({"x_record_unroutable": False}, False, "discarded", False),
        ({"x_record_unroutable": False}, True, "returned", True),
    ],
)
def test_the_published_exchange_decides_what_becomes_of_it(
    editor: TopologyEditor, arguments: dict[str, object], mandatory: bool, disposition: str, recorded: bool
) -> None:
    exchange(editor, "second", unroutable_message_behaviour="REJECT", x_record_unroutable=True)
    exchange(editor, "x", "fanout", **arguments)
    bind(editor, "x", "second", kind="exchange")
    assert why(route(editor, Message(exchange="x", mandatory=mandatory))) == [(0, "no_binding", disposition, recorded)]


@pytest.mark.parametrize(
    ("arguments", "mandatory", "disposition"),
    [
        ({}, False, "rejected"),
        ({"unroutable_message_behaviour": "DISCARD", "x_record_unroutable": False}, False, "rejected"),
        ({}, True, "returned"),
        ({"unroutable_message_behaviour": "REJECT"}, False, "rejected"),
    ],
)
def test_a_sender_may_ask_for_rejection(
    editor: TopologyEditor, arguments: dict[str, object], mandatory: bool, disposition: str
) -> None:
    exchange(editor, "x", "fanout", **arguments)
    asking = Message(exchange="x", mandatory=mandatory, reject_unroutable=True)
    assert why(route(editor, asking)) == [(0, "no_binding", disposition, True)]
    assert why(route(editor, Message(exchange="none", reject_unroutable=True))) == [
        (0, "no_exchange", "rejected", True)
    ]


def test_what_a_sender_asks_for_is_asked_after_the_alternate(editor: TopologyEditor) -> None:
    exchange(editor, "x", alternate_binding=Table({"destination": "q"}))
    assert len(route(editor, Message(exchange="x", reject_unroutable=True)).unroutable) == 0


def test_lineage_names_everything_that_matched_on_the_way(editor: TopologyEditor) -> None:
    exchange(editor, "x", "fanout")
    exchange(editor, "y", "topic")
    queue(editor, "picky", x_queue_filter="a = 1")
    first = bind(editor, "x", "y", kind="exchange")
    bind(editor, "x", "q", x_filter_jms_selector="a = 1")
    rejected = bind(editor, "x", "picky")
    hash_, star = bind(editor, "y", "q", "#"), bind(editor, "y", "q", "*")
    bind(editor, "y", "q", "k.*")
    diverted = divert(editor, "d", "x", "y")
    found = route(editor, Message(exchange="x", routing_key="k"), Message(routing_key="q"), Message(routing_key="none"))
    assert found.lineage.to_pylist() == [sorted([first, rejected, hash_, star, diverted]), [0], []]
    assert dict(zip(found.counts.ids.tolist(), found.counts.hits.tolist(), strict=True)) == {
        0: 1, first: 1, rejected: 1, hash_: 1, star: 1, diverted: 1,
    }  # fmt: skip


def test_a_long_lineage_is_sorted_and_each_id_stands_once(editor: TopologyEditor) -> None:
    for name in "xyz":
        exchange(editor, name, "fanout")
    ids = {
        bind(editor, source, f"{target}", f"{key}", kind="exchange")
        for source, target in ("xy", "xz", "yz")
        for key in range(90)
    }
    ids |= {bind(editor, "z", "q", f"{key}") for key in range(90)}
    found = route(editor, Message(exchange="x"), Message(exchange="z"))
    assert found.lineage.to_pylist()[0] == sorted(ids)
    assert len(found.lineage.to_pylist()[1]) == 90
    assert found.rows.tolist() == [0, 1]


def test_one_copy_per_queue_whatever_led_there(editor: TopologyEditor) -> None:
    exchange(editor, "x", "topic")
    exchange(editor, "y", "fanout")
    for key in ("#", "a.*", "*.b", "a.b"):
        bind(editor, "x", "q", key)
    bind(editor, "x", "y", "#", kind="exchange")
    bind(editor, "y", "q")
    found = route(editor, Message(exchange="x", routing_key="a.b", cc=("a.c", "d.b")))
    assert found.rows.tolist() == [0]


def test_each_exchange_is_evaluated_once_per_set_of_keys(editor: TopologyEditor) -> None:
    for name in "xyz":
        exchange(editor, name, "fanout")
    for source in "xyz":
        for destination in "xyz":
            bind(editor, source, destination, kind="exchange")
            bind(editor, source, destination, kind="exchange", x_replacement_routing_key="k")
    # three exchanges, each with the keys of the message and with the new key
    assert route(editor, Message(exchange="x", routing_key="a", cc=("b",))).counts.work.states == 6
    # the new key is the one that the message has already
    assert route(editor, Message(exchange="x", routing_key="k", cc=("k",))).counts.work.states == 3


def test_filters_are_asked_only_for_bindings_that_match(editor: TopologyEditor) -> None:
    exchange(editor, "x")
    for number in range(200):
        bind(editor, "x", "q", f"k{number}", x_filter_jms_selector=f"a = {number}")
    found = route(editor, *(Message(exchange="x", routing_key=f"k{n}") for n in range(3)))
    assert found.counts.work.filter_pairs == 3


def test_a_divert_fires_where_nothing_else_is_declared() -> None:
    editor = TopologyEditor(Topology.empty())
    editor.declare_divert(Divert(0, DEFAULT_VHOST, "d", "amq.fanout", "amq.direct", "", exclusive=True))
    found = Router.compile(editor.topology, DEFAULT_VHOST).route(to_batch([Message(exchange="amq.fanout")]), clock_ms=0)
    assert [len(numbers) for numbers in found.lineage.to_pylist()] == [1]
    assert found.counts.work.states == 2


def test_the_steps_of_matching_are_counted(editor: TopologyEditor) -> None:
    editor.bind(Binding(0, DEFAULT_VHOST, "amq.topic", "q", routing_key="a.b"))
    one = route(editor, Message(exchange="amq.topic", routing_key="a.b")).counts.work.node_visits
    more = route(editor, *(Message(exchange="amq.topic", routing_key=key) for key in ("a.b", "a"))).counts.work
    assert 0 < one < more.node_visits
    assert route(editor, Message(exchange="missing")).counts.work == Work()


def test_run_time_trouble_is_counted_for_its_binding(editor: TopologyEditor) -> None:
    exchange(editor, "x", "fanout")
    bind(editor, "x", "q", x_filter_jms_selector="a = 1")
    troubled = bind(editor, "x", "q", x_filter_jms_selector="a / 0 = 1")
    queue(editor, "picky", x_queue_filter="a / 0 = 1")
    bind(editor, "x", "picky")
    sent = [Message(exchange="x", application_properties=Table({"a": number})) for number in (1, 2)]
    found = route(editor, *sent)
    assert dict(zip(found.counts.trouble_ids.tolist(), found.counts.trouble.tolist(), strict=True)) == {
        troubled: 2,
        -1: 2,  # the filter of the queue numbered 0
    }


def test_a_queue_filter_counts_once_for_a_message_whatever_ways_lead_to_the_queue(
    editor: TopologyEditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In gates of different queues, in one gate twice, and behind a filter of a binding."""
    exchange(editor, "x", "direct")
    queue(editor, "picky", x_queue_filter="a / 0 = 1 OR s LIKE '%a%'")
    queue(editor, "other", x_queue_filter="a = 1")
    for key, more in (("k", {}), ("k", {"x_first": 1}), ("l", {}), ("l", {"x_filter_jms_selector": "a = 1"})):
        bind(editor, "x", "picky", key, **more)
    bind(editor, "x", "other", "l")
    sent = Message(exchange="x", routing_key="k", cc=("l",), application_properties=Table({"a": 1}))
    found = route(editor, sent)
    picky = Router.compile(editor.topology, DEFAULT_VHOST).queues.index("picky")
    assert found.rows.tolist() == [0]
    assert (found.counts.trouble_ids.tolist(), found.counts.trouble.tolist()) == ([-1 - picky], [1])
    monkeypatch.setattr(like, "matcher", lambda _pattern: 1 / 0)
    failed = route(editor, replace(sent, application_properties=Table({"a": 2, "s": "a"})))
    assert (failed.counts.error_ids.tolist(), failed.counts.errors.tolist()) == ([-1 - picky], [1])
    assert str(failed.unroutable.detail[0]).count("queue 'picky'") == 1


def test_every_filter_of_a_binding_counts_once_whatever_keys_lead_to_it(editor: TopologyEditor) -> None:
    exchange(editor, "x", "fanout")
    members = (
        Table({"descriptor": "amqp:sql-filter", "value": "a = 1"}),
        Table({"descriptor": "amqp:application-properties-filter", "value": Table({"a": 1})}),
    )
    either = Table({"f": Table({"descriptor": "amqp:any-filter", "value": members})})
    bind(editor, "x", "q", x_filter_jms_selector="b = 5", x_filters=either)
    sent = [Message(exchange="x", application_properties=Table({"a": 1, "b": b})) for b in (5, 6)]
    assert route(editor, *sent).rows.tolist() == [0]


def faulty(monkeypatch: pytest.MonkeyPatch, *bad: str, error: BaseException | None = None) -> None:
    """A defect: LOWER of these texts raises."""

    def lower(value: str) -> str:
        if value in bad:
            raise ZeroDivisionError("injected") if error is None else error
        return value.lower()

    monkeypatch.setitem(scalar.FUNCTIONS, "LOWER", lower)


LOWERED = Table({"f": Table({"descriptor": "amqp:sql-filter", "value": "LOWER(s) = 'a'"})})


def texts(*values: str, exchange: str = "x", **properties: object) -> list[Message]:
    return [Message(exchange=exchange, application_properties=Table({"s": value, **properties})) for value in values]


def test_a_defect_in_evaluation_concerns_only_its_messages_and_its_filter(
    editor: TopologyEditor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    exchange(editor, "x", "fanout")
    queue(editor, "other")
    broken = bind(editor, "x", "q", x_filters=LOWERED)
    bind(editor, "x", "other", x_filter_jms_selector="s = 'BAD' OR s = 'c'")
    faulty(monkeypatch, "BAD", "WORSE")
    found = route(editor, *texts("A", "BAD", "b", "WORSE", "a", "BAD", "c"))
    other, q = (Router.compile(editor.topology, DEFAULT_VHOST).queues.index(name) for name in ("other", "q"))
    assert (found.rows_of(q).tolist(), found.rows_of(other).tolist()) == ([0, 4], [1, 5, 6])
    detail = f"could not be evaluated: the filter of binding {broken} from exchange 'x': ZeroDivisionError: injected"
    assert why(found) == [(2, "filtered", "discarded", True), (3, "filter_error", "discarded", True)]
    assert found.unroutable.detail[1] == detail
    missed = found.incomplete
    assert (missed.rows.tolist(), missed.detail, missed.recorded.tolist()) == ([1, 5], [detail] * 2, [True] * 2)
    assert {DISPOSITIONS[number] for number in missed.disposition} == {"delivered"}
    assert {REASONS[number] for number in missed.reason} == {"filter_error"}
    assert dict(zip(found.counts.error_ids.tolist(), found.counts.errors.tolist(), strict=True)) == {broken: 3}
    assert found.counts.trouble_ids.tolist() == []
    (record,) = caplog.records  # once per filter and batch, not per message
    assert (record.name, record.levelname) == ("bindery.filters", "ERROR")
    assert "LOWER(s) = " in record.getMessage()
    assert record.exc_info is not None


def test_a_defect_says_whose_filter_it_was_and_is_recorded_where_others_are_only_counted(
    editor: TopologyEditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange(editor, "x", "fanout", x_record_unroutable=False)
    queue(editor, "picky", x_queue_filter="s LIKE '%a%'")
    bind(editor, "x", "picky")
    diverted = divert(editor, "d", "x", "amq.fanout", filter="s LIKE '%b%'")
    monkeypatch.setattr(like, "matcher", lambda _pattern: 1 / 0)
    found = route(editor, *texts("ab"))
    assert why(found) == [(0, "filter_error", "discarded", True)]
    detail = str(found.unroutable.detail[0])
    assert "queue 'picky'" in detail
    assert f"divert {diverted} from exchange 'x'" in detail
    assert found.counts.error_ids.tolist() == [-1 - 0, diverted]


@pytest.mark.parametrize("error", [MemoryError(), OSError("no space"), KeyboardInterrupt(), SystemExit(1)])
def test_what_no_filter_is_to_blame_for_fails_the_batch(
    editor: TopologyEditor, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    exchange(editor, "x", "fanout")
    bind(editor, "x", "q", x_filters=LOWERED)
    faulty(monkeypatch, "BAD", error=error)
    with pytest.raises(type(error)):
        route(editor, *texts("A", "BAD"))


def test_an_empty_batch_goes_nowhere(editor: TopologyEditor) -> None:
    found = route(editor)
    assert (len(found.queue), len(found.rows), len(found.lineage), len(found.unroutable)) == (0, 0, 0, 0)
    assert found.offsets.tolist() == [0]


def test_columns_may_be_nulls_slices_or_large_texts_and_more_may_follow(editor: TopologyEditor) -> None:
    batch = to_batch([Message(routing_key="z", cc=("q",)), Message(routing_key="q"), Message(exchange="none")])
    missing = pa.RecordBatch.from_pydict({"routing_key": ["q", None]}, schema=pa.schema([("routing_key", pa.string())]))
    columns = {name: pa.nulls(2, kind) for name, kind in zip(MESSAGE_SCHEMA.names, MESSAGE_SCHEMA.types, strict=True)}
    columns["routing_key"] = missing.column(0).cast(pa.large_string())
    columns["further"] = pa.array([1, 2])
    router = Router.compile(editor.topology, DEFAULT_VHOST)
    assert router.route(batch.slice(1), clock_ms=0).rows.tolist() == [0]
    assert router.route(batch.slice(0, 1), clock_ms=0).rows.tolist() == [0]
    found = router.route(pa.RecordBatch.from_pydict(columns), clock_ms=0)
    assert found.rows.tolist() == [0]
    assert why(found) == [(1, "no_binding", "discarded", True)]


def test_queues_with_filters_behind_several_exchanges_get_what_each_asks_for(editor: TopologyEditor) -> None:
    """Three exchanges in one round, two of which lead to the same queues; the third to others."""
    for name in "txyz":
        exchange(editor, name, "fanout")
    for name in "xyz":
        bind(editor, "t", name, kind="exchange")
    for number in (1, 2, 3, 4):
        queue(editor, f"q{number}", x_queue_filter=f"a = {number}")
    for source, destination in (
        ("x", "q1"),
        ("x", "q2"),
        ("y", "q1"),
        ("y", "q"),
        ("y", "q2"),
        ("z", "q3"),
        ("z", "q4"),
    ):
        bind(editor, source, destination)
    sent = [Message(exchange="t", application_properties=Table({"a": number})) for number in (4, 1, 3, 2, 1)]
    found = route(editor, *sent)
    names = Router.compile(editor.topology, DEFAULT_VHOST).queues
    assert {names[number]: found.rows_of(number).tolist() for number in found.queue.tolist()} == {
        "q": [0, 1, 2, 3, 4],
        "q1": [1, 4],
        "q2": [3],
        "q3": [2],
        "q4": [0],
    }
    # a message asks the queues behind x and y, which are the same, and those behind z
    assert found.counts.work.filter_pairs == 2 * len(sent)


def test_a_body_that_cannot_be_read_is_noted_for_each_queue_that_looks_into_it(editor: TopologyEditor) -> None:
    exchange(editor, "x", "fanout")
    for name, text in (("one", "body.a = 1"), ("other", "body.b = 1"), ("plain", "a = 1")):
        queue(editor, name, x_queue_filter=text, x_payload="json")
        bind(editor, "x", name)
    counted = route(editor, Message(exchange="x", body=b"{"), Message(exchange="x", body=b"{}")).counts.unparsable
    assert {(kind, name): count for (kind, name, _), count in counted.items()} == {
        ("queue", "one"): 1,
        ("queue", "other"): 1,
    }
