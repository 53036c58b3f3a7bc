"""Topologies for tests, written as short as the rule that they show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bindery.router.declarations import TopologyEditor
from bindery.router.model import Binding, Divert, Exchange, Queue, Topology
from bindery.router.values import decode_table


class Broker:
    """A topology under construction in the vhost "/"."""

    def __init__(self) -> None:
        self.editor: TopologyEditor = TopologyEditor(Topology.empty())

    def exchange(self, name: str, kind: str, *, internal: bool = False, **arguments: Any) -> Broker:
        self.editor.declare_exchange(
            Exchange("/", name, kind, internal=internal, arguments=decode_table(_dashed(arguments)))
        )
        return self

    def queues(self, *names: str, **arguments: Any) -> Broker:
        for name in names:
            self.editor.declare_queue(Queue("/", name, arguments=decode_table(_dashed(arguments))))
        return self

    def bind(self, source: str, destination: str, key: str = "", arguments: Mapping[str, Any] | None = None) -> Binding:
        kind = "queue" if ("/", destination) in self.editor.topology.queues else "exchange"
        stored, _ = self.editor.bind(
            Binding(0, "/", source, destination, kind, key, decode_table(dict(arguments or {})))  # type: ignore[arg-type]
        )
        return stored

    def divert(self, name: str, source: str, destination: str, **options: Any) -> Divert:
        return self.editor.declare_divert(Divert(0, "/", name, source, destination, **options))[0]

    @property
    def topology(self) -> Topology:
        return self.editor.topology


def _dashed(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "-"): value for name, value in arguments.items()}
