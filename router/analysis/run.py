"""The analysis of a whole topology: every family of rules over every vhost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bindery.router.analysis import cover, filters, idle, keys, names, overlap, reach
from bindery.router.analysis.finding import Report
from bindery.router.analysis.graph import Graph
from bindery.router.analysis.overlap import Samples
from bindery.router.analysis.scope import Scope
from bindery.router.analysis.verdicts import Verdicts
from bindery.router.model import Topology


def analyse(
    topology: Topology, *, vhosts: Iterable[str] | None = None, samples: Mapping[str, Samples] | None = None
) -> Report:
    """What the analysis notices about a topology, or about some vhosts of it, gravest first.

    `samples` are, by vhost and queue, lineage identities of recent messages; without them queues are not
    compared. Raises NotFound for an unknown vhost. The work grows with the bindings, not with their square.
    """
    report = Report()
    for name in sorted(topology.vhosts) if vhosts is None else vhosts:
        scope = Scope.of(topology, name)
        verdicts = Verdicts(scope)
        cover.check(scope, verdicts, report)
        keys.check(scope, report)
        reach.check(Graph(scope, verdicts), report)
        names.check(scope, report)
        filters.check(scope, verdicts, report)
        idle.check(scope, report)
        if samples is not None and name in samples:
            overlap.check(scope, report, samples[name])
    report.sort()
    return report
