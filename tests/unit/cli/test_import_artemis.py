"""`bindery import --from artemis`: broker.xml of ActiveMQ Artemis, and that it routes as there."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.errors import DefinitionsRefused
from bindery.router.importers import KINDS
from bindery.router.importers.artemis import ELSEWHERE
from bindery.router.importers.artemis_wildcards import Wildcards
from bindery.router.importers.settling import Settled, settle
from bindery.router.message import Message
from bindery.router.model import Topology
from bindery.router.reference import NaiveRouter, topic_matches


def carried(core: str) -> Settled:
    raw = f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{core}</core></configuration>'
    return settle(KINDS["artemis"].read("broker.xml", raw.encode()), Topology.empty())


def outcomes(settled: Settled) -> dict[str, str]:
    return {f"{item.kind} {item.name}": item.outcome.value for item in settled.objects}


def queues(settled: Settled, exchange: str, key: str = "", **properties: Any) -> set[str]:
    content = {"exchange": exchange, "routing_key": key, "application_properties": properties}
    return set(NaiveRouter(settled.topology, "/").route(Message.from_json(content)).queues)


def address(name: str, *queues: str, kind: str = "multicast", inside: str = "", **attributes: str) -> str:
    said = "".join(f" {key.replace('_', '-')}={quoteattr(value)}" for key, value in attributes.items())
    listed = "".join(f"<queue name={quoteattr(queue)}{said}>{inside}</queue>" for queue in queues)
    return f"<address name={quoteattr(name)}><{kind}>{listed}</{kind}></address>"


def divert(name: str, source: str, target: str, *, exclusive: bool = False, inside: str = "") -> str:
    return (
        f"<divert name={quoteattr(name)}><address>{source}</address><forwarding-address>{target}</forwarding-address>"
        f"<exclusive>{str(exclusive).lower()}</exclusive>{inside}</divert>"
    )


def test_an_address_gives_each_queue_the_messages_that_its_filter_takes() -> None:
    red = "<filter string=\"color='red'\"/>"
    settled = carried(f"<addresses>{address('paint', 'all')}{address('walls', 'red', inside=red)}</addresses>")
    assert settled.faithful
    assert queues(settled, "paint") == {"all"}
    assert queues(settled, "walls", color="red") == {"red"}
    assert queues(settled, "walls", color="blue") == set()


def test_exclusive_diverts_come_first_and_others_copy() -> None:  # "Diverting and splitting message flows"
    office = "<filter string=\"office='New York'\"/>"
    settled = carried(
        f"<diverts>{divert('spy', 'prices', 'spied')}"
        f"{divert('away', 'prices', 'far', exclusive=True, inside=office)}</diverts>"
        f"<addresses>{address('prices', 'p')}{address('far', 'f')}{address('spied', 's')}</addresses>"
    )
    assert settled.faithful
    assert queues(settled, "prices", office="New York") == {"f"}
    assert queues(settled, "prices", office="Rome") == {"p", "s"}


def test_a_transformer_is_a_difference_and_a_bridge_is_left_out() -> None:
    java = "<transformer><class-name>x.Y</class-name></transformer>"
    settled = carried(
        f"<diverts>{divert('d', 'a', 'b,c', inside=java)}</diverts><addresses>{address('c', 'q')}</addresses>"
        "<bridges><bridge name='far'><queue-name>q</queue-name></bridge></bridges>"
    )
    said = outcomes(settled)
    assert (said["divert d"], said["bridge far"], said["address a"]) == ("different", "not carried over", "exact")
    assert queues(settled, "a") == {"q"}


def test_a_transformer_that_adds_headers_is_a_transformation() -> None:  # "Transformers"
    java = (
        "<transformer><class-name>org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer</class-name>"
        "<property key='region' value='eu'/><property key=\"it's [here]\" value=\"it's\"/></transformer>"
    )
    settled = carried(
        f"<diverts>{divert('d', 'a', 'b', inside=java)}</diverts><addresses>{address('b', 'q')}</addresses>"
    )
    assert outcomes(settled)["divert d"] == "exact"
    (found,) = settled.topology.diverts.values()
    assert found.transform == "SET a.[region] = 'eu'; SET a.[it's [[here]]] = 'it''s'"


def test_wildcards_are_one_word_and_any_number_with_delimiters_of_ones_own() -> None:  # "Wildcard syntax"
    usual, own = Wildcards(), Wildcards(True, "/", ">", "+")
    for pattern, matched, missed in (
        (
            "news.europe.#",
            ("news.europe", "news.europe.sport", "news.europe.politics.x"),
            ("news.usa", "entertainment"),
        ),
        ("news.*", ("news.europe",), ("news.europe.sport", "news")),
        ("news.*.sport", ("news.europe.sport",), ("news.europe.politics",)),
    ):
        mine = pattern.replace(".", "/").replace("#", ">").replace("*", "+")
        for one in (*matched, *missed):
            assert usual.matches(pattern, one) is (one in matched)
            assert own.matches(mine, one.replace(".", "/")) is (one in matched)
        assert own.key(mine) == pattern
    assert own.key("a.b/>") is None and own.key("#/>") is None
    assert not Wildcards(routed=False).is_pattern("a.#")


@pytest.mark.parametrize("delimiter", [".", "/"])
def test_queues_of_wildcards_get_what_goes_to_addresses_that_the_file_names_or_not(delimiter: str) -> None:
    pattern, named = f"news{delimiter}#", f"news{delimiter}uk"
    settled = carried(
        f"<wildcard-addresses><delimiter>{delimiter}</delimiter></wildcard-addresses>"
        f"<addresses>{address(pattern, 'all')}{address(named, 'uk')}</addresses>"
    )
    assert queues(settled, named) == {"all", "uk"}
    assert queues(settled, ELSEWHERE, "news.de.sport") == {"all"}
    assert outcomes(settled)[f"address {pattern}"] == "different"
    (example,) = [note["example"] for item in settled.as_data() for note in item["notes"] if "example" in note]
    assert (example["message"], example["there"], example["here"]) == ({"exchange": f"news{delimiter}any"}, ["all"], [])


def test_without_wildcard_routing_an_address_is_its_name() -> None:
    off = "<wildcard-addresses><routing-enabled>false</routing-enabled></wildcard-addresses>"
    settled = carried(f"{off}<addresses>{address('news.#', 'all')}{address('news.uk', 'uk')}</addresses>")
    assert settled.faithful
    assert (queues(settled, "news.uk"), queues(settled, "news.#")) == ({"uk"}, {"all"})


_ADDRESSES = ["a", "a.b", "a.c", "a.b.c", "b", "a.#", "a.*", "#.c", "*.b"]
_DIVERTS = st.lists(
    st.tuples(st.sampled_from(_ADDRESSES), st.sampled_from(["a", "a.b", "b", "a.b.c"]), st.booleans()), max_size=4
)


def _there(sent: str, addresses: list[str], diverts: list[tuple[str, str, bool]], seen: set[str]) -> set[str]:
    """What Artemis does: all bindings of all addresses that match, exclusive diverts before the others."""
    if sent in seen:
        return set()
    found = [one for one in addresses if one == sent or (("#" in one or "*" in one) and topic_matches(one, sent))]
    for exclusive in (True, False):
        targets = [target for source, target, first in diverts if first is exclusive and source in found]
        reached = set().union(*(_there(target, addresses, diverts, seen | {sent}) for target in targets))
        if exclusive and targets:
            return reached
    return reached | {f"q:{one}" for one in found}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(_ADDRESSES), unique=True, min_size=1), _DIVERTS)
def test_addresses_of_the_file_route_as_in_artemis(addresses: list[str], diverts: list[tuple[str, str, bool]]) -> None:
    # a divert of a divert ends where the message has been: there it is configured in circles, which nobody does
    diverts = [one for one in diverts if one[1] > one[0]]
    settled = carried(
        "<diverts>"
        + "".join(divert(f"d{n}", *one[:2], exclusive=one[2]) for n, one in enumerate(diverts))
        + "</diverts><addresses>"
        + "".join(address(one, f"q:{one}") for one in addresses)
        + "</addresses>"
    )
    known = {*addresses, *(end for one in diverts for end in one[:2])}
    for sent in sorted(one for one in known if "#" not in one and "*" not in one):
        expected = {name for name in _there(sent, sorted(known), diverts, set()) if name[2:] in addresses}
        assert queues(settled, sent) == expected, (sent, addresses, diverts)


def test_queues_of_one_address_that_share_messages_there_get_copies_here() -> None:
    settled = carried(f"<addresses>{address('jobs', 'one', 'two', kind='anycast')}</addresses>")
    (example,) = [note["example"] for item in settled.as_data() for note in item["notes"] if "example" in note]
    assert (example["there"], example["here"]) == (["one"], ["one", "two"])


def test_settings_of_addresses_are_taken_over_the_most_specific_one_last() -> None:
    settled = carried(
        "<address-settings><address-setting match='orders.eu'><expiry-delay>500</expiry-delay></address-setting>"
        "<address-setting match='#'><expiry-delay>1000</expiry-delay><expiry-address>late</expiry-address>"
        "<dead-letter-address>dead</dead-letter-address><send-to-dla-on-no-route>true</send-to-dla-on-no-route>"
        "<page-size-bytes>1</page-size-bytes><max-delivery-attempts>3</max-delivery-attempts><wat>1</wat>"
        "</address-setting></address-settings>"
        f"<addresses>{address('orders.eu', 'eu', last_value_key='k', ring_size='9', wat='1')}{address('late', 'l')}"
        f"{address('dead', 'd')}{address('empty')}</addresses>"
    )
    assert dict(settled.topology.queues["/", "eu"].arguments) == {
        "x-last-value-key": "k",
        "x-max-length": 9,
        "x-message-ttl": 500,
        "x-dead-letter-exchange": "late",
    }
    assert settled.topology.queues["/", "l"].arguments["x-message-ttl"] == 1000
    assert queues(settled, "empty") == {"d"}
    notes = {(item.name, note.key): note.weight.value for item in settled.objects for note in item.notes}
    assert (notes["#", "wat"], notes["#", "page-size-bytes"], notes["eu", "wat"]) == ("unknown", "no effect", "unknown")
    assert notes["#", "max-delivery-attempts"] == "difference"


def test_every_part_is_used_known_or_reported() -> None:
    broken = "<filter string='a ='/>"
    settled = carried(
        "<journal-type>NIO</journal-type><frobnicate/><cluster-password>secret</cluster-password>"
        "<security-settings><security-setting match='#'/></security-settings>"
        "<queues><queue name='old'><address>o</address><filter string='a &gt; 1'/></queue></queues>"
        f"<addresses>{address('a', 'q', inside=broken)}</addresses>"
    )
    assert outcomes(settled) == {
        "address a": "exact",
        "queue q": "not carried over",
        "address o": "exact",
        "queue old": "exact",
        "setting journal-type": "exact",
        "setting frobnicate": "different",
        "setting cluster-password": "exact",
        "security-setting #": "not carried over",
    }
    assert "secret" not in str(settled.as_data())
    assert queues(settled, "o", a=2) == {"old"}


@pytest.mark.parametrize(
    "raw",
    [
        b'<!DOCTYPE c [<!ENTITY a "b">]><configuration><core>&a;</core></configuration>',
        b'<!DOCTYPE c SYSTEM "file:///etc/passwd"><configuration/>',
        b"<configuration>",
        b"<configuration/>",
        b"",
        b"\xff\xff",
        b"<a>" * 200,
    ],
)
def test_what_is_no_broker_xml_or_has_a_doctype_is_refused(raw: bytes) -> None:
    with pytest.raises(DefinitionsRefused):
        KINDS["artemis"].read("broker.xml", raw)


def test_booleans_are_read_in_any_case() -> None:
    queue = '<address name="a"><multicast><queue name="q"><enabled>FALSE</enabled></queue></multicast></address>'
    assert outcomes(carried(f"<addresses>{queue}</addresses>"))["queue q"] == "not carried over"
    setting = (
        '<address-settings><address-setting match="#"><send-to-dla-on-no-route>TRUE</send-to-dla-on-no-route>'
        "<dead-letter-address>late</dead-letter-address></address-setting></address-settings>"
    )
    settled = carried(f"{setting}<addresses>{address('a', 'q', inside='')}{address('late', 'l')}</addresses>")
    assert dict(settled.topology.exchanges["/", "a"].arguments["alternate-binding"]) == {"destination": "late"}
    last = '<address name="a"><multicast><queue name="q" last-value="True"/></multicast></address>'
    kept = carried(f"<addresses>{last}</addresses>").topology.queues["/", "q"].arguments
    assert dict(kept) == {"x-last-value-key": "_AMQ_LVQ_NAME"}


def test_what_has_a_variable_is_left_out_and_nothing_else() -> None:
    filtered = "<filter string=\"region = '${region:eu}'\"/>"
    queue = f'<address name="a"><multicast><queue name="q">{filtered}</queue><queue name="r"/></multicast></address>'
    settled = carried(f"<addresses>{queue}{address('${name}', 's')}</addresses>")
    assert outcomes(settled) == {
        "address a": "exact",
        "queue q": "not carried over",
        "queue r": "exact",
        "address ${name}": "not carried over",
        "queue s": "not carried over",
    }
    assert set(settled.topology.queues) == {("/", "r")}
