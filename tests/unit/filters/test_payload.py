"""Filters that look into bodies, against `json.loads` and a property that holds what the path leads to."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.columns import BatchView
from bindery.router.errors import FilterError
from bindery.router.filters import Filter, FilterGroups, Limits, evaluate, is_troubled, parse
from bindery.router.filters.description import describe
from bindery.router.filters.limits import Payload, PayloadLimits
from bindery.router.filters.lint import lint
from bindery.router.filters.payload import parsed
from bindery.router.filters.printer import normal_form
from bindery.router.filters.sets import DEFAULT_SET_LIMITS, parse_filter_set
from bindery.router.filters.trace import trace
from bindery.router.filters.unparsable import Unparsable
from bindery.router.message import Message, to_batch
from bindery.router.values import Table, Timestamp

JSON, TEXT = Payload("json"), Payload("text")
IN_JSON, IN_TEXT = Limits(payload=JSON), Limits(payload=TEXT)
#: Paths as both kinds of languages write them.
PATHS: dict[str, tuple[str | int, ...]] = {
    "body": (),
    "body.a": ("a",),
    "body.a.b": ("a", "b"),
    "body.a[0]": ("a", 0),
    "body[1].b": (1, "b"),
    "body['a b']": ("a b",),
    "body.a['it''s'][1].b": ("a", "it's", 1, "b"),
}
CONDITIONS = (
    *("{} = 5", "{} <> 5", "{} > 4.5", "{} = 'x'", "{} LIKE 'x%'", "{} IS NULL", "{} = TRUE", "{}", "NOT {}"),
    *("{} + 1 = 6", "{} IN ('x', 'y')", "{} = 5 OR p2 = 1", "{} = 5 AND p2 = 1", "{} = 5 OR {} = 'x'"),
)
SCALARS = st.sampled_from(
    [5, 5.0, 4, -1, 0.5, 2**53 + 1, 2**63 - 1, 2**63, 2**70, "x", "xy", "", "5", True, False, None]
)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "a b", "it's", "0"]), inner, max_size=3)
    ),
    max_leaves=8,
)
#: No JSON, by what is wrong.
UNPARSABLE: dict[str, bytes] = {
    "cut": b'{"a": 5',
    "two": b"5 5",
    "blank": b" ",
    "NaN": b'{"a": NaN}',
    "infinity": b"[-Infinity]",
    "beyond a double": b'{"a": 5, "b": 1e999}',
    "digits beyond a double": b"[" + b"9" * 400 + b"]",
    "quotes": b"{'a': 5}",
    "control character": b'["\n"]',
    "lone surrogate": b'{"a": "\\ud800"}',
    "lone surrogate as a name": b'{"\\udfff": 5, "a": 5}',
    "not UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 5}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"a": 5}',
    "compressed": bytes.fromhex("1f8b080000000000000a53"),
    "deep": b"[" * 101 + b"]" * 101,
    "very deep": b"[" * 100_000,
    "deep in an object": b'{"a":' * 101 + b"5" + b"}" * 101,
    "too many values": b"[" + b"1," * 100_000 + b"1]",
    "too many bytes": b'"' + b"x" * 1_000_000 + b'"',
}
#: How they are counted, where it is not as `syntax`.
COUNTED_AS = {
    **dict.fromkeys(("not UTF-8", "UTF-16", "compressed"), "not-utf-8"),
    **dict.fromkeys(("deep", "very deep", "deep in an object"), "too-deep"),
    "too many values": "too-many-values",
    "too many bytes": "too-large",
}


def found_by_hand(body: bytes | None, path: tuple[str | int, ...]) -> Any:
    """What a path leads to, in the plainest words."""
    value = None if body is None else json.loads(body)
    for step in path:
        holds = (isinstance(step, str) and isinstance(value, dict) and step in value) or (
            isinstance(step, int) and isinstance(value, list) and step < len(value)
        )
        if not holds:
            return None
        value = value[step]
    if isinstance(value, dict | list):
        return None
    if type(value) is int and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def verdict(filter: Filter, message: Message) -> tuple[bool | None, bool]:
    return evaluate(filter, message), is_troubled(filter, message)


def by_batch(filters: list[Filter], messages: list[Message]) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    compiled = pickle.loads(pickle.dumps(FilterGroups([filters])))  # noqa: S301  # our own
    found = compiled.select(BatchView(to_batch(messages)), np.arange(len(messages)), np.zeros(len(messages), np.int32))
    accepted = set(zip(found.pair.tolist(), found.member.tolist(), strict=True))
    return accepted, set(zip(found.troubled_pair.tolist(), found.troubled_member.tolist(), strict=True))


@given(
    st.lists(st.none() | TREES.map(json.dumps).map(str.encode), min_size=1, max_size=6),
    st.lists(st.tuples(st.sampled_from(CONDITIONS), st.sampled_from([*PATHS])), min_size=1, max_size=8),
    st.sampled_from(["jms", "artemis", "apache-selector", "amqp-sql"]),
    st.lists(st.sampled_from([*UNPARSABLE.values()]), max_size=2),
)
def test_a_path_reads_as_a_property_with_the_value_that_it_leads_to(
    bodies: list[bytes | None], asked: list[tuple[str, str]], dialect: str, broken: list[bytes]
) -> None:
    filters = [parse(condition.format(path, path), dialect, limits=IN_JSON) for condition, path in asked]
    messages = [Message(body=body, application_properties=Table({"p2": n % 2})) for n, body in enumerate(bodies)]
    both = Table({"p2": 1})
    unparsable = [Message(body=body, application_properties=both) for body in broken]
    accepted, troubled = by_batch(filters, [*messages, *unparsable])
    for row, message in enumerate(messages):
        for member, (condition, path) in enumerate(asked):
            held = Table({**message.application_properties, "p": found_by_hand(message.body, PATHS[path])})
            plain = parse(condition.format("p", "p"), dialect)
            expected = verdict(plain, Message(application_properties=held))
            assert verdict(filters[member], message) == expected, (condition, path, message.body)
            assert ((row, member) in accepted) is (expected[0] is True)
            assert ((row, member) in troubled) is expected[1]
    for row, message in enumerate(unparsable, len(messages)):
        for member, filter in enumerate(filters):
            expected = verdict(filter, message)
            assert expected in {(True, False), (None, True)}
            assert ((row, member) in accepted, (row, member) in troubled) == (expected[0] is True, expected[1])


@given(st.binary(max_size=40) | st.text('[]{},:"\\u09.eE-ntf \n', max_size=30).map(str.encode))
def test_any_body_is_parsed_or_refused_by_name(body: bytes) -> None:
    try:
        found = parsed(body, JSON)
    except Unparsable as error:
        assert str(error).startswith("the body ")
        return
    assert found == (json.loads(body, parse_int=_integer) if body else None)


def _integer(digits: str) -> int | float:
    return int(digits) if -(2**63) <= int(digits) < 2**63 else float(digits)


@pytest.mark.parametrize("kind", UNPARSABLE)
def test_an_unparsable_body_is_unknown_counted_and_hurts_no_other(kind: str) -> None:
    asks, lacks = (parse(text, "jms", limits=IN_JSON) for text in ("body.a = 5", "body.a IS NULL"))
    broken, whole = Message(body=UNPARSABLE[kind]), Message(body=b'{"a": 5}')
    assert verdict(asks, broken) == (None, True)
    assert verdict(lacks, broken) == (True, False)
    assert by_batch([asks, lacks], [whole, broken, whole]) == ({(0, 0), (1, 1), (2, 0)}, {(1, 0)})
    found = trace(asks, broken)
    assert found.cause == "trouble"
    assert found.why.startswith("the body ")
    with pytest.raises(Unparsable) as unparsable:
        parsed(broken.body, JSON)
    assert (str(unparsable.value), unparsable.value.kind) == (found.why, COUNTED_AS.get(kind, "syntax"))


@pytest.mark.parametrize("body", [b"[" * 800, b"[" * 101 + b"x", b'["[",' * 101, b"[" * 99 + b'"' + b"[" * 99])
def test_why_a_body_is_unparsable_depends_on_nothing_but_the_body(body: bytes) -> None:
    """The parser of JSON descends by calls: how far it comes depends on who calls it, and a replay must agree."""

    def said(calls: int) -> tuple[str, str]:
        if calls:
            return said(calls - 1)
        with pytest.raises(Unparsable) as unparsable:
            parsed(body, JSON)
        return unparsable.value.kind, str(unparsable.value)

    assert said(0) == said(400)
    assert said(0)[0] == ("syntax" if b'"' + b"[" * 99 in body else "too-deep")


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": 9223372036854775807}', 2**63 - 1),
        (b'{"a": 9223372036854775808}', 2.0**63),
        (b'{"a": -9223372036854775808}', -(2**63)),
        (b'{"a": 5.0}', 5.0),
        (b'{"a": 5e0}', 5.0),
        (b'{"a": -0}', 0),
        (b'{"a": -0.0}', -0.0),
        (b'{"a": 1e-999}', 0.0),
        (b'{"a": 1, "a": 2}', 2),
        (b'{"a": {"b": 1}}', None),
        (b'{"a": [1]}', None),
        (b'{"a": null}', None),
        (b"{}", None),
        (b"", None),
        (None, None),
        (b'{"a": "\\ud83d\\ude00"}', "😀"),
        (b'\t{"a": "x"}\r\n', "x"),
        (b"[" * 3 + b"]" * 3, None),
    ],
)
def test_what_a_value_is(body: bytes | None, value: object) -> None:
    found = trace(parse("body.a = 5", "jms", limits=IN_JSON), Message(body=body)).reads
    assert [(name, type(read), read) for name, read in found] == [("body.a", type(value), value)]
    if isinstance(value, float):
        assert math.copysign(1, value) == math.copysign(1, found[0][1])  # type: ignore[arg-type]  # a float


@pytest.mark.parametrize(
    ("limits", "fits", "beyond"),
    [
        (PayloadLimits(bytes=9), b'{"a":555}', b'{"a":5555}'),
        (PayloadLimits(levels=2), b'{"a":5,"b":[5]}', b'{"a":5,"b":[[]]}'),
        (PayloadLimits(nodes=3), b'{"a":5,"b":5}', b'{"a":5,"b":[5]}'),
    ],
)
def test_each_bound_is_the_last_that_fits(limits: PayloadLimits, fits: bytes, beyond: bytes) -> None:
    filter = parse("body.a > 4", "jms", limits=Limits(payload=Payload("json", limits)))
    assert verdict(filter, Message(body=fits)) == (True, False)
    assert verdict(filter, Message(body=beyond)) == (None, True)
    assert by_batch([filter], [Message(body=fits), Message(body=beyond)]) == ({(0, 0)}, {(1, 0)})
    as_text = Message(amqp_value=beyond.decode())
    assert verdict(filter, as_text) == (None, True)


def test_a_body_is_the_data_or_else_a_string_or_binary_amqp_value() -> None:
    filter = parse("body.a = 5", "jms", limits=IN_JSON)
    messages = [
        Message(body=b'{"a": 5}', amqp_value='{"a": 6}'),
        Message(amqp_value='{"a": 5}'),
        Message(amqp_value=b'{"a": 5}'),
        Message(amqp_value=Table({"a": 5})),
        Message(amqp_value=5),
        Message(amqp_value=Timestamp(5)),
        Message(amqp_sequence=(5,)),
        Message(),
    ]
    assert [verdict(filter, message) for message in messages] == [(True, False)] * 3 + [(None, False)] * 5
    assert by_batch([filter], messages) == ({(0, 0), (1, 0), (2, 0)}, set())
    assert "the message has no body" in trace(filter, messages[-1]).parts[0].why


def test_text_is_the_body_alone() -> None:
    filters = [parse(text, "jms", limits=IN_TEXT) for text in ("body LIKE '%error%'", "body = ''", "body IS NULL")]
    messages = [Message(body=body) for body in (b"an error here", b"", None, b"\xff error", b"{}", b"x" * 1_000_001)]
    accepted, troubled = by_batch(filters, messages)
    assert accepted == {(0, 0), (1, 1), (2, 2), (3, 2), (5, 2)}
    assert troubled == {(3, 0), (3, 1), (5, 0), (5, 1)}
    for row, message in enumerate(messages):
        for member, filter in enumerate(filters):
            assert verdict(filter, message) == (
                True if (row, member) in accepted else None if (message.body is None or row in (3, 5)) else False,
                (row, member) in troubled,
            )
    with pytest.raises(FilterError, match="a body that is text has no members"):
        parse("body.a = 5", "jms", limits=IN_TEXT)


# -- the work ---------------------------------------------------------------------------------------------


def test_a_body_is_parsed_once_and_only_where_a_filter_asks() -> None:
    into = [parse(f"body.a{n} = {n} AND body.b > {n}", "jms", limits=IN_JSON) for n in range(50)]
    beside = [parse("p2 = 1", "jms"), parse("XPATH '/a'", "artemis")]
    compiled = FilterGroups([into, beside, into[:3]])
    messages = [Message(body=b'{"a1": 1, "b": 5}', application_properties=Table({"p2": 1}))] * 40
    filters = compiled.on(BatchView(to_batch(messages)))
    every = np.arange(40)
    filters.select(every, np.ones(40, np.int32))
    assert filters.bodies.parsed == 0
    for rows, group, then in ((every[:10], 0, 10), (every[:10], 2, 10), (every[5:20], 2, 20), (every[:20], 0, 20)):
        found = filters.select(rows, np.full(len(rows), group, np.int32))
        assert found.member.tolist() == [1] * len(rows)
        assert filters.bodies.parsed == then


def test_an_equality_leads_to_few_filters() -> None:
    compiled = FilterGroups([[parse(f"body.kind = 'k{n}'", "jms", limits=IN_JSON) for n in range(500)]])
    bodies = [b'{"kind": "k7"}'] * 20 + [b'{"kind": "k8"}', b"{}", b"no JSON"]
    view = BatchView(to_batch([Message(body=body) for body in bodies]))
    rows, groups = np.arange(len(bodies)), np.zeros(len(bodies), np.int32)
    # a body that cannot be parsed might hold any of the values, and is counted for each filter
    assert compiled.candidates(view, rows, groups) == 21 + 500
    found = compiled.select(view, rows, groups)
    assert found.member.tolist() == [7] * 20 + [8]
    assert found.troubled_pair.tolist() == [22] * 500


# -- the languages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["jms", "apache-selector", "artemis", "amqp-sql"])
@pytest.mark.parametrize("path", PATHS)
def test_the_normal_form_reads_back(dialect: str, path: str) -> None:
    tree = parse(f"{path} = 5", dialect, limits=IN_JSON).expression
    text = normal_form(tree, dialect)
    assert text == f"{path} = 5"
    assert parse(text, dialect, limits=IN_JSON).expression == tree


@pytest.mark.parametrize(
    ("dialect", "text", "same"),
    [
        ("artemis", "hyphenated_props:body.order-id = 5", "body['order-id'] = 5"),
        ("artemis", "body.order-id = 5", "body.order - id = 5"),
        ("artemis", "hyphenated_props:body-x = 5", '"body-x" = 5'),
        ("artemis", "\"body\" = 5 AND body.a = 5", '"body" = 5 AND body.a = 5'),
        ("amqp-sql", "[body].a = 5 AND body.a = 5", "[body]['a'] = 5 AND body.a = 5"),
        ("amqp-sql", "body.[order-id] = a.body", "body['order-id'] = [body]"),
        ("amqp-sql", "body . a [ 0 ] = 5", "body.a[0] = 5"),
        ("amqp-sql", "body.[in] = 5", "body['in'] = 5"),
        ("jms", "body.in = 5 AND mybody = body$", "body.in = 5 AND mybody = body$"),
        ("jms", "Body = 5 AND body.größe = 5", "Body = 5 AND body['größe'] = 5"),
    ],
)  # fmt: skip
def test_what_is_the_body_and_what_a_property(dialect: str, text: str, same: str) -> None:
    assert normal_form(parse(text, dialect, limits=IN_JSON).expression, dialect) == same


@pytest.mark.parametrize(
    ("dialect", "text", "hint"),
    [
        ("jms", "body. = 5", "members of the body are written body.name, body[0] or body['any name']"),
        ("jms", "body[-1] = 5", "members of the body are written body.name, body[0] or body['any name']"),
        ("artemis", "body.a[x] = 5", "members of the body are written body.name, body[0] or body['any name']"),
        ("amqp-sql", "body[x] = 5", None),
        ("amqp-sql", "body[-1] = 5", None),
        ("amqp-sql", "body[1.0] = 5", None),
        ("jms", "body.a\u2070 = 5", "names have letters, digits, _ and $"),
    ],
)
def test_a_path_is_known_when_the_filter_is_defined(dialect: str, text: str, hint: str | None) -> None:
    with pytest.raises(FilterError) as refused:
        parse(text, dialect, limits=IN_JSON)
    assert refused.value.hint == hint


@pytest.mark.parametrize("text", ["body.amount = 5", "body[0] = 5", "a = 1 AND body.a.b > 5"])
@pytest.mark.parametrize("dialect", ["jms", "apache-selector", "artemis"])
def test_without_a_declaration_the_hint_says_what_to_declare(dialect: str, text: str) -> None:
    with pytest.raises(FilterError, match=r"unexpected '[.\[]'") as refused:
        parse(text, dialect)
    assert refused.value.hint is not None
    assert '"x-payload": "json"' in refused.value.hint


def test_without_a_declaration_sql_reads_a_property() -> None:
    message = Message(body=b'{"a": 6}', application_properties=Table({"body": Table({"a": 5})}))
    assert evaluate(parse("body.a = 5", "amqp-sql"), message) is True
    assert evaluate(parse("body.a = 6", "amqp-sql", limits=IN_JSON), message) is True
    with pytest.raises(FilterError, match="unexpected"):
        parse("amqp.body.a = 5 AND a.b = 5", "jms", limits=IN_JSON)


def test_filters_of_one_text_differ_by_what_bodies_are() -> None:
    as_json, as_text, plain = (
        parse("body = 'x'", "jms", limits=replace(Limits(), payload=p)) for p in (JSON, TEXT, None)
    )
    assert len({as_json, as_text, plain}) == 3
    message = Message(body=b'"x"', application_properties=Table({"body": "x"}))
    assert by_batch([as_json, as_text, plain], [message]) == ({(0, 0), (0, 2)}, set())
    assert parse("a = 1", "jms", limits=IN_JSON) == parse("a = 1", "jms")


def test_a_filter_set_looks_into_bodies() -> None:
    raw = {"f": {"descriptor": "amqp:sql-filter", "value": "body.a = 5"}}
    found = parse_filter_set(raw, limits=replace(DEFAULT_SET_LIMITS, text=IN_JSON))
    assert verdict(found, Message(body=b'{"a": 5}')) == (True, False)
    assert by_batch([found], [Message(body=b'{"a": 5}'), Message(body=b"{}")]) == ({(0, 0)}, set())
    assert found != parse_filter_set(raw)
    assert describe(found)["properties"] == ["body.a"]


@pytest.mark.parametrize(("dialect", "prefix"), [("jms", ""), ("artemis", "hyphenated_props:"), ("amqp-sql", "")])
def test_lint_speaks_of_members_as_they_are_written(dialect: str, prefix: str) -> None:
    found = lint(parse(f"{prefix}NOT body.colour = 'red'", dialect, limits=IN_JSON))
    assert "messages without body.colour are not accepted; add OR body.colour IS NULL if wanted" in {
        finding.message for finding in found
    }
    inner = {"f": {"descriptor": "amqp:sql-filter", "value": "NOT body.colour = 'red'"}}
    in_set = lint(parse_filter_set(inner, limits=replace(DEFAULT_SET_LIMITS, text=IN_JSON)))
    assert {finding.where for finding in in_set} == {"f.value"}
