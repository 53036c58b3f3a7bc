"""Explain: what a message met on its way, and why it did not come to a queue.

    explainer = Explainer(topology, "/")
    explanation, = explainer.explain(to_batch([message]), clock_ms=0, queues=["late"])

The message is routed by the engine itself; the explanation reads the walk that the engine made
(`Router.walk`). Sub-expressions of filters are judged by the reference evaluator, which the engine is
checked against.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from bindery.router.engine import DISPOSITIONS, REASONS, Deliveries, Router
from bindery.router.engine.assemble import assemble
from bindery.router.explain.record import (
    Cause,
    Change,
    Culprit,
    Explanation,
    FilterVerdict,
    Form,
    Link,
    Step,
    Visit,
    WhyNot,
)
from bindery.router.explain.trace import Tracer
from bindery.router.explain.why_not import why_not
from bindery.router.links import Links
from bindery.router.message import MESSAGE_SCHEMA, Message, from_batch
from bindery.router.model import Topology

__all__ = [
    "Cause",
    "Change",
    "Culprit",
    "Explainer",
    "Explanation",
    "FilterVerdict",
    "Form",
    "Link",
    "Step",
    "Visit",
    "WhyNot",
]


class Explainer:
    """Explains messages under one topology; compiles it once."""

    def __init__(self, topology: Topology, vhost: str, *, router: Router | None = None) -> None:
        self._topology = topology
        self._router = Router.compile(topology, vhost) if router is None else router
        self._links = Links(topology, vhost)

    @property
    def router(self) -> Router:
        """The engine that explanations come from."""
        return self._router

    def reached(self, batch: pa.RecordBatch, *, clock_ms: int) -> list[frozenset[str]]:
        """The queues that each message of a batch comes to."""
        deliveries = self._router.route(batch, clock_ms=clock_ms)
        found: list[set[str]] = [set() for _ in range(batch.num_rows)]
        for place, queue in enumerate(deliveries.queue.tolist()):
            for row in deliveries.rows[deliveries.offsets[place] : deliveries.offsets[place + 1]].tolist():
                found[row].add(self._router.queues[queue])
        return [frozenset(queues) for queues in found]

    def explain(
        self,
        batch: pa.RecordBatch,
        *,
        clock_ms: int,
        queues: Iterable[str] = (),
        rows: Sequence[int] | None = None,
        detailed: bool = False,
    ) -> list[Explanation]:
        """The explanation of each message of a batch (or of the given rows), in order.

        `queues` are those about which "why not" is asked; `detailed` is with the value of every part of each filter,
        and with bindings that did not match. Raises NotFound for a queue that does not exist.
        """
        asked = [self._topology.queue(self._router.vhost, name).name for name in queues]
        walk, _, exchange = self._router.walk(batch, clock_ms=clock_ms)
        deliveries = assemble(walk, batch, exchange)
        tracer = Tracer(self._links, self._router, walk, walk.view, detailed=detailed)
        queue_of = np.repeat(deliveries.queue, np.diff(deliveries.offsets))
        lineage = deliveries.lineage.to_pylist()
        unroutable = {row: place for place, row in enumerate(deliveries.unroutable.rows.tolist())}
        whole = batch.select(MESSAGE_SCHEMA.names)
        forms_of = [] if deliveries.forms is None else from_batch(deliveries.forms.behind(whole))
        found = []
        for row in range(batch.num_rows) if rows is None else rows:
            trace = tracer.row(row)
            reached = {self._router.queues[number] for number in queue_of[deliveries.rows == row].tolist()}
            place = unroutable.get(row)
            lost = deliveries.unroutable
            found.append(
                Explanation(
                    vhost=self._router.vhost,
                    topology_version=self._router.version,
                    queues=tuple(sorted(reached)),
                    reason=None if place is None else REASONS[lost.reason[place]],
                    disposition=None if place is None else DISPOSITIONS[lost.disposition[place]],
                    detail=None if place is None else lost.detail[place],
                    recorded=place is None or bool(lost.recorded[place]),
                    lineage=tuple(lineage[row]),
                    visits=trace.visits,
                    why_not=tuple(why_not(name, trace, reached=name in reached) for name in asked),
                    forms=self._forms(deliveries, forms_of, row, batch.num_rows),
                )
            )
        return found

    def _forms(self, deliveries: Deliveries, messages: Sequence[Message], row: int, rows: int) -> tuple[Form, ...]:
        """The forms in which queues get a message of a batch; `messages` are those of the batch and, behind, forms."""
        forms = deliveries.forms
        if forms is None:
            return ()
        queue_of = np.repeat(deliveries.queue, np.diff(deliveries.offsets))
        return tuple(
            Form(
                int(forms.number[place]),
                tuple(self._router.queues[queue] for queue in queue_of[deliveries.written == rows + place].tolist()),
                messages[rows + place],
            )
            for place in np.flatnonzero(forms.message == row).tolist()
        )
