"""What a filter can be at all, and which header criteria follow from which, against random messages."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.analysis.cover import Budget, Cover, covers
from bindery.router.analysis.possible import can_be_true
from bindery.router.analysis.scope import Criteria, Scope
from bindery.router.analysis.verdicts import Verdicts
from bindery.router.equality import family_equal
from bindery.router.filters import evaluate, parse
from bindery.router.filters.lint.truths import possible
from bindery.router.message import Message
from bindery.router.model import Binding
from bindery.router.values import Table, Timestamp, Value
from tests.unit.analysis.build import Broker

NUMBERS = ["-1", "0", "1", "1.5", "2", "9007199254740993"]
TEXTS = ["''", "'a'", "'b'"]
names = st.sampled_from(["x", "y"])


def _comparison(name: str, op: str, value: str) -> str:
    return f"{name} {op if value in NUMBERS or op in ('=', '<>') else '='} {value}"


simple = st.one_of(
    st.builds(_comparison, names, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), st.sampled_from(NUMBERS + TEXTS)),
    st.builds("{} BETWEEN {} AND {}".format, names, st.sampled_from(NUMBERS), st.sampled_from(NUMBERS)),
    st.builds("{} NOT IN ('a', 'b')".format, names),
    st.builds("{} LIKE 'a%'".format, names),
    st.builds("{} IS NULL".format, names),
    st.builds("{} + 1 > 2".format, names),
    names,
    st.just("TRUE"),
)
conditions = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)
values: st.SearchStrategy[Value] = st.sampled_from(
    [None, True, False, -2, 0, 1, 2, 3, 2**53, 2**53 + 1, -0.0, 0.5, 1.5, math.nan, math.inf, "", "a", "aa", "b", "1",
     "true", b"a", Timestamp(1)]
)  # fmt: skip


@given(conditions, values, values, st.booleans())
@settings(max_examples=400)
def test_no_message_has_a_truth_that_was_called_impossible(text: str, x: Value, y: Value, converts: bool) -> None:
    found = parse(("convert_string_expressions:" if converts else "") + text, "artemis")
    message = Message(application_properties=Table({"x": x, "y": y}))
    assert evaluate(found, message) in possible(found.expression)


@given(st.lists(conditions, min_size=1, max_size=3), values, values)
@settings(max_examples=300)
def test_conditions_that_some_message_meets_are_never_called_contradictory(
    texts: list[str], x: Value, y: Value
) -> None:
    filters = [parse(text, "artemis") for text in texts]
    message = Message(application_properties=Table({"x": x, "y": y}))
    if all(evaluate(item, message) for item in filters):
        assert can_be_true([item.expression for item in filters])


criteria = st.builds(
    lambda form, named: {"x-match": form, **named},
    st.sampled_from(["all", "any", "all-with-x"]),
    st.dictionaries(st.sampled_from(["a", "b", "x-c"]), st.sampled_from([None, 1, 1.0, "1"]), max_size=3),
)
headers = st.dictionaries(st.sampled_from(["a", "b", "x-c"]), st.sampled_from([None, 1, 1.0, "1", 2]), max_size=3)


def matches(binding: Binding, message: dict[str, Any]) -> bool:
    wanted = Criteria.of(binding)
    met = [
        name in message and (value is None or family_equal(value, message[name]))
        for name, value in wanted.compared.items()
    ]
    return all(met) if wanted.every else any(met)


def _covers(broker: Broker, budget: Budget) -> list[Cover]:
    scope = Scope.of(broker.topology, "/")
    return list(covers(scope, Verdicts(scope), budget))


@given(st.lists(criteria, min_size=2, max_size=6), st.lists(headers, min_size=5, max_size=20))
@settings(max_examples=200)
def test_a_message_that_matches_a_covered_headers_binding_matches_the_other(
    arguments: list[dict[str, Any]], messages: list[dict[str, Any]]
) -> None:
    broker = Broker().exchange("h", "headers").queues("q")
    for each in arguments:
        broker.bind("h", "q", "", each)
    for cover in _covers(broker, Budget()):
        for message in messages:
            assert not matches(cover.narrow, message) or matches(cover.wide, message)
            assert not cover.equal or matches(cover.narrow, message) == matches(cover.wide, message)
