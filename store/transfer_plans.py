"""Plans of moves, copies and dead letters: which rows of a queue go where.

Those of moves are in `DIR/moves/<vhost>/<queue that they leave>`, those of copies to an exchange in
`DIR/copies/<vhost>/<queue that they are copied from>`, those of rows that the limits of a queue send to its dead letter
exchange in `DIR/limits/<vhost>/<queue that they leave>`. How plans are kept is said in `bindery.store.plan_files`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from bindery.router.message import QUEUE_SCHEMA
from bindery.store import effects, plan_files, stream_names
from bindery.store.dead_letters import DeadLetters
from bindery.store.destinations import Goal, from_stated
from bindery.store.paths import DataDir, encode_name
from bindery.store.places import at
from bindery.store.plan_files import BatchPlan, PlanFile, PlanFolder
from bindery.store.transfers import stream_of

_SOURCE: Final = "bindery.source"


@dataclass(frozen=True, slots=True)
class Kind:
    """What plans are for.

    name    what it is called, also in commits of the source
    folder  folder of the data directory with the plans
    prefix  how the names of its streams begin
    takes   whether the rows leave their queue
    """

    name: str
    folder: str
    prefix: str
    takes: bool = True


MOVES: Final = Kind("move", plan_files.MOVES, stream_names.MOVES)
COPIES: Final = Kind("copy", plan_files.COPIES, stream_names.COPIES, takes=False)
DEAD_LETTERS: Final = Kind("limits", plan_files.DEAD_LETTERS, stream_names.DEAD_LETTERS)
KINDS: Final = (MOVES, COPIES, DEAD_LETTERS)


@dataclass(frozen=True, slots=True)
class Plan(BatchPlan):
    """A durable plan: rows of `source` as they stand there, which go `to` another place, and what they arrive with."""

    source: str
    to: Goal


class Plans:
    """The plans of one kind in one vhost."""

    def __init__(self, data: DataDir, vhost: str, *, kind: Kind = MOVES) -> None:
        self.kind: Final = kind
        self._vhost = vhost
        self._root = at(data.root, kind.folder, encode_name(vhost))

    def pending(self) -> list[Plan]:
        """The plans that are not finished, in the order of their numbers. Raises UnsupportedTable for a damaged one."""
        with effects.looking(self._root):
            names = {name.partition("/")[0] for name in self._root.within()}
        return sorted((plan for name in names for plan in self._within(name)), key=lambda plan: plan.number)

    def _within(self, folder: str) -> Iterator[Plan]:
        files = self._files(folder)
        for number in files.pending():
            plan = self._read(files, number)
            if plan is not None:
                yield plan

    def read(self, source: str, number: int) -> Plan | None:
        """A plan; None when there is none of that number. Raises UnsupportedTable for a damaged one."""
        return self._read(self._files(encode_name(source)), number)

    def write(self, rows: pa.Table, source: str, to: Goal, *, version: int, clock_ms: int, after: int) -> Plan:
        """A plan with a number above `after`; durable when this comes back.

        Raises StorageFailed; the plan may be there all the same, and is finished like any other.
        """
        stated = {_SOURCE: source, **to.stated()}
        files = self._files(encode_name(source))
        file = files.write(rows, version=version, clock_ms=clock_ms, after=after, stated=stated)
        return Plan(file, self.stream(source), version, clock_ms, source, to)

    def discard(self, plan: Plan) -> None:
        """Remove a plan that is finished or was given up. Raises StorageFailed; then it is there to be finished."""
        self._files(encode_name(plan.source)).discard(plan.file)

    def stream(self, source: str) -> str:
        """The stream of what is carried out of a queue, which is its own app id."""
        return stream_of(self.kind.prefix, self._vhost, source)

    def _files(self, folder: str) -> PlanFolder:
        lost = "rows that have left their queue never arrive" if self.kind.takes else "some copies never arrive"
        return PlanFolder(self._root / folder, QUEUE_SCHEMA, kind=self.kind.name, lost=lost)

    def _read(self, files: PlanFolder, number: int) -> Plan | None:
        def plan(file: PlanFile, version: int, clock_ms: int) -> Plan:
            source = file.stated[_SOURCE]
            return Plan(file, self.stream(source), version, clock_ms, source, _goal(file.stated))

        return files.read_as(number, plan)


def _goal(stated: Mapping[str, str]) -> Goal:
    """Where the rows of a plan go. Raises KeyError for nowhere."""
    return DeadLetters.from_stated(stated) if DeadLetters.is_stated(stated) else from_stated(stated)
