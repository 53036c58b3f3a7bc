"""Folding in the worker: columns as Spark sends them become batches of canonical messages.

Everything is done per column on Arrow arrays. A record that cannot become a message is set apart with
its reason, a detail and its raw form; it never stops the stream.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.jobs.consume import Consumer
from bindery.jobs.reread import Layout
from bindery.router.errors import InvalidInput
from bindery.router.message import SENT_SCHEMA, SOURCE, VALUE, VALUE_MAP, Message, to_batch
from bindery.router.utf8 import repaired, rows_not_utf8
from bindery.store.problems import Problem, misfit, shown
from bindery.store.writer import BATCH_SCHEMA

#: What folds a list of named binaries to a map section, in the place of a member of the VALUE union.
HEADERS: Final = "headers"

Bools = npt.NDArray[np.bool_]

#: Columns that a job adds to the mapped ones: text of an unparsable record, which of its columns are null (see
#: jobs.reread.Layout), raw form of a failed one, place.
CORRUPT_COLUMN: Final = "__corrupt"
MARKS_COLUMN: Final = "__marks"
RAW_COLUMN: Final = "__raw"
SOURCE_COLUMN: Final = "__source"
#: A member of the place: the first byte of the part of the file that a task reads.
BLOCK: Final = "block"


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """A column of the mapped DataFrame and the place in the message that it fills.

    `column` is a column of SENT_SCHEMA, `name` a member or map key of it ("" = the column itself).
    `guarded` columns arrive as struct<v>, null where the expression failed; `shown` is the expression, `uses` the
    columns of the source that it reads and whether each is binary, `cast` the type in SQL where it does nothing but
    cast the one.
    `member` is the field of the VALUE union for a map entry or a value, or HEADERS ("" = no folding needed).
    `boxed` structs arrive as lists of one: for a null struct Spark would write a null to every member of
    Arrow's, one by one, and most messages use few of them.
    """

    arrow: str
    column: str
    name: str = ""
    guarded: bool = False
    shown: str = ""
    member: str = ""
    boxed: bool = False
    uses: tuple[tuple[str, bool], ...] = ()
    cast: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """Records that are no messages: whatever could be read of them, and per row why.

    `problems` are those of the invalid ones alone.
    """

    batch: pa.RecordBatch
    reason: pa.Array
    detail: pa.Array
    raw: pa.Array
    problems: Sequence[Problem]


@dataclass(frozen=True, slots=True)
class Fold:
    """How a mapped batch becomes messages; made on the driver, pickled to the workers.

    columns           what the mapping gives; empty with `text`
    consumer          of a bridge: which messages are read at all
    overrides         of a bridge: columns that the mapping puts in the place of the read ones
    text              the one column holds messages in JSON form, one per row
    layout            how the text of a record is read again that Spark could not parse
    max_record_bytes  a record above is too_large
    """

    columns: tuple[MappedColumn, ...]
    text: bool
    max_record_bytes: int
    consumer: Consumer | None = None
    overrides: tuple[MappedColumn, ...] = ()
    layout: Layout | None = None

    def __call__(
        self, batch: pa.RecordBatch, seq: pa.Array, *, clock_ms: int = 0
    ) -> tuple[pa.RecordBatch, Refused | None]:
        """The messages of a batch (BATCH_SCHEMA), and the refused records.

        Together they are all rows, but for those that a consumer's filter does not accept. Those for which a
        defect kept it from being evaluated are refused: whoever reads the next batch never sees them again.
        """
        failed: dict[int, str] = {}
        if self.consumer is not None:
            read = pa.RecordBatch.from_arrays(
                self._map_columns(batch, self.columns, _Problems(batch.num_rows)), schema=SENT_SCHEMA
            )
            accepted, defects = self.consumer.judged(read, clock_ms=clock_ms)
            kept_rows = np.union1d(accepted, np.array([*defects], np.int64))
            failed = {int(np.searchsorted(kept_rows, row)): error for row, error in defects.items()}
            batch, seq = batch.take(pa.array(kept_rows)), seq.take(pa.array(kept_rows))
        source = _source(batch)
        problems = _Problems(batch.num_rows)
        for row, error in failed.items():
            problems.add_one(row, _FILTER_ERROR, f"could not be evaluated: the filter of the bridge: {error}")
        if self.text:
            arrays = self._parse_texts(batch, problems)
        else:
            replaced = {mapped.column for mapped in self.overrides}
            kept = [mapped for mapped in self.columns if mapped.column not in replaced]
            arrays = self._map_columns(batch, [*kept, *self.overrides], problems)
        folded = _readable(pa.RecordBatch.from_arrays([*arrays, source, seq], schema=BATCH_SCHEMA), problems)
        self._check_sizes(folded, problems)
        if not problems.found:
            return folded, None
        bad = np.flatnonzero(problems.reason >= 0)
        places = pa.array(bad)
        refused = Refused(
            batch=folded.take(places),
            reason=_REASONS.take(pa.array(problems.reason[bad])),
            detail=pa.array([problems.detail[row] for row in bad.tolist()], pa.string()),
            raw=self._raw(batch).take(places),
            problems=[problems.invalid[row] for row in bad.tolist() if row in problems.invalid],
        )
        return folded.take(pa.array(np.flatnonzero(problems.reason < 0))), refused

    def _map_columns(
        self, batch: pa.RecordBatch, columns: Sequence[MappedColumn], problems: _Problems
    ) -> list[pa.Array]:
        rows = batch.num_rows
        if CORRUPT_COLUMN in batch.schema.names:
            assert self.layout is not None  # noqa: S101  # the mapping gives both
            texts = batch.column(CORRUPT_COLUMN)
            places = pa.array(np.flatnonzero(_valid(texts)))
            marks = batch.column(MARKS_COLUMN).take(places).to_pylist()
            for row, text, mark in zip(places.to_pylist(), _texts(texts.take(places)), marks, strict=True):
                problems.add_invalid(row, self.layout.problem(text, mark))
        parts: dict[str, dict[str, tuple[MappedColumn, pa.Array]]] = {}
        for mapped in columns:
            array = batch.column(mapped.arrow)
            if mapped.guarded:
                failed = np.flatnonzero(~_valid(array) & (problems.reason < 0))
                if len(failed):
                    for row, raw in zip(failed.tolist(), _texts(self._raw(batch).take(pa.array(failed))), strict=True):
                        problems.add_invalid(row, _failure(mapped, raw))
                array = array.flatten()[0]
            if mapped.boxed:
                array = _unboxed(array)
            parts.setdefault(mapped.column, {})[mapped.name] = (mapped, array)
        return [_column(field, parts.get(field.name, {}), rows) for field in SENT_SCHEMA]

    def _parse_texts(self, batch: pa.RecordBatch, problems: _Problems) -> list[pa.Array]:
        messages = []
        for row, raw in enumerate(batch.column("value").cast(pa.binary()).to_pylist()):
            try:
                messages.append(Message.from_json(json.loads((raw or b"").decode())))
            except (InvalidInput, ValueError, RecursionError) as error:
                problems.add_invalid(row, Problem("message", _described(error)))
                messages.append(Message())
        return list(to_batch(messages).columns)

    def _check_sizes(self, batch: pa.RecordBatch, problems: _Problems) -> None:
        if batch.nbytes <= self.max_record_bytes:
            return
        sizes = sum((row_bytes(batch.column(name)) for name in SENT_SCHEMA.names), np.zeros(batch.num_rows))
        for row in np.flatnonzero(sizes > self.max_record_bytes).tolist():
            detail = f"a record of {int(sizes[row])} bytes; the cap is {self.max_record_bytes}"
            problems.add_one(row, _TOO_LARGE, detail)

    def _raw(self, batch: pa.RecordBatch) -> pa.Array:
        if self.text:
            return pc.cast(batch.column("value"), pa.binary())
        if RAW_COLUMN in batch.schema.names:
            return pc.cast(batch.column(RAW_COLUMN), pa.binary())
        return pa.nulls(batch.num_rows, pa.binary())


_INVALID, _TOO_LARGE, _FILTER_ERROR = 0, 1, 2
_REASONS: Final = pa.array(["invalid_record", "too_large", "filter_error"])


class _Problems:
    """The first problem of each row; -1 = none."""

    def __init__(self, rows: int) -> None:
        self.reason = np.full(rows, -1, np.int8)
        self.detail: dict[int, str] = {}
        self.invalid: dict[int, Problem] = {}
        self.found = False

    def add_invalid(self, row: int, problem: Problem) -> None:
        if self.reason[row] < 0:
            self.invalid[row] = problem
            self.add_one(row, _INVALID, problem.detail)

    def add_one(self, row: int, reason: int, detail: str) -> None:
        if self.reason[row] < 0:
            self.reason[row] = reason
            self.detail[row] = detail
            self.found = True


def _failure(mapped: MappedColumn, raw: str) -> Problem:
    """Why an expression failed, with the values that it read as far as the raw form of the record has them."""
    where = "message." + mapped.column + (f".{mapped.name}" if mapped.name else "")
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        record = {}
    values = {name: _stated(record[name], binary=binary) for name, binary in mapped.uses if name in record}
    if mapped.cast and values:
        ((name, value),) = values.items()
        return misfit(name, value, mapped.cast, f"{where}: {mapped.shown}")
    read = ", ".join(f"{name} is '{shown(value)}'" for name, value in values.items())
    said = f"{where}: {mapped.shown} failed" + (f", {read}" if read else "")
    return Problem("expression", said)


def _stated(value: object, *, binary: bool) -> str:
    if binary:
        return base64.b64decode(str(value)).decode("utf-8", "replace")  # as to_json writes it
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _texts(array: pa.Array) -> list[str]:
    """Texts, or binaries that should be; what is not UTF-8 in them is replaced."""
    return [(raw or b"").decode("utf-8", "replace") for raw in array.cast(pa.binary()).to_pylist()]


def _described(error: Exception) -> str:
    where = getattr(error, "where", None)
    text = f"{where}: {error}" if where else str(error)
    return text.encode("utf-8", "replace").decode()


def _readable(batch: pa.RecordBatch, problems: _Problems) -> pa.RecordBatch:
    """The batch with texts alone that are UTF-8 (Spark casts binaries to strings without a look)."""
    columns = batch.columns
    for place, name in enumerate(batch.schema.names):
        bad = rows_not_utf8(columns[place])
        if len(bad):
            for row in bad.tolist():
                problems.add_invalid(row, Problem("not-utf-8", f"message.{name}: text that is not UTF-8"))
            columns[place] = repaired(columns[place])
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _unboxed(array: pa.ListArray) -> pa.Array:
    """The items of lists of one; a null list gives a null."""
    items = array.flatten()
    if len(items) == len(array):
        return items
    valid = _valid(array)
    return items.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


def _source(batch: pa.RecordBatch) -> pa.Array:
    if SOURCE_COLUMN not in batch.schema.names:
        return pa.nulls(batch.num_rows, SOURCE)
    given = batch.column(SOURCE_COLUMN)
    members = dict(zip((member.name for member in given.type), given.flatten(), strict=True))
    arrays = [
        members[member.name].cast(member.type) if member.name in members else pa.nulls(len(given), member.type)
        for member in SOURCE
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(SOURCE))


def _column(field: pa.Field, parts: Mapping[str, tuple[MappedColumn, pa.Array]], rows: int) -> pa.Array:
    """One message column from the arrays mapped to it."""
    if not parts:
        return pa.nulls(rows, field.type)
    if pa.types.is_map(field.type) and "" not in parts:
        return _entries([(name, mapped.member, array) for name, (mapped, array) in parts.items()], rows)
    if "" not in parts:
        return _struct(field.type, parts, rows)
    mapped, array = parts[""]
    if mapped.member == HEADERS:
        return headers_map(array)
    return union(array, mapped.member) if mapped.member else conformed(array, field.type)


def _struct(kind: pa.StructType, parts: Mapping[str, tuple[MappedColumn, pa.Array]], rows: int) -> pa.Array:
    arrays = []
    held = np.zeros(rows, np.bool_)
    for member in kind:
        if member.name not in parts:
            arrays.append(pa.nulls(rows, member.type))
            continue
        mapped, array = parts[member.name]
        held |= _valid(array)
        arrays.append(union(array, mapped.member) if mapped.member else conformed(array, member.type))
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(~held))


def union(array: pa.Array, member: str) -> pa.Array:
    """Values of one type as the VALUE union; null stays null."""
    arrays = [
        conformed(array, field.type) if field.name == member else pa.nulls(len(array), field.type) for field in VALUE
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=list(VALUE), mask=mask)


def _entries(columns: list[tuple[str, str, pa.Array]], rows: int) -> pa.Array:
    """A map per row from named columns; a null leaves its entry out, no entry at all gives a null map."""
    valid = np.stack([_valid(array) for _, _, array in columns], axis=1)
    row, column = np.nonzero(valid)
    ends = np.zeros(rows + 1, np.int32)
    np.cumsum(valid.sum(axis=1), out=ends[1:])
    names = pa.array([name for name, _, _ in columns], pa.string())
    members = []
    for field in VALUE:
        owners = [n for n, (_, member, _) in enumerate(columns) if member == field.name]
        if not owners:
            members.append(pa.nulls(len(row), field.type))
            continue
        joined = pa.concat_arrays([conformed(columns[n][2], field.type) for n in owners])
        start = np.full(len(columns), -1, np.int64)
        start[owners] = np.arange(len(owners)) * rows
        mine = start[column] >= 0
        members.append(joined.take(pa.array(np.where(mine, start[column] + row, 0), mask=~mine)))
    values = pa.StructArray.from_arrays(members, fields=list(VALUE))
    mask = pa.array(~valid.any(axis=1))
    return pa.MapArray.from_arrays(pa.array(ends), names.take(pa.array(column)), values, type=VALUE_MAP, mask=mask)


def headers_map(headers: pa.ListArray) -> pa.Array:
    """Kafka's headers as a map: text where a value is UTF-8, else binary; of one name the last counts.

    A value that is null is present and null. No headers give a null map.
    """
    entries = headers.flatten()
    names, values = entries.field("key"), entries.field("value")
    lengths = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(len(headers)), lengths)
    codes = names.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    # np.unique keeps the first of equal ones
    _, last = np.unique(np.stack([row, codes], axis=1)[::-1], axis=0, return_index=True)
    if len(last) < len(row):
        kept = np.sort(len(row) - 1 - last)
        row, places = row[kept], pa.array(kept)
        names, values = names.take(places), values.take(places)
    ends = np.zeros(len(headers) + 1, np.int32)
    np.cumsum(np.bincount(row, minlength=len(headers)), out=ends[1:])
    texts = values.view(pa.string())
    other = np.zeros(len(values), np.bool_)
    other[rows_not_utf8(texts)] = True
    members = {
        "string": pc.if_else(pa.array(other), pa.scalar(None, pa.string()), texts),
        "binary": pc.if_else(pa.array(other), values, pa.scalar(None, pa.binary())),
    }
    arrays = [members[field.name] if field.name in members else pa.nulls(len(row), field.type) for field in VALUE]
    items = pa.StructArray.from_arrays(arrays, fields=list(VALUE))
    mask = pa.array(ends[1:] == ends[:-1])
    return pa.MapArray.from_arrays(pa.array(ends), names, items, type=VALUE_MAP, mask=mask)


def conformed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values under exactly the canonical type, whatever Spark calls inner fields."""
    if array.type == kind:
        return array
    if pa.types.is_map(kind):
        offsets = pa.array(np.asarray(array.offsets.to_numpy()))  # a sliced array takes no mask
        keys, items = conformed(array.keys, kind.key_type), conformed(array.items, kind.item_type)
        mask = array.is_null() if array.null_count else None
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    if pa.types.is_struct(kind):
        given = dict(zip((member.name for member in array.type), array.flatten(), strict=True))
        arrays = [
            conformed(given[member.name], member.type) if member.name in given else pa.nulls(len(array), member.type)
            for member in kind
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)
    return array.cast(kind)


def row_bytes(array: pa.Array) -> npt.NDArray[np.int64]:
    """Bytes of text and binary content per row, nested content included."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return np.asarray(pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    if pa.types.is_struct(kind):
        sizes = np.zeros(len(array), np.int64)
        for child in array.flatten():
            if child.null_count < len(child):
                sizes += row_bytes(child)
        return sizes
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        offsets = np.asarray(array.offsets.to_numpy(), np.int64)
        children = [array.keys, array.items] if pa.types.is_map(kind) else [array.values]
        ends = np.zeros(len(children[0]) + 1, np.int64)
        np.cumsum(sum(row_bytes(child) for child in children), out=ends[1:])
        sizes = ends[offsets[1:]] - ends[offsets[:-1]]
        return np.where(_valid(array), sizes, 0)
    return np.zeros(len(array), np.int64)


def _valid(array: pa.Array) -> Bools:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)
