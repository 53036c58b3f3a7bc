"""Which vhosts a request is about, and whether its caller may see them."""

from __future__ import annotations

from bindery.api.auth import Identity
from bindery.api.errors import not_found, object_not_found
from bindery.router.model import Topology


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
