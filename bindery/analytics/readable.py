"""A table of routed messages as whichever kind of table a program asks for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bindery.analytics.point import At, ReadPoint
from bindery.analytics.rows import Rows, microseconds
from bindery.router.errors import InvalidInput
from bindery.router.filters import Filter
from bindery.router.moments import in_utc, read_iso
from bindery.store.consumer_filters import ConsumerFilter
from bindery.store.paths import DataDir
from bindery.store.row_order import ORDER_COLUMNS, in_order

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession


class Readable(ABC):
    """Messages as a table of Arrow, polars, pandas, DuckDB or Spark; nothing is taken from where they stand.

    What all of them take: `filter`, a consumer's (text in `dialect`, or a filter set); `payload`, what the bodies are
    that it looks into where nothing declares it; `flat`, whether headers and properties are columns, as in SQL;
    `columns`, the names of those that are wanted; `since`, the oldest time of routing (a datetime, or ISO text; UTC
    unless it says otherwise); `at`, a point. All of them raise NotFound for a column or point that there is not,
    FilterError for a bad filter.
    """

    __slots__ = ()
    _data: DataDir
    _point: ReadPoint | None

    @abstractmethod
    def _condition(
        self, point: ReadPoint, filter: ConsumerFilter | None, dialect: str, payload: str | None
    ) -> Filter | None:
        """The parsed filter, which knows what the bodies are that it looks into."""

    @abstractmethod
    def _at(self, point: ReadPoint, *, flat: bool, condition: Filter | None, since: int | None) -> Rows:
        """The rows at a point, as `Rows` takes the rest."""

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
        from bindery.analytics.spark import new_session, rows_frame  # noqa: PLC0415  # Spark: nothing else needs it

        rows = self._rows(filter, dialect, payload, flat, since, at)
        rows.check(columns)
        return rows_frame(session or new_session(self._data), rows, columns)

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
            raise InvalidInput("what is of a snapshot has its point already", where="at", hint="take another snapshot")
        point = self._point or ReadPoint.of(self._data, at)
        condition = self._condition(point, filter, dialect, payload)
        oldest = None if since is None else microseconds(_time(since))
        return self._at(point, flat=flat, condition=condition, since=oldest)


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
