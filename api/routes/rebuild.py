"""The table of a queue that is lost or damaged, made again from journals."""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args

from fastapi import Request, Response

from bindery.api.answers import answer
from bindery.api.bodies import RebuildBody, documented
from bindery.api.deps import ManagementUser, NamePath, Plane, VhostPath, json_body, resource
from bindery.api.items import Rebuilt
from bindery.api.presence import while_present
from bindery.api.scope import readable_queue
from bindery.store.access import Operation
from bindery.store.rebuild import Rebuilder

router = resource("messages", own=True)

_EXAMPLE: Final = {"dry_run": True}


@router.post(
    "/queues/{vhost:segment}/{name:segment}/rebuild",
    summary="Rebuild a queue",
    response_model=Rebuilt,
    openapi_extra=documented(RebuildBody, _EXAMPLE),
)
async def rebuild(
    request: Request,
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[RebuildBody, json_body(RebuildBody)],
) -> Response:
    """Make the queue's table again, or files of it that are missing or damaged, from the journals of its vhost.

    A table that is whole is left as it is; every file of it is read to tell. Rows that consumers had taken from a lost
    table come again. The caller needs the permissions to configure the queue, to write to it and to read it; where
    what is left of the old table was put, administrators are told. It goes on when the connection is closed.
    """

    def work(_: object) -> dict[str, Any]:
        readable_queue(plane.topology(), user, vhost, name)
        for operation in get_args(Operation):
            user.check(operation, vhost, name)
        try:
            found = Rebuilder(plane.data, plane.topologies, vhost).rebuild(name, dry_run=body.dry_run).as_data()
        finally:
            plane.counts.changed()
        return found if user.has("administrator") else found | {"aside": None}

    return answer(await while_present(request, work))
