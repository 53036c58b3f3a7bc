"""Which rows of a queue its limits do not allow, at one moment.

1. In a last value queue a row is replaced by the next one that has the same value, as in Artemis: unless it had expired
   by then. Rows without the property stay.
2. Rows expire: those that have been in the queue for its TTL, or for their own `header.ttl` if that is shorter. Age
   counts from `routed_at`. A broker drops an expired message when it has come to the head; here it goes wherever it is.
3. Of what stays, the oldest in row order go beyond the length, and beyond the bytes of bodies (RabbitMQ's
   `drop-head`).

Files tell when their rows were routed: one whose rows are all younger than the TTL is not read, one whose rows are
all older goes without being read, and so do the files that hold nothing but the oldest rows. The shortest `header.ttl`
stands in the footer of a file. What bodies weigh is read once by a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.message import QUEUE_SCHEMA, TIMESTAMP
from bindery.router.queue_limits import QueueLimits
from bindery.store import file_rows, tables
from bindery.store.actions import AddFile
from bindery.store.limit_counts import REASONS, Reason
from bindery.store.log import TableLog
from bindery.store.row_order import ORDER_COLUMNS, Rows, first_rows, in_order
from bindery.store.statistics import Span, stated_span

Codes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

_STAYS: Final = 0
_CODES: Final[Mapping[Reason, int]] = {reason: number for number, reason in enumerate(REASONS, 1)}
_NEVER: Final = (1 << 63) - 1
#: Milliseconds that no moment is beyond, in microseconds as well.
_LONGEST_MS: Final = 1 << 52
#: Files of which a process knows what their rows weigh, and how soon they expire.
_KNOWN_FILES: Final = 1 << 16
#: Queues of which a process knows what is replaced in their present files.
_KNOWN_QUEUES: Final = 1 << 10
#: (path, key, TTL) -> files, and the rows of them that are replaced.
_REPLACED: Final[dict[tuple[str, str, int | None], tuple[frozenset[str], dict[str, Numbers]]]] = {}


@dataclass
class Judged:
    """Rows that go: by file, a number for each of its rows, 0 for one that stays.

    Files of which all stay are not in it.

    next_us  microseconds since 1970 before which, by the TTL, none of the others goes; None where there is no TTL
    """

    marks: dict[str, Codes] = field(default_factory=dict)
    next_us: int | None = None

    def counts(self) -> Counter[Reason]:
        """How many rows go, by reason."""
        return +Counter({reason: sum(map(len, self.places(reason).values())) for reason in REASONS})

    def places(self, reason: Reason | None = None) -> dict[str, Numbers]:
        """The rows that go, for one reason or any, by file."""
        found = {
            name: np.flatnonzero(codes if reason is None else codes == _CODES[reason])
            for name, codes in self.marks.items()
        }
        return {name: places for name, places in found.items() if len(places)}

    def only(self, reasons: Sequence[Reason]) -> Judged:
        """Of what goes, what goes for these reasons."""
        codes = [_CODES[reason] for reason in reasons]
        kept = {name: np.where(np.isin(marks, codes), marks, _STAYS) for name, marks in self.marks.items()}
        return Judged({name: marks for name, marks in kept.items() if marks.any()}, self.next_us)

    def but(self, reason: Reason) -> dict[str, Rows]:
        """By file with rows that go, the rows that do not go for this reason."""
        return {name: codes != _CODES[reason] for name, codes in self.marks.items()}

    def whole(self, name: str) -> bool:
        """Whether every row of a file goes."""
        return name in self.marks and bool(self.marks[name].all())


def judge(log: TableLog, limits: QueueLimits, now_us: int) -> Judged:
    """Which rows of a queue go at a moment (microseconds since 1970), by the files of its log."""
    tables.rows_in(log)  # notes the rows of files that do not state them
    files = {name: file for name, file in tables.files_of(log).items() if file.rows}
    looking = _Looking(log.path, files)
    if limits.last_value_key is not None:
        looking.replace(limits.last_value_key, limits.ttl_ms)
    if limits.ttl_ms is not None:
        looking.expire(limits.ttl_ms, now_us)
    if limits.max_rows is not None:
        looking.shorten(limits.max_rows)
    if limits.max_bytes is not None:
        looking.lighten(limits.max_bytes)
    return Judged({name: codes for name, codes in looking.marks.items() if codes.any()}, looking.next_us)


class _Looking:
    """The files of a queue while they are judged; `marks` grow."""

    def __init__(self, path: str, files: Mapping[str, AddFile]) -> None:
        self._path = path
        self._files = files
        self._spans: dict[str, Span] = {name: stated_span(path, file) for name, file in files.items()}
        self.marks: dict[str, Codes] = {}
        self.next_us: int | None = None

    # -- last values ----------------------------------------------------------------------------------

    def replace(self, key: str, ttl_ms: int | None) -> None:
        """Mark what later rows replace; this depends on the files alone, so it is found out once for them."""
        known = _REPLACED.get((self._path, key, ttl_ms))
        if known is None or known[0] != self._files.keys():
            known = _REPLACED[self._path, key, ttl_ms] = (frozenset(self._files), self._replaced(key, ttl_ms))
            if len(_REPLACED) > _KNOWN_QUEUES:
                del _REPLACED[next(iter(_REPLACED))]
        for name, places in known[1].items():
            self._mark(name, "replaced", _mask(self._rows(name), places))

    def _replaced(self, key: str, ttl_ms: int | None) -> dict[str, Numbers]:
        parts = []
        for number, name in enumerate(self._files):
            columns = [*ORDER_COLUMNS, "application_properties"]
            rows = file_rows.read(self._path, name, QUEUE_SCHEMA, columns=columns).combine_chunks()
            rows = rows.append_column("value", _values(rows["application_properties"].combine_chunks(), key))
            rows = rows.append_column("file", pa.array(np.full(len(rows), number)))
            rows = rows.append_column("row", pa.array(np.arange(len(rows))))
            ends = np.full(len(rows), _NEVER) if ttl_ms is None else self._ends(name, _microseconds(ttl_ms))
            rows = rows.append_column("ends", pa.array(ends)).drop_columns("application_properties")
            parts.append(rows.filter(rows["value"].is_valid()))
        rows = pa.concat_tables(parts) if parts else None
        if rows is None or not len(rows):
            return {}
        rows = rows.take(in_order(rows)).combine_chunks()
        values = rows["value"].combine_chunks().dictionary_encode().indices.to_numpy()
        rows = rows.take(pa.array(np.argsort(values, kind="stable")))
        values = np.sort(values, kind="stable")
        routed = rows["routed_at"].cast(TIMESTAMP).cast(pa.int64()).fill_null(_NEVER).to_numpy()
        ends = rows["ends"].to_numpy()
        alive = (routed[1:] < ends[:-1]) | (ends[:-1] == _NEVER)
        gone = rows.filter(pa.array(np.append((values[1:] == values[:-1]) & alive, False)))
        numbers, places = gone["file"].to_numpy(), gone["row"].to_numpy()
        return {name: places[numbers == number] for number, name in enumerate(self._files) if (numbers == number).any()}

    # -- age ------------------------------------------------------------------------------------------

    def expire(self, ttl_ms: int, now_us: int) -> None:
        """Mark what has expired."""
        ttl_us = _microseconds(ttl_ms)
        found = []
        for name, span in self._spans.items():
            if span.last <= now_us - ttl_us:
                self._mark(name, "expired", np.ones(self._rows(name), np.bool_))
                continue
            shortest = min(ttl_us, _shortest_own(self._path, name))
            if span.first <= now_us - shortest:
                ends = self._ends(name, ttl_us)
                self._mark(name, "expired", ends <= now_us)
                found.append(int(ends[ends > now_us].min(initial=_NEVER)))
            else:
                found.append(span.first + shortest)
        self.next_us = min((end for end in found if end < _NEVER), default=None)

    def _ends(self, name: str, ttl_us: int) -> Numbers:
        """When the rows of a file expire; a row without a time never does."""
        rows = file_rows.read(self._path, name, QUEUE_SCHEMA, columns=["header", "routed_at"])
        routed = rows["routed_at"].cast(TIMESTAMP).cast(pa.int64())
        own = pc.struct_field(rows["header"].combine_chunks(), "ttl").fill_null(_LONGEST_MS)
        lives = np.minimum(np.clip(own.to_numpy(zero_copy_only=False), 0, _LONGEST_MS) * 1_000, ttl_us)
        known = np.asarray(routed.is_valid().to_numpy())
        ends: Numbers = np.where(known, routed.fill_null(0).to_numpy() + lives, _NEVER)
        return ends

    # -- length ---------------------------------------------------------------------------------------

    def shorten(self, most: int) -> None:
        """Mark the oldest rows beyond so many."""
        left = {name: self._left(name) for name in self._files}
        excess = sum(left.values()) - most
        names = sorted((name for name in left if left[name]), key=lambda name: self._spans[name].first)
        while excess > 0:
            first, others = names[0], names[1:]
            if left[first] > excess or (others and self._spans[others[0]].first <= self._spans[first].last):
                break
            self._mark(first, "maxlen", np.ones(self._rows(first), np.bool_))
            excess -= left[first]
            names = others
        if excess > 0:
            oldest = first_rows(
                self._path,
                {name: self._files[name] for name in names},
                excess,
                lambda batch: np.ones(batch.num_rows, np.bool_),
                without={name: codes != _STAYS for name, codes in self.marks.items()},
            )
            for name, places in oldest.positions.items():
                self._mark(name, "maxlen", _mask(self._rows(name), places))

    def lighten(self, most: int) -> None:
        """Mark the oldest rows whose bodies, with those of all later rows, are more bytes."""
        if sum(self._weight(name) for name in self._files) <= most:
            return
        parts = []
        for number, name in enumerate(self._files):
            stays = np.flatnonzero(self._stays(name))
            if len(stays):
                rows = file_rows.read(self._path, name, QUEUE_SCHEMA, columns=ORDER_COLUMNS).take(pa.array(stays))
                rows = rows.append_column("file", pa.array(np.full(len(stays), number)))
                rows = rows.append_column("row", pa.array(stays))
                parts.append(rows.append_column("bytes", pa.array(_sizes(self._path, name)[stays])))
        rows = pa.concat_tables(parts)
        rows = rows.select(["file", "row", "bytes"]).take(in_order(rows))
        with_later = np.cumsum(rows["bytes"].to_numpy()[::-1])[::-1]
        gone = rows.filter(pa.array(with_later > most))
        numbers, places = gone["file"].to_numpy(), gone["row"].to_numpy()
        for number, name in enumerate(self._files):
            mine = places[numbers == number]
            if len(mine):
                self._mark(name, "maxlen", _mask(self._rows(name), mine))

    def _weight(self, name: str) -> int:
        """The bytes of the bodies of the rows that stay in a file."""
        if name not in self.marks:
            return _bytes_of(self._path, name)
        return int(_sizes(self._path, name)[self._stays(name)].sum())

    # -- marks ----------------------------------------------------------------------------------------

    def _rows(self, name: str) -> int:
        return self._files[name].rows or 0

    def _stays(self, name: str) -> Rows:
        return self.marks[name] == _STAYS if name in self.marks else np.ones(self._rows(name), np.bool_)

    def _left(self, name: str) -> int:
        return int(self._stays(name).sum()) if name in self.marks else self._rows(name)

    def _mark(self, name: str, reason: Reason, rows: Rows) -> None:
        """Rows of a file go, unless they go already."""
        if rows.any():
            codes = self.marks.setdefault(name, np.zeros(self._rows(name), np.uint8))
            codes[rows & (codes == _STAYS)] = _CODES[reason]


def _microseconds(milliseconds: int) -> int:
    return min(milliseconds, _LONGEST_MS) * 1_000


def _values(properties: pa.MapArray, key: str) -> pa.Array:
    """The values of a property, as bytes that differ where type or value does; null where there is none."""
    value = pc.map_lookup(properties, key, "first")
    found = []
    for member in value.type:
        part = pc.struct_field(value, member.name)
        if pa.types.is_timestamp(member.type):
            part = part.cast(pa.int64())
        if not pa.types.is_binary(member.type):
            part = part.cast(pa.string()).cast(pa.binary())
        found.append(pc.binary_join_element_wise(f"{member.name}:".encode(), part, b""))
    return pc.coalesce(*found)


def _mask(rows: int, places: Sequence[int] | Numbers) -> Rows:
    mask = np.zeros(rows, np.bool_)
    mask[places] = True
    return mask


@lru_cache(maxsize=_KNOWN_FILES)
def _shortest_own(path: str, name: str) -> int:
    """The shortest `header.ttl` of a file, in microseconds, as far as its footer tells; a file never changes."""
    shortest = _LONGEST_MS
    for stated in _stated_ttl(path, name):
        shortest = min(shortest, stated)
    return max(shortest, 0) * 1_000


def _stated_ttl(path: str, name: str) -> Iterator[int]:
    """The shortest `header.ttl` of each part of a file that has any; 0 where nothing is stated."""
    metadata = file_rows.footer(path, name)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            if column.path_in_schema != "header.ttl":
                continue
            stats = column.statistics
            if stats is None:
                yield 0
            elif stats.has_min_max:
                yield int(stats.min)
            elif stats.null_count != column.num_values:
                yield 0


@lru_cache(maxsize=_KNOWN_FILES)
def _bytes_of(path: str, name: str) -> int:
    """The bytes of the bodies in a file; a file never changes."""
    return int(_sizes(path, name).sum())


def _sizes(path: str, name: str) -> Numbers:
    """The bytes of each body in a file: the data, or the text or bytes of an AMQP value or sequence."""
    columns = ["body", "amqp_value", "amqp_sequence"]
    sizes = []
    for batch in file_rows.batches(path, name, QUEUE_SCHEMA, columns=columns):
        values = [batch.column(column) for column in columns[1:]]
        parts = [
            batch.column("body"),
            *(pc.struct_field(value, member) for value in values for member in ("string", "binary", "nested")),
        ]
        sizes.append(sum(pc.binary_length(part).fill_null(0).to_numpy().astype(np.int64) for part in parts))
    found: Numbers = np.concatenate(sizes) if sizes else np.zeros(0, np.int64)
    return found
