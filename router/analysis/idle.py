"""Arguments and settings that are kept and do nothing (docs/arguments.md)."""

from __future__ import annotations

from bindery.router.analysis.finding import Report, subject_of
from bindery.router.analysis.scope import Scope
from bindery.router.known_arguments import without_effect
from bindery.router.model import Exchange, Queue, Setting, Vhost


def check(scope: Scope, report: Report) -> None:
    """BT180 and BT181."""
    settings = [item for item in scope.topology.settings.values() if item.vhost == scope.vhost]
    vhost = scope.topology.vhosts[scope.vhost]
    declared: list[Exchange | Queue | Setting | Vhost] = [
        *scope.exchanges.values(),
        *scope.queues.values(),
        *settings,
        vhost,
    ]
    for item in declared:
        names = without_effect(item)
        if names:
            stated = "; ".join(f"{name!r}: {why}" for name, why in names.items())
            report.add("BT181" if isinstance(item, Setting | Vhost) else "BT180", subject_of(item), stated)
