"""`bindery import --from activemq-classic`: activemq.xml of ActiveMQ Classic, and that it routes as there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.errors import DefinitionsRefused, InvalidInput
from bindery.router.filters import evaluate
from bindery.router.filters.ast import And, Or
from bindery.router.importers import KINDS
from bindery.router.importers.classic_selectors import Point, read_selector
from bindery.router.importers.classic_virtual import is_pattern, matches
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


def reached(settled: Settled, kind: str, name: str, **properties: Any) -> set[str]:
    """The queues that a message for a destination comes to: by its exchange, or by the name of the queue alone."""
    vhost = settled.topology.exchanges
    qualified = f"queue://{name}" if kind == "queue" and ("/", f"queue://{name}") in vhost else name
    exchange = qualified if ("/", qualified) in vhost else ""
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
    forward = f"<virtualDestinationInterceptor><virtualDestinations>{composite('T', to('f'), kind='Topic')}</virtualDestinations>"
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


def _sent(kind: str, name: str, n: int, composites: list[_Composite], topics: list[str], queues: list[str]) -> set[str]:
    """What Classic does with one message, step by step as its classes do (activemq-broker, region.virtual)."""
    met: list[set[str]] = []

    def accepts(selector: str | None) -> bool:
        return {None: True, "n > 5": n > 5, "n = 1": n == 1}[selector]

    def physical() -> set[str]:
        return {name} if kind == "queue" else set()

    for one in composites:
        if one.kind != kind or not _stands_for(one.pattern, name):
            continue
        taken = [(to_kind, target) for to_kind, target, selector in one.forwards if accepts(selector)]
        got = set().union(*(_sent(*target, n, composites, topics, queues) for target in taken))
        if (not taken) if one.unmatched else (not one.only):
            got |= physical()
        met.append(got)
    for pattern in topics if kind == "topic" else []:
        if _stands_for(pattern, name):
            copies = [queue for queue in queues if _stands_for(f"Consumer.*.{name}", queue)]
            met.append(set().union(*(_sent("queue", queue, n, composites, topics, queues) for queue in copies)))
    return set().union(*met) if met else physical()


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
    # forwards lead on in one order, so that nothing goes in circles, which Classic does not end
    order = {("queue", word): at for at, word in enumerate(_WORDS)} | {
        ("topic", word): 9 - at for at, word in enumerate(_WORDS)
    }
    composites = [
        _Composite(
            one.kind,
            one.pattern,
            [
                forward
                for forward in one.forwards
                if all(
                    order[forward[0], forward[1]] > order[one.kind, word]
                    for word in _WORDS
                    if _stands_for(one.pattern, word)
                )
            ],
            one.only,
            one.unmatched,
        )
        for one in composites
    ]
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
        + destinations(*sorted(queues), *_WORDS)
    )
    texts = [text for (_, key), text in notes(settled).items() if key == "sendWhenNotMatched"]
    told = {name for text in texts for name in text.partition(": ")[2].split(", ")}
    known = sorted(queues | set(_WORDS))
    for kind, name in [("queue", one) for one in known] + [("topic", one) for one in _WORDS]:
        if f"{kind} {name}" in told:
            continue  # several composites of one queue, one with sendWhenNotMatched: reported
        for n in (1, 3, 7):
            expected = _sent(kind, name, n, composites, topics, known)
            if kind == "topic" and ("/", name) not in settled.topology.exchanges:
                assert expected == set()
                continue
            assert reached(settled, kind, name, n=n) == expected, (kind, name, n)
