"""Capabilities: which AMQP filters the service, an exchange or a queue offers."""

from __future__ import annotations

from fastapi import Response

from bindery.api.answers import answer
from bindery.api.as_of import AsOf
from bindery.api.deps import ManagementUser, NamePath, VhostPath, resource
from bindery.api.errors import object_not_found
from bindery.api.items import Capabilities
from bindery.api.routes.bindings import exchange_name
from bindery.api.scope import visible_vhost
from bindery.router.capabilities import CAPABILITIES, capabilities
from bindery.router.capabilities import of_exchange as offered_by_exchange

router = resource("capabilities", own=True)


@router.get("/capabilities", summary="Capabilities of the service", response_model=Capabilities)
def of_service(_: ManagementUser) -> Response:
    """The capabilities of the service, each with the filters that it stands for."""
    offered = capabilities("service")
    return answer({"capabilities": offered, "filters": {name: list(CAPABILITIES[name]) for name in offered}})


@router.get(
    "/exchanges/{vhost:segment}/{name:segment}/capabilities",
    summary="Capabilities of an exchange",
    response_model=Capabilities,
)
def of_exchange(user: ManagementUser, topology: AsOf, vhost: VhostPath, name: NamePath) -> Response:
    """The capabilities of a source on the exchange."""
    visible_vhost(topology, user, vhost)
    exchange = exchange_name(name)
    if (vhost, exchange) not in topology.exchanges:
        raise object_not_found()
    return answer({"capabilities": offered_by_exchange(exchange)})


@router.get(
    "/queues/{vhost:segment}/{name:segment}/capabilities",
    summary="Capabilities of a queue",
    response_model=Capabilities,
)
def of_queue(user: ManagementUser, topology: AsOf, vhost: VhostPath, name: NamePath) -> Response:
    """The capabilities of a source on the queue."""
    visible_vhost(topology, user, vhost)
    if (vhost, name) not in topology.queues:
        raise object_not_found()
    return answer({"capabilities": capabilities("queue")})
