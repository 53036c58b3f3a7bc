"""What bodies are, declared on an exchange or a queue: the argument `x-payload`, a part of every topology.

Filters of the bindings and diverts of an exchange, and the filter of a queue, then look into bodies. The argument is as
old as the exchange or queue, which is never declared anew with another one, so a replay reads bodies as the stream did.
"""

from __future__ import annotations

from dataclasses import replace

from bindery.router.errors import InvalidDeclaration, InvalidInput
from bindery.router.filters.limits import Payload, PayloadLimits
from bindery.router.filters.payload import FORMATS, payload_named
from bindery.router.filters.sets import FilterSetLimits
from bindery.router.model.objects import PAYLOAD_ARGUMENT, SELECTOR_ARGUMENT, Binding, Exchange, Queue
from bindery.router.values import encode


def check_payload(holder: Exchange | Queue, where: str) -> None:
    """Refuse a format that nothing here reads; raises InvalidDeclaration."""
    if PAYLOAD_ARGUMENT not in holder.arguments:
        return
    stated = holder.arguments[PAYLOAD_ARGUMENT]
    place = f"{where}: arguments.{PAYLOAD_ARGUMENT}"
    if not isinstance(stated, str):
        raise InvalidDeclaration(
            f"argument {PAYLOAD_ARGUMENT!r} is {encode(stated)!r}", where=place, hint="one of " + ", ".join(FORMATS)
        )
    try:
        payload_named(stated, PayloadLimits())
    except InvalidInput as error:
        raise InvalidDeclaration(error.message, where=place, hint=error.hint) from None


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
    return Payload(stated, limits.text.bodies) if isinstance(stated, str) and stated in FORMATS else None


def at(limits: FilterSetLimits, holder: Exchange | Queue | None) -> FilterSetLimits:
    """The caps of filters that stand at an exchange or queue, with what bodies are there."""
    payload = declared_payload(limits, holder)
    return limits if payload is None else replace(limits, text=replace(limits.text, payload=payload))
