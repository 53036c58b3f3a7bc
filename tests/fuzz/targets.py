"""What each fuzzing target does with its bytes: parse, and then hold the parser to its promises.

A target raises AssertionError or any error but the parser's own; a run that takes too long is found by
libFuzzer's timeout, memory by its limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from bindery.router.columns import BatchView
from bindery.router.errors import BinderyError, FilterError
from bindery.router.filters import DIALECTS, Filter, FilterGroups, evaluate, parse
from bindery.router.filters.lint import lint
from bindery.router.filters.sets import parse_filter_set_text
from bindery.router.filters.xpath import XPathDocuments
from bindery.router.filters.xpath import compile as compile_xpath
from bindery.router.message import Message, to_batch
from bindery.router.values import Table, Timestamp

MESSAGE = Message(
    connection="c",
    header={"priority": 7, "durable": True},
    properties={"subject": "a.b.c", "message_id": 5, "creation_time": Timestamp(5)},
    application_properties=Table({"a": 1, "b": "x", "c": 2.5, "d": True, "e": None, "f": (1, Table({"g": "h"}))}),
    amqp_value=Table({"k": (1, 2)}),
    amqp_sequence=(1, "b", None),
    body=b"<a id='1'><b>2</b><b>x</b></a>",
)
VIEW = BatchView(to_batch([MESSAGE]))
DOCUMENT = b"<a xmlns:p='u' id='1'>t<b>2</b><!--c--><?pi x?><b n='3'><a/>y</b></a>"


def _both(item: Filter) -> None:
    """The evaluators agree, and lint has nothing to trip over."""
    found = FilterGroups([[item]]).select(VIEW, np.zeros(1, np.int64), np.zeros(1, np.int32))
    assert (len(found.pair) == 1) == (evaluate(item, MESSAGE) is True), item.text
    for finding in lint(item):
        assert finding.where is not None or finding.offset + finding.length <= len(item.text), item.text


def text_filter(data: bytes) -> None:
    """The text languages; the first byte chooses one."""
    dialect = sorted(DIALECTS)[data[0] % len(DIALECTS)] if data else "jms"
    text = data[1:].decode("utf-8", "surrogateescape")
    try:
        item = parse(text, dialect)
    except FilterError as error:
        assert 0 <= error.offset <= len(error.text) + 1, (text, error.offset)
        json.dumps(error.as_data())
        return
    _both(item)


def filter_set(data: bytes) -> None:
    """Filter sets as JSON text."""
    try:
        item = parse_filter_set_text(data.decode("utf-8", "surrogateescape"), owner="c")
    except FilterError as error:
        json.dumps(error.as_data())
        return
    _both(item)


def xpath(data: bytes) -> None:
    """XPath expressions over a small document."""
    try:
        compiled = compile_xpath(data.decode("utf-8", "surrogateescape"))
    except FilterError as error:
        assert 0 <= error.offset <= len(error.text) + 1
        return
    XPathDocuments().outcome(compiled, DOCUMENT)


EXPRESSION = compile_xpath("//a[b = 2]/ancestor::* | //@*[. != 'x']/.. | //namespace::* | //comment()")


def xml(data: bytes) -> None:
    """XML bodies."""
    XPathDocuments().outcome(EXPRESSION, data)


def message(data: bytes) -> None:
    """Message records as JSON."""
    try:
        found = Message.from_json(json.loads(data))
    except (BinderyError, ValueError, RecursionError):
        return
    assert Message.from_json(found.as_json()).as_json() == found.as_json()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "text-filter": text_filter,
    "filter-set": filter_set,
    "xpath": xpath,
    "xml": xml,
    "message": message,
}

#: First inputs for each target: one of each construct is enough to start from.
SEEDS: dict[str, list[bytes]] = {
    "text-filter": [
        number + text.encode()
        for number in (b"\0", b"\1", b"\2", b"\3")
        for text in (
            "a = 1 AND b LIKE 'x%' ESCAPE '!' OR NOT (c BETWEEN 1 AND 2.5e3)",
            "a IN ('x', 'y') AND b IS NOT NULL AND -a * 2 / 0x1F % 3 <> .5",
            "XPATH '//b[. = 2]' OR \"a\" = TRUE",
            "convert_string_expressions:hyphenated_props:a-b = 1",
            "LOWER(p.subject) = 'a' AND EXISTS(a.f[1].g) AND DATE('2020-01-01') < UTC() AND v.k[0] = 0xAB",
            "amqp.priority > 4 AND JMSType IS NULL",
        )
    ],
    "filter-set": [
        b'{"f":{"descriptor":"amqp:properties-filter","value":{"subject":"&p:A","message_id":5}}}',
        b'{"f":{"descriptor":"amqp:amqp-value-filter","value":{"map":{"k":[1,null,"&i:x"]}}}}',
        b'{"f":{"descriptor":"apache.org:not-filter:list","value":[{"descriptor":77567109365764,"value":"a=1"}]}}',
        b'{"f":{"descriptor":"apache.org:legacy-amqp-topic-binding:string","value":"a.*.#"}}',
        b'{"f":{"descriptor":"apache.org:legacy-amqp-headers-binding:map","value":{"x-match":"any","a":{"long":1}}}}',
        b'{"f":{"descriptor":"amqp:any-filter","value":[]},"g":{"descriptor":"apache.org:no-local-filter:list","value":[]}}',
    ],
    "xpath": [
        b"//a[@id='1']/b[last()] | ancestor::node()",
        b"count(//*) > 2 and not(contains(string(.), 'x'))",
        b"-1.5 div 2 mod .3 >= substring-before('a-b', '-')",
    ],
    "xml": [
        DOCUMENT,
        b"<?xml version='1.0' encoding='utf-8'?><a><![CDATA[x]]>&lt;&#65;</a>",
        b"<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
    ],
    "message": [
        b'{"exchange":"e","routing_key":"k","properties":{"message_id":{"uuid":"00000000-0000-0000-0000-000000000001"}}}',
        b'{"application_properties":{"a":{"list":[1,null,{"map":{"b":1.5}}]}},"body":{"binary":"00"},"header":{"priority":4}}',
    ],
}
