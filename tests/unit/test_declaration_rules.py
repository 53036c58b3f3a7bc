"""The model against the rules of declaration, written out a second time over the JSON of a case."""

from collections.abc import Iterator
from itertools import combinations, product

import pytest

from bindery.conformance.declarations import refusal
from bindery.conformance.guard import defined
from bindery.conformance.topology import declare

SET = {"f": {"descriptor": "amqp:sql-filter", "value": "a = 1"}}
BROKEN_SET = {"f": {"descriptor": "amqp:sql-filter", "value": "a ="}}
VALUES = [None, True, 1, 1.0, "1", {"byte": 1}, {"symbol": "1"}, {"timestamp": 1}, {"list": [1]}, {"map": {"a": 1}}]
FLAGS = [True, False]
#: Declared first, so that one more object is a second declaration, a binding, or alone at fault.
GROUND = {
    "exchanges": [{"name": "h", "type": "headers"}, {"name": "x", "type": "direct", "arguments": {"a": 1}}],
    "queues": [{"name": "q", "arguments": {"a": 1}}],
    "bindings": [],
    "diverts": [{"name": "d", "source": "h", "destination": "x"}],
}
#: Kind -> field -> values of one more object; the first value is the usual one, the field "arguments" states
#: values by argument.
MORE = {
    "exchanges": {
        "name": ["new", "x", "amq.direct", "amq.new", "", "n" * 255, "é" * 128],
        "type": ["direct", "headers", "nosuch"],
        "durable": FLAGS,
        "auto_delete": FLAGS[::-1],
        "internal": FLAGS[::-1],
        "arguments": {
            "a": VALUES,
            "alternate-exchange": ["y", "", 5, "n" * 256],
            "alternate-binding": [{"destination": "q"}, {"destination": 5}, "q", {}, {"to": "q"}],
            "unroutable-message-behaviour": ["REJECT", "DISCARD", "KEEP", None],
            "x-record-unroutable": [False, "no"],
        },
    },
    "queues": {
        "name": ["new", "q", "x", "amq.q", "", "q" * 256],
        "durable": FLAGS,
        "auto_delete": FLAGS[::-1],
        "arguments": {
            "a": VALUES,
            "x-queue-filter": ["a = 1", "a =", "", 5, SET, BROKEN_SET],
            "x-owner-connection": ["me", 5],
        },
    },
    "bindings": {
        "source": ["h", "x", "amq.match", "amq.topic", "", "nosuch"],
        "destination": ["q", "x", "", "nosuch"],
        "destination_type": ["queue", "exchange", "topic"],
        "routing_key": ["", "k", "k" * 256],
        "arguments": {
            "x-match": ["all", "any", "all-with-x", "ALL", 1, None, {"symbol": "any"}],
            "x-filter-jms-selector": ["a = 1", "a =", "", 5],
            "x-filters": [SET, BROKEN_SET, {}, "a = 1"],
            "x-replacement-routing-key": ["k", "", 5, "k" * 256],
        },
    },
    "diverts": {
        "name": ["new", "d", "", "d" * 256],
        "source": ["h", "amq.topic", "", "nosuch"],
        "destination": ["x", "amq.fanout", "", "nosuch"],
        "filter": ["", "a = 1", "a ="],
        "exclusive": FLAGS[::-1],
        "routing_key": [None, "k", "k" * 256],
    },
}


def _values(field: str, options: object) -> list[object]:
    if field == "arguments":
        return [{}, *({name: value} for name, values in options.items() for value in values)]
    return list(options)


def _objects(kind: str) -> Iterator[dict[str, object]]:
    """Every object that differs from the usual one in at most three fields."""
    values = {field: _values(field, options) for field, options in MORE[kind].items()}
    usual = {field: options[0] for field, options in values.items()}
    for fields in combinations(values, 3):
        for chosen in product(*(values[field] for field in fields)):
            yield usual | dict(zip(fields, chosen, strict=True))


@pytest.mark.parametrize("kind", MORE)
def test_the_model_accepts_exactly_what_the_rules_accept(kind: str) -> None:
    tried = {"ok": 0, "error": 0}
    for item in _objects(kind):
        topology = GROUND | {kind: [*GROUND[kind], item]}
        expected = "error" if refusal(topology) else "ok"
        assert defined(lambda topology=topology: declare(topology) and "ok") == expected, item
        tried[expected] += 1
    assert min(tried.values()) > 50


@pytest.mark.parametrize("topology", [{}, {"exchanges": []}, {"queues": [{"name": "q"}]}])
def test_lists_may_be_left_out(topology: dict[str, object]) -> None:
    assert refusal(topology) is None
