"""Every durable effect on a data directory: whole or not at all, durable, with a point of failure on each side.

An error here says that the effect may have happened or not: the caller asks the store before it judges.
Only errors of storage are raised (`StorageFailed`), so that a full disk never surfaces as something else.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bindery.router.errors import CommitUnknown, StorageFailed
from bindery.store import faults
from bindery.store.places import LocalPlace, Output, Place, sync_file, write_all

#: Files that are synced, or on their way to an object store, at once …
_AT_ONCE: Final = 8
#: … and bytes that are on their way at most, beside one file.
IN_FLIGHT_BYTES: Final = 32 << 20
#: The content of a file, one after the other.
Parts = Sequence[bytes | memoryview]


def put_new(place: Place, content: bytes) -> tuple[object, ...] | None:
    """Make a file that must not exist yet; its identity, None when it exists. Nobody ever sees a part of it.

    Raises StorageFailed; the file may then exist all the same.
    """
    with _effect("put", place):
        return place.put_new(content)


def replace(place: Place, content: bytes, *, mode: int = 0o644, sync: bool = True) -> None:
    """Replace a whole file: readers see the old one or the new one. Raises StorageFailed.

    Unless `sync` is off that also holds for a machine that loses its power: then the file may be damaged.
    """
    with _effect("replace", place):
        place.replace(content, mode=mode, durable=sync)


def replace_same(place: Place, content: bytes, identity: tuple[object, ...] | None, *, mode: int = 0o644) -> bool:
    """Replace a file that is still the one of that identity (None: not there); False, and nothing done, when it is not.

    The content is like no other that the file ever has: when the effect fails, the file says whether it was
    done. Raises StorageFailed when the file is certainly not replaced, CommitUnknown when it cannot be read.
    """
    if isinstance(place, LocalPlace):
        place.drop_drafts()
    try:
        with _effect("replace", place):
            return place.replace_same(content, identity, mode=mode)
    except StorageFailed as error:
        try:
            if read(place) == content:
                return True
        except StorageFailed as unread:
            raise CommitUnknown(
                f"whether it was replaced cannot be told: {unread.message}",
                where=str(place),
                hint="look at what there is once the store answers",
            ) from error
        raise


def read(place: Place, *, last: int | None = None) -> bytes | None:
    """What a file holds, or its last bytes, so many at most; None when it is not there. Raises StorageFailed."""
    with looking(place):
        return place.read(last=last)


@contextmanager
def looking(place: Place) -> Iterator[None]:
    """Raise StorageFailed for what a look at a place raises."""
    try:
        yield
    except OSError as error:
        raise StorageFailed(
            f"cannot read {place}: {error.strerror or error}", where=str(place), hint="see to the disk or the store"
        ) from error


@contextmanager
def locked(place: Place, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a file, created when missing, against other threads and processes. Raises StorageFailed.

    An object store has no locks, and this none for it: who replaces there asks for what it has seen (`replace_same`).
    """
    if not isinstance(place, LocalPlace):
        yield
        return
    with ExitStack() as held:
        with _effect("lock", place):
            descriptor = os.open(place.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


def append_line(place: LocalPlace, line: str, *, mode: int = 0o600) -> None:
    """Append a line of text to a local file, created when missing, and sync it. Raises StorageFailed."""
    with _effect("append", place):
        descriptor = os.open(place.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
        try:
            write_all(descriptor, (line + "\n").encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_parquet(place: Place, rows: pa.Table, **options: Any) -> int:
    """Write a Parquet file under a name that nothing refers to yet; its size in bytes. Raises StorageFailed.

    What is left of a file that could not be written is removed at once: a full disk needs the room.
    """
    with _effect("write", place), _output(place) as output:
        pq.write_table(rows, output.sink, **options)
        return output.finish()


def put_parquet(place: Place, rows: pa.Table) -> None:
    """Write a Parquet file under its own name, where nobody ever sees a part of it. Raises StorageFailed.

    The file may then be there all the same.
    """
    with _whole(place) as draft:
        write_parquet(draft, rows)


def put_parts(place: Place, parts: Iterable[bytes]) -> int:
    """Write a file part by part under its own name, where nobody ever sees a part of it; its size in bytes.

    Raises StorageFailed; the file may then be there all the same.
    """
    with _whole(place) as draft, _effect("write", draft), _output(draft) as output:
        for part in parts:
            output.sink.write(part)
        return output.finish()


@contextmanager
def _whole(place: Place) -> Iterator[Place]:
    """Where to write a file that gets its name when it is whole."""
    if place.is_remote:  # an object appears when it is whole
        yield place
        return
    draft = place.parent / f".{place.name}.{secrets.token_hex(8)}.tmp"
    try:
        yield draft
        rename(draft, place)
    except StorageFailed:
        with suppress(StorageFailed):
            remove(draft)
        raise


@contextmanager
def _output(place: Place) -> Iterator[Output]:
    output = place.output()
    try:
        yield output
    except BaseException:
        output.discard()
        raise


class ParquetFiles:
    """Parquet files that are written together, several of them on their way at a time; durable with `finish`.

    Local ones are written one after the other and synced together at the end. Others are put by threads: what is on
    its way is bounded by `IN_FLIGHT_BYTES` beside one file.
    """

    def __init__(self) -> None:
        self._local: list[LocalPlace] = []
        self._shared: list[Place] = []
        self._pool: ThreadPoolExecutor | None = None
        self._sent: list[Future[None]] = []
        self._room = threading.Condition()
        self._in_flight = 0

    def write(self, place: Place, rows: pa.Table, **options: Any) -> int:
        """Write rows under a name that nothing refers to yet; the size of the file in bytes. Raises StorageFailed."""
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, **options)
        content = sink.getvalue()
        self.put(place, [memoryview(content).cast("B")])
        return int(content.size)

    def put(self, place: Place, parts: Parts, *others: Place) -> None:
        """Write a file, part by part, under names that nothing refers to yet, once: the `others` share it.

        Raises StorageFailed.
        """
        if isinstance(place, LocalPlace):
            self._write(place, parts)
            for other in others:
                self._share(place, other, parts)
            return
        ended = [sent for sent in self._sent if sent.done()]
        for sent in ended:
            sent.result()  # what failed ends the whole, now and at the end
        self._sent = [sent for sent in self._sent if sent not in ended]
        size = sum(map(len, parts))
        with self._room:
            self._room.wait_for(lambda: not self._in_flight or self._in_flight + size <= IN_FLIGHT_BYTES)
            self._in_flight += size
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_AT_ONCE, "put")
        whole = self._pool.submit(self._send, place, parts, size)
        self._sent.append(whole)
        # threads take what there is to do in this order: who waits for the first one waits for what has begun
        self._sent += [self._pool.submit(self._send_shared, whole, place, other) for other in others]

    def finish(self) -> None:
        """Wait until everything is durable. Raises StorageFailed."""
        sync(self._local, named=self._shared)
        self._local, self._shared = [], []
        try:
            for sent in self._sent:
                sent.result()
        finally:
            self._end()

    def forget(self, places: Iterable[Place]) -> None:
        """Some files are not wanted after all: they are gone, or will be, before the others are durable."""
        gone = set(places)
        self._local = [place for place in self._local if place not in gone]
        self._shared = [place for place in self._shared if place not in gone]

    def discard(self) -> None:
        """Give up what is not written yet; what is written is for the caller to remove."""
        for sent in self._sent:
            sent.cancel()
        self._local, self._shared = [], []
        self._end()

    def _end(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        self._sent = []

    def _write(self, place: LocalPlace, parts: Parts) -> None:
        with _effect("write", place), _output(place) as output:
            output.sink.writelines(parts)
            output.finish(durable=False)
        self._local.append(place)

    def _share(self, place: LocalPlace, other: Place, parts: Parts) -> None:
        assert isinstance(other, LocalPlace), other  # noqa: S101  # all of a data directory is in one place
        with _effect("link", other):
            shared = place.share(other)
        if shared:
            self._shared.append(other)
        else:
            self._write(other, parts)

    def _send_shared(self, whole: Future[None], place: Place, other: Place) -> None:
        whole.result()
        with _effect("link", other):
            place.share(other)

    def _send(self, place: Place, parts: Parts, size: int) -> None:
        try:
            with _effect("write", place), _output(place) as output:
                for part in parts:
                    output.sink.write(part)
                output.finish()
        finally:
            with self._room:
                self._in_flight -= size
                self._room.notify()


class ParquetDraft:
    """A Parquet file that is written part by part, under a name that nothing refers to yet.

    `finish` or `discard` it. Everything raises StorageFailed, and what was written is then gone.
    """

    def __init__(self, place: Place, schema: pa.Schema, **options: Any) -> None:
        self.place = place
        self.rows = 0
        with self._effect():
            self._output = place.output()
            self._writer = pq.ParquetWriter(self._output.sink, schema, **options)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return int(self._output.sink.tell())

    def write(self, rows: pa.Table) -> None:
        """Write one row group."""
        with self._effect():
            self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
            self.rows += rows.num_rows

    def finish(self) -> int:
        """Make the file whole and durable; its size in bytes."""
        with self._effect():
            self._writer.close()
            return self._output.finish()

    def discard(self) -> None:
        """Remove what was written."""
        with suppress(OSError, pa.ArrowException, AttributeError, ValueError):
            self._writer.close()
        with suppress(AttributeError):
            self._output.discard()

    @contextmanager
    def _effect(self) -> Iterator[None]:
        with _effect("write", self.place):
            try:
                yield
            except BaseException:
                self.discard()
                raise


def sync(places: Sequence[Place], *, named: Sequence[Place] = ()) -> None:
    """Make files and their names durable, several at a time: each waits for the disk. Raises StorageFailed.

    Of those in `named` the names alone: what they hold is that of another file. Objects of a store are durable already.
    """
    paths = [place.path for place in places if isinstance(place, LocalPlace)]
    if not paths:
        return
    with _effect("sync", places[0].parent):
        if len(paths) == 1 and not named:  # threads cost more than waiting for two syncs, of which the first does most
            sync_file(paths[0])
            sync_file(paths[0].parent)
            return
        folders = {path.parent for path in paths} | {
            place.path.parent for place in named if isinstance(place, LocalPlace)
        }
        with ThreadPoolExecutor(_AT_ONCE, "sync") as pool:
            for _ in pool.map(sync_file, [*paths, *folders]):
                pass


def make_folder(place: Place, *, mode: int = 0o777) -> None:
    """Make a folder and those above it, unless they are there. Raises StorageFailed."""
    if isinstance(place, LocalPlace) and not place.is_folder():
        with _effect("make", place):
            place.make_folder(mode=mode)


def restrict(place: Place, mode: int) -> None:
    """Give a local file or folder that mode; of objects that is the store's matter. Raises StorageFailed."""
    if isinstance(place, LocalPlace):
        with _effect("restrict", place):
            place.path.chmod(mode)


def rename(place: Place, to: Place) -> None:
    """Give a file another name, in one step on a file system; nothing when it is gone. Raises StorageFailed.

    The files in a folder are durable under their names before the folder has its own. On an object store it
    is a copy and a removal, and there are no folders to rename.
    """
    with _effect("rename", place):
        place.rename(to)


def remove(place: Place) -> None:
    """Remove a file, if it is there. Raises StorageFailed."""
    with _effect("remove", place):
        place.remove()


def remove_folder(place: Place) -> None:
    """Remove a folder with everything in it, as far as that is possible."""
    with _effect("remove", place):
        place.remove_folder()


@contextmanager
def _effect(name: str, place: Place) -> Iterator[None]:
    try:
        faults.reach(f"{name}.before", str(place))
        yield
        faults.reach(f"{name}.after", str(place))
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise StorageFailed(
            f"cannot {name} {place}: {reason}",
            where=str(place),
            hint="see to the disk or the store; then the same can be tried again",
        ) from error
