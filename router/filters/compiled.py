"""Filters of many groups compiled: distinct filters, their shapes, and the indexes that lead to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bindery.router.columns import Ref
from bindery.router.filters import like_access, vector_rules  # noqa: F401  # they register rules of the shared nodes
from bindery.router.filters.access import ALWAYS, Entry, Lead, Within, Word, entries
from bindery.router.filters.ast import Field, Node, walk
from bindery.router.filters.field_index import FieldIndex, Runs, ranges
from bindery.router.filters.filter import Filter
from bindery.router.filters.interval_index import IntervalIndex
from bindery.router.filters.key_index import KeyIndex, WordIndex
from bindery.router.filters.limits import Payload
from bindery.router.filters.payload import PAYLOAD, referred
from bindery.router.filters.shapes import Shape, Shapes
from bindery.router.filters.spread import is_spread
from bindery.router.filters.value_sets import Cut, share

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


@dataclass(slots=True)
class _Unit:
    """A distinct filter: the keys that lead to it (None: every message does), its shape and row there."""

    keys: tuple[Lead, ...] | None
    shape: int
    row: int


class CompiledGroups:
    """Filters in groups, compiled: arrays and indexes, as `bindery.router.filters.selecting` reads them.

    body_refs    the references into bodies, by what these are declared to be
    into_bodies  bool[groups] for each: the groups with a filter that has one
    """

    def __init__(self, groups: Sequence[Sequence[Filter]]) -> None:
        numbered = _number_filters(groups)
        sizes = np.array([len(group) for group in groups], np.int64)
        self.groups = len(groups)
        self.widest = int(sizes.max(initial=0))
        compiled = _compile_units(numbered.trees)
        self.shapes = compiled.shapes
        self.texts = numbered.texts
        self.always_shape = compiled.always_shape
        self.unit_shape = np.array([unit.shape for unit in compiled.units], np.int32)
        self.unit_row = np.array([unit.row for unit in compiled.units], np.int64)
        self._lay_out(compiled.units, np.repeat(np.arange(len(groups)), sizes), numbered.members, sizes)
        self._find_bodies()

    def _find_bodies(self) -> None:
        """Which groups look into bodies, and for what; a shape shares its references with all its filters."""
        self.body_refs: dict[Payload, dict[Ref, None]] = defaultdict(dict)
        shapes: dict[Payload, npt.NDArray[np.bool_]] = defaultdict(lambda: np.zeros(len(self.shapes), np.bool_))
        for number, shape in enumerate(self.shapes):
            for node in walk(shape.tree):
                if isinstance(node, Field) and node.ref.section == PAYLOAD:
                    payload, _ = referred(node.ref)
                    self.body_refs[payload][node.ref] = None
                    shapes[payload][number] = True
        self.into_bodies: dict[Payload, npt.NDArray[np.bool_]] = {}
        entry_group = np.repeat(np.arange(self.groups), np.diff(self.entry_starts))
        for payload, chosen in shapes.items():
            self.into_bodies[payload] = flags = np.zeros(self.groups, np.bool_)
            flags[entry_group[chosen[self.unit_shape[self.entry_unit]]]] = True

    def _lay_out(self, units: list[_Unit], member_group: Ints, member_unit: Codes, sizes: Ints) -> None:
        """Entries (distinct filters per group), the members of each, and the indexes that lead to them."""
        position = (np.arange(len(member_group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)).astype(np.int32)
        width = max(len(units), 1)
        distinct, entry = np.unique(member_group * width + member_unit, return_inverse=True)
        entry_group = (distinct // width).astype(np.int32)
        self.entry_unit = (distinct % width).astype(np.int32)
        self.entry_starts = np.searchsorted(entry_group, np.arange(self.groups + 1)).astype(np.int64)
        self.members = Runs(entry.astype(np.int64), position, len(distinct))
        self.one_to_one = len(distinct) == len(member_group)
        has_keys = np.array([unit.keys is not None for unit in units], np.bool_)
        always = np.flatnonzero(~has_keys[self.entry_unit])
        self.always = Runs(entry_group[always].astype(np.int64), always.astype(np.int32), self.groups)
        self.indexes = list(_indexes(units, entry_group, self.entry_unit))
        self.may_repeat = any(map(_may_repeat, units))


@dataclass(slots=True)
class _Compiled:
    units: list[_Unit]
    shapes: list[Shape]
    always_shape: int


@dataclass(slots=True)
class _Numbered:
    """The distinct trees, a text that states each, and for each member of each group, in order, its tree."""

    trees: list[Node]
    texts: tuple[str, ...]
    members: Codes


def _number_filters(groups: Sequence[Sequence[Filter]]) -> _Numbered:
    by_filter: dict[Filter, int] = {}
    by_tree: dict[Node, int] = {}
    texts: list[str] = []
    members: list[int] = []
    for group in groups:
        for item in group:
            number = by_filter.get(item)
            if number is None:
                number = by_filter[item] = by_tree.setdefault(item.expression, len(by_tree))
                if number == len(texts):
                    texts.append(item.text)
            members.append(number)
    return _Numbered(list(by_tree), tuple(texts), np.array(members, np.int32))


def _compile_units(trees: list[Node]) -> _Compiled:
    """Choose each filter's way in, and share the shapes of what remains to be checked."""
    ways = [list(entries(tree)) for tree in trees]
    shares = _Shares(way for choices in ways for way in choices)
    shapes = Shapes()
    always_shape, _ = shapes.add(ALWAYS)
    units: list[_Unit] = []
    for tree, choices in zip(trees, ways, strict=True):
        best = min(filter(shares.worth_while, choices), key=shares.of, default=None)
        shape, row = shapes.add(best.residual if best else tree)
        units.append(_Unit(best.keys if best else None, shape, row))
    return _Compiled(units, shapes.close(), always_shape)


class _Shares:
    """Estimates of the part of all messages that a way in leads to its filter."""

    def __init__(self, ways: Iterable[Entry]) -> None:
        values: dict[tuple[type[Lead], Ref], set[Lead]] = defaultdict(set)
        cuts: dict[tuple[Ref, bool], set[Cut]] = defaultdict(set)
        for key in (key for way in ways for key in way.keys):
            if isinstance(key, Within):
                cuts[key.ref, key.strict].update(cut for interval in key.values for cut in interval)
            else:
                values[type(key), key.ref].add(key)
        self._spread = {where: len(keys) for where, keys in values.items()}
        self._cuts = {where: sorted(found) for where, found in cuts.items()}

    def of(self, way: Entry) -> float:
        """A key on a field of which filters ask many different values is more selective; a set by what it covers."""
        return sum(map(self._of_key, way.keys))

    def _of_key(self, key: Lead) -> float:
        if isinstance(key, Within):
            return share(key.values, self._cuts[key.ref, key.strict])
        return 1 / self._spread[type(key), key.ref]

    def worth_while(self, way: Entry) -> bool:
        """Whether looking at every message would not be as good: several sets may lead to it more than once."""
        several = len(way.keys) > 1 and any(isinstance(key, Within) for key in way.keys)
        return not several or self.of(way) < 1


def _index_of(key: Lead) -> tuple[type[Lead], Ref, bool]:
    """Keys that agree in this share an index; a message's value leads to an entry at most once by each index."""
    return type(key), key.ref, key.strict


def _may_repeat(unit: _Unit) -> bool:
    """Whether one message may be led to a unit more than once: by several indexes, words or elements of lists."""
    keys = unit.keys or ()
    if any(is_spread(key.ref) for key in keys):
        return True
    return len(keys) > 1 and (isinstance(keys[0], Word) or len({_index_of(key) for key in keys}) > 1)


def _indexes(units: list[_Unit], entry_group: Codes, entry_unit: Codes) -> Iterator[FieldIndex]:
    """The indexes over the entries whose filters have keys there."""
    asked: dict[tuple[type[Lead], Ref, bool], tuple[list[int], list[Lead]]] = defaultdict(lambda: ([], []))
    for number, unit in enumerate(units):
        for key in unit.keys or ():
            numbers, keys = asked[_index_of(key)]
            numbers.append(number)
            keys.append(key)
    by_unit = Runs(entry_unit.astype(np.int64), np.arange(len(entry_unit), dtype=np.int32), len(units))
    for (kind, ref, strict), (numbers, keys) in asked.items():
        waiting = np.array(numbers, np.int64)
        sizes = by_unit.sizes(waiting)
        found = by_unit.entries[ranges(by_unit.starts[waiting], sizes)]
        each = [key for key, size in zip(keys, sizes.tolist(), strict=True) for _ in range(size)]
        if kind is Within:
            sets = [key.values for key in each if isinstance(key, Within)]
            yield IntervalIndex(ref, entry_group[found], sets, found, strict=strict)
            continue
        values = [key.value.value for key in each if not isinstance(key, Within)]
        if kind is Word:
            yield WordIndex(ref, entry_group[found], values, found)
        else:
            yield KeyIndex(ref, entry_group[found], values, found, strict=strict)
