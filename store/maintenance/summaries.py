"""Summaries of the manifest: rows of batches that are long past, as one row per stream and month.

All sums stay what they were (`bindery.store.totals`): a summary says how many batches it stands for, and of how many
each stage was timed. What tells one batch from another goes: batch id, topology version, clock, digest. The
newest batches of every app id stay, however old: a stream that starts again is checked against them.

A day is summed up at most once; the commit says which (transaction identifier `bindery.summed`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from bindery.store import tables
from bindery.store.actions import AddFile, Transaction
from bindery.store.log import TableLog
from bindery.store.maintenance.compaction import replace_files
from bindery.store.maintenance.merging import write_groups
from bindery.store.maintenance.policy import Policy
from bindery.store.maintenance.table_places import TablePlace
from bindery.store.maintenance.tiers import row_order
from bindery.store.manifest import MANIFEST, SUMMED, canary_rows, unparsable_rows
from bindery.store.places import at

#: Batches of each app id that stay as they are, whatever their age.
KEPT: Final = 256
_ONCE: Final = "bindery.summed"
_DAY_MS: Final = 86_400_000
#: Rows that are looked at together: each becomes some kilobytes of objects.
_AT_ONCE: Final = 256
#: Columns that map what is counted to numbers.
_COUNTED: Final = ("bindings", "unroutable", "filter_unknowns", "filter_errors", "requests", "invalid")


@dataclass(slots=True)
class _Sum:
    """What the batches of one stream in one month did."""

    stream: str
    batches: int = 0
    records: int = 0
    copies: int = 0
    committed_at: datetime | None = None
    tables: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    exchanges: Counter[tuple[str, str]] = field(default_factory=Counter)
    bindings: Counter[int] = field(default_factory=Counter)
    unroutable: Counter[str] = field(default_factory=Counter)
    filter_unknowns: Counter[str] = field(default_factory=Counter)
    filter_errors: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    invalid: Counter[str] = field(default_factory=Counter)
    unparsable: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    canary: dict[tuple[str, int, str, str], tuple[int, str | None]] = field(default_factory=dict)
    timings_ms: dict[str, float] = field(default_factory=dict)
    timed: Counter[str] = field(default_factory=Counter)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the row of a batch, or of other batches that were summed up before."""
        self.batches += row[SUMMED] or 1
        self.records += row["records"] or 0
        self.copies += row["copies"] or 0
        moment = row["committed_at"]
        self.committed_at = moment if self.committed_at is None else max(moment, self.committed_at)
        for one in row["tables"] or ():
            known = self.tables.setdefault(
                (one["kind"], one["vhost"], one["name"]), dict(one, rows=0, retries=0, dropped=0)
            )
            known["version"] = max(known["version"] or 0, one["version"] or 0)
            for name in ("rows", "retries", "dropped"):
                known[name] += one[name] or 0
        for one in row["exchanges"] or ():
            self.exchanges[one["vhost"], one["name"]] += one["records"]
        for one in row["unparsable"] or ():
            self.unparsable[one["kind"], one["vhost"], one["name"], one["reason"]] += one["messages"]
        for one in row["canary"] or ():
            place = (one["vhost"], one["started"], one["what"], one["name"])
            number, example = self.canary.get(place, (0, None))
            self.canary[place] = (number + one["messages"], example or one["example"])
        for name in _COUNTED:
            getattr(self, name).update(dict(row[name] or ()))
        for stage, spent in row["timings_ms"] or ():
            self.timings_ms[stage] = self.timings_ms.get(stage, 0.0) + spent
        self.timed.update(
            dict(row["timed"]) if row["timed"] is not None else dict.fromkeys(dict(row["timings_ms"] or ()), 1)
        )

    def as_row(self) -> dict[str, Any]:
        """The summary as a row of the manifest."""
        return {
            "stream": self.stream,
            "committed_at": self.committed_at,
            "tables": [self.tables[key] for key in sorted(self.tables)],
            "records": self.records,
            "copies": self.copies,
            "exchanges": [
                {"vhost": vhost, "name": name, "records": number}
                for (vhost, name), number in sorted(self.exchanges.items())
            ],
            "unparsable": unparsable_rows(self.unparsable),
            "canary": canary_rows(self.canary),
            **{name: sorted(getattr(self, name).items()) for name in (*_COUNTED, "timings_ms", "timed")},
            SUMMED: self.batches,
        }


def summarise(place: TablePlace, log: TableLog, policy: Policy, now_ms: int) -> int:
    """Sum up what is older than the manifest's retention, once a day; how many rows of batches went.

    `log` has its files. Raises what a commit raises.
    """
    day = (now_ms - int(policy.manifest_retention.total_seconds() * 1000)) // _DAY_MS
    log.refresh()
    if day <= (log.transaction_version(_ONCE) or 0):
        return 0
    until = datetime.fromtimestamp(day * _DAY_MS / 1000, UTC)
    oldest = [file for file in tables.files_of(log).values() if row_order(file)[0] < day * _DAY_MS]
    if not oldest:
        return 0
    tables.grow(log, MANIFEST)
    sums: dict[tuple[str, str], _Sum] = {}
    gone = [0]

    def groups() -> Iterator[pa.Table]:
        """The rows that stay, then the summaries."""
        for rows in _rows(place, oldest):
            kept = []
            for row in rows.to_pylist():
                is_batch = row[SUMMED] is None
                stays = row["committed_at"] >= until or (is_batch and _is_new(log, row))
                kept.append(stays)
                if not stays:
                    gone[0] += is_batch
                    key = (row["stream"], f"{row['committed_at']:%Y-%m}")
                    sums.setdefault(key, _Sum(row["stream"])).add(row)
            if any(kept):
                yield rows.filter(pa.array(kept))
        if sums:
            yield pa.Table.from_pylist([one.as_row() for _, one in sorted(sums.items())], schema=MANIFEST.schema)

    added = write_groups(
        log.path, groups(), MANIFEST.schema, statistics=place.statistics, target_bytes=policy.target_bytes
    )
    once = Transaction(_ONCE, day)
    return gone[0] if replace_files(log, oldest, added, change="summarise", transactions=[once]) else 0


def _is_new(log: TableLog, row: Mapping[str, Any]) -> bool:
    """Whether a batch is one of the newest of its app id."""
    newest = log.transaction_version(row["app_id"])
    return newest is None or row["batch_id"] > newest - KEPT


def _rows(place: TablePlace, files: list[AddFile]) -> Iterator[pa.Table]:
    for file in sorted(files, key=row_order):
        rows = at(place.path, file.path).read_parquet(MANIFEST.schema)
        for start in range(0, len(rows), _AT_ONCE):
            yield rows.slice(start, _AT_ONCE)
