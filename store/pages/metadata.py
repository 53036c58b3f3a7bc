"""What Parquet says about a file beside its values: headers of pages, chunks of columns, the footer.

Source: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

import pyarrow as pa

from bindery.store.pages.thrift import Value, binary, fields_of, flag, i32, i64, many, structure

MAGIC: Final = b"PAR1"
_CREATED_BY: Final = b"bindery"
#: Of the format: 1 has no data types of a later one.
_VERSION: Final = 2


class Physical(IntEnum):
    """How values are laid out."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    DOUBLE = 5
    BYTE_ARRAY = 6


class Encoding(IntEnum):
    """How the values of a page are packed."""

    PLAIN = 0
    RLE = 3
    DELTA_BINARY_PACKED = 5
    RLE_DICTIONARY = 8


class Codec(IntEnum):
    """How pages are compressed."""

    UNCOMPRESSED = 0
    SNAPPY = 1


_REQUIRED, _OPTIONAL, _REPEATED = 0, 1, 2
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_NOTHING: Final = structure({})
#: Older and newer names of what a column is: (converted type, logical type).
_TEXT: Final = i32(0), structure({1: _NOTHING})
_MAP: Final = i32(1), structure({2: _NOTHING})
_LIST: Final = i32(3), structure({3: _NOTHING})
_MICROS_UTC: Final = i32(10), structure({8: structure({1: flag(True), 2: structure({2: _NOTHING})})})
_PHYSICAL: Final = {
    pa.bool_(): Physical.BOOLEAN,
    pa.int32(): Physical.INT32,
    pa.int64(): Physical.INT64,
    pa.float64(): Physical.DOUBLE,
    pa.string(): Physical.BYTE_ARRAY,
    pa.binary(): Physical.BYTE_ARRAY,
    pa.timestamp("us", tz="UTC"): Physical.INT64,
}


def physical(kind: pa.DataType) -> Physical:
    """How values of a type are laid out; raises KeyError for a type that no message has."""
    return _PHYSICAL[kind]


def schema(columns: pa.Schema) -> Value:
    """A schema, its elements in depth-first order."""
    elements = [structure({4: binary(b"schema"), 5: i32(len(columns))})]
    for field in columns:
        elements += _elements(field, field.name, _OPTIONAL if field.nullable else _REQUIRED)
    return many(elements)


def _elements(field: pa.Field, name: str, repetition: int) -> Iterator[Value]:
    kind = field.type
    if pa.types.is_map(kind):
        yield _group(name, repetition, 1, _MAP)
        yield _group("key_value", _REPEATED, 2)
        yield from _elements(kind.key_field, "key", _REQUIRED)
        yield from _elements(kind.item_field, "value", _of(kind.item_field))
    elif pa.types.is_list(kind):
        yield _group(name, repetition, 1, _LIST)
        yield _group("list", _REPEATED, 1)
        yield from _elements(kind.value_field, "element", _of(kind.value_field))
    elif pa.types.is_struct(kind):
        yield _group(name, repetition, kind.num_fields)
        for member in kind:
            yield from _elements(member, member.name, _of(member))
    else:
        text = _TEXT if pa.types.is_string(kind) else _MICROS_UTC if pa.types.is_timestamp(kind) else (None, None)
        yield structure({1: i32(physical(kind)), 3: i32(repetition), 4: binary(name.encode()), 6: text[0], 10: text[1]})


def _of(field: pa.Field) -> int:
    return _OPTIONAL if field.nullable else _REQUIRED


def _group(
    name: str, repetition: int, children: int, meaning: tuple[Value | None, Value | None] = (None, None)
) -> Value:
    return structure({3: i32(repetition), 4: binary(name.encode()), 5: i32(children), 6: meaning[0], 10: meaning[1]})


def data_page(slots: int, encoding: Encoding, size: int, compressed: int) -> bytes:
    """The header of a page of so many slots; sizes in bytes."""
    page = _data_page(slots, encoding)
    return structure({1: i32(_DATA_PAGE), 2: i32(size), 3: i32(compressed), 5: page})[1]


@lru_cache(maxsize=1024)
def _data_page(slots: int, encoding: Encoding) -> Value:
    levels = i32(Encoding.RLE)
    return structure({1: i32(slots), 2: i32(encoding), 3: levels, 4: levels})


def dictionary_page(values: int, size: int, compressed: int) -> bytes:
    """The header of a page with the values of a dictionary; sizes in bytes."""
    page = structure({1: i32(values), 2: i32(Encoding.PLAIN)})
    return structure({1: i32(_DICTIONARY_PAGE), 2: i32(size), 3: i32(compressed), 7: page})[1]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the values of a chunk the least and the greatest, PLAIN without a length, and how many are null."""

    least: bytes
    greatest: bytes
    nulls: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column of a file: from `start` on, `compressed` bytes, with its dictionary, if it has one, at the beginning.

    `data` is where the first page of data begins; `size` is that of the pages without compression.
    """

    kind: Physical
    path: tuple[str, ...]
    encodings: tuple[Encoding, ...]
    codec: Codec
    slots: int
    start: int
    data: int
    size: int
    compressed: int
    bounds: Bounds | None

    def value(self) -> Value:
        """The chunk as the footer has it."""
        bounds = self.bounds
        known = None
        if bounds is not None:
            known = structure({3: i64(bounds.nulls), 5: binary(bounds.greatest), 6: binary(bounds.least)})
        described = structure(
            {
                5: i64(self.slots),
                6: i64(self.size),
                7: i64(self.compressed),
                9: i64(self.data),
                11: i64(self.start) if self.data != self.start else None,
                12: known,
            },
            start=_column(self.kind, self.encodings, self.path, self.codec),
            before=4,
        )
        return structure({2: i64(self.start), 3: described})


@lru_cache(maxsize=1024)
def _column(kind: Physical, encodings: tuple[Encoding, ...], path: tuple[str, ...], codec: Codec) -> bytes:
    """What chunks of the same column begin with."""
    return fields_of(
        {
            1: i32(kind),
            2: many([i32(encoding) for encoding in encodings]),
            3: many([binary(name.encode()) for name in path]),
            4: i32(codec),
        }
    )


def footer(columns: Value, rows: int, chunks: Sequence[Chunk]) -> bytes:
    """The end of a file of one row group of so many rows, with its length and the magic bytes."""
    by_type = structure({1: _NOTHING})  # values are compared as their types say: what makes bounds usable
    content = structure(
        {
            1: i32(_VERSION),
            2: columns,
            3: i64(rows),
            4: many([_row_group(rows, chunks)]),
            6: binary(_CREATED_BY),
            7: many([by_type] * len(chunks)),
        }
    )[1]
    return content + len(content).to_bytes(4, "little") + MAGIC


def _row_group(rows: int, chunks: Sequence[Chunk]) -> Value:
    return structure(
        {
            1: many([chunk.value() for chunk in chunks]),
            2: i64(sum(chunk.size for chunk in chunks)),
            3: i64(rows),
            5: i64(chunks[0].start),
            6: i64(sum(chunk.compressed for chunk in chunks)),
        }
    )
