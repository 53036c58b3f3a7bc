"""Queues."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Query, Response

from bindery.api.answers import answer, no_content, put_answer
from bindery.api.arguments import check_queue_arguments, refuse_null
from bindery.api.as_of import AsOf
from bindery.api.bodies import QueueBody, documented
from bindery.api.control_plane import ControlPlane
from bindery.api.counts import Held
from bindery.api.deps import ManagementUser, NamePath, Plane, VhostHeader, VhostPath, json_body, resource
from bindery.api.errors import bad_request, object_not_found
from bindery.api.items import QueueItem, paged
from bindery.api.listing import Costly, Item, ListingParameters
from bindery.api.scope import visible_vhost, visible_vhosts
from bindery.api.statistics import with_rates
from bindery.api.views import queue_item
from bindery.router.arguments import PLAIN_ARGUMENTS, decode_arguments
from bindery.router.declarations import TopologyEditor
from bindery.router.known_arguments import without_effect
from bindery.router.limits import QueueRoom
from bindery.router.model import MAX_NAME_BYTES, Queue, Topology
from bindery.router.policies import OPERATOR_POLICY, Policies
from bindery.store.queue_use import note_use

router = resource("queues")

_ONE: Final = "/queues/{vhost:segment}/{name:segment}"
_EXAMPLE: Final = {"durable": True, "arguments": {"x-queue-filter": "price > 100"}}

_ZERO_RATES: Final = dict.fromkeys(
    ("avg_ack_egress_rate", "avg_ack_ingress_rate", "avg_egress_rate", "avg_ingress_rate"), 0.0
)
#: Fields of a broker process behind a queue, which is a table here: clients with strict decoders want them.
_NO_PROCESS: Final[Mapping[str, Any]] = {
    "consumers": 0,
    "consumer_capacity": 0,
    "consumer_utilisation": 0,
    "exclusive_consumer_tag": None,
    "single_active_consumer_tag": None,
    "recoverable_slaves": None,
    "head_message_timestamp": None,
    "memory": 0,
    "messages_ram": 0,
    "messages_ready_ram": 0,
    "messages_unacknowledged_ram": 0,
    "message_bytes_ram": 0,
    "message_bytes_unacknowledged": 0,
    "reductions": 0,
    "reductions_details": {"rate": 0.0},
    "garbage_collection": dict.fromkeys(
        ("fullsweep_after", "max_heap_size", "min_bin_vheap_size", "min_heap_size", "minor_gcs"), 0
    ),
}


def count_fields(held: Held) -> Item:
    """The counts of a queue; every message is ready: a get is answered at once and holds none back.

    `waiting` are those among them that wait in a journal for the table of a deferred queue; bytes are the table's.
    """
    backing: Item = {
        **_ZERO_RATES,
        "mode": "lazy",
        "len": held.messages,
        "delta": ["delta", held.messages],
        "q1": 0,
        "q2": 0,
        "q3": 0,
        "q4": 0,
        "next_deliver_seq_id": 0,
        "next_seq_id": 0,
        "target_ram_count": "0",
        "version": 2,
    }
    return {
        **with_rates({"messages": held.messages, "messages_ready": held.messages, "messages_unacknowledged": 0}),
        "waiting": held.waiting,
        "messages_persistent": held.messages,
        "messages_paged_out": held.messages,
        "message_bytes": held.size,
        "message_bytes_ready": held.size,
        "message_bytes_persistent": held.size,
        "message_bytes_paged_out": held.size,
        "idle_since": datetime.fromtimestamp(held.changed, UTC).isoformat(timespec="milliseconds"),
        "backing_queue_status": backing,
    }


_KEY_FIELDS: Final = frozenset({"vhost", "name"})
_COUNT_FIELDS: Final = frozenset(count_fields(Held()))
_OTHER_FIELDS: Final = frozenset(QueueItem.__annotations__) - _KEY_FIELDS - _COUNT_FIELDS


class _View:
    """Queues of one topology as items; what is more than vhost and name is made for those that are shown."""

    def __init__(self, plane: ControlPlane, topology: Topology) -> None:
        self._plane = plane
        self._policies = plane.policies(topology)
        self._operator_policies = Policies(topology, kind=OPERATOR_POLICY)
        self._queues = topology.queues
        self.costly = (
            Costly(_OTHER_FIELDS, self._describe, are_statistics=False),
            Costly(_COUNT_FIELDS, self._count),
        )

    def _describe(self, items: list[Item]) -> None:
        for item in items:
            key = vhost, name = item["vhost"], item["name"]
            described = queue_item(
                self._queues[key],
                node=self._plane.node,
                policy=self._policies.applying("queues", vhost, name),
                operator_policy=self._operator_policies.applying("queues", vhost, name),
            )
            counted = self._plane.statistics.of_queue(vhost, name)
            item.update(described, **_NO_PROCESS, **({"message_stats": counted} if counted else {}))

    def _count(self, items: list[Item]) -> None:
        held = self._plane.counts.of_many((item["vhost"], item["name"]) for item in items)
        for item, content in zip(items, held, strict=True):
            item.update(count_fields(content))


def _key_item(key: tuple[str, str]) -> Item:
    return {"vhost": key[0], "name": key[1]}


@router.get("/queues", summary="List queues", response_model=paged(QueueItem))
def list_all(
    plane: Plane, user: ManagementUser, topology: AsOf, listing: ListingParameters, x_vhost: VhostHeader = None
) -> Response:
    """Every queue of every vhost that the caller sees."""
    vhosts = set(visible_vhosts(topology, user, x_vhost))
    view = _View(plane, topology)
    found = [_key_item(key) for key in topology.queues if key[0] in vhosts]
    return answer(listing.paged(found, costly=view.costly))


@router.get("/queues/{vhost:segment}", summary="List queues of a vhost", response_model=paged(QueueItem))
def list_in_vhost(
    plane: Plane, user: ManagementUser, topology: AsOf, listing: ListingParameters, vhost: VhostPath
) -> Response:
    """Every queue of the vhost."""
    visible_vhost(topology, user, vhost)
    view = _View(plane, topology)
    found = [_key_item(key) for key in topology.queues if key[0] == vhost]
    return answer(listing.paged(found, costly=view.costly))


@router.get(_ONE, summary="Show a queue", response_model=QueueItem)
def show(
    plane: Plane, user: ManagementUser, topology: AsOf, listing: ListingParameters, vhost: VhostPath, name: NamePath
) -> Response:
    """One queue."""
    visible_vhost(topology, user, vhost)
    if (vhost, name) not in topology.queues:
        raise object_not_found()
    item = {**_key_item((vhost, name)), "consumer_details": [], "deliveries": [], "incoming": []}
    return answer(listing.one(item, costly=_View(plane, topology).costly))


@router.put(_ONE, status_code=201, summary="Declare a queue", openapi_extra=documented(QueueBody, _EXAMPLE))
async def declare(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[QueueBody, json_body(QueueBody)],
) -> Response:
    """Declare a queue; declaring it again with equal properties changes nothing (204)."""
    user.require_sight(vhost)
    refuse_null(body.arguments, but=PLAIN_ARGUMENTS)
    queue = Queue(vhost, name, body.durable, body.auto_delete, decode_arguments(body.arguments))

    def change(editor: TopologyEditor) -> bool:
        editor.topology.vhost(vhost)
        size = len(name.encode())
        if size > MAX_NAME_BYTES:
            raise bad_request(f"queue should be less than 255 bytes, actually was {size}\n")
        user.check("configure", vhost, name)
        if (vhost, name) not in editor.topology.queues:  # one that is there is compared, as the broker does it
            QueueRoom(editor.topology, [vhost]).take(vhost, name)
            check_queue_arguments(queue.arguments, vhost=vhost, name=name)
        created = editor.declare_queue(queue)
        if not created:
            note_use(plane.data, vhost, name)
        return created

    return put_answer(await plane.change(change, author=user.name), without_effect=without_effect(queue))


@router.delete(_ONE, status_code=204, summary="Delete a queue")
async def delete(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    if_empty: Annotated[str, Query(alias="if-empty", description='"true": only without messages')] = "false",
    if_unused: Annotated[
        str, Query(alias="if-unused", description='"true": only without consumers; there never are any')
    ] = "false",
) -> Response:
    """Delete a queue with every binding to it; its table is emptied, its history stays.

    A queue has no consumers here, so that `if-unused` always holds.
    """
    user.require_sight(vhost)

    def change(editor: TopologyEditor) -> None:
        if (vhost, name) not in editor.topology.queues:
            raise object_not_found()
        user.check("configure", vhost, name)
        if if_empty == "true" and plane.counts.of(vhost, name).messages:
            raise bad_request(f"queue '{name}' in vhost '{vhost}' not empty")
        editor.delete_queue(vhost, name)

    await plane.change(change, author=user.name)
    plane.statistics.forget_queue(vhost, name)
    return no_content()
