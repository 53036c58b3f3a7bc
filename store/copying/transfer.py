"""Writing a copy: files of tables first, then what they are read by, and whatever else lies there goes.

Files of tables and entries of logs never change, so what an earlier run has left is used if it has the size that it
must have. Files on a file system get their name when they are durable, objects when they are whole.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from bindery.router.errors import StorageFailed
from bindery.store import effects
from bindery.store.copying.collecting import Contents, CopiedTable
from bindery.store.copying.history import Moved
from bindery.store.paths import COPY_MARK
from bindery.store.places import LocalPlace, Place, at

#: Called with what is being copied, how much of it is done, and how much there is: bytes of files, entries of logs.
Progress = Callable[[str, int, int], object]

#: Files that are copied at once.
_AT_ONCE: Final = 8
#: Files of a log that are copied together.
_TOGETHER: Final = 16
#: Bytes that are read at once.
_PART: Final = 4 << 20
#: Folders into which only their owner may look, where there are owners.
_PRIVATE: Final = ("access", "jobs")


@dataclass
class Copied:
    """Files of tables that were copied, and those that were there already, with their bytes."""

    files: int = 0
    bytes: int = 0
    kept_files: int = 0
    kept_bytes: int = 0


class Transfer:
    """Brings the contents of a data directory to a destination, where a part of them may be already."""

    def __init__(
        self, source: str, destination: str, *, verify: bool, progress: Progress, check: Callable[[], object]
    ) -> None:
        """`verify` compares contents where sizes are enough otherwise, and reads again what was written.

        `check` is called now and then, and raises when the destination is no longer ours.
        """
        self._source, self._to = at(source), at(destination)
        self._verify = verify
        self._progress = progress
        self._check = check
        self._gate = threading.Lock()
        self.done = Copied()
        #: Bytes of the files at the destination, by their address relative to it.
        self._present = self._listed()

    def _listed(self) -> dict[str, int]:
        with effects.looking(self._to):
            return {name: stat.size for name, stat in self._to.within().items() if name != COPY_MARK}

    def missing(self, contents: Contents) -> Copied:
        """What would be copied, and what is there already."""
        found = Copied()
        for name, size in _data_files(contents).items():
            if self._present.get(name) == size:
                found.kept_files += 1
                found.kept_bytes += size
            else:
                found.files += 1
                found.bytes += size
        return found

    def bring(self, contents: Contents) -> None:
        """Copy everything that is not there yet, and remove everything else.

        Raises Moved for what is gone at the source, StorageFailed for what cannot be read or written.
        """
        files = _data_files(contents)
        self.done.kept_files = self.done.kept_bytes = 0
        self._each("files", files, lambda name: self._copy(name, files[name]))
        for name, content in contents.state.items():
            self._put_state(name, content)
        tables = {table.name: table for table in contents.tables}
        self._each(
            "logs", {name: len(table.log) for name, table in tables.items()}, lambda name: self._copy_log(tables[name])
        )
        wanted = {*files, *contents.state}
        for table in contents.tables:
            wanted.update(f"{table.name}/_delta_log/{name}" for name in table.log)
            if table.last_checkpoint is not None:
                wanted.add(f"{table.name}/_delta_log/_last_checkpoint")
        self._settle(wanted, files)

    def _each(self, what: str, sizes: Mapping[str, int], work: Callable[[str], None]) -> None:
        """Do something with each name, several at a time; the sizes are told as progress."""
        self._check()
        done, total = 0, sum(sizes.values())
        self._progress(what, done, total)
        with ThreadPoolExecutor(_AT_ONCE, "copy") as pool:
            waiting = {pool.submit(work, name): name for name in sizes}
            try:
                for one in as_completed(waiting):
                    one.result()
                    done += sizes[waiting[one]]
                    self._progress(what, done, total)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    # -- files of tables ------------------------------------------------------------------------------

    def _copy(self, name: str, size: int) -> None:
        source, to = self._source / name, self._to / name
        if self._present.get(name) == size and not (self._verify and _digest(source) != _digest(to)):
            with self._gate:
                self.done.kept_files += 1
                self.done.kept_bytes += size
            return
        effects.make_folder(to.parent)
        digest = hashlib.blake2b()
        with _opened(source) as parts:
            written = effects.put_parts(to, _noting(parts, digest))
        if written != size:
            raise StorageFailed(
                f"{source} has {written:,} bytes, and its table says {size:,}",
                where=str(source),
                hint="the file is damaged",
            )
        if self._verify and _digest(to) != digest.digest():
            raise StorageFailed(
                f"{to} does not read as it was written", where=str(to), hint="see to the disk or the store"
            )
        with self._gate:
            self._present[name] = size
            self.done.files += 1
            self.done.bytes += size

    # -- what they are read by ------------------------------------------------------------------------

    def _put_state(self, name: str, content: bytes) -> None:
        place = self._to / name
        is_private = name.partition("/")[0] in _PRIVATE
        if is_private:  # the folder above first: a folder is made with those above it open
            effects.make_folder(self._to / name.partition("/")[0], mode=0o700)
        effects.make_folder(place.parent, mode=0o700 if is_private else 0o777)
        effects.replace(place, content, mode=0o600 if is_private else 0o644)

    def _copy_log(self, table: CopiedTable) -> None:
        """Copy the log of a table, the oldest files first; those that are there are left as they are."""
        source, to = self._source / table.name / "_delta_log", self._to / table.name / "_delta_log"
        effects.make_folder(to)
        with effects.looking(source):
            listed = source.files()
        names = table.log
        if self._has_begun(table, source, to):
            prefix = f"{table.name}/_delta_log/"
            names = [
                name for name in names if name not in listed or self._present.get(prefix + name) != listed[name].size
            ]
        for start in range(0, len(names), _TOGETHER):
            together = names[start : start + _TOGETHER]
            with effects.looking(source):
                contents = source.read_on(together)
            if len(contents) < len(together):
                raise Moved(f"{source / together[len(contents)]} is gone")
            for name, content in zip(together, contents, strict=True):
                effects.replace(to / name, content, sync=False)
                if isinstance(to, LocalPlace) and name in listed:
                    # whoever asks for the version at a time, and what is kept how long, goes by it
                    os.utime((to / name).path, ns=(listed[name].modified_ms * 1_000_000,) * 2)
            effects.sync([to / name for name in together])
        if table.last_checkpoint is not None:
            effects.replace(to / "_last_checkpoint", table.last_checkpoint)

    def _has_begun(self, table: CopiedTable, source: Place, to: Place) -> bool:
        """Whether what there is of a log is of this table: the newest entry of it is, and entries never change."""
        for name in reversed(table.log):
            if name.endswith(".json") and f"{table.name}/_delta_log/{name}" in self._present:
                return effects.read(source / name) == effects.read(to / name)
        return False

    def _settle(self, wanted: set[str], files: Mapping[str, int]) -> None:
        """Remove what does not belong to the copy, and look that nothing of it is missing."""
        self._check()
        self._present = self._listed()
        for name in self._present.keys() - wanted:
            effects.remove(self._to / name)
        lost = sorted(
            name
            for name in wanted
            if name not in self._present or files.get(name, self._present[name]) != self._present[name]
        )
        if lost:
            raise StorageFailed(
                f"{self._to / lost[0]} was copied and is not there",
                where=str(self._to),
                hint="somebody else writes to the destination; end that and start the copy again",
            )


def _data_files(contents: Contents) -> dict[str, int]:
    return {f"{table.name}/{name}": size for table in contents.tables for name, size in table.files.items()}


@contextmanager
def _opened(place: Place) -> Iterator[Iterator[bytes]]:
    """The content of a file of the source in parts. Raises Moved when it is gone."""
    with effects.looking(place):
        try:
            file = place.open()
        except FileNotFoundError as error:
            raise Moved(f"{place} is gone") from error
    with file:
        yield iter(lambda: file.read(_PART), b"")


def _noting(parts: Iterator[bytes], digest: Any) -> Iterator[bytes]:
    for part in parts:
        digest.update(part)
        yield part


def _digest(place: Place) -> bytes:
    digest = hashlib.blake2b()
    with _opened(place) as parts:
        for part in parts:
            digest.update(part)
    return digest.digest()
