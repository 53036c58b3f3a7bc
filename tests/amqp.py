"""AMQP 0-9-1 as it is written on the wire: fields of every type, with the values that they stand for."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pika
from hypothesis import strategies as st

from bindery.router.values import TIMESTAMP_MAX, Table, Timestamp, Value

#: Integers: the type, its form, its bounds.
INTEGERS = {
    b"b": (">b", -(2**7), 2**7 - 1),
    b"B": (">B", 0, 2**8 - 1),
    b"s": (">h", -(2**15), 2**15 - 1),
    b"u": (">H", 0, 2**16 - 1),
    b"I": (">i", -(2**31), 2**31 - 1),
    b"i": (">I", 0, 2**32 - 1),
    b"l": (">q", -(2**63), 2**63 - 1),
}


@dataclass(frozen=True)
class Field:
    """A field with its type on the wire, and its value."""

    encoded: bytes
    value: Value


def long_string(content: bytes, kind: bytes = b"S") -> bytes:
    return kind + struct.pack(">I", len(content)) + content


def short_string(content: bytes) -> bytes:
    return struct.pack(">B", len(content)) + content


def table(fields: dict[str, Field]) -> bytes:
    content = b"".join(short_string(name.encode()) + field.encoded for name, field in fields.items())
    return struct.pack(">I", len(content)) + content


def _integer(kind: bytes) -> st.SearchStrategy[Field]:
    form, low, high = INTEGERS[kind]
    return st.builds(lambda n: Field(kind + struct.pack(form, n), n), st.integers(low, high))


def _decimal(scale: int, unscaled: int) -> Field:
    return Field(b"D" + struct.pack(">Bi", scale, unscaled), float(Decimal(unscaled) / Decimal(10) ** scale))


def _bytes(content: bytes) -> Field:
    return Field(long_string(content, b"x"), content)


def _string(content: bytes) -> Field:
    try:
        return Field(long_string(content), content.decode())
    except UnicodeDecodeError:
        return Field(long_string(content), content)


def _time(seconds: int) -> Field:
    return Field(b"T" + struct.pack(">Q", seconds), Timestamp(seconds * 1000))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.one_of(
    *map(_integer, INTEGERS),
    st.builds(lambda flag: Field(b"t" + bytes([flag]), flag), st.booleans()),
    st.builds(
        lambda n: Field(b"f" + struct.pack(">f", n), n), st.floats(width=32, allow_nan=False, allow_infinity=False)
    ),
    st.builds(lambda n: Field(b"d" + struct.pack(">d", n), n), st.floats(allow_nan=False, allow_infinity=False)),
    st.builds(_decimal, st.integers(0, 255), st.integers(-(2**31), 2**31 - 1)),
    texts.map(str.encode).map(_string),
    st.binary(max_size=8).map(_string),
    st.binary(max_size=8).map(_bytes),
    st.integers(0, TIMESTAMP_MAX // 1000).map(_time),
    st.just(Field(b"V", None)),
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(lambda name: name not in ("CC", "BCC"))


def _array(items: list[Field]) -> Field:
    return Field(long_string(b"".join(item.encoded for item in items), b"A"), tuple(item.value for item in items))


def _table(fields: dict[str, Field]) -> Field:
    return Field(b"F" + table(fields), Table({name: field.value for name, field in fields.items()}))


def _nest(inner: st.SearchStrategy[Field]) -> st.SearchStrategy[Field]:
    return st.lists(inner, max_size=3).map(_array) | st.dictionaries(names, inner, max_size=3).map(_table)


fields = st.recursive(scalars, _nest, max_leaves=6)
headers = st.dictionaries(names, fields, max_size=5)

_SHORT = texts.map(str.encode)
#: Properties as they may be sent, but for the headers: short strings as bytes.
properties: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            (
                "content_type",
                "content_encoding",
                "correlation_id",
                "reply_to",
                "message_id",
                "type",
                "app_id",
                "cluster_id",
            ),
            _SHORT,
        ),
        "delivery_mode": st.sampled_from((1, 2)),
        "priority": st.integers(0, 255),
        "expiration": st.integers(3_600_000, 2**32 - 1).map(lambda ms: str(ms).encode()),
        "timestamp": st.integers(0, TIMESTAMP_MAX // 1000),
        "user_id": st.just(b"drainer"),
    },
)


_ORDER = (
    *("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to"),
    *("expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id"),
)


def encoded(properties: dict[str, Any], headers: dict[str, Field] | None = None) -> bytes:
    """Property flags and property list."""
    flags, pieces = 0, []
    given = properties if headers is None else {**properties, "headers": headers}
    for place, name in enumerate(_ORDER):
        if name not in given:
            continue
        flags |= 1 << 15 - place
        value = given[name]
        if name == "headers":
            pieces.append(table(value))
        elif name == "timestamp":
            pieces.append(struct.pack(">Q", value))
        else:
            pieces.append(bytes([value]) if isinstance(value, int) else short_string(value))
    return struct.pack(">H", flags) + b"".join(pieces)


class Raw(pika.BasicProperties):  # type: ignore[misc]
    """Properties that go out as the bytes that they are given as."""

    def __init__(self, encoded: bytes) -> None:
        super().__init__()
        self._encoded = encoded

    def encode(self) -> list[bytes]:
        return [self._encoded]
