"""Canaries: a changed topology tried on a share or a filter of a vhost's messages, promoted or rolled back."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Query, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from bindery.api.answers import answer
from bindery.api.auth import Identity
from bindery.api.bodies import Count, OwnBody, documented
from bindery.api.changes import read_document, refused
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import AdministratorUser, MonitoringUser, Plane, VhostPath, json_body, resource
from bindery.api.errors import Refusal
from bindery.api.items import CanaryChanged, CanaryShown
from bindery.api.masking import masked_for
from bindery.api.scope import visible_vhost
from bindery.jobs.canary_report import report
from bindery.router.errors import DefinitionsRefused, InUse
from bindery.store import canaries
from bindery.store.canaries import Outcome, Request

router = resource("canary", own=True)

_EXAMPLE: Final = {
    "change": {"definitions": {"bindings": [{"source": "orders", "destination": "eu", "routing_key": "eu.*"}]}},
    "share": 0.05,
}
Candidate = Annotated[
    int | None, Query(description="refuse (412) unless this version is the candidate, as the status shows it", ge=0)
]


class CanaryBody(OwnBody):
    """What is tried, and on which messages; without `change` and `version` the canary that runs is changed."""

    change: dict[str, Any] | str | None = Field(
        None, description="a document of definitions or a change: an object, or the text of one in JSON or YAML"
    )
    version: Annotated[Count, Field(ge=0)] | None = Field(
        None, description="a topology version: its state of the vhost"
    )
    share: float | None = Field(None, description="of the messages that the filter accepts: above 0 and up to 1")
    filter: dict[str, Any] | str | None = Field(None, description="text in a dialect, or a filter set")
    dialect: str | None = Field(None, description="the language of a text; jms if none is named")
    deliver: bool | None = Field(None, description="false: compare only, and deliver all by the present topology")


@router.get("/canary/{vhost:segment}", summary="Show a canary", response_model=CanaryShown)
def show(plane: Plane, user: MonitoringUser, vhost: VhostPath) -> Response:
    """The canary of a vhost, running or ended, what it changes, and its comparison so far.

    `differing` messages are those that the candidate brings to another set of queues; per queue the copies gained and
    lost, with a message for example and, while the canary runs and the message is on record, why it goes where it does.
    """
    visible_vhost(plane.topology(), user, vhost)
    return answer(masked_for(user, report(plane.data, plane.topologies, plane.totals.totals(), vhost)))


@router.put(
    "/canary/{vhost:segment}",
    summary="Begin or change a canary",
    response_model=CanaryChanged,
    openapi_extra=documented(CanaryBody, _EXAMPLE, required=True),
)
async def put(
    plane: Plane,
    user: AdministratorUser,
    vhost: VhostPath,
    body: Annotated[CanaryBody, json_body(CanaryBody, limit=lambda plane: plane.settings.definitions_limit)],
) -> Response:
    """Try a change, or the state of a version, on a share or a filter of the messages; the others go by the present.

    The same request again changes nothing. Queues that are new in the candidate are declared at once, for all.
    """
    return answer(await run_in_threadpool(_put, plane, user, vhost, body))


def _put(plane: ControlPlane, user: Identity, vhost: str, body: CanaryBody) -> dict[str, Any]:
    visible_vhost(plane.topology(), user, vhost)
    change = None if body.change is None else read_document(user, vhost, body.change, prune=False)
    request = Request(change, body.version, body.share, body.filter, body.dialect, body.deliver)
    try:
        outcome = canaries.put(plane.topologies, vhost, request, author=user.name)
    except DefinitionsRefused as error:
        raise refused(error, placed=isinstance(body.change, str)) from None
    if outcome.canary.queues:
        plane.counts.changed()
    return outcome.as_data()


@router.post("/canary/{vhost:segment}/promote", summary="Promote a canary", response_model=CanaryChanged)
def promote(plane: Plane, user: AdministratorUser, vhost: VhostPath, version: Candidate = None) -> Response:
    """Make the candidate the topology of the vhost, for every message, with the ids that its bindings had.

    Refused (412) where the topology has changed otherwise since what the canary changes. Repeated it changes nothing.
    """
    return _ended(lambda: canaries.promote(plane.topologies, vhost, author=user.name, version=version))


@router.delete("/canary/{vhost:segment}", summary="Roll a canary back", response_model=CanaryChanged)
def roll_back(plane: Plane, user: AdministratorUser, vhost: VhostPath, version: Candidate = None) -> Response:
    """End the canary: every message goes by the present topology again. A repeated call changes nothing.

    Queues that were declared for it stay, with the messages that they got; the answer names them.
    """
    return _ended(lambda: canaries.roll_back(plane.topologies, vhost, author=user.name, version=version))


def _ended(end: Any) -> Response:
    try:
        outcome: Outcome = end()
    except InUse as error:
        raise Refusal(412, "precondition_failed", error.message) from None
    return answer(outcome.as_data())
