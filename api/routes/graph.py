"""The topology as a graph."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query, Response

from bindery.api.answers import answer
from bindery.api.as_of import AsOf
from bindery.api.deps import ManagementUser, VhostPath, resource
from bindery.api.errors import bad_request
from bindery.api.items import Document
from bindery.api.routes.bindings import exchange_name
from bindery.api.scope import visible_vhost
from bindery.router.graph import Node, graph_around, whole_graph

router = resource("graph", own=True)

#: Objects of one graph at most.
MAX_OBJECTS: Final = 1_000


@router.get("/graph/{vhost:segment}", summary="Show the graph of a vhost", response_model=Document)
def show(
    user: ManagementUser,
    topology: AsOf,
    vhost: VhostPath,
    exchange: Annotated[str | None, Query(description="what lies around this exchange")] = None,
    queue: Annotated[str | None, Query(description="what lies around this queue")] = None,
    hops: Annotated[int, Query(description="links from there at most", ge=1, le=10)] = 1,
    limit: Annotated[int, Query(description="objects at most", ge=1, le=MAX_OBJECTS)] = 200,
) -> Response:
    """Exchanges, queues and what leads from one to another; links between the same two objects are one edge.

    Without an object to begin from: the whole vhost, or of one with more than `limit` objects their number alone.
    """
    visible_vhost(topology, user, vhost)
    if exchange is not None and queue is not None:
        raise bad_request("exchange and queue exclude each other")
    if exchange is None and queue is None:
        found = whole_graph(topology, vhost, limit=limit)
    else:
        node: Node = ("queue", queue or "") if exchange is None else ("exchange", exchange_name(exchange))
        found = graph_around(topology, vhost, node, hops=hops, limit=limit)
    return answer(found.as_data() | {"topology_version": topology.version})
