"""What a filter can be at all, against random messages."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from bindery.router.analysis.possible import can_be_true
from bindery.router.filters import evaluate, parse
from bindery.router.filters.lint.truths import possible
from bindery.router.message import Message
from bindery.router.values import Table, Timestamp, Value

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
