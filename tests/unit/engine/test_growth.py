"""What `make bench-growth` measures in time, counted: steps that must not grow with what does not concern a message."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.bench_growth import RANGES, TILES, WITHOUT_KEY, ManyQueues, priced
from benchmarks.bench_match import COMPARISONS, OF_CUSTOMER, QueueFilters, one_exchange, published
from bindery.router.columns import BatchView, Ref
from bindery.router.engine import Router, Work
from bindery.router.filters import FilterGroups, parse
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_VHOST
from bindery.router.values import Table

_FEW, _MANY, _ROWS = 100, 1_000, 200


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_message_takes_the_same_steps_through_many_bindings_as_through_few(name: str) -> None:
    case = COMPARISONS[name]
    batch = published(case.message, used=_FEW, rows=_ROWS)
    few, many = (
        Router.compile(case.topology(count), DEFAULT_VHOST).route(batch, clock_ms=0) for count in (_FEW, _MANY)
    )
    assert len(few.rows) == len(many.rows) >= _ROWS
    assert many.counts.work == few.counts.work


def test_queues_behind_one_binding_key_are_asked_together_and_filters_that_no_value_leads_to_are_not_evaluated() -> (
    None
):
    case = QueueFilters(OF_CUSTOMER)
    batch = published(case.message, used=_FEW, rows=_ROWS)
    for count in (_FEW, _MANY):
        found = Router.compile(case.topology(count), DEFAULT_VHOST).route(batch, clock_ms=0)
        assert len(found.rows) == _ROWS
        assert found.counts.work == Work(states=_ROWS, filter_pairs=_ROWS, candidates=_ROWS)
        assert len(found.lineage.flatten()) == _ROWS * count  # every binding matched, whatever the queues said


@pytest.mark.parametrize("name", TILES)
def test_ranges_side_by_side_are_looked_at_where_the_value_lies(name: str) -> None:
    groups = FilterGroups([[parse(RANGES[name](n, 10.0), "jms") for n in range(_MANY)]])
    looked_at = groups.candidates(BatchView(priced(_ROWS)), np.arange(_ROWS), np.zeros(_ROWS, np.int32))
    assert _ROWS <= looked_at <= 2 * _ROWS


@pytest.mark.parametrize("name", WITHOUT_KEY)
def test_of_filters_that_ask_for_no_value_those_that_accept_are_looked_at(name: str) -> None:
    make, _ = WITHOUT_KEY[name]
    batch = to_batch(
        Message(properties={"subject": f"a.w{n}.b"}, application_properties=Table({"type": f"T{n}", f"x{n}": 1}))
        for n in range(20)
    )
    view, rows, group = BatchView(batch), np.arange(20), np.zeros(20, np.int32)
    groups = FilterGroups([[make(n) for n in range(_MANY)]])
    accepted = len(groups.select(view, rows, group).pair)
    assert accepted == (20 if name in ("x IS NOT NULL", "#.word.#") else 20 * (_MANY - 1))
    assert groups.candidates(view, rows, group) <= 1.01 * accepted


def test_a_routing_key_is_walked_once_however_many_messages_have_it_and_as_far_as_it_is_long() -> None:
    router = Router.compile(one_exchange("topic", ((f"w{n}.*.#", {}) for n in range(50))), DEFAULT_VHOST)

    def visits(distinct: int, rows: int) -> int:
        batch = published(lambda n: Message(exchange="x", routing_key=f"w{n % 50}.{n}.x"), used=distinct, rows=rows)
        return router.route(batch, clock_ms=0).counts.work.node_visits

    few = visits(50, 1_000)
    assert visits(50, 4_000) == few > 0
    assert visits(1_000, 4_000) <= 20 * few


@pytest.mark.parametrize("deferred", [False, True])
def test_a_batch_writes_a_file_for_each_queue_that_it_reaches_and_one_for_all_that_are_deferred(
    tmp_path: Path, deferred: bool
) -> None:
    for count, rows in ((3, 40), (40, 40), (40, 10)):
        queues = ManyQueues(tmp_path / f"{count}-{rows}", count, rows, deferred=deferred)
        queues.batch()
        assert queues.files == (1 if deferred else min(count, rows + 1))


def test_properties_that_no_filter_names_and_bodies_are_not_looked_at() -> None:
    selector = {"x-filter-jms-selector": "p7 > 1 AND p8 = 8"}
    router = Router.compile(one_exchange("fanout", iter([("", selector), ("", {})])), DEFAULT_VHOST)
    properties = {f"p{n}": n for n in range(500)}
    batch = to_batch([Message(exchange="x", application_properties=Table(properties), body=bytes(1 << 20))])
    walk, _, _ = router.walk(batch, clock_ms=0)
    assert walk.screening.bodies.parsed == 0
    names = [f"p{n}" for n in range(500)]
    assert [name for name in names if walk.view.derived(Ref("application_properties", name))] == ["p7", "p8"]
