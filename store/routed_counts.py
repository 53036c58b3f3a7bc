"""What a batch counts while it is routed: sums over its parts, and the manifest's form of them.

Filters are counted by their text: numbers of bindings mean nothing to a reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.canary import running_canary
from bindery.router.engine import REASONS, Compared, Deliveries
from bindery.router.links import FILTER_ARGUMENTS
from bindery.router.model import QUEUE_FILTER, Topology
from bindery.router.values import Value, to_nested_text
from bindery.store.manifest import BatchCounts
from bindery.store.problems import Problem, add_alike

#: What a comparison counts by queue, or by reason.
CANARY_COUNTS: Final = ("gained", "lost", "before", "after")
#: Counts whose keys are no text.
_PAIRED: Final = frozenset(("bindings", "trouble", "errors", "unparsable", "canary", "canary_examples"))


class RoutedCounts:
    """Sums over the messages of a batch, or over its parts; `bytes` is what was read, as far as anybody says so."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.copies = 0
        self.exchanges: Counter[str] = Counter()
        self.bindings: Counter[int] = Counter()
        self.unroutable: Counter[str] = Counter()
        #: Invalid records by kind, and what a summary shows of them.
        self.invalid: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self.trouble: Counter[int] = Counter()
        self.errors: Counter[int] = Counter()
        #: Bodies that filters could not read (`bindery.router.engine.Counts.unparsable`).
        self.unparsable: Counter[tuple[str, str, str]] = Counter()
        #: Requests to an object store, by kind.
        self.requests: Counter[str] = Counter()
        #: What a canary counted, by (what, queue or reason), and the number of a message for each that names a queue.
        self.canary: Counter[tuple[str, str]] = Counter()
        self.canary_examples: dict[tuple[str, str], int] = {}

    def add(self, messages: pa.RecordBatch, deliveries: Deliveries) -> None:
        """Count routed messages."""
        found = deliveries.counts
        self.records += messages.num_rows
        self.copies += len(deliveries.rows)
        self.exchanges.update(_tally(messages.column("exchange").fill_null("")))
        self.bindings.update(dict(zip(found.ids.tolist(), found.hits.tolist(), strict=True)))
        self.trouble.update(dict(zip(found.trouble_ids.tolist(), found.trouble.tolist(), strict=True)))
        self.errors.update(dict(zip(found.error_ids.tolist(), found.errors.tolist(), strict=True)))
        self.unparsable.update(found.unparsable)
        self.unroutable.update({name: n for name, n in zip(REASONS, found.reasons.tolist(), strict=True) if n})
        if deliveries.compared is not None:
            self._compare(messages, deliveries.compared)

    def _compare(self, messages: pa.RecordBatch, compared: Compared) -> None:
        self.canary.update({("messages", ""): compared.messages})
        if compared.differing:
            self.canary.update({("differing", ""): compared.differing})
        for what in CANARY_COUNTS:
            self.canary.update({(what, name): number for name, number in getattr(compared, what).items()})
        for key, row in compared.examples.items():
            self.canary_examples.setdefault(key, messages.column("seq")[row].as_py())

    def refuse(self, reasons: pa.Array, problems: Sequence[Problem] = ()) -> None:
        """Count records that were never routed, each with its reason, and what is wrong with the invalid ones."""
        self.records += len(reasons)
        self.unroutable.update(_tally(reasons))
        self.invalid.update(problem.kind for problem in problems)
        add_alike(self.problems, Counter(problem.summary for problem in problems).items())

    def as_data(self) -> dict[str, Any]:
        """Plain data for JSON; keys that are no text become pairs."""
        return {name: list(value.items()) if name in _PAIRED else value for name, value in vars(self).items()}

    def merge(self, data: Mapping[str, Any]) -> None:
        """Add what `as_data` gave elsewhere."""
        for name, value in data.items():
            known = getattr(self, name)
            if name == "problems":
                add_alike(known, value.items())
            elif isinstance(known, int):
                setattr(self, name, known + value)
            elif name == "canary_examples":
                for key, number in value:
                    known[tuple(key)] = min(number, known.get(tuple(key), number))
            elif name in ("unparsable", "canary"):
                known.update({tuple(key): number for key, number in value})
            else:
                known.update(dict(value))

    def in_manifest(
        self,
        topology: Topology,
        vhost: str,
        timings_ms: Mapping[str, float] | None = None,
        *,
        batch: str = "",
        candidate: Topology | None = None,
    ) -> BatchCounts:
        """The counts of a batch of the vhost that was routed with this topology, and its canary's with the candidate.

        `batch` is how messages of it are named, "stream:number".
        """
        canary = running_canary(topology, vhost)
        also = topology if candidate is None else candidate
        return BatchCounts(
            records=self.records,
            copies=self.copies,
            exchanges={(vhost, name): number for name, number in self.exchanges.items()},
            bindings=self.bindings,
            unroutable=self.unroutable,
            invalid=self.invalid,
            filter_unknowns=by_filter_text(topology, vhost, self.trouble, also),
            filter_errors=by_filter_text(topology, vhost, self.errors, also),
            unparsable={(kind, vhost, name, why): number for (kind, name, why), number in self.unparsable.items()},
            timings_ms=timings_ms or {},
            requests=self.requests,
            canary={}
            if canary is None
            else {
                (vhost, canary.started, what, name): (
                    number,
                    f"{batch}:{self.canary_examples[what, name]}" if (what, name) in self.canary_examples else None,
                )
                for (what, name), number in self.canary.items()
            },
        )


def _tally(values: pa.Array) -> dict[str, int]:
    return {pair["values"]: pair["counts"] for pair in pc.value_counts(values).to_pylist()}


def by_filter_text(
    topology: Topology, vhost: str, by_owner: Mapping[int, int], also: Topology | None = None
) -> dict[str, int]:
    """Evaluations of filters, given by owner as in `bindery.router.engine.Counts`.

    What is not in the topology is in the other one that messages of the batch were routed with, `also`.
    """
    if not by_owner:
        return {}
    known = [topology] if also is None else [also, topology]
    diverts = {divert.id: divert.filter for one in known for divert in one.diverts.values()}
    bindings = {number: binding for one in known for number, binding in one.bindings.items()}
    queues = topology.in_vhost(vhost)[1]
    texts: Counter[str] = Counter()
    for number, times in by_owner.items():
        found: list[Value]
        if number < 0:
            found = [queues[-1 - number].arguments.get(QUEUE_FILTER)]
        elif number in diverts:
            found = [diverts[number]]
        else:
            arguments = bindings[number].arguments
            found = [arguments.get(name) for name in FILTER_ARGUMENTS]
        shown = [value if isinstance(value, str) else to_nested_text(value) for value in found if value is not None]
        texts[" AND ".join(shown)] += times
    return dict(texts)
