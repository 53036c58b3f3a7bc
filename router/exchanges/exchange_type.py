"""What an exchange type is: all that the router knows of it beside `bindery.router.reference`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, Generic, TypeVar

from bindery.router.columns import Ref
from bindery.router.filters.limits import Payload
from bindery.router.matching.matcher import Matcher
from bindery.router.message import Message
from bindery.router.model import FILTERS_ARGUMENT, NOT_HEADER_CRITERIA, X_MATCH, Binding, Exchange
from bindery.router.values import Value

#: What a binding asks of a message, as a value: bindings that ask the same match alike.
Asked = TypeVar("Asked", bound=Hashable)
#: The code of a remark (docs/topology-lint.md) and its text.
Remark = tuple[str, str]

_NONE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Miss:
    """Where a message missed a binding: in words, and how many of the words or headers asked for agreed."""

    message: str
    matched: int
    asked: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the bindings of a hash exchange a message takes.

    hashed   what was hashed, in words
    hash     its hash, of 27 bits
    bucket   the bucket that the hash chose, from 0
    buckets  how many there are
    """

    hashed: str
    hash: int
    bucket: int
    buckets: int

    def as_data(self) -> dict[str, str | int]:
        """JSON-ready data."""
        return {"hashed": self.hashed, "hash": self.hash, "bucket": self.bucket, "buckets": self.buckets}


class ExchangeType(ABC, Generic[Asked]):
    """An exchange type; filters are no part of it.

    reads_key      whether bindings compare the routing key
    reads_headers  whether bindings compare headers with their arguments
    reads_hash     whether one of the bindings is chosen, by a hash
    choices        arguments of bindings that take one of a few values
    """

    reads_key: ClassVar[bool] = False
    reads_headers: ClassVar[bool] = False
    reads_hash: ClassVar[bool] = False
    choices: ClassVar[Mapping[str, Sequence[str]]] = _NONE

    def at(
        self,
        exchange: Exchange,
        bindings: Callable[[], Iterable[Binding]],
        payload: Payload | None,
        compat: str | None = None,
    ) -> ExchangeType[Asked]:
        """The type as it is at an exchange, with the bindings that leave it, where bodies are of a format.

        `compat` is the compatibility mode there.
        """
        return self

    def check_exchange(self, exchange: Exchange) -> None:
        """Refuse arguments of an exchange that the type could not honour; raises InvalidDeclaration."""

    def check_binding(self, binding: Binding) -> None:
        """Refuse a binding that the type could not honour; raises InvalidDeclaration."""

    def choice(self, keys: Sequence[str], message: Message) -> Choice | None:
        """What a hash chose for a message under these keys; None where none chooses."""
        return None

    @abstractmethod
    def asked(self, binding: Binding) -> Asked:
        """What a binding asks."""

    @abstractmethod
    def matcher(self, asked: Sequence[Asked], base: int) -> Matcher:
        """A matcher whose rule `base + i` is the i-th of what is asked, all distinct."""

    def compile(self, bindings: Iterable[Binding], base: int) -> tuple[Matcher, list[int]]:
        """The matcher of an exchange and each binding's rule, numbered from `base` on without gaps."""
        numbers: dict[Asked, int] = {}
        asked = self.asked
        rules = [base + numbers.setdefault(asked(binding), len(numbers)) for binding in bindings]
        return self.matcher(list(numbers), base), rules

    @abstractmethod
    def miss(self, binding: Binding, keys: Sequence[str], message: Message) -> Miss | None:
        """Where a message misses a binding under these keys; None when it matches."""

    @abstractmethod
    def always(self, asked: Asked) -> bool:
        """Whether every message matches."""

    def never(self, asked: Asked) -> bool:
        """Whether no message matches."""
        return False

    def covers(self, wide: Asked, narrow: Asked) -> bool:
        """Whether every message that matches `narrow` matches `wide`; False when in doubt."""
        return wide == narrow

    def wider(self, asked: Collection[Asked]) -> Callable[[Asked], Iterable[Asked]]:
        """An index: for one of what is asked, others that may cover it, among them all that do so.

        The work of a look-up grows with what it gives, not with what was indexed.
        """
        return lambda narrow: ()

    def implied(self, asked: Asked) -> Mapping[Ref, Value]:
        """Fields whose values every message that matches has."""
        return {}

    def remarks(self, binding: Binding) -> Iterator[Remark]:
        """What of a binding is read otherwise than it looks."""
        if not self.reads_key and binding.routing_key:
            yield "BT105", f"key {binding.routing_key!r} is not looked at"
        if not self.reads_headers:
            ignored = sorted(name for name in binding.arguments if name == X_MATCH or name not in NOT_HEADER_CRITERIA)
            if ignored:
                filtering = f"filter with {FILTERS_ARGUMENT} or a headers exchange"
                yield "BT106", f"{', '.join(map(repr, ignored))} is not compared; {filtering}"
