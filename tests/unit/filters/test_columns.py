"""Filters over columns give what they give over messages that have the same values."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bindery.router.columns import column_of
from bindery.router.errors import FilterError
from bindery.router.filters import evaluate, parse
from bindery.router.filters.ast import FALSE, TRUE, Field, XPath, walk
from bindery.router.filters.columns import ColumnFilter
from bindery.router.filters.fields import read
from bindery.router.filters.limits import Limits, Payload
from bindery.router.message import Message
from bindery.router.values import Table
from tests.examples import examples
from tests.unit.filters.generators import batches, filters
from tests.unit.filters.rules import SELECTING, WORDED

_RESULTS = {TRUE: True, FALSE: False}


@pytest.mark.parametrize("dialect", WORDED)
@given(data=st.data())
@examples(60)
def test_columns_with_the_values_of_messages_give_the_same_three_values(dialect: str, data: st.DataObject) -> None:
    filter = data.draw(filters(dialect))
    nodes = list(walk(filter.expression))
    assume(not any(isinstance(node, XPath) for node in nodes))
    batch: list[Message] = data.draw(batches(1, 12))
    condition = pickle.loads(pickle.dumps(ColumnFilter.of(filter)))  # noqa: S301  # our own
    refs = list(dict.fromkeys(node.ref for node in nodes if isinstance(node, Field)))
    assert len(condition.names) == len(refs)
    columns = [column_of([read(message, ref) for message in batch]) for ref in refs]
    truths = condition.truths(columns, len(batch), clock_ms=5)
    expected = [evaluate(filter, message, clock_ms=5) for message in batch]
    assert [_RESULTS.get(truth) for truth in truths.tolist()] == expected


@pytest.mark.parametrize(
    ("dialect", "text", "names"),
    [
        ("jms", "b > a AND a < JMSPriority", ("b", "a", "JMSPriority")),
        ("apache-selector", "amqp.priority > 4 OR JMSXGroupID = 'g'", ("amqp.priority", "JMSXGroupID")),
        ("apache-selector", "JMSPriority > 4", ("JMSPriority",)),
        ("artemis", '"a-b" = 1 AND AMQSize > 4', ("a-b", "AMQSize")),
        ("amqp-sql", "a.x = 1 AND p.subject = 's' AND y = 2", ("x", "properties.subject", "y")),
        ("cesql", "type = 'a' AND myext > 4", ("type", "myext")),
        ("service-bus", "Price > 4 AND sys.label = 's' AND PRICE < 9", ("price", "sys.Label")),
        ("jms", "", ()),
    ],
)
def test_names_are_columns(dialect: str, text: str, names: tuple[str, ...]) -> None:
    assert ColumnFilter.of(parse(text, dialect)).names == names


def test_no_default_of_a_header_is_there_without_its_value() -> None:
    filter = parse("JMSPriority = 4", "jms")
    assert evaluate(filter, Message(application_properties=Table({}))) is True
    assert ColumnFilter.of(filter).truths([column_of([None, 4])], 2, clock_ms=0).tolist() == [1, TRUE]


@pytest.mark.parametrize("dialect", SELECTING)
def test_a_column_of_bodies_is_looked_into(dialect: str) -> None:
    bodies = [b'{"a": 5, "b": [{"c": "x"}]}', '{"a": 4}', None, b"{", "", b'{"b": [{"c": "x"}], "a": 6}']
    messages = [Message(body=body.encode() if isinstance(body, str) else body) for body in bodies]
    for text in ("body.a > 4", "body.b[0].c = 'x' AND n = 1", "body.a IS NULL", "NOT (body.a = 5)"):
        filter = parse(text, dialect, limits=Limits(payload=Payload("json")))
        condition = pickle.loads(pickle.dumps(ColumnFilter.of(filter)))  # noqa: S301  # our own
        assert condition.names == (("body", "n") if "n = 1" in text else ("body",))
        columns = [column_of([*bodies]), column_of([1] * len(bodies))][: len(condition.names)]
        truths = condition.truths(columns, len(bodies), clock_ms=0)
        expected = [evaluate(filter, replace(one, application_properties=Table({"n": 1}))) for one in messages]
        assert [_RESULTS.get(truth) for truth in truths.tolist()] == expected


def test_a_filter_of_bodies_is_refused() -> None:
    with pytest.raises(FilterError, match="XPATH reads the body") as caught:
        ColumnFilter.of(parse("a = 1 OR XPATH '//b'", "artemis"))
    assert caught.value.hint is not None
