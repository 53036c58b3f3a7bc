"""What is on record of backfills: `DIR/backfills/<vhost>/<queue>`, small JSON files, put-if-absent.

`orders/<number>.json` is an order: which messages a queue is to get, and by which topology. It is there until the
seam to each stream is closed (`bindery.store.seams`).

`<number>.json` is a stretch: the batches of one journal that an order has been carried out for, or is. Numbers are
without a gap, and the table of the queue remembers the newest stretch that its rows are in, in the commit that brings
them. A stretch says all that its rows follow from, so whoever finds one that is not carried out does it. It stays as
long as the journal has its batches, for it tells later backfills what was delivered, whatever has been consumed since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Self, TypeVar

from bindery.router.errors import UnsupportedTable
from bindery.router.model import Topology
from bindery.store import effects
from bindery.store.paths import DataDir, encode_name
from bindery.store.places import Place, at
from bindery.store.plan_files import next_number

FOLDER: Final = "backfills"
#: The identifier of the newest stretch whose rows a queue's table has.
BACKFILLED: Final = "bindery.backfill"
_ORDERS: Final = "orders"
_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which messages of journals a queue is to get.

    queue_id          the queue, which may have been deleted and declared again since
    topology_version  what they are routed by
    stream            those of this stream; None: of every journal of the vhost
    since, until      routed at `since` or later, before `until` (microseconds since 1970)
    filter            a consumer's filter, with what it is read by: `dialect`, `payload`
    """

    queue_id: int
    topology_version: int
    stream: str | None = None
    since: int | None = None
    until: int | None = None
    filter: str | Mapping[str, Any] | None = None
    dialect: str = "jms"
    payload: str | None = None


@dataclass(frozen=True, slots=True)
class Order(Scope):
    """An order of that number, begun at `clock_ms`."""

    number: int = 0
    clock_ms: int = 0

    @classmethod
    def of(cls, scope: Scope, *, number: int = 0, clock_ms: int = 0) -> Self:
        """The order of a scope; one without a number is on no record."""
        return cls(**_members(scope), number=number, clock_ms=clock_ms)


@dataclass(frozen=True, slots=True)
class Stretch(Scope):
    """An order carried out for the batches of `stream` after `after` up to `through`.

    redriven  the newest batch of redrives that the queue's table had then: what those brought is left out
    trimmed   the newest batch of which the journal might lack messages then

    Both are -1 for none, and None in the record of an older version, which does not say.
    """

    number: int = 0
    order: int = 0
    after: int = -1
    through: int = -1
    redriven: int | None = None
    trimmed: int | None = None

    @classmethod
    def of(
        cls, order: Order, *, number: int, stream: str, after: int, through: int, redriven: int, trimmed: int
    ) -> Self:
        """The stretch of an order."""
        return cls(
            **{**_members(order), "stream": stream},
            number=number,
            order=order.number,
            after=after,
            through=through,
            redriven=redriven,
            trimmed=trimmed,
        )


R = TypeVar("R", bound=Scope)


class Records:
    """The orders and stretches of one queue."""

    def __init__(self, data: DataDir, vhost: str, queue: str) -> None:
        self.folder: Final = at(data.root, FOLDER, encode_name(vhost), encode_name(queue))

    def orders(self) -> list[Order]:
        """The orders that are not closed, in the order of their numbers."""
        return self._all(self.folder / _ORDERS, Order)

    def stretches(self) -> list[Stretch]:
        """The stretches on record, in the order of their numbers."""
        return self._all(self.folder, Stretch)

    def begin(self, scope: Scope, clock_ms: int) -> Order:
        """Put an order on record; durable when this comes back. Raises StorageFailed."""
        order = Order.of(scope, number=next_number(), clock_ms=clock_ms)
        folder = self.folder / _ORDERS
        effects.make_folder(folder)
        effects.put_new(folder / f"{order.number}{_SUFFIX}", _text(order))
        return order

    def close(self, order: Order) -> None:
        """Forget an order. Raises StorageFailed."""
        effects.remove(self.folder / _ORDERS / f"{order.number}{_SUFFIX}")

    def plan(self, stretch: Stretch) -> Stretch:
        """Put a stretch on record, unless there is one of its number; the one that counts. Raises StorageFailed."""
        place = self.folder / f"{stretch.number}{_SUFFIX}"
        effects.make_folder(self.folder)
        effects.put_new(place, _text(stretch))
        found = self.stretch(stretch.number)
        assert found is not None  # noqa: S101  # just written, here or by another backfill
        return found

    def stretch(self, number: int) -> Stretch | None:
        """The stretch of a number; None when there is none. Raises UnsupportedTable for a damaged record."""
        return self._read(self.folder / f"{number}{_SUFFIX}", Stretch)

    def forget(self, stretch: Stretch) -> None:
        """Remove a stretch that no later backfill can meet. Raises StorageFailed."""
        effects.remove(self.folder / f"{stretch.number}{_SUFFIX}")

    def _all(self, folder: Place, kind: type[R]) -> list[R]:
        with effects.looking(folder):
            numbers = sorted(folder.numbers(_SUFFIX))
        found = (self._read(folder / f"{number}{_SUFFIX}", kind) for number in numbers)
        return [one for one in found if one is not None]

    @staticmethod
    def _read(place: Place, kind: type[R]) -> R | None:
        content = effects.read(place)
        if content is None:
            return None
        try:
            return kind(**json.loads(content))
        except (ValueError, TypeError) as error:
            raise UnsupportedTable(
                f"damaged record of a backfill {place}: {error}",
                where=str(place),
                hint="restore it; without it a later backfill may bring messages again that were consumed since",
            ) from error


def backfilled_queues(data: DataDir, topology: Topology, vhost: str) -> list[str]:
    """The queues of a vhost of which anything is on record, in the order of their names."""
    folders = set(at(data.root, FOLDER, encode_name(vhost)).folders())
    return sorted(name for where, name in topology.queues if where == vhost and encode_name(name) in folders)


def _members(scope: Scope) -> dict[str, Any]:
    return {field.name: getattr(scope, field.name) for field in fields(Scope)}


def _text(record: Scope) -> bytes:
    return json.dumps(asdict(record), ensure_ascii=False).encode()
