"""What `make bench-growth` measures in time, counted: steps that must not grow with what does not concern a message."""

from __future__ import annotations

import pytest

from benchmarks.bench_match import COMPARISONS, OF_CUSTOMER, QueueFilters, published
from bindery.router.engine import Router, Work
from bindery.router.model import DEFAULT_VHOST

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
