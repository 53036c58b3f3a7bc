"""Which vhosts and objects a request is about, and what its caller may see of them and do to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bindery.api.auth import Identity
from bindery.api.errors import not_found, object_not_found
from bindery.router.model import Topology
from bindery.router.proposal import DEFINITIONS_KEYS


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


def vhosts_named(document: Mapping[str, Any]) -> Iterator[str]:
    """The vhosts that a document names: what is refused in them would tell what they hold."""
    for stated in (document, *(document.get(key) for key in ("delete", *DEFINITIONS_KEYS))):
        for section, listed in stated.items() if isinstance(stated, Mapping) else ():
            for item in listed if isinstance(listed, list) else ():
                stands_in = item.get("name" if section == "vhosts" else "vhost") if isinstance(item, Mapping) else None
                name = item if section == "vhosts" and isinstance(item, str) else stands_in
                if isinstance(name, str):
                    yield name
