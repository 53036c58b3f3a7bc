"""The rows of a queue's table, now or as they were, the table itself, and how to read it elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query, Request, Response
from pydantic import Field

from bindery.analytics.point import ReadPoint, TableAt
from bindery.analytics.row_pages import Cursor, RowPage, holds, page_of, queue_at, row_of
from bindery.analytics.snippets import Reading
from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.bodies import AtLeastOne, Count, LookBody, documented
from bindery.api.cells import cell, cells, shown_body
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import ManagementUser, NamePath, Plane, VhostPath, json_body, resource
from bindery.api.items import Document
from bindery.api.presence import while_present
from bindery.api.scope import readable_queue
from bindery.router.columns import BatchView
from bindery.router.errors import NotFound, UnsupportedTable
from bindery.router.explain.record import Link
from bindery.router.filters.dialect import DIALECTS, Dialect
from bindery.router.filters.lint import ObservedSchema
from bindery.router.filters.naming import name_in
from bindery.router.message import MAP_SECTIONS, MESSAGE_SCHEMA, SECTION_FIELDS, Message, from_batch
from bindery.router.model import Topology
from bindery.router.moments import iso
from bindery.store import past, read
from bindery.store.consumer_filters import queue_filter
from bindery.store.manifest import read_manifest
from bindery.store.past import LogAt
from bindery.store.read import RowId
from bindery.store.recorded import deferred_to, parse_row
from bindery.store.table_changes import MAINTENANCE, FileSizes, TableChange, columns_of, newest_changes

router = resource("rows", own=True)

_OF: Final = "/queues/{vhost:segment}/{name:segment}"
#: Rows of a page, and bytes of a body that it shows, at most.
MAX_ROWS: Final = 200
MAX_PREVIEW: Final = 4_096
#: Headers of a page that are columns, and characters of a value in one.
_COLUMNS: Final = 100
_CELL: Final = 200
#: Characters of a value where one row is shown, and of a routing key anywhere.
_WHOLE_CELL: Final = 20_000
#: Other queues in which copies of a row are looked for.
_QUEUES: Final = 20
#: Versions of a table that one answer lists at most, and among which its last maintenance is looked for.
MAX_CHANGES: Final = 500
_RECENT: Final = 200
#: Messages whose properties are looked at.
_SAMPLE: Final = 1_000
_EXAMPLE: Final = {"filter": "price > 100", "newest": True, "limit": 50}

TableVersion = Annotated[int | None, Query(description="a version of the queue's table; the newest by default", ge=0)]
At = Annotated[
    str | None,
    Query(
        description="the end of a batch (STREAM:BATCH) or a time in ISO 8601, UTC without a zone: every batch that had "
        "ended by then, and no other",
        examples=["orders:17"],
    ),
]


class AsOfBody(LookBody):
    """Which messages are meant, and as of when."""

    table_version: Annotated[Count, Field(ge=0)] | None = Field(None, description="a version of the queue's table")
    at: str | None = Field(None, description="the end of a batch (STREAM:BATCH), or a time in ISO 8601")


class RowsBody(AsOfBody):
    """A page of rows, and how much of a body is shown."""

    limit: Annotated[AtLeastOne, Field(le=MAX_ROWS)] = 50
    newest: bool = Field(False, description="from the last row on, instead of from the first")
    after: str | None = Field(None, description="the page behind a row: the `next` of another answer")
    before: str | None = Field(None, description="the page before a row: the `previous` of another answer")
    preview: Annotated[Count, Field(ge=0, le=MAX_PREVIEW)] = Field(200, description="bytes of a body that are shown")


@router.post(
    f"{_OF}/rows",
    summary="Show rows",
    response_model=Document,
    openapi_extra=documented(RowsBody, _EXAMPLE),
)
async def rows(
    request: Request,
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[RowsBody, json_body(RowsBody)],
) -> Response:
    """A page of the queue's rows: now, at a version of its table or the end of a batch; in row order or `newest` first.

    `columns` are the headers of these rows with the types of their values, the most frequent first, 100 at most. A
    value is its `type` and its `text`, with `length` where that is cut; a body its first bytes and how many there are.
    `previous` and `next` lead to the pages before and behind. Rows stay as they are. Of the rows that the queue `held`
    some may be `waiting` in a journal for its table; they are shown, too, but for a `table_version` or `live: false`.
    """

    def look(gone: Callable[[], bool]) -> dict[str, Any]:
        topology = plane.topology()
        readable_queue(topology, user, vhost, name)
        table, point = queue_at(
            plane.data, vhost, name, version=body.table_version, at=body.at, live=body.live, topology=topology
        )
        condition = queue_filter(
            plane.data,
            name,
            body.filter,
            vhost=vhost,
            dialect=body.dialect,
            payload=body.payload,
            topology=topology if point is None else point.topology,
        )
        found = page_of(
            table,
            limit=body.limit,
            condition=condition,
            newest=body.newest,
            after=None if body.after is None else Cursor.parse(body.after),
            before=None if body.before is None else Cursor.parse(body.before),
            preview=body.preview,
            stop=gone,
        )
        return _as_of(table, point) | _page(found)

    return answer(await while_present(request, look))


@router.get(f"{_OF}/rows/{{row:segment}}", summary="Show a row", response_model=Document)
def row(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    row: Annotated[str, Path(description='"stream:batch:number"', examples=["api:0:0"])],
    table_version: TableVersion = None,
    at: At = None,
    body: Annotated[int, Query(description="bytes of the body that are shown", ge=0)] = 65_536,
    encoding: Annotated[
        Literal["auto", "base64"], Query(description="of the body: as text where it is text, or base64")
    ] = "auto",
) -> Response:
    """One row with everything that is known of it: every section of the message, and how it came here.

    `bindings` are those that matched, as they stood in the version of the topology that routed it; `queues` the other
    queues that hold a copy now and that the caller may read, among the 20 first that its batch has written to.
    """
    topology = plane.topology()
    readable_queue(topology, user, vhost, name)
    identity = parse_row(row)
    table, point = queue_at(plane.data, vhost, name, version=table_version, at=at, topology=topology)
    found = row_of(table, identity, body)
    (message,) = from_batch(found.rows)
    routing, moment = found.rows["routing"][0].as_py(), found.rows["routed_at"][0].as_py()
    links = _links(plane, routing["topology_version"], routing["bindings"] or ())
    return answer(
        _as_of(table, point)
        | {
            "row": _identity(routing),
            "exchange": message.exchange,
            "routing_key": message.routing_key,
            "cc": list(message.cc),
            "mandatory": message.mandatory,
            "connection": message.connection,
            "sections": {
                section: cells(content, _WHOLE_CELL)
                for section in ("application_properties", "header", "properties", *MAP_SECTIONS)
                if (content := getattr(message, section))
            },
            "body": shown_body(message, found.body_bytes[0], as_base64=encoding == "base64"),
            "routed_at": None if moment is None else iso(moment, "milliseconds"),
            "stream": routing["stream"],
            "batch_id": routing["batch_id"],
            "seq": routing["seq"],
            "topology_version": routing["topology_version"],
            "source": _source(found.rows["source"][0].as_py()),
            "bindings": links,
            "queues": list(_copies(plane, user, topology, vhost, name, identity, links or ())),
        }
    )


@router.get(f"{_OF}/table", summary="Show a queue's table", response_model=Document)
def table(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    table_version: TableVersion = None,
    at: At = None,
) -> Response:
    """Where the table of the queue is, its columns with types and comments, its rows and files, its last maintenance.

    All of it stands in the table's log; no row is read. `versions` are those that can be asked for as `table_version`.
    """
    readable_queue(plane.topology(), user, vhost, name)
    found, point = queue_at(plane.data, vhost, name, version=table_version, at=at, live=False)
    state = LogAt(found.path, found.version).state
    known = past.versions_of(found.path)
    sizes = FileSizes.of(found.files)
    recent = newest_changes(found.path, _RECENT)
    kept = next((one for one in recent if one.change in MAINTENANCE), None)
    return answer(
        _as_of(found, point)
        | {
            "location": found.path,
            "table_id": found.table_id,
            "rows": sum(file.rows or 0 for file in found.files),
            "files": {
                "count": sizes.count,
                "bytes": sizes.bytes,
                "smallest": sizes.smallest,
                "median": sizes.median,
                "largest": sizes.largest,
            },
            "partition_columns": [],
            "columns": [{"name": one.name, "type": one.type, "comment": one.comment} for one in columns_of(state)],
            "properties": dict(sorted(state.configuration.items())),
            "versions": {"oldest": known[0], "newest": known[-1]},
            "maintenance": None if kept is None else _change(kept),
        }
    )


@router.get(f"{_OF}/table/changes", summary="List versions of a queue's table", response_model=Document)
def changes(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    count: Annotated[int, Query(description="versions to list", ge=1, le=MAX_CHANGES)] = 100,
    before: Annotated[int | None, Query(description="only versions below this one", ge=0)] = None,
) -> Response:
    """What has happened to the queue's table, the newest version first: batches, gets, purges, moves, maintenance.

    `added` counts the rows of a change that only appended; the messages that came are those. The log is read, no row.
    """
    readable_queue(plane.topology(), user, vhost, name)
    path = queue_at(plane.data, vhost, name, live=False)[0].path
    known = past.versions_of(path)
    found = newest_changes(path, count, before=before)
    versions = {"oldest": known[0], "newest": known[-1]}
    return answer({"versions": versions, "changes": [_change(one) for one in found]})


@router.get(f"{_OF}/properties", summary="List properties of messages", response_model=Document)
def properties(plane: Plane, user: ManagementUser, vhost: VhostPath, name: NamePath) -> Response:
    """What filters may name: properties of the queue's first 1,000 messages with the families of their values.

    `names` has how each filter language writes them (null where it cannot), `fields` what each calls the fields that
    every message has, and `keywords` its reserved words: for the completion of filters.
    """
    readable_queue(plane.topology(), user, vhost, name)
    found = read.browse(plane.data, name, vhost=vhost, limit=_SAMPLE).select(MESSAGE_SCHEMA.names)
    batch = next(iter(found.combine_chunks().to_batches()), None)
    seen = ObservedSchema(0, {}) if batch is None else ObservedSchema.of(BatchView(batch))
    held = [(ref, families) for ref, families in seen.families.items() if ref.section in MAP_SECTIONS]
    held.sort(key=lambda one: (-sum(one[1].values()), one[0].name))
    return answer(
        {
            "messages": seen.messages,
            "properties": [
                {
                    "name": ref.name,
                    "section": ref.section,
                    "families": dict(families),
                    "names": {name: name_in(name, ref) for name in DIALECTS},
                }
                for ref, families in held[:_SAMPLE]
            ],
            "fields": {name: _fields(dialect) for name, dialect in DIALECTS.items()},
            "keywords": {name: sorted(dialect.keywords) for name, dialect in DIALECTS.items()},
        }
    )


@router.post(
    f"{_OF}/snippets",
    summary="How to read a queue",
    response_model=Document,
    openapi_extra=documented(AsOfBody, {"filter": "price > 100", "dialect": "jms"}),
)
def snippets(
    request: Request,
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[AsOfBody, json_body(AsOfBody)],
) -> Response:
    """Texts that read the queue in Spark SQL, PySpark, polars, DuckDB, Python, a shell and curl: ready to be pasted.

    They say the filter and the version, batch or time, too; `note` what a language cannot say.
    """
    topology = plane.topology()
    readable_queue(topology, user, vhost, name)
    queue_filter(
        plane.data, name, body.filter, vhost=vhost, dialect=body.dialect, payload=body.payload, topology=topology
    )
    found, _ = queue_at(plane.data, vhost, name, version=body.table_version, at=body.at, live=False)
    reading = Reading(
        data=plane.data,
        topology=topology,
        vhost=vhost,
        name=name,
        table=found,
        filter=body.filter,
        dialect=body.dialect,
        payload=body.payload,
        version=body.table_version,
        at=body.at,
        url=str(request.base_url).rstrip("/"),
        user=user.name,
    )
    return answer({"location": found.path, "snippets": [one.as_data() for one in reading.snippets()]})


def _as_of(table: TableAt, point: ReadPoint | None) -> dict[str, Any]:
    """Which state of the table is shown; `moment` is that of a point."""
    moment = None if point is None else point.moment
    return {"table_version": table.version, "moment": None if moment is None else _from_ms(moment)}


def _from_ms(milliseconds: int) -> str:
    return iso(datetime.fromtimestamp(milliseconds / 1000, UTC), "milliseconds")


def _change(one: TableChange) -> dict[str, Any]:
    return {
        "version": one.version,
        "committed_at": _from_ms(one.committed_ms),
        "change": one.change,
        "stream": one.stream,
        "batch_id": one.batch_id,
        "added": one.added,
    }


def _identity(routing: Mapping[str, Any]) -> str:
    return f"{routing['stream']}:{routing['batch_id']}:{routing['seq']}"


def _source(stated: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (stated or {}).items() if value is not None}


def _page(found: RowPage) -> dict[str, Any]:
    messages = from_batch(found.rows)
    times = found.rows["routed_at"].to_pylist()
    frequent: Counter[str] = Counter(name for one in messages for name in one.application_properties)
    listed = sorted(frequent, key=lambda name: (-frequent[name], name))[:_COLUMNS]
    types: dict[str, set[str]] = {name: set() for name in listed}
    items = []
    for message, size, moment, routing, source in zip(
        messages,
        found.body_bytes,
        times,
        found.rows["routing"].to_pylist(),
        found.rows["source"].to_pylist(),
        strict=True,
    ):
        headers = {
            name: cell(message.application_properties[name], _CELL)
            for name in listed
            if name in message.application_properties
        }
        for name, value in headers.items():
            types[name].add(value["type"])
        shown = shown_body(message, size, as_base64=False)
        items.append(
            {
                "row": _identity(routing),
                "routed_at": None if moment is None else iso(moment, "milliseconds"),
                "exchange": message.exchange,
                "routing_key": message.routing_key[:_WHOLE_CELL],
                "headers": headers,
                "further_headers": len(message.application_properties) - len(headers),
                "properties": cells(_stated(message), _CELL),
                "body": shown | {"text": shown["text"][:MAX_PREVIEW]},
                "topology_version": routing["topology_version"],
                "bindings": routing["bindings"] or [],
                "source": _source(source),
            }
        )
    return {
        "held": found.held,
        "waiting": found.waiting,
        "previous": None if found.previous is None else str(found.previous),
        "next": None if found.next is None else str(found.next),
        "columns": [{"name": name, "types": sorted(types[name]), "rows": frequent[name]} for name in listed],
        "further_columns": len(frequent) - len(listed),
        "rows": items,
    }


def _stated(message: Message) -> dict[str, Any]:
    """The fields of the sections header and properties that a message states."""
    return {name: value for section in (message.header, message.properties) for name, value in section.items()}


def _links(plane: ControlPlane, version: int, ids: Iterable[int]) -> list[dict[str, Any]] | None:
    """The bindings and diverts of these ids as they stood in a version; None where that cannot be read any more."""
    try:
        then = plane.topologies.load(version=version)
    except (NotFound, UnsupportedTable):
        return None
    diverts = {divert.id: divert for divert in then.diverts.values()}
    found: list[dict[str, Any]] = []
    for number in ids:
        link = then.bindings.get(number) or diverts.get(number)
        found.append({"id": number, "kind": "default"} if link is None else Link.of(link).as_data())
    return found


def _copies(
    plane: ControlPlane,
    user: Identity,
    topology: Topology,
    vhost: str,
    name: str,
    row: RowId,
    links: Iterable[Mapping[str, Any]],
) -> Iterable[str]:
    """The other queues that hold a row: among those that its batch has written to, or its bindings lead to."""
    batches = read_manifest(plane.data, stream=row.stream, batch_id=row.batch_id)
    written = {
        one["name"] for batch in batches for one in batch["tables"] if (one["kind"], one["vhost"]) == ("queue", vhost)
    }
    led = {one["destination"] for one in links if one.get("destination_type") == "queue"}
    if written or any(one["kind"] == "journal" for batch in batches for one in batch["tables"]):
        written.update(deferred_to(plane.data, topology, vhost, row) or ())
    others = sorted(one for one in (written or led) if one != name and (vhost, one) in topology.queues)
    readable = (one for one in others if user.may("read", vhost, one))
    for number, queue in enumerate(readable):
        if number == _QUEUES:
            break
        if holds(queue_at(plane.data, vhost, queue, topology=topology)[0], row):
            yield queue


def _fields(dialect: Dialect) -> list[str]:
    """What a language calls the fields that every message has."""
    sections = [f"{section}.{name}" for section, names in SECTION_FIELDS.items() for name in names]
    return sorted([*dialect.names, *(sections if dialect.sections else [])])
