"""Faults: which effect of an operation they meet, what they do there, and what was met so far."""

from __future__ import annotations

import errno
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from hypothesis import strategies as st

from bindery.store import faults

#: died: the process stops at the effect, before or after it; lost: the effect is done and the answer is an
#: error; full: nothing can be written from that effect on; rival: another process does something meanwhile.
Kind = Literal["died before", "died after", "lost", "full", "rival"]
KINDS: Final[tuple[Kind, ...]] = ("died before", "died after", "lost", "full", "rival")
#: Effects that need room on the disk.
_NEED_ROOM: Final = ("put", "write", "replace", "append", "make", "checkpoint")
#: What a path below the data directory is, by its folder.
_PLACES: Final = re.compile(
    r"/data/(?P<area>topology|streams|manifest|queues|unroutable|inbox|pins|access|jobs|redrives)(?P<rest>/.*)?$"
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
    """What the schedules of a run have met: (operation, effect, place, kind) -> times."""

    faults: Counter[tuple[str, str, str, Kind]] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    schedules: int = 0

    def add(self, other: Met) -> None:
        """Count what others have met, too."""
        self.faults += other.faults
        self.operations += other.operations
        self.schedules += other.schedules

    def clear(self) -> None:
        """Forget everything."""
        self.faults.clear()
        self.operations.clear()
        self.schedules = 0


@dataclass
class Injection:
    """One fault at the `number`-th effect (from 0) that an operation comes to; none if it has fewer.

    After its death a process has no effects any more, whatever its `finally` clauses try. `rival` names what
    another process does; whoever runs the operation sets `meanwhile`, which does it.
    """

    kind: Kind
    number: int
    rival: str = ""
    meanwhile: Callable[[], object] | None = None
    hit: tuple[str, str] | None = None
    _busy: bool = False
    _thread: int | None = None
    _gate: threading.Lock = field(default_factory=threading.Lock)
    _reached: int = -1
    _dead: bool = False
    _full: bool = False

    @property
    def reached(self) -> int:
        """How many effects the operation came to."""
        return self._reached + 1

    @property
    def is_dead(self) -> bool:
        """Whether the process has died of it."""
        return self._dead

    def hook(self, point: str, path: str) -> None:
        """For store.faults.installed."""
        if self._busy:
            return  # the rival's own effect
        if self._dead:
            raise Died(point)
        if not faults.is_effect(point):
            return
        effect, _, side = point.partition(".")
        with self._gate:
            if side == "before":
                self._reached += 1
                if self._reached == self.number:
                    self._thread = threading.get_ident()
            needs_room = effect in _NEED_ROOM
            mine = self.hit is None and self._thread == threading.get_ident()
            due = mine and side == ("before" if self.kind in ("died before", "full", "rival") else "after")
            if due and self.kind == "full":
                self._full = due = needs_room
            if due:
                self.hit = (effect, place_of(path))
                self._dead = self.kind in ("died before", "died after")
        if self._full and needs_room and side == "before":
            raise OSError(errno.ENOSPC, "No space left on device", path)
        if due and self.kind == "lost":
            raise OSError(errno.EIO, "Input/output error", path)
        if due and self.kind == "rival":
            self._meet_rival()
        if self._dead:
            raise Died(point)

    def _meet_rival(self) -> None:
        assert self.meanwhile is not None
        self._busy = True
        try:
            self.meanwhile()
        finally:
            self._busy = False


def injections(effects: int, *rivals: str) -> st.SearchStrategy[Injection | None]:
    """No fault, or one of any kind at one of the effects that such an operation has; rarely beyond them."""
    number = st.integers(0, effects - 1)
    alone = (st.builds(Injection, st.just(kind), number) for kind in KINDS if kind != "rival")
    if not rivals:
        return st.one_of(st.none(), *alone)
    return st.one_of(st.none(), *alone, st.builds(Injection, st.just("rival"), number, rival=st.sampled_from(rivals)))
