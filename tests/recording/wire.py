"""Fields of AMQP 0-9-1 tables of every type that RabbitMQ reads: their bytes, their JSON in a case, their Erlang term.

Clients choose types for the values that they are given, and have none for most. So a field here is a type and a value
(4.2.5.5, "Field Tables", with RabbitMQ's errata).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from unittest import mock

import pika
import pika.data

#: How numbers are written, by type.
NUMBERS: Final[Mapping[str, str]] = {
    "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "f": ">f", "d": ">d", "T": ">Q",
}  # fmt: skip
#: How a case names the type of an integer; `l` is what a plain number is.
_NAMED: Final[Mapping[str, str]] = {"b": "byte", "B": "ubyte", "s": "short", "u": "ushort", "I": "int", "i": "uint"}


@dataclass(frozen=True)
class Field:
    """One field; the value of `D` is (scale, unscaled), of `A` fields, of `F` pairs of a name and a field."""

    type: str
    value: Any

    def encoded(self) -> bytes:
        """The type and the value, as they stand in a table."""
        return self.type.encode() + self._content()

    def _content(self) -> bytes:
        match self.type:
            case "t":
                return struct.pack(">B", self.value)
            case "D":
                return struct.pack(">BI", *self.value)
            case "S" | "x":
                return _long(self.value)
            case "A":
                return _long(b"".join(item.encoded() for item in self.value))
            case "F":
                return encoded_table(dict(self.value))
            case "V":
                return b""
        return struct.pack(NUMBERS[self.type], self.value)

    def as_json(self) -> Any:
        """The value in the JSON form of cases (docs/conformance.md)."""
        match self.type:
            case "T":
                return {"timestamp": self.value * 1000}
            case "f":
                return {"float": self.value}
            case "D":
                scale, unscaled = self.value
                return {"decimal": str(Decimal(unscaled).scaleb(-scale))}
            case "S":
                return _text(self.value)
            case "x":
                return {"binary": self.value.hex()}
            case "A":
                return [item.as_json() for item in self.value]
            case "F":
                return {"map": {name: item.as_json() for name, item in self.value}}
            case "V":
                return None
        return {_NAMED[self.type]: self.value} if self.type in _NAMED else self.value

    def term(self) -> Any:
        """What RabbitMQ has in memory: types stand only inside lists and tables (rabbit_binary_parser)."""
        match self.type:
            case "A":
                return [(item.type, item.term()) for item in self.value]
            case "F":
                return [(name, item.type, item.term()) for name, item in self.value]
            case "D":
                return ("decimal", *self.value)
            case "f":
                return struct.unpack(">f", struct.pack(">f", self.value))[0]
        return self.value


def equal(one: Any, other: Any) -> bool:
    """Erlang's `==` of two terms: numbers by value, everything else by type and content."""
    numbers = [isinstance(term, int | float) and not isinstance(term, bool) for term in (one, other)]
    if all(numbers):
        return bool(one == other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def _text(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"binary": value.hex()}


def _long(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def encoded_table(fields: Mapping[str, Field]) -> bytes:
    """A table with its length."""
    return _long(b"".join(_name(name) + field.encoded() for name, field in fields.items()))


def _name(name: str) -> bytes:
    encoded = name.encode()
    return struct.pack(">B", len(encoded)) + encoded


class Headers(pika.BasicProperties):  # type: ignore[misc]  # pika has no types
    """Properties of a message that are its headers alone, in the bytes given here."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        super().__init__()
        self._fields = fields

    def encode(self) -> list[bytes]:
        """The property flags and the headers (4.2.6.1)."""
        return [struct.pack(">H", self.FLAG_HEADERS), encoded_table(self._fields)]


@contextmanager
def fields_of_every_type() -> Iterator[None]:
    """Meanwhile pika writes a `Field` where it writes a value: in the arguments of bindings."""
    encode_value = pika.data.encode_value

    def encode(pieces: list[bytes], value: Any) -> int:
        if not isinstance(value, Field):
            return int(encode_value(pieces, value))
        pieces.append(value.encoded())
        return len(pieces[-1])

    with mock.patch.object(pika.data, "encode_value", encode):
        yield
