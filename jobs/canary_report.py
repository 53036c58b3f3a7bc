"""How a canary does, for people: what streams have counted, and an example of each difference, explained."""

from __future__ import annotations

from typing import Any, Final

from bindery.jobs.comparison import Example, Reporter
from bindery.router.canary import canary_of
from bindery.router.errors import BinderyError
from bindery.router.message import MESSAGE_SCHEMA, from_batch
from bindery.router.model import Topology
from bindery.store.canaries import status
from bindery.store.paths import DataDir
from bindery.store.recorded import find_row, parse_row
from bindery.store.topology import TopologyStore
from bindery.store.totals import Totals

#: Examples that are looked up and explained: of the queues that differ most.
EXPLAINED: Final = 10


def report(data: DataDir, store: TopologyStore, totals: Totals, vhost: str) -> dict[str, Any]:
    """The canary of a vhost and its comparison, with examples explained while it runs; JSON-ready.

    Raises NotFound where none was ever begun. A message that no table and no journal has any more is not explained.
    """
    found = status(store, totals, vhost)
    topology = store.load()
    canary = canary_of(topology, vhost)
    left = EXPLAINED if canary is not None and canary.is_running else 0
    queues = found["comparison"]["queues"]
    reporter = None
    for entry in queues:
        entry["examples"] = []
        for direction in ("gained", "lost"):
            row = entry.pop(f"{direction}_example")
            if row is None:
                continue
            shown: dict[str, Any] = {"direction": direction, "row": row}
            if left and canary is not None:
                left -= 1
                if reporter is None:
                    candidate = store.load(version=canary.version)
                    reporter = Reporter(vhost, {topology.version: topology}, candidate)
                shown |= _explained(data, topology, vhost, reporter, entry["queue"], direction, row)
            entry["examples"].append(shown)
    return found


def _explained(
    data: DataDir, topology: Topology, vhost: str, reporter: Reporter, queue: str, direction: str, row: str
) -> dict[str, Any]:
    try:
        recorded = find_row(data, topology, vhost, parse_row(row))
    except BinderyError:
        return {}
    (message,) = from_batch(recorded.batch.select(MESSAGE_SCHEMA.names))
    example = Example(row, topology.version, recorded.clock_ms, message.as_json())
    explained = reporter.example(queue, direction, example)
    return {name: explained[name] for name in ("because", "not_because")}
