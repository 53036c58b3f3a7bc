"""Exchanges."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query, Response

from bindery.api.answers import answer, no_content, put_answer
from bindery.api.arguments import in_brokers_words, refuse_null
from bindery.api.as_of import AsOf
from bindery.api.bodies import ExchangeBody, documented
from bindery.api.control_plane import ControlPlane
from bindery.api.deps import ManagementUser, NamePath, Plane, VhostHeader, VhostPath, json_body, resource
from bindery.api.errors import object_not_found
from bindery.api.items import ExchangeItem, paged
from bindery.api.listing import Item, ListingParameters
from bindery.api.routes.bindings import exchange_name
from bindery.api.scope import check_declare_exchange, visible_vhost, visible_vhosts
from bindery.router.arguments import PLAIN_ARGUMENTS, encode_arguments
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import InvalidDeclaration
from bindery.router.known_arguments import without_effect
from bindery.router.model import Exchange, Topology
from bindery.router.policies import Policies
from bindery.router.qpid import exchange_arguments

router = resource("exchanges")

_ONE: Final = "/exchanges/{vhost:segment}/{name:segment}"
#: Bytes of an exchange name given over HTTP, where the broker does not hold it to AMQP's short strings.
MAX_NAME_BYTES: Final = 5_000
_EXAMPLE: Final = {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "unrouted"}}


class _View:
    """Exchanges of one topology as items."""

    def __init__(self, plane: ControlPlane, topology: Topology) -> None:
        self._plane = plane
        self._is_newest = topology.version == plane.topology().version
        self._policies: Policies = plane.policies(topology)

    def item(self, exchange: Exchange) -> Item:
        """An exchange, with the policy that applies and what was counted, if any."""
        item: Item = {
            "name": exchange.name,
            "vhost": exchange.vhost,
            "type": exchange.type,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": encode_arguments(exchange.arguments),
            "user_who_performed_action": self._author(exchange),
        }
        policy = self._policies.applying("exchanges", exchange.vhost, exchange.name)
        if policy is not None:
            item["policy"] = policy.name
        counted = self._plane.statistics.of_exchange(exchange.vhost, exchange.name)
        if counted:
            item["message_stats"] = counted
        return item

    def _author(self, exchange: Exchange) -> str:
        """Who made the last change; of older states the versions tell, not the exchange."""
        return self._plane.author("exchange", exchange.vhost, exchange.name) if self._is_newest else ""


@router.get("/exchanges", summary="List exchanges", response_model=paged(ExchangeItem))
def list_all(
    plane: Plane, user: ManagementUser, topology: AsOf, listing: ListingParameters, x_vhost: VhostHeader = None
) -> Response:
    """Every exchange of every vhost that the caller sees, predeclared ones included."""
    vhosts = set(visible_vhosts(topology, user, x_vhost))
    view = _View(plane, topology)
    return answer(listing.paged(view.item(item) for item in topology.exchanges.values() if item.vhost in vhosts))


@router.get("/exchanges/{vhost:segment}", summary="List exchanges of a vhost", response_model=paged(ExchangeItem))
def list_in_vhost(
    plane: Plane, user: ManagementUser, topology: AsOf, listing: ListingParameters, vhost: VhostPath
) -> Response:
    """Every exchange of the vhost, predeclared ones included."""
    visible_vhost(topology, user, vhost)
    view = _View(plane, topology)
    return answer(listing.paged(view.item(item) for item in topology.exchanges.values() if item.vhost == vhost))


@router.get(_ONE, summary="Show an exchange", response_model=ExchangeItem)
def show(
    plane: Plane, user: ManagementUser, topology: AsOf, listing: ListingParameters, vhost: VhostPath, name: NamePath
) -> Response:
    """One exchange; `incoming` and `outgoing` are empty: traffic is not kept per pair."""
    visible_vhost(topology, user, vhost)
    exchange = topology.exchanges.get((vhost, exchange_name(name)))
    if exchange is None:
        raise object_not_found()
    return answer(listing.one({**_View(plane, topology).item(exchange), "incoming": [], "outgoing": []}))


@router.put(_ONE, status_code=201, summary="Declare an exchange", openapi_extra=documented(ExchangeBody, _EXAMPLE))
async def declare(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    body: Annotated[ExchangeBody, json_body(ExchangeBody)],
) -> Response:
    """Declare an exchange; declaring it again with equal properties changes nothing (204)."""
    user.require_sight(vhost)
    refuse_null(body.arguments, but=PLAIN_ARGUMENTS)
    exchange = Exchange(
        vhost=vhost,
        name=name,
        type=body.type,
        durable=body.durable,
        auto_delete=body.auto_delete,
        internal=body.internal,
        arguments=exchange_arguments(
            body.arguments, body.model_dump(by_alias=True), where="exchange", arguments_at="arguments"
        ),
    )

    def change(editor: TopologyEditor) -> bool:
        editor.topology.vhost(vhost)
        check_declare_exchange(user, exchange)
        try:
            return editor.declare_exchange(exchange, max_name_bytes=MAX_NAME_BYTES)
        except InvalidDeclaration as error:
            raise in_brokers_words(error, exchange.arguments, f"exchange '{name}' in vhost '{vhost}'") from None

    return put_answer(await plane.change(change, author=user.name), without_effect=without_effect(exchange))


@router.delete(_ONE, status_code=204, summary="Delete an exchange")
async def delete(
    plane: Plane,
    user: ManagementUser,
    vhost: VhostPath,
    name: NamePath,
    if_unused: Annotated[str, Query(alias="if-unused", description='"true": only without bindings from it')] = "false",
) -> Response:
    """Delete an exchange with every binding and divert from and to it."""
    user.require_sight(vhost)
    exchange = exchange_name(name)

    def change(editor: TopologyEditor) -> None:
        if (vhost, exchange) not in editor.topology.exchanges:
            raise object_not_found()
        user.check("configure", vhost, exchange)
        editor.delete_exchange(vhost, exchange, if_unused=if_unused == "true")

    await plane.change(change, author=user.name)
    return no_content()
