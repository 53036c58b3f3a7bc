"""Limits of vhosts as RabbitMQ keeps them: a parameter each, of which `max-queues` bounds what may be declared.

A queue that is there can be declared again whatever the limit; lowering it deletes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bindery.router.errors import InvalidDeclaration
from bindery.router.model import Setting, Topology
from bindery.router.model.objects import PARAMETER_PREFIX
from bindery.router.values import Table

LIMITS_KIND: Final = f"{PARAMETER_PREFIX}vhost-limits"
LIMITS_NAME: Final = "limits"
MAX_QUEUES: Final = "max-queues"


def limits_of(setting: Setting | None) -> Table:
    """The limits that a parameter states: name -> number; none without one."""
    return setting.value if setting is not None and isinstance(setting.value, Table) else Table()


def max_queues(topology: Topology, vhost: str) -> int | None:
    """How many queues a vhost may have; None without a limit, which a negative one is, too."""
    limit = limits_of(topology.settings.get((LIMITS_KIND, vhost, LIMITS_NAME))).get(MAX_QUEUES)
    return limit if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0 else None


class QueueRoom:
    """How many more queues some vhosts may have: what a topology says, less what was taken."""

    def __init__(self, topology: Topology, vhosts: Iterable[str]) -> None:
        found = {vhost: max_queues(topology, vhost) for vhost in vhosts}
        self._limits = {vhost: limit for vhost, limit in found.items() if limit is not None}
        self._left = self._limits.copy()
        if self._left:
            for vhost, _ in topology.queues:
                if vhost in self._left:
                    self._left[vhost] -= 1

    def take(self, vhost: str, name: str) -> None:
        """Count a new queue; raises InvalidDeclaration, in the broker's words, for the first one too many."""
        left = self._left.get(vhost)
        if left is None:
            return
        if left <= 0:
            del self._left[vhost]
            raise InvalidDeclaration(
                f"cannot declare queue '{name}': queue limit in vhost '{vhost}' ({self._limits[vhost]}) is reached",
                where=f"queue '{name}'",
            )
        self._left[vhost] = left - 1
