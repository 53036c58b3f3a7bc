"""What bodies are, declared on an exchange or a queue: `x-payload` and its schema, a part of every topology.

Filters of the bindings and diverts of an exchange, and the filter of a queue, then look into bodies. The argument is as
old as the exchange or queue, which is never declared anew with another one, so a replay reads bodies as the stream did.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bindery.router.arguments import encode_plain
from bindery.router.errors import InvalidDeclaration, InvalidInput
from bindery.router.filters.limits import Payload, PayloadLimits, PayloadSchema
from bindery.router.filters.payload import FORMATS, payload_named
from bindery.router.filters.schemas import MAX_SCHEMA, read_schema
from bindery.router.filters.sets import FilterSetLimits
from bindery.router.model.objects import (
    PAYLOAD_ARGUMENT,
    PAYLOAD_SCHEMA,
    PAYLOAD_TYPE,
    SELECTOR_ARGUMENT,
    Binding,
    Exchange,
    Queue,
)
from bindery.router.values import Value, encode
from bindery.router.weighed import Weighed

#: What says how bodies of a format with schemas are read.
_OF_SCHEMAS: Final = (PAYLOAD_SCHEMA, PAYLOAD_TYPE)


def check_payload(holder: Exchange | Queue, where: str) -> None:
    """Refuse a format that nothing here reads, and a schema that is none; raises InvalidDeclaration."""
    if PAYLOAD_ARGUMENT not in holder.arguments:
        _refuse_schema(holder, where)
        return
    stated = holder.arguments[PAYLOAD_ARGUMENT]
    place = f"{where}: arguments.{PAYLOAD_ARGUMENT}"
    if not isinstance(stated, str):
        raise InvalidDeclaration(
            f"argument {PAYLOAD_ARGUMENT!r} is {encode(stated)!r}", where=place, hint="one of " + ", ".join(FORMATS)
        )
    schema = None
    if stated in FORMATS and not FORMATS[stated].schema:
        _refuse_schema(holder, where)
    elif stated in FORMATS and holder.arguments.get(PAYLOAD_SCHEMA) is not None:
        try:
            schema = _schema(stated, holder)
        except InvalidInput as error:
            place = PAYLOAD_TYPE if error.where is None else f"{PAYLOAD_SCHEMA}{error.where}"
            # the service's answers have no place of their own, and that inside a long schema is half of what is wrong
            said = f"{place}: {error.message}"
            raise InvalidDeclaration(said, where=f"{where}: arguments.{place}", hint=error.hint) from None
    try:
        payload_named(stated, PayloadLimits(), schema)
    except InvalidInput as error:
        hint = error.hint or f"state it as {PAYLOAD_SCHEMA!r}"
        raise InvalidDeclaration(error.message, where=place, hint=hint) from None


def _refuse_schema(holder: Exchange | Queue, where: str) -> None:
    """Refuse what says how bodies with a schema are read, where they are none."""
    for name in _OF_SCHEMAS:
        if name in holder.arguments:
            formats = " or ".join(name for name, format in FORMATS.items() if format.schema)
            raise InvalidDeclaration(
                f"argument {name!r} says nothing without {PAYLOAD_ARGUMENT!r} {formats}",
                where=f"{where}: arguments.{name}",
                hint=f"state {PAYLOAD_ARGUMENT!r} too",
            )


def check_header_criteria(binding: Binding, source: Exchange) -> None:
    """Refuse a header key that looks into a body where bodies are declared: criteria compare headers alone."""
    if source.type != "headers" or PAYLOAD_ARGUMENT not in source.arguments:
        return
    for name in binding.arguments:
        if name.startswith(("body.", "body[")):
            raise InvalidDeclaration(
                f"header key {name!r} would look into the body, but criteria compare headers alone",
                where=f"binding of {binding.source!r} to {binding.destination!r}: arguments.{name}",
                hint=f"state it as a selector: {SELECTOR_ARGUMENT!r} with {name} in it",
            )


def declared_payload(limits: FilterSetLimits, holder: Exchange | Queue | None) -> Payload | None:
    """What bodies are at an exchange or queue; None when it does not say, or in words that nothing reads."""
    stated = None if holder is None else holder.arguments.get(PAYLOAD_ARGUMENT)
    if holder is None or not isinstance(stated, str) or stated not in FORMATS:
        return None
    if not FORMATS[stated].schema:
        return Payload(stated, limits.text.bodies)
    try:
        return Payload(stated, limits.text.bodies, _schema(stated, holder))
    except InvalidInput:
        return None


#: A schema that bindings ask for again and again, made from what the exchange states.
_schemas: Final = Weighed(
    lambda format, stated, type: read_schema(format, encode_plain(stated), type),
    lambda schema: len(schema.text),
    weight=16 * MAX_SCHEMA,
    entries=1_000,
)


def _schema(format: str, holder: Exchange | Queue) -> PayloadSchema:
    """The schema that an exchange or queue states; raises InvalidInput, without a place for what is about its type."""
    type: Value = holder.arguments.get(PAYLOAD_TYPE)
    if not isinstance(type, str | None):
        raise InvalidInput(f"argument {PAYLOAD_TYPE!r} is {encode(type)!r}", hint="the full name of a message type")
    return _schemas(format, holder.arguments.get(PAYLOAD_SCHEMA), type)


def at(limits: FilterSetLimits, holder: Exchange | Queue | None) -> FilterSetLimits:
    """The caps of filters that stand at an exchange or queue, with what bodies are there."""
    payload = declared_payload(limits, holder)
    return limits if payload is None else replace(limits, text=replace(limits.text, payload=payload))
