"""Queues and exchanges that nothing reaches, circles, and alternates and diverts that do not do their work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bindery.router.analysis.finding import Report, Subject, subject_of
from bindery.router.analysis.graph import Edge, Graph
from bindery.router.model import Divert, is_predeclared

#: Names that a message lists before it counts the rest.
LISTED: Final = 5
_CIRCLE_CODES: Final = {"binding": "BT130", "alternate": "BT131", "divert": "BT132"}


def check(graph: Graph, report: Report) -> None:
    """BT120 to BT142."""
    _queues(graph, report)
    _exchanges(graph, report)
    _alternates(graph, report)
    _circles(graph, report)
    for divert in graph.scope.diverts:
        _divert(graph, divert, report)


def _queues(graph: Graph, report: Report) -> None:
    scope = graph.scope
    by_alternate = {a.target: a for a in graph.alternates if a.found == "queue"}
    for name, queue in scope.queues.items():
        bindings = scope.bindings_to_queue.get(name, [])
        subject = subject_of(queue)
        if graph.verdicts.queue(queue) is False:
            report.add("BT121", subject, "its own filter is never true")
        elif name in graph.reached_queues:
            continue
        elif bindings:
            why = sorted({_why_dead(graph, binding.source, graph.is_live(binding)) for binding in bindings})
            report.add("BT121", subject, "; ".join(why), map(subject_of, bindings[:LISTED]))
        elif name in by_alternate:
            report.add("BT121", subject, f"the alternate of exchange {by_alternate[name].source!r} is never used")
        else:
            report.add("BT120", subject, f"only a message published to the default exchange as {name!r} gets there")


def _why_dead(graph: Graph, source: str, live: bool) -> str:
    if source in graph.takers:
        return f"the exclusive divert {graph.takers[source].name!r} takes every message of exchange {source!r}"
    if live:
        return f"no message comes to exchange {source!r}"
    return f"its binding from exchange {source!r} never matches"


def _exchanges(graph: Graph, report: Report) -> None:
    scope = graph.scope
    alternates = {alternate.source for alternate in graph.alternates}
    for name, exchange in scope.exchanges.items():
        if name not in graph.reached:
            report.add("BT122", subject_of(exchange), "it is internal and nothing leads to it")
        leaves = name in scope.bindings_from or name in scope.diverts_from or name in alternates
        if not leaves and not is_predeclared(name):
            report.add("BT123", subject_of(exchange), "nothing leaves it")


def _alternates(graph: Graph, report: Report) -> None:
    scope = graph.scope
    for alternate in graph.alternates:
        subject = Subject("exchange", scope.vhost, alternate.source)
        if alternate.found is None:
            kind = "exchange" if alternate.argument == "alternate-exchange" else "queue or exchange"
            report.add("BT133", subject, f"its {alternate.argument} names no {kind}: {alternate.target!r}")
        elif alternate.argument == "alternate-binding" and alternate.target in scope.queues:
            if alternate.found == "exchange":
                report.add("BT134", subject, f"{alternate.target!r} is a queue and an exchange")
        elif alternate.argument == "alternate-exchange" and alternate.source in graph.served:
            serving = subject_of(graph.served[alternate.source])
            report.add("BT135", subject, f"every message takes {serving}", [serving])


def _circles(graph: Graph, report: Report) -> None:
    for circle in graph.circles():
        names = [circle[0].source, *(edge.target for edge in circle)]
        report.add(
            _CIRCLE_CODES[circle[0].kind],
            Subject("exchange", graph.scope.vhost, names[0]),
            " -> ".join(map(repr, names)) if len(names) <= 2 * LISTED else f"a circle of {len(circle)} exchanges",
            _subjects(circle),
        )


def _subjects(edges: Iterable[Edge]) -> list[Subject]:
    return [edge.subject for edge in edges][:LISTED]


def _divert(graph: Graph, divert: Divert, report: Report) -> None:
    subject = subject_of(divert)
    if graph.verdicts.divert(divert) is False:
        report.add("BT141", subject, "its filter is never true")
    elif divert.source not in graph.reached:
        report.add("BT141", subject, f"no message comes to exchange {divert.source!r}")
    elif not graph.is_live(divert):
        report.add("BT141", subject, f"the exclusive divert {graph.takers[divert.source].name!r} takes every message")
    elif divert.exclusive and divert.destination not in graph.delivering:
        report.add("BT142", subject, f"exchange {divert.destination!r} leads to no queue")
    if graph.takers.get(divert.source) == divert:
        _starved(graph, divert, report)


def _starved(graph: Graph, divert: Divert, report: Report) -> None:
    scope = graph.scope
    starved = scope.bindings_from.get(divert.source, [])
    copies = [other for other in scope.diverts_from[divert.source] if not other.exclusive]
    if not starved and not copies:
        return
    queues = sorted({b.destination for b in starved if b.destination_type == "queue"} - graph.reached_queues)
    listed = ", ".join(map(repr, queues[:LISTED])) + (f" and {len(queues) - LISTED} more" if queues[LISTED:] else "")
    report.add(
        "BT140",
        subject_of(divert),
        f"it takes every message of exchange {divert.source!r}: {len(starved)} bindings and {len(copies)} other "
        f"diverts never apply" + (f"; nothing else feeds {listed}" if queues else ""),
        [*map(subject_of, starved), *map(subject_of, copies)][:LISTED],
    )
