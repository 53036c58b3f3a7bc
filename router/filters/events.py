"""Attributes of a CloudEvent that a message carries, by the rules of the protocol bindings' binary mode.

AMQP binding 1.0 §3.1.3: application properties `cloudEvents:name` or `cloudEvents_name`, content-type of the properties
for `datacontenttype`. Kafka binding 1.0 §3.2.3: headers `ce_name`, as UTF-8. A message whose properties hold a
`specversion` with one of these prefixes is an event in that form, and its attributes are those with that prefix; the
first of the three that is there decides. Without any, properties without a prefix are the attributes.

Attributes that CloudEvents defines are strings, whatever their header is. Extensions keep booleans and integers of 32
bits; other values are strings in CloudEvents' canonical form: times as RFC 3339, binaries as base64. Lists and maps are
no attributes.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Final

from bindery.router.columns import Ref
from bindery.router.values import Timestamp, Value

#: CloudEvents 1.0, "Context Attributes": all of them are strings, URIs or times.
CORE: Final = ("id", "source", "specversion", "type", "datacontenttype", "dataschema", "subject", "time")
_PREFIXES: Final = ("cloudEvents:", "cloudEvents_", "ce_")
_KAFKA: Final = "ce_"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def sources(attribute: str) -> tuple[Ref, ...]:
    """What an attribute is read from, in the order in which `value_of` and `text_of` take the values."""
    named = [f"{prefix}specversion" for prefix in _PREFIXES] + [f"{prefix}{attribute}" for prefix in _PREFIXES]
    refs = tuple(Ref("application_properties", name) for name in (*named, attribute))
    return (*refs, Ref("properties", "content_type")) if attribute == "datacontenttype" else refs


def origin(attribute: str) -> str:
    """Where an attribute is looked for, in words."""
    return f"attribute of the event: {', '.join(prefix + attribute for prefix in _PREFIXES)} or {attribute}"


def value_of(*values: Value) -> Value:
    """An attribute as a boolean, an integer or a string; None where the event has none."""
    versions, prefixed, (plain, *others) = values[:3], values[3:6], values[6:]
    found, prefix = plain, ""
    for version, value, one in zip(versions, prefixed, _PREFIXES, strict=True):
        if version is not None:
            found, prefix = value, one
            break
    return next((read for one in (found, *others) if (read := _read(one, prefix)) is not None), None)


def text_of(*values: Value) -> Value:
    """An attribute as a string; None where the event has none."""
    value = value_of(*values)
    return None if value is None else as_text(value)


def as_text(value: Value) -> str:
    """A boolean, integer or string as a string (CESQL 1.0 §3.7)."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(value: Value, prefix: str) -> Value:
    match value:
        case bool() | str():
            return value
        case int():
            return value if -(2**31) <= value < 2**31 else str(value)
        case float():
            return repr(value)
        case bytes():
            return _decoded(value) if prefix == _KAFKA else base64.b64encode(value).decode()
        case Timestamp():
            return _moment(value.ms)
    return None


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _moment(ms: int) -> str | None:
    """RFC 3339 in UTC, with milliseconds where there are any; None for years that it cannot write."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds").replace("+00:00", "Z")
