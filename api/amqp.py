"""AMQP 0-9-1 messages, as `publish` takes them and `get` gives them, and the canonical record.

| AMQP 0-9-1 property            | canonical field                                                  |
|--------------------------------|------------------------------------------------------------------|
| headers                        | application_properties; `CC` and `BCC` become cc and bcc         |
| delivery_mode 1, 2             | header.durable false, true                                       |
| priority                       | header.priority                                                  |
| expiration (text, ms)          | header.ttl                                                       |
| timestamp (s)                  | properties.creation_time                                         |
| message_id, correlation_id, reply_to, content_type, content_encoding | properties, same name      |
| user_id                        | properties.user_id, as UTF-8                                     |
| type, app_id, cluster_id       | message_annotations x-opt-jms-type, x-basic-app-id, x-basic-cluster-id |

`get` gives back exactly what was published: `CC` stays among the headers, `BCC` goes. Sections of AMQP 1.0
that have no counterpart are not shown.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from bindery.api.errors import Reason, bad_request
from bindery.jobs.draining.mapping import ANNOTATIONS
from bindery.router.errors import InvalidInput
from bindery.router.message import Message
from bindery.router.values import INT64_MAX, INT64_MIN, Table, Timestamp, Value, decode, encode

_SENDER_SELECTED: Final = ("CC", "BCC")
_MAX_SECONDS: Final = INT64_MAX // 1_000_000
_MAX_PRIORITY: Final = 255


@dataclass(slots=True)
class _Parts:
    """The sections of a record while properties are read into them."""

    header: dict[str, Value]
    properties: dict[str, Value]
    annotations: dict[str, Value]
    application_properties: dict[str, Value]
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()


def publish_record(
    *,
    exchange: str,
    routing_key: str,
    payload: bytes,
    properties: Mapping[str, Any],
    user: str,
    reject_unroutable: bool = False,
) -> Message:
    """The canonical record of a published message; raises Refusal for properties of a wrong type.

    Unknown properties are ignored, as the broker does. Published messages are mandatory, but for those of a
    sender who asks for their rejection, as one of AMQP 1.0 does with the capability REJECT_UNROUTABLE.
    """
    parts = _Parts({}, {}, {}, {})
    for name, value in properties.items():
        read = _READERS.get(name)
        if read is not None:
            read(parts, name, value)
    stated = parts.properties.get("user_id")
    if isinstance(stated, bytes) and stated != user.encode():
        raise _precondition(f"user_id property set to '{stated.decode()}' but authenticated user was '{user}'")
    return Message(
        exchange=exchange,
        routing_key=routing_key,
        cc=parts.cc,
        bcc=parts.bcc,
        mandatory=not reject_unroutable,
        reject_unroutable=reject_unroutable,
        header=parts.header,
        message_annotations=Table(parts.annotations),
        properties=parts.properties,
        application_properties=Table(parts.application_properties),
        body=payload,
    )


def shown_properties(message: Message) -> dict[str, Any] | list[Any]:
    """The AMQP 0-9-1 properties of a record; an empty list, as the broker has it, when there are none."""
    out: dict[str, Any] = {}
    headers: dict[str, Any] = {name: encode(value) for name, value in message.application_properties.items()}
    if message.cc:
        headers["CC"] = list(message.cc)
    if headers:
        out["headers"] = headers
    if "durable" in message.header:
        out["delivery_mode"] = 2 if message.header["durable"] else 1
    if "priority" in message.header:
        out["priority"] = message.header["priority"]
    if "ttl" in message.header:
        out["expiration"] = str(message.header["ttl"])
    created = message.properties.get("creation_time")
    if isinstance(created, Timestamp):
        out["timestamp"] = created.ms // 1000
    for name in _TEXTS:
        value = message.properties.get(name)
        if value is not None:
            out[name] = value if isinstance(value, str) else encode(value)
    user = message.properties.get("user_id")
    if isinstance(user, bytes):
        out["user_id"] = user.decode("utf-8", "replace")
    for name, annotation in ANNOTATIONS.items():
        value = message.message_annotations.get(annotation)
        if isinstance(value, str):
            out[name] = value
    return out or []


def read_payload(payload: Any, encoding: Any) -> bytes:
    """The bytes of a published payload; raises Refusal in the broker's words."""
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    decoder = _ENCODINGS.get(encoding) if isinstance(encoding, str) else None
    if decoder is None:
        raise bad_request(["unsupported_encoding", encoding])
    return decoder(payload)


def payload_of(message: Message) -> bytes:
    """The payload that `get` shows: the body, or else the text or bytes of the value section."""
    if message.body is not None:
        return message.body
    value = message.amqp_value
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else b""


def shown_payload(payload: bytes, *, as_base64: bool) -> tuple[str, Literal["string", "base64"]]:
    """A payload and its encoding: text where it is UTF-8, base64 otherwise or when asked for."""
    if not as_base64:
        try:
            return payload.decode(), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(payload).decode(), "base64"


def _decode_base64(payload: str) -> bytes:
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", payload]) from None


_ENCODINGS: Final[Mapping[str, Callable[[str], bytes]]] = {"string": str.encode, "base64": _decode_base64}


def _precondition(what: str) -> Exception:
    return bad_request(f"406 PRECONDITION_FAILED - {what}")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise bad_request(["not_string", name])
    return value


def _integer(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_request(["not_int", name])
    if not low <= value <= high:
        raise bad_request(f"{name} is {value}, outside {low} to {high}")
    return value


def _headers(parts: _Parts, name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        if value == []:
            return
        raise bad_request(["not_table", name])
    _refuse_null(value)
    for key, raw in value.items():
        if key in _SENDER_SELECTED:
            keys = _routing_keys(key, raw)
            parts.cc, parts.bcc = (keys, parts.bcc) if key == "CC" else (parts.cc, keys)
            continue
        try:
            parts.application_properties[key] = decode(raw, where=f"headers.{key}")
        except InvalidInput as error:
            raise bad_request(f"{error.where}: {error.message}") from None


def _refuse_null(value: Any) -> None:
    if value is None:
        raise bad_request("null_not_allowed")
    members = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for member in members:
        _refuse_null(member)


def _routing_keys(name: str, raw: Any) -> tuple[str, ...]:
    found: Reason = "longstr" if isinstance(raw, str) else "array"
    if isinstance(raw, list) and all(isinstance(key, str) for key in raw):
        return tuple(raw)
    raise _precondition(f'invalid message: {{unacceptable_type_in_header,"{name}",{found}}}')


def _delivery_mode(parts: _Parts, name: str, value: Any) -> None:
    mode = _integer(name, value, INT64_MIN, INT64_MAX)
    if mode not in (1, 2):
        raise _precondition(f"invalid message: {{delivery_mode_unknown,{mode}}}")
    parts.header["durable"] = mode == 2


def _priority(parts: _Parts, name: str, value: Any) -> None:
    parts.header["priority"] = _integer(name, value, 0, _MAX_PRIORITY)


def _timestamp(parts: _Parts, name: str, value: Any) -> None:
    parts.properties["creation_time"] = Timestamp(_integer(name, value, 0, _MAX_SECONDS) * 1000)


def _expiration(parts: _Parts, name: str, value: Any) -> None:
    text = _text(name, value)
    if not (text.isascii() and text.isdecimal() and text == str(int(text[:19])) and int(text) <= INT64_MAX):
        raise _precondition(f"invalid expiration '{text[:64]}': no_integer")
    parts.header["ttl"] = int(text)


def _property(parts: _Parts, name: str, value: Any) -> None:
    parts.properties[name] = _text(name, value)


def _user_id(parts: _Parts, name: str, value: Any) -> None:
    parts.properties[name] = _text(name, value).encode()


def _annotation(parts: _Parts, name: str, value: Any) -> None:
    parts.annotations[ANNOTATIONS[name]] = _text(name, value)


_TEXTS: Final = ("message_id", "correlation_id", "reply_to", "content_type", "content_encoding")
_READERS: Final[Mapping[str, Callable[[_Parts, str, Any], None]]] = {
    "headers": _headers,
    "delivery_mode": _delivery_mode,
    "priority": _priority,
    "timestamp": _timestamp,
    "expiration": _expiration,
    "user_id": _user_id,
    **dict.fromkeys(_TEXTS, _property),
    **dict.fromkeys(ANNOTATIONS, _annotation),
}
#: The properties that are read.
PROPERTIES: Final = tuple(_READERS)
