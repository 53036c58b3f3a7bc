"""Counts of what went wrong in filters, by the text of the filter: numbers of bindings mean nothing to a reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bindery.router.engine import Deliveries
from bindery.router.model import FILTERS_ARGUMENT, QUEUE_FILTER, SELECTOR_ARGUMENT, Topology
from bindery.router.values import Value, to_nested_text


def filter_counts(deliveries: Deliveries, topology: Topology, vhost: str) -> dict[str, dict[str, int]]:
    """`filter_unknowns` and `filter_errors` of `BatchCounts` for a batch that was routed with this topology."""
    counts = deliveries.counts
    trouble = dict(zip(counts.trouble_ids.tolist(), counts.trouble.tolist(), strict=True))
    errors = dict(zip(counts.error_ids.tolist(), counts.errors.tolist(), strict=True))
    return {
        "filter_unknowns": by_filter_text(topology, vhost, trouble),
        "filter_errors": by_filter_text(topology, vhost, errors),
    }


def by_filter_text(topology: Topology, vhost: str, by_owner: Mapping[int, int]) -> dict[str, int]:
    """Evaluations of filters, given by owner as in `bindery.router.engine.Counts`."""
    if not by_owner:
        return {}
    diverts = {divert.id: divert.filter for divert in topology.diverts.values()}
    queues = topology.in_vhost(vhost)[1]
    texts: Counter[str] = Counter()
    for number, times in by_owner.items():
        found: list[Value]
        if number < 0:
            found = [queues[-1 - number].arguments.get(QUEUE_FILTER)]
        elif number in diverts:
            found = [diverts[number]]
        else:
            arguments = topology.bindings[number].arguments
            found = [arguments.get(name) for name in (SELECTOR_ARGUMENT, FILTERS_ARGUMENT)]
        shown = [value if isinstance(value, str) else to_nested_text(value) for value in found if value is not None]
        texts[" AND ".join(shown)] += times
    return dict(texts)
