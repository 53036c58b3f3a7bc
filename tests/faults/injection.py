"""Faults: which effect of an operation they meet, what they do there, and what was met so far."""

from __future__ import annotations

import errno
import glob
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, Literal

from hypothesis import strategies as st

from bindery.store.places import at
from tests.faults import grounds
from tests.faults.grounds import Ground
from tests.servers.faulty_s3 import FaultyS3

#: died: the process stops at the effect, before or after it; lost: the effect is done and the answer is an
#: error; full: nothing can be written from that effect on; rival: another process does something meanwhile.
#: Of an object store also: cut: the effect is done, and no request is answered from there on; again: it is done, its
#: answer gets lost on the wire, and the client asks once more; half: of the objects that one request removes
#: every second one is gone when the process dies, and of a checkpoint there is all but the record of it.
Kind = Literal["died before", "died after", "lost", "full", "rival", "cut", "again", "half"]
_ANYWHERE: Final[tuple[Kind, ...]] = ("died before", "died after", "lost", "full", "rival")
KINDS: Final[Mapping[Ground, tuple[Kind, ...]]] = {"local": _ANYWHERE, "s3": (*_ANYWHERE, "cut", "again", "half")}
#: Kinds that happen on the wire, to which a proxy has to be asked.
_ON_THE_WIRE: Final = ("again", "half")
#: Kinds that happen before the effect that they meet.
_BEFORE: Final = ("died before", "full", "rival", "again", "half")
#: Effects that need room on the disk, or in the store.
_NEED_ROOM: Final = ("put", "copy", "write", "link", "replace", "append", "make", "checkpoint")
#: Requests that change an object store.
_CHANGES: Final = ("put", "copy", "delete")
#: What a path below the data directory is, by its folder.
_PLACES: Final = re.compile(
    r"/data/(?P<area>topology|streams|manifest|queues|unroutable|inbox|pins|access|jobs|redrives|backfills)(?P<rest>/.*)?$"
)


class Died(BaseException):
    """The process has stopped here."""


def place_of(path: str) -> str:
    """What kind of file or folder a path names: "queues log", "manifest file", "pins" …"""
    found = _PLACES.search(path)
    if found is None:
        return "elsewhere"
    rest = found["rest"] or ""
    if "/_delta_log" in rest:
        return f"{found['area']} log"
    return f"{found['area']} file" if rest.endswith(".parquet") else found["area"]


@dataclass
class Met:
    """What the schedules of a run have met: (operation, effect, place, kind) -> times.

    `batches` of the stream by how many of their queues were deferred; copies that were `flushed` without a fault.
    """

    faults: Counter[tuple[str, str, str, Kind]] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    batches: Counter[str] = field(default_factory=Counter)
    flushed: int = 0
    schedules: int = 0

    def add(self, other: Met) -> None:
        """Count what others have met, too."""
        self.faults += other.faults
        self.operations += other.operations
        self.batches += other.batches
        self.flushed += other.flushed
        self.schedules += other.schedules

    def clear(self) -> None:
        """Forget everything."""
        self.faults.clear()
        self.operations.clear()
        self.batches.clear()
        self.flushed = self.schedules = 0


@dataclass
class Injection:
    """One fault at the `number`-th effect (from 0) that an operation comes to; none if it has fewer.

    `only` names a kind of effect and its place: effects of others are not counted. Threads come to their effects in
    another order each time, and a number among all of them may meet another one.

    An effect on an object store is a request that changes it. After its death a process has no effects any more,
    whatever its `finally` clauses try. `rival` names what another process does; whoever runs the operation sets
    `meanwhile`, which does it, `remote`, and `wire`, if it `is_on_the_wire`; and closes it in the end. `effects` are
    those that the operation came to, each with its place; `hit` is the one that met the fault.
    """

    kind: Kind
    number: int
    rival: str = ""
    only: tuple[str, str] | None = None
    meanwhile: Callable[[], object] | None = None
    remote: bool = False
    wire: FaultyS3 | None = None
    hit: tuple[str, str] | None = None
    effects: list[tuple[str, str]] = field(default_factory=list)
    _busy: bool = False
    _thread: int | None = None
    _gate: threading.Lock = field(default_factory=threading.Lock)
    _reached: int = -1
    _dead: bool = False
    _full: bool = False
    _cut: bool = False
    _on_the_wire: ExitStack = field(default_factory=ExitStack)

    @property
    def reached(self) -> int:
        """How many effects that are counted the operation came to."""
        return self._reached + 1

    @property
    def is_dead(self) -> bool:
        """Whether the process has died of it."""
        return self._dead

    @property
    def is_on_the_wire(self) -> bool:
        """Whether it needs a proxy before the store."""
        return self.kind in _ON_THE_WIRE

    @property
    def is_for_others(self) -> bool:
        """Whether the operation must not fail of it: a rival's work, or what the client of a store makes good."""
        return self.kind in ("rival", "again")

    def close(self) -> None:
        """Put the wire right."""
        self._on_the_wire.close()

    def hook(self, point: str, path: str) -> None:
        """For store.faults.installed."""
        if self._busy:
            return  # the rival's own effect
        if self._dead:
            raise Died(point)
        if self._cut and (point.endswith(".asked") or point == "checkpoint.before"):
            raise OSError(errno.EIO, "nothing answers", path)
        effect, side = self._effect(point)
        if not side:
            return
        with self._gate:
            if side == "before":
                here = (effect, place_of(path))
                self.effects.append(here)
                self._reached += self.only in (None, here)
                if self._reached == self.number and self.only in (None, here):
                    self._thread = threading.get_ident()
            needs_room = effect in _NEED_ROOM
            mine = self.hit is None and self._thread == threading.get_ident()
            due = mine and side == ("before" if self.kind in _BEFORE else "after")
            if due and self.kind == "full":
                self._full = due = needs_room
            if due and self.kind == "half":
                due = effect == "checkpoint" or (effect == "delete" and self._halve(path))
            if due:
                self.hit = (effect, place_of(path))
                self._dead = self.kind.startswith("died") or (self.kind == "half" and effect == "delete")
                self._cut = self.kind == "cut"
        if self._full and needs_room and side == "before":
            raise OSError(errno.ENOSPC, "No space left on device", path)
        if due and self.kind in ("lost", "cut"):
            raise OSError(errno.EIO, "Input/output error", path)
        if due and self.kind in _ON_THE_WIRE and not self._dead:
            self._ask_the_wire(path)
        if due and self.kind == "rival":
            self._meet_rival()
        if self._dead:
            raise Died(point)

    def _effect(self, point: str) -> tuple[str, str]:
        """Which effect a point belongs to, and on which side of it; "" for one between effects."""
        name, _, side = point.partition(".")
        if self.remote and name != "checkpoint":
            side = {"asked": "before", "answered": "after"}.get(side, "") if name in _CHANGES else ""
        return name, side if side in ("before", "after") else ""

    def _halve(self, path: str) -> bool:
        """Remove every second object of those that are about to go at once; False when it is only one."""
        self._busy = True
        try:
            names = list(at(path).within())
            for name in names[::2] if len(names) > 1 else ():
                (at(path) / name).remove()
        finally:
            self._busy = False
        return len(names) > 1

    def _ask_the_wire(self, path: str) -> None:
        assert self.wire is not None
        keys = f"{glob.escape(path.partition('://')[2].partition('/')[2])}*"
        if self.kind == "again":
            fault = self.wire.losing_answers(kinds=_CHANGES, keys=keys, nth=1)
        else:
            fault = self.wire.failing("AccessDenied", kinds={"put"}, keys=f"{keys}/_last_checkpoint")
        self._on_the_wire.enter_context(fault)

    def _meet_rival(self) -> None:
        assert self.meanwhile is not None
        self._busy = True
        if self.remote:
            grounds.forget_stores()  # another process has clients, and locks, of its own
        try:
            self.meanwhile()
        finally:
            self._busy = False


def injections(ground: Ground, effects: int, *rivals: str) -> st.SearchStrategy[Injection | None]:
    """No fault, or one of any kind at one of the effects that such an operation has; rarely beyond them."""
    number = st.integers(0, effects - 1)
    alone = (st.builds(Injection, st.just(kind), number) for kind in KINDS[ground] if kind != "rival")
    if not rivals:
        return st.one_of(st.none(), *alone)
    return st.one_of(st.none(), *alone, st.builds(Injection, st.just("rival"), number, rival=st.sampled_from(rivals)))
