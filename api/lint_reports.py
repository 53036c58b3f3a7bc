"""What lint says of the vhosts of the newest topology, kept until a vhost changes."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from bindery.router.analysis import Finding, Report, analyse
from bindery.router.model import Binding, Divert, Topology

#: Vhosts whose reports are kept, and findings of one code that are.
VHOSTS: Final = 128
LISTED: Final = 10_000


@dataclass
class VhostReport:
    """The findings of a vhost, all of them up to `LISTED` of a code, and those of each exchange and queue."""

    report: Report
    _of_objects: dict[tuple[str, str], list[Finding]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, topology: Topology, vhost: str) -> VhostReport:
        """Analyse a vhost; raises NotFound for one that there is not."""
        made = cls(analyse(topology, vhosts=[vhost], listed_per_code=LISTED))
        for finding in made.report.findings:
            for key in dict.fromkeys(_concerned(topology, finding)):
                made._of_objects[key].append(finding)
        return made

    def about(self, kind: str, name: str) -> Report:
        """The findings of an exchange or queue, and of what leaves it or leads to it."""
        found = self._of_objects.get((kind, name), [])
        return Report(found, Counter(one.code for one in found), LISTED)


def _concerned(topology: Topology, finding: Finding) -> Iterator[tuple[str, str]]:
    """Kind and name of the objects beside which a finding is shown."""
    subject = finding.subject
    if subject.id is None:
        yield subject.kind, subject.name
        return
    number = str(subject.id) if subject.kind == "binding" else subject.name
    link = topology.get((subject.kind, subject.vhost, number))
    if isinstance(link, Binding | Divert):
        yield "exchange", link.source
        yield (link.destination_type if isinstance(link, Binding) else "exchange"), link.destination


class LintReports:
    """Reports of vhosts; safe to share between threads, and each is made once, however many ask for it."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._kept: OrderedDict[str, tuple[int, Any, VhostReport]] = OrderedDict()

    def of_vhost(self, topology: Topology, vhost: str) -> VhostReport:
        """What lint says of a vhost of the newest topology; it is asked again only when something in it has changed."""
        known = self._kept.get(vhost)
        if known is not None and known[0] == topology.version:
            return known[2]
        with self._making:
            known = self._kept.get(vhost)
            if known is not None and known[0] == topology.version:
                return known[2]
            content = _content(topology, vhost)
            report = known[2] if known is not None and known[1] == content else VhostReport.of(topology, vhost)
            self._kept[vhost] = (topology.version, content, report)
            self._kept.move_to_end(vhost)
            while len(self._kept) > VHOSTS:
                self._kept.popitem(last=False)
            return report


def _content(topology: Topology, vhost: str) -> Any:
    """All that the findings of a vhost depend on; the same objects are equal at a glance."""
    settings = [item for item in topology.settings.values() if item.vhost in ("", vhost)]
    return topology.vhosts.get(vhost), settings, topology.in_vhost(vhost)
