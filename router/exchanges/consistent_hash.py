"""Consistent hash exchanges, as RabbitMQ's plugin rabbitmq_consistent_hash_exchange 3.10 has them.

Every destination has as many buckets as the key of its binding says, in the order in which the destinations were
bound. Of several bindings to one destination the first counts. A message goes to the bucket that jump consistent
hashing chooses for the hash of its routing key, of a header or of a property (docs/routing.md).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from bindery.router.columns import Ref
from bindery.router.erlang_hash import RANGE_BITS, atom_hash, field_hash, text_field_start, text_hash
from bindery.router.errors import InvalidDeclaration
from bindery.router.exchanges.exchange_type import Choice, Remark
from bindery.router.exchanges.hashing import HashExchange, keys_in_order
from bindery.router.filters.limits import Payload
from bindery.router.jump_hash import jump
from bindery.router.matching.hashed import ConsistentHashMatcher, HashedField
from bindery.router.message import Message
from bindery.router.model import HASH_HEADER, HASH_PROPERTY, Binding, Exchange
from bindery.router.values import Timestamp, Value

#: The highest weight: bucket numbers stay exact as doubles, which the generator divides.
MAX_WEIGHT: Final = 2**31 - 1
#: Characters of a weight: Python makes no number of thousands of them.
_MOST_DIGITS: Final = 255
#: Properties by their AMQP 0-9-1 names, and where a message here holds them.
PROPERTIES: Final[Mapping[str, str]] = {
    "correlation_id": "correlation_id",
    "message_id": "message_id",
    "timestamp": "creation_time",
}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_ABSENT: Final = atom_hash("undefined")


class ConsistentHash(HashExchange):
    """A binding asks for so many buckets as its key says."""

    def __init__(self, arguments: Mapping[str, Value] | None = None, bindings: Iterable[Binding] = ()) -> None:
        first: dict[tuple[str, str], Binding] = {}
        for binding in sorted(bindings, key=lambda one: one.id):
            first.setdefault((binding.destination_type, binding.destination), binding)
        super().__init__([*first.values()])
        self._first = first
        self._ends = list(accumulate(weight(binding) for binding in self.taking))
        self._field = _hashed(arguments or {})

    def at(
        self,
        exchange: Exchange,
        bindings: Callable[[], Iterable[Binding]],
        payload: Payload | None,
        compat: str | None = None,
    ) -> ConsistentHash:
        """See `ExchangeType`."""
        return ConsistentHash(exchange.arguments, bindings())

    def check_exchange(self, exchange: Exchange) -> None:
        """See `ExchangeType`; the plugin's words."""
        where, stated = f"exchange {exchange.name!r}", exchange.arguments
        for name in (HASH_HEADER, HASH_PROPERTY):
            if name in stated and not isinstance(stated[name], str):
                hint = "the name of a header" if name == HASH_HEADER else f"one of {', '.join(PROPERTIES)}"
                raise InvalidDeclaration(f"{name} is no text", where=f"{where}: arguments.{name}", hint=hint)
        if HASH_HEADER in stated and HASH_PROPERTY in stated:
            raise InvalidDeclaration(
                f"{HASH_HEADER} and {HASH_PROPERTY} are mutually exclusive",
                where=f"{where}: arguments",
            )
        chosen = stated.get(HASH_PROPERTY)
        if isinstance(chosen, str) and chosen not in PROPERTIES:
            raise InvalidDeclaration(
                f"Unsupported property: {chosen}",
                where=f"{where}: arguments.{HASH_PROPERTY}",
                hint="properties: " + ", ".join(PROPERTIES),
            )

    def check_binding(self, binding: Binding) -> None:
        """See `ExchangeType`; the plugin's words."""
        where = f"binding of {binding.source!r} to {binding.destination!r}: routing_key"
        if not _INTEGER.fullmatch(binding.routing_key):
            shown = _as_erlang(binding.routing_key)
            raise InvalidDeclaration(f"The binding key must be an integer: {shown}", where=where)
        if len(binding.routing_key) > _MOST_DIGITS or weight(binding) > MAX_WEIGHT:
            raise InvalidDeclaration(f"The binding key must not exceed {MAX_WEIGHT}", where=where)
        if weight(binding) < 1:
            raise InvalidDeclaration("The binding key must be greater than 0", where=where)

    def matcher(self, asked: Sequence[int], base: int) -> ConsistentHashMatcher:
        """See `ExchangeType`."""
        return ConsistentHashMatcher(base, self.order(asked), [weight(one) for one in self.taking], self._field)

    def choice(self, keys: Sequence[str], message: Message) -> Choice | None:
        """See `ExchangeType`."""
        if not self._ends:
            return None
        said, hashed = self._hash(keys, message)
        buckets = self._ends[-1]
        return Choice(said, hashed & 2**RANGE_BITS - 1, jump(hashed, buckets), buckets)

    def taker(self, choice: Choice) -> Binding:
        """See `HashExchange`."""
        return self.taking[bisect_right(self._ends, choice.bucket)]

    def share(self, binding: Binding) -> str:
        """See `HashExchange`."""
        if binding.id not in self.places:
            return f"{self._said_first(binding)}, so this one has no bucket"
        end = self._ends[self.places[binding.id]]
        first = end - weight(binding)
        return f"this one has bucket {first}" if end == first + 1 else f"this one has buckets {first} to {end - 1}"

    def _said_first(self, binding: Binding) -> str:
        first = self._first[binding.destination_type, binding.destination]
        return f"binding {first.id} [{first.routing_key}] bound the destination first"

    def _hash(self, keys: Sequence[str], message: Message) -> tuple[str, int]:
        """What of a message is hashed, in words, and its hash."""
        if self._field is None:
            key = keys_in_order(keys, message)[0]
            return f"the key {key!r}", text_hash(key)
        name = self._field.ref.name
        if self._field.ref.section == "application_properties":
            held = message.application_properties
            if name not in held:
                return f"the missing header {name!r}", _ABSENT
            return f"the header {name!r}", field_hash(held[name])
        value = message.properties.get(name)
        if value is None:
            return f"the missing property {name}", _ABSENT
        return f"the property {name}", text_hash(value) if isinstance(value, str) else _property_hash(value)

    def remarks(self, binding: Binding) -> Iterator[Remark]:
        """See `ExchangeType`."""
        if self.taking and binding.id not in self.places:
            yield "BT115", f"{self._said_first(binding)}: its weight counts"
        yield from super().remarks(binding)


def _as_erlang(text: str) -> str:
    """A binary as Erlang prints it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'<<"{escaped}">>' if text else "<<>>"


def weight(binding: Binding) -> int:
    """How many buckets a binding asks for."""
    return int(binding.routing_key)


def _hashed(arguments: Mapping[str, Value]) -> HashedField | None:
    """What an exchange with these arguments hashes; None for the routing key."""
    header: Any = arguments.get(HASH_HEADER)
    if header is not None:
        return HashedField(Ref("application_properties", header), text_field_start(), field_hash, _ABSENT)
    stated: Any = arguments.get(HASH_PROPERTY)
    return None if stated is None else HashedField(Ref("properties", PROPERTIES[stated]), 0, _property_hash, _ABSENT)


def _property_hash(value: Value) -> int:
    """The hash of a property that is no text: in AMQP 0-9-1 ids are texts, and times count seconds."""
    if value is None:
        return _ABSENT
    if isinstance(value, Timestamp):
        value = value.ms // 1000
    return text_hash(value if isinstance(value, bytes) else str(value))
