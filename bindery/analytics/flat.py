"""Headers and properties of messages as typed columns beside the stored ones.

Every application property is a column by its own name, and so is every field of the sections `header` and
`properties`. A column has the type of the values that were seen; where several were, the narrowest that holds them
all: integers and doubles become doubles, everything else text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bindery.router.columns import (
    BINARY,
    BOOL,
    DOUBLE,
    INT,
    NESTED,
    NULL,
    STRING,
    TIMESTAMP,
    BatchView,
    Column,
    Ref,
    column_from,
)
from bindery.router.message import HEADER, PROPERTIES, UNROUTABLE_SCHEMA, VALUE
from bindery.router.message import TIMESTAMP as MOMENT
from bindery.router.values import Timestamp, Value

#: Columns of headers that a table has at most; of more names the first in order have one.
MAX_COLUMNS: Final = 1_000
_HEADERS: Final = "application_properties"
_SECTIONS: Final[Mapping[str, pa.DataType]] = {"header": HEADER, "properties": PROPERTIES}
#: Fields whose values are of any type, as those of headers are.
UNIONS: Final = tuple(Ref("properties", field.name) for field in PROPERTIES if field.type == VALUE)
_TYPES: Final[Mapping[int, tuple[str, pa.DataType]]] = {
    BOOL: ("boolean", pa.bool_()),
    INT: ("integer", pa.int64()),
    DOUBLE: ("double", pa.float64()),
    TIMESTAMP: ("timestamp", MOMENT),
    STRING: ("string", pa.string()),
    BINARY: ("binary", pa.binary()),
    NESTED: ("list or map", pa.string()),
}
_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: What was seen under a name: the tags of `bindery.router.columns` as bits.
Kinds = int


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """A column of a flattened table: what it is called, what it shows, its type; `kinds` that were seen."""

    name: str
    ref: Ref
    type: pa.DataType
    kinds: Kinds = 0

    @property
    def holds(self) -> str:
        """The types of the values that were seen, in words."""
        return " and ".join(self._names) or "nothing but nulls"

    @property
    def _names(self) -> list[str]:
        return [name for tag, (name, _) in _TYPES.items() if self.kinds & 1 << tag]

    @property
    def widened(self) -> str | None:
        """What is said of values of several types; None where they have one."""
        if len(self._names) < 2:
            return None
        return f"{self.ref} holds {self.holds}: the column {self.name!r} is {self.type}"


def type_of(kinds: Kinds) -> pa.DataType:
    """The narrowest type that holds what was seen; text for nothing but nulls."""
    held = [tag for tag in _TYPES if kinds & 1 << tag]
    if len(held) == 1:
        return _TYPES[held[0]][1]
    return pa.float64() if held == [INT, DOUBLE] else pa.string()


def flat_columns(seen: Mapping[Ref, Kinds]) -> list[FlatColumn]:
    """The columns of a table in which these values were seen: fields of sections first, headers in order of names.

    A header whose name is taken (by a stored column, a field of a section, or but for its case by another header) is
    called `application_properties.NAME`, and with a number if that is taken, too.
    """
    taken = {name.lower() for name in UNROUTABLE_SCHEMA.names}
    columns: list[FlatColumn] = []
    for section, kind in _SECTIONS.items():
        for field in kind:
            ref = Ref(section, field.name)
            kinds = seen.get(ref, 0) if ref in UNIONS else 0
            columns.append(FlatColumn(field.name, ref, type_of(kinds) if ref in UNIONS else field.type, kinds))
            taken.add(field.name.lower())
    headers = sorted(ref for ref in seen if ref.section == _HEADERS)
    for ref in headers[:MAX_COLUMNS]:
        name = free_name(ref.name, f"{_HEADERS}.{ref.name}", taken)
        columns.append(FlatColumn(name, ref, type_of(seen[ref]), seen[ref]))
    return columns


def free_name(name: str, instead: str, taken: set[str]) -> str:
    """The name, or else the other one, numbered if need be, that nobody has whatever the case; it is taken now."""
    # Arrow hands names to others as C strings
    name, instead = (text.replace("\0", "\N{SYMBOL FOR NULL}") for text in (name, instead))
    numbered = (f"{instead} ({number})" for number in range(2, len(taken) + 3))
    found = next(one for one in (name, instead, *numbered) if one and one.lower() not in taken)
    taken.add(found.lower())
    return found


def flattened(batch: pa.RecordBatch, columns: Iterable[FlatColumn]) -> list[pa.Array]:
    """The columns of a batch that has the sections which they show."""
    view = BatchView(batch)
    sections: dict[str, list[pa.Array]] = {}
    found = []
    for column in columns:
        section, name = column.ref.section, column.ref.name
        if section == _HEADERS:
            found.append(_as_array(view.column(column.ref), column.type))
            continue
        if section not in sections:
            sections[section] = batch.column(section).flatten()
        field = sections[section][_SECTIONS[section].get_field_index(name)]
        found.append(_as_array(column_from(field), column.type) if column.ref in UNIONS else field)
    return found


def kinds_in(batch: pa.RecordBatch) -> dict[Ref, Kinds]:
    """What a batch with the columns `application_properties` and `properties` holds."""
    view = BatchView(batch)
    entries = view.entries(_HEADERS)
    tags = entries.values(np.arange(len(entries.codes))).tag.astype(np.int64)
    found: dict[Ref, Kinds] = {}
    owned = entries.owner >= 0
    for pair in np.unique(entries.codes[owned].astype(np.int64) << 8 | tags[owned]).tolist():
        ref = Ref(_HEADERS, entries.keys[pair >> 8])
        found[ref] = found.get(ref, 0) | 1 << (pair & 0xFF)
    members = dict(zip((field.name for field in PROPERTIES), batch.column("properties").flatten(), strict=True))
    for ref in UNIONS:
        kinds = 0
        for tag in np.unique(column_from(members[ref.name]).tag).tolist():
            kinds |= 1 << tag if tag >= NULL else 0
        if kinds:
            found[ref] = kinds
    return found


def as_text(value: Value) -> str | None:
    """A value in a column of text: text and JSON as they are, bytes in hexadecimal, times in ISO 8601, UTC."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case Timestamp():
            try:
                return f"{(_1970 + timedelta(milliseconds=value.ms)).isoformat(timespec='milliseconds')[:-6]}Z"
            except OverflowError:
                return f"{value.ms} ms"
    return repr(value)


def _as_array(column: Column, kind: pa.DataType) -> pa.Array:
    tag = column.tag
    if pa.types.is_string(kind):
        return _texts(column)
    if pa.types.is_binary(kind):
        return _coded(column.distinct, np.where(tag == BINARY, column.code, -1), kind)
    if pa.types.is_floating(kind):
        return pa.array(np.where(tag == INT, column.num, column.dbl), kind, mask=(tag != INT) & (tag != DOUBLE))
    if pa.types.is_boolean(kind):
        return pa.array(column.num != 0, kind, mask=tag != BOOL)
    if pa.types.is_timestamp(kind):
        return pa.array(column.num * 1000, pa.int64(), mask=tag != TIMESTAMP).cast(kind)
    return pa.array(column.num, kind, mask=tag != INT)


def _texts(column: Column) -> pa.Array:
    texts: list[Any] = [as_text(one) for one in column.distinct]
    codes = column.code.astype(np.int64)
    for tag in (BOOL, INT, DOUBLE, TIMESTAMP):
        rows = np.flatnonzero(column.tag == tag)
        if len(rows):
            numbers = column.dbl[rows].view(np.int64) if tag == DOUBLE else column.num[rows]
            _, first, places = np.unique(numbers, return_index=True, return_inverse=True)
            codes[rows] = places + len(texts)
            texts += [as_text(column.value(row)) for row in rows[first].tolist()]
    return _coded(texts, codes, pa.string())


def _coded(distinct: list[Any], codes: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    held = [one if not pa.types.is_binary(kind) or isinstance(one, bytes) else None for one in distinct]
    return pa.array(held, kind).take(pa.array(codes, mask=codes < 0))
