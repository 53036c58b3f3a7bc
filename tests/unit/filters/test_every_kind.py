"""Every kind of value under every kind of reference, and every two kinds of keys on one field."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest

from bindery.router.columns import BatchView, Ref
from bindery.router.filters import FilterGroups, access, parse
from bindery.router.filters.access import entries
from bindery.router.filters.ast import walk
from bindery.router.filters.cesql.nodes import InOrder
from bindery.router.filters.deviations import nodes as deviations
from bindery.router.filters.fields import AMQP_NAMES, ARTEMIS_NAMES, JMS_NAMES
from bindery.router.filters.pairs import COMPUTED
from bindery.router.filters.patterns.nodes import AnyElement
from bindery.router.filters.sets import parse_filter_set
from bindery.router.message import Message, from_batch, to_batch
from bindery.router.values import Table
from tests.unit.filters.judging import assert_same, expected, judge, select
from tests.unit.filters.kinds import INSIDE, MEMBERS, PLACES, VALUES, key_kind
from tests.unit.filters.sets.plain import accepts

_LITERALS = (
    *("5", "5.0", "0", "-0.0", "0.5", "9007199254740993", "9007199254740992.0", "9223372036854775807", "INF", "NAN"),
    *("-9223372036854775808", "9223372036854775808.0", "'a'", "''", "'5'", "'é'", "0x61", "TRUE", "FALSE", "UTC()"),
)
_CONDITIONS = (
    *("{0}", "NOT {0}", "{0} IS NULL", "EXISTS({0})", "{0} IN (5, 'a', 0x61, TRUE)", "{0} NOT IN (NULL, 5)"),
    *("{0} LIKE 'a%'", "{0} LIKE '%b' ESCAPE 'x'", "{0} NOT LIKE 'a_'", "'aba' LIKE {0}", "'a%' LIKE 'a!%' ESCAPE {0}"),
    *("{0} + 1 = 6", "{0} * 2 > 1", "1 - {0} < 0", "{0} / 2 = 2.5", "{0} % 2 = 1", "7 / {0} > 1", "-({0}) < 0"),
    *("LOWER({0}) = 'a'", "UPPER({0}) = 'A'", "LEFT({0}, 1) = 'a'", "RIGHT('abc', {0}) = 'abc'", "DATE({0}) > 0"),
    *("SUBSTRING({0}, 2, 1) = 'b'", "SUBSTRING('abc', {0}, 1) = 'a'", "{0} + 'x' = 'ax'", "{0} = {0}", "{0} <> {0}"),
)


def _put(reference: str, kind: str) -> list[Message]:
    place = PLACES[reference]
    values = (*VALUES.get(kind, ()), *(INSIDE.get(kind, ()) if place.inside else ()))
    return [place.put(Message(), value) for value in values if _fits(reference, value)]


def _fits(reference: str, value: object) -> bool:
    # a record cannot tell a null property or section from an absent one
    return value is not None or reference not in ("property of any type", "whole section", "sequence")


@pytest.mark.parametrize("reference", PLACES)
def test_every_kind_of_value_under_every_kind_of_reference(reference: str) -> None:
    expression = PLACES[reference].expression
    texts = [condition.format(expression) for condition in _CONDITIONS]
    texts += [f"{expression} {op} {literal}" for literal in _LITERALS for op in ("=", "<>", "<", ">=")]
    group = [parse(text, "amqp-sql") for text in texts]
    batch = [message for kind in (*VALUES, *INSIDE) for message in _put(reference, kind)]
    judge([group], [*batch, Message()])


@pytest.mark.parametrize("reference", ["application property", "map element"])
def test_a_batch_of_one_kind_of_values_agrees_with_one_of_all_kinds(reference: str) -> None:
    """Work on kinds that no row holds is left out."""
    expression = PLACES[reference].expression
    texts = [condition.format(expression) for condition in _CONDITIONS]
    texts += [f"{expression} {op} {literal}" for literal in _LITERALS for op in ("=", ">=")]
    groups = [[parse(text, "amqp-sql") for text in texts]]
    compiled = FilterGroups(groups)
    for kind in (*VALUES, *INSIDE):
        batch = _put(reference, kind)
        pairs = [(row, 0) for row in range(len(batch))]
        if batch:
            found = select(compiled, to_batch(batch), pairs)
            assert_same(found, expected(groups, batch, pairs), groups, batch, pairs)


_FIELDS: dict[str, list[dict[str, Any]]] = {
    "header": [{name: value} for name in ("durable", "first_acquirer") for value in (True, False)]
    + [{name: value} for name in ("priority", "ttl", "delivery_count") for value in (0, 4, 5, 1)]
    + [{"delivery_count": 2**63 - 1}],
    "properties": [
        {name: value}
        for name, kinds in (
            *((name, ("text", "empty text", "wide text")) for name in ("to", "subject", "reply_to", "group_id")),
            *((name, ("timestamp", "end of timestamps")) for name in ("absolute_expiry_time", "creation_time")),
            *((name, ("text", "binary", "integer", "timestamp")) for name in ("message_id", "correlation_id")),
            ("user_id", ("binary", "empty binary")),
            ("group_sequence", ("integer",)),
        )
        for kind in kinds
        for value in VALUES[kind]
    ],
    "message_annotations": [
        Table({name: value}) for name in ("x-opt-jms-type", "jms-type") for value in ("a", "b", 5, None)
    ]
    + [Table({"x-opt-jms-type": "a", "jms-type": "b"})],
    "body": [b"", b"a", b"abcde"],
    "exchange": ["", "a", "b"],
}
_NAMES = {"jms": JMS_NAMES, "apache-selector": {**JMS_NAMES, **AMQP_NAMES}, "artemis": ARTEMIS_NAMES}


@pytest.mark.parametrize("section", [*_FIELDS, "all"])
@pytest.mark.parametrize("dialect", _NAMES)
def test_every_named_field_reads_its_message(dialect: str, section: str) -> None:
    """Also where a batch holds nothing but one section."""
    literals = ("5", "0", "'a'", "'PERSISTENT'", "'DURABLE'", "TRUE", "1577836800000")
    texts = [f"{name} {op} {literal}" for name in _NAMES[dialect] for literal in literals for op in ("=", "<>")]
    texts += [f"{name} {condition}" for name in _NAMES[dialect] for condition in ("IS NULL", "> 1", "LIKE 'a%'")]
    sections = _FIELDS if section == "all" else {section: _FIELDS[section]}
    batch = [Message(**{name: value}) for name, values in sections.items() for value in values]
    judge([[parse(text, dialect) for text in texts]], batch)


@cache
def _pairs_of_members(field: Ref) -> list[dict]:
    """An OR of every two filters on a field, in one order or the other."""
    return [
        {"f": {"descriptor": "amqp:any-filter", "value": [one, two] if n % 2 else [two, one]}}
        for n, (one, two) in enumerate(itertools.combinations_with_replacement(MEMBERS[field], 2))
    ]


_BATCHES = {
    field: [place.put(Message(), value) for values in VALUES.values() for value in values if value is not None or name]
    for field, name, place in (
        (Ref("application_properties", "a"), "a", PLACES["application property"]),
        (Ref("message_annotations", "a"), "a", PLACES["message annotation"]),
        (Ref("amqp_value"), "", PLACES["whole section"]),
        (Ref("amqp_sequence"), "", PLACES["sequence"]),
    )
}
_BATCHES[Ref("properties", "subject")] = [
    Message(properties={"subject": value}) for values in VALUES.values() for value in values if isinstance(value, str)
]


@pytest.mark.parametrize("field", MEMBERS, ids=lambda field: f"{field.section}.{field.name}")
def test_a_filter_with_any_two_kinds_of_keys_on_one_field_accepts_once(field: Ref) -> None:
    alone = [{"f": member} for member in MEMBERS[field]]
    batch = [*_BATCHES[field], Message()]
    # each member by the plain reading; an OR of two accepts what either does
    accepted = [{row for row, message in enumerate(batch) if accepts(raw, message)} for raw in alone]
    raws = _pairs_of_members(field)
    wanted = [sorted(one | two) for one, two in itertools.combinations_with_replacement(accepted, 2)]
    group = [parse_filter_set(raw) for raw in raws]
    pairs = [(row, 0) for row in range(len(batch))]
    together = select(FilterGroups([group]), _as_batch(field), pairs)
    every = list(zip(together.pair.tolist(), together.member.tolist(), strict=True))
    assert every == sorted((row, n) for n, rows in enumerate(wanted) for row in rows)
    # what many filters compile to depends on all of them: each alone is another case, for those that two keys lead to
    both = [one & two for one, two in itertools.combinations_with_replacement(accepted, 2)]
    view = BatchView(_as_batch(field))
    every_row, first_group = np.arange(len(batch)), np.zeros(len(batch), np.int32)
    for item, raw, rows, met_twice in zip(group, raws, wanted, both, strict=True):
        if not met_twice or not any(len(way.keys) > 1 for way in entries(item.expression)):
            continue
        found = FilterGroups([[item]]).select(view, every_row, first_group).pair.tolist()
        assert found == rows, f"{raw} accepts {[batch[row] for row in set(found) ^ set(rows)]}, or some twice"


@cache
def _as_batch(field: Ref):  # type: ignore[no-untyped-def]  # a record batch
    return to_batch([*_BATCHES[field], Message()])


def test_the_batches_come_back_as_they_are() -> None:
    for field, messages in _BATCHES.items():
        assert [repr(message) for message in from_batch(_as_batch(field))] == [
            repr(message) for message in (*messages, Message())
        ]


@pytest.mark.parametrize("field", MEMBERS, ids=lambda field: f"{field.section}.{field.name}")
def test_each_member_alone_agrees_with_both_references(field: Ref) -> None:
    group = [parse_filter_set({"f": member}) for member in MEMBERS[field]]
    negated = [
        parse_filter_set({"f": {"descriptor": "apache.org:not-filter:list", "value": [member]}})
        for member in MEMBERS[field]
    ]
    batch = _BATCHES[field]
    pairs = [(row, 0) for row in range(len(batch))]
    groups = [[*group, *negated]]
    wanted = expected(groups, batch, pairs)
    accepted = set(zip(wanted.pair.tolist(), wanted.member.tolist(), strict=True))
    for n, member in enumerate(MEMBERS[field]):
        for row, message in enumerate(batch):
            plainly = accepts({"f": member}, message)
            assert ((row, n) in accepted) == plainly, f"{member} differs for {message}"
            assert ((row, n + len(group)) in accepted) != plainly, f"not {member} differs for {message}"
    assert_same(select(FilterGroups(groups), _as_batch(field), pairs), wanted, groups, batch, pairs)


def test_the_members_reach_every_access_rule_and_every_kind_of_key() -> None:
    """A rule or a kind of key that is added to the product needs a member here."""
    trees = [parse_filter_set({"f": member}).expression for members in MEMBERS.values() for member in members]
    reached = {type(node) for tree in trees for node in walk(tree) if access.access_of(node) is not None}
    # of CloudEvents SQL, of patterns and of compatibility modes alone: `generators.filter_texts`, `test_patterns`
    wanted = set(access.RULES) - {access.Or, access.And, InOrder, AnyElement}
    wanted -= {kind for kind in wanted if kind.__module__ == deviations.__name__}
    assert wanted <= reached, {kind.__name__ for kind in wanted - reached}
    keys = {key_kind(key) for tree in trees for entry in entries(tree) for key in entry.keys}
    assert set(COMPUTED) <= {section for section in COMPUTED for key in keys if key.startswith(section)}
    for needed in (
        *(f"field by number {kind}" for kind in ("int", "float", "str", "bytes", "bool")),
        *(f"field strict {kind}" for kind in ("int", "float", "str", "bytes", "bool", "Timestamp")),
        *("field strict float zero", "field strict -float zero", "text head of a form strict str"),
    ):
        assert needed in keys
