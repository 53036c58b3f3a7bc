"""Matchers: which rules each message meets, and what those that match by routing key share.

A *rule* is a question (a key, a pattern, header criteria) that is asked once however many bindings ask it; rules
are numbered across the whole router. A matcher knows nothing of bindings, destinations or filters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bindery.router.columns import BatchView, Column, Ref
from bindery.router.matching.texts import KERNELS, Int32s, Int64s, Texts
from bindery.router.native import kernels


@dataclass(frozen=True, slots=True)
class KeySets:
    """The distinct sets of routing keys of a batch.

    Set i < len(keys) is the single key i; further sets hold the keys `members[offsets[i]:offsets[i + 1]]`.
    """

    keys: Texts
    offsets: Int64s
    members: Int32s

    def __len__(self) -> int:
        return len(self.offsets) - 1


class HeldInBodies(Protocol):
    """The bodies of a batch (`bindery.router.filters.bodies.Bodies`)."""

    def held(self, ref: Ref, rows: Int32s, place: int) -> tuple[Int64s, Column]:
        """Positions of the rows that hold a value at a reference, and the values."""
        ...


@dataclass(frozen=True, slots=True)
class States:
    """Messages at one exchange: the batch row and the key set of each (int32[n]).

    `exchange` is the number of the exchange, under which bodies are noted that cannot be read.
    """

    rows: Int32s
    key_sets: Int32s
    sets: KeySets
    view: BatchView
    bodies: HeldInBodies
    exchange: int


@dataclass(frozen=True, slots=True)
class Matches:
    """The rules met: message i meets `rules[offsets[c]:offsets[c + 1]]` with c = `classes[i]`.

    Rules stand once per class, in no particular order. `visits` counts the steps taken.
    """

    classes: Int32s
    offsets: Int64s
    rules: Int32s
    visits: int = 0


class Matcher(Protocol):
    """One exchange's compiled bindings; picklable. `body_refs` is what they look for in bodies."""

    @property
    def body_refs(self) -> Sequence[Ref]:
        """References into bodies (`bindery.router.filters.payload.reference`)."""
        ...

    def match(self, states: States) -> Matches:
        """Which rules each message meets."""
        ...


class KeyMatcher(ABC):
    """Matches every distinct key once, and gives sets of keys the union of what their members meet."""

    base: int
    rule_count: int
    body_refs: tuple[Ref, ...] = ()

    @abstractmethod
    def match_keys(self, keys: Texts, which: Int64s) -> Matches:
        """The rules of the keys numbered in `which`."""

    def match(self, states: States) -> Matches:
        """See `Matcher.match`."""
        native = kernels(KERNELS)
        sets = states.sets
        places, used = native.compact(states.key_sets, len(sets))
        if len(sets) == len(sets.keys) or used.max(initial=-1) < len(sets.keys):
            found = self.match_keys(sets.keys, used)
            return Matches(found.classes[places], found.offsets, found.rules, found.visits)
        members, _ = spread(used, sets.offsets, sets.members)
        _, which = native.compact(members, len(sets.keys))
        found = self.match_keys(sets.keys, which)
        class_of = np.full(len(sets.keys), -1, np.int32)
        class_of[which] = found.classes
        offsets, rules = native.unite(
            sets.offsets, sets.members, used, class_of, found.offsets, found.rules, self.rule_count, self.base
        )
        return Matches(places, offsets, rules, found.visits)


def spread(lists: Int32s | Int64s, offsets: Int64s, items: Int32s) -> tuple[Int32s, Int64s]:
    """The items of the lists numbered in `lists`, one list after the other, and the length of each."""
    lengths = offsets[lists + 1] - offsets[lists]
    before = np.cumsum(lengths) - lengths
    return items[np.repeat(offsets[lists] - before, lengths) + np.arange(int(lengths.sum()))], lengths
