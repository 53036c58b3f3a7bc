"""A data directory for programs: its queues as Arrow, polars, pandas, DuckDB and Spark, at any point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bindery.analytics.point import At, ReadPoint, require_queue
from bindery.analytics.rows import Rows, microseconds
from bindery.analytics.session import SqlSession
from bindery.analytics.tables import queue_rows
from bindery.router.errors import InvalidInput
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Topology
from bindery.router.moments import in_utc, read_iso
from bindery.store.consumer_filters import ConsumerFilter, queue_filter
from bindery.store.paths import DataDir
from bindery.store.row_order import ORDER_COLUMNS, in_order
from bindery.store.topology import TopologyStore

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession


def open(path: str | Path) -> Directory:
    """The data directory at a path or URL.

    Raises InvalidInput when there is none, Refused for a copy that is not whole yet.

    >>> late = bindery.open("data").queue("late").polars(filter="dep_delay > 60", flat=True)  # doctest: +SKIP
    """
    return Directory(DataDir.open(path))


class Directory:
    """A data directory. Each call reads what is there at that moment, or at the point that it is given.

    A point (`at`) is the end of a batch ("STREAM:BATCH", or its number where one stream has it) or a time; `vhost`
    is "/" unless another one is named.
    """

    def __init__(self, data: DataDir) -> None:
        self._data = data

    def __repr__(self) -> str:
        return f"bindery.open({self._data.root!r})"

    @property
    def path(self) -> str:
        """Its absolute path, or its URL."""
        return self._data.root

    @property
    def topology(self) -> Topology:
        """The newest topology; treat it as read-only."""
        return TopologyStore(self._data).load()

    def queues(self, vhost: str = DEFAULT_VHOST) -> list[str]:
        """The names of the queues of a vhost, in order. Raises NotFound for no such vhost."""
        return _queues(self.topology, vhost)

    def queue(self, name: str, vhost: str = DEFAULT_VHOST) -> Queue:
        """A queue. Raises NotFound when there is none of that name."""
        require_queue(self.topology, vhost, name)
        return Queue(self._data, name, vhost)

    def snapshot(self, at: At | None = None) -> Snapshot:
        """All tables at one point, now by default. Raises NotFound for a point that cannot be read (any more)."""
        return Snapshot(ReadPoint.of(self._data, at))

    def sql(self, query: str, *, at: At | None = None, vhost: str = DEFAULT_VHOST) -> pa.Table:
        """The rows of a query, as `bindery sql` gives them. Raises InvalidInput for a wrong one, and without DuckDB."""
        return self.snapshot(at).sql(query, vhost=vhost)

    def explain(
        self, message: Mapping[str, Any] | Message, *, queues: Sequence[str] = (), vhost: str = DEFAULT_VHOST
    ) -> dict[str, Any]:
        """Where a message goes now, and why it does not come to `queues`: the data of `bindery explain --json`.

        `message` may be its JSON form. Raises InvalidRecord for what is no message.
        """
        from bindery.router.explain import Explainer  # noqa: PLC0415  # the engine, which reading does not need

        read = message if isinstance(message, Message) else Message.from_json(message)
        clock = int(datetime.now(UTC).timestamp() * 1000)
        (found,) = Explainer(self.topology, vhost).explain(to_batch([read]), clock_ms=clock, queues=queues)
        return dict(found.as_data())


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """All tables of a data directory at one point; of each batch they show all rows or none."""

    _point: ReadPoint

    def __repr__(self) -> str:
        return f"bindery.open({self._point.data.root!r}).snapshot()"

    @property
    def topology(self) -> Topology:
        """The topology of that point; treat it as read-only."""
        return self._point.topology

    def queues(self, vhost: str = DEFAULT_VHOST) -> list[str]:
        """The names of the queues of a vhost, in order. Raises NotFound for no such vhost."""
        return _queues(self.topology, vhost)

    def queue(self, name: str, vhost: str = DEFAULT_VHOST) -> Queue:
        """A queue at that point. Raises NotFound when there was none of that name."""
        require_queue(self.topology, vhost, name)
        return Queue(self._point.data, name, vhost, self._point)

    def sql(self, query: str, *, vhost: str = DEFAULT_VHOST) -> pa.Table:
        """The rows of a query. Raises InvalidInput for a wrong one, and without DuckDB."""
        with SqlSession(self._point, vhost) as session:
            rows = session.run(query)
            return pa.table({}) if rows is None else rows.read_all()


@dataclass(frozen=True, slots=True, repr=False)
class Queue:
    """A queue, as whichever kind of table is asked for; nothing is taken from it.

    What all of them take: `filter`, a consumer's (text in `dialect`, or a filter set); `payload`, what the bodies are
    that it looks into where the queue does not declare it; `flat`, whether headers and
    properties are columns, as in SQL; `columns`, the names of those that are wanted; `since`, the oldest time of
    routing (a datetime, or ISO text; UTC unless it says otherwise); `at`, a point. All of them raise NotFound for a
    column or point that there is not, FilterError for a bad filter.
    """

    _data: DataDir
    name: str
    vhost: str = DEFAULT_VHOST
    _point: ReadPoint | None = None

    def __repr__(self) -> str:
        of = "" if self._point is None else ".snapshot()"
        vhost = "" if self.vhost == DEFAULT_VHOST else f", vhost={self.vhost!r}"
        return f"bindery.open({self._data.root!r}){of}.queue({self.name!r}{vhost})"

    @property
    def path(self) -> str:
        """The absolute path, or the URL, of its Delta table, for whatever reads those."""
        return self._data.queue(self.vhost, self.name)

    def arrow(
        self,
        *,
        filter: ConsumerFilter | None = None,
        dialect: str = "jms",
        payload: str | None = None,
        flat: bool = False,
        columns: Sequence[str] | None = None,
        since: datetime | str | None = None,
        at: At | None = None,
    ) -> pa.Table:
        """The rows in row order, as an Arrow table."""
        rows = self._rows(filter, dialect, payload, flat, since, at)
        if columns is None:
            found = rows.read()
            return found.take(in_order(found))
        found = rows.read(list(dict.fromkeys([*columns, *ORDER_COLUMNS])))
        return found.take(in_order(found)).select(list(columns))

    def polars(
        self,
        *,
        filter: ConsumerFilter | None = None,
        dialect: str = "jms",
        payload: str | None = None,
        flat: bool = False,
        columns: Sequence[str] | None = None,
        since: datetime | str | None = None,
        at: At | None = None,
    ) -> pl.DataFrame:
        """The rows in row order, as a data frame of polars. Raises InvalidInput without it."""
        polars = _imported("polars")
        table = self.arrow(
            filter=filter, dialect=dialect, payload=payload, flat=flat, columns=columns, since=since, at=at
        )
        return polars.from_arrow(table)  # type: ignore[no-any-return]

    def pandas(
        self,
        *,
        filter: ConsumerFilter | None = None,
        dialect: str = "jms",
        payload: str | None = None,
        flat: bool = False,
        columns: Sequence[str] | None = None,
        since: datetime | str | None = None,
        at: At | None = None,
    ) -> pd.DataFrame:
        """The rows in row order, as a data frame of pandas."""
        table = self.arrow(
            filter=filter, dialect=dialect, payload=payload, flat=flat, columns=columns, since=since, at=at
        )
        return table.to_pandas()

    def duckdb(
        self,
        *,
        filter: ConsumerFilter | None = None,
        dialect: str = "jms",
        payload: str | None = None,
        flat: bool = False,
        columns: Sequence[str] | None = None,
        since: datetime | str | None = None,
        at: At | None = None,
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """The rows as a relation of DuckDB, read when they are asked for, in no order; of a connection, or a new one.

        Raises InvalidInput without DuckDB.
        """
        duckdb = _imported("duckdb")
        rows = self._rows(filter, dialect, payload, flat, since, at)
        rows.check(columns)
        used = connection or duckdb.connect(":memory:")
        rows.connection = used  # which would be closed if nobody held it
        relation = used.from_arrow(rows)
        if columns is None:
            return relation
        return relation.select(*(duckdb.ColumnExpression(name) for name in columns))

    def spark(
        self,
        session: SparkSession | None = None,
        *,
        filter: ConsumerFilter | None = None,
        dialect: str = "jms",
        payload: str | None = None,
        flat: bool = False,
        columns: Sequence[str] | None = None,
        since: datetime | str | None = None,
        at: At | None = None,
    ) -> DataFrame:
        """The rows as a DataFrame of Spark, in no order; of a session, or of that of `bindery.spark()`."""
        from bindery.analytics.spark import new_session, queue_frame  # noqa: PLC0415  # Spark: nothing else needs it

        rows = self._rows(filter, dialect, payload, flat, since, at)
        rows.check(columns)
        return queue_frame(session or new_session(self._data), self._data, self.name, self.vhost, rows, columns)

    def _rows(
        self,
        filter: ConsumerFilter | None,
        dialect: str,
        payload: str | None,
        flat: bool,
        since: datetime | str | None,
        at: At | None,
    ) -> Rows:
        if at is not None and self._point is not None:
            raise InvalidInput("a queue of a snapshot has its point already", where="at", hint="take another snapshot")
        point = self._point or ReadPoint.of(self._data, at)
        condition = queue_filter(
            self._data, self.name, filter, vhost=self.vhost, dialect=dialect, payload=payload, topology=point.topology
        )
        oldest = None if since is None else microseconds(_time(since))
        return queue_rows(point, self.vhost, self.name, flat=flat, condition=condition, since=oldest)


def _queues(topology: Topology, vhost: str) -> list[str]:
    return [queue.name for queue in topology.in_vhost(topology.vhost(vhost).name)[1]]


def _time(moment: datetime | str) -> datetime:
    try:
        return read_iso(moment) if isinstance(moment, str) else in_utc(moment)
    except ValueError:
        raise InvalidInput(f"{str(moment)[:80]!r} is no time", where="since", hint="2026-01-31T12:00:00") from None


def _imported(name: str) -> Any:
    import importlib  # noqa: PLC0415

    try:
        return importlib.import_module(name)
    except ImportError:
        raise InvalidInput(f"{name} is not installed", where=name, hint=f"pip install {name}") from None
