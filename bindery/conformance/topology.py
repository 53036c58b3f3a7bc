"""The topology of a case, declared through the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bindery.router.arguments import decode_arguments
from bindery.router.declarations import TopologyEditor
from bindery.router.model import DEFAULT_VHOST, Binding, Divert, Exchange, Queue, Topology, Vhost


def declare(raw: Mapping[str, Any], compat: str | None = None) -> Topology:
    """The topology after declaring everything in the order of a case's lists: exchanges, queues, bindings, diverts.

    `compat` is the compatibility mode of its vhost. Raises the error of the first declaration that is refused.
    """
    editor = TopologyEditor(Topology.empty())
    if compat is not None:
        editor.declare_vhost(Vhost(DEFAULT_VHOST, compat=compat))
    for item in raw.get("exchanges", ()):
        editor.declare_exchange(
            Exchange(
                DEFAULT_VHOST,
                item["name"],
                item["type"],
                durable=item.get("durable", True),
                auto_delete=item.get("auto_delete", False),
                internal=item.get("internal", False),
                arguments=decode_arguments(item.get("arguments") or {}),
            )
        )
    for item in raw.get("queues", ()):
        editor.declare_queue(
            Queue(
                DEFAULT_VHOST,
                item["name"],
                durable=item.get("durable", True),
                auto_delete=item.get("auto_delete", False),
                arguments=decode_arguments(item.get("arguments") or {}),
            )
        )
    for item in raw.get("bindings", ()):
        editor.bind(
            Binding(
                0,
                DEFAULT_VHOST,
                item["source"],
                item["destination"],
                item.get("destination_type", "queue"),
                item.get("routing_key", ""),
                decode_arguments(item.get("arguments") or {}),
            )
        )
    for item in raw.get("diverts", ()):
        editor.declare_divert(
            Divert(
                0,
                DEFAULT_VHOST,
                item["name"],
                item["source"],
                item["destination"],
                item.get("filter") or "",
                item.get("exclusive", False),
                item.get("routing_key"),
                item.get("transform") or "",
            )
        )
    return editor.topology
