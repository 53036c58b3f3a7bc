"""Freshness: how long copies for a queue may wait in the journal of their stream before its table has them.

A queue without is materialised with every batch. `x-freshness`, in seconds, makes it a deferred one; so does a policy
(`freshness`), or the default of a job for queues of which neither says anything. Where several state a number the
lowest holds, as with the limits of a queue (`bindery.router.queue_limits`); 0 is at every batch.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bindery.router.errors import InvalidDeclaration
from bindery.router.model import Queue, Topology
from bindery.router.policies import OPERATOR_POLICY, Policies
from bindery.router.values import Value, encode

Flags = npt.NDArray[np.bool_]

#: The key of policies, and the argument of queues.
FRESHNESS: Final = "freshness"
FRESHNESS_ARGUMENT: Final = "x-freshness"
#: Seconds that copies may wait at most: a day, well within what journals keep.
MOST_SECONDS: Final = 86_400
EXPECTED: Final = f"seconds, from 0 (at every batch) to {MOST_SECONDS:,}"


class FreshnessOf:
    """How fresh the tables of the queues of one topology are."""

    def __init__(self, topology: Topology) -> None:
        self._policies = [Policies(topology), Policies(topology, kind=OPERATOR_POLICY)]

    def __call__(self, queue: Queue, default: int = 0) -> int:
        """Seconds that copies for a queue may wait; 0 for one that has them with every batch."""
        stated = [queue.arguments.get(FRESHNESS_ARGUMENT)]
        for policies in self._policies:
            found = policies.applying("queues", queue.vhost, queue.name)
            stated.append(None if found is None else found.definition.get(FRESHNESS))
        # of an older topology a value may be anything
        return min((value for value in stated if isinstance(value, int) and is_freshness(value)), default=default)


def deferred_queues(topology: Topology, vhost: str, freshness: int) -> Flags:
    """Which queues of a vhost, by their numbers, are deferred where `freshness` (seconds) is the job's default."""
    fresh = FreshnessOf(topology)
    return np.array([fresh(queue, freshness) > 0 for queue in topology.in_vhost(vhost)[1]], np.bool_)


def is_freshness(value: Value) -> bool:
    """Whether a value is a freshness."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_SECONDS


def check_freshness(queue: Queue) -> None:
    """Refuse an argument that is no freshness; raises InvalidDeclaration."""
    value = queue.arguments.get(FRESHNESS_ARGUMENT, 0)
    if not is_freshness(value):
        raise InvalidDeclaration(
            f"argument {FRESHNESS_ARGUMENT!r} is {encode(value)!r}",
            where=f"queue {queue.name!r}: arguments.{FRESHNESS_ARGUMENT}",
            hint=EXPECTED,
        )
