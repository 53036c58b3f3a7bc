"""A copy from its beginning to its end, which may be in another process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from bindery.router.errors import CommitConflict, InvalidInput
from bindery.store import effects
from bindery.store.copying.collecting import Contents, collect
from bindery.store.copying.history import Moved
from bindery.store.copying.marker import Marker
from bindery.store.copying.state import StreamPoint
from bindery.store.copying.transfer import Copied, Progress, Transfer
from bindery.store.paths import DataDir
from bindery.store.places import LocalPlace, at

#: Looks at a source that moves on faster than it can be read, before that is reported, and the pause before another.
_ATTEMPTS: Final = 60
_PAUSE_SECONDS: Final = 0.5
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that is whole, or with `dry_run` what it would be: its point, and what was copied."""

    topology_version: int
    tables: int
    streams: Sequence[StreamPoint]
    copied: Copied
    dry_run: bool = False

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        streams = [
            {
                "stream": one.epoch.stream,
                "batch_id": one.ended,
                "unfinished_batch_id": one.begun,
                "without_checkpoint": one.missing,
            }
            for one in self.streams
        ]
        return {
            "topology_version": self.topology_version,
            "tables": self.tables,
            "streams": streams,
            **asdict(self.copied),
            "dry_run": self.dry_run,
        }


def copy_data(
    source: DataDir,
    destination: DataDir,
    *,
    newest_only: bool = False,
    verify: bool = False,
    dry_run: bool = False,
    progress: Progress = lambda _what, _done, _total: None,
) -> Copy:
    """Copy a data directory as it was at one point to another place; go on with a copy that was begun.

    `newest_only` leaves out files of older versions, of all tables but the topology. Raises Refused when there is
    anything else at the destination, CommitConflict when the source moves on faster than it can be read.
    """
    _check_apart(source, destination)
    marker = Marker(destination.root, source.root)
    marker.check_free()
    to_object_store = at(destination.root).is_remote

    def look() -> Contents:
        with effects.looking(at(source.root)):
            return collect(source, newest_only=newest_only, to_object_store=to_object_store)

    progress("looking", 0, 0)
    if not dry_run:
        marker.claim()
    transfer = Transfer(source.root, destination.root, verify=verify, progress=progress, check=marker.check)
    if dry_run:
        contents = _again(look)
        return _report(contents, transfer.missing(contents), dry_run=True)

    def bring() -> Contents:
        contents = look()
        transfer.bring(contents)
        return contents

    contents = _again(bring)
    marker.release()
    return _report(contents, transfer.done)


def _report(contents: Contents, copied: Copied, *, dry_run: bool = False) -> Copy:
    return Copy(contents.topology_version, len(contents.tables), contents.streams, copied, dry_run)


def _again(work: Callable[[], R]) -> R:
    """Do something until what it needs stays where it is for as long as it takes."""
    for attempt in range(_ATTEMPTS):
        try:
            return work()
        except Moved as error:
            if attempt == _ATTEMPTS - 1:
                raise CommitConflict(
                    f"the data directory moves on faster than it can be copied: {error}",
                    where="copy",
                    hint="start the copy again, it goes on; a longer retention makes it easier",
                ) from error
            time.sleep(_PAUSE_SECONDS)
    raise AssertionError("the last attempt raises")


def _check_apart(source: DataDir, destination: DataDir) -> None:
    """Raise InvalidInput when one of the two lies in the other."""
    one, other = (_resolved(data) for data in (source, destination))
    if f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/"):
        raise InvalidInput(
            f"{destination.root} and {source.root} lie in each other", where="copy", hint="copy to another place"
        )


def _resolved(data: DataDir) -> str:
    place = at(data.root)
    return Path(place.path).resolve().as_posix() if isinstance(place, LocalPlace) else place.address
