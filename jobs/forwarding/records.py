"""Rows of a queue as records of a Kafka topic, batch by batch (docs/forward.md says which header is what).

A value becomes the bytes of its text, and a header of the record says which of them are not strings: so
nothing is lost, and whoever reads text needs no more than that.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.message import HEADER, MAP_SECTIONS, PROPERTIES, QUEUE_SCHEMA, VALUE
from bindery.router.utf8 import repaired

#: The header that names the types of values that are not strings, as JSON.
TYPES: Final = "bindery.types"
#: The header that names the section from which the value of the record was taken, where that is not the body.
SECTION: Final = "bindery.value"
_ROUTING_KEY: Final = "routing_key"
_ENVELOPE: Final = ("exchange", _ROUTING_KEY, "connection")
_IDENTITY: Final = ("stream", "batch_id", "seq")
_BODIES: Final = ("amqp_value", "amqp_sequence")
#: The columns that records are made of.
COLUMNS: Final = tuple(name for name in QUEUE_SCHEMA.names if name not in ("bcc", "routed_at", "source"))
_NO_TEXT: Final = pa.scalar(None, pa.string())

#: As the client takes it; text is in bytes here.
Header = tuple[str, str | bytes | None]
_Texts = list[bytes | None]


class Record(NamedTuple):
    """A record as it is produced; `timestamp` in milliseconds since 1970, 0 for the time of sending."""

    value: bytes | None
    key: str | bytes | None
    headers: list[Header]
    timestamp: int

    def identity(self) -> str:
        """Which row it is, for messages."""
        stated = {name: value.decode("utf-8", "replace") for name, value in self.headers if isinstance(value, bytes)}
        stream, batch, seq = (stated.get(f"routing.{name}") for name in _IDENTITY)
        return f"row {seq} of batch {batch} of stream {stream!r}"


def records(batch: pa.RecordBatch, *, key: str = _ROUTING_KEY) -> Iterator[Record]:
    """The records of rows that have the columns of a queue table, in their order; the header `key` gives the key."""
    rows = batch.num_rows
    fixed = _fixed(batch)
    typed = _typed(batch)
    sections = [_Section(name, batch.column(name)) for name in MAP_SECTIONS if _present(batch.column(name))]
    bodies = {name: value for name in _BODIES if (value := typed.pop(name, None)) is not None}
    body = batch.column("body").to_pylist()
    times = _times(batch)
    keys = next((texts for name, texts in fixed if name == key), None)
    for row in range(rows):
        headers: list[Header] = [(name, text) for name, texts in fixed if (text := texts[row]) is not None]
        kinds: list[tuple[str, str]] = []
        for name, value in typed.items():
            value.add(headers, kinds, row, name)
        for section in sections:
            section.add(headers, kinds, row)
        content = body[row]
        for name, value in bodies.items():
            if content is None and value.texts[row] is not None:
                content = value.texts[row]
                headers.append((SECTION, name.encode()))
                value.note(kinds, row, name)
            else:
                value.add(headers, kinds, row, name)
        if kinds:
            headers.append((TYPES, _types(tuple(kinds))))
        chosen = keys[row] if keys is not None else next((text for name, text in headers if name == key), None)
        yield Record(content, chosen or None, headers, times[row])


class _Values:
    """Values of the union as bytes, and the type of each that is no string."""

    def __init__(self, array: pa.Array) -> None:
        members = dict(zip((field.name for field in VALUE), array.flatten(), strict=True))
        present = [name for name, member in members.items() if member.null_count < len(member)]
        if not present:
            self.texts: _Texts = [None] * len(array)
            self.kinds: list[str | None] = [None] * len(array)
            return
        texts = [_as_bytes(members[name]) for name in present]
        kinds = [pc.if_else(members[name].is_valid(), name, _NO_TEXT) for name in present]
        self.texts = pc.coalesce(*texts).to_pylist()
        self.kinds = pc.coalesce(*kinds).to_pylist()

    def add(self, headers: list[Header], kinds: list[tuple[str, str]], row: int, name: str) -> None:
        """Add the header of a row, if it holds a value."""
        text = self.texts[row]
        if text is not None:
            headers.append((name, text))
            self.note(kinds, row, name)

    def note(self, kinds: list[tuple[str, str]], row: int, name: str) -> None:
        """Note the type of a row's value under a name."""
        kind = self.kinds[row]
        if kind is not None and kind != "string":
            kinds.append((name, kind))


class _Section:
    """A section that is a map: a header for each of its entries, also for those that are null."""

    def __init__(self, name: str, column: pa.MapArray) -> None:
        offsets: list[int] = column.offsets.to_pylist()
        first, last = offsets[0], offsets[-1]
        names = _texts(column.keys.slice(first, last - first))
        # a NUL would end a name in the client
        self._names = [f"{name}.{entry}".replace("\0", "\ufffd") for entry in names]
        self._values = _Values(column.items.slice(first, last - first))
        self._places = [
            range(begin - first, end - first) if valid else range(0)
            for begin, end, valid in zip(offsets, offsets[1:], column.is_valid().to_pylist(), strict=False)
        ]

    def add(self, headers: list[Header], kinds: list[tuple[str, str]], row: int) -> None:
        """Add the headers of a row."""
        for place in self._places[row]:
            headers.append((self._names[place], self._values.texts[place]))
            self._values.note(kinds, place, self._names[place])


def _fixed(batch: pa.RecordBatch) -> list[tuple[str, _Texts]]:
    """The headers whose type their name tells, those of the identity first; columns that hold nothing are left out."""
    columns: dict[str, pa.Array] = {f"routing.{name}": pc.struct_field(batch["routing"], name) for name in _IDENTITY}
    columns |= {name: batch[name] for name in _ENVELOPE}
    columns |= {f"header.{field.name}": pc.struct_field(batch["header"], field.name) for field in HEADER}
    columns |= {
        f"properties.{field.name}": pc.struct_field(batch["properties"], field.name)
        for field in PROPERTIES
        if field.type != VALUE
    }
    found = [(name, _as_bytes(column).to_pylist()) for name, column in columns.items() if _present(column)]
    if _present(batch["cc"]):
        listed = _texts(batch["cc"])
        found.append(("cc", [json.dumps(cc, ensure_ascii=False).encode() if cc else None for cc in listed]))
    if pc.any(batch["mandatory"]).as_py():
        found.append(("mandatory", [b"true" if set_ else None for set_ in batch["mandatory"].to_pylist()]))
    return found


def _typed(batch: pa.RecordBatch) -> dict[str, _Values]:
    columns: dict[str, pa.Array] = {
        f"properties.{field.name}": pc.struct_field(batch["properties"], field.name)
        for field in PROPERTIES
        if field.type == VALUE
    }
    columns |= {name: batch[name] for name in _BODIES}
    return {name: _Values(column) for name, column in columns.items() if _present(column)}


def _texts(array: pa.Array) -> list[Any]:
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        return list(repaired(array).to_pylist())


def _present(column: pa.Array) -> bool:
    return bool(column.null_count < len(column))


def _times(batch: pa.RecordBatch) -> list[int]:
    """The creation time of each message in milliseconds; 0 for none, and for one to come, which brokers refuse."""
    created = pc.struct_field(batch["properties"], "creation_time").cast(pa.int64()).to_pylist()
    now = time.time_ns() // 1_000
    return [us // 1_000 if us is not None and 0 < us <= now else 0 for us in created]


def _as_bytes(array: pa.Array) -> pa.Array:
    """Plain values as the bytes of their text; docs/forward.md, "Values"."""
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return array.cast(pa.large_binary())
    if pa.types.is_timestamp(kind):
        texts = [None if us is None else _milliseconds(us) for us in array.cast(pa.int64()).to_pylist()]
        return pa.array(texts, pa.large_binary())
    if pa.types.is_floating(kind):
        texts = [None if number is None else _double(number) for number in array.to_pylist()]
        return pa.array(texts, pa.large_binary())
    return array.cast(pa.large_string()).cast(pa.large_binary())


def _milliseconds(us: int) -> bytes:
    whole, rest = divmod(abs(us), 1_000)
    return f"{'-' if us < 0 else ''}{whole}{f'.{rest:03}' if rest else ''}".encode()


def _double(number: float) -> bytes:
    """The shortest text that reads as the same number, here and in Java."""
    if math.isnan(number):
        return b"NaN"
    return repr(number).replace("inf", "Infinity").encode()


@lru_cache(4096)
def _types(kinds: tuple[tuple[str, str], ...]) -> bytes:
    return json.dumps(dict(kinds), ensure_ascii=False, separators=(",", ":")).encode()
