"""Files of a source as the driver sees them: whether they are there and unchanged, and their bytes.

Files of this machine are asked for directly; others by Spark's own file systems, with the options and
credentials of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from bindery.router.errors import StorageFailed

#: Bytes that are carried over from the JVM at a time.
_CARRIED: Final = 64 * 1024
_NO_ROOM: Final = "No space left on device"


@dataclass(frozen=True, slots=True)
class FileState:
    """What tells one content of a file from another: its size in bytes and its modification time in ms.

    `step_ms` is how exact the time is: object stores tell seconds of an object and less in a listing.
    """

    size: int
    modified_ms: int
    step_ms: int = 1

    def is_of(self, modified_ms: int) -> bool:
        """Whether this can be the content that was modified then."""
        return self.modified_ms // self.step_ms == modified_ms // self.step_ms


class Storage:
    """The file systems of one source. Errors are those of the storage itself: OSError or Py4JJavaError."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._jvm: Any = spark._jvm
        self._session: Any = spark._jsparkSession
        self._options = options

    @cached_property
    def _conf(self) -> Any:
        conf = self._session.sessionState().newHadoopConf()
        for name, value in self._options.items():
            conf.set(name, value)
        return conf

    @cached_property
    def _codecs(self) -> Any:
        return self._jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(self._conf)

    @cached_property
    def _compressed(self) -> tuple[str, ...]:
        classes = self._jvm.org.apache.hadoop.io.compress.CompressionCodecFactory.getCodecClasses(self._conf)
        made = self._jvm.org.apache.hadoop.util.ReflectionUtils
        codecs = (made.newInstance(classes.get(index), self._conf) for index in range(classes.size()))
        return tuple(str(codec.getDefaultExtension()) for codec in codecs)

    def state(self, address: str) -> FileState | None:
        """What a file is now; None when it is gone."""
        local = local_path(address)
        if local is not None:
            try:
                found = Path(local).stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
            return FileState(found.st_size, found.st_mtime_ns // 1_000_000)
        path, system = self._located(address)
        try:
            status = system.getFileStatus(path)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == "java.io.FileNotFoundException":
                return None
            raise
        return FileState(int(status.getLen()), int(status.getModificationTime()), 1000)

    def address(self, path: str) -> str:
        """The address of a path, as Spark writes it."""
        return str(self._jvm.org.apache.hadoop.fs.Path(path).toUri().toString())

    def is_compressed(self, address: str) -> bool:
        """Whether Spark decompresses the file, which it tells by the end of its name."""
        return address.endswith(self._compressed)

    def check_bytes(self, address: str) -> None:
        """Read a file to its end, as it lies there; raises what the storage raises."""
        path, system = self._located(address)
        nowhere = self._jvm.java.io.OutputStream.nullOutputStream()
        self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(system.open(path), nowhere, self._conf, True)

    def content(self, address: str) -> closing[_Content]:
        """The bytes of a file after decompression, to be closed."""
        local = local_path(address)
        if local is not None and not self.is_compressed(address):
            return closing(_Local(local))
        if self.is_compressed(address):
            return closing(_Remote(self, address, self._jvm.org.apache.commons.io.IOUtils.skip))
        found = self.state(address)
        size = 0 if found is None else found.size

        def seek(stream: Any, count: int) -> int:
            at = int(stream.getPos())
            stream.seek(min(at + count, size))
            return int(stream.getPos()) - at

        return closing(_Remote(self, address, seek))

    def copy(self, address: str, to: str, ranges: Iterable[tuple[int, int | None]]) -> None:
        """Copy parts of a file after decompression: (first byte, the one after the last; None = the end).

        `to` is a path of this machine, or the URL by which Spark knows a place. Raises StorageFailed when there is no
        room for the copy.
        """
        copied = self._jvm.org.apache.commons.io.IOUtils.copyLarge
        if "://" in to:
            path, system = self._located(to)
            target = system.create(path, True)
        else:
            target = self._jvm.java.io.FileOutputStream(to)
        stream = self.opened(address)
        try:
            at = 0
            for first, end in ranges:
                copied(stream, target, first - at, -1 if end is None else end - first)
                at = end or 0
        except Py4JJavaError as error:
            if _NO_ROOM not in str(error.java_exception):
                raise
            raise StorageFailed(f"cannot write {to}: {_NO_ROOM}", where=to, hint="see to the disk") from None
        finally:
            stream.close()
            target.close()

    def opened(self, address: str) -> Any:
        """The JVM's stream of a file after decompression."""
        path, system = self._located(address)
        stream = system.open(path)
        codec = self._codecs.getCodec(path)
        return stream if codec is None else codec.createInputStream(stream)

    def _path(self, address: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._jvm.java.net.URI(address))

    def _located(self, address: str) -> tuple[Any, Any]:
        path = self._path(address)
        return path, path.getFileSystem(self._conf)


class _Content(Protocol):
    """See jobs.sources.lines.Content."""

    def read(self, offset: int, size: int) -> bytes:
        """See there."""

    def close(self) -> None:
        """Let go of the file."""


class _Local:
    def __init__(self, path: str) -> None:
        self._file = Path(path).open("rb")  # noqa: SIM115  # closed by close()

    def read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(size)

    def close(self) -> None:
        self._file.close()


class _Remote:
    """A stream of the JVM: little of it is carried over, and only on the way forward.

    Bytes come from there at a few MB/s. Whoever wants many of them, or goes back, gets a copy on this machine.
    `skip` passes over so many bytes of the stream, or fewer at its end, and gives their number.
    """

    def __init__(self, storage: Storage, address: str, skip: Callable[[Any, int], int]) -> None:
        self._skip = skip
        self._storage = storage
        self._address = address
        self._stream = storage.opened(address)
        self._at = 0
        self._folder: TemporaryDirectory[str] | None = None
        self._copy: _Local | None = None

    def read(self, offset: int, size: int) -> bytes:
        if self._copy is None and (offset < self._at or size > _CARRIED):
            self._folder = TemporaryDirectory(prefix="bindery-")
            path = f"{self._folder.name}/content"
            self._storage.copy(self._address, path, [(0, None)])
            self._copy = _Local(path)
        if self._copy is not None:
            return self._copy.read(offset, size)
        self._at += self._skip(self._stream, offset - self._at)
        if self._at < offset:
            return b""
        found = bytes(self._stream.readNBytes(size))
        self._at += len(found)
        return found

    def close(self) -> None:
        self._stream.close()
        if self._copy is not None:
            self._copy.close()
        if self._folder is not None:
            self._folder.cleanup()


def local_path(address: str) -> str | None:
    """The path of a file of this machine; None for another's."""
    parts = urlsplit(address)
    return unquote(parts.path) if parts.scheme in ("", "file") and not parts.netloc else None
