"""Bindings: lists in every form, declaration, and single bindings by their properties key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Path, Query, Response
from fastapi.concurrency import run_in_threadpool

from bindery.api import properties_key
from bindery.api.answers import answer, created_at, no_content
from bindery.api.arguments import in_brokers_words
from bindery.api.as_of import AsOf
from bindery.api.auth import DEFAULT_EXCHANGE, Identity
from bindery.api.bodies import BindingBody, documented
from bindery.api.change_rights import check_binding_key
from bindery.api.deps import ManagementUser, NamePath, Plane, VhostHeader, VhostPath, json_body, resource
from bindery.api.errors import access_refused, bad_request, not_found, object_not_found
from bindery.api.items import BindingItem
from bindery.api.listing import ListingParameters
from bindery.api.scope import visible_vhost, visible_vhosts
from bindery.api.views import BINDING_ORDER, binding_item, bindings_in, bindings_of_queue
from bindery.router.arguments import decode_arguments
from bindery.router.declarations import TopologyEditor
from bindery.router.errors import InvalidDeclaration
from bindery.router.model import Binding, DestinationType, Topology, implicit_binding

router = resource("bindings")

#: How paths name the kind of a destination.
_KINDS: Final[dict[str, DestinationType]] = {"q": "queue", "e": "exchange"}
#: Bytes of a routing key given over HTTP, where the broker does not hold it to AMQP's short strings.
MAX_KEY_BYTES: Final = 5_000
_EXAMPLE: Final = {"routing_key": "orders.eu.*", "arguments": {"x-filter-jms-selector": "price > 100"}}
_PAIR: Final = "/bindings/{vhost:segment}/e/{source:segment}/{kind:segment}/{destination:segment}"


def exchange_name(segment: str) -> str:
    """The name of an exchange in a path, where the default exchange is called amq.default."""
    return "" if segment == DEFAULT_EXCHANGE else segment


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ends of a binding, as a path names them."""

    vhost: str
    source: str
    kind: DestinationType
    destination: str

    def bindings(self, topology: Topology) -> list[Binding]:
        """The bindings between the two ends, in order of id."""
        if self.source == "":
            implied = self.kind == "queue" and (self.vhost, self.destination) in topology.queues
            return [implicit_binding(self.vhost, self.destination)] if implied else []
        to = topology.bindings_to(self.vhost, self.kind, self.destination)
        return [binding for binding in to if binding.source == self.source]

    def check(self, identity: Identity) -> None:
        """Refuse a caller who may not bind these ends (AMQP: write the destination, read the source)."""
        identity.check("write", self.vhost, self.destination)
        identity.check("read", self.vhost, self.source)


def _ends(
    vhost: VhostPath,
    source: NamePath,
    kind: Annotated[str, Path(description="q: to a queue, e: to an exchange", examples=["q"])],
    destination: NamePath,
) -> Ends:
    if kind not in _KINDS:
        raise bad_request(f"destination type '{kind}' is neither q nor e")
    return Ends(vhost, exchange_name(source), _KINDS[kind], exchange_name(destination) if kind == "e" else destination)


EndsPath = Annotated[Ends, Depends(_ends)]
Key = Annotated[str, Path(alias="properties_key", description="as listed, percent-encoded", examples=["orders.eu.*"])]


Top = Annotated[int | None, Query(description="at most so many of them, in order", ge=1, le=100_000)]
Skip = Annotated[int, Query(description="leave out so many of the first ones", ge=0, le=2**31)]


@router.get("/bindings", summary="List bindings", response_model=list[BindingItem])
def list_all(user: ManagementUser, topology: AsOf, listing: ListingParameters, x_vhost: VhostHeader = None) -> Response:
    """Every binding of every vhost that the caller sees, the default exchange's included; never paged."""
    found = bindings_in(topology, visible_vhosts(topology, user, x_vhost))
    return answer(listing.whole(map(binding_item, found), order=BINDING_ORDER))


@router.get("/bindings/{vhost:segment}", summary="List bindings of a vhost", response_model=list[BindingItem])
def list_in_vhost(user: ManagementUser, topology: AsOf, listing: ListingParameters, vhost: VhostPath) -> Response:
    """Every binding of the vhost, the default exchange's included; never paged."""
    found = bindings_in(topology, [visible_vhost(topology, user, vhost)])
    return answer(listing.whole(map(binding_item, found), order=BINDING_ORDER))


@router.get(_PAIR, summary="List bindings between two ends", response_model=list[BindingItem])
def list_between(user: ManagementUser, topology: AsOf, listing: ListingParameters, ends: EndsPath) -> Response:
    """The bindings from an exchange to a queue or exchange; none for ends that do not exist."""
    visible_vhost(topology, user, ends.vhost)
    return answer(listing.whole(map(binding_item, ends.bindings(topology)), order=BINDING_ORDER))


@router.post(_PAIR, status_code=201, summary="Bind", openapi_extra=documented(BindingBody, _EXAMPLE))
async def bind(
    plane: Plane,
    user: ManagementUser,
    ends: EndsPath,
    body: Annotated[BindingBody, json_body(BindingBody, limit=lambda plane: plane.settings.binding_body_limit)],
) -> Response:
    """Bind a queue or exchange to an exchange; binding twice is the same as once."""
    user.require_sight(ends.vhost)
    if ends.vhost not in (await run_in_threadpool(plane.topology)).vhosts:
        raise not_found("vhost_not_found")
    ends.check(user)
    wanted = Binding(
        0, ends.vhost, ends.source, ends.destination, ends.kind, body.routing_key, decode_arguments(body.arguments)
    )

    def change(editor: TopologyEditor) -> Binding:
        check_binding_key(user, editor.topology, wanted)
        try:
            return editor.bind(wanted, max_key_bytes=MAX_KEY_BYTES)[0]
        except InvalidDeclaration as error:
            raise in_brokers_words(error, wanted.arguments, f"binding of '{ends.destination}'") from None

    binding = await plane.change(change, author=user.name)
    key = properties_key.properties_key(binding.routing_key, binding.arguments)
    return created_at(properties_key.location(ends.destination, key))


@router.get(_PAIR + "/{properties_key:segment}", summary="Show a binding", response_model=BindingItem)
def show(user: ManagementUser, topology: AsOf, listing: ListingParameters, ends: EndsPath, segment: Key) -> Response:
    """One binding, by its properties key."""
    visible_vhost(topology, user, ends.vhost)
    return answer(listing.one(binding_item(properties_key.find(ends.bindings(topology), segment))))


@router.delete(_PAIR + "/{properties_key:segment}", status_code=204, summary="Unbind")
async def unbind(plane: Plane, user: ManagementUser, ends: EndsPath, segment: Key) -> Response:
    """Remove one binding, by its properties key; an auto-delete exchange may go with its last one."""
    user.require_sight(ends.vhost)
    ends.check(user)
    if ends.source == "":
        raise access_refused()

    def change(editor: TopologyEditor) -> None:
        if ends.vhost not in editor.topology.vhosts:
            raise object_not_found()
        editor.unbind(properties_key.find(ends.bindings(editor.topology), segment))

    await plane.change(change, author=user.name)
    return no_content()


@router.get(
    "/exchanges/{vhost:segment}/{name:segment}/bindings/{end:segment}",
    summary="List bindings of an exchange",
    response_model=list[BindingItem],
)
def list_of_exchange(
    user: ManagementUser,
    topology: AsOf,
    listing: ListingParameters,
    vhost: VhostPath,
    name: NamePath,
    end: Annotated[str, Path(description="source: bindings from it; destination: bindings to it", examples=["source"])],
    top: Top = None,
    skip: Skip = 0,
) -> Response:
    """The bindings of which the exchange is the source, or the destination; some of them by `top` and `skip`."""
    visible_vhost(topology, user, vhost)
    if end not in _OF_EXCHANGE:
        raise object_not_found()
    found = _OF_EXCHANGE[end](topology, vhost, exchange_name(name))
    return answer(listing.whole(map(binding_item, found), order=BINDING_ORDER)[skip:][:top])


def _from_exchange(topology: Topology, vhost: str, exchange: str) -> list[Binding]:
    if exchange == "":
        return [implicit_binding(*key) for key in topology.queues if key[0] == vhost]
    return topology.bindings_from(vhost, exchange)


def _to_exchange(topology: Topology, vhost: str, exchange: str) -> list[Binding]:
    return topology.bindings_to(vhost, "exchange", exchange)


_OF_EXCHANGE: Final[dict[str, Callable[[Topology, str, str], list[Binding]]]] = {
    "source": _from_exchange,
    "destination": _to_exchange,
}


@router.get(
    "/queues/{vhost:segment}/{name:segment}/bindings",
    summary="List bindings of a queue",
    response_model=list[BindingItem],
)
def list_of_queue(
    user: ManagementUser,
    topology: AsOf,
    listing: ListingParameters,
    vhost: VhostPath,
    name: NamePath,
    top: Top = None,
    skip: Skip = 0,
) -> Response:
    """The bindings to a queue, that of the default exchange included; some of them by `top` and `skip`."""
    visible_vhost(topology, user, vhost)
    found = map(binding_item, bindings_of_queue(topology, vhost, name))
    return answer(listing.whole(found, order=BINDING_ORDER)[skip:][:top])
