"""The statements that register a data directory in a catalog, made of its newest topology and of what its files hold.

Made again after the topology has changed, or once there are new headers, they bring a catalog up to date. They know the
data directory and not the catalog: what `prune` drops are queues whose tables are still there although nobody declares
them any more (the folder of a deleted queue stays).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa

from bindery.analytics.catalog.dialects import Athena, Dialect, DuckDb, Relation, SparkSql
from bindery.analytics.flat import FlatColumn
from bindery.analytics.point import ReadPoint, journals_of
from bindery.analytics.tables import Notice, journal_columns, queue_columns, silent, unroutable_columns
from bindery.router.error_text import counted
from bindery.router.errors import InvalidInput
from bindery.router.links import Alternate, Link, Links
from bindery.router.model import Divert
from bindery.router.spelling import did_you_mean, nearest
from bindery.store import tables
from bindery.store.deferred.lateness import Lateness
from bindery.store.descriptions import columns_of, description_of
from bindery.store.manifest import MANIFEST
from bindery.store.paths import DataDir
from bindery.store.places import at, hadoop_address
from bindery.store.topology import TOPOLOGY

#: Links that a comment names, headers that it names.
_NAMED: Final = 20
_PART: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
#: Where engines find a data directory: a URL or a path, of characters that every one of them reads alike.
_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)?/[A-Za-z0-9/._~+=@,:-]*")


@dataclass(frozen=True, slots=True)
class Catalog:
    """A kind of catalog: the engine that takes its statements, and what names in it look like.

    parts     of the name of a schema
    schemes   of addresses that the engine reads; None for any, and for paths
    """

    dialect: Dialect
    schema: str
    parts: int = 1
    schemes: frozenset[str] | None = None
    example: str = ""

    def address(self, root: str) -> str:
        """The address by which the engine finds a data directory, if nothing else is said."""
        if isinstance(self.dialect, SparkSql) and self.schemes is None:
            address = hadoop_address(root)
            return address if "://" in address else f"file://{address}"
        return root


_OBJECT_STORES: Final = frozenset(("s3", "s3a", "abfss", "gs"))
CATALOGS: Final[Mapping[str, Catalog]] = {
    "hive": Catalog(SparkSql(), "bindery"),
    "unity": Catalog(SparkSql(), "main.bindery", 2, _OBJECT_STORES, "s3://bucket/prefix"),
    "glue": Catalog(Athena(), "bindery", 1, frozenset(("s3",)), "s3://bucket/prefix"),
    "duckdb": Catalog(DuckDb(), "bindery"),
}


@dataclass(frozen=True, slots=True)
class Registration:
    """What is registered where: a vhost's queues, journals and unroutable messages, batches and the topology.

    `location` is where the engine finds the data directory if that is elsewhere than here; `prune` drops queues that
    are not declared any more. Raises InvalidInput for a catalog, schema or location that cannot be, NotFound for no
    vhost.
    """

    catalog: str
    vhost: str
    schema: str | None = None
    location: str | None = None
    prune: bool = False

    def statements(self, data: DataDir, *, notice: Notice = silent) -> Iterator[str]:
        """The statements in their order, without semicolons."""
        catalog = self._catalog()
        schema = self._schema(catalog)
        root = self._root(catalog, data)
        point = ReadPoint.of(data)
        links = Links(point.topology, self.vhost)
        dialect = catalog.dialect
        names = dialect.queue_names(list(links.queues))
        late = _late(data, point, self.vhost)
        if late:
            notice(
                f"{counted(len(late), 'queue')} of these {'is' if len(late) == 1 else 'are'} deferred: what tables "
                f"and views have is up to {max(late.values()):,} s late ({_listed(list(late), ', ')}); "
                "bindery sql and bindery.open have what waits, too"
            )
        yield dialect.make_schema(schema)
        for queue, name in names.items():
            columns = queue_columns(point, self.vhost, queue)
            about = _about_queue(links, queue, columns, point.topology.version, late.get(queue, 0))
            path = data.queue(self.vhost, queue)
            stored = _stored(tables.QUEUE, path)
            yield from dialect.make(schema, Relation(name, root + path.removeprefix(data.root), stored, columns, about))
        for relation in _journals(point, dialect, self.vhost, root, names.values()):
            yield from dialect.make(schema, relation)
        for relation in _own(point, dialect, self.vhost, root, notice):
            yield from dialect.make(schema, relation)
        if self.prune:
            kept = {name.casefold() for name in names.values()}
            for name in _gone(data, dialect, self.vhost, links.queues):
                if name.casefold() not in kept:
                    yield from dialect.drop(schema, name)

    def _catalog(self) -> Catalog:
        found = CATALOGS.get(self.catalog)
        if found is None:
            meant = nearest(self.catalog, CATALOGS)
            raise InvalidInput(
                f"there is no catalog {self.catalog!r}",
                where="--catalog",
                hint=did_you_mean(meant, ", ".join(CATALOGS)),
            )
        return found

    def _schema(self, catalog: Catalog) -> str:
        schema = catalog.schema if self.schema is None else self.schema
        parts = schema.split(".")
        if len(parts) != catalog.parts or not all(_PART.fullmatch(part) for part in parts):
            raise InvalidInput(
                f"{schema!r} is no name of a schema in {self.catalog}",
                where="--schema",
                hint=f"such as {catalog.schema}: letters, digits, _ and -",
            )
        return schema

    def _root(self, catalog: Catalog, data: DataDir) -> str:
        if self.location is not None and not _ADDRESS.fullmatch(self.location):
            raise InvalidInput(
                f"{self.location!r} is no address that every engine reads",
                where="--location",
                hint="a URL or an absolute path of letters, digits and . _ ~ + = @ , : -",
            )
        root = catalog.address(data.root) if self.location is None else self.location.rstrip("/")
        if catalog.schemes is not None and urlsplit(root).scheme not in catalog.schemes:
            raise InvalidInput(
                f"{self.catalog} does not read {root!r}",
                where="--location",
                hint=f"say where it finds the same data: --location {catalog.example}",
            )
        return root


def _stored(kind: tables.Kind, path: str) -> list[tuple[pa.Field, str]]:
    """The columns of a table with what they are about; an older table does not have all of its kind."""
    present = tables.open_log(path, kind).state.column_names
    return [(field, columns_of(kind.name)[field.name]) for field in kind.schema if field.name in present]


def _journals(point: ReadPoint, dialect: Dialect, vhost: str, root: str, queues: Iterable[str]) -> Iterator[Relation]:
    """The journals of streams that route the vhost."""
    kept = {
        stream: path
        for stream, path in sorted(journals_of(point.data).items())
        if tables.open_log(path, tables.JOURNAL).state.configuration.get("bindery.vhost") == vhost
    }
    for stream, name in dialect.journal_names(list(kept), queues).items():
        path = kept[stream]
        columns = journal_columns(point, stream, path)
        about = f"{description_of('journal', vhost=vhost, name=stream) or ''} {_headers(columns)}".strip()
        yield Relation(name, root + path.removeprefix(point.data.root), _stored(tables.JOURNAL, path), columns, about)


def _own(point: ReadPoint, dialect: Dialect, vhost: str, root: str, notice: Notice) -> Iterator[Relation]:
    """What is no queue; tables that are not there yet are left out."""
    data = point.data
    places = (
        (tables.UNROUTABLE, data.unroutable(vhost)),
        (MANIFEST, data.manifest),
        (TOPOLOGY, data.topology),
    )
    for kind, path in places:
        if not tables.exists(path):
            notice(f"{kind.name} is left out: there is no such table yet")
            continue
        columns = unroutable_columns(point, vhost) if kind is tables.UNROUTABLE else None
        about = " ".join([description_of(kind.name, vhost=vhost, name=None) or "", _headers(columns or ())]).rstrip()
        address = root + path.removeprefix(data.root)
        yield Relation(dialect.own_name(kind.name), address, _stored(kind, path), columns, about)


def _late(data: DataDir, point: ReadPoint, vhost: str) -> dict[str, int]:
    """The deferred queues of a vhost, each with the seconds that its table may be behind."""
    lateness = Lateness.of(data, point.topology, vhost)
    queues = (queue for (of, _), queue in point.topology.queues.items() if of == vhost)
    return {queue.name: seconds for queue in queues if (seconds := lateness.seconds(queue))}


def _about_queue(links: Links, queue: str, columns: Iterable[FlatColumn], version: int, late: int) -> str:
    ways = [_way(link) for link in links.entering("queue", queue)]
    parts = [
        description_of("queue", vhost=links.vhost, name=queue) or "",
        f"A deferred queue: messages come into its table up to {late:,} s late; bindery sql has them at once."
        if late
        else "",
        f"Fed by {_listed(ways)}.",
        _headers(columns),
        f"As of topology version {version}.",
    ]
    return " ".join(part for part in parts if part)


def _way(link: Link) -> str:
    source = f"exchange {link.source!r}" if link.source else "the default exchange"
    if isinstance(link, Alternate):
        return f"the {link.kind} of {source}"
    if isinstance(link, Divert):
        return f"divert {link.name!r} of {source}"
    criteria = "".join(f", {name} {value!r}" for name, value in link.arguments.items())
    number = f" (binding {link.id})" if link.source else ""
    return f"{source} with key {link.routing_key!r}{criteria}{number}"


def _headers(columns: Iterable[FlatColumn]) -> str:
    seen = [f"{one.ref.name} ({one.holds})" for one in columns if one.ref.section == "application_properties"]
    return f"Headers seen: {_listed(seen, ', ')}." if seen else ""


def _listed(texts: list[str], joint: str = "; ") -> str:
    more = len(texts) - _NAMED
    return joint.join(texts[:_NAMED]) + (f"{joint}and {more} more" if more > 0 else "")


def _gone(data: DataDir, dialect: Dialect, vhost: str, declared: Iterable[str]) -> list[str]:
    """What views may be called because of queues whose tables are there and that nobody declares."""
    known = set(declared)
    paths = {data.queue(vhost, name) for name in known}
    folder = data.queue(vhost, "").rstrip("/")
    gone: list[str] = []
    for name in at(folder).folders():
        path = f"{folder}/{name}"
        if path not in paths and tables.exists(path):
            stated = tables.open_log(path, tables.QUEUE, vhost=vhost).state.configuration.get("bindery.name")
            gone += [stated] if stated else []
    # beside names that differ by case alone, those that stay were called otherwise, too
    before = dialect.queue_names(sorted([*known, *gone]))
    return sorted({*before.values(), *dialect.queue_names(sorted(gone)).values()})
