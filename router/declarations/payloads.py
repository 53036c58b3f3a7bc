"""What bodies are, declared on an exchange or a queue: `x-payload` and its schema, a part of every topology.

Filters of the bindings and diverts of an exchange, and the filter of a queue, then look into bodies. A policy says it
for exchanges and queues without the argument, such as the predeclared exchanges, with its key `payload`. Both belong to
the version of the topology, so a replay reads bodies as the stream did.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bindery.router.arguments import encode_plain
from bindery.router.declarations.filter_limits import filter_limits
from bindery.router.errors import InvalidDeclaration, InvalidInput
from bindery.router.filters.body_paths import MEMBERS, Path, begins_in_body, steps_of_key
from bindery.router.filters.limits import Payload, PayloadLimits, PayloadSchema
from bindery.router.filters.payload import FORMATS, payload_named
from bindery.router.filters.schemas import MAX_SCHEMA, read_schema
from bindery.router.filters.sets import FilterSetLimits
from bindery.router.model.objects import (
    PAYLOAD_ARGUMENT,
    PAYLOAD_SCHEMA,
    PAYLOAD_TYPE,
    Binding,
    Exchange,
    Queue,
    Setting,
)
from bindery.router.model.topology import Topology
from bindery.router.policies import PAYLOAD_KEY, POLICY, Policies
from bindery.router.values import Table, Value, encode
from bindery.router.weighed import Weighed

#: What says how bodies of a format with schemas are read.
_OF_SCHEMAS: Final = (PAYLOAD_SCHEMA, PAYLOAD_TYPE)


def check_payload(holder: Exchange | Queue, where: str) -> None:
    """Refuse a format that nothing here reads, and a schema that is none; raises InvalidDeclaration."""
    if PAYLOAD_ARGUMENT not in holder.arguments:
        _refuse_schema(holder, where)
        return
    stated = holder.arguments[PAYLOAD_ARGUMENT]
    schema = None
    if isinstance(stated, str) and stated in FORMATS:
        if not FORMATS[stated].schema:
            _refuse_schema(holder, where)
        elif holder.arguments.get(PAYLOAD_SCHEMA) is not None:
            schema = _checked_schema(stated, holder, where)
    place = f"{where}: arguments.{PAYLOAD_ARGUMENT}"
    _check_format(stated, schema, place, f"argument {PAYLOAD_ARGUMENT!r}", f"state it as {PAYLOAD_SCHEMA!r}")


def check_policy_payload(setting: Setting) -> None:
    """Refuse a policy that names a format that nothing here reads, or one with schemas; raises InvalidDeclaration."""
    definition = setting.value.get("definition") if isinstance(setting.value, Table) else None
    if setting.kind == POLICY and isinstance(definition, Table) and PAYLOAD_KEY in definition:
        place = f"policy {setting.name!r}: definition.{PAYLOAD_KEY}"
        hint = f"policies have none: declare {PAYLOAD_ARGUMENT!r} and {PAYLOAD_SCHEMA!r} with the exchange or queue"
        _check_format(definition[PAYLOAD_KEY], None, place, PAYLOAD_KEY, hint)


def _check_format(stated: Value, schema: PayloadSchema | None, place: str, what: str, without: str) -> None:
    """Refuse a format that is none; `without` is the hint where its schema is missing."""
    if not isinstance(stated, str):
        raise InvalidDeclaration(f"{what} is {encode(stated)!r}", where=place, hint="one of " + ", ".join(FORMATS))
    try:
        payload_named(stated, PayloadLimits(), schema)
    except InvalidInput as error:
        raise InvalidDeclaration(error.message, where=place, hint=error.hint or without) from None


def _checked_schema(format: str, holder: Exchange | Queue, where: str) -> PayloadSchema:
    try:
        return _schema(format, holder)
    except InvalidInput as error:
        place = PAYLOAD_TYPE if error.where is None else f"{PAYLOAD_SCHEMA}{error.where}"
        # the service's answers have no place of their own, and that inside a long schema is half of what is wrong
        said = f"{place}: {error.message}"
        raise InvalidDeclaration(said, where=f"{where}: arguments.{place}", hint=error.hint) from None


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


def check_header_criteria(binding: Binding, source: Exchange, payload: Payload | None) -> None:
    """Refuse keys of a headers binding that look into bodies and could not; raises InvalidDeclaration.

    Where bodies are declared, a key that begins as a reference into the body is one: see `router.exchanges.headers`.
    """
    if source.type != "headers" or payload is None:
        return
    where = f"binding of {binding.source!r} to {binding.destination!r}: arguments"
    known: dict[Path, str] = {}
    for key in filter(begins_in_body, binding.arguments):
        path = steps_of_key(key)
        if path is None:
            raise InvalidDeclaration(
                f"header key {key!r} is no reference into the body", where=f"{where}.{key}", hint=MEMBERS
            )
        if path and not FORMATS[payload.format].members:
            raise InvalidDeclaration(
                f"header key {key!r}: a body that is {payload.format} has no members",
                where=f"{where}.{key}",
                hint="`body` alone stands for the whole",
            )
        if isinstance(binding.arguments[key], tuple | Table):
            raise InvalidDeclaration(
                f"header key {key!r} wants a list or map, which no reference into a body gives",
                where=f"{where}.{key}",
                hint="name the members, one key each",
            )
        if known.setdefault(path, key) != key:
            raise InvalidDeclaration(
                f"header keys {known[path]!r} and {key!r} are one member of the body",
                where=f"{where}.{key}",
                hint="state it once",
            )


def check_header_meaning(binding: Binding, source: Exchange, *, before: Value, after: Value) -> None:
    """Refuse that a key of a headers binding becomes a reference into the body, or a header's name again.

    `before` and `after` are what the exchange says of bodies; None: nothing.
    """
    if source.type != "headers" or (before is None) == (after is None):
        return
    for key in (key for key in binding.arguments if steps_of_key(key) is not None):
        now, then = "a header's name", "a reference into the body"
        if before is not None:
            now, then = then, now
        raise InvalidDeclaration(
            f"header key {key!r} is {now} and would become {then}",
            where=f"binding of {binding.source!r} to {binding.destination!r}: arguments.{key}",
            hint="unbind first, and bind anew afterwards",
        )


def declared_payload(limits: FilterSetLimits, holder: Exchange | Queue | None, policies: Policies) -> Payload | None:
    """What bodies are at an exchange or queue; None when nothing says it, or in words that nothing reads."""
    stated = None if holder is None else policies.payload(holder)
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


def stated_payload(topology: Topology, holder: Exchange | Queue | None, stated: str | None) -> Payload | None:
    """What bodies are for a filter that is no part of the topology: what its place declares, or what is stated with it.

    Raises InvalidInput for a format that nothing reads, and for one that the place contradicts.
    """
    limits = filter_limits(topology)
    declared = declared_payload(limits, holder, Policies(topology))
    if stated is None or (declared is not None and stated == declared.format):
        return declared
    payload = payload_named(stated, limits.text.bodies)
    if holder is not None and declared is not None and declared != payload:
        raise InvalidInput(
            f"the bodies of {type(holder).__name__.lower()} {holder.name!r} are {declared.format}, not {stated}",
            where="payload",
            hint=f"leave it out, or state {declared.format}",
        )
    return payload


def at(limits: FilterSetLimits, holder: Exchange | Queue | None, policies: Policies) -> FilterSetLimits:
    """The caps of filters that stand at an exchange or queue, with what bodies are there and the mode there."""
    payload = declared_payload(limits, holder, policies)
    mode = None if holder is None else policies.compat(holder)
    if payload is None and mode is None:
        return limits
    return replace(limits, text=replace(limits.text, payload=payload, compat=mode))
