"""What a RabbitMQ delivers, as records of the canonical message schema.

The properties go where `bindery.api.amqp` puts those of a published message. What is known of the delivery alone:

| delivered                           | canonical field                                           |
|-------------------------------------|-----------------------------------------------------------|
| redelivered                         | header.first_acquirer false; header.delivery_count 1      |
| header x-delivery-count             | header.delivery_count; it stays among the headers         |
| header x-stream-offset              | message_annotations, same name                            |

A message that the schema cannot hold is `Refused`, with its bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bindery.jobs.draining.wire import read_properties, text
from bindery.router.errors import InvalidRecord
from bindery.router.message import Message
from bindery.router.values import INT64_MAX, Table, Value

#: Properties that AMQP 1.0 has no field for, and the annotations that hold them.
ANNOTATIONS: Final[Mapping[str, str]] = {
    "type": "x-opt-jms-type",
    "app_id": "x-basic-app-id",
    "cluster_id": "x-basic-cluster-id",
}
STREAM_OFFSET: Final = "x-stream-offset"
_DELIVERY_COUNT: Final = "x-delivery-count"
_TEXTS: Final = ("reply_to", "content_type", "content_encoding")
_IDS: Final = ("message_id", "correlation_id")


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message as it came; the names as bytes where they are not UTF-8, `properties` as on the wire."""

    exchange: str | bytes
    routing_key: str | bytes
    redelivered: bool
    properties: bytes
    body: bytes

    @property
    def raw(self) -> bytes:
        """All but the body: exchange and routing key as short strings, property flags, property list."""
        names = [name.encode() if isinstance(name, str) else name for name in (self.exchange, self.routing_key)]
        return b"".join(bytes([len(name)]) + name for name in names) + self.properties


@dataclass(frozen=True, slots=True)
class Refused:
    """A delivery that no record can hold, and why."""

    delivery: Delivery
    detail: str


def record_of(delivery: Delivery, exchange: str | None = None) -> Message | Refused:
    """The record of a delivery, published to `exchange` where that is given."""
    try:
        return _record(delivery, exchange)
    except InvalidRecord as error:
        return Refused(delivery, error.message if error.where is None else f"{error.where}: {error.message}")


def _record(delivery: Delivery, exchange: str | None) -> Message:
    sent = read_properties(delivery.properties)
    return message_of(
        sent,
        exchange=_name(delivery.exchange, "exchange") if exchange is None else exchange,
        routing_key=_name(delivery.routing_key, "routing key"),
        body=delivery.body,
        redelivered=delivery.redelivered,
    )


def message_of(
    sent: Mapping[str, Value],
    *,
    exchange: str,
    routing_key: str,
    body: bytes | None = None,
    redelivered: bool = False,
) -> Message:
    """The record of a message with these properties, as `read_properties` gives them.

    Raises InvalidRecord for what no record can hold.
    """
    headers = dict(_table(sent))
    annotations: dict[str, Value] = {}
    if STREAM_OFFSET in headers:
        annotations[STREAM_OFFSET] = headers.pop(STREAM_OFFSET)
    for name, annotation in ANNOTATIONS.items():
        if name in sent:
            annotations[annotation] = _text_or_bytes(sent[name])
    properties: dict[str, Value] = {name: _text(sent, name) for name in _TEXTS if name in sent}
    properties |= {name: _text_or_bytes(sent[name]) for name in _IDS if name in sent}
    if "user_id" in sent:
        properties["user_id"] = sent["user_id"]
    if "timestamp" in sent:
        properties["creation_time"] = sent["timestamp"]
    return Message(
        exchange=exchange,
        routing_key=routing_key,
        cc=_keys(headers, "CC"),
        bcc=_keys(headers, "BCC"),
        header=_header(sent, headers, redelivered=redelivered),
        message_annotations=Table(annotations),
        properties=properties,
        application_properties=Table(headers),
        body=body,
    )


def _table(sent: Mapping[str, Value]) -> Table:
    found = sent.get("headers", Table())
    assert isinstance(found, Table)  # noqa: S101  # that is how `headers` is read
    return found


def _header(sent: Mapping[str, Value], headers: Mapping[str, Value], *, redelivered: bool) -> dict[str, Value]:
    header: dict[str, Value] = {}
    if "delivery_mode" in sent:
        if sent["delivery_mode"] not in (1, 2):
            raise InvalidRecord(f"{sent['delivery_mode']!r} is neither 1 nor 2", where="delivery_mode")
        header["durable"] = sent["delivery_mode"] == 2
    if "priority" in sent:
        header["priority"] = sent["priority"]
    if "expiration" in sent:
        header["ttl"] = _milliseconds(_text(sent, "expiration"))
    counted = headers.get(_DELIVERY_COUNT)
    if redelivered:
        header["first_acquirer"] = False
        header["delivery_count"] = 1
    if type(counted) is int:
        header["delivery_count"] = counted
    return header


def _milliseconds(stated: str) -> int:
    """A time to live; raises InvalidRecord for one that would not come out as it went in."""
    if not (stated.isascii() and stated.isdecimal() and stated == str(int(stated[:19])) and int(stated) <= INT64_MAX):
        raise InvalidRecord(f"{stated!r} is no number of milliseconds", where="expiration")
    return int(stated)


def _keys(headers: dict[str, Value], name: str) -> tuple[str, ...]:
    """The routing keys of a header that selects some, taken out of the headers."""
    if name not in headers:
        return ()
    keys = headers.pop(name)
    if not isinstance(keys, tuple):
        raise InvalidRecord("is no array of routing keys", where=f"headers.{name}")
    return tuple(_key(key, f"headers.{name}") for key in keys)


def _key(key: Value, where: str) -> str:
    if not isinstance(key, str):
        raise InvalidRecord("is no array of routing keys in UTF-8", where=where)
    return key


def _name(name: str | bytes, where: str) -> str:
    return text(name, where) if isinstance(name, bytes) else name


def _text(sent: Mapping[str, Value], name: str) -> str:
    content = sent[name]
    assert isinstance(content, bytes)  # noqa: S101  # short strings are read as bytes
    return text(content, name)


def _text_or_bytes(content: Value) -> Value:
    """A short string for a field that holds either."""
    try:
        return content.decode() if isinstance(content, bytes) else content
    except UnicodeDecodeError:
        return content


def identity(message: Message) -> bytes | None:
    """What two deliveries of one message share; None for a message without an id of its own.

    It covers everything but what a broker changes from one delivery to the next.
    """
    if message.properties.get("message_id") is None:
        return None
    content: dict[str, Any] = message.as_json()
    for section, names in (
        ("header", ("first_acquirer", "delivery_count")),
        ("application_properties", (_DELIVERY_COUNT,)),
    ):
        content[section] = {name: value for name, value in content.get(section, {}).items() if name not in names}
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).digest()
