"""When a queue that expires was last used: a small file in the folder of its table.

`DIR/queues/<vhost>/<queue>/.used.json` says which queue it speaks of (its id), when that was used, and for how long
after that another use need not be noted (`grain`). So a use costs a look at the file, and a write at most once in a
grain: an eighth of the expiry, a minute at most. Uses in the grain after the one on record are not known.

The file is made when the queue is declared, or by the first pass of maintenance that finds it to expire. Where there is
none, nothing is noted. It is replaced only while it is what was read; whoever loses that race looks again.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from bindery.router.errors import BinderyError
from bindery.store import effects
from bindery.store.paths import DataDir
from bindery.store.places import Place, at

_LOGGER: Final = logging.getLogger(__name__)
_NAME: Final = ".used.json"
_FORMAT: Final = 1
#: Milliseconds between two uses that are noted, at most …
_LONGEST_GRAIN: Final = 60_000
#: … and the part of the expiry that they are at most.
_PART: Final = 8
#: Looks at the record by one use: others come between two of them hardly more than once in a grain.
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Use:
    """The last use on record; times in milliseconds, `used_ms` since 1970.

    queue     id of the queue
    grain_ms  for so long after it no other use is noted
    """

    queue: int
    used_ms: int
    grain_ms: int

    def ends_ms(self, expires_ms: int) -> int:
        """When the queue has certainly been unused for so long."""
        return self.used_ms + self.grain_ms + expires_ms


@dataclass(frozen=True, slots=True)
class Recorded:
    """A use, if one can be read from the record, and what tells the record from those that come after it."""

    use: Use | None
    identity: tuple[object, ...] | None


def grain(expires_ms: int) -> int:
    """Milliseconds after a use for which another one of a queue with this expiry is not noted."""
    return min(expires_ms // _PART, _LONGEST_GRAIN)


def note_use(data: DataDir, vhost: str, queue: str, *, now_ms: int | None = None) -> None:
    """A queue is being used; nothing is written for one that does not expire, or was used just now.

    Never raises: a queue can be read on a full disk and in a folder that is read-only; it may then expire too soon.
    """
    moment = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    try:
        for _ in range(_ATTEMPTS):
            found = recorded(data, vhost, queue)
            if found.use is None or moment < found.use.used_ms + found.use.grain_ms:
                return
            if record(data, vhost, queue, replace(found.use, used_ms=moment), found):
                return
    except (BinderyError, OSError) as error:
        _LOGGER.warning("the use of queue %r in vhost %r could not be noted: %s", queue, vhost, error)


def recorded(data: DataDir, vhost: str, queue: str) -> Recorded:
    """What is on record. Raises StorageFailed."""
    place = _place(data, vhost, queue)
    with effects.looking(place):
        known = place.known()
    if known is None:
        return Recorded(None, None)
    return Recorded(_read(known[0]), known[1])


def record(data: DataDir, vhost: str, queue: str, use: Use, found: Recorded) -> bool:
    """Put a use on record in the place of what was found; False when that is another one by now.

    Raises StorageFailed, CommitUnknown.
    """
    content = json.dumps({"format": _FORMAT, **asdict(use)}).encode()
    return effects.replace_same(_place(data, vhost, queue), content, found.identity)


def forget(data: DataDir, vhost: str, queue: str) -> None:
    """Remove the record of a queue that is gone. Raises StorageFailed."""
    effects.remove(_place(data, vhost, queue))


def _place(data: DataDir, vhost: str, queue: str) -> Place:
    return at(data.queue(vhost, queue), _NAME)


def _read(content: bytes) -> Use | None:
    """None for a record that is damaged or of another format: it is made anew."""
    try:
        stated: dict[str, Any] = json.loads(content)
        if stated.pop("format") == _FORMAT:
            return Use(**{name: int(value) for name, value in stated.items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return None
