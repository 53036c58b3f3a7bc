"""Routing inside a user's own Spark program: a DataFrame with the outcome of each row, and no table written.

What routes is what a job's tasks run: the same mapping, fold and compiled topology. It runs as an Arrow UDF over the
mapped columns alone, so that all other columns stay in Spark, whatever their types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame, functions
from pyspark.sql.pandas.types import from_arrow_schema

from bindery.jobs.control.config import job_of_mapping
from bindery.jobs.fold import Fold
from bindery.jobs.mapping import BATCH_TIME, mapped
from bindery.jobs.routers import compile_kernels
from bindery.jobs.session import guard, require_classic
from bindery.jobs.shipping import shipped_column
from bindery.jobs.sources.records import Records
from bindery.router.engine import DISPOSITIONS, REASONS, Deliveries, Router
from bindery.router.errors import InvalidInput
from bindery.router.model import Binding, Divert, Topology, implicit_binding
from bindery.store.writer import SEQ, disposition_of_refused

_LINK: Final = pa.struct(
    [
        ("id", pa.int64()),
        ("source", pa.string()),
        ("destination", pa.string()),
        ("destination_type", pa.string()),
        ("routing_key", pa.string()),
    ]
)
#: The columns that a routed frame has beside its own.
OUTCOME: Final = pa.schema(
    [
        ("queues", pa.list_(pa.string())),
        ("bindings", pa.list_(_LINK)),
        ("reason", pa.string()),
        ("disposition", pa.string()),
        ("detail", pa.string()),
    ]
)
_ROW: Final = "__row"
_OUTCOME: Final = "__outcome"

Ints = npt.NDArray[np.int64]


def routed(frame: DataFrame, topology: Topology, message: Mapping[str, Any] | None, vhost: str) -> DataFrame:
    """The frame with the columns of OUTCOME; `message` is the mapping of a job file.

    Raises InvalidInput for a mapping that does not fit the frame, for a frame that has such columns already and for a
    session of Spark Connect, NotFound for no such vhost.
    """
    session = frame.sparkSession
    require_classic(session)
    taken = {name.lower() for name in frame.columns}.intersection(OUTCOME.names)
    if taken:
        raise InvalidInput(
            f"the frame has the column {min(taken)!r}, which its outcome is to have",
            where="route",
            hint=f'frame.withColumnRenamed("{min(taken)}", …), or frame.drop',
        )
    file = job_of_mapping(message or {})
    projection, fold = mapped(Records(frame, tuple(frame.columns), {}), file)
    guard(session)
    routes = Routes.of(topology, vhost)
    compile_kernels(routes.router, topology)
    rows = functions.struct("*").alias(_ROW)
    inputs = replace(projection, selected=(rows, *projection.selected))(frame, functions.current_timestamp())
    names = [name for name in inputs.columns if name != _ROW]
    # what is not deterministic is computed once, wherever Spark moves filters on the outcome
    outcome = shipped_column(
        RouteRows(tuple(names), fold, session.sparkContext.broadcast(routes)),
        from_arrow_schema(OUTCOME),
    ).asNondeterministic()
    found = inputs.select(_ROW, outcome(*names, functions.current_timestamp()).alias(_OUTCOME))
    given = found.select(f"{_ROW}.*", f"{_OUTCOME}.*")
    return given.drop(BATCH_TIME) if projection.clocked else given


@dataclass(frozen=True, slots=True)
class Routes:
    """A compiled topology with what its lineage ids stand for; broadcast once.

    ids    int64[k]   ids of bindings and diverts, ascending; the first is that of the default exchange's own ones
    links  struct[k]  what they are
    """

    router: Router
    ids: Ints
    links: pa.StructArray

    @classmethod
    def of(cls, topology: Topology, vhost: str) -> Routes:
        """Compile a vhost; raises NotFound when there is none of that name."""
        router = Router.compile(topology, vhost)
        _, _, bindings, diverts = topology.in_vhost(vhost)
        declared: list[Binding | Divert] = [*bindings, *diverts]
        found = sorted(declared, key=lambda link: link.id)
        default = implicit_binding(vhost, "")
        rows: list[dict[str, Any] | None] = [
            {"id": default.id, "source": default.source, "destination_type": default.destination_type}
        ]
        rows += [{member.name: getattr(link, member.name) for member in _LINK} for link in found]
        ids = np.array([default.id, *(link.id for link in found)], np.int64)
        return cls(router, ids, pa.array(rows, _LINK))

    def links_of(self, ids: pa.Array) -> pa.Array:
        """The links behind lineage ids, all of which the compiled topology has."""
        return self.links.take(pa.array(np.searchsorted(self.ids, ids.to_numpy())))


@dataclass(frozen=True, slots=True)
class RouteRows:
    """The function of the Arrow UDF: the mapped columns and a clock in, one struct of OUTCOME for each row out."""

    names: tuple[str, ...]
    fold: Fold
    routes: Broadcast[Routes]

    def __call__(self, batches: Iterator[Sequence[pa.Array]]) -> Iterator[pa.Array]:
        """Route every batch of the partition."""
        routes = self.routes.value
        for *columns, clock in batches:
            yield self.outcome(pa.RecordBatch.from_arrays(columns, names=list(self.names)), clock, routes)

    def outcome(self, batch: pa.RecordBatch, clock: pa.Array, routes: Routes) -> pa.StructArray:
        """The outcome of each record of a batch; `clock` has one time, in every row."""
        rows = batch.num_rows
        clock_ms = pc.cast(clock, pa.int64())[0].as_py() // 1000 if rows else 0
        messages, refused = self.fold(batch, pa.array(np.arange(rows)), clock_ms=clock_ms)
        places = messages.column(SEQ).to_numpy()
        deliveries = routes.router.route(messages, clock_ms=clock_ms)
        reason = np.full(rows, None, object)
        disposition, detail = reason.copy(), reason.copy()
        for lost in (deliveries.unroutable, deliveries.incomplete):
            at = places[lost.rows]
            reason[at] = _REASONS[lost.reason]
            disposition[at] = _DISPOSITIONS[lost.disposition]
            detail[at] = lost.detail
        if refused is not None:
            at = refused.batch.column(SEQ).to_numpy()
            reason[at] = refused.reason.to_pylist()
            disposition[at] = disposition_of_refused(refused.batch).to_pylist()
            detail[at] = refused.detail.to_pylist()
        arrays = [
            _queues(deliveries, places, rows, routes.router.queues),
            _bindings(deliveries, places, rows, routes),
            *(pa.array(told, pa.string()) for told in (reason, disposition, detail)),
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(OUTCOME))


_REASONS: Final = np.array(REASONS, object)
_DISPOSITIONS: Final = np.array(DISPOSITIONS, object)


def _queues(deliveries: Deliveries, places: Ints, rows: int, names: Sequence[str]) -> pa.ListArray:
    """The names of the queues of each record, in order; none for one that reached none."""
    owners = places[deliveries.rows]
    numbers = np.repeat(deliveries.queue, np.diff(deliveries.offsets))
    order = np.lexsort((numbers, owners))
    if deliveries.forms is not None:  # a queue that gets several forms is named once
        pairs = owners[order] * len(names) + numbers[order]
        order = order[np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]]
        owners = owners[order]
    found = pa.array(names, pa.string()).take(pa.array(numbers[order]))
    return pa.ListArray.from_arrays(_offsets(np.bincount(owners, minlength=rows)), found)


def _bindings(deliveries: Deliveries, places: Ints, rows: int, routes: Routes) -> pa.ListArray:
    """The bindings and diverts that each record matched on its way, by id."""
    lengths = np.zeros(rows, np.int64)
    lengths[places] = np.diff(deliveries.lineage.offsets.to_numpy())
    links = routes.links_of(deliveries.lineage.flatten())
    return pa.ListArray.from_arrays(_offsets(lengths), links, type=OUTCOME.field("bindings").type)


def _offsets(lengths: Ints) -> pa.Array:
    return pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
