"""Both evaluators agree with the plain reading of the JSON form, on any filter set and any messages."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.columns import BatchView
from bindery.router.filters import FilterGroups, evaluate
from bindery.router.filters.sets import canonical_text, parse_filter_set, parse_filter_set_text
from bindery.router.message import Message, to_batch
from bindery.router.values import Table, Timestamp, decode, encode
from tests.examples import examples
from tests.unit.filters import generators
from tests.unit.filters.generators import lists
from tests.unit.filters.sets.plain import accepts

_NAMES = st.sampled_from(["k", "l", "int", "x-a"])
_TEXTS = st.sampled_from(
    ["", "a", "A", "ab", "Ab", "ba", "ß", "ẞa", "&a", "ǅ", "5", "a.b", "a..b", "b.a.b", "a.b.", "."]
)
_SCALARS = st.sampled_from([0, 5, 5.0, -0.0, True, False, b"5", b"a", Timestamp(5), 2**63 - 1]) | _TEXTS
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner | st.none(), max_size=3).map(tuple)
        | st.dictionaries(_NAMES, inner | st.none(), max_size=3).map(Table)
    ),
    max_leaves=4,
)
_SECTIONS = st.dictionaries(_NAMES, _VALUES | st.none(), max_size=3).map(Table)
_PROPERTIES = st.fixed_dictionaries(
    {}, optional={"subject": _TEXTS, "to": _TEXTS, "message_id": st.sampled_from([5, "a", b"a"]),
                  "creation_time": st.just(Timestamp(5)), "user_id": st.sampled_from([b"a", b"5"])}
)  # fmt: skip
_HEADERS = st.fixed_dictionaries({}, optional={"priority": st.sampled_from([4, 5]), "durable": st.booleans()})
MESSAGES = st.builds(
    Message,
    connection=st.sampled_from([None, "c", "d"]),
    header=_HEADERS,
    properties=_PROPERTIES,
    application_properties=_SECTIONS,
    message_annotations=_SECTIONS,
    footer=_SECTIONS,
    amqp_value=_VALUES | st.none(),
    amqp_sequence=st.none() | st.lists(_VALUES | st.none(), max_size=3).map(tuple),
)

_REFERENCE_TEXTS = st.builds(
    lambda modifier, text: ("&" if text.startswith("&") and not modifier else "") + modifier + text,
    st.sampled_from(["", "", "&S:", "&P:", "&s:", "&p:", "&i:", "&&"]),
    _TEXTS,
)
_SIMPLE = _SCALARS.filter(lambda value: not isinstance(value, str)) | _REFERENCE_TEXTS
_REFERENCES = st.recursive(
    _SIMPLE,
    lambda inner: (
        st.lists(inner | st.none(), max_size=3).map(tuple)
        | st.dictionaries(_NAMES, inner | st.none(), max_size=2).map(Table)
    ),
    max_leaves=3,
)


def _json(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return strategy.map(encode)


def _map(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(_NAMES, _json(inner) | st.none(), max_size=2)


_PATTERNS = st.lists(st.sampled_from(["a", "b", "", "*", "#", "a"]), max_size=4).map(".".join)
_LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "amqp:application-properties-filter": _map(_SIMPLE),
    "amqp:message-annotations-filter": _map(_REFERENCES),
    "amqp:footer-filter": _map(_REFERENCES),
    "amqp:properties-filter": st.fixed_dictionaries(
        {},
        optional={
            "subject": _REFERENCE_TEXTS | st.none(),
            "to": _REFERENCE_TEXTS,
            "message_id": _REFERENCE_TEXTS | st.sampled_from([5, {"binary": "61"}]),
            "creation_time": st.sampled_from([5, {"timestamp": 5}]),
            "user_id": st.sampled_from([{"binary": "61"}, None]),
        },
    ),
    "amqp:header-filter": st.fixed_dictionaries(
        {}, optional={"priority": st.sampled_from([4, 5, None]), "durable": st.booleans(), "ttl": st.just(1)}
    ),
    "amqp:amqp-value-filter": _json(_REFERENCES | st.none()),
    "amqp:amqp-sequence-filter": st.lists(_json(_REFERENCES) | st.none(), max_size=3),
    "amqp:sql-filter": st.sampled_from(["k = 5", "TRUE", "p.subject LIKE 'a%'", "k <> 5 AND l"]),
    "apache.org:selector-filter:string": st.sampled_from(["k = 5", "amqp.priority = 4", "k <> 'a'"]),
    "apache.org:legacy-amqp-direct-binding:string": _TEXTS,
    "apache.org:legacy-amqp-topic-binding:string": _PATTERNS,
    "apache.org:legacy-amqp-headers-binding:map": st.builds(
        lambda mode, entries: {**entries, "x-match": mode}, st.sampled_from(["all", "any"]), _map(_SCALARS)
    ),
    "apache.org:no-local-filter:list": st.just([]),
}
_LEAF = st.sampled_from(sorted(_LEAVES)).flatmap(
    lambda name: _LEAVES[name].map(lambda value: {"descriptor": name, "value": value})
)
_GROUPS = st.sampled_from(
    ["amqp:all-filter", "amqp:any-filter", "amqp:not-filter", "apache.org:or-filter:list", "apache.org:and-filter:list"]
)
_FILTERS = st.recursive(
    _LEAF,
    lambda inner: (
        st.builds(lambda name, members: {"descriptor": name, "value": members}, _GROUPS, st.lists(inner, max_size=3))
        | st.builds(lambda member: {"descriptor": "apache.org:not-filter:list", "value": [member]}, inner)
    ),
    max_leaves=4,
)
SETS = st.dictionaries(st.sampled_from(["f", "g"]), _FILTERS, max_size=2)


@given(
    raws=st.lists(SETS, min_size=1, max_size=6) | lists(generators.SETS, min_size=1, max_size=6),
    messages=st.lists(MESSAGES, min_size=1, max_size=5) | generators.batches(1, 8),
    owner=st.sampled_from([None, "c"]),
)
@examples(150)
def test_evaluators_agree_with_the_plain_reading(
    raws: list[dict[str, Any]], messages: list[Message], owner: str | None
) -> None:
    filters = [parse_filter_set(raw, owner=owner) for raw in raws]
    expected = {
        (row, n) for row, message in enumerate(messages) for n, raw in enumerate(raws) if accepts(raw, message, owner)
    }
    scalar = {
        (row, n)
        for row, message in enumerate(messages)
        for n, item in enumerate(filters)
        if evaluate(item, message) is True
    }
    groups = pickle.loads(pickle.dumps(FilterGroups([filters])))  # noqa: S301  # what Spark does with it
    found = groups.select(BatchView(to_batch(messages)), np.arange(len(messages)), np.zeros(len(messages), np.int32))
    assert scalar == expected
    assert set(zip(found.pair.tolist(), found.member.tolist(), strict=True)) == expected


@given(SETS)
@examples(100)
def test_the_text_states_the_set(raw: dict[str, Any]) -> None:
    one = parse_filter_set(raw)
    again = parse_filter_set_text(one.text)
    assert again == one
    assert json.loads(one.text) == json.loads(canonical_text(raw))


def test_values_of_the_strategies_survive_json() -> None:
    assert decode(encode(Table({"int": (1, None)}))) == Table({"int": (1, None)})
