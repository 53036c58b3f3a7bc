"""Messages of journals for a queue that would have got them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import Request, Response

from bindery.api.answers import answer
from bindery.api.bodies import BackfillBody, documented, moment
from bindery.api.deps import ManagementUser, NamePath, Plane, VhostPath, json_body, resource
from bindery.api.items import Backfilled
from bindery.api.presence import while_present
from bindery.api.scope import readable_queue
from bindery.store.backfill import Backfiller, Selection
from bindery.store.backfill_report import Outcome

router = resource("messages", own=True)

_EXAMPLE: Final = {"since": "2026-01-01T00:00:00Z", "filter": "price > 100", "dry_run": True}


@router.post(
    "/queues/{vhost:segment}/{name:segment}/backfill",
    summary="Backfill a queue",
    response_model=Backfilled,
    openapi_extra=documented(BackfillBody, _EXAMPLE),
)
async def backfill(
    request: Request,
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[BackfillBody, json_body(BackfillBody)],
) -> Response:
    """Bring the queue the messages of journals that it would have got, each exactly once, and no other queue any.

    Comes back when they are there; those of batches that are under way follow with maintenance. The caller needs the
    permission to read the queue and to write to it. When the connection is closed before, maintenance goes on after
    the portion that is under way.
    """

    def work(gone: Callable[[], bool]) -> Outcome:
        readable_queue(plane.topology(), user, vhost, name)
        user.check("write", vhost, name)
        chosen = Selection(
            body.stream,
            moment(body.since, "since"),
            moment(body.until, "until"),
            body.filter,
            body.dialect,
            body.payload,
        )
        try:
            return Backfiller(plane.data, plane.topologies, vhost).backfill(
                name, chosen, dry_run=body.dry_run, stop=gone
            )
        finally:
            plane.counts.changed()

    return answer((await while_present(request, work)).as_data())
