"""Objects of a store, as files below folders. An object is put whole and is durable then."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.exceptions import AlreadyExistsError, PreconditionError

from bindery.store.places.place import Output, Place, Stat
from bindery.store.places.stores import Store, same_as, store_of

if TYPE_CHECKING:
    import pyarrow.dataset as ds

#: Objects up to this size (bytes) are read in memory, larger ones by way of a file without a name.
_IN_MEMORY: Final = 16 << 20
#: Bytes at the end of a Parquet file that hold its footer as a rule.
_FOOTER: Final = 64 << 10


class RemotePlace(Place):
    """An object by its URL, or a common prefix of objects."""

    __slots__ = ("_key", "_root")

    def __init__(self, address: str) -> None:
        super().__init__(address)
        scheme, _, rest = address.partition("://")
        bucket, _, self._key = rest.partition("/")
        self._root = f"{scheme}://{bucket}"

    @property
    def store(self) -> Store:
        """The bucket or container."""
        return store_of(self._root)

    @property
    def is_remote(self) -> bool:
        return True

    @contextmanager
    def _asked(self, kind: str) -> Iterator[Any]:
        """What asks the store, for a request of that kind; what it raises is told as OSError."""
        store = self.store
        with store.asked(kind, self.address):
            yield store.client

    def stat(self) -> Stat | None:
        try:
            with self._asked("head") as client:
                return self._as_stat(obstore.head(client, self._key))
        except FileNotFoundError:
            return None

    def exists(self) -> bool:
        return self.stat() is not None or self.is_folder()

    def is_folder(self) -> bool:
        with self._asked("list") as client:
            return any(obstore.list(client, self._key, chunk_size=1))

    def files(self) -> dict[str, Stat]:
        return {_name(one["path"]): self._as_stat(one) for one in self._listed()["objects"]}

    def folders(self) -> list[str]:
        return [_name(path) for path in self._listed()["common_prefixes"]]

    def within(self) -> dict[str, Stat]:
        start = len(self._key) + 1 if self._key else 0
        with self._asked("list") as client:
            return {
                one["path"][start:]: self._as_stat(one) for chunk in obstore.list(client, self._key) for one in chunk
            }

    def read(self, *, last: int | None = None) -> bytes | None:
        if last is not None:
            return self._tail(last)
        known = self.known()
        return None if known is None else known[0]

    def read_on(self, names: Sequence[str]) -> list[bytes]:
        if len(names) == 1:
            contents = [(self / names[0]).read()]
        else:
            with ThreadPoolExecutor(len(names), "get") as pool:
                contents = list(pool.map(lambda name: (self / name).read(), names))
        present = contents.index(None) if None in contents else len(contents)
        return [content for content in contents[:present] if content is not None]

    def known(self) -> tuple[bytes, tuple[object, ...]] | None:
        try:
            with self._asked("get") as client:
                found = obstore.get(client, self._key)
                return bytes(found.bytes()), self._as_stat(found.meta).identity
        except FileNotFoundError:
            return None

    def open(self) -> pa.NativeFile:
        with self._asked("get") as client:
            found = obstore.get(client, self._key)
            if found.meta["size"] <= _IN_MEMORY:
                return pa.BufferReader(pa.py_buffer(found.bytes()))
            # mapped by Arrow itself: its threads may outlive whatever Python holds
            descriptor, path = tempfile.mkstemp(prefix="bindery-")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    for chunk in found.stream(min_chunk_size=_IN_MEMORY // 2):
                        file.write(chunk)
                return pa.memory_map(path)
            finally:
                Path(path).unlink()

    def footer(self) -> pq.FileMetaData:
        tail = self._tail(_FOOTER)
        if tail is None:
            raise FileNotFoundError(2, "it is not there", self.address)
        needed = int.from_bytes(tail[-8:-4], "little") + 8
        if needed > len(tail):
            tail = self._tail(needed) or b""
        return pq.read_metadata(pa.BufferReader(tail))

    @contextmanager
    def fragment(self) -> Iterator[ds.Fragment]:
        from pyarrow.dataset import ParquetFileFormat  # noqa: PLC0415  # imports pandas, loaded when needed

        # not closed at the end: threads of a scan that is given up may still read
        yield ParquetFileFormat().make_fragment(self.open())

    def put_new(self, content: bytes) -> tuple[object, ...] | None:
        try:
            return self._identity(self._put_if("create", content))
        except (AlreadyExistsError, PreconditionError):
            return None

    def replace(self, content: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
        self._put(content)

    def replace_same(self, content: bytes, identity: tuple[object, ...] | None, *, mode: int = 0o644) -> bool:
        try:
            self._put_if("create" if identity is None else same_as(*identity), content)
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            # the first of two attempts of the same put may have been the one that was done
            return self.read() == content
        return True

    def output(self) -> Output:
        return _Upload(self)

    def remove(self) -> None:
        with suppress(FileNotFoundError), self._asked("delete") as client:
            obstore.delete(client, self._key)

    def remove_folder(self) -> None:
        keys = [f"{self._key}/{name}" for name in self.within()]
        if keys:
            with self._asked("delete") as client:
                obstore.delete(client, keys)

    def make_folder(self, *, mode: int = 0o777) -> None:
        pass  # a folder is there as soon as something is in it

    def share(self, to: Self) -> bool:
        with self._asked("copy") as client:
            obstore.copy(client, self._key, to._key, overwrite=True)
        return True

    def rename(self, to: Self) -> None:
        try:
            with self._asked("copy") as client:
                obstore.copy(client, self._key, to._key, overwrite=True)
        except FileNotFoundError:
            return
        self.remove()

    def _as_stat(self, found: Any) -> Stat:
        # seconds: answers to a list have milliseconds, those to a look at the object itself have not
        modified_ms = int(found["last_modified"].timestamp()) * 1000
        return Stat(found["size"], modified_ms, self._identity(found))

    def _identity(self, found: Any) -> tuple[object, ...]:
        # conditions are on generations where the store has them; of others only some answers name a version
        return found["e_tag"], found.get("version") if self._root.startswith("gs:") else None

    def _put(self, content: Any) -> None:
        with self._asked("put") as client:
            obstore.put(client, self._key, content)

    def _put_if(self, condition: Any, content: bytes) -> Any:
        """Put under a condition, which the store has proven to heed; raises obstore's error when it is not met."""
        self.store.prove(self._key.rpartition("/")[0])
        with self._asked("put") as client:
            return obstore.put(client, self._key, content, mode=condition)

    def _tail(self, size: int) -> bytes | None:
        """The last bytes, so many at most; None when it is not there."""
        try:
            if self._root.startswith("abfss:"):  # Azure takes no range that is counted from the end
                found = self.stat()
                if found is None or found.size <= size:
                    return self.read()
                with self._asked("get") as client:
                    return bytes(obstore.get_range(client, self._key, start=found.size - size, length=size))
            with self._asked("get") as client:
                return bytes(obstore.get(client, self._key, options={"range": {"suffix": size}}).bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            if "InvalidRange" not in str(error.strerror):
                raise
        return self.read()  # some stores refuse a range that is longer than the object

    def _listed(self) -> Any:
        with self._asked("list") as client:
            return obstore.list_with_delimiter(client, self._key)


class _Upload:
    """A file that is encoded in memory and put at its end."""

    def __init__(self, place: RemotePlace) -> None:
        self._place = place
        self.sink = pa.BufferOutputStream()

    def finish(self, *, durable: bool = True) -> int:
        content = self.sink.getvalue()
        self._place._put(memoryview(content).cast("B"))
        return int(content.size)

    def discard(self) -> None:
        self.sink = pa.BufferOutputStream()


def _name(path: str) -> str:
    return path.rpartition("/")[2]
