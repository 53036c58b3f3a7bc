"""The states of a walk: arrays that grow, and an index that tells known states from new ones.

A chain of exchanges gives rounds of few states each. Whatever a round costs must follow its own states, not
those of all rounds before it: arrays and the index double when they are full.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from bindery.router.matching.texts import KERNELS, Int32s, Int64s
from bindery.router.native import kernels

Kind = TypeVar("Kind", bound=np.generic)


class Growing(Generic[Kind]):
    """A one-dimensional array to which values are appended; `all` is a view of what there is."""

    def __init__(self, kind: type[Kind]) -> None:
        self._held: npt.NDArray[Kind] = np.zeros(16, kind)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def all(self) -> npt.NDArray[Kind]:
        """The values so far; writes go through, until more are appended."""
        return self._held[: self._size]

    def append(self, values: npt.NDArray[Kind]) -> None:
        """Add values at the end."""
        size = self._size + len(values)
        if size > len(self._held):
            grown = np.zeros(max(size, 2 * len(self._held)), self._held.dtype)
            grown[: self._size] = self.all
            self._held = grown
        self._held[self._size : size] = values
        self._size = size


class Known:
    """Numbers of states by their codes, in a hash table that doubles.

    `entered` counts entries made, again at each doubling: for guards against complexity.
    """

    def __init__(self) -> None:
        self._codes: Int64s = np.full(32, -1, np.int64)
        self._numbers: Int32s = np.full(32, -1, np.int32)
        self._size = 0
        self._waiting: list[tuple[Int64s, Int32s]] = []
        self.entered = 0

    def find(self, codes: Int64s) -> Int32s:
        """The number behind each code, -1 for an unknown one."""
        for added in self._waiting:
            self._enter(*added)
        self._waiting.clear()
        found: Int32s = kernels(KERNELS).find_pairs(self._codes, self._numbers, codes)
        return found

    def add(self, codes: Int64s, numbers: Int32s) -> None:
        """Take up distinct codes that are not known yet; most batches never ask for them."""
        self._waiting.append((codes, numbers))

    def _enter(self, codes: Int64s, numbers: Int32s) -> None:
        self._size += len(codes)
        if 2 * self._size > len(self._codes):
            held = self._codes >= 0
            codes = np.concatenate([self._codes[held], codes])
            numbers = np.concatenate([self._numbers[held], numbers])
            slots = 1 << (4 * self._size - 1).bit_length()
            self._codes, self._numbers = np.full(slots, -1, np.int64), np.full(slots, -1, np.int32)
        kernels(KERNELS).build_pairs(codes, numbers, self._codes, self._numbers)
        self.entered += len(codes)
