"""Publications gathered between looks at the topology, and compared once it is known between which they were routed.

Before each look but the first a mark is put into the queue that publications come from, and the look is taken when the
queue has it. So what comes between mark n and mark n+1 was routed after look n-1 and before look n+1: it is compared
under the topologies of looks n-1, n and n+1. A mark may get lost with what was before it; then it is between marks
that are further apart.
"""

from __future__ import annotations

from typing import Final

from bindery.jobs.shadowing.look import Look
from bindery.jobs.shadowing.publication import Publication, read_publication
from bindery.jobs.shadowing.tally import Tally
from bindery.router.errors import InvalidRecord

#: Messages, and bytes of their copies, that are kept between two looks; further ones are not compared.
KEPT: Final = 20_000
KEPT_BYTES: Final = 64 * 2**20
TOO_FAST: Final = "it came faster than messages could be compared"
LOST: Final = "the broker dropped what told when it was routed"


class Gathering:
    """What has come since the last mark; `limit` are the messages that are taken at most."""

    def __init__(self, tally: Tally, first: Look, limit: int | None = None) -> None:
        self.newest = first
        self.taken = 0
        self._tally = tally
        self._limit = limit
        #: looks by the number of the mark before them; 0 is the first, without one
        self._looks = {0: first}
        self._come = 0
        self._kept: list[Publication] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether no more can be kept before the next look."""
        return len(self._kept) >= KEPT or self._bytes >= KEPT_BYTES

    @property
    def is_enough(self) -> bool:
        """Whether as many were taken as are wanted."""
        return self._limit is not None and self.taken >= self._limit

    @property
    def put(self) -> int:
        """The number of the last mark that was put."""
        return max(self._looks)

    @property
    def is_waiting(self) -> bool:
        """Whether a mark was put that has not come."""
        return self._come < self.put

    def take(self, encoded: bytes, size: int) -> None:
        """Take the copy of a publication: its properties as on the wire, and its size in bytes."""
        if self.is_enough:
            return
        self.taken += 1
        if self.is_full:
            self._tally.refuse(TOO_FAST)
            return
        try:
            self._kept.append(read_publication(encoded, size))
            self._bytes += size
        except InvalidRecord as error:
            self._tally.refuse(error.message if error.where is None else f"{error.where}: {error.message}")

    def looked(self, found: Look) -> None:
        """A mark was put, and this look taken after it."""
        self._looks[self.put + 1] = self.newest = found

    def came(self, number: int) -> None:
        """A mark has come: compare what came before it."""
        since = max(self._come - 1, 0)
        self._tally.compare(
            self._kept, [look.carried for at, look in sorted(self._looks.items()) if since <= at <= number]
        )
        self._kept, self._bytes, self._come = [], 0, number
        self._looks = {at: look for at, look in self._looks.items() if at >= number - 1}

    def give_up(self) -> None:
        """No further mark comes: what is kept cannot be compared."""
        for _ in self._kept:
            self._tally.refuse(LOST)
        self._kept, self._bytes = [], 0
