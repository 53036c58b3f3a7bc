"""Typed values: what an AMQP value folds to, and its JSON form.

A value is one of None, bool, int (64 bits), float, str, bytes, `Timestamp`, tuple (a list or array)
or `Table` (a map); nested content that has none of these forms is `Opaque`. Widths fold as in the Apache AMQP filters,
"Mapping AMQP types to JMS types": every integer width becomes int, float/double/decimal become float, symbol
and char become str, uuid becomes 16 bytes.

In JSON, an object with exactly one key out of `TYPED_KEYS` states a type (`{"timestamp": 0}`); any other
object is a `Table`. `decode` and `encode` are inverse up to that folding.
"""

from __future__ import annotations

import json
import math
import re
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Union

from bindery.router.errors import InvalidInput

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
#: Milliseconds that still fit a 64-bit count of microseconds, the unit of Delta timestamps. AMQP's 64 bits of
#: milliseconds go further; nobody means a year beyond 294247 there but as "never", so those read as these ends.
TIMESTAMP_MIN, TIMESTAMP_MAX = -(INT64_MAX // 1000), INT64_MAX // 1000
#: Levels of lists and maps that are read before the value is refused.
MAX_DEPTH = 100


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Milliseconds since 1970-01-01T00:00:00Z."""

    ms: int


def timestamp(ms: int) -> Timestamp:
    """The time of so many milliseconds, or the last one that fits."""
    return Timestamp(min(max(ms, TIMESTAMP_MIN), TIMESTAMP_MAX))


def as_time(value: Value) -> Value:
    """A time as the JSON form of a field may write it: bare milliseconds are a timestamp, the rest stays."""
    return timestamp(value) if type(value) is int else value


class Table(Mapping[str, "Value"]):
    """An immutable map with text keys; two tables are equal when their typed identities are."""

    __slots__ = ("_identity", "_items")

    def __init__(self, items: Mapping[str, Value] | None = None) -> None:
        self._items: dict[str, Value] = dict(items or {})
        self._identity: str | None = None

    def __getitem__(self, key: str) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def identity(self) -> str:
        """A text that two tables share exactly when keys and typed values are the same, order ignored."""
        if self._identity is None:
            self._identity = identity(self)
        return self._identity

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"Table({self._items!r})"

    def __getstate__(self) -> dict[str, Value]:
        return self._items

    def __setstate__(self, state: dict[str, Value]) -> None:
        self._items = state
        self._identity = None


@dataclass(frozen=True, slots=True)
class Opaque:
    """A nested value known by its JSON text alone: an integer beyond 64 bits, or text that is no list or map.

    It is there, so not null, but it equals nothing, stands in no order, and no operation applies to it.
    """

    text: str


Value = Union[None, bool, int, float, str, bytes, Timestamp, "tuple[Value, ...]", Table, Opaque]

#: What the types of values are called.
TYPE_NAMES: Mapping[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "double",
    str: "string",
    bytes: "binary",
    Timestamp: "timestamp",
    tuple: "list",
    Table: "map",
    Opaque: "nested text",
}


def a_type(kind: type) -> str:
    """The name of a type of values with its article: a string, an integer."""
    name = TYPE_NAMES[kind]
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


#: AMQP 0-9-1 names of the types that JSON values become.
_AMQP_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "long"),
    (float, "double"),
    (str, "longstr"),
    (bytes, "binary"),
    (Timestamp, "timestamp"),
    (tuple, "array"),
    (Table, "table"),
)


def amqp_type(value: Value) -> str:
    """The AMQP 0-9-1 type of a value."""
    return next((name for kind, name in _AMQP_TYPES if isinstance(value, kind)), "void")


def _integer(bits: int, *, signed: bool) -> Callable[[Any], int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def read(raw: Any) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or not low <= raw <= high:
            raise ValueError(f"expected an integer from {low} to {high}")
        return raw

    return read


def _timestamp(raw: Any) -> Timestamp:
    if isinstance(raw, bool) or not isinstance(raw, int) or not INT64_MIN <= raw <= INT64_MAX:
        raise ValueError(f"expected milliseconds since 1970 from {INT64_MIN} to {INT64_MAX}")
    return timestamp(raw)


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ValueError("expected a string")
    return raw


def _char(raw: Any) -> str:
    if not isinstance(raw, str) or len(raw) != 1:
        raise ValueError("expected a string of one character")
    return raw


def _decimal(raw: Any) -> float:
    try:
        return float(Decimal(str(raw)))
    except InvalidOperation:
        raise ValueError("expected a decimal number as a string") from None


def _float32(raw: Any) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise ValueError("expected a number")
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", raw))[0]
    except OverflowError:
        return math.copysign(math.inf, raw)
    return rounded


_SCALARS: dict[str, Callable[[Any], Value]] = {
    "binary": lambda raw: bytes.fromhex(_text(raw)),
    "timestamp": _timestamp,
    "uuid": lambda raw: uuid.UUID(_text(raw)).bytes,
    "symbol": _text,
    "char": _char,
    "float": _float32,
    "decimal": _decimal,
    "byte": _integer(8, signed=True),
    "short": _integer(16, signed=True),
    "int": _integer(32, signed=True),
    "ubyte": _integer(8, signed=False),
    "ushort": _integer(16, signed=False),
    "uint": _integer(32, signed=False),
    "ulong": _integer(64, signed=False),
}
#: Keys that, alone in a JSON object, state the type of the value behind them.
TYPED_KEYS = frozenset(_SCALARS) | {"list", "map"}


def decode(raw: Any, *, where: str = "value", nested: bool = False, depth: int = 0) -> Value:
    """The typed value that a parsed JSON value states.

    `nested` says that the value stands inside a list or map, where an integer outside 64 bits is kept
    as it is (AMQP 1.0 part 3, §3.2). Raises InvalidInput, naming `where`, for a value that does not fit.
    """
    if depth > MAX_DEPTH:
        raise InvalidInput(f"nested deeper than {MAX_DEPTH} levels", where=where)
    match raw:
        case None | bool() | str() | float():
            return raw
        case int():
            if not nested and not INT64_MIN <= raw <= INT64_MAX:
                raise InvalidInput(f"integer {raw} does not fit 64 bits", where=where)
            return raw
        case list():
            return tuple(
                decode(item, where=f"{where}[{n}]", nested=True, depth=depth + 1) for n, item in enumerate(raw)
            )
        case dict():
            if len(raw) == 1:
                ((key, content),) = raw.items()
                if key in TYPED_KEYS:
                    return _decode_typed(key, content, where, nested, depth)
            return decode_table(raw, where=where, depth=depth)
    raise InvalidInput(f"a {type(raw).__name__} is not a JSON value", where=where)


def decode_table(raw: Any, *, where: str = "arguments", depth: int = 0, nested: bool = True) -> Table:
    """A plain JSON object as a `Table`; `nested=False` when its values stand at the top level of a record."""
    if not isinstance(raw, dict):
        raise InvalidInput(f"expected an object, found {json.dumps(raw)[:60]}", where=where)
    return Table(
        {
            key: decode(value, where=f"{where}.{key}", nested=nested, depth=depth + 1 if nested else depth)
            for key, value in raw.items()
        }
    )


def _decode_typed(key: str, content: Any, where: str, nested: bool, depth: int) -> Value:
    if key == "list":
        if not isinstance(content, list):
            raise InvalidInput("expected an array", where=f"{where}.list")
        return decode(content, where=where, nested=nested, depth=depth)
    if key == "map":
        return decode_table(content, where=f"{where}.map", depth=depth)
    try:
        value = _SCALARS[key](content)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{json.dumps(content)[:60]} is no {key}: {error}", where=where) from None
    if isinstance(value, int) and not nested and value > INT64_MAX:
        raise InvalidInput(f"integer {value} does not fit 64 bits", where=where)
    return value


_SURROGATE = re.compile("[\ud800-\udfff]")


def refuse_surrogates(raw: Any, *, where: str) -> None:
    """Raise InvalidInput for parsed JSON with a text or key that UTF-8 cannot carry, naming its place."""
    pending = [(raw, where)]
    while pending:
        item, place = pending.pop()
        if isinstance(item, str):
            if _SURROGATE.search(item):
                raise InvalidInput("text with a lone surrogate is not Unicode text", where=place)
        elif isinstance(item, Mapping):
            pending += [part for key, value in item.items() for part in ((key, place), (value, f"{place}.{key}"))]
        elif isinstance(item, list):
            pending += [(value, f"{place}[{n}]") for n, value in enumerate(item)]


def encode(value: Value) -> Any:
    """The JSON form of a value; `decode(encode(v))` gives v back, unless it is an `Opaque`."""
    match value:
        case float() if not math.isfinite(value):
            return {"decimal": str(value)}
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {"binary": value.hex()}
        case Timestamp():
            return {"timestamp": value.ms}
        case Opaque():
            return {"nested": value.text}
        case tuple():
            return [encode(item) for item in value]
        case Table():
            plain = {key: encode(item) for key, item in value.items()}
            return {"map": plain} if len(plain) == 1 and next(iter(plain)) in TYPED_KEYS else plain
    raise TypeError(f"not a value: {value!r}")


def encode_table(table: Mapping[str, Value]) -> dict[str, Any]:
    """The JSON object of a table whose place already says that it is one (arguments, a section)."""
    return {key: encode(item) for key, item in table.items()}


def identity(value: Value) -> str:
    """A text shared exactly by values of the same family and content; 0.0 and -0.0 share one."""
    return json.dumps(encode(_positive_zero(value)), sort_keys=True, separators=(",", ":"))


def _positive_zero(value: Value) -> Value:
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, tuple):
        return tuple(_positive_zero(item) for item in value)
    if isinstance(value, Table):
        return Table({key: _positive_zero(item) for key, item in value.items()})
    return value


def to_nested_text(value: Value) -> str:
    """The JSON text kept in the `nested` field of a stored value."""
    if isinstance(value, Opaque):
        return value.text
    return json.dumps(encode(value), ensure_ascii=False, separators=(",", ":"))


def from_nested_text(text: str) -> Value:
    """The list or map behind a stored `nested` text; raises InvalidInput when it is not JSON."""
    try:
        return decode(json.loads(text), where="nested", nested=True)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"nested value is not JSON: {error}", where="nested") from None


def nested_value(text: str) -> Value:
    """The list or map behind a stored `nested` text, whoever wrote it: an `Opaque` when it holds none."""
    try:
        value = from_nested_text(text)
    except InvalidInput:
        return Opaque(text)
    return value if isinstance(value, tuple | Table) else Opaque(text)


def member_value(value: Value) -> Value:
    """What a member of a list or map is outside of it: an integer that only they can hold stays JSON text."""
    if type(value) is int and not INT64_MIN <= value <= INT64_MAX:
        return Opaque(str(value))
    return value


def type_name(value: Value) -> str | None:
    """The type of a value, in the words of the message model; None for null."""
    return None if value is None else TYPE_NAMES[type(value)]


def shown(value: Value) -> str:
    """A value for a message: its JSON form, cut to a readable length."""
    text = json.dumps(encode(value), ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"


def described(value: Value) -> str:
    """A value with its type: the string "60"."""
    return "null" if value is None else f"the {type_name(value)} {shown(value)}"
