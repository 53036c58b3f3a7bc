"""Hypothesis strategies for what filters meet in the engine.

Topologies in which bindings, queues and diverts have filters of every origin, several on one way, shared and of one
shape; and batches of every size in which some messages hold nested text that nobody should have written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from bindery.router.declarations import TopologyEditor
from bindery.router.message import MAP_SECTIONS, MESSAGE_SCHEMA, Message
from bindery.router.model import DEFAULT_VHOST, Binding, Divert, Exchange, Queue, Topology
from bindery.router.values import Table, decode_table
from tests.unit.filters import generators
from tests.unit.filters.generators import SETS, SETS_ON_ONE_FIELD
from tests.unit.filters.judging import inside
from tests.unit.filters.kinds import RAW_NESTED

_SHAPES: Final = ("a = {}", "a = {} AND b > 1", "a = {} OR s = 'a'", "NOT (a = {})", "a > {} AND JMSPriority < 5")
_CONSTANTS: Final = ("5", "5.0", "'ab'", "'5'", "TRUE", "0")
#: Selectors of a few shapes, and some of shapes of their own.
SELECTORS: Final = (
    *(shape.format(value) for shape in _SHAPES[:4] for value in _CONSTANTS),
    *(_SHAPES[4].format(value) for value in ("5", "0.5")),
    *("a IN ('ab', '5')", "a LIKE 'ab%'", "a IS NULL", "a / 0 = 1", "b + 1 = 6 OR a", "JMSXDeliveryCount = 1", ""),
)


def _table(raw: dict[str, Any]) -> Table:
    return decode_table(raw)


_filter_sets = (st.sampled_from(SETS_ON_ONE_FIELD) | st.sampled_from(SETS)).map(_table)
_queue_filters = st.sampled_from([text.replace("JMSPriority", "AMQPriority").replace("JMSX", "") for text in SELECTORS])


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Few exchanges and queues, many filters: all of one rule stand in one group."""
    editor = TopologyEditor(Topology.empty())
    names = "XYZ"[: draw(st.integers(1, 3))]
    for name in names:
        kind = draw(st.sampled_from(("fanout", "direct", "topic", "headers")))
        alternate = draw(st.sampled_from((None, None, names[-1])))
        arguments = Table() if alternate is None else Table({"alternate-binding": Table({"destination": alternate})})
        editor.declare_exchange(Exchange(DEFAULT_VHOST, name, kind, arguments=arguments))
    for name in "pqrs":
        arguments = {}
        match draw(st.integers(0, 5)):
            case 0 | 1:
                arguments["x-queue-filter"] = draw(_queue_filters)
            case 2:
                arguments["x-queue-filter"] = draw(_filter_sets)
        if draw(st.integers(0, 3)) == 0:
            arguments["x-owner-connection"] = "c"
        editor.declare_queue(Queue(DEFAULT_VHOST, name, arguments=Table(arguments)))
    selectors = draw(st.lists(st.sampled_from(SELECTORS), min_size=1, max_size=3))
    filter_sets = draw(st.lists(_filter_sets, min_size=1, max_size=2))
    for _ in range(draw(st.integers(1, 7))):
        which = draw(st.integers(0, 4))
        arguments = {}
        if which in (1, 3, 4):
            arguments["x-filter-jms-selector"] = draw(st.sampled_from(selectors))
        if which in (2, 3, 4):
            arguments["x-filters"] = draw(st.sampled_from(filter_sets))
        kind = draw(st.sampled_from(("queue", "queue", "queue", "exchange")))
        destination = draw(st.sampled_from("pqrs" if kind == "queue" else names))
        source, key = draw(st.sampled_from(names)), draw(st.sampled_from(("k", "k", "l")))
        editor.bind(Binding(0, DEFAULT_VHOST, source, destination, kind, key, Table(arguments)))
    if draw(st.integers(0, 2)) == 0:
        source, destination, exclusive = draw(st.sampled_from(names)), draw(st.sampled_from(names)), draw(st.booleans())
        editor.declare_divert(Divert(0, DEFAULT_VHOST, "d", source, destination, draw(_queue_filters), exclusive))
    return editor.topology


def _published(parts: tuple[list[Message], str, str]) -> list[Message]:
    some, exchanges, keys = parts
    return [
        replace(message, exchange=exchanges[n % len(exchanges)], routing_key=keys[n % len(keys)])
        for n, message in enumerate(some)
    ]


def _lists(sizes: st.SearchStrategy[list[Message]]) -> st.SearchStrategy[list[Message]]:
    return st.tuples(sizes, st.sampled_from(("X", "XY", "XYZ", "ZX")), st.sampled_from(("k", "kl"))).map(_published)


#: Messages to the exchanges of `topologies`: one, two, several, and many of few kinds.
batches = st.one_of(
    _lists(generators.batches(1, 1)),
    _lists(generators.batches(2, 2)),
    _lists(generators.batches(3, 12)),
    st.tuples(_lists(generators.batches(1, 5)), st.sampled_from((9, 60))).map(lambda parts: parts[0] * parts[1]),
)

#: Where raw nested text goes: row (taken modulo the batch), section, name, kind, which of the kind.
Damage = tuple[int, str, str, str, int]
damages = st.lists(
    st.tuples(
        st.integers(0, 11),
        st.sampled_from((*MAP_SECTIONS, "application_properties", "amqp_value", "amqp_sequence")),
        st.sampled_from(("a", "b")),
        st.sampled_from(list(RAW_NESTED)),
        st.integers(0, 9),
    ),
    max_size=3,
)


def as_arrow(messages: Sequence[Message], damage: Sequence[Damage], *, sliced: bool) -> pa.RecordBatch:
    """The messages as a batch, some of their values replaced by raw nested text."""
    rows = [message.as_row() for message in messages]
    for row, section, name, kind, which in damage:
        value = {"nested": RAW_NESTED[kind][which % len(RAW_NESTED[kind])]}
        place = rows[row % len(rows)]
        if section in MAP_SECTIONS:
            place[section] = [*(entry for entry in place[section] or () if entry[0] != name), (name, value)]
        else:
            place[section] = value
    batch = pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)
    return inside(batch) if sliced else batch
