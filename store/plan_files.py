"""Plans: rows that are about to be changed, on record before anything is: whoever comes later ends what was begun.

A plan is one Parquet file, `<number>.parquet` in a folder of plans of one kind, which is whole as soon as it has its
name. Numbers grow with time: plans are carried out in their order.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from bindery.router.errors import UnsupportedTable
from bindery.store import effects
from bindery.store.places import Place

#: Folders of the data directory that have plans of redrives, by vhost, and of moves, copies and dead letters, by vhost
#: and queue.
REDRIVES: Final = "redrives"
MOVES: Final = "moves"
COPIES: Final = "copies"
DEAD_LETTERS: Final = "limits"
FOLDERS: Final = (REDRIVES, MOVES, COPIES, DEAD_LETTERS)
#: What makes plans of one millisecond differ.
_NUMBERS: Final = 1 << 10
_SUFFIX: Final = ".parquet"
_VERSION: Final = "bindery.topology_version"
_CLOCK: Final = "bindery.clock_ms"

P = TypeVar("P", bound="BatchPlan")


def next_number(*, after: int = -1) -> int:
    """A number above `after` that grows with time."""
    return max(time.time_ns() // 1_000_000 * _NUMBERS, after + 1) + secrets.randbelow(_NUMBERS)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A durable plan: its file, its number, its rows, and what is stated beside them."""

    place: Place
    number: int
    rows: pa.Table
    stated: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A durable plan that becomes a batch: its file, the stream, and what the rows are written with."""

    file: PlanFile
    stream: str
    topology_version: int
    clock_ms: int

    @property
    def place(self) -> Place:
        """Where its file is."""
        return self.file.place

    @property
    def number(self) -> int:
        """The number of its batch."""
        return self.file.number

    @property
    def rows(self) -> pa.Table:
        """The rows that are planned."""
        return self.file.rows

    @property
    def batch(self) -> str:
        """What its rows are known by where they arrive: "<stream>:<number>"."""
        return f"{self.stream}:{self.number}"


class PlanFolder:
    """The plans of one folder: of what `kind`, with rows of `schema`; `lost` says what a damaged one takes along."""

    def __init__(self, folder: Place, schema: pa.Schema, *, kind: str, lost: str) -> None:
        self._folder = folder
        self._schema = schema
        self._kind = kind
        self._lost = lost

    def pending(self) -> list[int]:
        """The numbers of the plans that are not finished, ascending."""
        with effects.looking(self._folder):
            return self._folder.numbers(_SUFFIX)

    def read(self, number: int) -> PlanFile | None:
        """A plan; None when somebody else has finished it. Raises UnsupportedTable for a damaged one."""
        place = self._place(number)
        try:
            found = place.read_parquet()
            stated = {key.decode(): value.decode() for key, value in (found.schema.metadata or {}).items()}
            rows = found.replace_schema_metadata(None).select(self._schema.names).cast(self._schema)
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise self.damaged(number, error) from error
        return PlanFile(place, number, rows, stated)

    def read_as(self, number: int, plan: Callable[[PlanFile, int, int], P]) -> P | None:
        """What `plan` makes of a plan's file, topology version and clock; None and errors as `read`.

        A key that it lacks, or a value that is no number, is damage.
        """
        file = self.read(number)
        if file is None:
            return None
        try:
            return plan(file, int(file.stated[_VERSION]), int(file.stated[_CLOCK]))
        except (KeyError, ValueError) as error:
            raise self.damaged(number, error) from error

    def damaged(self, number: int, error: Exception) -> UnsupportedTable:
        """The error of a plan that cannot be read."""
        place = self._place(number)
        return UnsupportedTable(
            f"damaged {self._kind} plan {place}: {error}",
            where=str(place),
            hint=f"restore it; without it, {self._lost}",
        )

    def write(
        self, rows: pa.Table, *, version: int, clock_ms: int, after: int, stated: Mapping[str, str] | None = None
    ) -> PlanFile:
        """A plan with a number above `after`, and what its batch is written with; durable when this comes back.

        Raises StorageFailed; the plan may be there all the same, and is finished like any other.
        """
        number = next_number(after=after)
        place = self._place(number)
        planned = rows.cast(self._schema)
        stated = {**(stated or {}), _VERSION: str(version), _CLOCK: str(clock_ms)}
        effects.make_folder(self._folder)
        effects.put_parquet(place, planned.replace_schema_metadata({k: v.encode() for k, v in stated.items()}))
        return PlanFile(place, number, planned, stated)

    def discard(self, plan: PlanFile) -> None:
        """Remove a plan that is finished or was given up. Raises StorageFailed; then it is there to be finished."""
        effects.remove(plan.place)

    def _place(self, number: int) -> Place:
        return self._folder / f"{number}{_SUFFIX}"


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)
