"""Arrow columns taken apart into the levels and values of their leaves, as Parquet has them.

A leaf has a slot for each of its values and for each place at which something above it is absent or empty. Columns
repeat at most once on the way to a leaf: lists and maps of what does not repeat.

Source: https://github.com/apache/parquet-format#nested-encoding
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """The slots of each row of what repeats: those of row n are `offsets[n]` to `offsets[n + 1]`, at least one."""

    offsets: Places


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One leaf column of a table.

    `levels` are the definition levels (uint8), one a slot, up to `highest`; `slots` tells those of each row, None:
    one a row. `values` are those that are there, and none is null: as many as there are slots of the highest level.
    """

    path: tuple[str, ...]
    values: pa.Array
    levels: npt.NDArray[np.uint8]
    highest: int
    slots: Slots | None

    @property
    def starts(self) -> Places:
        """Where the values of each row begin, and at the end their number."""
        slots = len(self.levels)
        if len(self.values) == slots:  # a value in every slot
            return np.arange(slots + 1) if self.slots is None else self.slots.offsets
        before = np.zeros(slots + 1, np.int64)
        np.cumsum(self.levels == self.highest, out=before[1:])
        return before if self.slots is None else before[self.slots.offsets]


def leaves(table: pa.Table) -> Iterator[Leaf]:
    """The leaves of a table, in the order of its columns."""
    rows = table.num_rows
    for field, column in zip(table.schema, table.columns, strict=True):
        array = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
        yield from _Node((field.name,), np.zeros(rows, np.uint8), 0, None, np.arange(rows)).leaves(array, field)


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """What is above a column: the levels so far, up to `highest`, and the slots `at` which there is a value of it."""

    path: tuple[str, ...]
    levels: npt.NDArray[np.uint8]
    highest: int
    slots: Slots | None
    at: Places

    def leaves(self, array: pa.Array, field: pa.Field) -> Iterator[Leaf]:
        """The leaves of a column; `array` has one value for each of the places `at`."""
        node = self
        if field.nullable:
            node, array = self._optional(array)
        if pa.types.is_map(array.type):
            node, (keys, items) = node._repeated(array, array.keys, array.items)
            yield from node._below("key_value", "key").leaves(keys, array.type.key_field)
            yield from node._below("key_value", "value").leaves(items, array.type.item_field)
        elif pa.types.is_list(array.type):
            node, (values,) = node._repeated(array, array.values)
            yield from node._below("list", "element").leaves(values, array.type.value_field)
        elif pa.types.is_struct(array.type):
            for number, member in enumerate(array.type):
                child = array.field(number)  # whether the struct is there has been asked; of its own nulls it knows
                yield from node._below(member.name).leaves(child, member)
        else:
            yield Leaf(node.path, array, node.levels, node.highest, node.slots)

    def _below(self, *names: str) -> _Node:
        return _Node((*self.path, *names), self.levels, self.highest, self.slots, self.at)

    def _optional(self, array: pa.Array) -> tuple[_Node, pa.Array]:
        at = self.at
        if array.null_count:
            there = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
            at = at[there]
            array = array.filter(pa.array(there))
        return _Node(self.path, _raised(self.levels, at), self.highest + 1, self.slots, at), array

    def _repeated(self, array: Any, *entries: pa.Array) -> tuple[_Node, list[pa.Array]]:
        """What is below a list or map, without nulls, and of its entries those that it has."""
        assert self.slots is None, self.path  # noqa: S101  # no column repeats twice
        # the entries are read past the slice of the array: its offsets are absolute
        bounds = np.asarray(array.offsets.to_numpy())
        counts = np.zeros(len(self.levels), np.int64)
        counts[self.at] = np.diff(bounds)
        offsets = np.zeros(len(counts) + 1, np.int64)
        slots = np.maximum(counts, 1)
        np.cumsum(slots, out=offsets[1:])
        full = counts > 0
        at = np.arange(offsets[-1]) if full.all() else np.flatnonzero(np.repeat(full, slots))
        levels = _raised(np.repeat(self.levels, slots), at)
        first, last = (int(bounds[0]), int(bounds[-1])) if len(bounds) else (0, 0)
        node = _Node(self.path, levels, self.highest + 1, Slots(offsets), at)
        return node, [entry.slice(first, last - first) for entry in entries]


def _raised(levels: npt.NDArray[np.uint8], at: Places) -> npt.NDArray[np.uint8]:
    """Levels, one higher at those places, each named once."""
    if len(at) == len(levels):
        return levels + np.uint8(1)
    raised = levels.copy()
    raised[at] += 1
    return raised
