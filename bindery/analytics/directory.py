"""A data directory for programs: its queues and journals as Arrow, polars, pandas, DuckDB and Spark, at any point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from bindery.analytics.point import At, ReadPoint, journals_of, require_queue
from bindery.analytics.readable import Readable
from bindery.analytics.rows import Rows
from bindery.analytics.session import SqlSession
from bindery.analytics.tables import journal_rows, queue_rows
from bindery.router.errors import NotFound
from bindery.router.filters import Filter
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Topology
from bindery.router.spelling import did_you_mean, nearest
from bindery.store import tables
from bindery.store.consumer_filters import ConsumerFilter, consumer_filter, exchange_payload, queue_filter
from bindery.store.paths import DataDir
from bindery.store.topology import TopologyStore


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

    def queue(self, name: str, vhost: str = DEFAULT_VHOST, *, live: bool = True) -> Queue:
        """A queue; its table alone with `live=False`. Raises NotFound when there is none of that name."""
        require_queue(self.topology, vhost, name)
        return Queue(self._data, name, vhost, None, live)

    def journals(self) -> list[str]:
        """The names of the streams that keep a journal, or have kept one, in order."""
        return sorted(journals_of(self._data))

    def journal(self, stream: str) -> Journal:
        """The journal of a stream. Raises NotFound when it keeps none."""
        return _journal(self._data, stream)

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

    def queue(self, name: str, vhost: str = DEFAULT_VHOST, *, live: bool = True) -> Queue:
        """A queue at that point; its table alone with `live=False`. Raises NotFound when there was none."""
        require_queue(self.topology, vhost, name)
        return Queue(self._point.data, name, vhost, self._point, live)

    def journals(self) -> list[str]:
        """The names of the streams that keep a journal, or have kept one, in order."""
        return sorted(journals_of(self._point.data))

    def journal(self, stream: str) -> Journal:
        """The journal of a stream at that point. Raises NotFound when it keeps none."""
        return _journal(self._point.data, stream, self._point)

    def sql(self, query: str, *, vhost: str = DEFAULT_VHOST) -> pa.Table:
        """The rows of a query. Raises InvalidInput for a wrong one, and without DuckDB."""
        with SqlSession(self._point, vhost) as session:
            rows = session.run(query)
            return pa.table({}) if rows is None else rows.read_all()


@dataclass(frozen=True, slots=True, repr=False)
class Queue(Readable):
    """A queue, as whichever kind of table is asked for; nothing is taken from it.

    Bodies are what the queue declares, or else `payload`. What waits for a deferred queue in journals is in it, unless
    it was asked for with `live=False`.
    """

    _data: DataDir
    name: str
    vhost: str = DEFAULT_VHOST
    _point: ReadPoint | None = None
    _live: bool = True

    def __repr__(self) -> str:
        vhost = "" if self.vhost == DEFAULT_VHOST else f", vhost={self.vhost!r}"
        live = "" if self._live else ", live=False"
        return f"{_owner(self._data, self._point)}.queue({self.name!r}{vhost}{live})"

    @property
    def path(self) -> str:
        """The absolute path, or the URL, of its Delta table, for whatever reads those."""
        return self._data.queue(self.vhost, self.name)

    def _condition(
        self, point: ReadPoint, filter: ConsumerFilter | None, dialect: str, payload: str | None
    ) -> Filter | None:
        return queue_filter(
            self._data,
            self.name,
            filter,
            vhost=self.vhost,
            dialect=dialect,
            payload=payload,
            topology=point.topology,
        )

    def _at(self, point: ReadPoint, *, flat: bool, condition: Filter | None, since: int | None) -> Rows:
        seen = replace(point, live=self._live)
        return queue_rows(seen, self.vhost, self.name, flat=flat, condition=condition, since=since)


@dataclass(frozen=True, slots=True, repr=False)
class Journal(Readable):
    """The journal of a stream, as whichever kind of table is asked for: each message once, with what became of it.

    Bodies are what `payload` says: messages of all exchanges are in it.
    """

    _data: DataDir
    stream: str
    _point: ReadPoint | None = None

    def __repr__(self) -> str:
        return f"{_owner(self._data, self._point)}.journal({self.stream!r})"

    @property
    def path(self) -> str:
        """The absolute path, or the URL, of its Delta table, for whatever reads those."""
        return self._data.journal(self.stream)

    def _condition(
        self, point: ReadPoint, filter: ConsumerFilter | None, dialect: str, payload: str | None
    ) -> Filter | None:
        bodies = exchange_payload(point.topology, None, filter, vhost=DEFAULT_VHOST, payload=payload)
        return consumer_filter(filter, dialect=dialect, payload=bodies)

    def _at(self, point: ReadPoint, *, flat: bool, condition: Filter | None, since: int | None) -> Rows:
        return journal_rows(point, self.stream, self.path, flat=flat, condition=condition, since=since)


def _owner(data: DataDir, point: ReadPoint | None) -> str:
    return f"bindery.open({data.root!r})" + ("" if point is None else ".snapshot()")


def _journal(data: DataDir, stream: str, point: ReadPoint | None = None) -> Journal:
    path = data.journal(stream)
    if not tables.exists(path):
        meant = nearest(stream, journals_of(data))
        raise NotFound(f"stream {stream!r} keeps no journal", where="journal", hint=did_you_mean(meant) or None)
    return Journal(data, stream, point)


def _queues(topology: Topology, vhost: str) -> list[str]:
    return [queue.name for queue in topology.in_vhost(topology.vhost(vhost).name)[1]]
