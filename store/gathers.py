"""Rows gathered out of columns many times over, as when one message goes to many queues.

All work that is the same for every copy is done once, on the columns: strings of few distinct values become
dictionaries, map entries are flattened, columns that hold nothing are left out. What remains per queue is one gather
per leaf column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

#: Gives the rows at the given positions, as the Arrow array to write.
Gather = Callable[[pa.Array], pa.Array]

#: A string column is a dictionary when its values repeat at least so often on average …
_REPEATS: Final = 8
#: … and its distinct values take at most so many bytes: every file of the flush carries all of them.
_DICTIONARY_BYTES: Final = 64 * 1024


@dataclass
class Gathers:
    """What the gathers of one flush share: null arrays by type, and the leaf paths that are dictionaries.

    Without `repeats` nothing becomes a dictionary.
    """

    repeats: bool = True
    dictionaries: list[str] = field(default_factory=list)
    _nulls: dict[pa.DataType, pa.Array] = field(default_factory=dict)

    def gather(self, array: pa.Array, path: str) -> Gather | None:
        """How to gather the rows of a column; None when it holds nothing."""
        if array.null_count == len(array):
            return None
        kind = array.type
        if pa.types.is_map(kind):
            return self._gather_map(array, path)
        if pa.types.is_struct(kind):
            return self._gather_struct(array, path)
        if self.repeats and pa.types.is_string(kind):
            encoded = array.dictionary_encode()
            if len(encoded.dictionary) * _REPEATS <= len(array) and encoded.dictionary.nbytes <= _DICTIONARY_BYTES:
                self.dictionaries.append(path)
                return _gather_dictionary(array, encoded)
        gather: Gather = array.take
        return gather

    def nulls(self, kind: pa.DataType, rows: int) -> pa.Array:
        """An array that holds nothing, sliced out of one that is kept."""
        kept = self._nulls.get(kind)
        if kept is None or len(kept) < rows:
            kept = self._nulls[kind] = pa.nulls(max(rows, 4096), kind)
        return kept.slice(0, rows)

    def _gather_struct(self, array: pa.StructArray, path: str) -> Gather:
        members = list(array.type)
        gathers = [
            self.gather(child, f"{path}.{member.name}") for member, child in zip(members, array.flatten(), strict=True)
        ]
        absent = array.is_null() if array.null_count else None

        def gather(rows: pa.Array) -> pa.Array:
            children = [
                self.nulls(member.type, len(rows)) if child is None else child(rows)
                for member, child in zip(members, gathers, strict=True)
            ]
            fields = [member.with_type(child.type) for member, child in zip(members, children, strict=True)]
            mask = None if absent is None else absent.take(rows)
            return pa.StructArray.from_arrays(children, fields=fields, mask=mask)

        return gather

    def _gather_map(self, array: pa.MapArray, path: str) -> Gather:
        # the entries are read past the slice of the map: its offsets are absolute
        offsets = np.asarray(array.offsets.to_numpy())
        lengths = np.diff(offsets)
        absent = None
        if array.null_count:
            absent = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
            lengths = np.where(absent, 0, lengths)
        starts = offsets[:-1]
        kind = array.type
        keys = self.gather(array.keys, f"{path}.key_value.key")
        items = self.gather(array.items, f"{path}.key_value.value")

        def gather(rows: pa.Array) -> pa.Array:
            at = rows.to_numpy()
            counts = lengths[at]
            ends = np.zeros(len(at) + 1, np.int32)
            np.cumsum(counts, out=ends[1:])
            entries = pa.array(np.repeat(starts[at] - ends[:-1], counts) + np.arange(ends[-1], dtype=np.int32))
            key = self.nulls(kind.key_type, len(entries)) if keys is None else keys(entries)
            item = self.nulls(kind.item_type, len(entries)) if items is None else items(entries)
            mask = None if absent is None else pa.array(absent[at])
            return pa.MapArray.from_arrays(pa.array(ends), key, item, type=pa.map_(key.type, item.type), mask=mask)

        return gather


def _gather_dictionary(plain: pa.Array, encoded: pa.DictionaryArray) -> Gather:
    def gather(rows: pa.Array) -> pa.Array:
        # a file of fewer rows than distinct values is smaller without them
        return plain.take(rows) if len(rows) < len(encoded.dictionary) else encoded.take(rows)

    return gather
