"""Files of a source as the driver sees them: whether they are there and unchanged, and their bytes.

Files of this machine are asked for directly; others by Spark's own file systems, with the options and
credentials of the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

_BLOCK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileState:
    """What tells one content of a file from another: its size in bytes and its modification time in ms."""

    size: int
    modified_ms: int


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
        return FileState(int(status.getLen()), int(status.getModificationTime()))

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
        return closing(_Remote(lambda: self._opened(address), seekable=not self.is_compressed(address)))

    def copy(self, address: str, to: Path, ranges: Iterable[tuple[int, int | None]]) -> None:
        """Copy parts of a file after decompression: (first byte, the one after the last; None = the end)."""
        copied = self._jvm.org.apache.commons.io.IOUtils.copyLarge
        target = self._jvm.java.io.FileOutputStream(str(to))
        stream = self._opened(address)
        try:
            at = 0
            for first, end in ranges:
                copied(stream, target, first - at, -1 if end is None else end - first)
                at = end or 0
        finally:
            stream.close()
            target.close()

    def _opened(self, address: str) -> Any:
        path, system = self._located(address)
        stream = system.open(path)
        codec = self._codecs.getCodec(path)
        return stream if codec is None else codec.createInputStream(stream)

    def _path(self, address: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._jvm.java.net.URI(address))

    def _located(self, address: str) -> tuple[Any, Any]:
        path = self._path(address)
        return path, path.getFileSystem(self._conf)


class _Content:
    """See jobs.sources.lines.Content."""

    seekable: bool

    def read(self, offset: int, size: int) -> bytes:
        """See there."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the file."""
        raise NotImplementedError


class _Local(_Content):
    seekable = True

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("rb")  # noqa: SIM115  # closed by close()

    def read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(size)

    def close(self) -> None:
        self._file.close()


class _Remote(_Content):
    """A stream of the JVM; what cannot seek is opened again to go back."""

    def __init__(self, opened: Any, *, seekable: bool) -> None:
        self.seekable = seekable
        self._opened = opened
        self._stream = opened()
        self._at = 0

    def read(self, offset: int, size: int) -> bytes:
        if self.seekable:
            self._stream.seek(offset)
        else:
            if offset < self._at:
                self._stream.close()
                self._stream, self._at = self._opened(), 0
            while self._at < offset:
                skipped = int(self._stream.skip(offset - self._at))
                if not skipped and not self._stream.readNBytes(1):
                    return b""
                self._at += skipped or 1
        parts = []
        while size and (part := bytes(self._stream.readNBytes(min(size, _BLOCK)))):
            parts.append(part)
            size -= len(part)
            self._at += len(part)
        return b"".join(parts)

    def close(self) -> None:
        self._stream.close()


def local_path(address: str) -> str | None:
    """The path of a file of this machine; None for another's."""
    parts = urlsplit(address)
    return unquote(parts.path) if parts.scheme in ("", "file") and not parts.netloc else None
