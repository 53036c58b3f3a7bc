"""`bindery import --from activemq-classic`: activemq.xml of ActiveMQ Classic, and that it routes as there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.cli.foreign import Foreign
from bindery.router.errors import DefinitionsRefused, InvalidInput
from bindery.router.filters import evaluate
from bindery.router.importers import KINDS
from bindery.router.importers.classic_selectors import Point, read_selector
from bindery.router.importers.classic_virtual import matches
from bindery.router.importers.settling import Settled, settle
from bindery.router.message import Message
from bindery.router.model import Topology
from bindery.router.reference import NaiveRouter

BEANS = '<beans xmlns="http://www.springframework.org/schema/beans">{}</beans>'
BROKER = '<broker xmlns="http://activemq.apache.org/schema/core"{}>{}</broker>'


def carried(inside: str, beside: str = "", **attributes: str) -> Settled:
    said = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
    raw = BEANS.format(BROKER.format(said, inside) + beside)
    return settle(KINDS["activemq-classic"].read("activemq.xml", raw.encode()), Topology.empty())


def virtual(*inside: str) -> str:
    return (
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        f"{''.join(inside)}</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )


def composite(name: str, *forwards: str, kind: str = "Queue", **attributes: str) -> str:
    said = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
    return f"<composite{kind} name={quoteattr(name)}{said}><forwardTo>{''.join(forwards)}</forwardTo></composite{kind}>"


def to(name: str, selector: str | None = None, kind: str = "queue") -> str:
    if selector is None:
        return f"<{kind} physicalName={quoteattr(name)}/>"
    return f"<filteredDestination selector={quoteattr(selector)} {kind}={quoteattr(name)}/>"


def destinations(*queues: str, topics: tuple[str, ...] = ()) -> str:
    return f"<destinations>{''.join(map(to, queues))}{''.join(to(one, kind='topic') for one in topics)}</destinations>"


def outcomes(settled: Settled) -> dict[str, str]:
    return {f"{item.kind} {item.name}": item.outcome.value for item in settled.objects}


def notes(settled: Settled) -> dict[tuple[str, str], str]:
    return {(f"{item.kind} {item.name}", note.key): note.text for item in settled.objects for note in item.notes}


def reached(settled: Settled, kind: str, name: str, *, plain: bool = False, **properties: Any) -> set[str]:
    """The queues that a message for a destination comes to: by its exchange or, of a `plain` queue, by its name."""
    vhost = settled.topology.exchanges
    qualified = f"queue://{name}" if kind == "queue" and ("/", f"queue://{name}") in vhost else name
    exchange = qualified if ("/", qualified) in vhost and not plain else ""
    content = {"exchange": exchange, "routing_key": name, "application_properties": properties}
    return set(NaiveRouter(settled.topology, "/").route(Message.from_json(content)).queues)


@pytest.mark.parametrize(
    ("pattern", "name", "matched"),
    [
        ("A.>", "A", True),
        ("A.>", "A.B.C", True),
        (">", "A", True),
        ("A.*", "A", False),
        ("A.*", "A.B", True),
        ("A.*", "A.B.C", False),
        ("*.B", "A.B", True),
        ("A.>.B", "A", False),
        ("A.>.B", "A.C", True),  # what stands behind > is not asked (DestinationMapNode.appendMatchingWildcards)
    ],
)
def test_wildcards(pattern: str, name: str, matched: bool) -> None:  # seen in 5.18.3
    assert matches(pattern, name) is matched


def test_a_composite_queue_forwards_only_unless_it_says_otherwise() -> None:  # "Composite Destinations"
    settled = carried(
        virtual(composite("only", to("a"), to("t", kind="topic")), composite("both", to("a"), forwardOnly="false"))
    )
    assert reached(settled, "queue", "only") == {"a"}
    assert reached(settled, "queue", "both") == {"a", "both"}
    assert ("/", "only") not in settled.topology.queues
    assert reached(settled, "queue", "a") == {"a"}


def test_what_it_forwards_to_may_be_one_itself_and_a_topic() -> None:
    settled = carried(
        virtual(
            composite("first", to("second"), to("news", kind="topic")),
            composite("second", to("end"), forwardOnly="false"),
            composite("news", to("archive"), kind="Topic"),
        )
    )
    assert reached(settled, "queue", "first") == {"second", "end", "archive"}


def test_filtered_destinations_take_what_their_selector_takes() -> None:
    settled = carried(virtual(composite("in", to("yes", "odd = 'yes'"), to("five", "i = 5"))))
    assert settled.objects[1].outcome.value == "exact"
    assert reached(settled, "queue", "in", odd="yes", i=5) == {"yes", "five"}
    assert reached(settled, "queue", "in", i=6) == set()


def test_send_when_not_matched_is_about_what_goes_nowhere_else() -> None:
    settled = carried(
        virtual(composite("in", to("big", "n > 5"), to("t", "n < 0", "topic"), sendWhenNotMatched="true"))
    )
    assert reached(settled, "queue", "in", n=9) == {"big"}
    assert reached(settled, "queue", "in", n=1) == {"in"}
    assert reached(settled, "queue", "in", n=-1) == set()  # the topic had it, whoever reads that
    plain = carried(virtual(composite("in", to("a"), sendWhenNotMatched="true", forwardOnly="false")))
    assert reached(plain, "queue", "in") == {"a"}


def test_queues_of_virtual_topics_get_copies() -> None:  # "Virtual Destinations"
    named = (
        "Consumer.a.VT",
        "Consumer.b.VT.x",
        "Consumer.c.VT.a.b",
        "Consumer.VT.x",
        "Other.b.VT.x",
        "Consumer.a.b.VT.x",
    )
    settled = carried(virtual('<virtualTopic name="VT.>"/>') + destinations(*named))
    assert reached(settled, "topic", "VT") == {"Consumer.a.VT"}
    assert reached(settled, "topic", "VT.x") == {"Consumer.b.VT.x"}
    assert reached(settled, "topic", "VT.a.b") == {"Consumer.c.VT.a.b"}
    assert outcomes(settled)["virtual topic VT.>"] == "exact"


def test_a_broker_without_interceptors_has_virtual_topics_by_default() -> None:
    queue = "Consumer.a.VirtualTopic.orders"
    assert reached(carried(destinations(queue)), "topic", "VirtualTopic.orders") == {queue}
    assert ("/", "VirtualTopic.orders") not in carried(destinations(queue), useVirtualTopics="false").topology.exchanges
    assert ("/", "VirtualTopic.orders") not in carried(virtual() + destinations(queue)).topology.exchanges


def test_prefix_and_postfix_say_which_queues_are_meant() -> None:
    settled = carried(
        virtual('<virtualTopic name="pre" prefix="X." postfix=".end"/>')
        + destinations("X.pre.end", "Y.pre.end", "X.pre")
    )
    assert reached(settled, "topic", "pre") == {"X.pre.end"}


def test_mirrored_queues_give_a_copy_to_the_readers_of_their_topic() -> None:  # "Mirrored Queues"
    reader = "Consumer.log.VirtualTopic.Mirror.orders"
    settled = carried(destinations("orders", "plain", reader), useMirroredQueues="true")
    assert reached(settled, "queue", "orders") == {"orders", reader}
    assert reached(settled, "queue", "plain") == {"plain"}
    own = "<destinationInterceptors><mirroredQueue prefix='' postfix='.copy'/></destinationInterceptors>"
    assert reached(carried(own + destinations("orders")), "queue", "orders") == {"orders"}


def test_the_last_interceptor_comes_first() -> None:
    topic = '<virtualDestinationInterceptor><virtualDestinations><virtualTopic name="&gt;"/></virtualDestinations>'
    inner = composite("T", to("f"), kind="Topic")
    forward = f"<virtualDestinationInterceptor><virtualDestinations>{inner}</virtualDestinations>"
    end = "</virtualDestinationInterceptor>"
    for layers, expected in (((topic, forward), {"f"}), ((forward, topic), {"f", "Consumer.a.T"})):
        inside = "".join(layer + end for layer in layers)
        settled = carried(
            f"<destinationInterceptors>{inside}</destinationInterceptors>{destinations('Consumer.a.T', 'f')}"
        )
        assert reached(settled, "topic", "T") == expected


def test_a_queue_and_a_topic_may_have_one_name() -> None:
    settled = carried(virtual(composite("x", to("a")), composite("x2", to("x", kind="topic"))), beside="")
    assert reached(settled, "queue", "x") == {"a"}
    assert reached(settled, "queue", "x2") == set()
    assert reached(settled, "topic", "x") == set()
    assert outcomes(settled)["composite queue x"] == "different"


_WORDS = ["a", "a.b", "a.c", "b", "b.c"]
_FORWARD = st.tuples(
    st.sampled_from(["queue", "topic"]), st.sampled_from(_WORDS), st.sampled_from([None, "n > 5", "n = 1"])
)


@dataclass(frozen=True)
class _Composite:
    kind: str
    pattern: str
    forwards: list[tuple[str, str, str | None]]
    only: bool
    unmatched: bool


_COMPOSITES = st.lists(
    st.builds(
        _Composite,
        st.sampled_from(["queue", "topic"]),
        st.sampled_from([*_WORDS, "a.>", "a.*", ">", "*.c"]),
        st.lists(_FORWARD, max_size=3),
        st.booleans(),
        st.booleans(),
    ),
    max_size=4,
    unique_by=lambda one: one.pattern,
)
_TOPICS = st.lists(st.sampled_from([*_WORDS, "a.>", "*.c", ">"]), max_size=2, unique=True)


def _sent(
    kind: str, name: str, n: int, config: tuple[list[_Composite], list[str], list[str]], before: frozenset[str]
) -> set[str]:
    """What Classic does with one message, step by step as its classes do (activemq-broker, region.virtual).

    `before`: what it has come through, where Classic would go round without end.
    """
    if f"{kind}:{name}" in before:
        return set()
    before |= {f"{kind}:{name}"}
    composites, topics, queues = config
    own = {name} if kind == "queue" else set()
    met: list[set[str]] = []
    for one in composites:
        if one.kind != kind or not _stands_for(one.pattern, name):
            continue
        taken = [
            (to_kind, target)
            for to_kind, target, selector in one.forwards
            if {None: True, "n > 5": n > 5, "n = 1": n == 1}[selector]
        ]
        got = set().union(*(_sent(*target, n, config, before) for target in taken))
        if (not taken) if one.unmatched else (not one.only):
            got |= own
        met.append(got)
    for pattern in topics if kind == "topic" else []:
        if _stands_for(pattern, name):
            copies = [queue for queue in queues if _stands_for(f"Consumer.*.{name}", queue)]
            met.append(set().union(*(_sent("queue", queue, n, config, before) for queue in copies)))
    return set().union(*met) if met else own


def _stands_for(pattern: str, name: str) -> bool:
    """A pattern of words, read one by one."""
    if pattern == ">":
        return True
    first, _, rest = pattern.partition(".")
    word, _, words = name.partition(".")
    if first not in ("*", word):
        return False
    if not rest or not words:
        return (not rest and not words) or (rest == ">" and not words)
    return _stands_for(rest, words)


@settings(max_examples=250, deadline=None)
@given(_COMPOSITES, _TOPICS, st.sets(st.sampled_from(["Consumer.x.a", "Consumer.y.a.b", "Consumer.x.b.c", "c", "a"])))
def test_destinations_of_the_file_route_as_in_classic(
    composites: list[_Composite], topics: list[str], queues: set[str]
) -> None:
    # the name of a virtual topic is one of a bean, too: each stands once
    topics = [one for one in topics if one not in {other.pattern for other in composites}]
    settled = carried(
        virtual(
            *(
                composite(
                    one.pattern,
                    *(to(target, selector, kind) for kind, target, selector in one.forwards),
                    kind=one.kind.capitalize(),
                    forwardOnly=str(one.only).lower(),
                    sendWhenNotMatched=str(one.unmatched).lower(),
                )
                for one in composites
            ),
            *(f"<virtualTopic name={quoteattr(one)}/>" for one in topics),
        )
        + destinations(*sorted(queues), *_WORDS, topics=tuple(_WORDS))
    )
    if any(key == "sendWhenNotMatched" for _, key in notes(settled)):
        return  # several composite destinations of one queue, one of them with sendWhenNotMatched: reported
    known = sorted(queues | set(_WORDS))
    for kind, name in [("queue", one) for one in known] + [("topic", one) for one in _WORDS]:
        for n in (1, 3, 7):
            expected = _sent(kind, name, n, (composites, topics, known), frozenset())
            plain = kind == "queue" and not any(
                one.kind == kind and _stands_for(one.pattern, name) for one in composites
            )
            assert reached(settled, kind, name, plain=plain, n=n) == expected, (kind, name, n)


_PROPERTIES = st.dictionaries(
    st.sampled_from(["a", "b"]), st.sampled_from([1, 2, 7, 3.5, "1", "x", "xy", "10.5", "true", True, False])
)
_SELECTORS = [
    "a = 1",
    "a <> 'x'",
    "NOT a = 1",
    "NOT (a = 1 OR b = 'x')",
    "a = b",
    "5 <> a",
    "a > b AND b < 7",
    "a / 2 = 3",
    "a + b = 'xy'",
    "a + 1 > 2",
    "-a < 0 OR b IS NULL",
    "a IN ('x', 'xy')",
    "a NOT IN ('x') AND b IS NOT NULL",
    "a BETWEEN 1 AND 3 OR NOT b",
    "a NOT BETWEEN b AND 3",
    "a LIKE 'x_' OR b NOT LIKE '%'",
    "a LIKE '!x%' ESCAPE '!'",
    "convert_string_expressions:a > 1 AND b <> TRUE",
    "convert_string_expressions:a = 10.5",
    "a % 2 = 1",
    "(a = 1) = TRUE",
]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(_SELECTORS), _PROPERTIES)
def test_without_its_points_a_selector_of_classic_is_one_of_jms(text: str, properties: dict[str, Any]) -> None:
    selector = read_selector(text)
    content = {"application_properties": properties}
    here = evaluate(selector.filter, Message.from_json(content)) is True
    assert selector.accepts(content, frozenset()) is here
    if selector.accepts(content) is not here:
        assert selector.points  # what may differ is found in the text


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("a <> 'red'", Point.UNLIKE),
        ("a = b", Point.NULL),
        ("NOT a = 1", Point.NOT),
        ("x / 2 = 3", Point.DIVIDE),
        ("NOT urgent", Point.TRUTH),
        ("n NOT IN ('a')", Point.IN),
        ("a > b", Point.ORDER),
        ("a + b = 'xy'", Point.PLUS),
        ("c LIKE 'a!bc' ESCAPE '!'", Point.ESCAPE),
        ("convert_string_expressions:price > 9", Point.CONVERT),
    ],
)
def test_where_a_selector_of_classic_answers_otherwise_a_message_shows_it(text: str, point: Point) -> None:
    settled = carried(virtual(composite("in", to("q", text))))
    (item,) = [one for one in settled.as_data() if one["kind"] == "forward"]
    (note,) = [one for one in item["notes"] if one["text"] == point.value]
    assert note["example"]["there"] != note["example"]["here"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("XQUERY '//a'", "XQUERY"),
        ("REGEX('a.*', b)", "function REGEX"),
        ("a = 1 /* one */", "comments"),
        ("XPATH '//a' AND JMSPriority > 4", "JMS"),
        ("a ==", "refused"),
        ("a = 1 = 2", "refused"),
    ],
)
def test_selectors_that_have_no_counterpart_are_left_out(text: str, why: str) -> None:
    settled = carried(virtual(composite("in", to("q", text), to("r"))))
    item = next(one for one in settled.objects if one.name == "in -> queue q")
    assert item.outcome.value == "not carried over"
    assert why in item.notes[-1].text
    assert reached(settled, "queue", "in") == {"r"}


def test_selectors_of_xml_bodies_lead_by_a_divert() -> None:
    settled = carried(virtual(composite("in", to("q", "XPATH '//a'"), to("r", "a % 2 = 1"))))
    assert outcomes(settled)["forward in -> queue q"] == "exact"
    body = Message.from_json({"exchange": "in", "body": "<a/>", "application_properties": {"a": 3}})
    assert set(NaiveRouter(settled.topology, "/").route(body).queues) == {"q", "r"}


def test_what_goes_in_circles_is_said() -> None:
    settled = carried(virtual(composite("a", to("b")), composite("b", to("c")), composite("c", to("b"), to("d"))))
    assert outcomes(settled)["forward b -> queue c"] == "different"
    assert outcomes(settled)["forward a -> queue b"] == "exact"
    assert reached(settled, "queue", "a") == {"d"}


def test_messages_expire_where_the_broker_gives_them_a_time_to_live() -> None:
    letters = (
        "<destinationPolicy><policyMap><policyEntries>"
        "<policyEntry queue='&gt;'><deadLetterStrategy><sharedDeadLetterStrategy/></deadLetterStrategy></policyEntry>"
        "<policyEntry queue='own.&gt;'><deadLetterStrategy>"
        '<bean xmlns="http://www.springframework.org/schema/beans" class="x.IndividualDeadLetterStrategy">'
        '<property name="queuePrefix" value="DLQ."/></bean></deadLetterStrategy></policyEntry>'
        "<policyEntry queue='own.none'><deadLetterStrategy><discarding/></deadLetterStrategy></policyEntry>"
        "</policyEntries></policyMap></destinationPolicy>"
    )
    stamped = '<plugins><timeStampingBrokerPlugin zeroExpirationOverride="5000" ttlCeiling="3000"/></plugins>'
    inside = destinations("a", "own.b", "own.none", "ActiveMQ.DLQ")
    queues = carried(letters + stamped + inside).topology.queues
    assert {name: dict(queue.arguments) for (_, name), queue in queues.items()} == {
        "a": {"x-message-ttl": 3000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "ActiveMQ.DLQ"},
        "own.b": {"x-message-ttl": 3000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "DLQ.own.b"},
        "own.none": {"x-message-ttl": 3000},
        "ActiveMQ.DLQ": {},
        "DLQ.own.b": {},
    }
    assert not any(queue.arguments for queue in carried(letters + inside).topology.queues.values())
    dropped = stamped.replace("<plugins>", "<plugins><discardingDLQBrokerPlugin/>")
    assert dict(carried(letters + dropped + inside).topology.queues["/", "a"].arguments) == {"x-message-ttl": 3000}


def test_every_part_is_used_known_or_reported() -> None:
    settled = carried(
        "<networkConnectors><networkConnector name='far' uri='static:(tcp://far:1)'/></networkConnectors>"
        "<plugins><authorizationPlugin/><loggingBrokerPlugin/><bean class='my.Plugin'/><redeliveryPlugin/></plugins>"
        "<transportConnectors/><frobnicate/>"
        "<destinationInterceptors><bean class='my.Interceptor'/></destinationInterceptors>"
        "<destinations><tempQueue physicalName='t'/><queue physicalName='*.x'/><queue physicalName='${q}'/>"
        "</destinations>"
        "<destinationPolicy><policyMap><policyEntries><policyEntry queue='a' wat='1' queuePrefetch='1'"
        " prioritizedMessages='true'/></policyEntries></policyMap></destinationPolicy>",
        beside="<import resource='jetty.xml'/><import resource='camel.xml'/>"
        "<camelContext><route id='r'/></camelContext>",
    )
    assert outcomes(settled) == {
        "broker localhost": "different",
        "queue t": "not carried over",
        "queue *.x": "not carried over",
        "queue ${q}": "not carried over",
        "interceptor interceptor": "not carried over",
        "networkConnector far": "not carried over",
        "plugin authorizationPlugin": "not carried over",
        "plugin loggingBrokerPlugin": "exact",
        "plugin plugin": "not carried over",
        "plugin redeliveryPlugin": "different",
        "setting transportConnectors": "exact",
        "setting frobnicate": "different",
        "policy queue a": "different",
        "import jetty.xml": "exact",
        "import camel.xml": "not carried over",
        "Camel route r": "not carried over",
    }
    found = notes(settled)
    assert "priorit" not in found["policy queue a", "wat"]
    assert found["policy queue a", "prioritizedMessages"].startswith("messages are kept in the order")


@pytest.mark.parametrize(
    "raw",
    [
        b'<!DOCTYPE b SYSTEM "file:///etc/passwd"><broker/>',
        b"<beans/>",
        b'<configuration xmlns="urn:activemq"><core/></configuration>',
        b"",
        b"<a>" * 200,
        b"<broker><destinations>"
        + b"".join(b'<queue physicalName="q%d"/>' % at for at in range(3_000))
        + b"</destinations><destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        + b"".join(b'<virtualTopic name="t%d"/>' % at for at in range(1_001))
        + b"</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors></broker>",
        b"<broker><destinationInterceptors>" + b"<mirroredQueue/>" * 101 + b"</destinationInterceptors></broker>",
    ],
)
def test_what_is_no_activemq_xml_or_has_a_doctype_is_refused(raw: bytes) -> None:
    with pytest.raises(DefinitionsRefused):
        KINDS["activemq-classic"].read("activemq.xml", raw)


@pytest.mark.parametrize("near", ["activemq", "classic", "activemq-clasic", "activemq_classic"])
def test_names_near_to_the_kind_are_told_of_it(near: str) -> None:
    with pytest.raises(InvalidInput) as error:
        Foreign("activemq.xml", near, "data", None, False, False, None, None)._kind()
    assert "activemq-classic" in str(error.value.hint)
