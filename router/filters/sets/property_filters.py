"""Property filters: one reference value per section of the message (AMQP Filter Expressions, "property filters")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from bindery.router.columns import Ref
from bindery.router.compat import PROPERTY_CASE, PROPERTY_VALUES
from bindery.router.errors import FilterError
from bindery.router.filters.ast import Field, Literal, Node, Or
from bindery.router.filters.sets.groups import ALWAYS, conjunction
from bindery.router.filters.sets.modifiers import read_reference
from bindery.router.filters.sets.nodes import Equals, NestedMatches, Present, StartsWith, TextForm
from bindery.router.filters.sets.reading import Reading
from bindery.router.message import MESSAGE_ID_TYPES, SECTION_FIELDS
from bindery.router.spelling import did_you_mean, nearest
from bindery.router.values import (
    INT64_MAX,
    INT64_MIN,
    TIMESTAMP_MAX,
    TIMESTAMP_MIN,
    Table,
    Timestamp,
    Value,
    a_type,
    as_time,
)

Read = Callable[[Reading, Any, str], Node]


def fields(section: str) -> Read:
    """A filter on a section with fixed fields; a null reference leaves a field unconstrained."""
    kinds = SECTION_FIELDS[section]

    def read(reading: Reading, raw: Any, where: str) -> Node:
        conditions = []
        for name, reference in _section(reading, raw, where).items():
            place = f"{where}.{name}"
            if name not in kinds:
                close = nearest(name.replace("-", "_"), kinds)
                raise FilterError(
                    f"{section} has no field {name!r}",
                    where=place,
                    hint=did_you_mean(close, "fields: " + ", ".join(kinds), quoted=False),
                )
            if reference is None:
                continue
            kind = kinds[name]
            if kind is Timestamp:
                reference = as_time(reference)  # noqa: PLW2901  # the same reference
            allowed = MESSAGE_ID_TYPES if kind is None else (kind,)
            if type(reference) not in allowed:
                raise FilterError(
                    f"{name} takes {' or '.join(map(a_type, allowed))}, found {a_type(type(reference))}",
                    where=place,
                    hint='a binary is written {"binary": "<hex>"}' if kind is bytes else None,
                )
            conditions.append(_condition(Field(Ref(section, name)), reference, reading.switches))
        return conjunction(conditions)

    return read


def entries(section: str, *, simple: bool = False) -> Read:
    """A filter on a map section; a null reference asks that the key is there, with any value or null.

    `simple` refuses lists and maps as references (application-properties hold simple types only).
    """

    def read(reading: Reading, raw: Any, where: str) -> Node:
        conditions: list[Node] = []
        for name, reference in _section(reading, raw, where).items():
            place = f"{where}.{name}"
            if simple and isinstance(reference, tuple | Table):
                raise FilterError(f"{section} hold simple values only", where=place)
            field = Field(Ref(section, name))
            conditions.append(Present(field) if reference is None else _condition(field, reference, reading.switches))
        return conjunction(conditions)

    return read


def value(reading: Reading, raw: Any, where: str) -> Node:
    """A filter on the amqp-value section; null and empty references accept every message."""
    reference = reading.value(raw, where)
    _check(reading, reference, where)
    if reference is None or reference == () or reference == Table():
        return ALWAYS
    return _condition(Field(Ref("amqp_value")), reference)


def sequence(reading: Reading, raw: Any, where: str) -> Node:
    """A filter on the amqp-sequence section, position by position; an empty list accepts every message."""
    reference = reading.value(raw, where)
    if not isinstance(reference, tuple):
        raise FilterError("expected a list", where=where, hint='a list is written [...] or {"list": [...]}')
    _check(reading, reference, where)
    return NestedMatches(Field(Ref("amqp_sequence")), Literal(reference)) if reference else ALWAYS


def _section(reading: Reading, raw: Any, where: str) -> Table:
    table = reading.table(raw, where)
    _check(reading, table, where, level=0)
    return table


def _condition(field: Field, reference: Value, switches: frozenset[str] = frozenset()) -> Node:
    """What a reference asks of a field, under the switches of a compatibility mode."""
    if isinstance(reference, tuple | Table):
        return NestedMatches(field, Literal(reference))
    if isinstance(reference, str):
        text = read_reference(_cased(reference) if PROPERTY_CASE in switches else reference)
        forms, wanted = text.modifier.forms, Literal(text.text)
        formed = TextForm(field, forms) if forms else field
        if text.modifier.partial:
            return StartsWith(formed, wanted)
        return Equals(formed, wanted) if forms else _equals(field, text.text, switches)
    return _equals(field, reference, switches)


def _cased(reference: str) -> str:
    """A reference whose modifier looks at the case of letters, as those of working draft 9 all do."""
    return f"&{reference[1].upper()}{reference[2:]}" if reference[:3] in ("&s:", "&p:") else reference


def _equals(field: Field, reference: Value, switches: frozenset[str]) -> Node:
    """Equality by family, or with any value that is the same one in RabbitMQ (Erlang's ==)."""
    if PROPERTY_VALUES not in switches:
        return Equals(field, Literal(reference))
    alike = tuple(Equals(field, Literal(value)) for value in _alike(reference))
    return alike[0] if len(alike) == 1 else Or(alike)


def _alike(reference: Value) -> Iterator[Value]:
    yield reference
    if isinstance(reference, str):
        yield reference.encode("utf-8", "surrogatepass")
    if isinstance(reference, bytes):
        with suppress(UnicodeDecodeError):
            yield reference.decode()
    number = reference.ms if isinstance(reference, Timestamp) else reference
    if isinstance(number, bool) or not isinstance(number, int | float):
        return
    if not isinstance(reference, float) and float(number) == number:
        yield float(number)
    if isinstance(number, float) and not number.is_integer():
        return
    whole = int(number)
    if INT64_MIN <= whole <= INT64_MAX:
        if isinstance(reference, float | Timestamp):
            yield whole
        if not isinstance(reference, Timestamp) and TIMESTAMP_MIN <= whole <= TIMESTAMP_MAX:
            yield Timestamp(whole)


def _members(container: Value, where: str) -> Iterator[tuple[Value, str]]:
    if isinstance(container, tuple):
        yield from ((item, f"{where}[{n}]") for n, item in enumerate(container))
    elif isinstance(container, Table):
        yield from ((item, f"{where}.{key}") for key, item in container.items())


def _check(reading: Reading, reference: Value, where: str, *, level: int = 1) -> None:
    """Caps, 64-bit integers and modifiers, at every depth; `level` is 0 for a section's own map."""
    pending = [(reference, where, level)]
    while pending:
        item, place, depth = pending.pop()
        if isinstance(item, str):
            try:
                read_reference(item)
            except FilterError as error:
                raise FilterError(error.message, where=place, hint=error.hint) from None
        elif isinstance(item, int) and not INT64_MIN <= item <= INT64_MAX:
            raise FilterError(f"integer {item} does not fit 64 bits", where=place)
        elif isinstance(item, tuple | Table):
            if len(item) > reading.limits.entries:
                raise FilterError(f"{len(item)} entries, at most {reading.limits.entries} are allowed", where=place)
            if depth > reading.limits.nesting:
                raise FilterError(f"nested deeper than {reading.limits.nesting} levels", where=place)
            pending += [(member, inner, depth + 1) for member, inner in _members(item, place)]
