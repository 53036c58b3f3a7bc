"""What explain says, case by case: the word, the header, the sub-expression, the divert."""

from __future__ import annotations

from typing import Any

import pytest

from bindery.router.errors import NotFound
from bindery.router.explain import Cause, Explainer, Explanation
from bindery.router.explain import trace as trace_module
from bindery.router.explain.filters import Judge
from bindery.router.filters import parse
from bindery.router.filters.sets import parse_filter_set
from bindery.router.message import Message, to_batch
from bindery.router.values import Opaque, Table
from tests.unit.analysis.build import Broker


def explain(broker: Broker, message: dict[str, Any], *queues: str) -> Explanation:
    batch = to_batch([Message.from_json({"exchange": "x", "routing_key": "", **message})])
    return Explainer(broker.topology, "/").explain(batch, clock_ms=0, queues=queues)[0]


def causes(broker: Broker, message: dict[str, Any], queue: str = "q") -> tuple[Cause, ...]:
    (answer,) = explain(broker, message, queue).why_not
    return answer.causes


def bound(kind: str, key: str = "", **arguments: Any) -> Broker:
    broker = Broker().exchange("x", kind).queues("q")
    broker.bind("x", "q", key, arguments)
    return broker


@pytest.mark.parametrize(
    ("pattern", "key", "says"),
    [
        ("a.*.c", "a.b.d", "word 3 of key 'a.b.d' is 'd', 'a.*.c' wants 'c'"),
        ("a.*.c", "a.b", "key 'a.b' ends after 2 words, 'a.*.c' wants 'c' next"),
        ("a.*", "a.b.c", "word 3 of key 'a.b.c' is 'c', 'a.*' wants no further word"),
        ("a.*.#", "a", "key 'a' ends after 1 words, 'a.*.#' wants one more word next"),
        ("#.late", "flight.ontime", "key 'flight.ontime' ends after 2 words, '#.late' wants 'late' next"),
        ("a", "", "key '' ends after 0 words, 'a' wants 'a' next"),
    ],
)
def test_the_word_at_which_a_key_leaves_a_pattern(pattern: str, key: str, says: str) -> None:
    (cause,) = causes(bound("topic", pattern), {"routing_key": key})
    assert (cause.kind, cause.message) == ("key", says)


def test_of_several_keys_the_nearest_is_compared() -> None:
    (cause,) = causes(bound("topic", "a.b.c"), {"routing_key": "x", "cc": ["a.b.d", "a.x"]})
    assert cause.message.startswith("word 3 of key 'a.b.d'")
    assert (cause.matched, cause.asked) == (2, 3)


def test_a_direct_key_that_differs_in_case() -> None:
    (cause,) = causes(bound("direct", "Late"), {"routing_key": "late"})
    assert cause.message == "the key is 'late', the binding wants 'Late'; keys compare byte for byte"


@pytest.mark.parametrize(
    ("arguments", "properties", "says"),
    [
        ({"n": 5}, {}, "header 'n' is missing, 5 is wanted"),
        ({"n": None}, {}, "header 'n' is missing, any value is wanted"),
        ({"n": 5}, {"n": 6}, "header 'n' is 6, 5 is wanted"),
        (
            {"n": 5},
            {"n": "5"},
            "header 'n' is the string \"5\", the integer 5 is wanted: unlike types are never equal",
        ),
        ({"x-match": "any", "n": 5, "m": 1}, {"n": 6}, "none of 2 headers agrees: header 'n' is 6, 5 is wanted; "
                                                        "header 'm' is missing, 1 is wanted"),
        ({"x-match": "any"}, {}, "no header is named and x-match is any: the binding matches no message"),
    ],
)  # fmt: skip
def test_the_headers_that_are_missing_or_differ(
    arguments: dict[str, Any], properties: dict[str, Any], says: str
) -> None:
    (cause,) = causes(bound("headers", **arguments), {"application_properties": properties})
    assert (cause.kind, cause.message) == ("headers", says)


@pytest.mark.parametrize(
    ("selector", "properties", "kind", "says"),
    [
        ("n > 5", {"n": 3}, "false", "n > 5 is false: n is 3"),
        ("n > 5", {}, "missing", "n > 5 is unknown because n is missing"),
        ("n > 5", {"n": "7"}, "type", "n > 5 is false because a string and an integer never compare true: n is \"7\""),
        ("n > m", {}, "missing", "n > m is unknown because n and m are missing"),
        ("10 / n > 5", {"n": 0}, "trouble", "10 / n > 5 is unknown because an integer cannot be divided by zero: "
                                            "n is 0"),
        ("NOT n = 3", {"n": 3}, "true", "n = 3 is true: n is 3"),
        ("a = 1 AND n = 3", {"a": 1, "n": 4}, "false", "n = 3 is false: n is 4"),
        ("n IN ('a', 'b')", {"n": "c"}, "false", "n IN ('a', 'b') is false: n is \"c\""),
        ("n LIKE 'a%'", {"n": "b"}, "false", "n LIKE 'a%' is false: n is \"b\""),
        ("n LIKE 'a%'", {"n": 1}, "type", "n LIKE 'a%' is false because an integer is no string: n is 1"),
        ("n > m", {"n": "a", "m": "b"}, "type", "n > m is false because a string has no order here: "
                                               "n is \"a\" and m is \"b\""),
        ("n IS NULL", {"n": 1}, "false", "n IS NULL is false: n is 1"),
        ("JMSPriority > 6", {}, "false", "JMSPriority > 6 is false: JMSPriority is 4"),
        ("late", {"late": False}, "false", "late is false: late is false"),
        ("late", {"late": "yes"}, "trouble", "late is unknown because a string is no condition: late is \"yes\""),
        ("late", {}, "missing", "late is unknown because the message has no application_properties.late"),
    ],
)  # fmt: skip
def test_the_part_of_a_filter_that_decided(selector: str, properties: dict[str, Any], kind: str, says: str) -> None:
    broker = bound("fanout", **{"x-filter-jms-selector": selector})
    (cause,) = causes(broker, {"application_properties": properties})
    (culprit,) = cause.filters[0].culprits
    assert (cause.kind, culprit.kind, culprit.message) == ("filter", kind, says)
    assert cause.message == f"binding 1 []: {says}"


@pytest.mark.parametrize(
    ("dialect", "text", "message", "kind", "says"),
    [
        # read as a number: of one type after all
        ("artemis", "convert_string_expressions:n = '6'", {"application_properties": {"n": 5}}, "false", ": n is 5"),
        ("amqp-sql", "a IN (1, 'x')", {"application_properties": {"a": "y"}}, "false", ': a is "y"'),
        ("amqp-sql", "a IN (1, 2)", {"application_properties": {"a": "y"}}, "type",
         ' because a string and an integer never compare true: a is "y"'),
        ("artemis", "XPATH '/a'", {}, "missing", " because the message has no body"),
        ("artemis", "XPATH '/a'", {"body": "x"}, "trouble", " because the body is no XML"),
        ("artemis", "XPATH '/a'", {"body": "<!DOCTYPE a><a/>"}, "trouble", " because the body has a DOCTYPE"),
        ("artemis", "XPATH '/a'", {"body": "<b/>"}, "false", ""),
    ],
)  # fmt: skip
def test_why_a_filter_is_not_true(dialect: str, text: str, message: dict[str, Any], kind: str, says: str) -> None:
    (culprit,) = Judge(Message.from_json(message), 0).verdict(parse(text, dialect), "filter").culprits
    assert (culprit.kind, culprit.message) == (kind, f"{culprit.expression} is false{says}")


@pytest.mark.parametrize("selector", ["n > 5", "n = m", "n LIKE 'a'"])
def test_a_value_known_by_its_text_alone_is_explained(selector: str) -> None:
    message = Message(application_properties=Table({"n": Opaque("{"), "m": Opaque("{")}))
    (culprit,) = Judge(message, 0).verdict(parse(selector, "jms"), "filter").culprits
    assert (culprit.kind, culprit.reads[0].type) == ("type", "nested text")


@pytest.mark.parametrize(
    ("wanted", "properties", "kind", "says"),
    [
        ("a", {"n": "b"}, "false", "n = 'a' is false: n is \"b\""),
        ("&s:EU", {}, "missing", "n MATCHES '&s:eu' is false because n is missing"),
        ("&s:EU", {"n": 5}, "type", "n MATCHES '&s:eu' is false because an integer never matches a string: n is 5"),
        (5, {"n": 5.0}, "type", "n = 5 is false because a double never matches an integer: n is 5.0"),
    ],
)  # fmt: skip
def test_why_a_filter_set_is_not_true(wanted: Any, properties: dict[str, Any], kind: str, says: str) -> None:
    filters = parse_filter_set({"f": {"descriptor": "amqp:application-properties-filter", "value": {"n": wanted}}})
    message = Message.from_json({"application_properties": properties})
    (culprit,) = Judge(message, 0).verdict(filters, "filter").culprits
    assert (culprit.kind, culprit.message) == (kind, says)


def test_of_an_or_every_part_is_named_and_of_an_and_what_is_plainly_wrong() -> None:
    broker = bound("fanout", **{"x-filter-jms-selector": "(a = 1 OR b = 2) AND c = 3 AND d = 4"})
    (cause,) = causes(broker, {"application_properties": {"a": 9, "b": 9, "d": 4}})
    assert [c.expression for c in cause.filters[0].culprits] == ["a = 1", "b = 2"]  # c is only unknown


@pytest.mark.parametrize(
    ("selector", "blamed"),
    [
        ("NOT (a = 1 AND b = 2)", ["a = 1", "b = 2"]),  # either would have to be false
        ("NOT (a = 1 OR b = 2)", ["a = 1"]),  # b is only unknown
    ],
)
def test_under_not_the_parts_change_their_roles(selector: str, blamed: list[str]) -> None:
    broker = bound("fanout", **{"x-filter-jms-selector": selector})
    (cause,) = causes(broker, {"application_properties": {"a": 1}})
    assert [c.expression for c in cause.filters[0].culprits] == blamed


def test_a_filter_set_is_explained_in_words() -> None:
    filters = {"f": {"descriptor": "amqp:properties-filter", "value": {"subject": "&P:order."}}}
    (cause,) = causes(bound("fanout", **{"x-filters": filters}), {"properties": {"subject": "invoice.1"}})
    assert cause.message == (
        "binding 1 []: properties.subject MATCHES '&P:order.' is false: properties.subject is \"invoice.1\""
    )


def test_a_key_that_misses_says_when_the_filter_would_not_pass_either() -> None:
    broker = bound("direct", "k", **{"x-filter-jms-selector": "n = 1"})
    (cause,) = causes(broker, {"application_properties": {"n": 2}})
    assert cause.message == "the key is '', the binding wants 'k'; its filter would not pass either: " + (
        "n = 1 is false: n is 2"
    )


def test_the_queue_filter_is_nearer_than_a_key() -> None:
    broker = Broker().exchange("x", "direct").queues("q", x_queue_filter="AMQPriority > 6")
    broker.bind("x", "q", "a")
    broker.bind("x", "q", "b")
    first, second = causes(broker, {"routing_key": "a"})
    assert (first.kind, first.message) == ("queue-filter", "queue 'q': AMQPriority > 6 is false: AMQPriority is 4")
    assert second.kind == "key"


def test_the_divert_that_took_the_message() -> None:
    broker = bound("fanout").exchange("aside", "fanout")
    broker.divert("big", "x", "aside", filter="n > 1", exclusive=True)
    broker.divert("copy", "x", "aside")
    (cause,) = causes(broker, {"application_properties": {"n": 2}})
    assert (cause.kind, cause.message) == (
        "exclusive-divert", "the exclusive divert 'big' took the message to exchange 'aside'",
    )  # fmt: skip
    found = explain(broker, {"application_properties": {"n": 2}})
    assert found.visits[0].not_evaluated == 1
    assert [(s.link.name, s.verdict) for s in found.visits[0].steps] == [
        ("big", "forwarded"), ("copy", "exclusive-divert"),
    ]  # fmt: skip


def test_an_exchange_that_was_not_reached_and_one_further_on_the_way() -> None:
    broker = Broker().exchange("x", "topic").exchange("y", "topic").exchange("z", "fanout").queues("q")
    broker.bind("z", "q")
    (cause,) = causes(broker, {"routing_key": "a"})
    assert cause.kind == "exchange-not-reached"
    broker.bind("y", "z", "#")
    broker.bind("x", "y", "b")
    (cause,) = causes(broker, {"routing_key": "a"})
    assert (cause.kind, [link.source for link in cause.path]) == ("key", ["x", "y", "z"])


def test_an_alternate_that_was_not_needed() -> None:
    broker = Broker().exchange("rest", "fanout").exchange("x", "direct", alternate_exchange="rest").queues("q", "r")
    broker.bind("rest", "q")
    broker.bind("x", "r", "a")
    (cause,) = causes(broker, {"routing_key": "a"})
    assert cause.message == "exchange 'x' led the message elsewhere, so its alternate-exchange was not used"
    taken = explain(broker, {"routing_key": "b"}, "q")
    assert taken.why_not[0].reached
    assert [arrival.kind for arrival in taken.visits[1].arrivals] == ["alternate-exchange"]


def test_an_alternate_exchange_that_names_a_queue_leads_nowhere() -> None:
    broker = Broker().exchange("x", "direct", alternate_exchange="q").queues("q")
    assert explain(broker, {"routing_key": "a"}).reason == "alternate_missing"
    (cause,) = causes(broker, {"routing_key": "a"})
    assert cause.kind == "nothing-leads-here"


def test_both_alternates_of_an_exchange_one_after_the_other() -> None:
    broker = Broker().exchange("rest", "fanout").queues("q")
    broker.exchange("x", "direct", alternate_exchange="rest", alternate_binding={"destination": "q"})
    found = explain(broker, {}, "q")
    assert found.queues == ("q",)
    assert [(step.link.kind, step.verdict) for step in found.visits[0].steps] == [
        ("alternate-exchange", "forwarded"), ("alternate-binding", "delivered"),
    ]  # fmt: skip
    assert [arrival.kind for arrival in found.visits[1].arrivals] == ["alternate-exchange"]


def test_messages_that_no_exchange_took() -> None:
    broker = Broker().exchange("orders", "fanout").exchange("inner", "fanout", internal=True).queues("q")
    (cause,) = causes(broker, {"exchange": "order"})
    assert cause.message == "there is no exchange 'order'; did you mean 'orders'?"
    (cause,) = causes(broker, {"exchange": "inner"})
    assert cause.kind == "internal-exchange"
    assert explain(broker, {"exchange": "inner"}).reason == "internal_exchange"


def test_a_queue_that_nothing_leads_to_and_one_that_does_not_exist() -> None:
    broker = Broker().exchange("x", "fanout").queues("q")
    (cause,) = causes(broker, {})
    assert cause.kind == "nothing-leads-here"
    (cause,) = causes(broker, {"exchange": "", "routing_key": "p"})
    assert cause.message == "the key is 'p', the binding wants 'q'"
    with pytest.raises(NotFound):
        causes(broker, {}, "missing")


def test_a_visit_lists_so_many_steps_and_answers_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "LISTED_STEPS", 3)
    broker = Broker().exchange("x", "fanout").exchange("y", "fanout").queues(*(f"q{n}" for n in range(10)))
    for n in range(10):
        broker.bind("x", f"q{n}", "", {"x-filter-jms-selector": f"n = {n}"})
    broker.bind("x", "y")
    found = explain(broker, {"application_properties": {"n": 1}}, "q9")
    (first, second) = found.visits
    assert (len(first.steps), first.further_steps, second.exchange) == (4, 7, "y")
    assert found.why_not[0].causes[0].message == "binding 10 []: n = 9 is false: n is 1"
    assert found.queues == ("q1",)


def test_the_keys_that_a_replacement_handed_on() -> None:
    broker = Broker().exchange("x", "fanout").exchange("y", "direct").queues("q")
    broker.bind("x", "y", "", {"x-replacement-routing-key": "new"})
    broker.bind("y", "q", "new")
    found = explain(broker, {"routing_key": "old", "cc": ["older"]})
    assert [visit.keys for visit in found.visits] == [("old", "older"), ("new",)]
    assert found.as_data()["visits"][1]["arrivals"] == [{"kind": "binding", "visit": 1, "id": 1}]
