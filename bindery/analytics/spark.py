"""Queues and journals as DataFrames of Spark, at a point and with flat columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from bindery.analytics.flat import FlatColumn, flattened
from bindery.analytics.rows import Rows
from bindery.jobs.control.connectors import connectors
from bindery.jobs.fold import conformed
from bindery.jobs.read import accepted_frame
from bindery.jobs.session import build_session, require_classic
from bindery.jobs.shipping import shipped
from bindery.jobs.sink import BinderySource
from bindery.router.message import MESSAGE_SCHEMA
from bindery.store.paths import DataDir


def new_session(data: DataDir | None = None) -> SparkSession:
    """The session that is there, or a new local one, set up for Delta and for the place of a data directory."""
    session = SparkSession.getActiveSession() or build_session(
        "bindery", needs=() if data is None else connectors((data.root,))
    )
    register_format(session)
    return session


def register_format(session: SparkSession) -> None:
    """Make the format `bindery` known to a session, unless it is. Raises InvalidInput for one of Spark Connect."""
    require_classic(session)
    known: Any = session._jsparkSession
    if not known.sessionState().dataSourceManager().dataSourceExists(BinderySource.name()):
        session.dataSource.register(BinderySource)


def rows_frame(session: SparkSession, rows: Rows, columns: Sequence[str] | None) -> DataFrame:
    """What `rows` are of their table, as a DataFrame."""
    frame = accepted_frame(session, rows.table.path, rows.condition, rows.table.version, rows.table.tail)
    for batches in rows.table.left_out:
        number = sf.col("routing.batch_id")
        held = (sf.col("routing.stream") == batches.stream) & (number > batches.after) & (number <= batches.last)
        frame = frame.where(~sf.coalesce(held, sf.lit(False)))
    if rows.since is not None:
        frame = frame.where(sf.col("routed_at") >= sf.timestamp_micros(sf.lit(rows.since)))
    if rows.flat:
        flat = tuple(rows.flat.values())
        kinds = from_arrow_schema(pa.schema([(column.name, column.type) for column in flat]))
        schema = StructType([*frame.schema.fields, *kinds.fields])
        frame = frame.mapInArrow(shipped(_Flattened(flat), gives_results=False), schema)
    if columns is None:
        return frame
    return frame.select(*("`" + column.replace("`", "``") + "`" for column in columns))


@dataclass(frozen=True, slots=True)
class _Flattened:
    """The function of `mapInArrow`."""

    columns: tuple[FlatColumn, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sections = dict.fromkeys(column.ref.section for column in self.columns)
        schema = pa.schema([MESSAGE_SCHEMA.field(name) for name in sections])
        for batch in batches:
            stored = [conformed(batch.column(field.name), field.type) for field in schema]
            arrays = flattened(pa.RecordBatch.from_arrays(stored, schema=schema), self.columns)
            names = [*batch.schema.names, *(column.name for column in self.columns)]
            yield pa.RecordBatch.from_arrays([*batch.columns, *arrays], names=names)
