"""Exchanges that give each message to one of their bindings, chosen by a hash: what their types share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Self

from bindery.router.exchanges.exchange_type import Choice, ExchangeType, Miss, Remark
from bindery.router.filters.limits import Payload
from bindery.router.message import Message
from bindery.router.model import Binding, Exchange


class HashExchange(ExchangeType[int]):
    """A binding asks to be chosen: no two ask the same. Away from an exchange the type has no bindings."""

    reads_hash: ClassVar[bool] = True

    def __init__(self, taking: Sequence[Binding]) -> None:
        #: The bindings that a hash can choose, in their order, and the place of each.
        self.taking = taking
        self.places = {binding.id: place for place, binding in enumerate(taking)}

    @abstractmethod
    def at(
        self,
        exchange: Exchange,
        bindings: Callable[[], Iterable[Binding]],
        payload: Payload | None,
        compat: str | None = None,
    ) -> Self:
        """See `ExchangeType`."""

    def order(self, asked: Sequence[int]) -> list[int]:
        """The places in `asked` of the bindings that a hash can choose, in their order."""
        rules = {one: rule for rule, one in enumerate(asked)}
        return [rules[binding.id] for binding in self.taking]

    @abstractmethod
    def taker(self, choice: Choice) -> Binding:
        """The binding that a bucket belongs to."""

    @abstractmethod
    def share(self, binding: Binding) -> str:
        """In words which buckets a binding has."""

    def asked(self, binding: Binding) -> int:
        """See `ExchangeType`."""
        return binding.id

    def always(self, asked: int) -> bool:
        """The only binding gets every message."""
        return [*self.places] == [asked]

    def never(self, asked: int) -> bool:
        """See `ExchangeType`."""
        return asked not in self.places

    def miss(self, binding: Binding, keys: Sequence[str], message: Message) -> Miss | None:
        """The bucket that was chosen, whose it is, and those of the binding."""
        choice = self.choice(keys, message)
        if choice is None:
            return Miss("the binding has no bucket", 0, 1)
        taker = self.taker(choice)
        if taker.id == binding.id:
            return None
        return Miss(
            f"{choice.hashed} hashes to {choice.hash}, bucket {choice.bucket} of {choice.buckets}: that of binding "
            f"{taker.id} to {taker.destination_type} {taker.destination!r}; {self.share(binding)}",
            0,
            1,
        )

    def remarks(self, binding: Binding) -> Iterator[Remark]:
        """A key is a weight or puts bindings in order, so it is never ignored."""
        yield from (remark for remark in super().remarks(binding) if remark[0] != "BT105")


def keys_in_order(keys: Sequence[str], message: Message) -> tuple[str, ...]:
    """The keys of a message as a list: as published, unless another key has taken their place."""
    published = message.routing_key, *message.cc, *message.bcc
    return published if set(published) == set(keys) else tuple(keys)
