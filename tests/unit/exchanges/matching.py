"""Asking a compiled exchange directly which of its bindings match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bindery.router.declarations import TopologyEditor
from bindery.router.engine import Router
from bindery.router.message import Message, to_batch
from bindery.router.model import DEFAULT_VHOST, Binding, Exchange, Queue, Topology, Vhost
from bindery.router.values import Table


def exchange_router(
    kind: str, bindings: Sequence[tuple[str, Mapping[str, object]]], compat: str | None = None
) -> Router:
    """A router whose exchange `x` binds queue n by the n-th routing key and arguments, under a mode."""
    editor = TopologyEditor(Topology.empty())
    editor.declare_vhost(Vhost(DEFAULT_VHOST, compat=compat))
    editor.declare_exchange(Exchange(DEFAULT_VHOST, "x", kind))
    for number, (key, arguments) in enumerate(bindings):
        editor.declare_queue(Queue(DEFAULT_VHOST, f"{number:06}"))
        editor.bind(Binding(0, DEFAULT_VHOST, "x", f"{number:06}", "queue", key, Table(arguments)))
    return Router.compile(editor.topology, DEFAULT_VHOST)


def matched(router: Router, messages: Sequence[Message]) -> list[set[int]]:
    """For each message the numbers of the bindings that matched."""
    found = router.route(to_batch(messages), clock_ms=0)
    out: list[set[int]] = [set() for _ in messages]
    for place, queue in enumerate(found.queue):
        for row in found.rows[found.offsets[place] : found.offsets[place + 1]]:
            out[row].add(int(router.queues[queue]))
    return out


def visits(router: Router, messages: Sequence[Message]) -> int:
    """Trie nodes and postings touched for the messages."""
    return router.route(to_batch(messages), clock_ms=0).counts.work.node_visits
