"""Random topologies and messages in which keys and headers often meet, with every type of field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from bindery.router.arguments import decode_arguments
from bindery.router.compat import switches_of
from bindery.router.model import Binding, DestinationType
from bindery.router.reference_compat import header_equals
from bindery.router.values import decode
from tests.recording.wire import Field, equal

#: Words of keys: wildcards, empty ones, and such as only look like wildcards.
_WORDS: Final = ("a", "b", "c", "*", "#", "", "a#", "##", "é", "aa")
_HEADERS: Final = ("h", "i", "j", "x-h", "é", "H")
_FORMS: Final = (None, "all", "any", "all-with-x", "any-with-x")
_QUEUES: Final = 10


@dataclass(frozen=True)
class Bound:
    """A binding: its ends, its key, and its arguments as fields."""

    source: str
    destination: str
    to_queue: bool
    key: str
    arguments: tuple[tuple[str, Field], ...]

    def as_json(self) -> dict[str, Any]:
        """The binding in the topology of a case."""
        kind: DestinationType = "queue" if self.to_queue else "exchange"
        return {
            "source": self.source,
            "destination": self.destination,
            "destination_type": kind,
            "routing_key": self.key,
            "arguments": {name: one.as_json() for name, one in self.arguments},
        }

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes two bindings one here (docs/routing.md)."""
        kind: DestinationType = "queue" if self.to_queue else "exchange"
        arguments = decode_arguments(self.as_json()["arguments"])
        return Binding(0, "/", self.source, self.destination, kind, self.key, arguments).identity


@dataclass(frozen=True)
class Sent:
    """A message: where it is published to, and its headers; CC and BCC among them."""

    exchange: str
    key: str
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    headers: tuple[tuple[str, Field], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The message of a case, without what is expected of it."""
        found: dict[str, Any] = {"exchange": self.exchange, "routing_key": self.key}
        if self.cc:
            found["cc"] = list(self.cc)
        if self.bcc:
            found["bcc"] = list(self.bcc)
        if self.headers:
            found["application_properties"] = {name: one.as_json() for name, one in self.headers}
        return found

    @property
    def fields(self) -> dict[str, Field]:
        """The headers on the wire."""
        selected = {"CC": self.cc, "BCC": self.bcc}
        lists = {
            name: Field("A", tuple(Field("S", key.encode()) for key in keys)) for name, keys in selected.items() if keys
        }
        return lists | dict(self.headers)


@dataclass
class World:
    """A topology: exchanges by name with their type and alternate, queues, bindings."""

    exchanges: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    queues: list[str] = field(default_factory=list)
    bindings: list[Bound] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The topology of a case."""
        return {
            "exchanges": [
                {"name": name, "type": kind, "arguments": {} if other is None else {"alternate-exchange": other}}
                for name, (kind, other) in self.exchanges.items()
            ],
            "queues": [{"name": name} for name in self.queues],
            "bindings": [bound.as_json() for bound in self.bindings],
        }


class Worlds:
    """Makes worlds and messages for them, the same ones from the same seed."""

    def __init__(self, seed: int, mode: str) -> None:
        self._random = Random(seed)
        self._switches = switches_of(mode)

    # -- fields

    def field(self, depth: int = 0) -> Field:
        """A field of any type, with a value that others often have, too."""
        draw = self._random
        kind = draw.choice("tbBsuIilfdDSxTVAF" if depth < 2 else "tbIldSxTV")
        match kind:
            case "t":
                return Field(kind, draw.random() < 0.5)
            case "f" | "d":
                return Field(
                    kind, draw.choice((0.0, -0.0, 1.0, 5.0, 1.5, -5.0, 0.1, 2.0**53, 1e300 if kind == "d" else 1e30))
                )
            case "D":
                return Field(kind, draw.choice(((0, 5), (1, 50), (1, 15), (2, 314), (0, 0), (255, 1))))
            case "S" | "x":
                return Field(kind, draw.choice((b"", b"a", b"5", b"true", "é".encode(), b"\xff\xfe", b"A")))
            case "T":
                return Field(kind, draw.choice((0, 1, 5, 1_700_000_000)))
            case "V":
                return Field(kind, None)
            case "A":
                return Field(kind, tuple(self.field(depth + 1) for _ in range(draw.randrange(3))))
            case "F":
                names = draw.sample(("k", "l", "m"), draw.randrange(4))
                return Field(kind, tuple((name, self.field(depth + 1)) for name in names))
        numbers = [0, 1, 5]
        if kind not in "Bui":
            numbers += [-1, -5]
        if kind in "il":
            numbers += [1_700_000_000]
        if kind == "l":
            numbers += [2**53, 2**53 + 1, 2**63 - 1, -(2**63), 1_700_000_000_000]
        return Field(kind, draw.choice(numbers))

    def _fields(self, most: int) -> tuple[tuple[str, Field], ...]:
        names = self._random.sample(_HEADERS, self._random.randrange(most + 1))
        return tuple((name, self.field()) for name in names)

    # -- worlds

    def key(self) -> str:
        """A routing key or pattern, now and then the name of a queue."""
        draw = self._random
        if draw.random() < 0.1:
            return f"q{draw.randrange(_QUEUES)}"
        return ".".join(draw.choice(_WORDS) for _ in range(draw.choice((0, 1, 1, 2, 2, 3, 3, 4, 6))))

    def world(self) -> World:
        """A topology."""
        draw, made = self._random, World()
        kinds = ["direct", "topic", "topic", "headers", "headers", "fanout"]
        names = [f"e{number}" for number in range(len(kinds))]
        for name, kind in zip(names, kinds, strict=True):
            alternate = draw.choice((*names, "missing", "")) if draw.random() < 0.3 else None
            made.exchanges[name] = (kind, alternate)
        made.queues = [f"q{number}" for number in range(_QUEUES)]
        known = set()
        for _ in range(60):
            bound = self._bound(names)
            if bound.identity not in known:  # two such are one binding here
                known.add(bound.identity)
                made.bindings.append(bound)
        return made

    def _bound(self, names: Sequence[str]) -> Bound:
        draw = self._random
        source = draw.choice(("e0", "e1", "e1", "e2", "e2", "e3", "e3", "e3", "e4", "e4", "e4", "e5"))
        to_queue = source != "e5" or draw.random() < 0.5
        if draw.random() < 0.12:
            to_queue = False
        destination = f"q{draw.randrange(_QUEUES)}" if to_queue else draw.choice(names)
        headers = source in ("e3", "e4")
        arguments = self._fields(3) if headers or draw.random() < 0.1 else ()
        form = draw.choice(_FORMS) if headers else None
        if form is not None:
            arguments = (("x-match", Field("S", form.encode())), *arguments)
        return Bound(source, destination, to_queue, self.key(), arguments)

    def message(self, world: World) -> Sent:
        """A message."""
        draw = self._random
        exchange = draw.choice(("", "e0", "e1", "e1", "e2", "e2", *["e3", "e4"] * 4, "e5"))
        cc = tuple(self.key() for _ in range(draw.randrange(1, 3))) if draw.random() < 0.1 else ()
        bcc = (self.key(),) if draw.random() < 0.05 else ()
        headers = self._fields(4)
        if headers and world.bindings and draw.random() < 0.5:  # what a binding asks for, in some type
            asked = dict(draw.choice(world.bindings).arguments)
            headers = tuple((name, self._like(asked[name]) if name in asked else one) for name, one in headers)
        return Sent(exchange, self.key(), cc, bcc, headers)

    def _like(self, asked: Field) -> Field:
        """A field whose value is that of another, of its type or one near to it."""
        if isinstance(asked.value, bool) or asked.type in "AFDV" or self._random.random() < 0.4:
            return asked
        if isinstance(asked.value, bytes):
            return Field(self._random.choice("Sx"), asked.value)
        near = [kind for kind in "bIldT" if _holds(kind, asked.value)]
        kind = self._random.choice(near)
        return Field(kind, float(asked.value) if kind == "d" else int(asked.value))

    def is_kept(self, world: World, sent: Sent) -> bool:
        """Whether a record keeps what decides about a message.

        A record folds types (docs/conformance.md, Format): where two fields that meet are equal as they are read
        here and not in the broker, or the other way round, the outcome is no matter of rules.
        """
        held = dict(sent.headers)
        return all(
            name not in held
            or one.type == "V"
            or equal(one.term(), held[name].term())
            == header_equals(decode(one.as_json()), decode(held[name].as_json()), self._switches)
            for bound in world.bindings
            if world.exchanges[bound.source][0] == "headers"
            for name, one in bound.arguments
        )


def _holds(kind: str, number: float) -> bool:
    """Whether a type has a number."""
    if kind == "d":
        return float(number) == number
    low, high = {"b": (-128, 127), "I": (-(2**31), 2**31 - 1), "T": (0, 2**33)}.get(kind, (-(2**63), 2**63 - 1))
    return number == int(number) and low <= number <= high
