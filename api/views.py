"""Objects of a topology as the JSON objects that clients expect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bindery.api.items import BindingItem, DivertItem, PolicyItem
from bindery.api.listing import Item
from bindery.api.properties_key import properties_key
from bindery.router.arguments import encode_arguments
from bindery.router.model import Binding, Divert, Queue, Topology, Vhost, implicit_binding
from bindery.router.policies import Policy
from bindery.router.values import encode_table

#: How bindings order when a client does not say.
BINDING_ORDER = ("vhost", "source", "type", "destination", "routing_key", "properties_key")


def binding_item(binding: Binding) -> BindingItem:
    """A binding."""
    return {
        "source": binding.source,
        "vhost": binding.vhost,
        "destination": binding.destination,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": encode_arguments(binding.arguments),
        "properties_key": properties_key(binding.routing_key, binding.arguments),
    }


def bindings_in(topology: Topology, vhosts: Iterable[str]) -> Iterator[Binding]:
    """Every binding of some vhosts, the implicit ones of the default exchange included."""
    wanted = set(vhosts)
    yield from (implicit_binding(*key) for key in topology.queues if key[0] in wanted)
    yield from (binding for binding in topology.bindings.values() if binding.vhost in wanted)


def bindings_of_queue(topology: Topology, vhost: str, queue: str) -> list[Binding]:
    """The bindings to a queue, the implicit one included (the broker lists it for missing queues too)."""
    return [implicit_binding(vhost, queue), *topology.bindings_to(vhost, "queue", queue)]


def divert_item(divert: Divert) -> DivertItem:
    """A divert."""
    return {
        "name": divert.name,
        "vhost": divert.vhost,
        "source": divert.source,
        "destination": divert.destination,
        "filter": divert.filter,
        "exclusive": divert.exclusive,
        "routing_key": divert.routing_key,
        "transform": divert.transform,
    }


def policy_item(policy: Policy) -> PolicyItem:
    """A policy."""
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": encode_table(policy.definition),
        "priority": policy.priority,
    }


def vhost_item(vhost: Vhost, *, node: str) -> Item:
    """A vhost, without its counts."""
    metadata: dict[str, Any] = {"description": vhost.description, "tags": list(vhost.tags)}
    if vhost.default_queue_type is not None:
        metadata["default_queue_type"] = vhost.default_queue_type
    item = {
        "name": vhost.name,
        "description": vhost.description,
        "tags": list(vhost.tags),
        "default_queue_type": vhost.default_queue_type or "classic",
        "metadata": metadata,
        "tracing": vhost.tracing,
        "cluster_state": {node: "running"},
    }
    return item if vhost.compat is None else item | {"compat": vhost.compat}


def queue_item(queue: Queue, *, node: str, policy: Policy | None, operator_policy: Policy | None) -> Item:
    """A queue, without its counts."""
    arguments = encode_arguments(queue.arguments)
    effective: dict[str, Any] = {}
    for applying in (policy, operator_policy):
        if applying is not None:
            effective |= encode_table(applying.definition)
    return {
        "name": queue.name,
        "vhost": queue.vhost,
        "type": arguments.get("x-queue-type", "classic"),
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": False,
        "arguments": arguments,
        "node": node,
        "state": "running",
        "policy": None if policy is None else policy.name,
        "operator_policy": None if operator_policy is None else operator_policy.name,
        "effective_policy_definition": effective,
    }
