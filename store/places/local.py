"""Files and folders of this machine, or of a file system that is mounted here."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from bindery.store.places.place import Output, Place, Stat

if TYPE_CHECKING:
    import pyarrow.dataset as ds

#: What a file system says that has no links, none to another one, or no more of them to this file.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


class LocalPlace(Place):
    """A file or folder by its path."""

    __slots__ = ()

    @property
    def path(self) -> Path:
        """The path, for what only a file system has: locks, modes, logs of processes."""
        return Path(self.address)

    @property
    def is_remote(self) -> bool:
        return False

    def stat(self) -> Stat | None:
        try:
            return _stat(self.path.stat())
        except FileNotFoundError:
            return None

    def exists(self) -> bool:
        return self.path.exists()

    def is_folder(self) -> bool:
        return self.path.is_dir()

    def files(self) -> dict[str, Stat]:
        try:
            with os.scandir(self.address) as entries:
                listed = [entry for entry in entries if not entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return {}
        found = {}
        for entry in sorted(listed, key=lambda entry: entry.name):
            with suppress(FileNotFoundError):
                found[entry.name] = _stat(entry.stat(follow_symlinks=False))
        return found

    def folders(self) -> list[str]:
        try:
            with os.scandir(self.address) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []

    def within(self) -> dict[str, Stat]:
        found = {}
        for path in sorted(self.path.rglob("*")):
            with suppress(FileNotFoundError):
                if not path.is_dir():
                    found[path.relative_to(self.path).as_posix()] = _stat(path.stat())
        return found

    def read(self, *, last: int | None = None) -> bytes | None:
        try:
            with self.path.open("rb") as file:
                if last is not None:
                    file.seek(max(0, file.seek(0, os.SEEK_END) - last))
                return file.read()
        except FileNotFoundError:
            return None

    def read_on(self, names: Sequence[str]) -> list[bytes]:
        found = []
        for name in names:
            content = (self / name).read()
            if content is None:
                break
            found.append(content)
        return found

    def known(self) -> tuple[bytes, tuple[object, ...]] | None:
        try:
            with self.path.open("rb") as file:
                return file.read(), _stat(os.fstat(file.fileno())).identity
        except FileNotFoundError:
            return None

    def open(self) -> pa.NativeFile:
        return pa.OSFile(self.address, "rb")

    @contextmanager
    def fragment(self) -> Iterator[ds.Fragment]:
        from pyarrow.dataset import ParquetFileFormat  # noqa: PLC0415  # imports pandas, loaded when needed

        yield ParquetFileFormat().make_fragment(self.address, LocalFileSystem())

    def footer(self) -> pq.FileMetaData:
        return pq.read_metadata(self.address)

    def put_new(self, content: bytes) -> tuple[object, ...] | None:
        # synced under another name and linked to its own: the one atomic put-if-absent of a file system
        with _draft(self.path, content, 0o644) as draft:
            try:
                os.link(draft, self.address)
            except FileExistsError:
                return None
            identity = _stat(draft.stat()).identity
        sync(self.path.parent)
        return identity

    def replace(self, content: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
        with _draft(self.path, content, mode, durable=durable) as draft:
            draft.replace(self.address)
        if durable:
            sync(self.path.parent)

    def replace_same(self, content: bytes, identity: tuple[object, ...] | None, *, mode: int = 0o644) -> bool:
        found = self.stat()
        if (None if found is None else found.identity) != identity:
            return False
        self.replace(content, mode=mode)
        return True

    def output(self) -> Output:
        return _File(self.path)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def remove_folder(self) -> None:
        shutil.rmtree(self.address, ignore_errors=True)

    def make_folder(self, *, mode: int = 0o777) -> None:
        self.path.mkdir(mode=mode, parents=True, exist_ok=True)

    def share(self, to: Self) -> bool:
        try:
            os.link(self.address, to.address)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return False
        return True

    def rename(self, to: Self) -> None:
        with suppress(FileNotFoundError):
            if self.path.is_dir():
                sync(self.path)  # what is in a folder is durable before the folder has its name
            self.path.rename(to.address)
        sync(Path(to.address).parent)

    def drop_drafts(self) -> None:
        """Remove what processes that died while they replaced the file have left of it."""
        for draft in self.path.parent.glob(f".{self.name}.*.tmp"):
            with suppress(OSError):
                draft.unlink()


class _File:
    """A file that is written part by part."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.sink: IO[bytes] = path.open("wb")

    def finish(self, *, durable: bool = True) -> int:
        self.sink.flush()
        if durable:
            os.fsync(self.sink.fileno())
        size = self.sink.tell()
        self.sink.close()
        return size

    def discard(self) -> None:
        with suppress(OSError):
            self.sink.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    """Write everything to a file that is open."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _stat(found: os.stat_result) -> Stat:
    return Stat(found.st_size, found.st_mtime_ns // 1_000_000, (found.st_ino, found.st_mtime_ns, found.st_size))


@contextmanager
def _draft(path: Path, content: bytes, mode: int, *, durable: bool = True) -> Iterator[Path]:
    """A file's content under another name; what is not renamed within the block goes with its end."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            write_all(descriptor, content)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield draft
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
