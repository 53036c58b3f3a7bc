"""Arguments of declarations: what brokers check about them, and errors in the broker's words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from api.errors import Refusal, bad_request
from router.errors import InvalidDeclaration
from router.model import ALTERNATE_EXCHANGE, X_MATCH
from router.values import Table, Timestamp, Value, encode

#: AMQP 0-9-1 names of the types that JSON values become.
_TYPE_NAMES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "bool"),
    (int, "long"),
    (float, "double"),
    (str, "longstr"),
    (bytes, "binary"),
    (Timestamp, "timestamp"),
    (tuple, "array"),
    (Table, "table"),
)


def type_name(value: Value) -> str:
    """The AMQP 0-9-1 type of a value."""
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), "void")


@dataclass(frozen=True, slots=True)
class _Rule:
    accepts: Callable[[Value], bool]
    expected: str


def _is_count(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_COUNT: Final = _Rule(_is_count, "integer")
_TEXT: Final = _Rule(lambda value: isinstance(value, str), "longstr")
_FLAG: Final = _Rule(lambda value: isinstance(value, bool), "bool")
#: Queue arguments that a broker knows, stored here and reported; their types are checked all the same.
QUEUE_ARGUMENTS: Final[Mapping[str, _Rule]] = {
    "x-expires": _COUNT,
    "x-message-ttl": _COUNT,
    "x-max-length": _COUNT,
    "x-max-length-bytes": _COUNT,
    "x-max-priority": _COUNT,
    "x-delivery-limit": _COUNT,
    "x-dead-letter-exchange": _TEXT,
    "x-dead-letter-routing-key": _TEXT,
    "x-overflow": _TEXT,
    "x-queue-mode": _TEXT,
    "x-queue-type": _TEXT,
    "x-single-active-consumer": _FLAG,
}
QUEUE_TYPES: Final = ("classic", "quorum", "stream")
QUEUE_TYPE: Final = "x-queue-type"


def check_queue_arguments(arguments: Table, *, vhost: str, name: str) -> None:
    """Refuse well-known queue arguments of a wrong type or range, with 400."""
    where = f"for queue '{name}' in vhost '{vhost}'"
    for key, rule in QUEUE_ARGUMENTS.items():
        if key not in arguments:
            continue
        value = arguments[key]
        if not rule.accepts(value):
            raise bad_request(f"invalid arg '{key}' {where}: \"expected {rule.expected}, got {type_name(value)}\"")
        if isinstance(value, int) and not isinstance(value, bool) and value < 0:
            raise bad_request(f"invalid arg '{key}' {where}: {{value_negative,{value}}}")
    if arguments.get(QUEUE_TYPE, QUEUE_TYPES[0]) not in QUEUE_TYPES:
        raise bad_request(f"invalid arg '{QUEUE_TYPE}' {where}: one of {', '.join(QUEUE_TYPES)}")


def _alternate_exchange(value: Value, where: str) -> str:
    return f"invalid type '{type_name(value)}' for arg '{ALTERNATE_EXCHANGE}' in {where}"


def _x_match(value: Value, _where: str) -> str:
    if isinstance(value, str):
        return f'Invalid x-match field value <<"{value}">>; expected all, any, all-with-x, or any-with-x'
    return f"Invalid x-match field type {type_name(value)} (value {json.dumps(encode(value))}); expected longstr"


#: Arguments whose refusal the broker words in a way of its own.
_WORDINGS: Final[Mapping[str, Callable[[Value, str], str]]] = {
    ALTERNATE_EXCHANGE: _alternate_exchange,
    X_MATCH: _x_match,
}


def in_brokers_words(error: InvalidDeclaration, arguments: Table, where: str) -> Refusal | InvalidDeclaration:
    """The error as the broker words it, if it has words of its own for the type or argument at fault."""
    if (error.where or "").endswith(": type"):
        return bad_request(error.message)
    argument: Any = (error.where or "").rpartition("arguments.")[2]
    wording = _WORDINGS.get(argument)
    if wording is None or argument not in arguments:
        return error
    return bad_request(wording(arguments[argument], where))
