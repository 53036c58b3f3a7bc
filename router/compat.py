"""Compatibility modes: what brokers do otherwise than the specifications, as named switches (docs/compat.md).

A *switch* is one deviation. A *mode* is what a broker of some versions deviates by: a set of switches, and beside
them what is known of that broker and is not emulated, with the reason. A vhost has a mode or none, an exchange or
queue may state another one; without a mode everything follows the specifications. What a switch does stands where the
rule stands that it changes: `router.equality`, `router.exchanges`, `router.filters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bindery.router.errors import InvalidDeclaration
from bindery.router.spelling import did_you_mean, nearest

#: The mode of whoever wants none where a vhost has one.
SPECIFICATION: Final = "specification"


@dataclass(frozen=True, slots=True)
class Switch:
    """One deviation.

    name    what modes list
    area    what it is about: headers, topic or filters
    broker  what the broker does
    here    what the specification says, and holds without the switch
    source  where it was observed
    """

    name: str
    area: str
    broker: str
    here: str
    source: str


#: Equality of numbers in headers exchanges.
HEADERS_NUMBERS: Final = "headers-numbers"
HEADERS_MILLISECONDS: Final = "headers-milliseconds"
HEADERS_TEXTS: Final = "headers-texts"
HEADERS_NESTED: Final = "headers-nested"

_RABBITMQ_HEADERS: Final = "rabbit_exchange_type_headers"

SWITCHES: Final[Mapping[str, Switch]] = {
    switch.name: switch
    for switch in (
        Switch(
            HEADERS_NUMBERS,
            "headers",
            "numbers are equal when they are: 5 = 5.0, and a timestamp is the number of its seconds",
            "integers, floating-point numbers and timestamps are three families",
            f"RabbitMQ 3.10.8, observed; {_RABBITMQ_HEADERS} of 3.8 to 3.12 (`==`)",
        ),
        Switch(
            HEADERS_MILLISECONDS,
            "headers",
            "the timestamp of a message is the integer of its milliseconds, that of a binding the integer of its "
            "seconds: the same time in both is not equal",
            "integers and timestamps are two families, and equal times are equal",
            f"{_RABBITMQ_HEADERS} and mc_amqpl of 3.13 to 4.3 (`=:=`, routing_value), read",
        ),
        Switch(
            HEADERS_TEXTS,
            "headers",
            "a string equals the binary of its bytes",
            "strings and binaries are two families",
            f"RabbitMQ 3.10.8, observed; {_RABBITMQ_HEADERS} of 3.8 to 4.3",
        ),
        Switch(
            HEADERS_NESTED,
            "headers",
            "an empty list equals an empty map; entries of maps are compared in their order",
            "lists and maps are two families; the order of entries does not count",
            f"RabbitMQ 3.10.8, observed; {_RABBITMQ_HEADERS} of 3.8 to 4.3",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Mode:
    """How a broker of some versions deviates: its switches, and what is not emulated: what -> why."""

    name: str
    versions: str
    switches: frozenset[str]
    not_emulated: Mapping[str, str]


_FOLDED: Final = "a record keeps the value of a number, not its width (docs/concepts, messages)"
_RABBITMQ_FOLDED: Final[Mapping[str, str]] = {
    "a decimal equals only a decimal of the same digits": "a record keeps a decimal as the double that it is nearest to",
    "numbers inside lists and maps are equal only when their AMQP types are": _FOLDED,
    "a table may have a field twice": "an entry stands once in a record",
}

MODES: Final[Mapping[str, Mode]] = {
    mode.name: mode
    for mode in (
        Mode(
            "rabbitmq-3",
            "RabbitMQ 3.8 to 3.12",
            frozenset({HEADERS_NUMBERS, HEADERS_TEXTS, HEADERS_NESTED}),
            _RABBITMQ_FOLDED,
        ),
        Mode(
            "rabbitmq-4",
            "RabbitMQ 3.13 to 4.3",
            frozenset({HEADERS_MILLISECONDS, HEADERS_TEXTS, HEADERS_NESTED}),
            _RABBITMQ_FOLDED,
        ),
    )
}
_NONE: Final[frozenset[str]] = frozenset()


def switches_of(mode: str | None) -> frozenset[str]:
    """The switches of a mode; none without one. Raises InvalidDeclaration for a mode that is none."""
    return _NONE if mode is None else mode_named(mode).switches


def mode_named(name: str, *, where: str = "compat") -> Mode:
    """The mode of that name; raises InvalidDeclaration."""
    found = MODES.get(name)
    if found is None:
        known = "modes: " + ", ".join(MODES)
        raise InvalidDeclaration(
            f"no compatibility mode {name!r}", where=where, hint=did_you_mean(nearest(name, MODES), known)
        )
    return found
