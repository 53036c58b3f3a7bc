"""Arguments and settings that are kept and do nothing (docs/arguments.md)."""

from __future__ import annotations

from bindery.router.analysis.finding import Report, subject_of
from bindery.router.known_arguments import without_effect
from bindery.router.links import Links
from bindery.router.model import Exchange, Queue, Setting, Vhost


def check(links: Links, report: Report) -> None:
    """BT180 and BT181."""
    settings = [item for item in links.topology.settings.values() if item.vhost == links.vhost]
    vhost = links.topology.vhosts[links.vhost]
    declared: list[Exchange | Queue | Setting | Vhost] = [
        *links.exchanges.values(),
        *links.queues.values(),
        *settings,
        vhost,
    ]
    for item in declared:
        names = without_effect(item)
        if names:
            stated = "; ".join(f"{name!r}: {why}" for name, why in names.items())
            report.add("BT181" if isinstance(item, Setting | Vhost) else "BT180", subject_of(item), stated)
