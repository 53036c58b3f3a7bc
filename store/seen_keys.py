"""Keys of messages that a stream has routed, and which of a batch's messages repeat one.

A key is known by 128 bits of a hash. What is known is held in sorted runs, merged when a newer one has half the size of
the one before: whoever asks looks into few of them, and a key is moved as often as the logarithm of their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: A run is merged with the one before it when that has less than so many times its keys.
_RATIO: Final = 2


@dataclass(frozen=True, slots=True)
class Keys:
    """Keyed messages of one batch: both halves of each one's hash, and its number; arrays of one length."""

    high: Int64s
    low: Int64s
    seq: Int64s

    def __len__(self) -> int:
        return len(self.seq)

    def take(self, places: Int64s | Bools) -> Keys:
        """Those at these places."""
        return Keys(self.high[places], self.low[places], self.seq[places])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of the keyed messages of a batch.

    fresh             those that come for the first time
    repeated          numbers of those that repeat one, ascending
    batch, seq        batch and number of the message that each of these repeats
    """

    fresh: Keys
    repeated: Int64s
    batch: Int64s
    seq: Int64s


@dataclass(frozen=True, slots=True)
class _Run:
    """Keys in the order of the first half of their hashes, each once, with the message that had it."""

    high: Int64s
    low: Int64s
    batch: Int64s
    seq: Int64s

    def __len__(self) -> int:
        return len(self.high)

    def take(self, places: Int64s | Bools) -> _Run:
        return _Run(self.high[places], self.low[places], self.batch[places], self.seq[places])


class SeenKeys:
    """The keys of a stream's batches, 32 bytes each; those that count no more go with the next merge of their run."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._oldest = 0

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, keys: Keys, batch: int | Int64s) -> None:
        """Take over keys that come for the first time, in any order; `batch` is that of all, or of each."""
        batches = np.full(len(keys), batch, np.int64) if isinstance(batch, int) else batch
        run = _Run(keys.high, keys.low, batches, keys.seq)
        self._runs.append(run.take(np.argsort(run.high, kind="stable")))
        while len(self._runs) > 1 and len(self._runs[-2]) < _RATIO * len(self._runs[-1]):
            self._runs[-2:] = [self._merged(*self._runs[-2:])]
        self._runs = [run for run in self._runs if len(run)]

    def forget_before(self, batch: int) -> None:
        """Keys of earlier batches count no more."""
        self._oldest = batch
        self._runs = [run for run in self._runs if run.batch.max() >= batch]

    def find(self, high: Int64s, low: Int64s) -> tuple[Int64s, Int64s]:
        """Batch and number of the message that had each key; the batch is -1 where none had."""
        batch, seq = np.full(len(high), -1, np.int64), np.zeros(len(high), np.int64)
        in_order = np.argsort(high)  # neighbours are found near each other
        for run in self._runs:
            rows, places = in_order, np.searchsorted(run.high, high[in_order])
            while len(rows):
                inside = places < len(run)
                rows, places = rows[inside], places[inside]
                alike = run.high[places] == high[rows]
                rows, places = rows[alike], places[alike]
                met = (run.low[places] == low[rows]) & (run.batch[places] >= self._oldest)
                batch[rows[met]], seq[rows[met]] = run.batch[places[met]], run.seq[places[met]]
                rows, places = rows[~met], places[~met] + 1  # others may have the same first half
        return batch, seq

    def judge(self, arrived: Keys, batch: int) -> Verdict:
        """Which messages of a batch, in the order in which they arrived, repeat one of it or of an earlier batch."""
        first = _first_of_each(arrived.high, arrived.low)
        is_first = first == np.arange(len(arrived))
        of_batch, of_seq = self.find(arrived.high[is_first], arrived.low[is_first])
        place = (np.cumsum(is_first) - 1)[first]
        of_batch, of_seq = of_batch[place], of_seq[place]
        is_old = of_batch >= 0
        of_batch[~is_old], of_seq[~is_old] = batch, arrived.seq[first[~is_old]]
        repeated = np.flatnonzero(is_old | ~is_first)
        repeated = repeated[np.argsort(arrived.seq[repeated])]
        return Verdict(arrived.take(is_first & ~is_old), arrived.seq[repeated], of_batch[repeated], of_seq[repeated])

    def _merged(self, *runs: _Run) -> _Run:
        joined = _Run(*(np.concatenate([getattr(run, name) for run in runs]) for name in _Run.__slots__))
        joined = joined.take(joined.batch >= self._oldest)
        return joined.take(np.argsort(joined.high, kind="stable"))


def _first_of_each(high: Int64s, low: Int64s) -> Int64s:
    """The place of the first that has the same key, for each."""
    order = np.lexsort((low, high))  # equal ones stay in order
    starts = np.ones(len(order), np.bool_)
    starts[1:] = (high[order[1:]] != high[order[:-1]]) | (low[order[1:]] != low[order[:-1]])
    first = np.empty(len(order), np.int64)
    first[order] = order[starts][np.cumsum(starts) - 1]
    return first
