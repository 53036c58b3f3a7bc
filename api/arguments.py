"""Arguments of declarations: what brokers check about them, and errors in the broker's words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bindery.api.errors import Refusal, bad_request
from bindery.router.errors import InequivalentArgument, InvalidDeclaration
from bindery.router.model import ALTERNATE_EXCHANGE, X_MATCH
from bindery.router.values import Table, Value, amqp_type, encode


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a value may be; `refused` is the broker's explanation of a value of a wrong type."""

    accepts: Callable[[Value], bool]
    expected: str
    at_least: int = 0
    at_most: int | None = None
    among: tuple[str, ...] = ()
    refused: str = '"expected {expected}, got {type}"'
    unknown: str = "{value}"


def _is_count(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Value) -> bool:
    return isinstance(value, str)


def _is_flag(value: Value) -> bool:
    return isinstance(value, bool)


_COUNT: Final = _Rule(_is_count, "integer")
_TEXT: Final = _Rule(_is_text, "longstr")
#: Queue arguments that a broker knows, stored here and reported; their types are checked all the same.
QUEUE_ARGUMENTS: Final[Mapping[str, _Rule]] = {
    "x-expires": _Rule(_is_count, "integer", at_least=1),
    "x-message-ttl": _COUNT,
    "x-max-length": _COUNT,
    "x-max-length-bytes": _COUNT,
    "x-max-priority": _Rule(_is_count, "integer", at_most=255),
    "x-delivery-limit": _COUNT,
    "x-dead-letter-exchange": _TEXT,
    "x-dead-letter-routing-key": _TEXT,
    "x-overflow": _Rule(
        _is_text, "longstr", among=("drop-head", "reject-publish", "reject-publish-dlx"), unknown="invalid_overflow"
    ),
    "x-queue-mode": _Rule(
        _is_text, "longstr", among=("default", "lazy"), unknown="\"unsupported queue mode '{value}'\""
    ),
    "x-queue-type": _Rule(
        _is_text, "longstr", among=("classic", "quorum", "stream"), unknown="\"unsupported queue type '{value}'\""
    ),
    "x-single-active-consumer": _Rule(_is_flag, "bool", refused="{{unacceptable_type,{type}}}"),
}
_DEAD_LETTER_KEY: Final = "x-dead-letter-routing-key"
_DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"


def refuse_null(arguments: Mapping[str, Any], *, but: frozenset[str] = frozenset()) -> None:
    """Refuse a null in the arguments of a queue or exchange, at any depth, with 400.

    Only bindings ask for presence with a void. `but` names arguments that are filters or schemas: a null is a
    reference or default value there.
    """
    open_values = [value for key, value in arguments.items() if key not in but]
    while open_values:
        match open_values.pop():
            case None:
                raise bad_request("null_not_allowed")
            case dict() as members:
                open_values += members.values()
            case list() as items:
                open_values += items


def check_queue_arguments(arguments: Table, *, vhost: str, name: str) -> None:
    """Refuse well-known queue arguments of a wrong type or range, with 400."""
    where = f"for queue '{name}' in vhost '{vhost}'"
    for key, rule in QUEUE_ARGUMENTS.items():
        if key not in arguments:
            continue
        value = arguments[key]
        fault = _fault(rule, value)
        if fault is not None:
            raise bad_request(f"invalid arg '{key}' {where}: {fault}")
    if _DEAD_LETTER_KEY in arguments and _DEAD_LETTER_EXCHANGE not in arguments:
        raise bad_request(f"invalid arg '{_DEAD_LETTER_KEY}' {where}: routing_key_but_no_dlx_defined")


def _fault(rule: _Rule, value: Value) -> str | None:
    """What the broker says about a value that its rule refuses."""
    if not rule.accepts(value):
        return rule.refused.format(expected=rule.expected, type=amqp_type(value))
    if isinstance(value, int):
        if value < min(rule.at_least, 0):
            return f"{{value_negative,{value}}}"
        if value < rule.at_least:
            return f"{{value_zero,{value}}}"
        if rule.at_most is not None and value > rule.at_most:
            return f"{{max_value_exceeded,{value}}}"
    if rule.among and value not in rule.among:
        return rule.unknown.format(value=value)
    return None


def _alternate_exchange(value: Value, where: str) -> str:
    return f"invalid type '{amqp_type(value)}' for arg '{ALTERNATE_EXCHANGE}' in {where}"


def _x_match(value: Value, _where: str) -> str:
    if isinstance(value, str):
        return f'Invalid x-match field value <<"{value}">>; expected all, any, all-with-x, or any-with-x'
    return f"Invalid x-match field type {amqp_type(value)} (value {json.dumps(encode(value))}); expected longstr"


#: Arguments whose refusal the broker words in a way of its own.
_WORDINGS: Final[Mapping[str, Callable[[Value, str], str]]] = {
    ALTERNATE_EXCHANGE: _alternate_exchange,
    X_MATCH: _x_match,
}


def in_brokers_words(error: InvalidDeclaration, arguments: Table, where: str) -> Refusal | InvalidDeclaration:
    """The error as the broker words it, if it has words of its own for the type or argument at fault."""
    if isinstance(error, InequivalentArgument):
        return error
    if (error.where or "").endswith(": type"):
        return bad_request(error.message)
    argument: Any = (error.where or "").rpartition("arguments.")[2]
    wording = _WORDINGS.get(argument)
    if wording is None or argument not in arguments:
        return error
    return bad_request(wording(arguments[argument], where))
