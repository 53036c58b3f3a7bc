"""Which vhosts and objects a request is about, and what its caller may see of them and do to them."""

from __future__ import annotations

from bindery.api.auth import Identity
from bindery.api.errors import not_found, object_not_found
from bindery.router.model import ALTERNATE_BINDING, ALTERNATE_EXCHANGE, Exchange, Topology
from bindery.router.values import Table


def visible_vhosts(topology: Topology, identity: Identity, header: str | None = None) -> list[str]:
    """The vhosts that a list over all of them covers; `x-vhost` narrows it to one, or to none."""
    return [name for name in topology.vhosts if header in (None, name) and identity.sees(name)]


def visible_vhost(topology: Topology, identity: Identity, name: str) -> str:
    """The vhost, if it exists for this caller; 404 otherwise."""
    identity.require_sight(name)
    if name not in topology.vhosts:
        raise object_not_found()
    return name


def readable_queue(topology: Topology, identity: Identity, vhost: str, name: str) -> None:
    """Refuse a queue that is not there for this caller (404), or that they may not read (401)."""
    visible_vhost(topology, identity, vhost)
    if (vhost, name) not in topology.queues:
        raise not_found(f"NOT_FOUND - no queue '{name}' in vhost '{vhost}'")
    identity.check("read", vhost, name)


def check_declare_exchange(user: Identity, exchange: Exchange) -> None:
    """AMQP 0-9-1 access: configure the exchange; with an alternate, read it and write the alternate."""
    user.check("configure", exchange.vhost, exchange.name)
    binding = exchange.arguments.get(ALTERNATE_BINDING)
    alternates = (
        exchange.arguments.get(ALTERNATE_EXCHANGE),
        binding.get("destination") if isinstance(binding, Table) else None,
    )
    for alternate in alternates:
        if isinstance(alternate, str):
            user.check("read", exchange.vhost, exchange.name)
            user.check("write", exchange.vhost, alternate)
