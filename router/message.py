"""The canonical message record: one schema for inbox, engine and queue tables.

The sections are those of the AMQP 1.0 message format (part 3, §3.2) plus the publish fields. `Message`
is one record with typed values, for reference evaluation, REST and tests; batches of records travel as
Arrow with `MESSAGE_SCHEMA`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.errors import InvalidInput, InvalidRecord
from bindery.router.spelling import did_you_mean, nearest
from bindery.router.utf8 import repaired_batch
from bindery.router.values import (
    Table,
    Timestamp,
    Value,
    as_time,
    decode,
    decode_table,
    encode,
    encode_table,
    nested_value,
    refuse_surrogates,
    to_nested_text,
)

TIMESTAMP = pa.timestamp("us", tz="UTC")

#: A typed union that any Parquet reader understands: exactly one field is set; none = a present null.
VALUE = pa.struct(
    [
        ("bool", pa.bool_()),
        ("int", pa.int64()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("timestamp", TIMESTAMP),
        ("nested", pa.string()),
    ]
)
VALUE_MAP = pa.map_(pa.string(), VALUE)

HEADER = pa.struct(
    [
        ("durable", pa.bool_()),
        ("priority", pa.int32()),
        ("ttl", pa.int64()),
        ("first_acquirer", pa.bool_()),
        ("delivery_count", pa.int64()),
    ]
)
PROPERTIES = pa.struct(
    [
        ("message_id", VALUE),
        ("user_id", pa.binary()),
        ("to", pa.string()),
        ("subject", pa.string()),
        ("reply_to", pa.string()),
        ("correlation_id", VALUE),
        ("content_type", pa.string()),
        ("content_encoding", pa.string()),
        ("absolute_expiry_time", TIMESTAMP),
        ("creation_time", TIMESTAMP),
        ("group_id", pa.string()),
        ("group_sequence", pa.int64()),
        ("reply_to_group_id", pa.string()),
    ]
)
#: Sections that are maps from text to value, in schema order.
MAP_SECTIONS = ("delivery_annotations", "message_annotations", "application_properties", "footer")
#: What an absent header field reads as in every filter (AMQP 1.0 part 3, §3.2.1); ttl has no default.
HEADER_DEFAULTS: Mapping[str, Value] = {
    "durable": False,
    "priority": 4,
    "first_acquirer": False,
    "delivery_count": 0,
}

MESSAGE_SCHEMA = pa.schema(
    [
        ("exchange", pa.string()),
        ("routing_key", pa.string()),
        ("cc", pa.list_(pa.string())),
        ("bcc", pa.list_(pa.string())),
        ("mandatory", pa.bool_()),
        ("connection", pa.string()),
        ("header", HEADER),
        ("delivery_annotations", VALUE_MAP),
        ("message_annotations", VALUE_MAP),
        ("properties", PROPERTIES),
        ("application_properties", VALUE_MAP),
        ("body", pa.binary()),
        ("amqp_value", VALUE),
        ("amqp_sequence", VALUE),
        ("footer", VALUE_MAP),
    ]
)

#: A message as its sender hands it over. What the sender asks of the way, and nobody asks afterwards, is not kept
#: in tables: the disposition of an unroutable row tells it.
SENT_SCHEMA = pa.schema([*MESSAGE_SCHEMA, ("reject_unroutable", pa.bool_())])

#: Where a routed row came from within its stream: `bindings` are the sorted ids of every binding and
#: divert that matched the message; `seq` numbers the message within its batch, the same on every copy.
ROUTING = pa.struct(
    [
        ("topology_version", pa.int64()),
        ("stream", pa.string()),
        ("batch_id", pa.int64()),
        ("seq", pa.int64()),
        ("bindings", pa.list_(pa.int32())),
    ]
)
SOURCE = pa.struct(
    [
        ("file", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("row_index", pa.int64()),
    ]
)
#: Set on an unroutable row when it has been routed again: under which version, and in which batch.
REDRIVEN = pa.struct([("topology_version", pa.int64()), ("batch", pa.string())])
QUEUE_SCHEMA = pa.schema([*MESSAGE_SCHEMA, ("routing", ROUTING), ("routed_at", TIMESTAMP), ("source", SOURCE)])
UNROUTABLE_SCHEMA = pa.schema(
    [
        *MESSAGE_SCHEMA,
        ("reason", pa.string()),
        ("disposition", pa.string()),
        ("detail", pa.string()),
        ("raw", pa.binary()),
        ("routing", ROUTING),
        ("routed_at", TIMESTAMP),
        ("source", SOURCE),
        ("redriven", REDRIVEN),
    ]
)
#: Of a message in a journal, the ids of the queues that it reached stand beside those of the bindings, and of these the
#: ones whose copies wait there, since they are deferred; null where none is.
JOURNAL_ROUTING = pa.struct([*ROUTING, ("queues", pa.list_(pa.int32())), ("deferred", pa.list_(pa.int32()))])
JOURNAL_SCHEMA = pa.schema(
    [
        *MESSAGE_SCHEMA,
        ("reason", pa.string()),
        ("disposition", pa.string()),
        ("detail", pa.string()),
        ("routing", JOURNAL_ROUTING),
        ("routed_at", TIMESTAMP),
        ("source", SOURCE),
    ]
)

_HEADER_TYPES: Mapping[str, type] = {
    "durable": bool,
    "priority": int,
    "ttl": int,
    "first_acquirer": bool,
    "delivery_count": int,
}
_PROPERTY_TYPES: Mapping[str, type | None] = {
    "message_id": None,
    "user_id": bytes,
    "to": str,
    "subject": str,
    "reply_to": str,
    "correlation_id": None,
    "content_type": str,
    "content_encoding": str,
    "absolute_expiry_time": Timestamp,
    "creation_time": Timestamp,
    "group_id": str,
    "group_sequence": int,
    "reply_to_group_id": str,
}
#: Field name -> Python type of its value (None: any value), for the two fixed sections.
SECTION_FIELDS: Mapping[str, Mapping[str, type | None]] = {
    "header": _HEADER_TYPES,
    "properties": _PROPERTY_TYPES,
}
#: The types of a field that may hold several: message ids (AMQP 1.0 part 3, §3.2.11 to §3.2.14).
MESSAGE_ID_TYPES = (int, str, bytes)
_NO_TABLE = Table()


@dataclass(frozen=True, slots=True)
class Message:
    """One message record with typed values; absent parts are None or empty."""

    exchange: str = ""
    routing_key: str = ""
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    mandatory: bool = False
    #: The sender asks for rejection, as an AMQP 1.0 link does with the target capability REJECT_UNROUTABLE.
    reject_unroutable: bool = False
    connection: str | None = None
    header: Mapping[str, Value] = field(default_factory=dict)
    delivery_annotations: Table = _NO_TABLE
    message_annotations: Table = _NO_TABLE
    properties: Mapping[str, Value] = field(default_factory=dict)
    application_properties: Table = _NO_TABLE
    body: bytes | None = None
    amqp_value: Value = None
    amqp_sequence: Value = None
    footer: Table = _NO_TABLE

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Message:
        """A message from its JSON form; unknown keys and wrong types raise InvalidRecord naming the key."""
        try:
            return cls._from_json(raw)
        except InvalidInput as error:
            raise InvalidRecord(error.message, where=error.where, hint=error.hint) from None

    @classmethod
    def _from_json(cls, raw: Mapping[str, Any]) -> Message:
        if not isinstance(raw, Mapping):
            raise InvalidRecord("a message is a JSON object", where="message")
        unknown = sorted(set(raw) - _READERS.keys())
        if unknown:
            known = "known keys: " + ", ".join(_READERS)
            hint = did_you_mean(nearest(unknown[0], _READERS), known)
            raise InvalidRecord(f"unknown key {unknown[0]!r}", where=unknown[0], hint=hint)
        parts = {key: _READERS[key](value, key) for key, value in raw.items() if value is not None}
        refuse_surrogates(raw, where="message")  # Arrow would fail the whole batch
        return cls(**parts)

    def as_json(self) -> dict[str, Any]:
        """The JSON form, absent parts left out; `Message.from_json` reads it back."""
        out: dict[str, Any] = {"exchange": self.exchange, "routing_key": self.routing_key}
        if self.cc:
            out["cc"] = list(self.cc)
        if self.bcc:
            out["bcc"] = list(self.bcc)
        if self.mandatory:
            out["mandatory"] = True
        if self.reject_unroutable:
            out["reject_unroutable"] = True
        if self.connection is not None:
            out["connection"] = self.connection
        for section in ("header", *MAP_SECTIONS, "properties"):
            content = getattr(self, section)
            if content:
                out[section] = encode_table(content)
        if self.body is not None:
            out["body"] = {"binary": self.body.hex()}
        for section in ("amqp_value", "amqp_sequence"):
            if getattr(self, section) is not None:
                out[section] = encode(getattr(self, section))
        return out

    def as_row(self) -> dict[str, Any]:
        """The record as one Arrow row of `SENT_SCHEMA` (times as integers of microseconds)."""
        return {
            "exchange": self.exchange,
            "routing_key": self.routing_key,
            "cc": list(self.cc) or None,
            "bcc": list(self.bcc) or None,
            "mandatory": self.mandatory,
            "connection": self.connection,
            "header": dict(self.header) or None,
            **{name: _map_row(getattr(self, name)) for name in MAP_SECTIONS},
            "properties": _properties_row(self.properties),
            "body": self.body,
            "amqp_value": None if self.amqp_value is None else value_row(self.amqp_value),
            "amqp_sequence": None if self.amqp_sequence is None else value_row(self.amqp_sequence),
            "reject_unroutable": self.reject_unroutable,
        }


def to_batch(messages: Iterable[Message]) -> pa.RecordBatch:
    """Messages as one record batch of `SENT_SCHEMA`."""
    return pa.RecordBatch.from_pylist([message.as_row() for message in messages], schema=SENT_SCHEMA)


def from_batch(batch: pa.RecordBatch | pa.Table) -> list[Message]:
    """The messages of a batch or table that has (at least) the message columns.

    Times are read as integers, so that every 64-bit timestamp survives, and texts that are not UTF-8 with U+FFFD
    in place of the bytes at fault.
    """
    names = [name for name in SENT_SCHEMA.names if name in MESSAGE_SCHEMA.names or name in batch.schema.names]
    columns = [pc.cast(batch.column(name), _TIMELESS.field(name).type) for name in names]
    table = pa.table(dict(zip(names, columns, strict=True)))
    try:
        rows = table.to_pylist()
    except UnicodeDecodeError:
        rows = [row for part in table.to_batches() for row in repaired_batch(part).to_pylist()]
    return [_from_row(row) for row in rows]


def value_row(value: Value) -> dict[str, Any]:
    """A value as a row of the `VALUE` union; a present null has no field set."""
    match value:
        case None:
            return {}
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case float():
            return {"double": value}
        case str():
            return {"string": value}
        case bytes():
            return {"binary": value}
        case Timestamp():
            return {"timestamp": value.ms * 1000}
    return {"nested": to_nested_text(value)}


def value_from_row(row: Mapping[str, Any] | None) -> Value:
    """The value behind a row of the union whose timestamp is an integer of microseconds."""
    if row is None:
        return None
    for name, content in row.items():
        if content is not None:
            if name == "timestamp":
                return Timestamp(content // 1000)
            return nested_value(content) if name == "nested" else content
    return None


def _map_row(table: Table) -> list[tuple[str, Any]] | None:
    return [(key, value_row(value)) for key, value in table.items()] or None


def _properties_row(properties: Mapping[str, Value]) -> dict[str, Any] | None:
    row: dict[str, Any] = {}
    for name, value in properties.items():
        if _PROPERTY_TYPES[name] is None:
            row[name] = value_row(value)
        else:
            row[name] = value.ms * 1000 if isinstance(value, Timestamp) else value
    return row or None


def _timeless(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([(member.name, _timeless(member.type)) for member in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _timeless(kind.item_type))
    return kind


_TIMELESS = pa.schema([(member.name, _timeless(member.type)) for member in SENT_SCHEMA])


def _from_row(row: Mapping[str, Any]) -> Message:
    properties: dict[str, Value] = {}
    for name, value in (row["properties"] or {}).items():
        if value is None:
            continue
        kind = _PROPERTY_TYPES[name]
        if kind is None:
            properties[name] = value_from_row(value)
        else:
            properties[name] = Timestamp(value // 1000) if kind is Timestamp else value
    return Message(
        exchange=row["exchange"] or "",
        routing_key=row["routing_key"] or "",
        cc=tuple(row["cc"] or ()),
        bcc=tuple(row["bcc"] or ()),
        mandatory=bool(row["mandatory"]),
        reject_unroutable=bool(row.get("reject_unroutable")),
        connection=row["connection"],
        header={name: value for name, value in (row["header"] or {}).items() if value is not None},
        properties=properties,
        body=row["body"],
        amqp_value=value_from_row(row["amqp_value"]),
        amqp_sequence=value_from_row(row["amqp_sequence"]),
        **{name: Table({key: value_from_row(value) for key, value in row[name] or ()}) for name in MAP_SECTIONS},
    )


def _read_text(raw: Any, key: str) -> str:
    if not isinstance(raw, str):
        raise InvalidRecord("expected a string", where=key)
    return raw


def _read_flag(raw: Any, key: str) -> bool:
    if not isinstance(raw, bool):
        raise InvalidRecord("expected true or false", where=key)
    return raw


def _read_texts(raw: Any, key: str) -> tuple[str, ...]:
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        raise InvalidRecord("expected an array of strings", where=key)
    return tuple(_read_text(item, f"{key}[{n}]") for n, item in enumerate(raw))


def _read_body(raw: Any, key: str) -> bytes:
    value = decode(raw, where=key)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    raise InvalidRecord('expected a string or {"binary": "<hex>"}', where=key)


def _fit(value: Value, kind: type | None) -> Value:
    """What the JSON form of a fixed field may leave unsaid: a time as bare ms, bytes as text."""
    value = as_time(value) if kind is Timestamp else value
    return value.encode("utf-8", "surrogatepass") if kind is bytes and isinstance(value, str) else value


def _read_fields(raw: Any, key: str) -> dict[str, Value]:
    kinds = SECTION_FIELDS[key]
    out: dict[str, Value] = {}
    for name, value in decode_table(raw, where=key, nested=False).items():
        where = f"{key}.{name}"
        if name not in kinds:
            raise InvalidRecord(f"{key} has no field {name!r}", where=where, hint="fields: " + ", ".join(kinds))
        if value is None:
            continue
        kind = kinds[name]
        fitted = _fit(value, kind)
        if kind is not None and type(fitted) is not kind:
            raise InvalidRecord(f"expected {kind.__name__}, found {type(fitted).__name__}", where=where)
        if name == "priority" and isinstance(fitted, int) and not -(2**31) <= fitted < 2**31:
            raise InvalidRecord("priority does not fit 32 bits", where=where)
        out[name] = fitted
    return out


def _read_section(raw: Any, key: str) -> Table:
    return decode_table(raw, where=key, nested=False)


def _read_value(raw: Any, key: str) -> Value:
    return decode(raw, where=key)


_READERS: Mapping[str, Any] = {
    "exchange": _read_text,
    "routing_key": _read_text,
    "cc": _read_texts,
    "bcc": _read_texts,
    "mandatory": _read_flag,
    "reject_unroutable": _read_flag,
    "connection": _read_text,
    "header": _read_fields,
    **dict.fromkeys(MAP_SECTIONS, _read_section),
    "properties": _read_fields,
    "body": _read_body,
    "amqp_value": _read_value,
    "amqp_sequence": _read_value,
}
