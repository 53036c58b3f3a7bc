"""Texts as flat UTF-8 bytes, and tables that find them by hash without making Python strings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindery.router.native import kernels

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

KERNELS = "bindery.router.matching.kernels"


@dataclass(frozen=True, slots=True)
class Texts:
    """n texts: text i is `data[offsets[i]:offsets[i + 1]]` (int64[n + 1])."""

    data: Bytes
    offsets: Int64s

    @classmethod
    def of(cls, array: pa.Array) -> Texts:
        """The texts of an Arrow string or binary array without nulls; its bytes are shared, not copied."""
        wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        _, offsets, data = array.buffers()
        data_view = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
        data_view.setflags(write=False)  # kernels are compiled for one kind of array
        if offsets is None or not len(array):
            return cls(data_view, np.zeros(len(array) + 1, np.int64))
        all_offsets = np.frombuffer(offsets, np.int64 if wide else np.int32)
        return cls(data_view, all_offsets[array.offset : array.offset + len(array) + 1].astype(np.int64))

    @classmethod
    def encode(cls, texts: Sequence[str | bytes]) -> Texts:
        """Texts from Python strings."""
        encoded = [text if isinstance(text, bytes) else text.encode() for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getstate__(self) -> tuple[bytes, Int64s]:
        return self.data.tobytes(), self.offsets

    def __setstate__(self, state: tuple[bytes, Int64s]) -> None:
        object.__setattr__(self, "data", np.frombuffer(state[0], np.uint8))
        object.__setattr__(self, "offsets", state[1])

    def text(self, number: int) -> str:
        """One text as a string."""
        return self.data[self.offsets[number] : self.offsets[number + 1]].tobytes().decode("utf-8", "replace")


def slots_for(entries: int) -> Int32s:
    """Free slots of a hash table that stays at most half full."""
    return np.full(max(2, 1 << (2 * entries - 1).bit_length()) if entries else 2, -1, np.int32)


@dataclass(frozen=True, slots=True)
class TextTable:
    """Finds the position of a text among distinct known ones."""

    texts: Texts
    slots: Int32s = field(repr=False)

    @classmethod
    def of(cls, texts: Sequence[str | bytes]) -> TextTable:
        """A table of distinct texts; the position of a text is its place in the sequence."""
        known = Texts.encode(texts)
        slots = slots_for(len(known))
        kernels(KERNELS).build_texts(known.data, known.offsets, slots)
        return cls(known, slots)

    def find(self, texts: Texts, which: Int64s) -> Int32s:
        """For each text number in `which` its position in this table, -1 for an unknown one."""
        found: Int32s = kernels(KERNELS).find_texts(
            self.texts.data, self.texts.offsets, self.slots, texts.data, texts.offsets, which
        )
        return found


@dataclass(frozen=True, slots=True)
class NumberTable:
    """Finds the int32 value under a non-negative 64-bit integer key."""

    keys: Int64s = field(repr=False)
    values: Int32s = field(repr=False)

    @classmethod
    def of(cls, keys: Sequence[int] | Int64s, values: Sequence[int] | Int32s) -> NumberTable:
        """A table of distinct keys and their values."""
        slots = slots_for(len(keys))
        table = cls(np.full(len(slots), -1, np.int64), slots)
        kernels(KERNELS).build_pairs(np.asarray(keys, np.int64), np.asarray(values, np.int32), table.keys, table.values)
        return table
