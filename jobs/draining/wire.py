"""The content header of AMQP 0-9-1 (4.2.6.1, "The Content Header") read without loss.

Clients decode field tables for convenience: some cut the fraction of floats off, or end the connection at a time that
their language cannot hold. So the bytes of a header are read here, into the typed values of the message model.

| on the wire                       | value                                                       |
|-----------------------------------|-------------------------------------------------------------|
| `t`                               | boolean                                                     |
| `b` `B` `s` `U` `u` `I` `i` `l` `L` | integer                                                   |
| `f` `d`, `D` (scale, unscaled)    | double                                                      |
| `S`                               | string; binary where the bytes are not UTF-8                |
| `x`                               | binary                                                      |
| `T` (seconds)                     | timestamp                                                   |
| `A`, `F`                          | list, map                                                   |
| `V`                               | null                                                        |

`l` and `L` are signed, and `s` is a short integer, as RabbitMQ has them (its errata of the specification).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from bindery.router.errors import InvalidRecord
from bindery.router.values import MAX_DEPTH, TIMESTAMP_MAX, Table, Timestamp, Value

#: The properties in the order of their flags, from the highest bit down, and how each is written (1.8.3, "Properties").
PROPERTIES: Final[Mapping[str, str]] = {
    "content_type": "shortstr",
    "content_encoding": "shortstr",
    "headers": "table",
    "delivery_mode": "octet",
    "priority": "octet",
    "correlation_id": "shortstr",
    "reply_to": "shortstr",
    "expiration": "shortstr",
    "message_id": "shortstr",
    "timestamp": "timestamp",
    "type": "shortstr",
    "user_id": "shortstr",
    "app_id": "shortstr",
    "cluster_id": "shortstr",
}
_FLAGS: Final[Mapping[str, int]] = {name: 1 << (15 - bit) for bit, name in enumerate(PROPERTIES)}
_NUMBERS: Final[Mapping[bytes, str]] = {
    b"b": ">b", b"B": ">B", b"s": ">h", b"U": ">h", b"u": ">H", b"I": ">i", b"i": ">I", b"l": ">q", b"L": ">q",
    b"f": ">f", b"d": ">d",
}  # fmt: skip

_SIZES: Final[Mapping[bytes, int]] = {
    **{kind: struct.calcsize(form) for kind, form in _NUMBERS.items()},
    b"t": 1,
    b"D": 5,
    b"T": 8,
    b"V": 0,
}


def read_properties(encoded: bytes) -> dict[str, Value]:
    """The properties of a message by name, those that it has; short strings as bytes.

    `encoded` are the property flags and the property list. Raises InvalidRecord for what cannot be read, or held.
    """
    reader = _Reader(encoded)
    flags = int(reader.number(">H"))
    if flags & 1:
        raise InvalidRecord("property flags go on in a second word, and this class has none", where="properties")
    found: dict[str, Value] = {}
    for name, kind in PROPERTIES.items():
        if flags & _FLAGS[name]:
            found[name] = _KINDS[kind](reader, name)
    return found


def find_integer(encoded: bytes, name: str) -> int | None:
    """A field of the headers that is a 64-bit integer, whatever the others are; None when there is none of that name.

    `encoded` are the property flags and the property list.
    """
    try:
        reader = _Reader(encoded)
        flags = int(reader.number(">H"))
        for property_name in ("content_type", "content_encoding"):
            if flags & _FLAGS[property_name]:
                reader.short(property_name)
        if not flags & _FLAGS["headers"]:
            return None
        return _Reader(reader.long("headers")).find(name.encode())
    except InvalidRecord:
        return None


class _Reader:
    """A place in encoded bytes, moving on."""

    def __init__(self, encoded: bytes) -> None:
        self._encoded = encoded
        self._at = 0

    def take(self, length: int, where: str) -> bytes:
        end = self._at + length
        if end > len(self._encoded):
            raise InvalidRecord("ends too early", where=where)
        found = self._encoded[self._at : end]
        self._at = end
        return found

    def number(self, form: str, where: str = "properties") -> int | float:
        number: int | float = struct.unpack(form, self.take(struct.calcsize(form), where))[0]
        return number

    def short(self, where: str) -> bytes:
        return self.take(int(self.number(">B", where)), where)

    def long(self, where: str) -> bytes:
        return self.take(int(self.number(">I", where)), where)

    def time(self, where: str) -> Timestamp:
        seconds = int(self.number(">Q", where))
        if seconds > TIMESTAMP_MAX // 1000:
            raise InvalidRecord(f"time {seconds} (seconds) is later than any that can be held", where=where)
        return Timestamp(seconds * 1000)

    def find(self, name: bytes) -> int | None:
        """The 64-bit integer under a name; fields before it are passed over unread."""
        while self._at < len(self._encoded):
            found, kind = self.short("headers"), self.take(1, "headers")
            if found == name and kind in (b"l", b"L"):
                return int(self.number(_NUMBERS[kind]))
            if kind in (b"S", b"x", b"A", b"F"):
                self.long("headers")
            elif kind in _SIZES:
                self.take(_SIZES[kind], "headers")
            else:
                return None
        return None

    def table(self, where: str, depth: int) -> Table:
        found: dict[str, Value] = {}
        content = _Reader(self.long(where))
        while content._at < len(content._encoded):
            name = text(content.short(where), where)
            if name in found:
                raise InvalidRecord(f"field {name!r} is there twice", where=where)
            found[name] = content.value(f"{where}.{name}", depth + 1)
        return Table(found)

    def array(self, where: str, depth: int) -> tuple[Value, ...]:
        found: list[Value] = []
        content = _Reader(self.long(where))
        while content._at < len(content._encoded):
            found.append(content.value(f"{where}[{len(found)}]", depth + 1))
        return tuple(found)

    def value(self, where: str, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise InvalidRecord(f"nested deeper than {MAX_DEPTH} levels", where=where.partition(".")[0])
        kind = self.take(1, where)
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind], where)
        match kind:
            case b"S":
                content = self.long(where)
                try:
                    return content.decode()
                except UnicodeDecodeError:
                    return content
            case b"x":
                return self.long(where)
            case b"t":
                return self.number(">B", where) != 0
            case b"D":
                scale = int(self.number(">B", where))
                return float(Decimal(int(self.number(">i", where))).scaleb(-scale))
            case b"T":
                return self.time(where)
            case b"A":
                return self.array(where, depth)
            case b"F":
                return self.table(where, depth)
            case b"V":
                return None
        raise InvalidRecord(f"field type {kind!r} is unknown", where=where)


def text(content: bytes, where: str) -> str:
    """Bytes that a text column is to hold; raises InvalidRecord for those that are not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidRecord("is not UTF-8", where=where) from None


_KINDS: Final[Mapping[str, Callable[[_Reader, str], Value]]] = {
    "shortstr": _Reader.short,
    "octet": lambda reader, name: reader.number(">B", name),
    "timestamp": _Reader.time,
    "table": lambda reader, name: reader.table(name, 0),
}
