"""The reference for `declare` cases: the rules of declaration, by the letter, over the JSON of a case."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from bindery.router.errors import BinderyError, InvalidInput
from bindery.router.filters import parse
from bindery.router.filters.schemas import SCHEMA_FORMATS, read_schema
from bindery.router.filters.sets import parse_filter_set
from bindery.router.reference_hashing import HASHING
from bindery.router.transforms import parse as parse_transformation
from bindery.router.values import decode, identity

Raw = Mapping[str, Any]
#: type, durable, auto_delete, internal, arguments: what a second declaration must repeat.
Declared = tuple[object, ...]


def refusal(raw: Raw) -> str | None:
    """Why the declarations of a case are refused, or None when all are accepted.

    Each rule is written out once (Broker-J §4.6.1, §4.6.3; AMQP 0-9-1 §3.1), without the model. Filters are
    still read by the one parser that there is.
    """
    exchanges = dict(_PREDECLARED)
    queues: dict[str, object] = {}
    diverts: dict[str, object] = {}
    checks = (
        [_exchange(item, exchanges) for item in raw.get("exchanges", ())]
        + [_queue(item, queues) for item in raw.get("queues", ())]
        + [_binding(item, exchanges, queues) for item in raw.get("bindings", ())]
        + [_divert(item, exchanges, diverts) for item in raw.get("diverts", ())]
    )
    return next((found for found in checks if found), None)


_PREDECLARED: Final[Mapping[str, Declared]] = {
    f"amq.{name}": (kind, True, False, False, ())
    for name, kind in (
        ("direct", "direct"),
        ("topic", "topic"),
        ("fanout", "fanout"),
        ("match", "headers"),
        ("headers", "headers"),
    )
}


def _exchange(item: Raw, exchanges: dict[str, Declared]) -> str | None:
    name, arguments = item["name"], item.get("arguments") or {}
    declared = (
        item["type"],
        item.get("durable", True),
        item.get("auto_delete", False),
        item.get("internal", False),
        _same_arguments(arguments),
    )
    if name.startswith("amq.") and name not in _PREDECLARED:
        return f"exchange name {name!r} is reserved"
    if item["type"] not in ("direct", "topic", "fanout", "headers", *HASHING):
        return f"unknown exchange type {item['type']!r}"
    if exchanges.setdefault(name, declared) != declared:
        return f"exchange {name!r} is there with other properties"
    return (
        _name(name)
        or _argument(arguments, "alternate-exchange", lambda raw: _is_key(decode(raw)))
        or _argument(
            arguments, "alternate-binding", lambda raw: set(raw) == {"destination"} and _is_key(raw["destination"])
        )
        or _argument(arguments, "unroutable-message-behaviour", lambda raw: decode(raw) in ("DISCARD", "REJECT"))
        or _argument(arguments, "x-record-unroutable", lambda raw: isinstance(raw, bool))
        or _payload(arguments)
        or (_hashed(arguments) if item["type"] == "x-consistent-hash" else None)
    )


def _hashed(arguments: Raw) -> str | None:
    if "hash-header" in arguments and "hash-property" in arguments:
        return "a header and a property to hash"
    properties = ("message_id", "correlation_id", "timestamp")
    return _argument(arguments, "hash-header", lambda raw: isinstance(decode(raw), str)) or _argument(
        arguments, "hash-property", lambda raw: decode(raw) in properties
    )


def _queue(item: Raw, queues: dict[str, object]) -> str | None:
    name, arguments = item["name"], item.get("arguments") or {}
    declared = (item.get("durable", True), item.get("auto_delete", False), _same_arguments(arguments))
    if name.startswith("amq."):
        return f"queue name {name!r} is reserved"
    if queues.setdefault(name, declared) != declared:
        return f"queue {name!r} is there with other properties"
    return (
        _name(name)
        or _argument(arguments, "x-owner-connection", lambda raw: isinstance(decode(raw), str))
        or _payload(arguments)
        or _argument(arguments, "x-queue-filter", _is_queue_filter)
    )


def _binding(item: Raw, exchanges: Mapping[str, Declared], queues: Mapping[str, object]) -> str | None:
    source, destination, arguments = item["source"], item["destination"], item.get("arguments") or {}
    if source not in exchanges:
        return f"no exchange {source!r} to bind from"
    kinds: Mapping[str, Mapping[str, object]] = {"queue": queues, "exchange": exchanges}
    kind = item.get("destination_type", "queue")
    if destination not in kinds.get(kind, {}):
        return f"no {kind} {destination!r} to bind to"
    if not _is_key(item.get("routing_key", "")):
        return "the routing key is longer than 255 bytes"
    if exchanges[source][0] == "x-consistent-hash":
        digits = item.get("routing_key", "").removeprefix("+")
        if not (digits.isascii() and digits.isdecimal() and 1 <= int(digits) < 2**31):
            return "a weight is a whole number from 1"
    if exchanges[source][0] == "headers":
        forms = ("all", "any", "all-with-x", "any-with-x")
        refused = _argument(arguments, "x-match", lambda raw: decode(raw) in forms)
        if refused:
            return refused
    return (
        _argument(arguments, "x-replacement-routing-key", lambda raw: _is_key(decode(raw)))
        or _argument(arguments, "x-filter-jms-selector", lambda raw: _is_filter(decode(raw), "jms"))
        or _argument(arguments, "x-filters", _is_filter_set)
        or _argument(arguments, "x-transform", _is_transformation)
    )


def _divert(item: Raw, exchanges: Mapping[str, Declared], diverts: dict[str, object]) -> str | None:
    name, key, text = item["name"], item.get("routing_key"), item.get("filter") or ""
    transform = item.get("transform") or ""
    declared = (item["source"], item["destination"], text, item.get("exclusive", False), key, transform)
    for end in (item["source"], item["destination"]):
        if end not in exchanges:
            return f"no exchange {end!r} to divert"
    if key is not None and not _is_key(key):
        return "the new routing key is longer than 255 bytes"
    if diverts.setdefault(name, declared) != declared:
        return f"divert {name!r} is there with other properties"
    if transform and not _is_transformation(transform):
        return "the transformation of the divert is refused"
    return _name(name) or (None if _is_filter(text, "artemis") else "the filter of the divert is refused")


def _payload(arguments: Raw) -> str | None:
    """Bodies of formats with schemas have one, others have none; schemas are read by the one reader that there is."""
    format, schema = arguments.get("x-payload"), arguments.get("x-payload-schema")
    if "x-payload" in arguments and format not in ("json", "text", *SCHEMA_FORMATS):
        return f"bodies that are {format!r} cannot be read"
    if not isinstance(format, str) or format not in SCHEMA_FORMATS:
        return "a schema of nothing" if arguments.keys() & {"x-payload-schema", "x-payload-type"} else None
    type = arguments.get("x-payload-type")
    if schema is None or not isinstance(type, str | None):
        return f"{format} without its schema, or a type that is no name"
    try:
        read_schema(format, schema, type)
    except InvalidInput as error:
        return error.message
    return None


def _name(name: str) -> str | None:
    return None if name and _is_key(name) else "a name has 1 to 255 bytes"


def _is_key(value: object) -> bool:
    return isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) <= 255


def _argument(arguments: Raw, name: str, accepts: Callable[[Any], bool]) -> str | None:
    if name not in arguments:
        return None
    try:
        accepted = accepts(arguments[name])
    except (BinderyError, TypeError):
        accepted = False
    return None if accepted else f"argument {name!r} is {json.dumps(arguments[name])[:60]}"


def _is_transformation(text: object) -> bool:
    """By the one reader that there is."""
    if not isinstance(text, str):
        return False
    try:
        parse_transformation(text)
    except InvalidInput:
        return False
    return True


def _is_filter(text: object, dialect: str) -> bool:
    if not isinstance(text, str):
        return False
    try:
        parse(text, dialect)
    except InvalidInput:
        return False
    return True


def _is_filter_set(raw: object) -> bool:
    if not isinstance(raw, dict):
        return False
    try:
        parse_filter_set(raw, owner=None)
    except InvalidInput:
        return False
    return True


def _is_queue_filter(raw: object) -> bool:
    return _is_filter_set(raw) if isinstance(raw, dict) else _is_filter(raw, "artemis")


def _same_arguments(arguments: Raw) -> tuple[object, ...]:
    """Arguments in a form that is equal exactly when keys and typed values are, whatever their order."""
    return tuple(
        (name, json.dumps(raw, sort_keys=True) if name in _PLAIN_OBJECTS else identity(decode(raw)))
        for name, raw in sorted(arguments.items())
    )


#: Arguments that are plain JSON objects: their keys are names, never types of values.
_PLAIN_OBJECTS: Final = frozenset({"x-filters", "alternate-binding"})
