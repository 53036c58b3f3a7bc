"""Writing a document that keeps what RabbitMQ's format loses: typed and void arguments."""

from __future__ import annotations

from typing import Any

from bindery.router.arguments import encode_arguments
from bindery.router.definitions.document import (
    DIVERTS_KEY,
    FORMAT_KEY,
    OPERATOR_COMPONENT,
    SINGLE_VHOST,
)
from bindery.router.model import (
    NO_QUEUE_ID,
    Binding,
    Divert,
    Exchange,
    Object,
    ObjectKey,
    Queue,
    Setting,
    Topology,
    Vhost,
    is_predeclared,
)
from bindery.router.model.objects import CANARY_KIND, GLOBAL_PARAMETER, PARAMETER_PREFIX
from bindery.router.policies import OPERATOR_POLICY, POLICY
from bindery.router.values import encode


def export(topology: Topology, *, vhost: str | None = None) -> dict[str, Any]:
    """The topology as a document; with `vhost` a single-vhost one, whose objects state no vhost.

    Predeclared exchanges and implicit bindings are left out; internal exchanges are in, with their
    flag. Raises NotFound for a vhost that does not exist.
    """
    if vhost is not None:
        topology.vhost(vhost)
    names = sorted(topology.vhosts) if vhost is None else [vhost]
    document: dict[str, Any] = {FORMAT_KEY: "cluster"}
    if vhost is None:
        document["vhosts"] = [_vhost_entry(topology.vhosts[name]) for name in names]
    else:
        document = {FORMAT_KEY: SINGLE_VHOST, "original_vhost_name": vhost}
    sections: dict[str, list[dict[str, Any]]] = {
        key: [] for key in ("parameters", "policies", "queues", "exchanges", "bindings", DIVERTS_KEY)
    }
    for name in names:
        exchanges, queues, bindings, diverts = topology.in_vhost(name)
        stated = {} if vhost is not None else {"vhost": name}
        sections["exchanges"] += [_exchange_entry(e) | stated for e in exchanges if not is_predeclared(e.name)]
        sections["queues"] += [_queue_entry(q) | stated for q in queues]
        sections["bindings"] += [_binding_entry(b) | stated for b in bindings]
        sections[DIVERTS_KEY] += [_divert_entry(d) | stated for d in diverts]
    global_parameters = []
    for key in sorted(topology.settings):
        setting = topology.settings[key]
        if setting.kind == GLOBAL_PARAMETER:
            global_parameters.append({"name": setting.name, "value": encode(setting.value)})
        elif setting.kind != CANARY_KIND and (vhost is None or setting.vhost == vhost):
            stated = {} if vhost is not None else {"vhost": setting.vhost}
            section, entry = _setting_entry(setting)
            sections[section].append(entry | stated)
    if vhost is None:
        document["global_parameters"] = global_parameters
    return document | sections


def _vhost_entry(vhost: Vhost) -> dict[str, Any]:
    metadata: dict[str, Any] = {"description": vhost.description, "tags": list(vhost.tags)}
    if vhost.default_queue_type is not None:
        metadata["default_queue_type"] = vhost.default_queue_type
    entry = {"name": vhost.name, **metadata, "metadata": metadata, "limits": []}
    if vhost.compat is not None:
        entry["compat"] = vhost.compat
    return entry | ({"tracing": True} if vhost.tracing else {})


def _exchange_entry(exchange: Exchange) -> dict[str, Any]:
    return {
        "name": exchange.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": encode_arguments(exchange.arguments),
    }


def _queue_entry(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": encode_arguments(queue.arguments),
    }


def _binding_entry(binding: Binding) -> dict[str, Any]:
    return {
        "source": binding.source,
        "destination": binding.destination,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": encode_arguments(binding.arguments),
    }


def _divert_entry(divert: Divert) -> dict[str, Any]:
    return {
        "name": divert.name,
        "source": divert.source,
        "destination": divert.destination,
        "filter": divert.filter,
        "exclusive": divert.exclusive,
        "routing_key": divert.routing_key,
        **({"transform": divert.transform} if divert.transform else {}),
    }


def _setting_entry(setting: Setting) -> tuple[str, dict[str, Any]]:
    """The section of the document and the entry of a setting of one vhost."""
    value = encode(setting.value)
    if setting.kind == POLICY:
        return "policies", {"name": setting.name, **value}
    component = OPERATOR_COMPONENT if setting.kind == OPERATOR_POLICY else setting.kind.removeprefix(PARAMETER_PREFIX)
    return "parameters", {"component": component, "name": setting.name, "value": value}


def protection_key(vhost: str) -> ObjectKey:
    """The setting that protects a vhost from deletion while it exists; it travels in documents."""
    return (f"{PARAMETER_PREFIX}vhost-protection", vhost, "deletion")


def as_entry(item: Object) -> dict[str, Any]:
    """One object as the entry that a document has for it, with its vhost and, where it has one, its id."""
    match item:
        case Vhost():
            return _vhost_entry(item)
        case Exchange():
            return _exchange_entry(item) | {"vhost": item.vhost}
        case Queue():
            number = {} if item.id == NO_QUEUE_ID else {"id": item.id}
            return _queue_entry(item) | {"vhost": item.vhost} | number
        case Binding():
            return _binding_entry(item) | {"vhost": item.vhost, "id": item.id}
        case Divert():
            return _divert_entry(item) | {"vhost": item.vhost, "id": item.id}
        case Setting(kind=kind) if kind == GLOBAL_PARAMETER:
            return {"name": item.name, "value": encode(item.value)}
        case Setting():
            return _setting_entry(item)[1] | {"vhost": item.vhost}
        case _:
            raise TypeError(f"{item!r} stands in no document")
