"""Moves, as a model: each queue has one that its messages are moved to, directly or through an exchange.

Dead letters are moves through an exchange, too.

A message that is on its way stands in a plan. Looking tells how far a move has come; whatever it says, no message is in
two places, and none is nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bindery.router.declarations import TopologyEditor
from bindery.router.model import Binding, Exchange, Queue
from bindery.store.destinations import ToExchange, ToQueue
from bindery.store.paths import DataDir
from bindery.store.transfer_plans import DEAD_LETTERS, MOVES, Plan, Plans
from bindery.store.transfers import Transfer


def target(name: str) -> str:
    """The queue that the messages of one are moved to; also the exchange that leads there."""
    return f"of-{name}"


def declare_targets(editor: TopologyEditor, names: tuple[str, ...]) -> None:
    """Declare the queues and exchanges that messages are moved to."""
    for name in names:
        editor.declare_queue(Queue("/", target(name)))
        editor.declare_exchange(Exchange("/", target(name), "fanout"))
        editor.bind(Binding(0, "/", target(name), target(name)))


def transfer(name: str, limit: int, *, through_exchange: bool) -> Transfer:
    """A move of the first messages of a queue."""
    to = ToExchange(target(name)) if through_exchange else ToQueue(target(name))
    return Transfer("/", name, to, limit=limit)


def pending(data: DataDir) -> list[Plan]:
    """The plans of moves and of dead letters that are not finished."""
    return [plan for kind in (MOVES, DEAD_LETTERS) for plan in Plans(data, "/", kind=kind).pending()]


@dataclass(frozen=True)
class Look:
    """What there is: by queue, the messages in it, those in its target, and those in plans, and on their way."""

    source: Mapping[str, list[str]]
    moved: Mapping[str, list[str]]
    planned: Mapping[str, set[str]]
    flying: Mapping[str, set[str]]


@dataclass
class Moving:
    """The messages that have left a queue and are in its target (`there`), or only in a plan (`flying`)."""

    there: dict[str, set[str]] = field(default_factory=dict)
    flying: dict[str, set[str]] = field(default_factory=dict)

    def look(self, data: DataDir, source: Mapping[str, list[str]], rows: Callable[[str], list[str]]) -> Look:
        """Look at the plans, and at the targets of all queues; `source` has those queues that are declared."""
        planned: dict[str, set[str]] = {}
        for plan in pending(data):
            planned.setdefault(plan.source, set()).update(plan.rows["routing_key"].to_pylist())
        names = {*source, *self.there, *self.flying, *planned}
        return Look(source, {name: rows(target(name)) for name in names}, planned, dict(self.flying))

    def settle(self, before: Look, now: Look) -> dict[str, list[str]]:
        """Compare what there is with what there was; by queue, the messages that have left it."""
        left: dict[str, list[str]] = {}
        for name, moved in now.moved.items():
            source, were = now.source.get(name, []), before.source.get(name, [])
            flying = before.flying.get(name, set())
            assert len(moved) == len(set(moved)), f"doubled in the target of {name}: {moved}"
            assert not set(source) & set(moved), f"both in {name} and moved"
            assert set(source) <= set(were), f"{name} got rows by a move out of it"
            assert set(moved) >= self.there.get(name, set()), f"lost from the target of {name}"
            new = set(moved) - set(before.moved.get(name, []))
            # rows of a queue that was deleted may still have been there for the plan that has them
            assert new <= {*were, *flying, *before.planned.get(name, set())}, f"{new} came from elsewhere than {name}"
            gone = {*were, *flying} - {*source, *moved}
            assert gone <= now.planned.get(name, set()), f"lost by a move out of {name}: {gone}"
            self.there[name], self.flying[name] = set(moved), gone
            left[name] = [key for key in were if key not in source]
        return left

    def check(self, rows: Callable[[str], list[str]]) -> None:
        """What was moved stays moved."""
        for name, there in self.there.items():
            assert sorted(rows(target(name))) == sorted(there), f"the target of {name}"
