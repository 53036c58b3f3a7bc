"""Avro (specification 1.12): schemas, and bodies in binary encoding within bounds.

fastavro, the usual reader, descends by calls of C without a bound, so that a short body of a recursive schema ends the
process, and a block that claims 2^40 nulls fills the memory. Here every value is counted before it is made, and a level
of a body is one level of calls. What schemas mean is the same: generated values are compared with fastavro's.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from bindery.router.errors import InvalidInput
from bindery.router.filters.limits import PayloadLimits
from bindery.router.filters.unparsable import Unparsable, too_deep, too_many
from bindery.router.spelling import nearest
from bindery.router.values import timestamp

#: Levels of a schema: of JSON that nests types in types.
MAX_LEVELS: Final = 100
#: Digits of a decimal: far more than any writer has, few enough for arithmetic.
_MAX_PRECISION: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
#: Bytes of a variable-length integer of 64 bits.
_VARINT: Final = 10


class _Cut(Exception):
    """What a body holds that its schema does not allow."""


class _Body:
    """The bytes of one body while they are read; `nodes` are the values that it may still have."""

    __slots__ = ("at", "data", "limits", "nodes")

    def __init__(self, data: bytes, limits: PayloadLimits) -> None:
        self.data = data
        self.limits = limits
        self.nodes = limits.nodes
        self.at = 0

    def long(self) -> int:
        """A variable-length zig-zag integer of at most 64 bits."""
        data, at = self.data, self.at
        if at < len(data) and (byte := data[at]) < 0x80:  # most are small
            self.at = at + 1
            return (byte >> 1) ^ -(byte & 1)
        end = min(len(data), at + _VARINT)
        number = shift = 0
        while at < end:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number >= 1 << 64:
                    raise _Cut("an integer beyond 64 bits")
                self.at = at
                return (number >> 1) ^ -(number & 1)
            shift += 7
        raise _Cut("an integer beyond 64 bits" if shift == 7 * _VARINT else "an integer is cut off")

    def take(self, size: int) -> bytes:
        """So many bytes."""
        start = self.at
        if not 0 <= size <= len(self.data) - start:
            raise _Cut(f"{size} bytes are claimed where {len(self.data) - start} are left")
        self.at = start + size
        return self.data[start : start + size]


def _int(body: _Body) -> int:
    number = body.long()
    if not _INT_MIN <= number <= _INT_MAX:
        raise _Cut(f"{number} is no int of 32 bits")
    return number


def _boolean(body: _Body) -> bool:
    (byte,) = body.take(1)
    if byte > 1:
        raise _Cut(f"{byte} is no boolean")
    return byte == 1


def _float(body: _Body) -> float:
    (number,) = struct.unpack("<f", body.take(4))
    return float(number)


def _double(body: _Body) -> float:
    (number,) = struct.unpack("<d", body.take(8))
    return float(number)


def _bytes(body: _Body) -> bytes:
    return body.take(body.long())


def _string(body: _Body) -> str:
    try:
        return body.take(body.long()).decode("utf-8")
    except UnicodeDecodeError:
        raise _Cut("a string is not UTF-8") from None


_Leaf = Callable[[_Body], Any]
PRIMITIVES: Final[Mapping[str, _Leaf]] = {
    "null": lambda body: None,
    "boolean": _boolean,
    "int": _int,
    "long": _Body.long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}
_COMPLEX: Final = ("record", "enum", "array", "map", "fixed")


def _times(body: _Body) -> Any:
    return timestamp(body.long())


def _enum(symbols: tuple[str, ...]) -> _Leaf:
    def read(body: _Body) -> str:
        place = body.long()
        if not 0 <= place < len(symbols):
            raise _Cut(f"symbol {place} of an enum of {len(symbols)}")
        return symbols[place]

    return read


def _fixed(size: int) -> _Leaf:
    return lambda body: body.take(size)


def _decimal(unscaled: _Leaf, scale: int) -> _Leaf:
    """The double that is nearest, as AMQP's decimals are read."""
    divisor = 10**scale

    def read(body: _Body) -> float:
        try:
            # the quotient of two integers is rounded once
            return float(int.from_bytes(unscaled(body), "big", signed=True) / divisor)
        except OverflowError:
            raise _Cut("a decimal beyond the range of a double") from None

    return read


class _Type:
    """A type of a schema: `leaf` reads a value without parts, else `kind` says what the parts are.

    record  `fields`, each a name and a type
    array, map  `parts[0]`, the type of what is in it
    union  `parts`, the branches
    """

    __slots__ = ("fields", "kind", "leaf", "name", "parts")

    def __init__(self, kind: str, leaf: _Leaf | None = None) -> None:
        self.kind = kind
        self.leaf = leaf
        #: What tells branches of a union apart.
        self.name = kind
        self.fields: list[tuple[str, _Type]] = []
        self.parts: list[_Type] = []


_SHARED: Final = {name: _Type(name, leaf) for name, leaf in PRIMITIVES.items()}


def _value(kind: _Type, body: _Body, level: int) -> Any:
    """The next value: one level of calls for a level of the body; unions are none."""
    body.nodes -= 1
    if body.nodes < 0:
        raise too_many(body.limits)
    while kind.kind == "union":
        branch = body.long()
        if not 0 <= branch < len(kind.parts):
            raise _Cut(f"branch {branch} of a union of {len(kind.parts)}")
        kind = kind.parts[branch]
    if kind.leaf is not None:
        return kind.leaf(body)
    level += 1
    if level > body.limits.levels:
        raise too_deep(body.limits)
    if kind.kind == "record":
        record: dict[str, Any] = {}
        for name, part in kind.fields:
            record[name] = _value(part, body, level)
        return record
    items: list[Any] = []
    entries: dict[str, Any] = {}
    part = kind.parts[0]
    while count := body.long():
        if count < 0:
            count = -count
            body.long()  # the bytes of the block, for readers that skip it
        for _ in range(count):
            if kind.kind == "array":
                items.append(_value(part, body, level))
            else:
                name = _string(body)
                entries[name] = _value(part, body, level)
    return items if kind.kind == "array" else entries


class AvroSchema:
    """A schema (JSON data); raises InvalidInput, with the place inside it, for what is none.

    Values: records and maps as dicts, arrays as lists, of a union the value of its branch, enums as their symbol,
    bytes and fixed as bytes; `timestamp-millis` as Timestamp, `decimal` as a double, any other logical type as the
    type that it stands on.
    """

    def __init__(self, raw: Any) -> None:
        self._root = _Reader().type(raw, "", "", 0)

    def parse(self, data: bytes, limits: PayloadLimits) -> Any:
        """The value that a body states; raises Unparsable, also when bytes follow it."""
        body = _Body(data, limits)
        try:
            found = _value(self._root, body, 0)
            if body.at < len(data):
                raise _Cut(f"{len(data) - body.at} bytes follow the value")
        except _Cut as reason:
            raise Unparsable(f"the body is not of its Avro schema: {reason} (byte {body.at}{_framing(data)})") from None
        except RecursionError:
            raise too_deep(limits) from None
        return found


def _framing(data: bytes) -> str:
    """What the first bytes of a body that is not of its schema look like."""
    if data.startswith(b"\xc3\x01"):
        return "; it begins as single-object encoding, which is not read"
    if data.startswith(b"\x00") and len(data) > 5:
        number = int.from_bytes(data[1:5], "big")
        return f'; it begins as in a schema registry with schema {number}: declare the schemas under "registry"'
    return ""


class _Reader:
    """Reads one schema; `named` are its types with names, by their full names."""

    def __init__(self) -> None:
        self.named: dict[str, _Type] = {}

    def type(self, raw: Any, namespace: str, where: str, level: int) -> _Type:
        """A type as JSON states it: a name, an object, or the array of a union."""
        if level > MAX_LEVELS:
            _refuse(f"nested deeper than {MAX_LEVELS} levels", where)
        if isinstance(raw, str):
            return self._by_name(raw, namespace, where)
        if isinstance(raw, list):
            return self._union(raw, namespace, where, level)
        if not isinstance(raw, dict):
            _refuse("a schema is a name, an object or an array", where)
        return self._object(raw, namespace, where, level)

    def _by_name(self, name: str, namespace: str, where: str) -> _Type:
        if name in _SHARED:
            return _SHARED[name]
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self.named and name in self.named:
            return self.named[name]  # of no namespace, as Avro's own readers find it
        if full not in self.named:
            close = nearest(full, [*self.named, *PRIMITIVES])
            hint = f"did you mean {close}?" if close else "types are defined before they are named"
            _refuse(f"no type is called {full!r}", where, hint)
        return self.named[full]

    def _union(self, raw: list[Any], namespace: str, where: str, level: int) -> _Type:
        union = _Type("union")
        seen: set[str] = set()
        for number, one in enumerate(raw):
            part = self.type(one, namespace, f"{where}[{number}]", level + 1)
            if part.kind == "union":
                _refuse("a union directly in a union", f"{where}[{number}]")
            if part.name in seen:
                _refuse(f"a union has {part.name!r} twice", f"{where}[{number}]")
            seen.add(part.name)
            union.parts.append(part)
        if not raw:
            _refuse("a union without branches", where)
        return union

    def _object(self, raw: dict[str, Any], namespace: str, where: str, level: int) -> _Type:
        kind = raw.get("type")
        if not isinstance(kind, str):
            hint = "a type inside a type is a field of a record, items or values"
            _refuse("a schema has its type under `type`, as a name", where, hint)
        if kind in ("array", "map"):
            inside = "items" if kind == "array" else "values"
            if inside not in raw:
                _refuse(f"{inside} of a type {kind} are missing", where)
            found = _Type(kind)
            found.parts.append(self.type(raw[inside], namespace, f"{where}.{inside}", level + 1))
            return found
        if kind in ("record", "enum", "fixed"):
            return self._defined(raw, kind, namespace, where, level)
        if kind not in PRIMITIVES and "." not in kind and not self._is_known(kind, namespace):
            close = nearest(kind, [*PRIMITIVES, *_COMPLEX])
            hint = f"did you mean {close}?" if close else "one of " + ", ".join([*PRIMITIVES, *_COMPLEX])
            _refuse(f"there is no type {kind!r}", f"{where}.type", hint)
        found = self._by_name(kind, namespace, f"{where}.type")
        return _Type(kind, _logical(raw, found, where)) if kind in PRIMITIVES else found

    def _is_known(self, name: str, namespace: str) -> bool:
        return (f"{namespace}.{name}" if namespace else name) in self.named or name in self.named

    def _defined(self, raw: dict[str, Any], kind: str, namespace: str, where: str, level: int) -> _Type:
        """A type with a name, which what is inside it may already name."""
        full, namespace = full_name(raw, namespace, where)
        if full in self.named:
            _refuse(f"the type {full!r} is defined twice", f"{where}.name")
        found = self.named[full] = _Type(kind)
        found.name = full
        if kind == "enum":
            found.leaf = _enum(_symbols(raw, where))
        elif kind == "fixed":
            size = raw.get("size")
            if type(size) is not int or not 0 <= size <= _INT_MAX:
                _refuse("the size of a fixed is a number of bytes", f"{where}.size")
            found.leaf = _fixed(size)
            found.leaf = _logical(raw, found, where)
        else:
            self._fields(raw, found, namespace, where, level)
        return found

    def _fields(self, raw: dict[str, Any], record: _Type, namespace: str, where: str, level: int) -> None:
        fields = raw.get("fields")
        if not isinstance(fields, list):
            _refuse("the fields of a record are an array", f"{where}.fields")
        seen: set[str] = set()
        for number, one in enumerate(fields):
            place = f"{where}.fields[{number}]"
            if not isinstance(one, dict) or "type" not in one:
                _refuse("a field is an object with name and type", place)
            name = _plain_name(one.get("name"), f"{place}.name")
            if name in seen:
                _refuse(f"a record has the field {name!r} twice", f"{place}.name")
            seen.add(name)
            record.fields.append((name, self.type(one["type"], namespace, f"{place}.type", level + 1)))


def full_name(raw: dict[str, Any], namespace: str, where: str) -> tuple[str, str]:
    """The full name of a type, and the namespace of what is inside it (specification, "Names")."""
    name = raw.get("name")
    if isinstance(name, str) and "." in name:
        for part in name.split("."):
            _plain_name(part, f"{where}.name")
        return name, name.rpartition(".")[0]
    name = _plain_name(name, f"{where}.name")
    stated = raw.get("namespace", namespace)
    if not isinstance(stated, str):
        _refuse("a namespace is text", f"{where}.namespace")
    for part in stated.split(".") if stated else ():
        _plain_name(part, f"{where}.namespace")
    return (f"{stated}.{name}" if stated else name), stated


def _plain_name(name: object, where: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        _refuse(f"{json.dumps(name)[:60]} is no name", where, "letters, digits and _, no digit first")
    return name


def _symbols(raw: dict[str, Any], where: str) -> tuple[str, ...]:
    symbols = raw.get("symbols")
    if not isinstance(symbols, list) or not symbols:
        _refuse("the symbols of an enum are an array of names", f"{where}.symbols")
    names = tuple(_plain_name(one, f"{where}.symbols[{number}]") for number, one in enumerate(symbols))
    if len(set(names)) < len(names):
        _refuse("an enum has a symbol twice", f"{where}.symbols")
    return names


def _logical(raw: dict[str, Any], base: _Type, where: str) -> _Leaf:
    """What reads a type with its logical type; what is unknown or does not go with it is ignored (specification)."""
    logical, leaf = raw.get("logicalType"), base.leaf
    assert leaf is not None  # noqa: S101  # primitive types and fixed have no parts
    if logical == "timestamp-millis" and base.kind == "long":
        return _times
    if logical == "decimal" and base.kind in ("bytes", "fixed"):
        precision, scale = raw.get("precision"), raw.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
            return leaf
        if precision > _MAX_PRECISION:
            _refuse(f"a decimal of more than {_MAX_PRECISION} digits", f"{where}.precision")
        return _decimal(leaf, scale)
    return leaf


def _refuse(message: str, where: str, hint: str | None = None) -> NoReturn:
    raise InvalidInput(message, where=where, hint=hint)
