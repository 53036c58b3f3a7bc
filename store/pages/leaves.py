"""Leaves of a table packed once, so that the rows of a file are gathered as they are packed.

Whatever is packed gives the content of a page for some rows: levels as runs or bits, values as bytes, as bits that
point into a dictionary, or as the differences of integers.

Source: https://github.com/apache/parquet-format/blob/master/Encodings.md
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindery.router.native import kernels
from bindery.store.pages.metadata import Bounds, Encoding, Physical, physical
from bindery.store.pages.shredding import Leaf, Places, Slots, leaves
from bindery.store.pages.thrift import varint

#: Positions of rows, 0 and up.
Rows = npt.NDArray[np.uint32]

#: Texts are a dictionary when they repeat at least so often on average …
_REPEATS: Final = 8
#: … and the distinct ones take at most so many bytes: every file of the flush carries all of them.
_DICTIONARY_BYTES: Final = 64 * 1024
#: Bounds that are longer, in bytes, are not stated.
_LONGEST_BOUND: Final = 4096
_FIXED: Final = (pa.int32(), pa.int64(), pa.float64())


def _kernels() -> Any:
    return kernels("bindery.store.pages.kernels")


class Spans:
    """For each row where something of it begins and ends: from `offsets[row]` to `offsets[row + 1]`."""

    def __init__(self, offsets: Places) -> None:
        self.offsets = offsets.astype(np.uint64)
        lengths = np.diff(offsets)
        self.widest = int(lengths.max(initial=0))
        self._same = bool((lengths == self.widest).all())
        #: What each row has, 0 where they differ; as kernels take it.
        self.each = np.uint64(self.widest if self._same else 0)

    def total(self, rows: Rows) -> int:
        """How much the rows have together."""
        return len(rows) * self.widest if self._same else int(_kernels().total(self.offsets, rows))

    def lengths(self, rows: Rows) -> Places:
        """How much each of the rows has."""
        found: Places = (self.offsets[rows + np.uint64(1)] - self.offsets[rows]).astype(np.int64)
        return found

    def __mul__(self, factor: int) -> Spans:
        return self if factor == 1 else Spans(self.offsets.astype(np.int64) * factor)


class Bits:
    """A string of bits for each row: `width` for each of its values."""

    def __init__(self, values: npt.NDArray[Any], width: int, spans: Spans) -> None:
        self._words = _kernels().pack(values, width)
        self._spans = spans * width

    def gather(self, rows: Rows, size: int) -> memoryview:
        """The bits of the rows one after the other, as so many bytes, zeros at the end."""
        words = _kernels().gather_bits(self._words, self._spans.offsets, self._spans.each, rows, size // 8 + 1)
        return memoryview(words.view(np.uint8))[:size]


def _groups(count: int) -> tuple[bytes, int]:
    """What stands before so many packed values, and how many groups of eight they are."""
    groups = (count + 7) // 8
    return varint(groups << 1 | 1), groups


def _run(count: int, value: int) -> bytes:
    """The same value below 256 so many times."""
    return varint(count << 1) + bytes([value])


def _sized(content: bytes) -> bytes:
    return len(content).to_bytes(4, "little") + content


class Repetition:
    """For each slot of what repeats, whether it is not the first one of its row."""

    def __init__(self, slots: Slots) -> None:
        self.spans = Spans(slots.offsets)
        later = np.ones(int(slots.offsets[-1]), np.uint8)
        later[slots.offsets[:-1]] = 0
        self._bits = Bits(later, 1, self.spans)

    def page(self, rows: Rows, count: int) -> bytes:
        """The repetition levels of the rows, which have so many slots."""
        head, groups = _groups(count)
        return _sized(head + self._bits.gather(rows, groups))


class Definition:
    """For each slot, how much of what leads to its value is there."""

    def __init__(self, leaf: Leaf, repetition: Repetition | None) -> None:
        self.width = leaf.highest.bit_length()
        levels = leaf.levels
        self._same = int(levels[0]) if len(levels) and (levels == levels[0]).all() else None
        if self._same is None:
            spans = Spans(np.arange(len(levels) + 1)) if repetition is None else repetition.spans
            self._bits = Bits(levels, self.width, spans)

    def page(self, rows: Rows, count: int) -> bytes:
        """The definition levels of the rows, which have so many slots."""
        if not self.width:
            return b""
        if self._same is not None:
            return _sized(_run(count, self._same))
        head, groups = _groups(count)
        return _sized(head + self._bits.gather(rows, groups * self.width))


class Values(ABC):
    """The values of a leaf, packed; those of a row are a span of units of so many bits."""

    encoding: Encoding = Encoding.PLAIN
    spans: Spans
    unit: int
    #: How many distinct values there are, and these, PLAIN; None without a dictionary.
    dictionary: tuple[int, bytes] | None = None

    @abstractmethod
    def page(self, rows: Rows) -> bytes | memoryview:
        """The values of the rows."""


class _Texts(Values):
    """Texts and bytes, each behind its length."""

    unit = 8

    def __init__(self, values: pa.Array, starts: Places) -> None:
        self._content, offsets = _lengths_and_bytes(values)
        self.spans = Spans(offsets[starts])

    def page(self, rows: Rows) -> memoryview:
        size = self.spans.total(rows)
        return memoryview(_kernels().gather_bytes(self._content, self.spans.offsets, self.spans.each, rows, size))


class _Numbers(Values):
    """Numbers of 32 or 64 bits as their bytes."""

    def __init__(self, values: npt.NDArray[Any], spans: Spans) -> None:
        self._values = values
        self.spans = spans
        self.unit = 8 * values.itemsize

    def page(self, rows: Rows) -> memoryview:
        return memoryview(self._gathered(rows).view(np.uint8))

    def _gathered(self, rows: Rows) -> Any:
        spans = self.spans
        return _kernels().gather_values(self._values, spans.offsets, spans.each, rows, spans.total(rows))


class _Deltas(_Numbers):
    """Integers as what each adds to the one before."""

    encoding = Encoding.DELTA_BINARY_PACKED

    def page(self, rows: Rows) -> memoryview:
        return memoryview(_kernels().delta_packed(self._gathered(rows)))


class _Flags(Values):
    """True and false as bits."""

    unit = 1

    def __init__(self, values: npt.NDArray[np.uint8], spans: Spans) -> None:
        self._bits = Bits(values, 1, spans)
        self.spans = spans

    def page(self, rows: Rows) -> memoryview:
        return self._bits.gather(rows, (self.spans.total(rows) + 7) // 8)


class _Indices(Values):
    """Positions in a dictionary."""

    encoding = Encoding.RLE_DICTIONARY

    def __init__(self, indices: npt.NDArray[np.uint32], dictionary: tuple[int, bytes], spans: Spans) -> None:
        self.dictionary: tuple[int, bytes] = dictionary
        self.spans = spans
        self.unit = max(1, (dictionary[0] - 1).bit_length())
        self._bits = None if dictionary[0] == 1 else Bits(indices, self.unit, spans)

    def page(self, rows: Rows) -> bytes:
        count = self.spans.total(rows)
        if self._bits is None:
            return bytes([self.unit]) + _run(count, 0)
        head, groups = _groups(count)
        return bytes([self.unit]) + head + self._bits.gather(rows, groups * self.unit)


class Column:
    """A leaf, packed; with `delta` its integers are (those of 32 bits are from 0 on), with `bounded` files state
    its least and its greatest value.
    """

    def __init__(self, leaf: Leaf, repetition: Repetition | None, *, delta: bool, bounded: bool) -> None:
        self.path = leaf.path
        self.kind = physical(leaf.values.type)
        self.repetition = repetition
        self.definition = Definition(leaf, repetition)
        values, starts = _storage(leaf.values), leaf.starts
        self._spans = Spans(starts)
        self._delta = delta
        self._order = _Order(values, self._spans) if bounded else None
        self._indices = self._dictionary(values)
        # values are not held beside what they are packed as
        self._unpacked = None if self._indices is None else (values, starts)
        self._packed = self._plain(values, starts) if self._indices is None else None

    def values(self, rows: int) -> Values:
        """The values as a file of so many rows has them."""
        # a file of fewer rows than distinct values is smaller without them
        if self._indices is not None and self._indices.dictionary[0] <= rows:
            return self._indices
        if self._unpacked is not None:
            self._packed, self._unpacked = self._plain(*self._unpacked), None
        assert self._packed is not None  # noqa: S101  # one of the two is there
        return self._packed

    def slots(self, rows: Rows) -> int:
        """How many slots the rows have."""
        return len(rows) if self.repetition is None else self.repetition.spans.total(rows)

    def bounds(self, rows: Rows, slots: int) -> Bounds | None:
        """What is stated of the values of rows with so many slots."""
        return None if self._order is None else self._order.bounds(rows, slots)

    def _dictionary(self, values: pa.Array) -> _Indices | None:
        """Values that are few; of integers, those that are all the same."""
        if not len(values) or self.kind is Physical.BOOLEAN:
            return None
        if values.type in _FIXED:
            only = None if self._delta else _only(values)
            return None if only is None else _Indices(np.zeros(0, np.uint32), (1, only), self._spans)
        encoded = _few(values)
        if encoded is None:
            return None
        distinct = encoded.dictionary
        content, _ = _lengths_and_bytes(distinct)
        return _Indices(encoded.indices.to_numpy().astype(np.uint32), (len(distinct), content.tobytes()), self._spans)

    def _plain(self, values: pa.Array, starts: Places) -> Values:
        if self.kind is Physical.BOOLEAN:
            return _Flags(values.to_numpy(zero_copy_only=False).astype(np.uint8), self._spans)
        if values.type in _FIXED:
            return (_Deltas if self._delta and len(values) else _Numbers)(_integers(values.to_numpy()), self._spans)
        return _Texts(values, starts)


class _Order:
    """The order of the values of a leaf: texts by their places among the distinct ones, integers by themselves."""

    def __init__(self, values: pa.Array, spans: Spans) -> None:
        self._spans = spans
        self._texts: pa.Array | None = None
        if pa.types.is_string(values.type):
            distinct = values.dictionary_encode()
            places = pc.sort_indices(distinct.dictionary).to_numpy()
            self._texts = distinct.dictionary.take(pa.array(places))
            rank = np.empty(len(places), np.int64)
            rank[places] = np.arange(len(places))
            self._ranks = rank[distinct.indices.to_numpy()]
        else:
            self._size = values.type.bit_width // 8
            self._ranks = values.to_numpy().astype(np.int64)
        # such as the number of the batch
        ranks = self._ranks
        self._only = int(ranks[0]) if len(ranks) and (ranks == ranks[0]).all() else None

    def bounds(self, rows: Rows, slots: int) -> Bounds | None:
        """What is stated of rows with so many slots; None when there is no value, or a long one."""
        if self._only is not None:
            least, greatest, count = self._only, self._only, self._spans.total(rows)
        else:
            least, greatest, count = _kernels().bounds(self._ranks, self._spans.offsets, rows)
        if not count:
            return None
        low, high = self._bytes(least), self._bytes(greatest)
        return Bounds(low, high, slots - count) if max(len(low), len(high)) <= _LONGEST_BOUND else None

    def _bytes(self, rank: int) -> bytes:
        if self._texts is None:
            return rank.to_bytes(self._size, "little", signed=True)
        return bytes(self._texts[rank].as_buffer())


def repeating(table: pa.Table, *, delta: Collection[str] = ()) -> list[str]:
    """The paths of the leaves of a table whose values are few, but for those that are differences of integers."""
    found = []
    for leaf in leaves(table):
        path = ".".join(leaf.path)
        values = _storage(leaf.values)
        fixed = values.type in _FIXED
        if len(values) and path not in delta and (_only(values) if fixed else _few(values)) is not None:
            found.append(path)
    return found


def _few(values: pa.Array) -> pa.DictionaryArray | None:
    """Texts as positions among the distinct ones, if these are few."""
    if not pa.types.is_string(values.type):
        return None
    encoded = values.dictionary_encode()
    distinct = encoded.dictionary
    few = len(distinct) * _REPEATS <= len(values) and distinct.nbytes <= _DICTIONARY_BYTES
    return encoded if few else None


def _only(values: pa.Array) -> bytes | None:
    """The number that all of them are, as bytes."""
    numbers = _integers(values.to_numpy())  # of doubles, 0.0 and -0.0 are two
    return None if (numbers != numbers[0]).any() else numbers[:1].tobytes()


def _storage(values: pa.Array) -> pa.Array:
    """Values by their physical type; texts stay what they are."""
    return values.view(pa.int64()) if pa.types.is_timestamp(values.type) else values


def _integers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers as integers of their size: kernels are compiled for each type, and move bits alone."""
    return values.view(f"i{values.itemsize}")


def _lengths_and_bytes(values: pa.Array) -> tuple[npt.NDArray[np.uint8], Places]:
    """Texts or bytes, PLAIN, and where each begins."""
    _, bounds, content = values.buffers()
    if not len(values):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    offsets = np.frombuffer(bounds, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    data = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    found: tuple[npt.NDArray[np.uint8], Places] = _kernels().with_lengths(data, offsets)
    return found
