"""Bulk ingestion into a vhost's inbox, which streaming jobs read as a source."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import pyarrow as pa
from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool

from bindery.api import inbox
from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.bodies import read_bytes
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import ManagementUser, Plane, VhostPath, resource
from bindery.api.errors import access_refused, bad_request, not_found
from bindery.api.items import Ingested
from bindery.router.model import Topology

router = resource("inbox", own=True)

#: Tags whose holders may state another user's id, as in the broker.
_MAY_IMPERSONATE: Final = frozenset({"impersonator", "administrator"})

_EXAMPLE: Final = {
    "exchange": "orders",
    "routing_key": "eu.new",
    "application_properties": {"price": 120, "at": {"timestamp": 1700000000000}},
    "body": "hello",
}
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-ndjson": {"schema": {"type": "string"}, "example": json.dumps(_EXAMPLE)},
            "application/vnd.apache.arrow.stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.post("/inbox/{vhost:segment}", summary="Ingest messages in bulk", response_model=Ingested, openapi_extra=_BODY)
async def ingest(plane: Plane, user: ManagementUser, request: Request, vhost: VhostPath) -> Response:
    """Append message records to the vhost's inbox in one commit, or none of them.

    Requests that wait at the same time share a commit, and then its version.

    One JSON message a line, or an Arrow IPC stream (by content type) with the columns of the message
    schema. Bad records are reported by line. The caller needs write permission on every exchange named, and
    a user id may only be the caller's own, unless they hold the tag `impersonator` or `administrator`.
    """
    user.require_sight(vhost)
    raw = await read_bytes(request, plane.settings.inbox_limit)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    records = await run_in_threadpool(_read, plane, user, vhost, raw, kind in inbox.ARROW_TYPES)
    if not records.num_rows:
        return answer({"records": 0})
    version = await asyncio.wrap_future(plane.inboxes.append(vhost, records, author=user.name))
    return answer({"records": records.num_rows, "version": version})


def _read(plane: ControlPlane, user: Identity, vhost: str, raw: bytes, is_arrow: bool) -> pa.Table:
    """The records of a body that the caller may publish; raises Refusal."""
    if vhost not in plane.topology().vhosts:
        raise not_found("vhost_not_found")
    try:
        records = inbox.read_arrow(raw) if is_arrow else inbox.read_ndjson(raw)
    except inbox.Rejected as error:
        first = error.problems[0]
        where = "" if first.where is None else f"{first.where}: "
        shown = f"line {first.line}: {where}{first.message}" if first.line else first.message
        raise bad_request(
            f"{shown}; nothing was stored",
            bad_records=error.total,
            problems=[problem.as_data() for problem in error.problems],
        ) from None
    _check(plane.topology(), user, vhost, records)
    return records


def _check(topology: Topology, user: Identity, vhost: str, records: pa.Table) -> None:
    """Refuse records that the caller could not publish one by one."""
    for exchange in inbox.exchanges_of(records):
        user.check("write", vhost, exchange)
        present = topology.exchanges.get((vhost, exchange))
        if (
            present is not None
            and present.type == "topic"
            and (vhost, user.name, exchange) in user.access.topic_permissions
        ):
            for key in inbox.keys_of(records, exchange):
                user.check_topic("write", vhost, exchange, key)
    forged = inbox.users_of(records) - {user.name.encode()}
    if forged and _MAY_IMPERSONATE.isdisjoint(user.user.tags):
        raise access_refused(f"user_id {min(forged).decode('utf-8', 'replace')!r} is not the caller's")
