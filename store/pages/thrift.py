"""Thrift's compact protocol, as much as Parquet's metadata needs of it: values are written, never read.

Source: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

#: The number of a type, and the value as bytes.
Value = tuple[int, bytes]

_TRUE: Final = 1
_FALSE: Final = 2
_I32: Final = 5
_I64: Final = 6
_BINARY: Final = 8
_LIST: Final = 9
_STRUCT: Final = 12
#: The longest list whose length, and the longest way between two fields that, share a byte with a type.
_SHORT_LIST: Final = 14
_SHORT_STEP: Final = 15


def varint(number: int) -> bytes:
    """A number from 0 on, seven bits a byte, the lowest first."""
    if number < 0x80:
        return _ONE_BYTE[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_ONE_BYTE: Final = [bytes([number]) for number in range(0x80)]
_ONE_HEADER: Final = [bytes([number]) for number in range(0x100)]


def i32(number: int) -> Value:
    """A number of 32 bits, from 0 on: Parquet's metadata has no others."""
    return _I32, varint(number << 1)


def i64(number: int) -> Value:
    """A number of 64 bits, from 0 on."""
    return _I64, varint(number << 1)


def binary(content: bytes) -> Value:
    """Bytes, or text in UTF-8."""
    return _BINARY, varint(len(content)) + content


def flag(value: bool) -> Value:
    """True or false, as the field of a struct."""
    return (_TRUE if value else _FALSE), b""


def structure(fields: Mapping[int, Value | None], *, start: bytes = b"", before: int = 0) -> Value:
    """A struct, or a union, by the numbers of its fields, ascending; those that are None are absent.

    `start` are `fields_of` those up to the number `before`.
    """
    return _STRUCT, start + fields_of(fields, before) + b"\0"


def fields_of(fields: Mapping[int, Value | None], before: int = 0) -> bytes:
    """Fields of a struct that come after the one of that number."""
    out = []
    for number, value in fields.items():
        if value is None:
            continue
        kind, content = value
        step = number - before
        out.append(_ONE_HEADER[step << 4 | kind] if step <= _SHORT_STEP else _ONE_HEADER[kind] + varint(number << 1))
        out.append(content)
        before = number
    return b"".join(out)


def many(values: Sequence[Value]) -> Value:
    """A list of at least one value, all of one type."""
    kind = values[0][0]
    count = len(values)
    head = bytes([count << 4 | kind]) if count <= _SHORT_LIST else bytes([0xF0 | kind]) + varint(count)
    return _LIST, head + b"".join(content for _, content in values)
