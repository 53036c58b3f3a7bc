"""Every durable effect on the local disk: made whole or not at all, synced, and with a point of failure on each side.

An error here says that the effect may have happened or not: the caller asks the disk before it judges.
Only errors of storage are raised (`StorageFailed`), so that a full disk never surfaces as something else.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bindery.router.errors import CommitUnknown, StorageFailed
from bindery.store import faults

#: Files that are synced at once.
_SYNCS: Final = 8


def put_new(path: Path, content: bytes) -> bool:
    """Make a file that must not exist yet; False when it does. Nobody ever sees a part of it.

    The content is synced under another name first and linked to its own, which is the one atomic
    put-if-absent of a file system. Raises StorageFailed; the file may then exist all the same.
    """
    with _effect("put", path):
        with _draft(path, content, 0o644) as draft:
            try:
                os.link(draft, path)
            except FileExistsError:
                return False
        _sync(path.parent)
    return True


def replace(path: Path, content: bytes, *, mode: int = 0o644, sync: bool = True) -> None:
    """Replace a whole file: readers see the old one or the new one. Raises StorageFailed.

    Unless `sync` is off that also holds for a machine that loses its power: then the file may be damaged.
    """
    with _effect("replace", path):
        with _draft(path, content, mode, sync=sync) as draft:
            draft.replace(path)
        if sync:
            _sync(path.parent)


def replace_surely(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Replace a whole file that nobody else writes meanwhile; when that fails, the file says whether it was done.

    Drafts of processes that died while they replaced it go first. Raises StorageFailed when the file is
    certainly what it was, CommitUnknown when it cannot be read.
    """
    drop_drafts(path)
    try:
        replace(path, content, mode=mode)
    except StorageFailed as error:
        try:
            if read(path) == content:
                return
        except StorageFailed as unread:
            raise CommitUnknown(
                f"whether it was replaced cannot be told: {unread.message}",
                where=str(path),
                hint="look at what there is once the disk answers",
            ) from error
        raise


def read(path: Path, *, last: int | None = None) -> bytes | None:
    """What a file holds, or its last bytes, so many at most; None when it is not there. Raises StorageFailed."""
    try:
        with path.open("rb") as file:
            if last is not None:
                file.seek(max(0, file.seek(0, os.SEEK_END) - last))
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFailed(f"cannot read {path}: {error.strerror}", where=str(path), hint="see to the disk") from error


def drop_drafts(path: Path) -> None:
    """Remove what processes that died while they replaced a file have left of it; only while nobody replaces it."""
    for draft in path.parent.glob(f".{path.name}.*.tmp"):
        with suppress(OSError):
            draft.unlink()


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a file, created when missing, against other threads and processes. Raises StorageFailed."""
    with ExitStack() as held:
        with _effect("lock", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


def append_line(path: Path, line: str, *, mode: int = 0o600) -> None:
    """Append a line of text to a file, created when missing, and sync it. Raises StorageFailed."""
    with _effect("append", path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
        try:
            _write_all(descriptor, (line + "\n").encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_parquet(path: Path, rows: pa.Table, *, synced: bool = True, **options: Any) -> int:
    """Write a Parquet file under a name that nothing refers to yet; its size in bytes. Raises StorageFailed.

    What is left of a file that could not be written is removed at once: a full disk needs the room. Without
    `synced` the caller will `sync` it, together with others.
    """
    with _effect("write", path):
        try:
            with path.open("wb") as file:
                pq.write_table(rows, file, **options)
                file.flush()
                if synced:
                    os.fsync(file.fileno())
                return file.tell()
        except BaseException:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            raise


class ParquetDraft:
    """A Parquet file that is written part by part, under a name that nothing refers to yet.

    `finish` or `discard` it. Everything raises StorageFailed, and what was written is then gone.
    """

    def __init__(self, path: Path, schema: pa.Schema, **options: Any) -> None:
        self.path = path
        self.rows = 0
        with self._effect():
            self._file = path.open("wb")
            self._writer = pq.ParquetWriter(self._file, schema, **options)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.tell()

    def write(self, rows: pa.Table) -> None:
        """Write one row group."""
        with self._effect():
            self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
            self.rows += rows.num_rows

    def finish(self) -> int:
        """Make the file whole and durable; its size in bytes."""
        with self._effect():
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            size = self._file.tell()
            self._file.close()
            return size

    def discard(self) -> None:
        """Remove what was written."""
        with suppress(OSError, pa.ArrowException, AttributeError):
            self._writer.close()
        with suppress(OSError, AttributeError):
            self._file.close()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    @contextmanager
    def _effect(self) -> Iterator[None]:
        with _effect("write", self.path):
            try:
                yield
            except BaseException:
                self.discard()
                raise


def sync(paths: Sequence[Path]) -> None:
    """Make files and their names durable, several at a time: each waits for the disk. Raises StorageFailed."""
    if not paths:
        return
    with _effect("sync", paths[0].parent):
        if len(paths) == 1:  # starting threads costs more than waiting for two syncs, of which the first does most
            _sync(paths[0])
            _sync(paths[0].parent)
            return
        with ThreadPoolExecutor(_SYNCS, "sync") as pool:
            for _ in pool.map(_sync, [*paths, *{path.parent for path in paths}]):
                pass


def make_folder(path: Path, *, mode: int = 0o777) -> None:
    """Make a folder and those above it, unless they are there. Raises StorageFailed."""
    if not path.is_dir():
        with _effect("make", path):
            path.mkdir(mode=mode, parents=True, exist_ok=True)


def restrict(path: Path, mode: int) -> None:
    """Give a file or folder that mode. Raises StorageFailed."""
    with _effect("restrict", path):
        path.chmod(mode)


def rename(path: Path, to: Path) -> None:
    """Give a file or folder another name, in one step; nothing when it is gone. Raises StorageFailed.

    The files in a folder are durable under their names before the folder has its own.
    """
    with _effect("rename", path):
        with suppress(FileNotFoundError):
            if path.is_dir():
                _sync(path)
            path.rename(to)
        _sync(to.parent)


def remove(path: Path) -> None:
    """Remove a file, if it is there. Raises StorageFailed."""
    with _effect("remove", path):
        path.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Remove a folder with everything in it, as far as that is possible."""
    with _effect("remove", path):
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _effect(name: str, path: Path) -> Iterator[None]:
    try:
        faults.reach(f"{name}.before", str(path))
        yield
        faults.reach(f"{name}.after", str(path))
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise StorageFailed(
            f"cannot {name} {path}: {reason}", where=str(path), hint="see to the disk; then the same can be tried again"
        ) from error


@contextmanager
def _draft(path: Path, content: bytes, mode: int, *, sync: bool = True) -> Iterator[Path]:
    """A file's content under another name; what is not renamed within the block goes with its end."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            _write_all(descriptor, content)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield draft
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
