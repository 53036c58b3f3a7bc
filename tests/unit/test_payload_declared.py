"""`x-payload` on exchanges and queues: what filters there may look into, in every part that reads a topology."""

from __future__ import annotations

import base64
import io
import json
import pickle
from collections.abc import Callable
from dataclasses import replace

import fastavro
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from bindery.conformance.declarations import refusal
from bindery.router.analysis import analyse
from bindery.router.arguments import decode_arguments, encode_arguments
from bindery.router.declarations import FILTER_LIMITS, TopologyEditor, at, filter_limits
from bindery.router.definitions import apply, export, parse_definitions
from bindery.router.documents import read_source
from bindery.router.engine import Router
from bindery.router.errors import DefinitionsRefused, FilterError, InequivalentArgument, InvalidDeclaration
from bindery.router.explain import Explainer
from bindery.router.filters import Filter, parse
from bindery.router.filters.ast import Field, walk
from bindery.router.known_arguments import without_effect
from bindery.router.links import Links
from bindery.router.message import Message, to_batch
from bindery.router.model import Binding, Divert, Exchange, Queue, Setting, Topology
from bindery.router.model.objects import GLOBAL_PARAMETER
from bindery.router.policies import Policies, Policy
from bindery.router.proposal import read_change
from bindery.router.reference import NaiveRouter
from bindery.router.values import Table, Value
from bindery.store.routed_counts import RoutedCounts


def exchange(name: str, payload: Value = "json", kind: str = "fanout") -> Exchange:
    return Exchange("/", name, kind, arguments=Table({} if payload is None else {"x-payload": payload}))


def selecting(source: str, queue: str, text: str) -> Binding:
    return Binding(0, "/", source, queue, "queue", "", Table({"x-filter-jms-selector": text}))


def in_set(source: str, queue: str, text: str) -> Binding:
    member = Table({"descriptor": "amqp:sql-filter", "value": text})
    return Binding(0, "/", source, queue, "queue", "", Table({"x-filters": Table({"f": member})}))


@pytest.fixture
def editor() -> TopologyEditor:
    editor = TopologyEditor(Topology.empty())
    for name in ("big", "small", "text", "both"):
        editor.declare_queue(Queue("/", name))
    editor.declare_queue(
        Queue("/", "gold", arguments=Table({"x-payload": "json", "x-queue-filter": "body.customer.tier = 'gold'"}))
    )
    editor.declare_exchange(exchange("orders"))
    editor.declare_exchange(exchange("logs", "text"))
    editor.declare_exchange(exchange("plain", None))
    editor.bind(selecting("orders", "big", "body.amount >= 100"))
    editor.bind(in_set("orders", "small", "body.amount < 100 AND body.items[0].sku IS NOT NULL"))
    editor.bind(Binding(0, "/", "orders", "gold", "queue", ""))
    editor.bind(selecting("logs", "text", "body LIKE '%error%'"))
    editor.bind(selecting("plain", "both", "body = 'property'"))
    editor.declare_divert(Divert(0, "/", "d", "orders", "plain", filter="body.amount = 100"))
    return editor


def routed(topology: Topology, messages: list[Message]) -> tuple[list[set[str]], RoutedCounts]:
    """The queues of each message, of which the slow reference knows the same, and what is counted."""
    router, batch = Router.compile(topology, "/"), to_batch(messages)
    deliveries = router.route(batch, clock_ms=0)
    found: list[set[str]] = [set() for _ in messages]
    for queue in deliveries.queue.tolist():
        for row in deliveries.rows_of(queue).tolist():
            found[row].add(router.queues[queue])
    reference = NaiveRouter(topology, "/")
    assert found == [set(reference.route(message, clock_ms=0).queues) for message in messages]
    counts = RoutedCounts()
    counts.add(batch, deliveries)
    return found, counts


def order(source: str = "orders", **content: object) -> Message:
    return Message(exchange=source, body=json.dumps(content).encode())


def test_filters_of_bindings_diverts_and_queues_look_into_bodies(editor: TopologyEditor) -> None:
    messages = [
        order(amount=250, customer={"tier": "gold"}),
        order(amount=5, items=[{"sku": "a"}]),
        order(amount=100),
        Message(exchange="orders", body=b"no JSON"),
        Message(exchange="orders"),
        Message(exchange="logs", body=b'{"level": "error"}'),
        Message(exchange="plain", body=b"property"),
        Message(exchange="plain", body=b'{"amount": 100}', application_properties=Table({"body": "property"})),
    ]
    found, counts = routed(editor.topology, messages)
    assert found == [{"big", "gold"}, {"small"}, {"big"}, set(), set(), {"text"}, set(), {"both"}]
    assert counts.in_manifest(editor.topology, "/").filter_unknowns == {
        "body.amount >= 100": 1,
        "body.amount = 100": 1,
        "body.customer.tier = 'gold'": 1,
    }
    assert counts.unroutable == {"filtered": 3}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["orders", "logs", "plain"]),
            st.sampled_from(
                [None, b"", b"x", b"{", b'"error"', b'{"amount": 100}', b'{"amount": 99, "items": [{"sku": 1}]}',
                 b'{"amount": 1e3, "customer": {"tier": "gold"}}', b'{"amount": "100"}', b"\xff error"]
            ),
        ),
        max_size=8,
    )
)  # fmt: skip
def test_the_engine_routes_as_the_reference_and_explain_agrees(asked: list[tuple[str, bytes | None]]) -> None:
    topology = editor.__wrapped__().topology  # type: ignore[attr-defined]  # the fixture's function
    messages = [Message(exchange=name, body=body) for name, body in asked]
    found, _ = routed(topology, messages)
    explained = Explainer(topology, "/").explain(to_batch(messages), clock_ms=0)
    assert [set(one.queues) for one in explained] == found


def test_bodies_that_could_not_be_read_are_counted_once_at_each_place_that_asked(editor: TopologyEditor) -> None:
    editor.bind(selecting("orders", "both", "body.total = 1"))
    editor.bind(Binding(0, "/", "logs", "gold", "queue", ""))
    messages = [
        Message(exchange="orders", body=b"no JSON"),
        Message(exchange="orders", body=b"[" * 200),
        Message(exchange="orders", body=b"\xff"),
        Message(exchange="logs", body=b"\xff"),
        Message(exchange="logs", body=b"plain"),
        Message(exchange="plain", body=b"\xff"),
        Message(exchange="", routing_key="both", body=b"\xff"),
        order(amount=5),
    ]
    _, counts = routed(editor.topology, messages)
    total = RoutedCounts()
    for _ in range(2):
        total.merge(json.loads(json.dumps(counts.as_data())))
    assert {key: 2 * number for key, number in counts.unparsable.items()} == total.unparsable
    assert counts.in_manifest(editor.topology, "/").unparsable == {
        ("exchange", "/", "orders", "syntax"): 1,
        ("exchange", "/", "orders", "too-deep"): 1,
        ("exchange", "/", "orders", "not-utf-8"): 1,
        ("exchange", "/", "logs", "not-utf-8"): 1,
        ("queue", "/", "gold", "syntax"): 2,
        ("queue", "/", "gold", "too-deep"): 1,
        ("queue", "/", "gold", "not-utf-8"): 2,
    }


def test_the_detail_of_an_unroutable_message_says_why_its_body_could_not_be_read(editor: TopologyEditor) -> None:
    messages = [Message(exchange="orders", body=b"no"), Message(exchange="orders"), Message(exchange="", body=b"no")]
    lost = Router.compile(editor.topology, "/").route(to_batch(messages), clock_ms=0).unroutable
    filtered = "a filter behind exchange 'orders' did not accept the message"
    assert lost.detail == [
        f"{filtered}; the body is not JSON: Expecting value: line 1 column 1 (char 0)",
        filtered,
        "no binding of exchange '' matched",
    ]


def test_explain_shows_what_was_read(editor: TopologyEditor) -> None:
    explainer = Explainer(editor.topology, "/")
    messages = [order(amount=5), Message(exchange="orders", body=b'{"amount":'), order(total=5)]
    messages_of = []
    for one in explainer.explain(to_batch(messages), clock_ms=0, queues=["big"]):
        (culprit,) = one.why_not[0].causes[0].filters[0].culprits
        messages_of.append((culprit.kind, culprit.message, [(read.name, read.value) for read in culprit.reads]))
    assert messages_of == [
        ("false", "body.amount >= 100 is false: body.amount is 5", [("body.amount", 5)]),
        (
            "trouble",
            "body.amount >= 100 is unknown because the body is not JSON: Expecting value: line 1 column 11 (char 10)",
            [("body.amount", None)],
        ),
        ("missing", "body.amount >= 100 is unknown because body.amount is missing", [("body.amount", None)]),
    ]


@pytest.mark.parametrize(
    ("payload", "hint"),
    [
        ("JSON", "did you mean json?"),
        ("jsn", "did you mean json?"),
        ("arvo", "did you mean avro?"),
        ("xml", "one of json, avro, protobuf, text"),
        ("", "one of json, avro, protobuf, text"),
        (5, "one of json, avro, protobuf, text"),
        (True, "one of json, avro, protobuf, text"),
        (Table({"format": "json"}), "one of json, avro, protobuf, text"),
    ],
)
def test_a_format_that_nothing_reads_is_refused_by_name(editor: TopologyEditor, payload: Value, hint: str) -> None:
    for declare in (
        lambda: editor.declare_exchange(exchange("x", payload)),
        lambda: editor.declare_queue(Queue("/", "x", arguments=Table({"x-payload": payload}))),
    ):
        with pytest.raises(InvalidDeclaration) as refused:
            declare()
        assert refused.value.hint == hint
        assert "x-payload" in str(refused.value.where)


def test_without_the_argument_the_error_says_what_to_declare(editor: TopologyEditor) -> None:
    for define in (
        lambda: editor.bind(selecting("plain", "big", "body.amount > 1")),
        lambda: editor.declare_queue(Queue("/", "x", arguments=Table({"x-queue-filter": "body.amount > 1"}))),
        lambda: editor.declare_divert(Divert(0, "/", "e", "plain", "orders", filter="body.amount > 1")),
    ):
        with pytest.raises(FilterError) as refused:
            define()
        assert '"x-payload": "json"' in str(refused.value.hint)
    with pytest.raises(FilterError, match="a body that is text has no members"):
        editor.bind(selecting("logs", "big", "body.amount > 1"))


def test_an_exchange_is_not_overwritten_from_under_its_filters(editor: TopologyEditor) -> None:
    for payload in (None, "text"):
        with pytest.raises(FilterError):
            editor.declare_exchange(exchange("orders", payload), overwrite=True)
    assert editor.topology.exchange("/", "orders") == exchange("orders")
    editor.declare_exchange(exchange("plain", "json"), overwrite=True)
    with pytest.raises(InvalidDeclaration):
        editor.declare_queue(
            replace(editor.topology.queue("/", "gold"), arguments=Table({"x-payload": "jason"})), overwrite=True
        )


def test_the_caps_of_bodies_are_part_of_the_topology(editor: TopologyEditor) -> None:
    message = order(amount=250, note="x" * 200)
    assert routed(editor.topology, [message])[0] == [{"big"}]
    editor.put_setting(Setting(GLOBAL_PARAMETER, "", FILTER_LIMITS, Table({"body_bytes": 100})))
    found, counts = routed(editor.topology, [message])
    assert found == [set()]
    assert sum(counts.trouble.values()) == 3
    with pytest.raises(InvalidDeclaration):
        editor.put_setting(Setting(GLOBAL_PARAMETER, "", FILTER_LIMITS, Table({"body_levels": 501})))


def test_definitions_carry_the_declaration(editor: TopologyEditor) -> None:
    again = TopologyEditor(Topology.empty())
    apply(parse_definitions(export(editor.topology)), again)
    message = order(amount=250)
    assert routed(again.topology, [message])[0] == routed(editor.topology, [message])[0]
    assert without_effect(exchange("x")) == {}
    assert without_effect(Queue("/", "q", arguments=Table({"x-payload": "json"}))) == {}


def test_lint_reads_filters_with_what_bodies_are(editor: TopologyEditor) -> None:
    editor.bind(selecting("orders", "both", "body.amount > 5 AND body.amount < 5"))
    editor.bind(selecting("plain", "text", "body = 'x'"))
    editor.bind(selecting("logs", "both", "body = 'x'"))
    found = [(finding.code, finding.message) for finding in analyse(editor.topology).findings]
    assert ("BT170", "body.amount > 5 AND body.amount < 5") in found
    assert not [message for code, message in found if code == "BT170" and "'x'" in message]


def test_a_replaced_filter_keeps_its_meaning_in_a_replay(editor: TopologyEditor) -> None:
    before = Topology.of(editor.topology.objects())
    editor.delete_exchange("/", "orders")
    editor.declare_exchange(exchange("orders", "text"))
    editor.bind(selecting("orders", "big", "body LIKE '%250%'"))
    message = order(amount=250, customer={"tier": "gold"})
    assert routed(before, [message])[0] == [{"big", "gold"}]
    assert routed(editor.topology, [message])[0] == [{"big"}]


def by_headers(source: str, queue: str, arguments: dict[str, Value]) -> Binding:
    return Binding(0, "/", source, queue, "queue", "", Table(arguments))


@pytest.mark.parametrize(
    ("arguments", "met"),
    [
        ({"body.amount": 5}, [0]),
        ({"body.amount": 5.0}, [1]),  # as between headers: integers and doubles are two families
        ({"body.amount": "5"}, [2]),
        ({"body.amount": True}, [3]),
        ({"body.amount": None}, [0, 1, 2, 3]),  # any value: null, lists and maps are none
        ({"body.items[0].sku": "a", "x-match": "any"}, [4]),
        ({"body['items'][0]['sku']": "a", "colour": "red"}, [4]),
        ({"body.amount": 5, "colour": "red"}, []),
        ({"body.amount": 5, "colour": "red", "x-match": "any"}, [0, 4, 6]),
        ({"body.amount": 5, "x-c": 1, "x-match": "any-with-x"}, [0, 7]),
        ({"body": "whole"}, [7]),
        ({"body.amount": None, "x-match": "any"}, [0, 1, 2, 3]),
    ],
)
def test_keys_of_headers_bindings_look_into_bodies(arguments: dict[str, Value], met: list[int]) -> None:
    editor = TopologyEditor(Topology.empty())
    editor.declare_exchange(exchange("x", kind="headers"))
    editor.declare_queue(Queue("/", "q"))
    editor.bind(by_headers("x", "q", arguments))
    red, odd = Table({"colour": "red"}), Table({"body.amount": 5, "body": "whole", "x-c": 1})
    messages = [
        *(order("x", amount=amount) for amount in (5, 5.0, "5", True)),
        replace(order("x", items=[{"sku": "a"}], amount=None), application_properties=red),
        order("x", amount=[5]),
        Message(exchange="x", body=b"{", application_properties=red),
        Message(exchange="x", body=b'"whole"', application_properties=Table({"x-c": 1})),
        Message(exchange="x", application_properties=odd if "x-c" not in arguments else Table()),
    ]
    found, _ = routed(editor.topology, messages)
    assert [n for n, queues in enumerate(found) if queues] == met


_KEYS = ("body.a", "body['a']", "body.b[0]", "body", "h", "x-h")
_ASKED = st.dictionaries(
    st.sampled_from(_KEYS), st.sampled_from([None, 1, 1.0, "1", True, float("nan")]), max_size=3
).filter(lambda asked: not {"body.a", "body['a']"} <= asked.keys())
_SENT = st.tuples(
    st.sampled_from(
        [None, b"", b"1", b'"1"', b"true", b"{", b"\xff", b'{"a": 1}', b'{"a": 1.0, "b": ["1"]}',
         b'{"a": [1], "b": [null]}',
         b'{"a": "1", "b": [true]}', b"[" * 200]
    ),
    st.dictionaries(st.sampled_from(_KEYS), st.sampled_from([None, 1, "1"]), max_size=3),
)  # fmt: skip


@given(
    st.lists(st.tuples(_ASKED, st.sampled_from(["all", "any", "all-with-x", "any-with-x"])), max_size=5),
    st.lists(_SENT, min_size=1, max_size=6),
    st.booleans(),
)
def test_headers_bindings_on_bodies_agree_with_the_reference_explain_and_the_analysis(
    asked: list[tuple[dict[str, Value], str]], sent: list[tuple[bytes | None, dict[str, Value]]], declared: bool
) -> None:
    editor = TopologyEditor(Topology.empty())
    editor.declare_exchange(exchange("x", "json" if declared else None, kind="headers"))
    editor.declare_exchange(exchange("first", "json", kind="fanout"))
    editor.bind(Binding(0, "/", "first", "x", "exchange", ""))
    for number, (criteria, form) in enumerate(asked):
        editor.declare_queue(Queue("/", f"q{number}"))
        editor.bind(by_headers("x", f"q{number}", {**criteria, "x-match": form}))
    messages = [
        Message(exchange=name, body=body, application_properties=Table(properties))
        for body, properties in sent
        for name in ("x", "first")
    ]
    topology = editor.topology
    found, counts = routed(topology, messages)
    names = [name for _, name in topology.queues]
    for one, queues in zip(
        Explainer(topology, "/").explain(to_batch(messages), clock_ms=0, queues=names), found, strict=True
    ):
        assert set(one.queues) == queues
        assert {why.queue for why in one.why_not if why.reached} == queues
        assert all(why.causes[0].kind == "headers" for why in one.why_not if not why.reached)
    reads = declared and any(key.startswith("body") for criteria, _ in asked for key in criteria)
    bad = sum(body in (b"{", b"\xff", b"[" * 200) for body, _ in sent)
    assert counts.unparsable.total() == (2 * bad if reads else 0)
    links = Links(topology, "/")
    for binding in links.bindings_from("x"):
        kind = links.type_of(binding)
        criteria = kind.asked(binding)
        met = [binding.destination in queues for queues in found]
        assert not kind.always(criteria) or all(met)
        assert not kind.never(criteria) or not any(met)
        for other in links.bindings_from("x"):
            if kind.covers(kind.asked(other), criteria):
                assert all(binding.destination not in queues or other.destination in queues for queues in found)


def test_a_body_is_parsed_once_for_headers_bindings_and_filters(editor: TopologyEditor) -> None:
    editor.declare_exchange(exchange("x", kind="headers"))
    for queue in ("big", "small"):
        editor.bind(by_headers("x", queue, {"body.amount": 5, "x-filter-jms-selector": "body.total = 6"}))
        editor.bind(by_headers("x", queue, {"body.amount": None, "x-match": "any"}))
    editor.bind(Binding(0, "/", "x", "orders", "exchange", "", Table({"body.amount": 5})))
    batch = to_batch([order("x", amount=5, total=6), order("plain"), order("x", amount=6)])
    walk, *_ = Router.compile(editor.topology, "/").walk(batch, clock_ms=0)
    assert walk.screening.bodies.parsed == 2


def test_filters_see_what_a_headers_binding_had_parsed_for_them(editor: TopologyEditor) -> None:
    """The selectors of a round come after the headers bindings, whose bodies an earlier round knew nothing of."""
    editor.declare_exchange(exchange("x", kind="headers"))
    editor.bind(by_headers("x", "small", {"body.amount": 250, "x-filter-jms-selector": "body.amount >= 100"}))
    editor.bind(Binding(0, "/", "plain", "x", "exchange", ""))
    found, _ = routed(editor.topology, [order("orders", amount=250), order("plain", amount=250)])
    assert found == [{"big"}, {"small"}]


@pytest.mark.parametrize(
    ("payload", "arguments", "says", "hint"),
    [
        ("json", {"body.order-id": 5}, "header key 'body.order-id' is no reference into the body", "body['any name']"),
        ("json", {"body.": 5}, "header key 'body.' is no reference into the body", "body['any name']"),
        ("json", {"body.a": (1,)}, "wants a list or map", "name the members"),
        ("json", {"body": Table({"a": 1})}, "wants a list or map", "name the members"),
        ("json", {"body.a": 1, "body['a']": 2}, "'body.a' and \"body['a']\" are one member", "state it once"),
        ("text", {"body.a": 5}, "header key 'body.a': a body that is text has no members", "`body` alone"),
    ],
)
def test_a_key_that_cannot_look_into_bodies_is_refused(
    editor: TopologyEditor, payload: str, arguments: dict[str, Value], says: str, hint: str
) -> None:
    editor.declare_exchange(exchange("x", payload, kind="headers"))
    editor.declare_exchange(exchange("undeclared", None, kind="headers"))
    with pytest.raises(InvalidDeclaration) as refused:
        editor.bind(by_headers("x", "big", arguments))
    assert says in refused.value.message
    assert hint in str(refused.value.hint)
    assert "arguments.body" in str(refused.value.where)
    editor.bind(by_headers("undeclared", "big", arguments))


def test_a_key_keeps_its_meaning_when_an_import_overwrites_its_exchange(editor: TopologyEditor) -> None:
    editor.declare_exchange(exchange("declared", kind="headers"))
    editor.declare_exchange(exchange("undeclared", None, kind="headers"))
    for name in ("declared", "undeclared"):
        editor.bind(by_headers(name, "big", {"body": 5}))
    for name, payload in (("declared", None), ("undeclared", "json")):
        with pytest.raises(InvalidDeclaration, match=r"'body' is .* and would become") as refused:
            editor.declare_exchange(exchange(name, payload, kind="headers"), overwrite=True)
        assert "unbind first" in str(refused.value.hint)
    editor.declare_exchange(exchange("declared", "text", kind="headers"), overwrite=True)
    editor.bind(by_headers("declared", "small", {"body": "x"}))
    with pytest.raises(InvalidDeclaration, match="would become"):
        editor.declare_exchange(exchange("declared", None, kind="headers"), overwrite=True)


def test_explain_says_what_of_the_body_a_headers_binding_misses(editor: TopologyEditor) -> None:
    editor.declare_exchange(exchange("x", kind="headers"))
    editor.bind(by_headers("x", "big", {"body['the amount']": 5}))
    bodies = (b'{"the amount": 6}', b'{"the amount": 5.0}', b'{"the amount": null}', b"{", None)
    batch = to_batch([Message(exchange="x", body=body) for body in bodies])
    explained = Explainer(editor.topology, "/").explain(batch, clock_ms=0, queues=["big"])
    assert [one.why_not[0].causes[0].message for one in explained] == [
        "body['the amount'] is 6, 5 is wanted",
        "body['the amount'] is the double 5.0, the integer 5 is wanted: unlike types are never equal",
        "body['the amount'] is missing: the body has no value there, 5 is wanted",
        "body['the amount'] cannot be read: the body is not JSON: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1), 5 is wanted",
        "body['the amount'] is missing: the message has no body, 5 is wanted",
    ]
    assert explained[3].detail == (
        "no binding of exchange 'x' matched; the body is not JSON: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)"
    )


# -- policies ---------------------------------------------------------------------------------------------


def policy(definition: dict[str, Value], pattern: str = "^amq", apply_to: str = "all", name: str = "p") -> Setting:
    return Policy("/", name, pattern, Table(definition), apply_to).setting()


@pytest.fixture
def predeclared() -> TopologyEditor:
    """A policy that says what bodies are at the predeclared exchanges, and what looks into them there."""
    editor = TopologyEditor(Topology.empty())
    editor.put_setting(policy({"payload": "json"}))
    for name in ("big", "five", "diverted"):
        editor.declare_queue(Queue("/", name))
    editor.bind(selecting("amq.fanout", "big", "body.amount >= 100"))
    editor.bind(by_headers("amq.headers", "five", {"body.amount": 5}))
    editor.declare_exchange(exchange("plain", None))
    editor.bind(Binding(0, "/", "plain", "diverted", "queue", ""))
    editor.declare_divert(Divert(0, "/", "d", "amq.fanout", "plain", filter="body.amount < 0"))
    return editor


def test_a_policy_says_what_bodies_are_at_predeclared_exchanges(predeclared: TopologyEditor) -> None:
    messages = [order(name, amount=n) for name in ("amq.fanout", "amq.headers") for n in (5, 100, -1)]
    found, counts = routed(predeclared.topology, [*messages, Message(exchange="amq.headers", body=b"{")])
    assert found == [set(), {"big"}, {"diverted"}, {"five"}, set(), set(), set()]
    assert counts.unparsable == {("exchange", "amq.headers", "syntax"): 1}
    explainer = Explainer(predeclared.topology, "/")
    (one,) = explainer.explain(to_batch([messages[4]]), clock_ms=0, queues=["five"])
    assert one.why_not[0].causes[0].message == "body.amount is 100, 5 is wanted"
    assert not [finding for finding in analyse(predeclared.topology).findings if finding.code in ("BT114", "BT180")]


def test_an_argument_and_a_stronger_policy_go_first(predeclared: TopologyEditor) -> None:
    predeclared.declare_exchange(Exchange("/", "own", "fanout", arguments=Table({"x-payload": "text"})))
    predeclared.put_setting(policy({"payload": "json"}, pattern="^own$", name="o"))
    predeclared.bind(selecting("own", "big", "body LIKE '%x%'"))
    with pytest.raises(FilterError, match="a body that is text has no members"):
        predeclared.bind(selecting("own", "big", "body.x = 1"))
    predeclared.declare_queue(Queue("/", "q", arguments=Table({"x-queue-filter": "body IS NULL"})))
    assert routed(predeclared.topology, [Message(exchange="own", body=b"x")])[0] == [{"big"}]
    hidden = Policy("/", "z", "^amq.topic$", Table({"alternate-exchange": "own"}), priority=9).setting()
    predeclared.put_setting(hidden)
    with pytest.raises(FilterError) as refused:
        predeclared.bind(selecting("amq.topic", "big", "body.x = 1"))
    assert "x-payload" in str(refused.value.hint)


def test_a_policy_says_what_bodies_are_for_the_filters_of_queues(predeclared: TopologyEditor) -> None:
    predeclared.put_setting(policy({"payload": "json"}, pattern="^j", apply_to="queues", name="j"))
    predeclared.declare_queue(Queue("/", "j", arguments=Table({"x-queue-filter": "body.n = 1"})))
    predeclared.bind(Binding(0, "/", "plain", "j", "queue", ""))
    found, counts = routed(
        predeclared.topology, [order("plain", n=n) for n in (1, 2)] + [Message(exchange="plain", body=b"{")]
    )
    assert [queues - {"diverted"} for queues in found] == [{"j"}, set(), set()]
    assert counts.unparsable == {("queue", "j", "syntax"): 1}
    with pytest.raises(FilterError):
        predeclared.delete_setting("policy", "/", "j")


@pytest.mark.parametrize(
    "change",
    [
        lambda editor: editor.delete_setting("policy", "/", "p"),
        lambda editor: editor.put_setting(policy({"payload": "text"})),
        lambda editor: editor.put_setting(policy({"alternate-exchange": "plain"})),
        lambda editor: editor.put_setting(policy({"payload": "json"}, pattern="^amq.fanout$")),
        lambda editor: editor.put_setting(policy({"payload": "json"}, apply_to="queues")),
        lambda editor: editor.put_setting(Policy("/", "z", "^amq", Table({"message-ttl": 1}), priority=9).setting()),
    ],
)
def test_a_policy_on_which_filters_rely_stays(
    predeclared: TopologyEditor, change: Callable[[TopologyEditor], object]
) -> None:
    before = set(predeclared.topology.objects())
    with pytest.raises((FilterError, InvalidDeclaration)):
        change(predeclared)
    assert set(predeclared.topology.objects()) == before


def test_a_policy_names_no_format_that_needs_a_schema(editor: TopologyEditor) -> None:
    for format in ("avro", "protobuf"):
        with pytest.raises(InvalidDeclaration) as refused:
            editor.put_setting(policy({"payload": format}))
        assert "with the exchange or queue" in str(refused.value.hint)


def test_a_policy_nobody_relies_on_comes_and_goes(editor: TopologyEditor) -> None:
    editor.bind(by_headers("amq.headers", "big", {"body.amount": 5}))
    with pytest.raises(InvalidDeclaration, match="would become a reference into the body"):
        editor.put_setting(policy({"payload": "json"}))
    editor.put_setting(policy({"payload": "json"}, pattern="^amq.topic$"))
    editor.delete_setting("policy", "/", "p")
    for wrong in ("jsn", 5):
        with pytest.raises(InvalidDeclaration) as refused:
            editor.put_setting(policy({"payload": wrong}))
        assert refused.value.where == "policy 'p': definition.payload"


def test_policies_that_say_what_bodies_are_are_exported_and_imported(predeclared: TopologyEditor) -> None:
    document = json.loads(json.dumps(export(predeclared.topology)))
    editor = TopologyEditor(Topology.empty())
    apply(parse_definitions(document), editor)
    messages = [order("amq.fanout", amount=100), order("amq.headers", amount=5)]
    assert routed(editor.topology, messages)[0] == [{"big"}, {"five"}]


def test_without_effect_knows_the_key_of_policies() -> None:
    for apply_to, idle in (("all", False), ("queues", False), ("exchanges", False), ("streams", True)):
        assert bool(without_effect(policy({"payload": "json"}, apply_to=apply_to))) == idle


# -- schemas ----------------------------------------------------------------------------------------------

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "int"], "default": None},
    ],
}


def with_schema(name: str, schema: object, payload: str = "avro") -> Exchange:
    return Exchange("/", name, "fanout", arguments=decode_arguments({"x-payload": payload, "x-payload-schema": schema}))


def in_avro(carrier: str, delay: int | None) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, FLIGHT, {"carrier": carrier, "delay": delay})
    return out.getvalue()


@pytest.mark.parametrize(
    "stated", [FLIGHT, json.dumps(FLIGHT), {"registry": {"7": FLIGHT}}], ids=["object", "text", "ids"]
)
def test_bodies_are_read_by_the_schema_of_the_exchange(editor: TopologyEditor, stated: object) -> None:
    editor.declare_exchange(with_schema("flights", stated))
    editor.bind(selecting("flights", "big", "body.delay >= 60 AND body.carrier = 'UA'"))
    editor.bind(selecting("flights", "small", "body.delay IS NULL"))
    head = b"\x00\x00\x00\x00\x07" if isinstance(stated, dict) and "registry" in stated else b""
    bodies = [in_avro("UA", 90), in_avro("AA", 90), in_avro("UA", None), b"\xff"]
    messages = [Message(exchange="flights", body=head + body) for body in bodies]
    found, counts = routed(editor.topology, messages)
    # what cannot be read is null; the comparison that it leaves unknown is counted
    assert found == [{"big"}, set(), {"small"}, {"small"}]
    assert sum(counts.trouble.values()) == 1
    explained = Explainer(editor.topology, "/").explain(to_batch(messages), clock_ms=0)
    assert [set(one.queues) for one in explained] == found
    # documents, and the rows of the topology, carry it
    document = json.loads(json.dumps(export(editor.topology)))
    again = TopologyEditor(Topology.empty())
    apply(parse_definitions(document), again)
    assert routed(again.topology, messages)[0] == found
    assert again.topology.exchange("/", "flights") == editor.topology.exchange("/", "flights")


def test_filters_carry_the_schema_once_however_many_they_are(editor: TopologyEditor) -> None:
    long = {**FLIGHT, "doc": "x" * 50_000}
    editor.declare_exchange(with_schema("flights", long))
    for number in range(20):
        editor.bind(selecting("flights", "big", f"body.delay = {number}"))
    assert pickle.dumps(Router.compile(editor.topology, "/")).count(b"x" * 50_000) <= 2
    (ref,) = {node.ref for node in walk(parse_at(editor, "body.delay = 5").expression) if isinstance(node, Field)}
    assert len(str(ref)) < 200


def parse_at(editor: TopologyEditor, text: str) -> Filter:
    holder = editor.topology.exchange("/", "flights")
    limits = at(filter_limits(editor.topology), holder, Policies(editor.topology))
    return parse(text, "jms", limits=limits.text)


@pytest.mark.parametrize(
    ("arguments", "where", "message"),
    [
        ({"x-payload": "avro"}, "x-payload", "bodies that are avro cannot be read without their schema"),
        ({"x-payload": "avro", "x-payload-schema": None}, "x-payload", "cannot be read without their schema"),
        ({"x-payload": "json", "x-payload-schema": FLIGHT}, "x-payload-schema", "says nothing without"),
        ({"x-payload-schema": FLIGHT}, "x-payload-schema", "says nothing without 'x-payload' avro"),
        ({"x-payload": "avro", "x-payload-schema": {"type": "array", "items": "in"}}, "x-payload-schema.items",
         "no type is called 'in'"),
        ({"x-payload": "avro", "x-payload-schema": {"file": "a.avsc"}}, "x-payload-schema", "stated as a file"),
        ({"x-payload": "arvo", "x-payload-schema": FLIGHT}, "x-payload", "bodies that are 'arvo' cannot be read"),
    ],
)  # fmt: skip
def test_a_schema_is_refused_where_it_is_stated(
    editor: TopologyEditor, arguments: dict[str, object], where: str, message: str
) -> None:
    table = decode_arguments(arguments)
    for declare in (
        lambda: editor.declare_exchange(Exchange("/", "x", "fanout", arguments=table)),
        lambda: editor.declare_queue(Queue("/", "x", arguments=table)),
    ):
        with pytest.raises(InvalidDeclaration) as refused:
            declare()
        assert message in refused.value.message
        assert str(refused.value.where).endswith(f"'x': arguments.{where}")
        assert refusal({"exchanges": [{"name": "x", "type": "fanout", "arguments": arguments}]}) is not None


def test_another_schema_is_another_exchange(editor: TopologyEditor) -> None:
    editor.declare_exchange(with_schema("flights", FLIGHT))
    assert not editor.declare_exchange(with_schema("flights", FLIGHT))
    other = with_schema("flights", {**FLIGHT, "fields": FLIGHT["fields"][:1]})
    with pytest.raises(InequivalentArgument, match="x-payload-schema"):
        editor.declare_exchange(other)
    editor.bind(selecting("flights", "big", "body.delay = 5"))
    message = Message(exchange="flights", body=in_avro("UA", 5))
    assert routed(editor.topology, [message])[0] == [{"big"}]
    editor.declare_exchange(other, overwrite=True)
    assert routed(editor.topology, [message])[0] == [set()]
    assert without_effect(other) == {}
    assert (
        refusal({"exchanges": [{"name": "x", "type": "fanout", "arguments": encode_arguments(other.arguments)}]})
        is None
    )


def test_a_misspelt_argument_of_a_schema_is_refused_in_files() -> None:
    entry = {"name": "x", "type": "fanout", "arguments": {"x-payload": "avro", "x-payload-schemaa": FLIGHT}}
    source = read_source("t.json", json.dumps({"exchanges": [entry]}).encode())
    with pytest.raises(DefinitionsRefused) as refused:
        read_change([source], "/").carry_out(TopologyEditor(Topology.empty()))
    assert "did you mean 'x-payload-schema'?" in json.dumps(refused.value.report)


# -- protobuf ---------------------------------------------------------------------------------------------


def descriptors() -> str:
    """Flight {optional int32 delay = 1; string carrier = 2}, of proto3, in package air."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="air.proto", package="air", syntax="proto3")
    flight = file.message_type.add(name="Flight")
    flight.oneof_decl.add(name="_delay")
    flight.field.add(name="delay", number=1, type=kind.TYPE_INT32, label=1, proto3_optional=True, oneof_index=0)
    flight.field.add(name="carrier", number=2, type=kind.TYPE_STRING, label=1)
    return base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()).decode()


def in_protobuf(name: str, type: object = "air.Flight") -> Exchange:
    arguments = {"x-payload": "protobuf", "x-payload-schema": descriptors(), "x-payload-type": type}
    return Exchange("/", name, "fanout", arguments=decode_arguments(arguments))


def test_bodies_are_messages_of_the_type_of_the_exchange(editor: TopologyEditor) -> None:
    editor.declare_exchange(in_protobuf("flights"))
    editor.bind(selecting("flights", "big", "body.delay >= 60 AND body.carrier = 'UA'"))
    editor.bind(selecting("flights", "small", "body.delay IS NULL AND body.carrier = ''"))
    bodies = [b"\x08\x5a\x12\x02UA", b"\x08\x5a", b"", None, b"\x08"]
    messages = [Message(exchange="flights", body=body) for body in bodies]
    found, counts = routed(editor.topology, messages)
    assert found == [{"big"}, set(), {"small"}, set(), set()]
    assert sum(counts.trouble.values()) == 2
    again = TopologyEditor(Topology.empty())
    apply(parse_definitions(json.loads(json.dumps(export(editor.topology)))), again)
    assert routed(again.topology, messages)[0] == found


@pytest.mark.parametrize(
    ("type", "message"),
    [
        (5, "argument 'x-payload-type' is 5"),
        (None, "x-payload-type: nobody says of which type bodies are"),
        ("air.Flght", "x-payload-type: the schema has no message type 'air.Flght'"),
    ],
)
def test_a_type_is_refused_where_it_is_stated(editor: TopologyEditor, type: object, message: str) -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        editor.declare_exchange(in_protobuf("x", type))
    assert message in refused.value.message
    assert refused.value.where == "exchange 'x': arguments.x-payload-type"
    with pytest.raises(InvalidDeclaration, match="'x-payload-type' says nothing without"):
        editor.declare_exchange(Exchange("/", "x", "fanout", arguments=Table({"x-payload-type": "a"})))
