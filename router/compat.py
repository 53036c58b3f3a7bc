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

    name    what modes list; what it begins with is what it is about
    broker  what the broker does
    here    what the specification says, and holds without the switch
    source  where it was observed or read
    """

    name: str
    broker: str
    here: str
    source: str


HEADERS_NUMBERS: Final = "headers-numbers"
HEADERS_MILLISECONDS: Final = "headers-milliseconds"
HEADERS_TEXTS: Final = "headers-texts"
HEADERS_NESTED: Final = "headers-nested"
HEADERS_ANY_OF_NOTHING: Final = "headers-any-of-nothing"
HEADERS_EMPTY_TEXT: Final = "headers-empty-text"
HEADERS_FORMS: Final = "headers-forms"
TOPIC_EMPTY_WORDS: Final = "topic-empty-words"
SELECTOR_TWO_VALUED: Final = "selector-two-valued-equality"
SELECTOR_NULLS: Final = "selector-null-equality"
SELECTOR_IN_TURN: Final = "selector-and-or-in-turn"
SELECTOR_DIVISION: Final = "selector-division"
SELECTOR_FLAGS: Final = "selector-flags"
SELECTOR_TEXT_TESTS: Final = "selector-in-on-text"
SELECTOR_NOT_FIRST: Final = "selector-not-first"
SQL_EQUALITY: Final = "sql-equality"
SQL_IN: Final = "sql-in"
SQL_LIKE: Final = "sql-like-on-text"
PROPERTY_VALUES: Final = "property-values"
PROPERTY_CASE: Final = "property-case"

_RABBITMQ_HEADERS: Final = "rabbit_exchange_type_headers"
_BROKER_J: Final = "Broker-J 9.2"
_ARTEMIS: Final = "Artemis 2.44"

SWITCHES: Final[Mapping[str, Switch]] = {
    switch.name: switch
    for switch in (
        Switch(
            HEADERS_NUMBERS,
            "numbers are equal when they are: 5 = 5.0, and a timestamp is the number of its seconds",
            "integers, floating-point numbers and timestamps are three families",
            f"RabbitMQ 3.10.8, observed; {_RABBITMQ_HEADERS} of 3.8 to 3.12 (`==`)",
        ),
        Switch(
            HEADERS_MILLISECONDS,
            "the timestamp of a message is the integer of its milliseconds, that of a binding the integer of its "
            "seconds: the same time in both is not equal",
            "integers and timestamps are two families, and equal times are equal",
            f"{_RABBITMQ_HEADERS} and mc_amqpl of 3.13 to 4.3 (`=:=`, routing_value), read",
        ),
        Switch(
            HEADERS_TEXTS,
            "a string equals the binary of its bytes",
            "strings and binaries are two families",
            f"RabbitMQ 3.10.8, observed; {_RABBITMQ_HEADERS} of 3.8 to 4.3",
        ),
        Switch(
            HEADERS_NESTED,
            "an empty list equals an empty map; entries of maps are compared in their order",
            "lists and maps are two families; the order of entries does not count",
            f"RabbitMQ 3.10.8, observed; {_RABBITMQ_HEADERS} of 3.8 to 4.3",
        ),
        Switch(
            HEADERS_ANY_OF_NOTHING,
            "`x-match: any` without arguments matches every message",
            "it matches none",
            f"HeadersBinding of {_BROKER_J}, read",
        ),
        Switch(
            HEADERS_EMPTY_TEXT,
            "an argument that is the empty string asks for the presence of the header, whatever its value",
            "it asks for the empty string",
            f"HeadersBinding of {_BROKER_J}, read",
        ),
        Switch(
            HEADERS_FORMS,
            "`all-with-x` and `any-with-x` are `all`; arguments that begin with `x-` or `X-` are never compared",
            "they compare arguments that begin with `x-`; `X-` is a name like others",
            f"HeadersBinding of {_BROKER_J}, read",
        ),
        Switch(
            TOPIC_EMPTY_WORDS,
            "empty words at the end of keys and patterns vanish; the empty key is one empty word",
            "every empty word between dots counts; the empty key is no word",
            f"TopicParser and TopicMatcherDFAState of {_BROKER_J} (Java's split), read",
        ),
        Switch(
            SELECTOR_TWO_VALUED,
            "`=` is true when both sides are missing and false when one is; `<>` is its negation, and so true for a "
            "missing property and for unlike types",
            "both are unknown when a side is missing, and false for unlike types",
            f"ComparisonExpression of {_BROKER_J}, read",
        ),
        Switch(
            SELECTOR_NULLS,
            "`=` is true when both sides are missing, and false when the right one alone is; `<>` is its negation, "
            "and so true for unlike types",
            "both are unknown when a side is missing, and false for unlike types",
            f"ComparisonExpression of {_ARTEMIS}, read",
        ),
        Switch(
            SELECTOR_IN_TURN,
            "AND and OR go from left to right: unknown AND false is unknown, unknown OR false is false",
            "unknown AND false is false, unknown OR false is unknown",
            f"LogicExpression of {_BROKER_J}, read",
        ),
        Switch(
            SELECTOR_DIVISION,
            "/ of two integers gives a fraction: 7/2 = 3.5",
            "it truncates: 7/2 = 3",
            f"ArithmeticExpression of {_BROKER_J} and {_ARTEMIS}, read",
        ),
        Switch(
            SELECTOR_FLAGS,
            "a property that is no boolean is false where a condition is needed",
            "it is unknown",
            f"UnaryExpression of {_BROKER_J} and {_ARTEMIS} (createBooleanCast), read",
        ),
        Switch(
            SELECTOR_TEXT_TESTS,
            "IN is unknown for a value that is no string, and so is NOT IN",
            "IN is false for it, and NOT IN true",
            f"UnaryExpression of {_BROKER_J} and {_ARTEMIS} (createInExpression), read",
        ),
        Switch(
            SELECTOR_NOT_FIRST,
            "NOT binds tighter than comparison: `NOT a = TRUE` is (NOT a) = TRUE",
            "NOT binds less tightly: NOT (a = TRUE)",
            f"StrictParser.jj of {_ARTEMIS}, read",
        ),
        Switch(
            SQL_EQUALITY,
            "`<>` is true for unlike types; a string equals the binary of its bytes",
            "both are false for unlike types, and strings and binaries are two",
            "rabbit_amqp_filter_sql of RabbitMQ 4.2 and 4.3, read",
        ),
        Switch(
            SQL_IN,
            "a null member of IN equals nothing: NOT IN is true where no other member is equal",
            "a null member makes IN and NOT IN unknown where no other member is equal",
            "rabbit_amqp_filter_sql of RabbitMQ 4.2 and 4.3, read",
        ),
        Switch(
            SQL_LIKE,
            "LIKE is unknown for a value that is no string, and so is NOT LIKE",
            "LIKE is false for it, and NOT LIKE true",
            "rabbit_amqp_filter_sql of RabbitMQ 4.2 and 4.3, read",
        ),
        Switch(
            PROPERTY_VALUES,
            "property filters take 10 for 10.0, a time for its milliseconds, a string for the binary of its bytes",
            "these are families of their own",
            "rabbit_amqp_filter_prop of RabbitMQ 4.1 to 4.3, read",
        ),
        Switch(
            PROPERTY_CASE,
            "`&s:` and `&p:` in property filters look at the case of letters",
            "they ignore it; `&S:` and `&P:` look at it",
            "rabbit_amqp_filter_prop of RabbitMQ 4.1 to 4.3 (working draft 9), read",
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


_WIDTHS: Final = "a record keeps the value of a number, not its type"
_TABLES: Final[Mapping[str, str]] = {
    "a decimal equals only a decimal of the same digits": "a record keeps a decimal as the double nearest to it",
    "numbers inside lists and maps are equal only when their AMQP types are, too": _WIDTHS,
    "two bindings that differ only in the order of entries inside a map are two": "arguments compare without order",
    "a table may have a field twice": "an entry stands in a record once",
}

MODES: Final[Mapping[str, Mode]] = {
    mode.name: mode
    for mode in (
        Mode(
            "rabbitmq-3",
            "RabbitMQ 3.8 to 3.12",
            frozenset({HEADERS_NUMBERS, HEADERS_TEXTS, HEADERS_NESTED}),
            _TABLES,
        ),
        Mode(
            "rabbitmq-4",
            "RabbitMQ 3.13 to 4.3",
            frozenset(
                {HEADERS_MILLISECONDS, HEADERS_TEXTS, HEADERS_NESTED}
                | {SQL_EQUALITY, SQL_IN, SQL_LIKE, PROPERTY_VALUES, PROPERTY_CASE}
            ),
            {
                **_TABLES,
                "filters that it does not know are dropped, and everything is delivered": "filters are refused or kept",
                "from 4.3.5 a topic key has at most two `#`": "a key is refused or matches; more `#` cost nothing here",
                "arithmetic has no bounds, and division by 0 is unknown": "arithmetic is that of the specification",
                "prefixes and suffixes match binaries, too": "they are about strings",
            },
        ),
        Mode(
            "broker-j-9",
            "Broker-J 9",
            frozenset(
                {HEADERS_ANY_OF_NOTHING, HEADERS_EMPTY_TEXT, HEADERS_FORMS, TOPIC_EMPTY_WORDS}
                | {SELECTOR_TWO_VALUED, SELECTOR_IN_TURN, SELECTOR_DIVISION, SELECTOR_FLAGS, SELECTOR_TEXT_TESTS}
            ),
            {
                "headers are equal when their Java classes are, too": _WIDTHS,
                "a changed headers binding takes no effect": "which bindings hold depends on what was bound before",
                "arithmetic on a text ends the evaluation": "trouble is unknown, and counted",
                "division by 0 is infinite": "division of integers by 0 is trouble, and counted",
                "the binding key `.` cannot be bound": "it is a key without words",
            },
        ),
        Mode(
            "artemis-2",
            "Artemis 2",
            frozenset({SELECTOR_NOT_FIRST, SELECTOR_NULLS, SELECTOR_DIVISION, SELECTOR_FLAGS, SELECTOR_TEXT_TESTS}),
            {
                "an integer of a wider type on the left never equals a narrower one on the right": _WIDTHS,
                "`#` before other words matches by the order in which addresses were added": "an outcome that depends "
                "on what was declared first could not be replayed",
                "XPATH reads external entities unless it is told not to": "no body leads to a file or an address",
                "a message may be unrouted and diverted at once": "a message has one outcome",
                "division by 0 is infinite": "division of integers by 0 is trouble, and counted",
            },
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
