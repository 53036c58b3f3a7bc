"""Unroutable messages: the most frequent reasons and keys, and another try under the present topology."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import Query, Request, Response
from pydantic import Field

from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.bodies import Flag, OwnBody, PayloadName, documented
from bindery.api.deps import ManagementUser, Plane, VhostPath, json_body, resource
from bindery.api.errors import bad_request
from bindery.api.items import Document
from bindery.api.presence import while_present
from bindery.api.scope import visible_vhost
from bindery.router.model import Topology
from bindery.router.moments import read_iso
from bindery.store.access import Operation
from bindery.store.consumer_filters import consumer_filter, exchange_payload
from bindery.store.redrive import Outcome, Redriver
from bindery.store.unroutable import Selection, newest, summary

router = resource("unroutable", own=True)

#: Keys that one answer lists at most.
MAX_KEYS: Final = 1_000
#: Rows that one answer gives whole at most.
MAX_SHOWN: Final = 100
_EXAMPLE: Final = {"reasons": ["no_binding"], "key": "flight.#", "filter": "dep_delay > 60", "dialect": "jms"}


class SelectionBody(OwnBody):
    """Which rows are meant; what is not given does not narrow the choice."""

    reasons: list[str] = Field(default_factory=list)
    exchange: str | None = None
    key: str | None = Field(None, description="a topic pattern for the routing key")
    since: str | None = Field(None, description="ISO 8601; UTC without a zone")
    until: str | None = Field(None, description="ISO 8601; UTC without a zone")
    filter: str | dict[str, Any] | None = Field(None, description="filter text, or a filter set")
    dialect: str = "jms"
    payload: PayloadName = None
    journal: Annotated[Flag, Field(description="also messages that reached no queue and only a journal has")] = False
    dry_run: Flag = False


def _selection(body: SelectionBody, topology: Topology, vhost: str) -> Selection:
    payload = exchange_payload(topology, body.exchange, body.filter, vhost=vhost, payload=body.payload)
    condition = consumer_filter(body.filter, dialect=body.dialect, payload=payload)
    return Selection(
        reasons=frozenset(body.reasons),
        exchange=body.exchange,
        key=body.key,
        since=_moment(body.since, "since"),
        until=_moment(body.until, "until"),
        condition=condition,
    )


def _moment(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        return read_iso(text)
    except ValueError:
        raise bad_request(f"{name} is no ISO 8601 time") from None


@router.get("/unroutable/{vhost:segment}", summary="Count unroutable messages", response_model=Document)
async def show(
    request: Request,
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    top: Annotated[int, Query(description="keys to list", ge=1, le=MAX_KEYS)] = 20,
    reason: Annotated[list[str] | None, Query(description="only these reasons")] = None,
    exchange: Annotated[str | None, Query(description="only messages published there")] = None,
    key: Annotated[str | None, Query(description="a topic pattern for the routing key")] = None,
    since: Annotated[str | None, Query(description="ISO 8601")] = None,
    until: Annotated[str | None, Query(description="ISO 8601")] = None,
    show: Annotated[
        int, Query(description="rows to give whole, the newest first, as `newest`", ge=0, le=MAX_SHOWN)
    ] = 0,
) -> Response:
    """The vhost's unroutable rows by reason and by routing key, the most frequent first.

    The caller needs the permission to read every exchange that the rows may have been published to.
    """

    def count(gone: Callable[[], bool]) -> dict[str, Any]:
        topology = plane.topology()
        visible_vhost(topology, user, vhost)
        _check(user, "read", topology, vhost, exchange)
        stated = SelectionBody(reasons=reason or [], exchange=exchange, key=key, since=since, until=until, filter=None)
        chosen = _selection(stated, topology, vhost)
        found = summary(plane.data, vhost, chosen, top=top, stop=gone).as_data()
        return found | ({"newest": newest(plane.data, vhost, chosen, show)} if show else {})

    return answer(await while_present(request, count))


@router.post(
    "/unroutable/{vhost:segment}/redrive",
    summary="Redrive unroutable messages",
    response_model=Document,
    openapi_extra=documented(SelectionBody, _EXAMPLE),
)
async def redrive(
    request: Request,
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    body: Annotated[SelectionBody, json_body(SelectionBody)],
) -> Response:
    """Route the chosen rows again, each exactly once; comes back when the copies are durable.

    The caller needs the permission to write to every exchange that the rows may have been published to. When
    the connection is closed before, the redrive ends with the portion of rows that is under way.
    """

    def route_again(gone: Callable[[], bool]) -> Outcome:
        topology = plane.topology()
        visible_vhost(topology, user, vhost)
        _check(user, "write", topology, vhost, body.exchange)
        redriver = Redriver(plane.data, plane.topologies, vhost)
        chosen = _selection(body, topology, vhost)
        return redriver.redrive(chosen, journals=body.journal, dry_run=body.dry_run, stop=gone)

    return answer((await while_present(request, route_again)).as_data())


def _check(user: Identity, operation: Operation, topology: Topology, vhost: str, exchange: str | None) -> None:
    """Refuse a caller without that permission on the exchange, or on every exchange of the vhost.

    The default exchange is one of them; rows may name exchanges that are gone, which needs no more.
    """
    present = ["", *(name for where, name in topology.exchanges if where == vhost)]
    for name in present if exchange is None else [exchange]:
        user.check(operation, vhost, name)
