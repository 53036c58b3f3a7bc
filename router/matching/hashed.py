"""Matchers of hash exchanges: every message meets one rule, which the hash of one of its parts chooses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.columns import ABSENT, STRING, Column, Ref
from bindery.router.erlang_hash import RANGE_BITS, keys_hash
from bindery.router.matching.matcher import Matches, States
from bindery.router.matching.texts import Int32s, Int64s, Texts
from bindery.router.native import kernels
from bindery.router.utf8 import repaired
from bindery.router.values import Value

Hashes = npt.NDArray[np.uint32]
#: The hash of a value that is there (None: a null), for values that are no text.
Hasher = Callable[[Value], int]

KERNELS: Final = "bindery.router.matching.hash_kernels"


@dataclass(frozen=True, slots=True)
class HashedField:
    """A part of the message that is hashed instead of its keys.

    start   the hash after which texts are hashed
    other   the hash of a value that is no text
    absent  the hash where there is no value
    """

    ref: Ref
    start: int
    other: Hasher
    absent: int

    def hashes(self, column: Column, rows: Int32s) -> Hashes:
        """The hash of each of the rows; each distinct text is hashed once."""
        tags = column.tag[rows]
        found = np.full(len(rows), self.absent, np.uint32)
        texts = tags == STRING
        if texts.any():
            codes, place = np.unique(column.code[rows[texts]], return_inverse=True)
            distinct = Texts.encode([column.distinct[code] for code in codes.tolist()])
            found[texts] = _of_texts(distinct, np.arange(len(codes), dtype=np.int64), self.start)[place.reshape(-1)]
        others = np.flatnonzero(~texts & (tags != ABSENT))
        if len(others):
            chosen = rows[others]
            table = np.empty((len(chosen), 4), np.int64)
            table[:, 0], table[:, 1] = column.tag[chosen], column.num[chosen]
            table[:, 2], table[:, 3] = column.dbl[chosen].view(np.int64), column.code[chosen]
            _, first, place = np.unique(table, axis=0, return_index=True, return_inverse=True)
            distinct_hashes = np.array([self.other(column.value(int(row))) for row in chosen[first]], np.uint32)
            found[others] = distinct_hashes[place.reshape(-1)]
        return found


class HashMatcher(ABC):
    """Chooses by a hash one of the rules in `order`, as many of `base`, `base + 1` … as there are to choose from."""

    body_refs: tuple[Ref, ...] = ()

    def __init__(self, base: int, order: Sequence[int]) -> None:
        self.rules = np.array(order, np.int32) + np.int32(base)

    def match(self, states: States) -> Matches:
        """See `Matcher.match`."""
        return Matches(self.chosen(self.hashes(states)), np.arange(len(self.rules) + 1, dtype=np.int64), self.rules)

    @abstractmethod
    def hashes(self, states: States) -> Hashes:
        """The 32-bit hash that chooses for each message."""

    @abstractmethod
    def chosen(self, hashes: Hashes) -> Int32s:
        """The place in the order that each hash chooses."""


class ConsistentHashMatcher(HashMatcher):
    """Buckets in a row, `weights[place]` for each place in the order; jump hashing chooses one.

    `field` is what is hashed; None: the first of the keys.
    """

    def __init__(self, base: int, order: Sequence[int], weights: Sequence[int], field: HashedField | None) -> None:
        super().__init__(base, order)
        self._ends = np.cumsum(np.array(weights, np.int64))
        self._field = field

    def hashes(self, states: States) -> Hashes:
        """See `HashMatcher`."""
        if self._field is not None:
            return self._field.hashes(states.view.column(self._field.ref), states.rows)
        single = states.key_sets < len(states.sets.keys)
        found = np.empty(len(states.rows), np.uint32)
        found[single] = _of_keys(states.sets.keys, states.key_sets[single])
        if not single.all():  # several keys are the message's own: its routing key is the first
            published = states.view.batch.column("routing_key").take(pa.array(states.rows[~single]))
            encoded = pc.fill_null(published, "").dictionary_encode()
            found[~single] = _of_keys(Texts.of(encoded.dictionary), encoded.indices.to_numpy())
        return found

    def chosen(self, hashes: Hashes) -> Int32s:
        """See `HashMatcher`."""
        buckets = kernels(KERNELS).jump(hashes, int(self._ends[-1]))
        found: Int32s = np.searchsorted(self._ends, buckets, side="right").astype(np.int32)
        return found


class ModulusHashMatcher(HashMatcher):
    """The hash of the list of keys, modulo the number of rules, chooses."""

    def hashes(self, states: States) -> Hashes:
        """See `HashMatcher`."""
        native = kernels(KERNELS)
        found = np.empty(len(states.rows), np.uint32)
        further = _has_further(states)
        found[~further] = native.end_lists(_of_keys(states.sets.keys, states.key_sets[~further]))
        lists: dict[tuple[str, ...], int] = {}
        places = np.flatnonzero(further)
        at = pa.array(states.rows[places])
        columns = [_readable(states.view.batch.column(name).take(at)) for name in ("routing_key", "cc", "bcc")]
        for place, published in zip(places.tolist(), zip(*columns, strict=True), strict=True):
            keys = _listed(states, place, *published)
            if keys not in lists:
                lists[keys] = keys_hash(keys)
            found[place] = lists[keys]
        return found

    def chosen(self, hashes: Hashes) -> Int32s:
        """See `HashMatcher`."""
        places = (hashes & np.uint32(2**RANGE_BITS - 1)) % np.uint32(len(self.rules))
        return places.astype(np.int32)


def _of_texts(texts: Texts, which: Int64s, start: int = 0) -> Hashes:
    found: Hashes = kernels(KERNELS).hash_texts(texts.data, texts.offsets, which, np.uint32(start))
    return found


def _of_keys(keys: Texts, numbers: Int32s) -> Hashes:
    """The hashes of keys by their numbers, each distinct one hashed once."""
    used, place = np.unique(numbers, return_inverse=True)
    return _of_texts(keys, used.astype(np.int64))[place.reshape(-1)]


def _has_further(states: States) -> npt.NDArray[np.bool_]:
    """Which messages were published with further keys (cc, bcc)."""
    found = np.zeros(len(states.rows), np.bool_)
    for name in ("cc", "bcc"):
        column = states.view.batch.column(name)
        if column.null_count < len(column):
            lengths = pc.fill_null(pc.list_value_length(column), 0)
            found |= lengths.to_numpy(zero_copy_only=False)[states.rows] > 0
    return found


def _readable(array: pa.Array) -> list[Any]:
    """The values of texts, or of lists of them, with U+FFFD where bytes are no UTF-8."""
    try:
        found: list[Any] = array.to_pylist()
    except UnicodeDecodeError:
        found = repaired(array).to_pylist()
    return found


def _listed(
    states: States, place: int, key: str | None, cc: list[str | None] | None, bcc: list[str | None] | None
) -> tuple[str, ...]:
    """The keys of a message with further ones: as published, unless another key has taken their place."""
    sets, number = states.sets, int(states.key_sets[place])
    members = {sets.keys.text(one) for one in sets.members[sets.offsets[number] : sets.offsets[number + 1]].tolist()}
    published = (key or "", *(one for one in (*(cc or ()), *(bcc or ())) if one is not None))
    return published if members == set(published) else tuple(members)
