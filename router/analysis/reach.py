"""Queues and exchanges that nothing reaches, circles, and alternates and diverts that do not do their work."""

from __future__ import annotations

from typing import Final

from bindery.router.analysis.finding import Report, Subject, subject_of
from bindery.router.analysis.graph import Graph, subject_of_link
from bindery.router.links import Alternate, Link
from bindery.router.model import ALTERNATE_BINDING, ALTERNATE_EXCHANGE, Binding, Divert, is_predeclared

#: Names that a message lists before it counts the rest.
LISTED: Final = 5
_CIRCLE_CODES: Final[dict[type[Link], str]] = {Binding: "BT130", Alternate: "BT131", Divert: "BT132"}


def check(graph: Graph, report: Report) -> None:
    """BT120 to BT142."""
    _queues(graph, report)
    _exchanges(graph, report)
    _alternates(graph, report)
    _circles(graph, report)
    for divert in graph.links.diverts:
        _divert(graph, divert, report)


def _queues(graph: Graph, report: Report) -> None:
    links = graph.links
    by_alternate = {one.destination: one for one in links.alternates.values() if one.destination_type == "queue"}
    for name, queue in links.queues.items():
        bindings = links.topology.bindings_to(links.vhost, "queue", name)
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
    links = graph.links
    naming = {source for source, _ in links.alternates}
    for name, exchange in links.exchanges.items():
        if name not in graph.reached:
            report.add("BT122", subject_of(exchange), "it is internal and nothing leads to it")
        if name not in naming and not is_predeclared(name) and not links.leaving(name):
            report.add("BT123", subject_of(exchange), "nothing leaves it")


def _alternates(graph: Graph, report: Report) -> None:
    for alternate in graph.links.alternates.values():
        subject, target = subject_of_link(alternate), alternate.destination
        if alternate.destination_type is None:
            kind = "exchange" if alternate.kind == ALTERNATE_EXCHANGE else "queue or exchange"
            report.add("BT133", subject, f"its {alternate.kind} names no {kind}: {target!r}")
        elif alternate.kind == ALTERNATE_BINDING and target in graph.links.queues:
            if alternate.destination_type == "exchange":
                report.add("BT134", subject, f"{target!r} is a queue and an exchange")
        elif alternate.kind == ALTERNATE_EXCHANGE and alternate.source in graph.served:
            serving = subject_of(graph.served[alternate.source])
            report.add("BT135", subject, f"every message takes {serving}", [serving])


def _circles(graph: Graph, report: Report) -> None:
    for circle in graph.circles():
        names = [circle[0].source, *(link.destination for link in circle)]
        report.add(
            _CIRCLE_CODES[type(circle[0])],
            Subject("exchange", graph.links.vhost, names[0]),
            " -> ".join(map(repr, names)) if len(names) <= 2 * LISTED else f"a circle of {len(circle)} exchanges",
            map(subject_of_link, circle[:LISTED]),
        )


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
    starved = graph.links.bindings_from(divert.source)
    copies = [other for other in graph.links.diverts_from(divert.source) if not other.exclusive]
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
