"""The analysis of a whole topology: every family of rules over every vhost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bindery.router.analysis import compatibility, cover, filters, idle, keys, observed, overlap, reach
from bindery.router.analysis import names as look_alikes
from bindery.router.analysis.finding import LISTED_PER_CODE, Report
from bindery.router.analysis.graph import Graph
from bindery.router.analysis.observed import SeenNames
from bindery.router.analysis.overlap import Samples
from bindery.router.analysis.verdicts import Verdicts
from bindery.router.links import Links
from bindery.router.model import Topology


def analyse(
    topology: Topology,
    *,
    vhosts: Iterable[str] | None = None,
    samples: Mapping[str, Samples] | None = None,
    names: Mapping[str, Mapping[str, SeenNames]] | None = None,
    modes: Iterable[str] = (),
    listed_per_code: int = LISTED_PER_CODE,
) -> Report:
    """What the analysis notices about a topology, or about some vhosts of it, gravest first.

    `samples` are, by vhost and queue, lineage identities of recent messages; without them queues are not
    compared. `names` are, by vhost and exchange, the properties of recent messages; without them nothing is said
    of those that filters ask for. `modes` are compatibility modes on which it is said what depends. Raises
    NotFound for an unknown vhost. The work grows with the bindings, not with their square.
    """
    report, asked = Report(listed_per_code=listed_per_code), list(modes)
    for name in sorted(topology.vhosts) if vhosts is None else vhosts:
        links = Links(topology, name)
        verdicts = Verdicts(links)
        cover.check(links, verdicts, report)
        keys.check(links, report)
        reach.check(Graph(links, verdicts), report)
        look_alikes.check(links, report)
        filters.check(links, verdicts, report)
        idle.check(links, report)
        if samples is not None and name in samples:
            overlap.check(links, report, samples[name])
        if names is not None and name in names:
            observed.check(links, verdicts, report, names[name])
        for mode in asked:
            compatibility.check(topology, name, mode, report)
    report.sort()
    return report
