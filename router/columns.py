"""Typed columns: what filters and headers exchanges read out of a batch of messages.

A `BatchView` wraps one record batch of `MESSAGE_SCHEMA` and extracts a referenced field once, as a
`Column`: a tag per row and flat numpy payloads, with texts as codes into the column's distinct values.
Work on texts (patterns, folding, nested references) is thereby done once per distinct value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindery.router.message import HEADER_DEFAULTS, MAP_SECTIONS
from bindery.router.utf8 import repaired
from bindery.router.values import Opaque, Table, Timestamp, Value, nested_value, to_nested_text

Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ABSENT: Final = 0  #: no entry, or the field is not set
NULL: Final = 1  #: an entry is there and holds a null
BOOL: Final = 2
INT: Final = 3
DOUBLE: Final = 4
TIMESTAMP: Final = 5
STRING: Final = 6
BINARY: Final = 7
NESTED: Final = 8

#: Union fields in the order of their tags from BOOL on, as they stand in the VALUE struct.
UNION_TAGS: Final = (
    ("bool", BOOL),
    ("int", INT),
    ("double", DOUBLE),
    ("timestamp", TIMESTAMP),
    ("string", STRING),
    ("binary", BINARY),
    ("nested", NESTED),
)
#: Tags of the types of values that have one of their own.
TAG_OF: Final[Mapping[type, int]] = {
    bool: BOOL,
    int: INT,
    float: DOUBLE,
    Timestamp: TIMESTAMP,
    str: STRING,
    bytes: BINARY,
    tuple: NESTED,
    Table: NESTED,
    Opaque: NESTED,
}
_MAPS: Final = frozenset(MAP_SECTIONS)


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """A field of the message: a section and, but for whole sections and envelope fields, a name.

    `Ref("application_properties", "x")`, `Ref("header", "priority")`, `Ref("properties", "to")`,
    `Ref("amqp_value")`, `Ref("amqp_sequence")`, `Ref("body")`, `Ref("exchange")`, `Ref("connection")`.
    """

    section: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.section}.{self.name}" if self.name else self.section


@dataclass(eq=False)
class Column:
    """One typed value per row.

    tag     uint8[n]    what the row holds (`ABSENT` … `NESTED`)
    num     int64[n]    bool as 0/1, integers, timestamps in ms; 0 elsewhere
    dbl     float64[n]  doubles; 0.0 elsewhere
    code    int32[n]    index into `distinct` for STRING, BINARY and NESTED rows; -1 elsewhere
    distinct            the distinct texts and byte strings of the column (str, bytes; nested as JSON
                        text); two kinds never share a code: `kind[code]` is their tag
    """

    tag: Bytes
    num: Ints
    dbl: Floats
    code: Codes
    distinct: list[str | bytes]
    kind: Bytes

    def __len__(self) -> int:
        return len(self.tag)

    def take(self, rows: npt.NDArray[np.integer]) -> Column:
        """The column at the given rows (any order, repeats allowed); distinct values are shared."""
        return Column(self.tag[rows], self.num[rows], self.dbl[rows], self.code[rows], self.distinct, self.kind)

    @cached_property
    def is_null(self) -> npt.NDArray[np.bool_]:
        """Rows that read as null in text filters: no entry, or a null one."""
        return self.tag <= NULL

    def value(self, row: int) -> Value:
        """The value of one row; an absent entry and a null one both give None."""
        match int(self.tag[row]):
            case 0 | 1:
                return None
            case 2:
                return bool(self.num[row])
            case 3:
                return int(self.num[row])
            case 4:
                return float(self.dbl[row])
            case 5:
                return Timestamp(int(self.num[row]))
            case 8:
                return nested_value(str(self.distinct[self.code[row]]))
        text: str | bytes = self.distinct[self.code[row]]
        return text


def empty_column(rows: int) -> Column:
    """A column in which no row holds anything."""
    return Column(
        np.zeros(rows, np.uint8),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.float64),
        np.full(rows, -1, np.int32),
        [],
        np.zeros(0, np.uint8),
    )


def column_of(values: list[Value]) -> Column:
    """A column from Python values, one per row; None is absent."""
    column = empty_column(len(values))
    codes: dict[tuple[int, str | bytes], int] = {}
    for row, value in enumerate(values):
        match value:
            case None:
                continue
            case bool():
                column.tag[row], column.num[row] = BOOL, value
            case int():
                column.tag[row], column.num[row] = INT, value
            case float():
                column.tag[row], column.dbl[row] = DOUBLE, value
            case Timestamp():
                column.tag[row], column.num[row] = TIMESTAMP, value.ms
            case _:
                tag = STRING if isinstance(value, str) else BINARY if isinstance(value, bytes) else NESTED
                text = value if isinstance(value, str | bytes) else to_nested_text(value)
                column.tag[row], column.code[row] = tag, codes.setdefault((tag, text), len(codes))
    column.distinct = [text for _, text in codes]
    column.kind = np.array([tag for tag, _ in codes], np.uint8)
    return column


def constant_column(value: Value, rows: int) -> Column:
    """A column that holds one value in every row."""
    return column_of([value]).take(np.zeros(rows, np.int64))


class BatchView:
    """Columns of one batch, each extracted at its first use and kept.

    `clock_ms` is the batch clock, what UTC() gives in a filter. Rows are those of the batch. A text that is not
    UTF-8 reads with U+FFFD in place of the bytes at fault.
    """

    def __init__(self, batch: pa.RecordBatch, *, clock_ms: int = 0) -> None:
        self.batch = batch
        self.clock_ms = clock_ms
        self.rows: int = batch.num_rows
        self._columns: dict[Ref, Column] = {}
        self._maps: dict[str, MapEntries] = {}

    def column(self, ref: Ref) -> Column:
        """The column behind a reference; header fields carry their defaults when absent."""
        found = self._columns.get(ref)
        if found is None:
            found = self._columns[ref] = self._extract(ref)
        return found

    def holds(self, ref: Ref) -> bool:
        """Whether any row may hold something there: False for a key that no row of a map section has."""
        return ref.section not in _MAPS or ref.name in self.entries(ref.section).segments

    def entries(self, section: str) -> MapEntries:
        """All entries of a map section, for whoever looks at many names of it at once."""
        found = self._maps.get(section)
        if found is None:
            found = self._maps[section] = MapEntries(self.batch.column(section))
        return found

    def keep(self, ref: Ref, column: Column) -> Column:
        """Remember a derived column under a reference of the caller's own section name."""
        self._columns[ref] = column
        return column

    def derived(self, ref: Ref) -> Column | None:
        """A column that `keep` has stored, if any."""
        return self._columns.get(ref)

    def _extract(self, ref: Ref) -> Column:
        if ref.section in _MAPS:
            return self.entries(ref.section).column(ref.name)
        array = self.batch.column(ref.section)
        if ref.name:
            # flatten() carries the struct's own nulls and offset down to its members
            array = array.flatten()[array.type.get_field_index(ref.name)]
            column = column_from(array)
            return _with_default(column, HEADER_DEFAULTS[ref.name]) if _has_default(ref) else column
        return column_from(array)


def _has_default(ref: Ref) -> bool:
    return ref.section == "header" and ref.name in HEADER_DEFAULTS


def _with_default(column: Column, default: Value) -> Column:
    absent = column.tag == ABSENT
    if absent.any():
        column.tag[absent] = BOOL if isinstance(default, bool) else INT
        column.num[absent] = int(default)  # type: ignore[arg-type]  # header defaults are bool or int
    return column


def column_from(array: pa.Array) -> Column:
    """A column from an Arrow array of a type of `MESSAGE_SCHEMA`'s fields (no map or list)."""
    rows = len(array)
    column = empty_column(rows)
    if pa.types.is_struct(array.type):
        _fill_union(column, array, np.arange(rows))
        return column
    tag = _ARROW_TAGS[str(array.type)]
    valid = _valid(array)
    column.tag[valid] = tag
    if tag in (STRING, BINARY):
        _fill_codes(column, array, tag, np.arange(rows))
    else:
        column.num[:] = _integers(array, tag)
    return column


_ARROW_TAGS: Final = {
    "bool": BOOL,
    "int32": INT,
    "int64": INT,
    "timestamp[us, tz=UTC]": TIMESTAMP,
    "string": STRING,
    "large_string": STRING,
    "binary": BINARY,
    "large_binary": BINARY,
}


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _integers(array: pa.Array, tag: int) -> Ints:
    if tag == BOOL:
        return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False), np.int64)
    if tag == TIMESTAMP:
        return np.asarray(array.cast(pa.int64()).fill_null(0).to_numpy(), np.int64) // 1000
    return np.asarray(array.fill_null(0).to_numpy(), np.int64)


def _encoded(array: pa.Array) -> tuple[pa.Array, list[Any]]:
    """The code of each row, and the distinct texts or byte strings by code."""
    encoded = array.dictionary_encode()
    try:
        return encoded.indices, encoded.dictionary.to_pylist()
    except UnicodeDecodeError:
        encoded = repaired(array).dictionary_encode()
        return encoded.indices, encoded.dictionary.to_pylist()


def _fill_codes(column: Column, array: pa.Array, tag: int, rows: npt.NDArray[np.integer]) -> None:
    indices, distinct = _encoded(array)
    codes = np.asarray(indices.fill_null(-1).to_numpy(), np.int32)
    base = len(column.distinct)
    column.distinct = column.distinct + distinct
    column.kind = np.concatenate([column.kind, np.full(len(distinct), tag, np.uint8)])
    held = codes >= 0
    column.code[rows[held]] = codes[held] + base


def _fill_union(column: Column, array: pa.StructArray, rows: npt.NDArray[np.integer]) -> None:
    """Write the union values of `array` to the given rows of the column."""
    column.tag[rows[_valid(array)]] = NULL
    for tag, member in _members(array):
        _fill_member(column, member, tag, rows)


def _members(array: pa.StructArray) -> list[tuple[int, pa.Array]]:
    """Tag and values of those union fields that any row has set."""
    members = dict(zip((member.name for member in array.type), array.flatten(), strict=True))
    return [(tag, members[name]) for name, tag in UNION_TAGS if members[name].null_count < len(array)]


def _fill_member(column: Column, member: pa.Array, tag: int, rows: npt.NDArray[np.integer]) -> None:
    if member.null_count == len(member):
        return
    valid = _valid(member)
    column.tag[rows[valid]] = tag
    if tag in (STRING, BINARY, NESTED):
        _fill_codes(column, member, tag, rows)
    elif tag == DOUBLE:
        column.dbl[rows[valid]] = member.fill_null(0.0).to_numpy()[valid]
    else:
        column.num[rows[valid]] = _integers(member, tag)[valid]


class MapEntries:
    """The entries of one map section, grouped by key once for all names that are asked for.

    owner     int64[e]  the row of each entry, -1 for entries that belong to none
    codes     int32[e]  the key of each entry, as a position in `keys`
    keys      every key that occurs in the batch
    segments  key -> its entries, in order
    """

    def __init__(self, array: pa.MapArray) -> None:
        self.rows = len(array)
        offsets = np.asarray(array.offsets.to_numpy(), np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        self.items = array.items.slice(first, last - first)
        lengths = np.diff(offsets)
        owner = np.repeat(np.arange(self.rows, dtype=np.int64), lengths)
        if array.null_count:
            # a null map may still span entries: they belong to no row
            owner[~np.repeat(_valid(array), lengths)] = -1
        indices, self.keys = _encoded(array.keys.slice(first, last - first))
        codes = np.asarray(indices.to_numpy(), np.int32)
        # numpy sorts 16-bit numbers by radix
        small = codes.astype(np.int16) if len(self.keys) < 2**15 else codes
        order = np.argsort(small, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(self.keys) + 1))
        self.owner = owner
        self.codes = codes
        self.segments = {name: order[bounds[n] : bounds[n + 1]] for n, name in enumerate(self.keys)}
        self._forms: dict[Callable[[str], str], dict[str, list[str]]] = {}

    @cached_property
    def _nothing(self) -> Column:
        """One column for every key that no row has: thousands of them may be asked for."""
        return empty_column(self.rows)

    def column(self, name: str) -> Column:
        """The values under one key, with one row a message."""
        entries = self.segments.get(name)
        return self._nothing if entries is None else self._by_row(entries)

    def alike(self, name: str, form: Callable[[str], str]) -> Column:
        """The values under all keys whose form is `name`; of several in one row the last entry counts."""
        keys = self._forms.get(form)
        if keys is None:
            keys = self._forms[form] = {}
            for key in self.segments:
                keys.setdefault(form(key), []).append(key)
        found = [self.segments[key] for key in keys.get(name, ())]
        return self._by_row(np.sort(np.concatenate(found))) if found else self._nothing

    def _by_row(self, entries: npt.NDArray[np.integer]) -> Column:
        """The values of entries in their order, with one row a message."""
        column = empty_column(self.rows)
        rows = self.owner[entries]
        if len(rows) and rows.min() < 0:
            entries, rows = entries[rows >= 0], rows[rows >= 0]
        if len(rows) > 1 and (rows[1:] == rows[:-1]).any():
            # a repeated key: the last entry counts, as in a JSON object
            last = np.append(rows[1:] != rows[:-1], True)
            entries, rows = entries[last], rows[last]
        self._fill(column, entries, rows)
        return column

    def values(self, entries: npt.NDArray[np.integer]) -> Column:
        """The values of the given entries, as a column with one row an entry."""
        column = empty_column(len(entries))
        self._fill(column, entries, np.arange(len(entries)))
        return column

    @cached_property
    def _members(self) -> list[tuple[int, pa.Array]]:
        """The union fields that any entry has set: most batches use two or three of the seven."""
        return _members(self.items)

    @cached_property
    def _present(self) -> npt.NDArray[np.bool_]:
        return _valid(self.items)

    def _fill(self, column: Column, entries: npt.NDArray[np.integer], rows: npt.NDArray[np.integer]) -> None:
        """Write the values of some entries to the given rows of the column."""
        if len(entries) == 0:
            return
        column.tag[rows[self._present[entries]]] = NULL
        chosen = pa.array(entries)
        for tag, member in self._members:
            _fill_member(column, member.take(chosen), tag, rows)
