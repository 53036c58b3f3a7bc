"""The router: one vhost of one topology version, compiled, and whole batches routed by it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bindery.router.columns import BatchView
from bindery.router.engine.alternates import fire_alternate_bindings
from bindery.router.engine.assemble import assemble
from bindery.router.engine.compile import Plan, compile_plan
from bindery.router.engine.filtering import Screening
from bindery.router.engine.forms import FormsWalk
from bindery.router.engine.published import exchange_numbers, read_key_sets
from bindery.router.engine.result import Deliveries
from bindery.router.engine.walk import Walk
from bindery.router.filters.bodies import Bodies
from bindery.router.matching.texts import Int32s
from bindery.router.model import Topology


class Router:
    """One vhost of one topology version, compiled. Picklable, and safe to use from several threads."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @classmethod
    def compile(cls, topology: Topology, vhost: str) -> Router:
        """Compile a vhost; raises NotFound when there is none of that name."""
        return cls(compile_plan(topology, vhost))

    @property
    def plan(self) -> Plan:
        """What was compiled."""
        return self._plan

    @property
    def vhost(self) -> str:
        """The name of the vhost."""
        return self._plan.vhost

    @property
    def version(self) -> int:
        """The topology version that was compiled."""
        return self._plan.version

    @property
    def queues(self) -> tuple[str, ...]:
        """Queue names; a queue number in results is a position in this tuple."""
        return self._plan.queues

    @property
    def queue_ids(self) -> Int32s:
        """The lineage ids of the queues, int32[q], by queue number."""
        return self._plan.queue_ids

    def route(self, batch: pa.RecordBatch, *, clock_ms: int) -> Deliveries:
        """Where every message of a batch goes.

        `batch` has the columns of MESSAGE_SCHEMA, and possibly more; `clock_ms` is what UTC() gives in
        filters. Nothing in a message raises: what cannot be routed is in `Deliveries.unroutable`, and what met a
        defect in a filter on its way to queues in `Deliveries.incomplete`. Memory or storage that give out do raise.
        """
        return assemble(*self.walk(batch, clock_ms=clock_ms))

    def walk(self, batch: pa.RecordBatch, *, clock_ms: int) -> tuple[Walk, pa.RecordBatch, Int32s]:
        """What `route` makes its result from: the finished walk, the batch, and where each message was published.

        For whoever shows how a result came about (`bindery.router.explain`).
        """
        plan = self._plan
        view = BatchView(batch, clock_ms=clock_ms)
        exchange = exchange_numbers(batch, plan.exchanges.names)
        sets, key_set, replacement_sets = read_key_sets(batch, plan.replacement_keys)
        bodies = Bodies(view, plan.body_refs)
        kind = Walk if plan.changing is None else FormsWalk
        walk = kind(plan, view, sets, replacement_sets, Screening(plan.groups, view, bodies))
        rows = np.flatnonzero((exchange >= 0) & ~plan.exchanges.internal[exchange]).astype(np.int32)
        rows = rows[np.argsort(exchange[rows], kind="stable")]
        walk.start(rows, exchange[rows], key_set[rows])
        if plan.has_alternate_bindings:
            fire_alternate_bindings(walk)
        return walk, batch, exchange
