"""The engine against the naive router, on topologies and messages that nobody would draw by hand."""

from __future__ import annotations

import pickle
from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.engine import DISPOSITIONS, REASONS, Router
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_BINDING_ID, DEFAULT_VHOST, Topology
from bindery.router.reference import NaiveRouter, ReferenceOutcome
from tests.examples import examples
from tests.unit.engine.topologies import maze_messages, mazes, messages, topologies
from tests.unit.filters.judging import inside


def outcomes(router: Router, batch: list[Message]) -> list[ReferenceOutcome]:
    """What the engine says of each message, in the words of the reference."""
    return outcomes_of(router, to_batch(batch))


def outcomes_of(router: Router, batch: pa.RecordBatch) -> list[ReferenceOutcome]:
    """What the engine says of each record."""
    found = router.route(batch, clock_ms=0)
    queues: list[set[str]] = [set() for _ in range(batch.num_rows)]
    for place, queue in enumerate(found.queue):
        rows = found.rows[found.offsets[place] : found.offsets[place + 1]].tolist()
        assert rows == sorted(set(rows)), "each row once a queue, ascending"
        for row in rows:
            queues[row].add(router.queues[queue])
    reached = [[router.queues[queue] for queue in numbers] for numbers in found.reached.to_pylist()]
    assert [sorted(names) for names in reached] == [sorted(names) for names in queues]
    lost = found.unroutable
    why = {
        int(row): (REASONS[reason], DISPOSITIONS[disposition], bool(recorded))
        for row, reason, disposition, recorded in zip(
            lost.rows, lost.reason, lost.disposition, lost.recorded, strict=True
        )
    }
    assert sorted(why) == [row for row, reached in enumerate(queues) if not reached]
    counts, traces = found.counts, found.lineage.to_pylist()
    hits = Counter(number for numbers in traces for number in numbers)
    counted = dict(zip(counts.ids.tolist(), counts.hits.tolist(), strict=True))
    # the implicit bindings of all queues share one id, under which a message may count several times
    assert counted.pop(DEFAULT_BINDING_ID, 0) >= hits.pop(DEFAULT_BINDING_ID, 0)
    assert counted == hits
    assert counts.ids.tolist() == sorted(counts.ids.tolist())
    assert counts.reasons.tolist() == [[reason for reason, *_ in why.values()].count(name) for name in REASONS]
    return [
        ReferenceOutcome(frozenset(queues[row]), tuple(lineage), *why.get(row, (None, None, True)))
        for row, lineage in enumerate(traces)
    ]


@given(topologies(), st.lists(messages, max_size=12))
@examples(100)
def test_every_message_goes_where_the_rules_send_it(topology: Topology, batch: list[Message]) -> None:
    router = Router.compile(topology, DEFAULT_VHOST)
    naive = NaiveRouter(topology, DEFAULT_VHOST)
    expected = [naive.route(message) for message in batch]
    assert outcomes(router, batch) == expected
    assert outcomes_of(router, inside(to_batch(batch))) == expected


@given(mazes(), st.lists(maze_messages, max_size=12))
@examples(100)
def test_alternates_fire_in_the_same_order_through_any_maze(topology: Topology, batch: list[Message]) -> None:
    router = Router.compile(topology, DEFAULT_VHOST)
    naive = NaiveRouter(topology, DEFAULT_VHOST)
    expected = [naive.route(message) for message in batch]
    assert outcomes(router, batch) == expected


@given(topologies(), st.lists(messages, min_size=1, max_size=4))
@examples(10)
def test_a_router_survives_pickling(topology: Topology, batch: list[Message]) -> None:
    router = Router.compile(topology, DEFAULT_VHOST)
    copy = pickle.loads(pickle.dumps(router))  # noqa: S301  # our own bytes
    assert outcomes(copy, batch) == outcomes(router, batch)
