"""Modulus hash exchanges, as RabbitMQ's plugin rabbitmq_sharding 3.10 has them.

The hash of the list of routing keys, modulo the number of bindings, chooses a binding. They stand in the order of
the broker's table of routes: by binding key, then by destination (docs/routing.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bindery.router.erlang_hash import RANGE_BITS, keys_hash
from bindery.router.exchanges.exchange_type import Choice
from bindery.router.exchanges.hashing import HashExchange, keys_in_order
from bindery.router.filters.limits import Payload
from bindery.router.matching.hashed import ModulusHashMatcher
from bindery.router.message import Message
from bindery.router.model import Binding, Exchange


class ModulusHash(HashExchange):
    """Every binding has one bucket."""

    def __init__(self, bindings: Iterable[Binding] = ()) -> None:
        super().__init__(sorted(bindings, key=_place))

    def at(
        self,
        exchange: Exchange,
        bindings: Callable[[], Iterable[Binding]],
        payload: Payload | None,
        compat: str | None = None,
    ) -> ModulusHash:
        """See `ExchangeType`."""
        return ModulusHash(bindings())

    def matcher(self, asked: Sequence[int], base: int) -> ModulusHashMatcher:
        """See `ExchangeType`."""
        return ModulusHashMatcher(base, self.order(asked))

    def choice(self, keys: Sequence[str], message: Message) -> Choice | None:
        """See `ExchangeType`."""
        if not self.taking:
            return None
        listed = keys_in_order(keys, message)
        hashed = keys_hash(listed) & 2**RANGE_BITS - 1
        said = f"the key{'s' if len(listed) > 1 else ''} {', '.join(map(repr, listed))}"
        return Choice(said, hashed, hashed % len(self.taking), len(self.taking))

    def taker(self, choice: Choice) -> Binding:
        """See `HashExchange`."""
        return self.taking[choice.bucket]

    def share(self, binding: Binding) -> str:
        """See `HashExchange`."""
        return f"this one has bucket {self.places[binding.id]}"


def _place(binding: Binding) -> tuple[bytes, str, bytes, int]:
    """The place of a binding among all; those that differ in their arguments alone lead to one destination."""
    return binding.routing_key.encode(), binding.destination_type, binding.destination.encode(), binding.id
