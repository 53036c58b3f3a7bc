"""The rules of a declaration: names, arguments, equivalence, filters (AMQP 0-9-1 §3.1, Broker-J §4.6, Artemis)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from bindery.router.arguments import encode_plain
from bindery.router.compat import SPECIFICATION, mode_named
from bindery.router.declarations.payloads import at, check_header_criteria, check_payload
from bindery.router.errors import AccessRefused, FilterError, InequivalentArgument, InvalidDeclaration
from bindery.router.exchanges import EXCHANGE_TYPES
from bindery.router.filters import parse as parse_selector
from bindery.router.filters.sets import FilterSetLimits, parse_filter_set
from bindery.router.model.objects import (
    ALTERNATE_BINDING,
    ALTERNATE_EXCHANGE,
    COMPAT_ARGUMENT,
    FILTERS_ARGUMENT,
    MAX_NAME_BYTES,
    OWNER_CONNECTION,
    QUEUE_FILTER,
    RECORD_UNROUTABLE,
    REPLACEMENT_KEY,
    RESERVED_PREFIX,
    SELECTOR_ARGUMENT,
    TRANSFORM,
    UNROUTABLE_BEHAVIOUR,
    Binding,
    Divert,
    Exchange,
    Queue,
)
from bindery.router.policies import Policies
from bindery.router.transforms import Transformation
from bindery.router.transforms import parse as parse_transformation
from bindery.router.values import Table, Value, amqp_type, encode


def check_name(name: str, what: str, *, empty: bool = False, max_bytes: int = MAX_NAME_BYTES) -> None:
    """Refuse a name or key that is empty (unless allowed), too long, or not Unicode text."""
    if not name and not empty:
        raise InvalidDeclaration(f"the {what} name is empty", where=what)
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidDeclaration(f"{what} holds a lone surrogate", where=what) from None
    if size > max_bytes:
        raise InvalidDeclaration(f"{what} of {size} bytes", where=what, hint=f"at most {max_bytes} bytes of UTF-8")


def check_declarable(name: str, what: str, *, max_bytes: int = MAX_NAME_BYTES) -> None:
    """Refuse names that nobody may declare: the default exchange, reserved and invalid ones."""
    if what == "exchange" and name == "":
        raise AccessRefused("the default exchange cannot be declared", where=what)
    if name.startswith(RESERVED_PREFIX):
        raise AccessRefused(
            f"{what} name {name!r} is reserved", where=what, hint=f"names do not start with {RESERVED_PREFIX!r}"
        )
    check_name(name, what, max_bytes=max_bytes)


def check_deletable(name: str, what: str) -> None:
    """Refuse to delete what every vhost has."""
    if (what == "exchange" and name == "") or name.startswith(RESERVED_PREFIX):
        raise AccessRefused(f"{what} {name!r} cannot be deleted", where=what)


def check_equivalent(what: str, present: Any, declared: Any, properties: tuple[str, ...]) -> None:
    """Refuse a declaration whose properties or arguments differ from what is there, in RabbitMQ's words.

    An argument that one side lacks is shown with its AMQP 0-9-1 type, one that both have without.
    """
    where = f"{what} '{present.name}'"

    def refuse(name: str, received: str, current: str, at: str) -> None:
        raise InequivalentArgument(
            f"inequivalent arg '{name}' for {where} in vhost '{present.vhost}': "
            f"received {received} but current is {current}",
            where=f"{where}: {at}",
        )

    for name in properties:
        old, new = getattr(present, name), getattr(declared, name)
        if old != new:
            refuse(name, _shown(new), _shown(old), name)
    olds, news = getattr(present, "arguments", Table()), getattr(declared, "arguments", Table())
    if olds != news:
        for name in sorted({*olds, *news}):
            if name not in news:
                refuse(name, "none", _typed(olds[name]), f"arguments.{name}")
            if name not in olds:
                refuse(name, _typed(news[name]), "none", f"arguments.{name}")
            if Table({name: olds[name]}) != Table({name: news[name]}):
                refuse(name, _shown(encode(news[name])), _shown(encode(olds[name])), f"arguments.{name}")


def _shown(value: Any) -> str:
    return f"'{value if isinstance(value, str) else json.dumps(value)}'"


def _typed(value: Value) -> str:
    return f"the value {_shown(encode(value))} of type '{amqp_type(value)}'"


def _check_argument(table: Table, name: str, where: str, accepts: Callable[[Value], bool], expected: str) -> None:
    if name in table and not accepts(table[name]):
        raise InvalidDeclaration(
            f"argument {name!r} is {encode(table[name])!r}", where=f"{where}: arguments.{name}", hint=expected
        )


def _is_name(value: Value) -> bool:
    return isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) <= MAX_NAME_BYTES


def _is_alternate_binding(value: Value) -> bool:
    return isinstance(value, Table) and set(value) == {"destination"} and _is_name(value["destination"])


def _check_mode(holder: Exchange | Queue | Binding, where: str) -> None:
    """Refuse a compatibility mode that is none."""
    stated = holder.arguments.get(COMPAT_ARGUMENT)
    _check_argument(holder.arguments, COMPAT_ARGUMENT, where, lambda v: isinstance(v, str), "the name of a mode")
    if isinstance(stated, str) and stated != SPECIFICATION:
        mode_named(stated, where=f"{where}: arguments.{COMPAT_ARGUMENT}")


def check_exchange_arguments(exchange: Exchange) -> None:
    """Refuse exchange arguments that routing could not honour."""
    where, table = f"exchange {exchange.name!r}", exchange.arguments
    _check_argument(table, ALTERNATE_EXCHANGE, where, _is_name, "the name of an exchange")
    _check_argument(table, ALTERNATE_BINDING, where, _is_alternate_binding, '{"destination": "<queue or exchange>"}')
    _check_argument(table, UNROUTABLE_BEHAVIOUR, where, lambda v: v in ("DISCARD", "REJECT"), "DISCARD or REJECT")
    _check_argument(table, RECORD_UNROUTABLE, where, lambda v: isinstance(v, bool), "true or false")
    check_payload(exchange, where)
    _check_mode(exchange, where)
    EXCHANGE_TYPES[exchange.type].check_exchange(exchange)


def check_queue_arguments(queue: Queue, limits: FilterSetLimits, policies: Policies) -> None:
    """Refuse queue arguments that routing could not honour, the filter included."""
    where, table = f"queue {queue.name!r}", queue.arguments
    _check_argument(table, OWNER_CONNECTION, where, lambda v: isinstance(v, str), "a connection id")
    check_payload(queue, where)
    _check_mode(queue, where)
    if QUEUE_FILTER in table:
        queue_filter(queue, at(limits, queue, policies))


def check_binding_arguments(binding: Binding, source: Exchange, limits: FilterSetLimits, policies: Policies) -> None:
    """Refuse binding arguments that the exchange or a filter could not honour."""
    where, table = f"binding of {binding.source!r} to {binding.destination!r}", binding.arguments
    _check_argument(table, REPLACEMENT_KEY, where, _is_name, f"a routing key of at most {MAX_NAME_BYTES} bytes")
    for name, values in EXCHANGE_TYPES[source.type].choices.items():
        _check_argument(table, name, where, values.__contains__, "one of " + ", ".join(values))
    EXCHANGE_TYPES[source.type].check_binding(binding)
    there = at(limits, source, policies)
    check_header_criteria(binding, source, there.text.payload)
    _check_mode(binding, where)
    if COMPAT_ARGUMENT in table and not table.keys() & {SELECTOR_ARGUMENT, FILTERS_ARGUMENT}:
        raise InvalidDeclaration(
            f"argument {COMPAT_ARGUMENT!r} of a binding without a filter",
            where=f"{where}: arguments.{COMPAT_ARGUMENT}",
            hint="it is the mode of the binding's filters; how keys and headers are compared is the exchange's to say",
        )
    binding_filters(binding, owner=None, limits=there)
    if TRANSFORM in table:
        transformation(binding, there)


def binding_filters(binding: Binding, *, owner: str | None, limits: FilterSetLimits) -> tuple[Any, ...]:
    """The filters that are ANDed with a binding's match: selector, filter set, both or none.

    `owner` is the `x-owner-connection` of the destination queue, for no-local; `limits` are those at the exchange
    (`bindery.router.declarations.payloads.at`); a binding may state another compatibility mode for its filters.
    Raises FilterError.
    """
    mode = binding.arguments.get(COMPAT_ARGUMENT)
    if isinstance(mode, str):
        limits = replace(limits, text=replace(limits.text, compat=None if mode == SPECIFICATION else mode))
    where = f"binding of {binding.source!r} to {binding.destination!r}"
    found = []
    if SELECTOR_ARGUMENT in binding.arguments:
        text = binding.arguments[SELECTOR_ARGUMENT]
        if not isinstance(text, str):
            raise InvalidDeclaration(f"argument {SELECTOR_ARGUMENT!r} is no string", where=where)
        found.append(checked(parse_selector, text, "jms", where=f"{where}: {SELECTOR_ARGUMENT}", limits=limits.text))
    if FILTERS_ARGUMENT in binding.arguments:
        content = binding.arguments[FILTERS_ARGUMENT]
        if not isinstance(content, Table):
            raise InvalidDeclaration(f"argument {FILTERS_ARGUMENT!r} is no filter set", where=where)
        found.append(
            checked(
                parse_filter_set,
                encode_plain(content),
                where=f"{where}: {FILTERS_ARGUMENT}",
                owner=owner,
                limits=limits,
            )
        )
    return tuple(found)


def divert_filter(divert: Divert, limits: FilterSetLimits) -> Any:
    """The filter of a divert, under the limits at its exchange; a blank one accepts everything. Raises FilterError."""
    return checked(
        parse_selector, divert.filter, "artemis", where=f"divert {divert.name!r}: filter", limits=limits.text
    )


def transformation(link: Binding | Divert, limits: FilterSetLimits) -> Transformation:
    """What a binding with `x-transform`, or a divert with `transform`, changes; under the limits at its exchange.

    Raises FilterError.
    """
    if isinstance(link, Divert):
        where, text = f"divert {link.name!r}: transform", link.transform
    else:
        where = f"binding of {link.source!r} to {link.destination!r}: {TRANSFORM}"
        content = link.arguments.get(TRANSFORM)
        if not isinstance(content, str):
            raise InvalidDeclaration(
                f"argument {TRANSFORM!r} is no string", where=where, hint="SET a.region = 'eu'; REMOVE a.internal"
            )
        text = content
    found: Transformation = checked(parse_transformation, text, where=where, limits=limits.text)
    return found


def queue_filter(queue: Queue, limits: FilterSetLimits) -> Any | None:
    """The filter of a queue (`x-queue-filter`: artemis text, or a filter set), under the limits at the queue, or None.

    Raises FilterError.
    """
    content = queue.arguments.get(QUEUE_FILTER)
    where = f"queue {queue.name!r}: {QUEUE_FILTER}"
    if content is None:
        return None
    if isinstance(content, str):
        return checked(parse_selector, content, "artemis", where=where, limits=limits.text)
    if isinstance(content, Table):
        owner = cast("str | None", queue.arguments.get(OWNER_CONNECTION))
        return checked(parse_filter_set, encode_plain(content), where=where, owner=owner, limits=limits)
    raise InvalidDeclaration(f"argument {QUEUE_FILTER!r} is neither text nor a filter set", where=where)


def checked(parser: Callable[..., Any], *arguments: Any, where: str, **options: Any) -> Any:
    """Run a filter parser, with the place of the filter added to its error."""
    try:
        return parser(*arguments, **options)
    except FilterError as error:
        error.where = where if error.where is None else f"{where}.{error.where}"
        raise
