"""The engine: a topology compiled to arrays, and whole Arrow batches routed through it.

    router = Router.compile(topology, "/")
    deliveries = router.route(batch, clock_ms=0)
    router.queues[deliveries.queue[0]], deliveries.rows_of(deliveries.queue[0])

The streaming job, replay, the API's dry runs and the tests all call this one. docs/routing.md states the
rules; `bindery.router.reference` applies the same rules to one message at a time, slowly, to check it.
"""

from __future__ import annotations

from bindery.router.engine.result import DISPOSITIONS, REASONS, Compared, Counts, Deliveries, Forms, Unroutable, Work
from bindery.router.engine.router import Router
from bindery.router.engine.side_by_side import CanaryRouter

__all__ = [
    "DISPOSITIONS",
    "REASONS",
    "CanaryRouter",
    "Compared",
    "Counts",
    "Deliveries",
    "Forms",
    "Router",
    "Unroutable",
    "Work",
]
