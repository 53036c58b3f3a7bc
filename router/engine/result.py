"""What routing a batch gives: who gets which rows, what matched on the way, and what could not be routed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int8s = npt.NDArray[np.int8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Why a message reached no queue; `Unroutable.reason` holds positions in this tuple. The reasons about
#: records (`invalid_record`, `too_large`) and `duplicate` are given by whoever reads records, never by the engine.
REASONS: Final = (
    "no_exchange",
    "internal_exchange",
    "no_binding",
    "filtered",
    "alternate_missing",
    "invalid_record",
    "too_large",
    "filter_error",
    "duplicate",
)
#: What became of it: given back to a mandatory publisher, refused (Broker-J §4.6.4 REJECT), or dropped; `delivered`
#: to some queues, while a defect in a filter may have kept it from others.
DISPOSITIONS: Final = ("returned", "rejected", "discarded", "delivered")

NO_EXCHANGE: Final = REASONS.index("no_exchange")
INTERNAL_EXCHANGE: Final = REASONS.index("internal_exchange")
NO_BINDING: Final = REASONS.index("no_binding")
FILTERED: Final = REASONS.index("filtered")
ALTERNATE_MISSING: Final = REASONS.index("alternate_missing")
FILTER_ERROR: Final = REASONS.index("filter_error")
#: The reason of a message that was left out because the one that it repeats was routed.
DUPLICATE: Final = "duplicate"

RETURNED: Final = DISPOSITIONS.index("returned")
REJECTED: Final = DISPOSITIONS.index("rejected")
DISCARDED: Final = DISPOSITIONS.index("discarded")
DELIVERED: Final = DISPOSITIONS.index("delivered")


@dataclass(frozen=True)
class Unroutable:
    """The messages of a batch that reached no queue, or that may have missed one.

    rows         int32[u]  message rows, ascending
    reason       int8[u]   positions in REASONS
    disposition  int8[u]   positions in DISPOSITIONS
    detail       u texts   which exchange, alternate or filter it was
    recorded     bool[u]   False: counted only (Broker-J DISCARD with `x-record-unroutable: false`)
    """

    rows: Int32s
    reason: Int8s
    disposition: Int8s
    detail: list[str | None]
    recorded: Bools

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Work:
    """Steps taken, for guards against complexity: they must not grow with bindings that cannot match.

    states        (message, exchange, keys) evaluated
    entered       entries made into the index that tells known states from new ones
    node_visits   topic trie nodes and headers postings touched
    filter_pairs  (message, filter group) pairs handed to the filters
    candidates    (message, filter) pairs that these led to: the filters that were looked at
    """

    states: int = 0
    entered: int = 0
    node_visits: int = 0
    filter_pairs: int = 0
    candidates: int = 0


@dataclass(frozen=True)
class Counts:
    """Counters of one batch.

    ids, hits            int32[k], int64[k]  per binding and divert id: messages that it matched
    reasons              int64[len(REASONS)] unroutable messages per reason
    trouble_ids, trouble int32[j], int64[j]  per binding and divert id: filter evaluations that met run-time
                         trouble (they read as unknown); -1 - n stands for the filter of queue n
    error_ids, errors    int32[e], int64[e]  likewise: filter evaluations that failed, a defect
    unparsable           ("exchange" or "queue", its name, `Unparsable.kind`) -> messages with a body that filters there
                         asked for and that is not what was declared; each once at each place, however many filters ask
    """

    ids: Int32s
    hits: Int64s
    reasons: Int64s
    trouble_ids: Int32s
    trouble: Int64s
    error_ids: Int32s
    errors: Int64s
    unparsable: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    work: Work = field(default_factory=Work)


@dataclass
class Compared:
    """Messages of a canary, routed by the present topology and by the candidate; sums.

    messages, differing  all of them, and those that the candidate does not bring to the same set of queues
    gained, lost         queue -> copies that the candidate alone, or the present alone, brings there
    before, after        reason -> messages that reach no queue by the present, and by the candidate
    examples             ("gained" or "lost", queue) -> the place in the batch of the first such message
    """

    messages: int = 0
    differing: int = 0
    gained: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    examples: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True)
class Forms:
    """Messages as transformations have changed them (docs/transform.md), where a queue gets them so.

    message  int32[f]  the message row that each is a form of
    number   int32[f]  its number among the forms of its message, from 1; it follows from the message alone
    changed  the sections that may differ, one row per form; all else is as in the message
    """

    message: Int32s
    number: Int32s
    changed: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.message)

    def behind(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the forms behind its messages; `Deliveries.copy` holds rows of it."""
        rows = pa.array(self.message)
        columns = [
            pa.concat_arrays(
                [column, self.changed.column(name) if name in self.changed.schema.names else column.take(rows)]
            )
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


@dataclass(frozen=True)
class Deliveries:
    """Where the messages of one batch go.

    queue       int32[t]    touched queue numbers (positions in `Router.queues`), ascending
    offsets     int64[t+1]  `rows[offsets[i]:offsets[i + 1]]` are the message rows of `queue[i]`
    rows        int32[c]    ascending within each queue, each row once a queue and form
    lineage     list<int32> per message: the sorted ids of every binding and divert that matched it on its way
    reached     list<int32> per message: the numbers of the queues that it reached, each once; with forms per row of
                `forms.behind(batch)`
    unroutable  the messages that reached no queue
    incomplete  messages that reached a queue, but met a filter that could not be evaluated: a copy may be missing
    versions    int64[n]    per message: the topology version that routed it; None: the router's own
    compared    how messages of a canary would go otherwise; None where none runs
    """

    queue: Int32s
    offsets: Int64s
    rows: Int32s
    lineage: pa.ListArray
    reached: pa.ListArray
    unroutable: Unroutable
    incomplete: Unroutable
    counts: Counts
    #: The changed forms in which copies are, if any is: then `copy` has for each copy its row of `forms.behind(batch)`.
    forms: Forms | None = None
    copy: Int32s | None = None
    versions: Int64s | None = None
    compared: Compared | None = None

    @property
    def written(self) -> Int32s:
        """int32[c]: the row of each copy in the batch or, with forms, in the batch with the forms behind it."""
        return self.rows if self.copy is None else self.copy

    def without(self, copies: Bools) -> Deliveries:
        """The same without some of the copies (bool[c], by their places in `rows`); what was reached stays reached."""
        numbers = np.repeat(np.arange(len(self.queue)), np.diff(self.offsets))[~copies]
        left = np.bincount(numbers, minlength=len(self.queue))
        touched = left > 0
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(left[touched])])
        return replace(
            self,
            queue=self.queue[touched],
            offsets=offsets,
            rows=self.rows[~copies],
            copy=None if self.copy is None else self.copy[~copies],
        )

    def rows_of(self, queue: int) -> Int32s:
        """The message rows that a queue number gets, one a copy (empty when it is not touched)."""
        place = int(np.searchsorted(self.queue, queue))
        if place == len(self.queue) or self.queue[place] != queue:
            return self.rows[:0]
        return self.rows[self.offsets[place] : self.offsets[place + 1]]
